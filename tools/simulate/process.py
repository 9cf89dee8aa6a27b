"""A process of a simulated world: a consumer, the application around it, and its machine.

Its machine has clocks of its own and a disk. What it notes goes into the history.
"""

from __future__ import annotations

import asyncio
import errno
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import attrs
from attrs import define, field
from tools.simulate.applications import AS_LISTS, IN_LOOPS, THREADED, UNORDERED, WORK_S
from tools.simulate.history import Called, Committed, Given
from tools.simulate.listeners import listeners

from kafka_marshal import AsyncConsumer, Claiming, Consumer, Lost, MarshalError, Observer
from kafka_marshal.authentication import Keyring
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.errors import BrokerFailed, ConsumerClosed
from kafka_marshal.testing.in_memory import ScheduledEventLoop, ScheduledThread, Scheduler
from kafka_marshal.testing.in_memory.clock import ClockBeside

if TYPE_CHECKING:
    from tools.simulate.world import World

WORKS: Final = 0.05
"""How often processing a message takes time."""


class Broke(Exception):
    """The application failed at a message."""


@define(eq=False)
class Process:
    """A consumer, and the application around it."""

    name: str
    client_id: str
    way: str
    world: World
    scheduler: Scheduler
    keyring: Keyring | None = None
    """The keys that it was started with."""
    keys: int = 0
    """How often they had been changed by then."""
    snapshot: Path | None = None
    """The file that it puts the log's state aside in."""
    observers: list[Observer] = field(init=False)
    thread: ScheduledThread | None = None
    consumer: Consumer | None = None
    slow_s: float = 0.0
    """What processing a message takes longer for now."""
    raises: bool = False
    """Processing fails for now."""
    stopping: bool = False
    """It was asked to end."""
    stop_returned: bool = False
    """Its consumer's `stop` has returned: until then it may give out messages."""
    paused: set[tuple[str, int, int]] = field(factory=set)
    """Tenures that the one `pause` under way has paused."""
    pauses: bool = False
    """A `pause` is under way."""
    in_hand: Counter[tuple[Any, ...]] = field(factory=Counter)
    """How many messages of a tenure, and of a lane of it, were begun and are not finished."""
    date: ClockBeside = field(init=False)
    """Its machine's date, which may be set, and drift."""
    uptime: ClockBeside = field(init=False)
    """How much its monotonic clock is ahead of the true time."""
    files: int = 0
    """How many files it has open."""

    def __attrs_post_init__(self) -> None:
        self.date = ClockBeside(of=self.scheduler.clock)
        self.uptime = ClockBeside(of=self.scheduler.clock)
        self.observers = listeners(self)

    def runs(self) -> None:
        """Its first thread."""
        try:
            if self.way in THREADED:
                self._in_threads()
            else:
                self._in_loop()
        except ConsumerClosed as error:  # it was closed before it had ended by itself
            closed = self.consumer is not None and self.consumer.delivery.closed and self.stopping
            self.world.ended(self, "" if closed else f"{type(error).__name__}: {error}")
        except (MarshalError, Broke) as error:
            self.world.ended(self, f"{type(error).__name__}: {error}")
        else:
            self.world.ended(self, "")

    @property
    def settings(self) -> Settings:
        """The cluster, its machine's clocks and its disk."""
        settings = self.world.kafka.settings()
        clock, uptime = self.scheduler.clock, self.uptime
        environment = attrs.evolve(
            settings.environment,
            monotonic=lambda: clock.monotonic() + uptime.date_ahead_s,
            unix_ms=self.date.unix_ms,
            open_file=self._open_file,
        )
        return attrs.evolve(settings, environment=environment)

    def _options(self) -> dict[str, Any]:
        world, setting = self.world, self.world.setting
        return {
            "settings": self.settings,
            "group_id": "g",
            "client_id": self.client_id,
            "semantics": setting.semantics,
            "heartbeat_interval_s": setting.heartbeat_interval_s,
            "window": setting.window,
            "batch": setting.batch,
            "claiming": Claiming(reclaim_delay_ms=int(1000 * setting.reclaim_delay_s)),
            "on_claimed": partial(self.called, "claimed"),
            "on_lost": partial(self.called, "lost"),
            "on_drained": partial(self.called, "drained"),
            "observers": self.observers,
            "record_to": world.record_to,
            "snapshot": self.snapshot,
            "keyring": self.keyring,
            "require_authentic": setting.signing == "required",
        }

    def _in_threads(self) -> None:
        with Consumer(**self._options()) as consumer:
            self.consumer = consumer
            consumer.subscribe(self.world.setting.topics)
            THREADED[self.way](consumer, self)
            if self.stopping:  # a call after `stop` does nothing, and is no error
                try:
                    consumer.subscribe(self.world.setting.topics)
                except BrokerFailed:
                    pass
                except ConsumerClosed:
                    if not consumer.delivery.closed:
                        raise

    def _in_loop(self) -> None:
        async def main() -> None:
            async with AsyncConsumer(**self._options()) as consumer:
                self.consumer = consumer._consumer
                await consumer.subscribe(self.world.setting.topics)
                await IN_LOOPS[self.way](consumer, self)

        loop = ScheduledEventLoop(self.scheduler)
        try:
            loop.run_until_complete(main())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _open_file(self, path: Path, mode: str) -> Any:
        return OpenFile(path.open(mode, encoding="utf-8", newline="\n"), self)

    def tenures(self, topic: str) -> set[tuple[str, int, int]]:
        """What it owns of a topic."""
        claims = self.consumer.claims if self.consumer else ()
        return {(one.topic, one.partition, one.epoch) for one in claims if one.topic == topic}

    @property
    def stopped(self) -> bool:
        """It was asked to end, or its consumer has."""
        return self.stopping or self.consumer is None or self.consumer.delivery.ended

    def takes(self, message: Message) -> None:
        """Process it."""
        with self._begun(message) as given:
            if for_s := self._works_s():
                self.scheduler.sleep(for_s)
            self._processed(given)

    async def takes_in_loop(self, message: Message) -> None:
        """Process it in an event loop."""
        with self._begun(message) as given:
            if for_s := self._works_s():
                await asyncio.sleep(for_s)
            self._processed(given)

    @contextmanager
    def _begun(self, message: Message) -> Iterator[Given]:
        claim = message.claim
        tenure = claim.topic, claim.partition, claim.epoch
        lane = {"run_partition": (*tenure, None), "run_none": (*tenure, message.offset, None)}.get(
            self.way, (*tenure, message.key)
        )
        given = self._given(message, beside=self.way.startswith("run") and self.in_hand[lane] > 0)
        self.in_hand.update((tenure, lane))
        try:
            yield given
        finally:
            self.in_hand.subtract((tenure, lane))

    def committed(self, message: Message) -> None:
        """The commit of this message has returned."""
        claim, now_s = message.claim, self.scheduler.clock.monotonic()
        self.world.history.committed.append(
            Committed(now_s, self.name, claim.topic, claim.partition, claim.epoch, message.offset)
        )

    def _withheld(self, claim: Claim) -> str:
        assert self.consumer is not None
        if self.way in AS_LISTS:
            return ""
        if claim.lost is not None and self.world.setting.at_least_once:
            return "lost"
        if self.stop_returned and self.consumer.delivery.stopped:
            return "stopped"
        tenure = claim.topic, claim.partition, claim.epoch
        return "paused" if tenure in self.paused else ""

    def _given(self, message: Message, *, beside: bool) -> Given:
        assert self.consumer is not None
        claim = message.claim
        given = Given(
            self.scheduler.clock.monotonic(),
            self.name,
            self.consumer.instance_id,
            claim.topic,
            claim.partition,
            claim.epoch,
            message.offset,
            self.way in UNORDERED,
            self.scheduler.current_name,
            self._withheld(claim),
            beside,
        )
        self.world.history.given.append(given)
        return given

    def _works_s(self) -> float:
        chance = self.scheduler.chance
        return self.slow_s or (chance.choice(WORK_S) if chance.random() < WORKS else 0.0)

    def _processed(self, given: Given) -> None:
        history = self.world.history
        if self.raises:
            history.raised.add((self.name, given.where, given.offset))
            raise Broke(f"{given.where} {given.offset}")
        history.processed.append(given)

    def called(self, kind: str, claim: Claim, reason: Lost | None = None) -> None:
        """A callback."""
        self.world.history.called.append(self.noted(kind, claim, reason))

    def noted(self, kind: str, claim: Claim, reason: Lost | None = None) -> Called:
        """What was reported of a claim, by whom, and when."""
        return Called(
            self.scheduler.clock.monotonic(),
            self.name,
            self.consumer.instance_id if self.consumer else "",
            kind,
            claim.topic,
            claim.partition,
            claim.epoch,
            "" if reason is None else reason.value,
            self.in_hand[claim.topic, claim.partition, claim.epoch],
            self.stopping or self.raises or self._failed,
        )

    @property
    def _failed(self) -> bool:
        """Its consumer cannot go on, and gives up what the application has in hand."""
        return self.consumer is not None and self.consumer._coordinator.failure is not None


class OpenFile:
    """A file on a simulated machine's disk, which may be full."""

    def __init__(self, file: IO[str], process: Process) -> None:
        self._file, self._process = file, process
        process.files += 1
        try:
            self._needs_room()
        except OSError:
            self.close()
            raise

    def _needs_room(self) -> None:
        self._process.scheduler.point()
        if self._process.world.disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def write(self, text: str) -> None:
        """Write this."""
        self._needs_room()
        self._file.write(text)

    def writelines(self, lines: Any) -> None:
        """Write all of these."""
        self._needs_room()
        self._file.writelines(lines)

    def flush(self) -> None:
        """What was written is in the file."""
        self._file.flush()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.closed

    def close(self) -> None:
        """Close it."""
        if not self._file.closed:
            self._process.files -= 1
            self._file.close()

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
