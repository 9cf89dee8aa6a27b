"""The properties of `MCRanges.tla`, offset by offset, as the specification has them.

The package judges a step by intervals and by its clock (`kafka_marshal.core.ranges.invariants`).
Here a record may say for itself who was silent, so nothing of that can be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from kafka_marshal import Accepted
from kafka_marshal.core.claims.verdicts import FENCED_WINS
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingPartition
from kafka_marshal.core.ranges.state import OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from model_tests.explorer.ranges import parts
from model_tests.explorer.ranges.environment import EnvironmentOfRanges, StepJudge
from model_tests.explorer.ranges.parts import Built, Landing, Moment
from model_tests.explorer.ranges.parts import RangesState as State
from model_tests.explorer.ranges.world import WorldOfRanges

# --- of a state -----------------------------------------------------------------------------------


def versions_agree(world: WorldOfRanges, state: State) -> bool:
    """Spec: VersionsAgree."""
    claim, older = state.latest.claim, state.latest.older
    names = ("owner_instance", "epoch", "position", "clock_ms", "last_heartbeat_ms")
    return claim is older or all(getattr(claim, n) == getattr(older, n) for n in names)


def _offsets(ranges: Ranges) -> list[range]:
    held = [range(each.from_, each.to) for each in ranges.open]
    return held + [range(each.from_, each.to) for each in ranges.pool]


def ranges_disjoint(world: WorldOfRanges, state: State) -> bool:
    """Spec: RangesDisjoint."""
    every = _offsets(state.latest.ranges)
    return all(each and each.stop <= state.latest.ranges.frontier for each in every) and all(
        not {*one} & {*other} for one, other in combinations(every, 2)
    )


def bounded(world: WorldOfRanges, state: State) -> bool:
    """Spec: Bounded."""
    return state.latest.ranges.intervals <= world.storeys.limits.intervals_max


def at_most_once(world: WorldOfRanges, state: State) -> bool:
    """Spec: AtMostOnce."""
    if not world.at_most:
        return True
    return all(
        parts.says_never(state.said, one, x) or parts.says_never(state.said, other, x)
        for one, other in combinations(state.leases, 2)
        for x in {*one.offsets} & {*other.offsets}
    )


def none_skipped(world: WorldOfRanges, state: State) -> bool:
    """Spec: NoneSkipped."""
    ranges, passed = state.latest.ranges, state.passed
    if world.at_most:
        return True
    if not passed.issuperset(range(state.latest.claim.position)):
        return False
    every = _offsets(ranges)
    return not ranges.has_begun or all(
        x in passed or any(x in each for each in every) for x in range(ranges.frontier)
    )


def reserve_kept(world: WorldOfRanges, state: State) -> bool:
    """Spec: ReserveKept."""
    ranges = state.latest.ranges
    shared = world.at_most and ranges.window == 0
    return not shared or state.passed.issuperset(range(ranges.frontier))


def position_is_low(world: WorldOfRanges, state: State) -> bool:
    """Spec: PositionIsLow."""
    claim, ranges = state.latest.claim, state.latest.ranges
    return not ranges.has_begun or world.at_most or claim.position <= ranges.low


def window_holds(world: WorldOfRanges, state: State) -> bool:
    """Spec: WindowHolds."""
    claim, ranges = state.latest.claim, state.latest.ranges
    return ranges.window is None or ranges.frontier <= claim.position + ranges.window


def reprocessing_bound(world: WorldOfRanges, state: State) -> bool:
    """Spec: ReprocessingBound, MayBeProcessed."""
    if world.at_most:
        return True
    pairs = {
        (x, lease.id)
        for lease in state.leases
        for x in lease.offsets
        if not parts.says_never(state.said, lease, x)
    }
    return len(pairs) - len({x for x, _ in pairs}) <= state.repeatable


def set_position_sticks(world: WorldOfRanges, state: State) -> bool:
    """Spec: SetPositionSticks."""
    claim, ranges = state.latest.claim, state.latest.ranges
    if state.set_at is None:
        return True
    begins = not ranges.has_begun or (ranges.frontier == state.set_at and not ranges.intervals)
    return claim.position == state.set_at and begins


def begins_at_the_start(world: WorldOfRanges, state: State) -> bool:
    """Spec: BeginsAtTheStart."""
    return all(lease.from_ >= world.start for lease in state.leases)


# --- of a step ------------------------------------------------------------------------------------


def _goes_on(before: Moment, landing: Landing) -> bool:
    """Spec: GoOn."""
    return before.ranges.has_begun and before.ranges.window == landing.after.ranges.window


def frontier_monotone(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: FrontierMonotone."""
    before, after = state.latest.ranges, landing.after.ranges
    return not _goes_on(state.latest, landing) or before.frontier <= after.frontier


def pause_holds(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: PauseHolds."""
    granted = landing.upper.verdict is RangeAccepted.RANGE_GRANTED
    return not granted or state.latest.claim.owned


def _is_done(ranges: Ranges, x: int) -> bool:
    """Spec: DoneIn."""
    below = ranges.has_begun and x < ranges.frontier
    return below and not any(x in each for each in _offsets(ranges))


def _is_free(ranges: Ranges, x: int, granted: int) -> bool:
    """Spec: FreeIn."""
    return any(each.from_ <= x < each.to for each in ranges.pool) or any(
        each.id == granted and each.from_ <= x < each.to for each in ranges.open
    )


def _may_be_freed(
    environment: EnvironmentOfRanges, held: OpenRange, x: int, built: Built, after: Ranges
) -> bool:
    """Spec: MayBeFreed."""
    keep = built.landed.record.range_headers.keep
    if built.sender == held.instance and keep is not None and 0 <= keep <= x:
        return True
    silent = environment.is_silent(after, built.landed, held.instance)
    return after.window is not None and after.window > 0 and silent


def refines_leases(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: RefinesLeases."""
    before, after = state.latest.ranges, landing.after.ranges
    if not _goes_on(state.latest, landing) or before is after:
        return True
    if any(_is_done(before, x) and not _is_done(after, x) for x in range(before.frontier)):
        return False
    granted = built.landed.record.offset
    return all(
        _may_be_freed(environment, held, x, built, after)
        for held in before.open
        for x in range(held.from_, held.to)
        if _is_free(after, x, granted)
    )


def silent_forgotten(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: SilentForgotten."""
    after = landing.after.ranges
    return not landing.counts or all(
        after.open_of(each.instance)
        or each.instance == built.sender
        or not environment.is_silent(after, built.landed, each.instance)
        for each in after.alive
    )


def live_anchor_kept(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: LiveAnchorKept."""
    claims = isinstance(built.landed.record.message, ClaimingPartition)
    if not claims or not _ends_them(state.latest, landing) or not state.latest.claim.owned:
        return True
    return environment.is_stale(state.latest.claim, built.landed)


def live_holder_kept(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: LiveHolderKept."""
    if not landing.counts or environment.world.time_is_free:
        return True
    before, after = state.latest.ranges, landing.after.ranges
    kept = {each.id for each in after.open}
    stale_after_ms = environment.world.storeys.rules.stale_after_ms
    heard = {each.instance: each.ms for each in state.heard}
    return all(
        held.instance == built.sender
        or held.instance not in heard
        or held.id in kept
        or after.clock_ms - heard[held.instance] > stale_after_ms
        for held in before.open
    )


# --- what must be reached -------------------------------------------------------------------------


def nothing_in_the_pool(world: WorldOfRanges, state: State) -> bool:
    """Spec: NothingInThePool."""
    return not state.latest.ranges.pool


def none_granted_again(world: WorldOfRanges, state: State) -> bool:
    """Spec: NoneGrantedAgain."""
    return not any(
        {*one.offsets} & {*other.offsets}
        for one, other in combinations(state.leases, 2)
        if one.id != other.id
    )


def not_two_hold(world: WorldOfRanges, state: State) -> bool:
    """Spec: NotTwoHold."""
    return len({each.instance for each in state.latest.ranges.open}) < 2


def not_all_done(world: WorldOfRanges, state: State) -> bool:
    """Spec: NotAllDone."""
    ranges = state.latest.ranges
    return ranges.frontier == 0 or ranges.intervals > 0


def none_after_an_administrator(world: WorldOfRanges, state: State) -> bool:
    """Spec: NoneAfterAnAdministrator."""
    owners = {moment.claim.owner_instance for moment in state.history}
    return not state.latest.ranges.open or not owners & {*world.admins}


def not_three_hold(world: WorldOfRanges, state: State) -> bool:
    """Spec: NotThreeHold."""
    return len({each.instance for each in state.latest.ranges.open}) < 3


def not_full(world: WorldOfRanges, state: State) -> bool:
    """Spec: NotFull."""
    return state.latest.ranges.intervals < world.storeys.limits.intervals_max


def nothing_granted(world: WorldOfRanges, state: State) -> bool:
    """Spec: NothingGranted."""
    return not state.leases


def no_ranges_after_both(world: WorldOfRanges, state: State) -> bool:
    """Spec: NoRangesAfterBoth."""
    owners = {moment.claim.owner_instance for moment in state.history}
    both = owners & {*world.others} and owners & {*world.admins}
    return not state.latest.ranges.has_begun or not both


def none_taken(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NoneTaken."""
    kept = {each.id for each in landing.after.ranges.open}
    return not landing.counts or all(
        each.instance == built.sender or each.id in kept for each in state.latest.ranges.open
    )


def _ends_them(before: Moment, landing: Landing) -> bool:
    """The last record ended the ranges, and no others began. Spec: last.void."""
    return before.ranges.has_begun and not landing.after.ranges.has_begun


def no_original_after_ranges(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NoOriginalAfterRanges."""
    owner = landing.after.claim.owner_instance
    return not _ends_them(state.latest, landing) or owner not in environment.world.originals


def no_other_window(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NoOtherWindow."""
    before, after = state.latest.ranges, landing.after.ranges
    return not (before.has_begun and after.has_begun) or before.window == after.window


def no_bad_header_wins(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NoBadHeaderWins."""
    is_bad = built.landed.record.range_headers.window == NOT_DECIMAL
    return not is_bad or landing.upper.verdict not in FENCED_WINS


def nothing_set_after_ranges(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NothingSetAfterRanges."""
    is_set = landing.upper.verdict is Accepted.POSITION_SET
    return not is_set or not any(moment.ranges.has_begun for moment in state.history)


def no_range_goes_on(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NoRangeGoesOn."""
    sleeps = state.latest.ranges.has_begun and not state.latest.claim.owned
    return not sleeps or not landing.after.claim.owned


def nobody_after_ranges(
    environment: EnvironmentOfRanges, state: State, built: Built, landing: Landing
) -> bool:
    """Spec: NobodyAfterRanges."""
    return not _ends_them(state.latest, landing) or not state.latest.claim.owned


StateJudge = Callable[[WorldOfRanges, State], bool]

OF_STATE: Mapping[str, StateJudge] = {
    "VersionsAgree": versions_agree,
    "RangesDisjoint": ranges_disjoint,
    "Bounded": bounded,
    "AtMostOnce": at_most_once,
    "NoneSkipped": none_skipped,
    "ReserveKept": reserve_kept,
    "PositionIsLow": position_is_low,
    "WindowHolds": window_holds,
    "ReprocessingBound": reprocessing_bound,
    "SetPositionSticks": set_position_sticks,
    "BeginsAtTheStart": begins_at_the_start,
    "NothingInThePool": nothing_in_the_pool,
    "NoneGrantedAgain": none_granted_again,
    "NotTwoHold": not_two_hold,
    "NotAllDone": not_all_done,
    "NoneAfterAnAdministrator": none_after_an_administrator,
    "NotThreeHold": not_three_hold,
    "NotFull": not_full,
    "NothingGranted": nothing_granted,
    "NoRangesAfterBoth": no_ranges_after_both,
}
OF_STEP: Mapping[str, StepJudge] = {
    "FrontierMonotone": frontier_monotone,
    "PauseHolds": pause_holds,
    "RefinesLeases": refines_leases,
    "SilentForgotten": silent_forgotten,
    "LiveAnchorKept": live_anchor_kept,
    "LiveHolderKept": live_holder_kept,
    "NoRangeGoesOn": no_range_goes_on,
    "NobodyAfterRanges": nobody_after_ranges,
    "NoneTaken": none_taken,
    "NoOriginalAfterRanges": no_original_after_ranges,
    "NoOtherWindow": no_other_window,
    "NoBadHeaderWins": no_bad_header_wins,
    "NothingSetAfterRanges": nothing_set_after_ranges,
}
JUDGED = {*OF_STATE, *OF_STEP}


def step_judges(promised: Sequence[str]) -> Mapping[str, StepJudge]:
    """Those of a model, for its environment."""
    return {name: judge for name, judge in OF_STEP.items() if name in promised}


class JudgesOfRanges:
    """The properties of one model."""

    def __init__(self, world: WorldOfRanges, promised: Sequence[str]) -> None:
        unknown = {*promised} - JUDGED
        assert not unknown, f"nobody judges {unknown}"
        self._world = world
        self._of_state = [(name, OF_STATE[name]) for name in promised if name in OF_STATE]

    def broken(self, state: State) -> Iterator[str]:
        """The names of the properties that this state breaks, or the step that led to it."""
        if state.broken_by_step is not None:
            yield state.broken_by_step
        for name, holds in self._of_state:
            if not holds(self._world, state):
                yield name
