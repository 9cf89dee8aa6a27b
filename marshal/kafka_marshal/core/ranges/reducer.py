"""`step`: the one function that applies a record to the ranges of a claim.

A claim never depends on its ranges: it is what `kafka_marshal.core.claims` computes from the five
messages. This module defines what those messages do to the ranges: they let ranges begin, continue
and end. `claiming_range` defines what the new message does.
"""

from __future__ import annotations

from typing import Final

from kafka_marshal.core.claims.reducer import step as claim_step
from kafka_marshal.core.claims.verdicts import FENCED_WINS, Accepted, Verdict
from kafka_marshal.core.messages import ClaimingPartition, ClaimingRange, Message
from kafka_marshal.core.ranges.claiming_range import RangeOutcome, claiming_range
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import LIMITS, Limits, Ranges
from kafka_marshal.core.state import FENCED, Claim, Rules
from kafka_marshal.core.values import evolved

NEW_CLAIM: Final = Claim()
"""Before the first old record of the key. Spec: NewClaim."""


def step(
    ranges: Ranges,
    claim: Claim,
    record: RangesRecord,
    rules: Rules = FENCED,
    limits: Limits = LIMITS,
) -> RangeOutcome:
    """Return the next ranges of a claim, and what the record did or the guard that refused it.

    Spec: RangesStep. `claim` is the claim before the record, and `rules` are the fenced ones: the
    original's rules have no ranges. The record must belong to the claim: its key, or a ReleaseGroup
    of its group. Never raises.

    >>> from kafka_marshal.core.ranges.messages import RangeHeaders
    >>> anchor = ClaimingPartition(1, 1700000000, "anchor", "ranges", "g", "events", 0)
    >>> win = RangesRecord(0, 7, 1700000000123, anchor, range_headers=RangeHeaders(window=100))
    >>> ranges = step(Ranges(), Claim(), win).ranges
    >>> claim, _ = claim_outcome(Claim(), win, anchor, FENCED)
    >>> ask = ClaimingRange(1, 1700000000, "i1", "c1", "g", "events", 0, 10)
    >>> outcome = step(ranges, claim, RangesRecord(0, 8, 1700000000124, ask))
    >>> outcome.verdict.value, outcome.ranges.open
    ('range_granted', (OpenRange(id=8, from_=0, to=10, instance='i1'),))
    """
    moved = ranges_clock_advanced(ranges, claim, record)
    message = record.message
    match message:
        case ClaimingRange():
            return claiming_range(moved, claim, record, message, rules, limits)
        case _:
            after, verdict = claim_outcome(claim, record, message, rules)
            return RangeOutcome(after_claim(moved, after, record, verdict), verdict)


def ranges_clock_advanced(ranges: Ranges, claim: Claim, record: RangesRecord) -> Ranges:
    """The ranges at the record's time: every record advances their clock, even a refused one.

    Spec: RangesClockAdvanced. But a ClaimingRange creates no claim: before the first old record of
    the key it has no effect.
    """
    if isinstance(record.message, ClaimingRange) and claim == NEW_CLAIM:
        return ranges
    return evolved(ranges, clock_ms=max(ranges.clock_ms, record.timestamp_ms))


def claim_outcome(
    claim: Claim, record: RangesRecord, message: Message, rules: Rules
) -> tuple[Claim, Verdict]:
    """The claim as every reader computes it, including those that do not know ranges.

    Spec: ClaimOutcome. Keeps: VersionsAgree.
    """
    return claim_step(claim, record.without_ranges(message), rules)


def after_claim(ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict) -> Ranges:
    """The ranges after one of the five messages, given its effect on the claim.

    Spec: AfterClaim. Keeps: AtMostOnce, NoneSkipped, ReserveKept, FrontierMonotone.

    `claim` is the claim after the record. A winner without the header does not know ranges (R9's
    never does). A set position asks to process again what was done. Both end all ranges. While the
    claim has no owner, ranges sleep: a fleet that restarts finds them unchanged.
    """
    window = record.range_headers.window
    if verdict in FENCED_WINS:
        if isinstance(record.message, ClaimingPartition) and window is not None and window >= 0:
            return begun(ranges, claim, window)
        return void(ranges)
    return void(ranges) if verdict is Accepted.POSITION_SET else ranges


def begun(ranges: Ranges, claim: Claim, window: int) -> Ranges:
    """A range tenure begins: with the same window, the ranges continue; otherwise they end.

    Spec: Begun. Keeps: AtMostOnce, RangesDisjoint, FrontierMonotone. Ranges that were cut beyond
    the position at least once must not be granted again at most once, so another window ends them.
    """
    if ranges.window == window:
        return ranges
    return evolved(void(ranges), window=window, frontier=claim.position)


def void(ranges: Ranges) -> Ranges:
    """No ranges any more; only the clock stays. Spec: Void."""
    return Ranges(clock_ms=ranges.clock_ms)
