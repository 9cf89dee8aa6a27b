"""`MCRanges.tla`: what a record does where it lands, by the shipped reducers.

As in `claims.environment`, there is a state for every way to take an action. What a record does to
a claim and to its ranges depends on nothing but the three, and is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_marshal import Accepted, Claim
from kafka_marshal.core.claims.verdicts import FENCED_WINS
from kafka_marshal.core.messages import ClaimingRange, Heartbeat, Record
from kafka_marshal.core.ranges import claiming_range, reducer
from kafka_marshal.core.ranges.state import Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from model_tests.explorer.free_time import Fold, Stored
from model_tests.explorer.ranges import parts
from model_tests.explorer.ranges.parts import Built, Landing, Lease, Leases, Moment, Notes
from model_tests.explorer.ranges.parts import RangesState as State
from model_tests.explorer.ranges.records import ANCHOR, Records
from model_tests.explorer.ranges.world import WorldOfRanges
from model_tests.ranges.from_tla import Landed

FIRST_MS = 2000
"""When the first record lands. Spec: At."""

StepJudge = Callable[["EnvironmentOfRanges", State, Built, Landing], bool]

# --- what a configuration may replace -------------------------------------------------------------


def passed_over(claim: Claim, built: Built) -> Claim:
    """A reader that does not know ClaimingRange skips it. Spec: ClaimOutcome."""
    return claim


def new_leases(
    world: WorldOfRanges, history: Sequence[Moment], built: Built, landing: Landing
) -> Leases:
    """What the record granted, and to whom. Spec: NewLeases."""
    verdict, after = landing.upper.verdict, landing.after
    id_ = built.landed.record.offset
    if verdict is RangeAccepted.RANGE_GRANTED:
        if ((after.ranges.window or 0) > 0) == world.at_most:
            return frozenset()
        held = (each for each in after.ranges.open if each.id == id_)
        return frozenset(Lease(each.id, each.instance, each.from_, each.to) for each in held)
    granted = Accepted.GRANTED if world.at_most else Accepted.REFRESHED
    if verdict is granted and built.sender != ANCHOR:
        before = history[-1]
        lease = Lease(id_, built.sender, before.claim.position, after.claim.position)
        return frozenset({lease})
    return frozenset()


# --- what a record did, for the properties --------------------------------------------------------


def covered(notes: Notes, leases: Leases) -> frozenset[int]:
    """Spec: Covered."""
    return frozenset(
        x for lease in leases for x in lease.offsets if parts.says_done(notes, lease, x)
    )


def ends_ranges(before: Moment, landing: Landing) -> bool:
    """A win without the header, or with another window. Spec: EndsRanges."""
    ranges = landing.upper.ranges
    return landing.upper.verdict in FENCED_WINS and (
        not ranges.has_begun or (before.ranges.has_begun and ranges.window != before.ranges.window)
    )


def given(before: Moment, granted: Leases, landing: Landing) -> frozenset[int]:
    """Who ends the ranges goes on behind everything that was reserved. Spec: Given."""
    passed = {x for lease in granted for x in lease.offsets}
    if ends_ranges(before, landing):
        passed |= {*range(before.claim.position)}
    return frozenset(passed)


def by_another(built: Built, landing: Landing) -> frozenset[int]:
    """Spec: ByAnother."""
    message = built.landed.record.message
    if landing.upper.verdict is not Accepted.REFRESHED or built.sender == ANCHOR:
        return frozenset()
    assert isinstance(message, Heartbeat)
    return frozenset(range(message.offset))


def moves_on(landing: Landing) -> bool:
    """Spec: MovesOn."""
    return landing.upper.verdict is RangeAccepted.RANGE_GRANTED or landing.ground in {
        *(Accepted.REFRESHED, Accepted.GRANTED, Accepted.RELEASED, Accepted.FAST_RECLAIMED)
    }


class EnvironmentOfRanges:
    """The actions of one world."""

    def __init__(
        self, world: WorldOfRanges, step_judges: Mapping[str, StepJudge] | None = None
    ) -> None:
        self.world = world
        self.records = Records(world)
        self._step_judges = step_judges or {}
        self._older = Fold(world.storeys.rules, world.storeys.time_is_free)
        self._moments: dict[tuple[Claim, Ranges, Claim], Moment] = {}
        self._landings: dict[tuple[Moment, Built], Landing] = {}
        self._sets: dict[Any, Any] = {}

    def initial(self) -> State:
        """Spec: Init."""
        first = self.world.first_claim
        begun = self._moment(first, Ranges(), first)
        passed = frozenset(range(self.world.start))
        return State((begun,), frozenset(), frozenset(), passed, 0, None, frozenset())

    def successors(self, state: State) -> list[State]:
        """Every state that can follow, once for each way. Spec: Next."""
        return [self.land(state, built) for built in self.next_records(state)]

    def next_records(self, state: State) -> list[Built]:
        """What may land next, and when."""
        if state.appended >= self.world.log_max:
            return []
        return [
            built
            for step in self.world.steps
            for built in self.records.buildable(state, self.at(state, step))
        ]

    def at(self, state: State, step: int) -> int:
        """Spec: At."""
        clock_ms = state.latest.ranges.clock_ms
        return FIRST_MS if clock_ms < 0 else clock_ms + step

    def land(self, state: State, built: Built) -> State:
        """Spec: Land."""
        before, landing = state.latest, self.landing(state.latest, built)
        is_set = landing.ground is Accepted.POSITION_SET
        granted = new_leases(self.world, state.history, built, landing)
        leases = self._set(frozenset() if is_set else state.leases | granted)
        said = self._set(state.said | built.notes)
        position = landing.after.claim.position
        if is_set:
            passed = frozenset(range(position))
        elif self.world.at_most:
            passed = state.passed | by_another(built, landing) | given(before, granted, landing)
        else:
            passed = state.passed | by_another(built, landing) | self._covered(said, leases)
        return State(
            history=(*state.history, landing.after),
            leases=leases,
            said=said,
            passed=self._set(passed),
            repeatable=0 if is_set else state.repeatable + self.more_repeatable(before, built),
            set_at=position if is_set else None if moves_on(landing) else state.set_at,
            heard=self._heard(state, built, landing),
            broken_by_step=self._broken_by_step(state, built, landing),
        )

    def landing(self, before: Moment, built: Built) -> Landing:
        """Spec: ClaimOutcome, RangesStep."""
        found = self._landings.get((before, built))
        if found is None:
            found = self._landings[before, built] = self._lands(before, built)
        return found

    def _lands(self, before: Moment, built: Built) -> Landing:
        landed, record = built.landed, built.landed.record
        claim, upper = self.world.storeys.step(before.claim, before.ranges, landed)
        message = record.message
        if isinstance(message, ClaimingRange):
            after = self._moment(passed_over(claim, built), upper.ranges, before.older)
            return Landing(after, None, upper)
        theirs = Record(0, record.offset, record.timestamp_ms, message, record.headers)
        stored = Stored(theirs, landed.stale, landed.pause_over)
        older, _ = self._older.step(before.older, stored)
        ground = upper.verdict
        assert not isinstance(ground, RangeAccepted)
        return Landing(self._moment(claim, upper.ranges, older), ground, upper)  # type: ignore[arg-type]

    def is_stale(self, claim: Claim, landed: Landed) -> bool:
        """Spec: IsStale, by the clock that the record has moved."""
        rules, last_ms = self.world.storeys.rules, claim.last_heartbeat_ms
        if self.world.storeys.time_is_free or last_ms is None:
            return landed.stale
        return max(claim.clock_ms, landed.record.timestamp_ms) - last_ms > rules.stale_after_ms

    def is_silent(self, ranges: Ranges, landed: Landed, instance: str) -> bool:
        """Spec: IsSilent."""
        if self.world.storeys.time_is_free:
            return instance in landed.silent
        heard_ms = {each.instance: each.ms for each in ranges.alive}.get(instance)
        return claiming_range.is_silent(ranges, heard_ms, self.world.storeys.rules)

    def more_repeatable(self, before: Moment, built: Built) -> int:
        """Spec: MoreRepeatable, TakenFrom."""
        landing = self.landing(before, built)
        if landing.counts:
            record = built.landed.record
            moved = reducer.ranges_clock_advanced(before.ranges, before.claim, record)
            taken = {
                x
                for each in moved.open
                if each.instance != built.sender
                and self.is_silent(moved, built.landed, each.instance)
                for x in range(max(each.from_, before.claim.position), each.to)
            }
            return len(taken)
        return (before.ranges.window or 0) if ends_ranges(before, landing) else 0

    def _heard(self, state: State, built: Built, landing: Landing) -> frozenset[SignOfLife]:
        if self.world.time_is_free or not built.is_range_message:
            return state.heard
        sign = SignOfLife(built.sender, landing.upper.ranges.clock_ms)
        return frozenset({each for each in state.heard if each.instance != sign.instance} | {sign})

    def _broken_by_step(self, state: State, built: Built, landing: Landing) -> str | None:
        judges = self._step_judges.items()
        return next((name for name, of in judges if not of(self, state, built, landing)), None)

    def _covered(self, said: Notes, leases: Leases) -> frozenset[int]:
        found: frozenset[int] | None = self._sets.get((said, leases))
        if found is None:
            found = self._sets[said, leases] = covered(said, leases)
        return found

    def _set(self, given: frozenset[Any]) -> Any:
        return self._sets.setdefault(given, given)

    def _moment(self, claim: Claim, ranges: Ranges, older: Claim) -> Moment:
        key = (claim, ranges, older)
        found = self._moments.get(key)
        if found is None:
            found = self._moments[key] = Moment(*key)
        return found
