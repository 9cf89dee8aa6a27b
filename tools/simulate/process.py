"""A process of a simulated world: a consumer, the application around it, and its machine.

Its machine has clocks of its own and a disk. What it notes goes into the history.
"""

from __future__ import annotations

import asyncio
import errno
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import attrs
from attrs import define, field
from confluent_kafka import Message as Fetched
from tools.simulate.applications import (
    AS_LISTS,
    IN_LOOPS,
    ONE_BY_ONE,
    THREADED,
    UNORDERED,
    WORK_S,
)
from tools.simulate.history import Called, Committed, Given, NotCommitted, TimedCall
from tools.simulate.interrupts import InterruptedConsumer, Signals
from tools.simulate.listeners import SlowObserver, listeners

from kafka_marshal import (
    AsyncConsumer,
    Claiming,
    ClaimLost,
    Consumer,
    Lost,
    MarshalError,
    Observer,
    OutcomeUnknown,
)
from kafka_marshal.authentication import Keyring
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.fetch.buffers import MessageChunk
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.errors import BrokerFailed, ConsumerClosed
from kafka_marshal.testing.in_memory import ScheduledEventLoop, ScheduledThread, Scheduler
from kafka_marshal.testing.in_memory.clock import ClockBeside

if TYPE_CHECKING:
    from tools.simulate.world import World

WORKS: Final = 0.05
"""How often processing a message takes time."""
LATE: Final = "late"
"""A topic that applications add only after `stop`."""
LOOKS_S: Final = 1.0
"""Within this time a consumer that runs has looked what it may give out."""


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
    signals: Signals = field(init=False)
    """What its application's calls are interrupted by."""
    thread: ScheduledThread | None = None
    consumer: Consumer | None = None
    slow_s: float = 0.0
    """What processing a message takes longer for now."""
    takes_s: float = 0.0
    """How long the thread that takes the next chunk stands still when it has it."""
    raises: bool = False
    """Processing fails for now."""
    stopping: bool = False
    """It was asked to end."""
    stop_returned: bool = False
    """Its consumer's `stop` has returned: until then it may give out messages."""
    paused: set[tuple[str, int, int]] = field(factory=set)
    """Tenures that the one `pause` under way has paused."""
    sought: dict[tuple[str, int, int], int] = field(factory=dict)
    """By tenure: below this it has passed over everything, by a `seek` that has returned."""
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
    standing: int = 0
    """How many faults let it, or one of its threads, stand still now."""
    woke_s: float = 0.0
    """When the last of them was over."""
    _at: tuple[Claim, float] | None = None
    """The claim of the message that the application is at, and since when."""
    _turn: tuple[InFlight, float, float] | None = None
    """What is given out, since when, and since when another claim waits."""
    _given_since: list[Given] = field(factory=list)
    """What was given since the last commit of everything."""

    def __attrs_post_init__(self) -> None:
        self.date = ClockBeside(of=self.scheduler.clock)
        self.uptime = ClockBeside(of=self.scheduler.clock)
        self.observers = listeners(self)
        noted = partial(self.world.history.survived.add, self.name)
        self.signals = Signals(self.scheduler, survived=noted)

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
            "bounds": setting.bounds,
            "claiming": Claiming(
                reclaim_delay_ms=int(1000 * setting.reclaim_delay_s),
                claims_max=setting.claims_max,
                transactions_per_s=setting.transactions_per_s,
            ),
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
        with InterruptedConsumer(self.signals, **self._options()) as consumer:
            self._has(consumer)
            consumer.subscribe(self.world.setting.topics)
            for topic in self.world.setting.shared:
                consumer.add_topic(topic, share="ranges")
            THREADED[self.way](consumer, self)
            if self.stop_returned:  # a call after `stop` does nothing, and is no error
                try:
                    consumer.add_topic(LATE)
                except BrokerFailed:
                    pass
                except ConsumerClosed as error:
                    if not consumer.delivery.closed:
                        raise MarshalError("a call after `stop` failed") from error

    def _has(self, consumer: Consumer) -> None:
        self.consumer, take = consumer, consumer._fetcher.take

        def takes(maximum: int, timeout_s: float | None) -> MessageChunk[Claim, Fetched] | None:
            chunk = take(maximum, timeout_s)
            if chunk is not None and self.takes_s:
                for_s, self.takes_s = self.takes_s, 0.0
                self.standing += 1
                self.scheduler.sleep(for_s)
                self.goes_on()
            return chunk

        consumer._fetcher.take = takes  # type: ignore[method-assign]

    def _in_loop(self) -> None:
        async def main() -> None:
            async with AsyncConsumer(**self._options()) as consumer:
                self._has(consumer._consumer)
                await consumer.subscribe(self.world.setting.topics)
                for topic in self.world.setting.shared:
                    add = partial(consumer._consumer.add_topic, topic, share="ranges")
                    await asyncio.to_thread(add)
                await IN_LOOPS[self.way](consumer, self)

        def unheard(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            error = context.get("exception")
            if error is not None and "handle" in context:  # else a task or a future has it
                self.world.history.unhandled.append(
                    f"{self.name}: {context['message']}: {type(error).__name__}: {error}"
                )

        loop = ScheduledEventLoop(self.scheduler)
        loop.set_exception_handler(unheard)
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

    def goes_on(self) -> None:
        """A fault is over that let it stand still."""
        self.standing -= 1
        self.woke_s = self.scheduler.clock.monotonic()

    @property
    def looks(self) -> bool:
        """Its threads had time to see how its claims stand."""
        slow = any(isinstance(each, SlowObserver) for each in self.observers)
        now_s = self.scheduler.clock.monotonic()
        return not self.standing and not slow and now_s > self.woke_s + LOOKS_S

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

    def _lanes(self, message: Message) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        claim = message.claim
        tenure = claim.topic, claim.partition, claim.epoch
        alone = (*tenure, message.offset, None)
        lanes = {"run_partition": (*tenure, None), "run_none": alone, "run_again": alone}
        return tenure, lanes.get(self.way, (*tenure, message.key))

    @contextmanager
    def _begun(self, message: Message) -> Iterator[Given]:
        given = self.gets(message)
        try:
            yield given
        finally:
            self._at = None
            self.in_hand.subtract(self._lanes(message))

    def gets(self, message: Message) -> Given:
        """Have it, and process it later."""
        lanes = self._lanes(message)
        beside = self.way.startswith("run") and self.in_hand[lanes[1]] > 0
        given = self._given(message, beside=beside)
        self.in_hand.update(lanes)
        self._given_since.append(given)
        self._at = message.claim, given.at_s
        return given

    def finishes(self, given: Given, message: Message) -> None:
        """Process what it got before."""
        try:
            if for_s := self._works_s():
                self.scheduler.sleep(for_s)
            self._processed(given)
        finally:
            self.in_hand.subtract(self._lanes(message))

    @contextmanager
    def commits(self, message: Message | None) -> Iterator[None]:
        """A commit of it, or of everything, is waited for within this; it notes the outcome."""
        clock, history = self.scheduler.clock, self.world.history
        began_s, since = clock.monotonic(), self._given_since
        calm = self.world.mended and message is not None and message.claim.lost is None
        if message is None:
            self._given_since = []
        try:
            yield
        except (ClaimLost, OutcomeUnknown) as error:
            if message is not None:
                took_s, lost = clock.monotonic() - began_s, message.claim.lost
                history.not_committed.append(
                    NotCommitted(
                        self.name,
                        str(message),
                        type(error).__name__,
                        took_s,
                        "" if lost is None else lost.value,
                        calm,
                    )
                )
            raise
        now_s = clock.monotonic()
        if message is not None:
            claim = message.claim
            done = {(claim.topic, claim.partition, claim.epoch): message.offset}
        else:
            done = {(one.topic, one.partition, one.epoch): one.offset for one in since}
        for key, at in done.items():
            committed = Committed(now_s, self.name, *key, at)
            if key[0] in self.world.setting.shared:
                history.committed_of_ranges.append((len(history.log), committed))
            else:
                history.committed.append(committed)

    @contextmanager
    def waits(self, what: str, timeout_s: float) -> Iterator[None]:
        """A call that returns in this time is under way within this."""
        clock, calm = self.scheduler.clock, self.world.mended
        began_s = clock.monotonic()
        yield
        if calm:
            took_s = clock.monotonic() - began_s
            self.world.history.calls.append(TimedCall(self.name, what, timeout_s, took_s))

    def miscounted(self) -> Iterator[str]:
        """What its buffers count otherwise than they hold it."""
        assert self.consumer is not None
        buffers = self.consumer._fetcher._buffers
        of = list(buffers._buffers.values())
        held = [sum(len(each.messages) for each in one.fetched) for one in of]
        sizes = [sum(each.bytes or 0 for each in one.fetched) for one in of]
        counted = [(one.messages, one.bytes) for one in of]
        found = [*zip(held, sizes, strict=True)]
        if counted != found:
            yield f"{self.name}: buffers count {counted}, and hold {found}"
        if (buffers._messages, buffers._bytes) != (sum(held), sum(sizes)):
            in_all = buffers._messages, buffers._bytes
            yield f"{self.name}: buffers count {in_all} in all, and hold {sum(held), sum(sizes)}"

    def _withheld(self, message: Message) -> str:
        assert self.consumer is not None
        claim = message.claim
        if self.way in AS_LISTS:
            return ""
        at_least_once = self.world.setting.at_least_once
        if claim.lost is not None and at_least_once:
            return "lost"
        if at_least_once and self._silent(claim):
            return "silent"
        if self.stop_returned and self.consumer.delivery.stopped:
            return "stopped"
        tenure = claim.topic, claim.partition, claim.epoch
        if message.offset < self.sought.get(tenure, 0):
            return "passed over"
        return "paused" if tenure in self.paused else ""

    def _silent(self, claim: Claim) -> bool:
        """Its last heartbeat that was read back is so old that others may take it."""
        assert self.consumer is not None
        tenure = self.consumer._coordinator.ownership._tenures.any_of(claim)
        if tenure is None or not self.looks:
            return False
        now_ms = self.consumer._environment.steady_ms()
        silent_ms = tenure.watched.heartbeats.silent_ms(now_ms)
        return silent_ms > self.world.setting.rules.stale_after_ms + 1000 * LOOKS_S

    def _turn_s(self, claim: Claim, now_s: float) -> float:
        """For how long this claim has had its turn while another one waited."""
        assert self.consumer is not None
        if self.way not in ONE_BY_ONE or not self.looks:
            self._turn = None
            return 0.0
        tenure = self.consumer._coordinator.ownership._tenures.any_of(claim)
        buffers = self.consumer._fetcher._buffers
        waits = tenure is not None and buffers.ready_beside(tenure.fetched)
        in_flight, before = self.consumer.delivery.in_flight, self._turn
        if in_flight is None:
            return 0.0
        since_s, waits_s = now_s, math.inf
        if before is not None and before[0] is in_flight:
            _, since_s, waits_s = before
        waits_s = min(waits_s, now_s) if waits else math.inf
        self._turn = in_flight, since_s, waits_s
        return max(0.0, now_s - max(since_s, waits_s))

    def called_wedged(self, claim: Claim) -> None:
        """It is a mistake where the application is busy with another claim, and not with this."""
        if self._at is None or self.way not in ONE_BY_ONE or not self.looks or self.pauses:
            return
        other, since_s = self._at
        waits = other is not claim and not self.in_hand[claim.topic, claim.partition, claim.epoch]
        busy = other.owned and not other.silent
        now_s = self.scheduler.clock.monotonic()
        if waits and busy and now_s > since_s + LOOKS_S:
            self.world.history.wedged.append(
                f"{self.name}: {(claim.topic, claim.partition)} was called wedged, and the "
                f"application had {(other.topic, other.partition)} in hand for "
                f"{now_s - since_s:.1f} s"
            )

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
            self._withheld(message),
            beside,
            self._turn_s(claim, self.scheduler.clock.monotonic()),
            claim.range,
        )
        history = self.world.history
        (history.given if claim.range is None else history.given_of_ranges).append(given)
        return given

    def _works_s(self) -> float:
        chance = self.scheduler.chance
        return self.slow_s or (chance.choice(WORK_S) if chance.random() < WORKS else 0.0)

    def _processed(self, given: Given) -> None:
        history = self.world.history
        if self.raises:
            history.raised.add((self.name, given.where, given.offset))
            raise Broke(f"{given.where} {given.offset}")
        done = history.processed if given.range is None else history.processed_of_ranges
        done.append(given)

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
