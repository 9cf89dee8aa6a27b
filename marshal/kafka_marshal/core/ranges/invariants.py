"""The properties of ranges by name, and those that one state or one step can violate.

This room judges a step that has been taken; it does not take it. AtMostOnce, NoneSkipped and
ReserveKept ask what consumers did with their ranges, which is no part of the state. The
specification judges them, and the explorer of the model tests.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

from kafka_marshal.core.claims.invariants import NamedProperty, Property
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.core.state import Claim, Rules
from kafka_marshal.core.values import value


class RangesProperty(NamedProperty):
    """What is promised of a claim that is shared, beside what is promised of every claim."""

    VERSIONS_AGREE = (
        "VersionsAgree",
        "Readers that know ranges and readers that do not compute the same claim.",
    )
    RANGES_DISJOINT = (
        "RangesDisjoint",
        "No offset lies in two ranges, or in one and in the pool, and none beyond the frontier.",
    )
    BOUNDED = "Bounded", "A claim has no more open ranges and intervals than it may."
    RESERVE_KEPT = (
        "ReserveKept",
        "At most once: as long as all share, nothing that was reserved is passed over.",
    )
    POSITION_IS_LOW = (
        "PositionIsLow",
        "At least once: the position is no higher than the lowest offset that is not done.",
    )
    WINDOW_HOLDS = "WindowHolds", "The frontier is at most a window ahead of the position."
    FRONTIER_MONOTONE = "FrontierMonotone", "The frontier never falls while there are ranges."
    REFINES_LEASES = (
        "RefinesLeases",
        "Each offset is a lease: free, held, done; held gets free only by its holder, or if that "
        "was silent.",
    )
    BEGINS_AT_THE_START = (
        "BeginsAtTheStart",
        "A claim is shared only once it has a position, so no range lies before the data.",
    )
    LIVE_ANCHOR_KEPT = (
        "LiveAnchorKept",
        "A claim ends ranges only where nobody owns, or the anchor is silent.",
    )
    SILENT_FORGOTTEN = (
        "SilentForgotten",
        "After a request, nobody is remembered that holds nothing and is silent.",
    )
    LIVE_HOLDER_KEPT = (
        "LiveHolderKept",
        "Nobody loses a range to another that was heard within two intervals.",
    )


@value
class RangesStep:
    """One step that was taken of a claim and its ranges."""

    ranges: Ranges
    """Before the record."""
    claim: Claim
    """Before the record."""
    record: RangesRecord
    outcome: RangeOutcome
    claim_after: Claim
    rules: Rules
    limits: Limits

    @property
    def go_on(self) -> bool:
        """The ranges went on, and did not begin anew. Spec: GoOn."""
        before, after = self.ranges, self.outcome.ranges
        return before.has_begun and before.window == after.window


StepCheck: TypeAlias = Callable[[RangesStep], bool]


def ranges_disjoint(step: RangesStep) -> bool:
    """Spec: RangesDisjoint. As long as it holds every interval fits between its neighbours."""
    after = step.outcome.ranges
    held = [Interval(each.from_, each.to) for each in after.open]
    every = sorted([*held, *after.pool], key=lambda each: each.from_)
    return all(each.from_ < each.to <= after.frontier for each in every) and all(
        one.to <= other.from_ for one, other in pairwise(every)
    )


def bounded(step: RangesStep) -> bool:
    """Spec: Bounded."""
    return step.outcome.ranges.intervals <= step.limits.intervals_max


def window_holds(step: RangesStep) -> bool:
    """Spec: WindowHolds."""
    after = step.outcome.ranges
    return after.window is None or after.frontier <= step.claim_after.position + after.window


def frontier_monotone(step: RangesStep) -> bool:
    """Spec: FrontierMonotone."""
    return not step.go_on or step.ranges.frontier <= step.outcome.ranges.frontier


def versions_agree(step: RangesStep) -> bool:
    """A ClaimingRange leaves the claim as it was. Spec: VersionsAgree."""
    return not isinstance(step.record.message, ClaimingRange) or step.claim_after == step.claim


def granted_if_owned(step: RangesStep) -> bool:
    """In a pause nobody owns, and nothing is granted. Spec: PauseHolds, of MCRanges."""
    return step.outcome.verdict is not RangeAccepted.RANGE_GRANTED or step.claim.owned


def _holder(ranges: Ranges, offset: int) -> OpenRange | None:
    return next((each for each in ranges.open if each.from_ <= offset < each.to), None)


def _in_pool(ranges: Ranges, offset: int) -> bool:
    return any(each.from_ <= offset < each.to for each in ranges.pool)


def is_done(ranges: Ranges, offset: int) -> bool:
    """Below the frontier, and nobody's. Spec: DoneIn."""
    below = ranges.has_begun and offset < ranges.frontier
    return below and _holder(ranges, offset) is None and not _in_pool(ranges, offset)


def is_free(ranges: Ranges, offset: int, granted: int) -> bool:
    """In the pool, or granted by the record at this log offset. Spec: FreeIn."""
    holder = _holder(ranges, offset)
    return _in_pool(ranges, offset) or (holder is not None and holder.id == granted)


def may_be_freed(held: OpenRange, offset: int, step: RangesStep) -> bool:
    """Its holder gave it back or, where the position is not ahead of it, was silent.

    Spec: MayBeFreed.
    """
    keep = step.record.range_headers.keep
    if step.record.message.instance_id == held.instance:
        return keep is not None and 0 <= keep <= offset
    clock_ms = max(step.ranges.clock_ms, step.record.timestamp_ms)
    last = max((s.ms for s in step.ranges.alive if s.instance == held.instance), default=None)
    was_silent = last is None or clock_ms - last > step.rules.stale_after_ms
    return offset >= step.claim.position and was_silent


def refines_leases(step: RangesStep) -> bool:
    """What is done stays done, and what is held gets free as it may. Spec: RefinesLeases.

    Nothing changes within an interval of either state, so its first offset speaks for all.
    """
    before, after = step.ranges, step.outcome.ranges
    if not step.go_on:
        return True
    for offset in _edges(before) | _edges(after) | {step.claim.position}:
        if is_done(before, offset) and not is_done(after, offset):
            return False
        held = _holder(before, offset)
        got_free = held is not None and is_free(after, offset, step.record.offset)
        if held is not None and got_free and not may_be_freed(held, offset, step):
            return False
    return True


def _edges(ranges: Ranges) -> set[int]:
    """Where something begins or ends."""
    held = [Interval(each.from_, each.to) for each in ranges.open]
    every = (*held, *ranges.pool)
    return {0, *(each.from_ for each in every), *(each.to for each in every)}


STEP_CHECKS: Final[dict[RangesProperty | Property, StepCheck]] = {
    Property.PAUSE_HOLDS: granted_if_owned,
    RangesProperty.VERSIONS_AGREE: versions_agree,
    RangesProperty.RANGES_DISJOINT: ranges_disjoint,
    RangesProperty.BOUNDED: bounded,
    RangesProperty.WINDOW_HOLDS: window_holds,
    RangesProperty.FRONTIER_MONOTONE: frontier_monotone,
    RangesProperty.REFINES_LEASES: refines_leases,
}
"""What can be judged from one step, by any sender's record."""


def position_is_low(claim: Claim, ranges: Ranges) -> bool:
    """At least once, and only if the anchor says what is done and not more. Spec: PositionIsLow."""
    return not ranges.has_begun or ranges.window == 0 or claim.position <= ranges.low


def broken_by(step: RangesStep) -> list[RangesProperty | Property]:
    """The properties that this step breaks; none, by any sender's record."""
    return [prop for prop, holds in STEP_CHECKS.items() if not holds(step)]
