"""The applications of a simulated world: each consumes in one of the ways that the client has.

An application notes a message when it is given it, and again when it has processed it, before it
says so to the consumer. It does not know which faults there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafka_marshal import ClaimLost, Consumer, OutcomeUnknown
from kafka_marshal.client.message import Message
from kafka_marshal.testing.in_memory import Scheduler

WORK_S: Final = (0.001, 0.02, 0.3)
"""How long it takes to process a message that takes time."""
AT_ONCE: Final = (1, 7, 100)


class Work(Protocol):
    """What an application does with messages, and with whom."""

    @property
    def scheduler(self) -> Scheduler:
        """Whose chance it uses."""

    def takes(self, message: Message) -> None:
        """Process it, which takes a while, and may fail where that is a fault."""


def iterator(consumer: Consumer, work: Work) -> None:
    """A loop over messages, that commits now and then."""
    for message in consumer:
        work.takes(message)
        if work.scheduler.chance.random() < 0.05:
            consumer.commit(message, asynchronous=True)


def poll(consumer: Consumer, work: Work) -> None:
    """One by one; each is acknowledged, and some are committed."""
    chance = work.scheduler.chance
    while not consumer.delivery.ended:
        message = consumer.poll(timeout_s=chance.choice((0.1, 1.0, 5.0)))
        if message is None:
            continue
        work.takes(message)
        if chance.random() < 0.05:
            try:
                consumer.commit(message, timeout_s=5.0)
            except (ClaimLost, OutcomeUnknown):
                continue
        else:
            consumer.ack(message)


def lists(consumer: Consumer, work: Work) -> None:
    """Lists, each done when the next one is asked for."""
    while not consumer.delivery.ended:
        for message in consumer.consume(work.scheduler.chance.choice(AT_ONCE), 1.0):
            work.takes(message)


def batches(consumer: Consumer, work: Work) -> None:
    """A loop over batches."""
    for batch in consumer.batches():
        for message in batch.messages:
            work.takes(message)


def run_partition(consumer: Consumer, work: Work) -> None:
    """Threads, in the order of each partition."""
    consumer.run(work.takes, workers=3, order="partition")


def run_key(consumer: Consumer, work: Work) -> None:
    """Threads, in the order of each key."""
    consumer.run(work.takes, workers=3, order="key")


def run_none(consumer: Consumer, work: Work) -> None:
    """Threads, in no order."""
    consumer.run(work.takes, workers=3, order="none")


WAYS: Final[Mapping[str, Callable[[Consumer, Work], None]]] = {
    each.__name__: each
    for each in (iterator, poll, lists, batches, run_partition, run_key, run_none)
}
UNORDERED: Final = frozenset({"run_key", "run_none"})
"""Ways in which a partition's messages may be processed out of order."""
AT_LEAST_ONCE_ONLY: Final = frozenset({"run_partition", "run_key", "run_none"})
