"""The applications of a simulated world: each consumes in one of the ways that the client has.

An application notes a message when it is given it, and again when it has processed it, before it
says so to the consumer. It does not know which faults there are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, Protocol

from tools.simulate.history import Given

from kafka_marshal import AsyncConsumer, ClaimLost, Consumer, ConsumerClosed, OutcomeUnknown
from kafka_marshal.client.api.consumer import HandlerFailed
from kafka_marshal.client.message import Message
from kafka_marshal.testing.in_memory import Scheduler

WORK_S: Final = (0.001, 0.02, 0.3)
"""How long it takes to process a message that takes time."""
AT_ONCE: Final = (1, 7, 100)
COMMIT_S: Final = 5.0
FAILS: Final = 0.02
"""How often a message fails in an application that goes on after that."""
POLLED_MAX: Final = 5
"""How many messages an application polls before it processes the first of them."""


class PassingFailure(Exception):
    """The application failed at a message, and goes on."""


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

    def gets(self, message: Message) -> Given:
        """Have it, and process it later."""

    def finishes(self, given: Given, message: Message) -> None:
        """Process what it got before."""

    def commits(self, message: Message | None) -> AbstractContextManager[None]:
        """A commit of it, or of everything, is waited for within this; it notes the outcome."""

    def waits(self, what: str, timeout_s: float) -> AbstractContextManager[None]:
        """A call that returns in this time is under way within this."""

    async def takes_in_loop(self, message: Message) -> None:
        """The same in an event loop."""


@contextmanager
def whatever_comes() -> Iterator[None]:
    """A commit may fail: its messages are processed again."""
    with suppress(ClaimLost, OutcomeUnknown):
        yield


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
        timeout_s = chance.choice((0.1, 1.0, 5.0))
        with work.waits("poll", timeout_s):
            message = consumer.poll(timeout_s)
        if message is None:
            continue
        work.takes(message)
        if chance.random() < 0.1:
            with whatever_comes(), work.commits(message):
                consumer.commit(message, timeout_s=COMMIT_S)
        else:
            consumer.ack(message)


def lists(consumer: Consumer, work: Work) -> None:
    """Lists, each done when the next one is asked for."""
    while not work.stopped:
        with work.waits("consume", 1.0):
            messages = consumer.consume(work.scheduler.chance.choice(AT_ONCE), 1.0)
        for message in messages:
            work.takes(message)
    acknowledges(consumer)


def mixed(consumer: Consumer, work: Work) -> None:
    """All ways in turn. What was polled is processed later, and acknowledged one by one.

    When a claim was lost it commits all, which says whether the log has what was done of it.
    """
    chance, polled = work.scheduler.chance, deque[tuple[Given, Message]]()
    last: Message | None = None

    def process(left: int) -> None:
        while len(polled) > left:
            given, message = polled.popleft()
            work.finishes(given, message)
            consumer.ack(message)

    while not work.stopped:
        way = chance.choice(("loop", "poll", "poll", "poll", "list", "all"))
        lost = last is not None and last.claim.lost is not None
        if lost:
            way, last = "all", None
        if way == "loop":  # which may wait for long
            process(0)
            for message in consumer:
                work.takes(message)
                if chance.random() < 0.3:
                    break
        elif way == "poll":
            process(POLLED_MAX - 1)
            if (one := consumer.poll(0.1)) is not None:
                polled.append((work.gets(one), one))
                last = one
        elif way == "list":
            for message in consumer.consume(chance.choice((1, 3)), 0.1):
                work.takes(message)
        else:
            process(0)
            if chance.random() < 0.7 and not lost:
                consumer.ack()
            else:
                with whatever_comes(), work.commits(None):
                    consumer.commit(timeout_s=COMMIT_S)
        process(chance.randint(0, POLLED_MAX))
    process(0)
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


def run_again(consumer: Consumer, work: Work) -> None:
    """Threads. `run` ends at a message that fails, and is called once more."""

    def handle(message: Message) -> None:
        if work.scheduler.chance.random() < FAILS:
            raise PassingFailure
        work.takes(message)

    while not work.stopped:
        try:
            consumer.run(handle, workers=3, order="none", retries=0, timeout_s=5.0)
        except HandlerFailed as failed:
            if not isinstance(failed.__cause__, PassingFailure):
                raise


async def loop(consumer: AsyncConsumer, work: Work) -> None:
    """An event loop over messages, that commits now and then."""
    async for message in consumer:
        await work.takes_in_loop(message)
        if work.scheduler.chance.random() < 0.05:
            with whatever_comes(), work.commits(message):
                await consumer.commit(message, timeout_s=COMMIT_S)


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
    """An event loop with many handlers, in the order of each key; `run` is cancelled at times."""
    chance = work.scheduler.chance
    while not work.stopped:
        with suppress(TimeoutError):
            async with asyncio.timeout(chance.choice((3.0, 30.0, None))):
                await consumer.run(
                    work.takes_in_loop, concurrency=chance.choice((5, 100)), order="key"
                )


THREADED: Final[Mapping[str, Callable[[Consumer, Work], None]]] = {
    each.__name__: each
    for each in (
        iterator,
        poll,
        lists,
        mixed,
        batches,
        run_partition,
        run_key,
        run_none,
        run_again,
    )
}
IN_LOOPS: Final[Mapping[str, Callable[[AsyncConsumer, Work], Coroutine[Any, Any, None]]]] = {
    each.__name__: each for each in (loop, loop_lists, run_loop)
}
WAYS: Final = (*THREADED, *IN_LOOPS)
UNORDERED: Final = frozenset({"run_key", "run_none", "run_again", "run_loop"})
"""Ways in which a partition's messages may be processed out of order."""
AS_LISTS: Final = frozenset({"lists", "batches", "loop_lists", "mixed"})
"""Ways in which an application is given many messages at once."""
ONE_BY_ONE: Final = frozenset({"iterator", "poll", "loop"})
"""Ways in which it has one message at a time."""
INTERRUPTED: Final = frozenset({"iterator", "poll", "lists", "mixed", "batches"})
"""Ways whose calls may be interrupted by what a signal's handler raises."""
AT_LEAST_ONCE_ONLY: Final = frozenset(
    {"run_partition", "run_key", "run_none", "run_again", "run_loop"}
)
