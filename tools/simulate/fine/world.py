"""What the small worlds share: consumers on a Kafka in memory, interrupted between two bytecodes.

A world takes a seed, and may leave out one of the consumer's locks. It keeps a sentence for each
thing that is wrong.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs
from attrs import define, field
from tools.simulate.fine.locks import LeavesOut, Site

from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.testing.in_memory import InMemoryKafka, Interruptions, Scheduler
from kafka_marshal.testing.in_memory import interruptions as rooms


@contextmanager
def logged(found: list[logging.LogRecord]) -> Iterator[None]:
    """Collect the warnings that the client logs meanwhile; nobody else sees them.

    The level that somebody has set does not change the run: each line costs bytecodes.
    """

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    logger, handler = logging.getLogger("kafka_marshal"), Keeps(logging.WARNING)
    before = logger.propagate, logger.level
    logger.propagate, logger.level = False, logging.WARNING
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate, logger.level = before


class Guarded:
    """A client of Kafka that nobody may close under a call, and nobody twice."""

    def __init__(self, client: Any, wrong: list[str]) -> None:
        self._client, self._wrong = client, wrong
        self._calls = 0
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        called = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self._closed:
                raise RuntimeError("it is closed")  # as confluent-kafka's clients do
            self._calls += 1
            try:
                return called(*args, **kwargs)
            finally:
                self._calls -= 1

        return call

    def close(self) -> None:
        """Close it."""
        if self._closed:
            self._wrong.append("a client of Kafka was closed twice")
        if self._calls:
            self._wrong.append("a client of Kafka was closed under a call")
        self._closed = True
        self._client.close()


ROOMS: Final = (*rooms.ROOMS, "kafka_marshal.client.observe.metrics")
"""What is interrupted: also metrics, in a world that gives them a lock of the scheduler."""


@define
class FineWorld:
    """A Kafka in memory, its scheduler, and what was found wrong."""

    seed: int
    without: Site | None = None
    interruptions: Interruptions = field(factory=lambda: Interruptions(rooms=ROOMS))
    scheduler: Scheduler = field(init=False)
    kafka: InMemoryKafka = field(init=False)
    wrong: list[str] = field(factory=list)
    lines: list[logging.LogRecord] = field(factory=list)
    """What consumers logged."""

    def __attrs_post_init__(self) -> None:
        random.seed(self.seed)  # by which the consumer draws its waits before a retry
        self.scheduler = Scheduler(self.seed, interruptions=self.interruptions)
        self.kafka = InMemoryKafka(2, scheduler=self.scheduler)

    @property
    def settings(self) -> Settings:
        """What consumers are made with."""
        settings = self.kafka.settings()
        environment = settings.environment

        def guarded(make: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *of, **more: Guarded(make(*of, **more), self.wrong)

        return attrs.evolve(
            settings,
            environment=attrs.evolve(
                environment,
                fetcher=guarded(environment.fetcher),
                log_reader=guarded(environment.log_reader),
                threads=LeavesOut(self.scheduler, self.without),
            ),
        )

    @property
    def digest(self) -> str:
        """Changes with any switch, and with any byte of the log of claims."""
        scheduler = self.scheduler
        log = [self.kafka.records(partition) for partition in range(2)]
        ran = scheduler.switched, scheduler.interrupted, scheduler.clock.ahead_s, log, self.wrong
        return hashlib.sha256(repr(ran).encode()).hexdigest()

    def begin(self, process: str, name: str, run: Callable[[], object]) -> Any:
        """Start a thread of a process; an error that ends it is wrong, but for what is expected."""

        def guarded() -> None:
            try:
                run()
            except Exception as error:
                self.wrong.append(f"{name}: {type(error).__name__}: {error}")

        return self.scheduler.start(guarded, name, process)


def judged(world: FineWorld, run: Callable[[], None]) -> list[str]:
    """Run it, and end every thread; what was wrong, each once."""
    with logged(world.lines):
        try:
            run()
        except Exception as error:
            world.wrong.append(f"{type(error).__name__}: {error}")
        finally:
            world.scheduler.close()
    for line in world.lines:
        if line.exc_info:
            world.wrong.append(f"{line.getMessage()}: {line.exc_info[1]!r}")
    return [*dict.fromkeys(world.wrong)]
