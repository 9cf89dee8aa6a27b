"""`Interval.tla`, action by action, over the reducer and `machines.consumer.intervals`.

As in `claims.environment`, an action yields a state for every way to take it. Who owns what is
`step`'s word under each instance's own rules. Who yields, and who is held back, is the package's.
What lands, and who comes and goes, is here.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any, NamedTuple

import attrs
from attrs import frozen

from kafka_marshal import (
    FENCED,
    Claim,
    ClaimingPartition,
    ClaimKey,
    Headers,
    Heartbeat,
    Record,
    ReleasingPartition,
    Rules,
    step,
)
from kafka_marshal.core.messages import Message, Offset, Partition
from kafka_marshal.machines.consumer.intervals import Intervals
from kafka_marshal.modelcheck.models import Model
from model_tests.explorer import configuration
from model_tests.explorer.claims import world

TICK_MS = 1000


@frozen
class WorldOfIntervals:
    """Who takes part and how much of it there is. Spec: World; fields are the specification's."""

    interval_of: tuple[int, ...]
    up: frozenset[int]
    keys: int
    messages: int
    log_max: int
    now_max: int
    crashes_max: int
    stops: bool
    wins_say: bool
    rule: bool


class Sent(NamedTuple):
    """A record, under way or appended. Spec: Record."""

    kind: type[Message]
    by: int
    key: int
    position: int = 0
    epoch: int | None = None
    at: int = 0


class IntervalState(NamedTuple):
    """Spec: vars. Instances count from 0."""

    records: tuple[Sent, ...]
    now: int
    mode: tuple[str, ...]
    began: tuple[int, ...]
    view: tuple[int, ...]
    sending: tuple[Sent | None, ...]
    processed: tuple[frozenset[tuple[int, int]], ...]


@frozen
class Read:
    """What one that judges by an interval knows when it has read these records."""

    claims: tuple[Claim, ...]
    yields: bool
    """Whether it yields at the last of them, if that is news to it. Spec: Yields."""
    until_ms: int | None
    """Before this it is held back. Spec: HeldBack."""


class EnvironmentOfIntervals:
    """The actions of one world."""

    def __init__(self, given: WorldOfIntervals) -> None:
        self.world = given
        self.numbers = range(len(given.interval_of))
        self.read = functools.cache(self._read)

    def initial(self) -> IntervalState:
        """Spec: Init."""
        modes = tuple("up" if i in self.world.up else "down" for i in self.numbers)
        zeros = (0,) * len(self.numbers)
        nothing = (None,) * len(self.numbers)
        return IntervalState((), 1, modes, zeros, zeros, nothing, (frozenset(),) * len(zeros))

    def successors(self, state: IntervalState) -> list[IntervalState]:
        """Every state that can follow, once for each way. Spec: Next."""
        found: list[IntervalState] = []
        if state.now < self.world.now_max:
            found.append(state._replace(now=state.now + 1))
        for i in self.numbers:
            found += self.comes_or_goes(state, i)
            found += self.lands(state, i)
            if state.mode[i] == "up":
                found += self.reads(state, i)
                for key in range(self.world.keys):
                    found += self.sends(state, i, key)
        return found

    def comes_or_goes(self, state: IntervalState, i: int) -> Iterator[IntervalState]:
        """Spec: Join, Crash."""
        if state.mode[i] == "down":
            end = len(state.records)
            joined = state._replace(mode=_with(state.mode, i, "up"))
            yield joined._replace(began=_with(state.began, i, end), view=_with(state.view, i, end))
        elif state.mode[i] == "up" and state.mode.count("gone") < self.world.crashes_max:
            yield state._replace(mode=_with(state.mode, i, "gone"))

    def lands(self, state: IntervalState, i: int) -> Iterator[IntervalState]:
        """Spec: Lands."""
        sent = state.sending[i]
        if sent is not None and len(state.records) < self.world.log_max:
            yield state._replace(
                records=(*state.records, sent._replace(at=state.now)),
                sending=_with(state.sending, i, None),
            )

    def reads(self, state: IntervalState, i: int) -> Iterator[IntervalState]:
        """Spec: Read."""
        end = state.view[i] + 1
        if end > len(state.records):
            return
        after = state._replace(view=_with(state.view, i, end))
        known = self.known(state, i, end)
        if self.world.rule and end > state.began[i] and known.yields:
            yield after._replace(mode=_with(state.mode, i, "yielded"))
            return
        granted = self.granted(state, i, end)
        processed = _with(state.processed, i, state.processed[i] | granted)
        yield after._replace(processed=processed)

    def granted(self, state: IntervalState, i: int, end: int) -> frozenset[tuple[int, int]]:
        """Spec: Granted."""
        sent = state.records[end - 1]
        before = self.known(state, i, end - 1).claims[sent.key]
        if sent.kind is not Heartbeat or sent.by != i:
            return frozenset()
        if before.owner_instance != _instance(i) or before.epoch != sent.epoch:
            return frozenset()
        return frozenset((sent.key, n) for n in range(before.position + 1, sent.position + 1))

    def sends(self, state: IntervalState, i: int, key: int) -> Iterator[IntervalState]:
        """Spec: SendClaim, SendHeartbeat, Stop."""
        if state.sending[i] is not None:
            return
        known = self.known(state, i, state.view[i])
        claim = known.claims[key]
        if claim.owner_instance != _instance(i):
            if self.may_ask(state, i, claim, known):
                yield _sends(state, i, Sent(ClaimingPartition, i, key))
            return
        further = claim.position + 1 if claim.position < self.world.messages else 0
        position = max(claim.position, further)
        yield _sends(state, i, Sent(Heartbeat, i, key, position, claim.epoch))
        if self.world.stops:
            released = _sends(state, i, Sent(ReleasingPartition, i, key, 0, claim.epoch))
            yield released._replace(mode=_with(state.mode, i, "gone"))

    def may_ask(self, state: IntervalState, i: int, claim: Claim, known: Read) -> bool:
        """Spec: SendClaim, Dead, HeldBack."""
        now_ms = state.now * TICK_MS
        if state.view[i] != len(state.records):
            return False
        last_ms = claim.last_heartbeat_ms
        if last_ms is not None and now_ms - last_ms <= self.rules(i).stale_after_ms:
            return False
        return not self.world.rule or known.until_ms is None or now_ms >= known.until_ms

    def known(self, state: IntervalState, i: int, end: int) -> Read:
        """What it knows of the first records. Spec: Known, Lineages."""
        return self.read(state.records[:end], self.world.interval_of[i])

    def rules(self, i: int) -> Rules:
        """Those of one instance."""
        return _rules(self.world.interval_of[i])

    def _read(self, records: tuple[Sent, ...], own: int) -> Read:
        claims = [Claim()] * self.world.keys
        intervals = Intervals(own * TICK_MS)
        yields = False
        for offset, sent in enumerate(records):
            record = self.record(sent, offset)
            intervals.read(record)
            yields = intervals.differs(record.timestamp_ms) is not None
            claims[sent.key] = step(claims[sent.key], record, _rules(own))[0]
            says = self.world.wins_say or self.world.interval_of[sent.by] == own
            if sent.kind is ClaimingPartition and claims[sent.key].epoch == offset and says:
                intervals.won(record)
        return Read(tuple(claims), yields, intervals.until_ms)

    def record(self, sent: Sent, offset: int) -> Record:
        """As it lies in the log."""
        who = (1, 0, _instance(sent.by), f"c{sent.by}", *ClaimKey("g", "t", 0)[:2])
        partition, position = Partition(sent.key), Offset(sent.position)
        interval_ms = self.world.interval_of[sent.by] * TICK_MS
        if sent.kind is ClaimingPartition:
            message: Message = ClaimingPartition(*who, partition)
            headers = Headers(True, interval_ms=interval_ms)
        elif sent.kind is Heartbeat:
            message = Heartbeat(*who, partition, position)
            headers = Headers(True, epoch=sent.epoch, interval_ms=interval_ms)
        else:
            message = ReleasingPartition(*who, partition, position)
            headers = Headers(True, epoch=sent.epoch)
        return Record(0, offset, sent.at * TICK_MS, message, headers)


def bounds(model: Model) -> WorldOfIntervals:
    """The world of a model; TLC runs once for the module."""
    cfg = configuration.read(model.cfg)
    return world_of(world.values(model.module)[cfg.substituted["World"]])


def world_of(given: Mapping[str, Any]) -> WorldOfIntervals:
    """The record of TLC; fails if a field is missing or new."""
    up = frozenset(number - 1 for number in given["up"])
    return WorldOfIntervals(**{**given, "interval_of": tuple(given["interval_of"]), "up": up})


class JudgesOfIntervals:
    """The properties of one model."""

    def __init__(self, environment: EnvironmentOfIntervals, names: tuple[str, ...]) -> None:
        self._intervals = environment.world.interval_of
        self._names = names

    def broken(self, state: IntervalState) -> Iterator[str]:
        """The names of the properties that this state breaks."""
        return (name for name in self._names if name in JUDGED and not JUDGED[name](self, state))

    def one_interval_processes(self, state: IntervalState) -> bool:
        """Spec: OneIntervalProcesses."""
        return all(not one & other for one, other in combinations(state.processed, 2))

    def never_yields(self, state: IntervalState) -> bool:
        """Spec: NeverYields."""
        return "yielded" not in state.mode

    def never_changes(self, state: IntervalState) -> bool:
        """Spec: NeverChanges."""
        numbers = range(len(self._intervals))
        return all(
            not state.processed[i]
            or state.mode[j] != "gone"
            or state.records[:1] == ()
            or state.records[0].by != j
            for i in numbers
            for j in numbers
            if self._intervals[i] != self._intervals[j]
        )


JUDGED = {
    "OneIntervalProcesses": JudgesOfIntervals.one_interval_processes,
    "NeverYields": JudgesOfIntervals.never_yields,
    "NeverChanges": JudgesOfIntervals.never_changes,
}


@functools.cache
def _rules(interval: int) -> Rules:
    return attrs.evolve(FENCED, heartbeat_interval_ms=interval * TICK_MS)


def _instance(i: int) -> str:
    return f"i{i}"


def _sends(state: IntervalState, i: int, sent: Sent) -> IntervalState:
    return state._replace(sending=_with(state.sending, i, sent))


def _with(values: tuple[Any, ...], i: int, value: Any) -> tuple[Any, ...]:
    return (*values[:i], value, *values[i + 1 :])
