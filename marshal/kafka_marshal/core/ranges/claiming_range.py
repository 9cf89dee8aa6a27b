"""How a ClaimingRange changes the ranges of its claim.

It reads like `Ranges.tla`: first the guards in the specification's order, each a named refusal;
then the effects in order, each of which returns the next ranges. Nothing here changes the claim,
and it reads only the claim's owner and position.

`window` 0 means at most once: ranges are cut only from what ClaimingMessages has reserved. So the
next owner begins behind every range. With a wider window, at least once, the position stays at the
lowest offset that is not done. There is no flag for the semantics; the window is the only
difference.
"""

from __future__ import annotations

from operator import attrgetter

from kafka_marshal.core.claims.fenced import KNOWN_VERSIONS, header_guard
from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingRange
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import (
    OFFSET_MAX,
    Interval,
    Limits,
    OpenRange,
    Ranges,
    SignOfLife,
)
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, RangeVerdict, Unmet
from kafka_marshal.core.state import Claim, Rules
from kafka_marshal.core.values import evolved, value


@value
class RangeOutcome:
    """The ranges after a ClaimingRange, and the reason. Spec: RangeOutcome."""

    ranges: Ranges
    verdict: RangeVerdict
    guard: Unmet | None = None
    """Why nothing was granted, if offsets were requested."""


def claiming_range(
    ranges: Ranges,
    claim: Claim,
    record: RangesRecord,
    message: ClaimingRange,
    rules: Rules,
    limits: Limits,
) -> RangeOutcome:
    """Grant the sender the next free offsets, and apply the progress that it reports.

    Spec: ClaimingRange. Keeps: RangesDisjoint, Bounded, WindowHolds, RefinesLeases, PauseHolds.

    The clock of `ranges` is already that of the record. A ClaimingRange cannot be stale: it does
    not name the offset to begin at, so a duplicate of it grants the same sender a second range.
    """
    guard = range_guard(ranges, claim, record, message)
    if guard is RangeRefused.NO_RANGE_TENURE and sleeps_alive(ranges, message):
        return RangeOutcome(alive(ranges, message), guard)
    if guard is not None:
        return RangeOutcome(ranges, guard)
    spoken = alive(ranges, message)
    told = given_back(progressed(spoken, record), record, limits)
    return asked(reaped(told, claim, message, rules), claim, record, message, limits)


def sleeps_alive(ranges: Ranges, message: ClaimingRange) -> bool:
    """A holder that sends records while ranges sleep stays alive: it has ranges to lose.

    Spec: SleepsAlive. Others are not remembered, or their number would grow while ranges sleep.
    """
    return ranges.has_begun and bool(ranges.open_of(message.instance_id))


# --- the guards, in order -------------------------------------------------------------------------


def range_guard(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange
) -> RangeRefused | None:
    """The first guard that refuses a ClaimingRange, or None. Spec: RangeGuard."""
    if message.version not in KNOWN_VERSIONS:
        return RangeRefused.UNKNOWN_VERSION
    against = header_guard(record)
    if against is Refused.HEADER_NOT_DECIMAL or range_header_not_decimal(record):
        return RangeRefused.HEADER_NOT_DECIMAL
    if against is not None:
        return RangeRefused.HEADER_FROM_THE_FUTURE
    if no_range_tenure(ranges, claim):
        return RangeRefused.NO_RANGE_TENURE
    if seen_missing(record):
        return RangeRefused.SEEN_MISSING
    return RangeRefused.NEGATIVE_COUNT if message.count < 0 else None


def range_header_not_decimal(record: RangesRecord) -> bool:
    """A header of ranges is not a number, or one that the claim's guards ignore.

    Spec: RangeHeaderNotDecimal. No older version reads this message, so every header is checked.
    """
    headers, more = record.headers, record.range_headers
    return NOT_DECIMAL in (more.window, more.done, more.keep, headers.interval_ms, headers.start)


def no_range_tenure(ranges: Ranges, claim: Claim) -> bool:
    """The claim has no owner, so ranges sleep, or its owner does not share. Spec: NoRangeTenure."""
    return not claim.owned or not ranges.has_begun


def seen_missing(record: RangesRecord) -> bool:
    """It refers to the sender's ranges, but not to which ones. Spec: SeenMissing."""
    speaks = record.range_headers.done is not None or record.range_headers.keep is not None
    return speaks and record.headers.seen is None


# --- the effects, in order ------------------------------------------------------------------------


def alive(ranges: Ranges, message: ClaimingRange) -> Ranges:
    """1. The sender is alive: it was silent, but sends before another consumer asks.

    Spec: Alive. So it keeps its ranges.
    """
    sign = SignOfLife(message.instance_id, ranges.clock_ms)
    others = [each for each in ranges.alive if each.instance != sign.instance]
    return evolved(ranges, alive=tuple(sorted([*others, sign], key=attrgetter("instance"))))


def its_own(range_: OpenRange, record: RangesRecord) -> bool:
    """Whether the record refers to this range: the sender's, and known to it. Spec: ItsOwn."""
    if range_.instance != record.message.instance_id:
        return False  # most are of others
    seen = record.headers.seen
    return seen is not None and range_.id <= seen


def progressed(ranges: Ranges, record: RangesRecord) -> Ranges:
    """2. Everything below `done` in the sender's ranges is processed. Spec: Progressed."""
    done = record.range_headers.done
    if done is None:
        return ranges
    moved = [
        evolved(each, from_=max(each.from_, done)) if its_own(each, record) else each
        for each in ranges.open
    ]
    return evolved(ranges, open=tuple([each for each in moved if each.from_ < each.to]))


def cut(range_: OpenRange, keep: int) -> bool:
    """`keep` lies within the range, so one part stays open. Spec: Cut."""
    return range_.from_ < keep < range_.to


def gives_back(ranges: Ranges, range_: OpenRange, record: RangesRecord, limits: Limits) -> bool:
    """Whether some of this range goes to the pool.

    Spec: GivesBack. Keeps: Bounded. If there is no room for one more interval, a range that would
    be cut in two stays whole; its holder sends `keep` again later.
    """
    keep = record.range_headers.keep
    if keep is None or not its_own(range_, record) or keep >= range_.to:
        return False
    return ranges.intervals < limits.intervals_max if cut(range_, keep) else True


def given_back(ranges: Ranges, record: RangesRecord, limits: Limits) -> Ranges:
    """3. Everything at or above `keep` in the sender's ranges goes to the pool. Spec: GivenBack."""
    keep = record.range_headers.keep
    if keep is None:
        return ranges
    back = [each for each in ranges.open if gives_back(ranges, each, record, limits)]
    kept = (
        evolved(each, to=max(each.from_, keep)) if each in back else each for each in ranges.open
    )
    return evolved(
        ranges,
        open=tuple(each for each in kept if each.from_ < each.to),
        pool=in_order(*ranges.pool, *(Interval(max(each.from_, keep), each.to) for each in back)),
    )


def is_silent(ranges: Ranges, heard_ms: int | None, rules: Rules) -> bool:
    """Whether an instance was silent for *more than* twice the heartbeat interval.

    Spec: ClockSaysSilent. `heard_ms` is its last record; None: it never sent one.
    """
    return heard_ms is None or ranges.clock_ms - heard_ms > rules.stale_after_ms


def reaped(ranges: Ranges, claim: Claim, message: ClaimingRange, rules: Rules) -> Ranges:
    """4. What a silent instance held at or above the position goes to the pool.

    Spec: Reaped. Keeps: AtMostOnce, RefinesLeases. Offsets below the position were reserved at most
    once, and are forgotten, because their holder may still process them.
    """
    never_heard: dict[str, int | None] = {each.instance: None for each in ranges.open}
    heard_ms = never_heard | {each.instance: each.ms for each in ranges.alive}
    gone = {
        instance
        for instance, ms in heard_ms.items()
        if instance != message.instance_id and is_silent(ranges, ms, rules)
    }
    if not gone:
        return ranges
    taken = (
        Interval(max(held.from_, claim.position), held.to)
        for held in ranges.open
        if held.instance in gone
    )
    return evolved(
        ranges,
        open=tuple(each for each in ranges.open if each.instance not in gone),
        pool=in_order(*ranges.pool, *(each for each in taken if each.from_ < each.to)),
        alive=tuple(each for each in ranges.alive if each.instance not in gone),
    )


def in_order(*pool: Interval) -> tuple[Interval, ...]:
    """Intervals by offset, as a pool stores them. They are never merged."""
    return tuple(sorted(pool, key=lambda each: each.from_))


def asked(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, limits: Limits
) -> RangeOutcome:
    """5. The lowest interval of the pool, whole; otherwise the next offsets behind the frontier.

    Spec: Asked. Keeps: RangesDisjoint, Bounded, WindowHolds. Any sender may take from the pool,
    even with the maximum of open ranges: a limit would starve messages behind ranges that wait.
    """
    if message.count == 0:
        return RangeOutcome(ranges, RangeAccepted.RANGE_REFRESHED)
    if ranges.pool:
        return RangeOutcome(from_pool(ranges, record), RangeAccepted.RANGE_GRANTED)
    if too_many_open(ranges, message, limits):
        return RangeOutcome(ranges, RangeAccepted.RANGE_REFRESHED, Unmet.TOO_MANY_OPEN)
    if window_full(ranges, claim, limits):
        return RangeOutcome(ranges, RangeAccepted.RANGE_REFRESHED, Unmet.WINDOW_FULL)
    granted = from_frontier(ranges, claim, record, message, limits)
    return RangeOutcome(granted, RangeAccepted.RANGE_GRANTED)


def frontier_max(ranges: Ranges, claim: Claim) -> int:
    """The highest possible frontier: a window ahead of the position, and at most `OFFSET_MAX`."""
    return min(claim.position + (ranges.window or 0), OFFSET_MAX)


def at_the_frontier(
    ranges: Ranges, claim: Claim, message: ClaimingRange, limits: Limits
) -> Interval:
    """The offsets behind the frontier that a request would get. Spec: AtTheFrontier."""
    wanted = ranges.frontier + min(message.count, limits.range_messages_max)
    return Interval(ranges.frontier, min(wanted, frontier_max(ranges, claim)))


def too_many_open(ranges: Ranges, message: ClaimingRange, limits: Limits) -> bool:
    """Whether the sender has as many open ranges as allowed. Spec: TooManyOpen."""
    return len(ranges.open_of(message.instance_id)) >= limits.open_ranges_max


def window_full(ranges: Ranges, claim: Claim, limits: Limits) -> bool:
    """Whether there is no room ahead of the position, or for another interval. Spec: WindowFull."""
    return (
        ranges.frontier >= frontier_max(ranges, claim) or ranges.intervals >= limits.intervals_max
    )


def holding(ranges: Ranges, interval: Interval, record: RangesRecord) -> Ranges:
    """The interval belongs to the sender from now on, under the record's offset. Spec: Holding."""
    held = OpenRange(record.offset, interval.from_, interval.to, record.message.instance_id)
    return evolved(ranges, open=(*ranges.open, held))


def from_pool(ranges: Ranges, record: RangesRecord) -> Ranges:
    """The lowest interval of the pool, whole. Spec: FromPool, InPool."""
    lowest, *others = ranges.pool
    return holding(evolved(ranges, pool=tuple(others)), lowest, record)


def from_frontier(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, limits: Limits
) -> Ranges:
    """A range that no consumer held before; the frontier moves behind it. Spec: FromFrontier."""
    interval = at_the_frontier(ranges, claim, message, limits)
    return holding(evolved(ranges, frontier=interval.to), interval, record)
