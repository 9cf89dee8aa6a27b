"""How many records a fleet that shares a partition writes: the shipped machine on virtual time.

There is no Kafka here, no thread and no clock: participants are driven directly, over one log in
memory whose records arrive a fixed time after they are sent. So the count is exact and the same on
every machine. How much processor time a record costs is not to be seen here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

import attrs

from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.state import FENCED, ClaimKey
from kafka_marshal.machines.ranges.driver import Identity, ParticipantDriver, RangesTiming
from kafka_marshal.machines.ranges.effects import Effect, SendRecord

KEY: Final = ClaimKey("g", "events", 0)
LOG_AHEAD_MS: Final = 1_700_000_000_000
CHUNK_MS: Final = 10
"""The work that is begun and finished at once, so that a second has few events."""
LOOK_MS: Final = 50
"""Between two looks at the data topic's end."""


@attrs.frozen
class Setting:
    """One fleet and its topic."""

    window: int
    """0 is at most once."""
    participants: int = 16
    per_s: int = 160_000
    """Messages that come, and that the fleet can handle."""
    trip_ms: int = 5
    """From sending a record until everybody reads it."""
    interval_ms: int = 60_000
    settles_s: int = 3
    lasts_s: int = 10


@attrs.frozen
class Written:
    """What came of it."""

    per_s: Mapping[str, float]
    """Records a second, by what they are."""
    handled_per_s: float


class Fleet:
    """Participants that work without a pause, and their log."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.now_ms = 0
        self.handled = 0
        self.written: Counter[str] = Counter()
        self._log: list[tuple[RangesRecord, FoldedState | None]] = []
        self._order = count()
        self._plans: list[tuple[int, int, Callable[[], None]]] = []
        self._rules = attrs.evolve(FENCED, heartbeat_interval_ms=setting.interval_ms)
        self._members = [_Member(self, number) for number in range(setting.participants)]
        for member in self._members:
            self.at(0, member.look)
            self.at(0, member.work)

    @property
    def end(self) -> int:
        """The data topic's end."""
        return self.now_ms * self.setting.per_s // 1_000

    def driver(self, number: int) -> ParticipantDriver:
        """A participant's machine."""
        timing = RangesTiming(heartbeat_every_ms=self.setting.interval_ms // 2)
        me = Identity(f"i{number}", f"c{number}")
        return ParticipantDriver(me, KEY, self.setting.window, 0, self._rules, timing)

    def at(self, at_ms: int, act: Callable[[], None]) -> None:
        """Plan it."""
        heapq.heappush(self._plans, (at_ms, next(self._order), act))

    def send(self, sent: SendRecord) -> None:
        """Append it; everybody reads it a little later."""

        def land() -> None:
            record = RangesRecord(
                *(0, len(self._log), LOG_AHEAD_MS + self.now_ms, sent.message),
                *(sent.headers, sent.range_headers),
            )
            self._log.append((record, sent.checkpoint))
            self.written[_kind(sent)] += 1
            for member in self._members:
                member.read(record, sent.checkpoint)

        self.at(self.now_ms + self.setting.trip_ms, land)

    def pass_s(self, seconds: int) -> None:
        """Let as much time pass."""
        end_ms = self.now_ms + seconds * 1_000
        while self._plans and self._plans[0][0] <= end_ms:
            self.now_ms, _, act = heapq.heappop(self._plans)
            act()
        self.now_ms = end_ms


class _Member:
    def __init__(self, fleet: Fleet, number: int) -> None:
        self._fleet, self._driver = fleet, fleet.driver(number)
        self._chunk = max(1, fleet.setting.per_s * CHUNK_MS // 1_000 // fleet.setting.participants)
        self._in_hand: tuple[int, int, int] | None = None
        self._timer_ms: int | None = None

    def read(self, record: RangesRecord, checkpoint: FoldedState | None) -> None:
        now_ms = self._fleet.now_ms
        self._do(self._driver.record(record, now_ms, checkpoint))
        self._do(self._driver.caught_up(now_ms))

    def look(self) -> None:
        now_ms = self._fleet.now_ms
        self._do(self._driver.end(self._fleet.end, now_ms))
        self._do(self._driver.caught_up(now_ms))
        self._fleet.at(now_ms + LOOK_MS, self.look)

    def work(self) -> None:
        """Finish what is in hand, and begin the next messages of the lowest range that has some."""
        fleet, driver = self._fleet, self._driver
        if self._in_hand is not None:
            (range_id, first, end), self._in_hand = self._in_hand, None
            fleet.handled += end - first
            self._do(driver.finished(range_id, end - 1, fleet.now_ms))
        took_ms = 1.0
        for held in driver.held:
            end = min(held.to, fleet.end, held.begun + self._chunk)
            if end <= held.begun or driver.may_begin(held.id, end - 1) is not None:
                continue
            self._in_hand = held.id, held.begun, end
            took_ms = CHUNK_MS * (end - held.begun) / self._chunk
            self._do(driver.begun(held.id, end - 1, fleet.now_ms))
            break
        fleet.at(fleet.now_ms + max(1, round(took_ms)), self.work)

    def _do(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendRecord):
                self._fleet.send(effect)
        at_ms = self._driver.next_timer_ms
        if at_ms is not None and at_ms != self._timer_ms:
            self._timer_ms = at_ms
            self._fleet.at(max(at_ms, self._fleet.now_ms + 1), lambda: self._on_timer(at_ms))

    def _on_timer(self, at_ms: int) -> None:
        if self._timer_ms == at_ms:
            self._timer_ms = None
            self._do(self._driver.timer(self._fleet.now_ms))


def _kind(sent: SendRecord) -> str:
    name = type(sent.message).__name__
    if isinstance(sent.message, ClaimingRange):
        return f"{name} that asks" if sent.message.count else f"{name} that reports"
    return name


def records(setting: Setting) -> Written:
    """Records a second, after the fleet has settled."""
    fleet = Fleet(setting)
    fleet.pass_s(setting.settles_s)
    before, handled = Counter(fleet.written), fleet.handled
    fleet.pass_s(setting.lasts_s)
    return Written(
        {
            name: (number - before[name]) / setting.lasts_s
            for name, number in sorted(fleet.written.items())
            if number > before[name]
        },
        (fleet.handled - handled) / setting.lasts_s,
    )
