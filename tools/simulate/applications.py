"""The applications of a simulated world: each consumes in one of the ways that the client has.

An application notes a message when it is given it, and again when it has processed it, before it
says so to the consumer. It does not know which faults there are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from kafka_marshal import AsyncConsumer, ClaimLost, Consumer, ConsumerClosed, OutcomeUnknown
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

    @property
    def stopped(self) -> bool:
        """It was asked to end, or its consumer has."""

    def takes(self, message: Message) -> None:
        """Process it, which takes a while, and may fail where that is a fault."""

    def committed(self, message: Message) -> None:
        """A commit of it has returned."""

    async def takes_in_loop(self, message: Message) -> None:
        """The same in an event loop."""


def acknowledges(consumer: Consumer | AsyncConsumer) -> None:
    """The last list is done, which no further call says."""
    with suppress(ConsumerClosed):
        consumer.ack()


def iterator(consumer: Consumer, work: Work) -> None:
    """A loop over messages, that commits now and then."""
    for message in consumer:
        work.takes(message)
        if work.scheduler.chance.random() < 0.05:
            consumer.commit(message, asynchronous=True)


def poll(consumer: Consumer, work: Work) -> None:
    """One by one; each is acknowledged, and some are committed."""
    chance = work.scheduler.chance
    while not work.stopped:
        message = consumer.poll(timeout_s=chance.choice((0.1, 1.0, 5.0)))
        if message is None:
            continue
        work.takes(message)
        if chance.random() < 0.05:
            with suppress(ClaimLost, OutcomeUnknown):
                consumer.commit(message, timeout_s=5.0)
                work.committed(message)
        else:
            consumer.ack(message)


def lists(consumer: Consumer, work: Work) -> None:
    """Lists, each done when the next one is asked for."""
    while not work.stopped:
        for message in consumer.consume(work.scheduler.chance.choice(AT_ONCE), 1.0):
            work.takes(message)
    acknowledges(consumer)


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


async def loop(consumer: AsyncConsumer, work: Work) -> None:
    """An event loop over messages, that commits now and then."""
    async for message in consumer:
        await work.takes_in_loop(message)
        if work.scheduler.chance.random() < 0.05:
            with suppress(ClaimLost, OutcomeUnknown):
                await consumer.commit(message, timeout_s=5.0)
                work.committed(message)


async def loop_lists(consumer: AsyncConsumer, work: Work) -> None:
    """Lists in an event loop, some of whose waits are cancelled."""
    while not work.stopped:
        with suppress(TimeoutError):
            async with asyncio.timeout(work.scheduler.chance.choice((0.2, 5.0))):
                messages = await consumer.consume(100, 2.0)
            for message in messages:
                await work.takes_in_loop(message)
    acknowledges(consumer)


async def run_loop(consumer: AsyncConsumer, work: Work) -> None:
    """An event loop with many handlers, in the order of each key."""
    await consumer.run(work.takes_in_loop, concurrency=5, order="key")


THREADED: Final[Mapping[str, Callable[[Consumer, Work], None]]] = {
    each.__name__: each
    for each in (iterator, poll, lists, batches, run_partition, run_key, run_none)
}
IN_LOOPS: Final[Mapping[str, Callable[[AsyncConsumer, Work], Coroutine[Any, Any, None]]]] = {
    each.__name__: each for each in (loop, loop_lists, run_loop)
}
WAYS: Final = (*THREADED, *IN_LOOPS)
UNORDERED: Final = frozenset({"run_key", "run_none", "run_loop"})
"""Ways in which a partition's messages may be processed out of order."""
AS_LISTS: Final = frozenset({"lists", "batches", "loop_lists"})
"""Ways in which an application is given many messages at once."""
AT_LEAST_ONCE_ONLY: Final = frozenset({"run_partition", "run_key", "run_none", "run_loop"})
