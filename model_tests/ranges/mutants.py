"""Hand-made mutants of ranges: at least one for each rule of `Ranges.tla`.

Each is a mistake that somebody could make on a tired day. Names are those of the configurations of
`MCRanges` where the same mistake is made there. All of them part from the fold that goes offset by
offset; those that a property forbids name it.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import attrs

from kafka_marshal import Claim, Rules
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.core.claims.verdicts import FENCED_WINS, Accepted, Verdict
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges import claiming_range, reducer
from kafka_marshal.core.ranges.claiming_range import RangeOutcome
from kafka_marshal.core.ranges.invariants import RangesProperty
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from model_tests.mutants.hand_made import HandMade

P, R = Property, RangesProperty
Named = Property | RangesProperty

_guard = claiming_range.range_guard
_claiming_range: Callable[..., RangeOutcome] = claiming_range.claiming_range
_reaped: Callable[..., Ranges] = claiming_range.reaped
_given_back, _asked = claiming_range.given_back, claiming_range.asked
_holding, _after_claim, _begun = claiming_range.holding, reducer.after_claim, reducer.begun


@attrs.frozen
class OfRanges:
    """A mistake, and the properties that must notice it; none: no property forbids it."""

    mistake: HandMade
    breaks: tuple[Named, ...] = ()


MUTANTS: list[OfRanges] = []


def _mutant(*parts: Any, module: ModuleType = claiming_range) -> None:
    """Its name, what is wrong, what is replaced and by what, and the properties that notice."""
    name, about, attribute, instead, *breaks = parts
    assert attribute in vars(module)
    mistake = HandMade(name, about, module, attribute, instead)
    MUTANTS.append(OfRanges(mistake, tuple(breaks)))


def never(*_: object) -> bool:
    return False


def always(*_: object) -> bool:
    return True


def same(ranges: Ranges, *_: object) -> Ranges:
    return ranges


# --- what the five old messages do ----------------------------------------------------------------


def survives_an_exclusive_tenure(
    ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict
) -> Ranges:
    after = _after_claim(ranges, claim, record, verdict)
    return ranges if verdict in FENCED_WINS and not after.has_begun else after


def survives_a_set(ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict) -> Ranges:
    return (
        ranges if verdict is Accepted.POSITION_SET else _after_claim(ranges, claim, record, verdict)
    )


def survives_an_administrator(
    ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict
) -> Ranges:
    """Who pauses wins without the header: only both slips together let ranges outlive a set."""
    after = survives_an_exclusive_tenure(ranges, claim, record, verdict)
    return ranges if verdict is Accepted.POSITION_SET else after


def release_ends_them(
    ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict
) -> Ranges:
    if verdict is Accepted.RELEASED:
        return reducer.void(ranges)
    return _after_claim(ranges, claim, record, verdict)


def pause_ends_them(ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict) -> Ranges:
    if verdict is Accepted.GROUP_RELEASED:
        return reducer.void(ranges)
    return _after_claim(ranges, claim, record, verdict)


def any_header_shares(
    ranges: Ranges, claim: Claim, record: RangesRecord, verdict: Verdict
) -> Ranges:
    window = record.range_headers.window
    if verdict in FENCED_WINS and window is not None:
        return reducer.begun(ranges, claim, window)
    return _after_claim(ranges, claim, record, verdict)


def begins_at_the_position(ranges: Ranges, claim: Claim, window: int) -> Ranges:
    return attrs.evolve(ranges, window=window, frontier=claim.position)


def begins_at_zero(ranges: Ranges, claim: Claim, window: int) -> Ranges:
    return attrs.evolve(ranges, window=window)


def each_tenure_is_new(ranges: Ranges, claim: Claim, window: int) -> Ranges:
    return _begun(reducer.void(ranges), claim, window)


def last_timestamp(ranges: Ranges, claim: Claim, record: RangesRecord) -> Ranges:
    return attrs.evolve(ranges, clock_ms=record.timestamp_ms)


def makes_a_claim(ranges: Ranges, claim: Claim, record: RangesRecord) -> Ranges:
    return attrs.evolve(ranges, clock_ms=max(ranges.clock_ms, record.timestamp_ms))


def goes_on_anyhow(ranges: Ranges, claim: Claim, window: int) -> Ranges:
    if ranges.has_begun:
        return attrs.evolve(ranges, window=window)
    return _begun(ranges, claim, window)


def remembers_anybody(ranges: Ranges, message: ClaimingRange) -> bool:
    return ranges.has_begun


_mutant(
    *("SurviveAnExclusiveTenure", "ranges live through the tenure of one that does not know them"),
    *("after_claim", survives_an_exclusive_tenure, P.AT_MOST_ONCE),
    module=reducer,
)
_mutant(
    *("SurviveASet", "ranges live through an administrator's tenure and its set position"),
    *("after_claim", survives_an_administrator, P.NONE_SKIPPED),
    module=reducer,
)
_mutant(
    *("SetAlone", "only the set position leaves them", "after_claim", survives_a_set),
    module=reducer,
)
_mutant(
    *("ReleaseEndsThem", "a release ends the ranges", "after_claim", release_ends_them),
    module=reducer,
)
_mutant(
    *("PauseEndsThem", "a pause ends the ranges", "after_claim", pause_ends_them),
    module=reducer,
)
_mutant(
    *("AnyHeaderShares", "a header that is not decimal counts", "after_claim", any_header_shares),
    module=reducer,
)
_mutant(
    *("TenureBeginsAtThePosition", "each tenure cuts ranges from the position on"),
    *("begun", begins_at_the_position, R.RANGES_DISJOINT, R.FRONTIER_MONOTONE),
    module=reducer,
)
_mutant(
    *("BeginsAtZero", "ranges begin at 0, and not at the position", "begun", begins_at_zero),
    *(P.AT_MOST_ONCE,),
    module=reducer,
)
_mutant(
    *(
        "EachTenureIsNew",
        "the ranges of the last tenure are forgotten",
        "begun",
        each_tenure_is_new,
    ),
    module=reducer,
)
_mutant(
    *("VoidForgetsTheClock", "the clock begins anew with the ranges"),
    *("void", lambda ranges: Ranges()),
    module=reducer,
)
_mutant(
    *("VoidKeepsThem", "whatever ends ranges ends nothing", "void", same, P.AT_MOST_ONCE),
    module=reducer,
)
_mutant(
    *("GoesOnAnyhow", "ranges go on under another window", "begun", goes_on_anyhow),
    R.WINDOW_HOLDS,
    module=reducer,
)
_mutant(
    *("MakesAClaim", "a ClaimingRange before the first old record leaves its time"),
    *("ranges_clock_advanced", makes_a_claim),
    module=reducer,
)
_mutant(
    *("LastTimestamp", "the clock steps back with the broker's"),
    *("ranges_clock_advanced", last_timestamp),
    module=reducer,
)


# --- the guards -----------------------------------------------------------------------------------


def without(waived: RangeRefused) -> Callable[..., RangeRefused | None]:
    """The guards without one; what comes after it is asked."""

    def range_guard(
        ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange
    ) -> RangeRefused | None:
        guard = _guard(ranges, claim, record, message)
        if guard is not waived:
            return guard
        if waived is RangeRefused.UNKNOWN_VERSION:
            return _guard(ranges, claim, record, attrs.evolve(message, version=1))
        return None

    return range_guard


def tenure_first(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange
) -> RangeRefused | None:
    if claiming_range.no_range_tenure(ranges, claim):
        return RangeRefused.NO_RANGE_TENURE
    return _guard(ranges, claim, record, message)


def needs_no_anchor(ranges: Ranges, claim: Claim) -> bool:
    return not claim.owned


def never_sleeps(ranges: Ranges, claim: Claim) -> bool:
    return not ranges.has_begun


def nobody_is_heard_asleep(ranges: Ranges, claim: Claim, *rest: object) -> RangeOutcome:
    outcome = _claiming_range(ranges, claim, *rest)
    if outcome.verdict is RangeRefused.NO_RANGE_TENURE:
        return attrs.evolve(outcome, ranges=ranges)
    return outcome


def everybody_is_heard(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, *rest: object
) -> RangeOutcome:
    outcome = _claiming_range(ranges, claim, record, message, *rest)
    if isinstance(outcome.verdict, RangeRefused):
        return attrs.evolve(outcome, ranges=claiming_range.alive(outcome.ranges, message))
    return outcome


for _guard_left_out in (
    *(RangeRefused.UNKNOWN_VERSION, RangeRefused.HEADER_FROM_THE_FUTURE),
    *(RangeRefused.SEEN_MISSING, RangeRefused.NEGATIVE_COUNT),
):
    _name = "".join(part.capitalize() for part in _guard_left_out.value.split("_"))
    _mutant(
        *(f"No{_name}", f"the guard {_name} is left out", "range_guard"),
        without(_guard_left_out),
    )
_mutant(
    *("NoRangeHeaderNotDecimal", "a header of ranges may be anything"),
    *("range_header_not_decimal", never),
)
_mutant("TenureFirst", "who owns is asked before the headers", "range_guard", tenure_first)
_mutant(
    *("NeedsNoAnchor", "ranges without an anchor", "no_range_tenure", needs_no_anchor),
)
_mutant(
    *("NeverSleeps", "ranges are granted while nobody owns", "no_range_tenure", never_sleeps),
    P.PAUSE_HOLDS,
)
_mutant(
    *("EverybodyIsHeardAsleep", "who holds nothing is remembered while ranges sleep"),
    *("sleeps_alive", remembers_anybody),
)
_mutant(
    *("NobodyIsHeardAsleep", "who speaks while ranges sleep is silent"),
    *("claiming_range", nobody_is_heard_asleep),
    module=reducer,
)
_mutant(
    *("EverybodyIsHeard", "a refused record is a sign of life, too"),
    *("claiming_range", everybody_is_heard),
    module=reducer,
)


# --- the effects ----------------------------------------------------------------------------------


def of_later_ones(range_: OpenRange, record: RangesRecord) -> bool:
    return range_.instance == record.message.instance_id


def of_everybodys(range_: OpenRange, record: RangesRecord) -> bool:
    seen = record.headers.seen
    return seen is not None and range_.id <= seen


def not_the_last_seen(range_: OpenRange, record: RangesRecord) -> bool:
    seen = record.headers.seen
    return of_later_ones(range_, record) and seen is not None and range_.id < seen


def keeps_what_is_empty(ranges: Ranges, record: RangesRecord) -> Ranges:
    done = record.range_headers.done
    if done is None:
        return ranges
    moved = (
        attrs.evolve(each, from_=max(each.from_, done))
        if claiming_range.its_own(each, record)
        else each
        for each in ranges.open
    )
    return attrs.evolve(ranges, open=tuple(moved))


def done_moves_back(ranges: Ranges, record: RangesRecord) -> Ranges:
    done = record.range_headers.done
    if done is None:
        return ranges
    moved = (
        attrs.evolve(each, from_=done) if claiming_range.its_own(each, record) else each
        for each in ranges.open
    )
    return attrs.evolve(ranges, open=tuple(each for each in moved if each.from_ < each.to))


def keep_counts_for_done(ranges: Ranges, record: RangesRecord, limits: Limits) -> Ranges:
    """What is given back is forgotten, not pooled."""
    return attrs.evolve(_given_back(ranges, record, limits), pool=ranges.pool)


def gives_all_of_it(ranges: Ranges, record: RangesRecord, limits: Limits) -> Ranges:
    """A range that is cut goes to the pool whole."""
    keep = record.range_headers.keep
    if keep is None:
        return ranges
    back = [each for each in ranges.open if claiming_range.gives_back(ranges, each, record, limits)]
    return attrs.evolve(
        ranges,
        open=tuple(each for each in ranges.open if each not in back),
        pool=claiming_range.in_order(*ranges.pool, *(Interval(b.from_, b.to) for b in back)),
    )


def stays_open(ranges: Ranges, record: RangesRecord, limits: Limits) -> Ranges:
    return attrs.evolve(_given_back(ranges, record, limits), open=ranges.open)


def reaps_all(ranges: Ranges, claim: Claim, *rest: object) -> Ranges:
    return _reaped(ranges, attrs.evolve(claim, position=0), *rest)


def forgets_all(ranges: Ranges, *rest: object) -> Ranges:
    return attrs.evolve(_reaped(ranges, *rest), pool=ranges.pool)


def forgets_nobody(ranges: Ranges, *rest: object) -> Ranges:
    return attrs.evolve(_reaped(ranges, *rest), alive=ranges.alive)


def silent_at_twice_the_interval(ranges: Ranges, heard_ms: int | None, rules: Rules) -> bool:
    return heard_ms is None or ranges.clock_ms - heard_ms >= rules.stale_after_ms


def merges(*pool: Interval) -> tuple[Interval, ...]:
    merged: list[Interval] = []
    for each in sorted(pool, key=lambda each: each.from_):
        if merged and merged[-1].to == each.from_:
            merged[-1] = Interval(merged[-1].from_, each.to)
        else:
            merged.append(each)
    return tuple(merged)


def highest_first(*pool: Interval) -> tuple[Interval, ...]:
    return tuple(sorted(pool, key=lambda each: -each.from_))


def leaves_it_in_the_pool(ranges: Ranges, record: RangesRecord) -> Ranges:
    return _holding(ranges, ranges.pool[0], record)


def no_more_than_asked(ranges: Ranges, record: RangesRecord) -> Ranges:
    """The pool gives a part of an interval."""
    assert isinstance(record.message, ClaimingRange)
    lowest, *others = ranges.pool
    edge = min(lowest.to, lowest.from_ + record.message.count)
    rest = [Interval(edge, lowest.to)] if edge < lowest.to else []
    return _holding(
        attrs.evolve(ranges, pool=(*rest, *others)), Interval(lowest.from_, edge), record
    )


def unbounded(ranges: Ranges, claim: Claim, message: ClaimingRange, limits: Limits) -> Interval:
    wanted = min(message.count, limits.range_messages_max)
    return Interval(ranges.frontier, ranges.frontier + wanted)


def any_length(ranges: Ranges, claim: Claim, message: ClaimingRange, limits: Limits) -> Interval:
    most = claiming_range.frontier_max(ranges, claim)
    return Interval(ranges.frontier, min(ranges.frontier + message.count, most))


def all_that_there_is(
    ranges: Ranges, claim: Claim, message: ClaimingRange, limits: Limits
) -> Interval:
    most = claiming_range.frontier_max(ranges, claim)
    return Interval(ranges.frontier, min(ranges.frontier + limits.range_messages_max, most))


def one_more_open(ranges: Ranges, message: ClaimingRange, limits: Limits) -> bool:
    return len(ranges.open_of(message.instance_id)) > limits.open_ranges_max


def only_the_window(ranges: Ranges, claim: Claim, limits: Limits) -> bool:
    return ranges.frontier >= claiming_range.frontier_max(ranges, claim)


def only_the_limit(ranges: Ranges, claim: Claim, limits: Limits) -> bool:
    return ranges.intervals >= limits.intervals_max


def counts_the_pool_too(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, limits: Limits
) -> RangeOutcome:
    if message.count and claiming_range.too_many_open(ranges, message, limits):
        return RangeOutcome(ranges, RangeAccepted.RANGE_REFRESHED, Unmet.TOO_MANY_OPEN)
    return _asked(ranges, claim, record, message, limits)


def gives_who_only_lives(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, limits: Limits
) -> RangeOutcome:
    if ranges.pool:
        after = claiming_range.from_pool(ranges, record)
        return RangeOutcome(after, RangeAccepted.RANGE_GRANTED)
    return _asked(ranges, claim, record, message, limits)


def window_first(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, limits: Limits
) -> RangeOutcome:
    outcome = _asked(ranges, claim, record, message, limits)
    full = outcome.guard is not None and claiming_range.window_full(ranges, claim, limits)
    return attrs.evolve(outcome, guard=Unmet.WINDOW_FULL) if full else outcome


def held_by_the_owner(ranges: Ranges, interval: Interval, record: RangesRecord) -> Ranges:
    held = _holding(ranges, interval, record)
    return attrs.evolve(held, open=(*ranges.open, attrs.evolve(held.open[-1], instance="anchor")))


def called_by_its_view(ranges: Ranges, interval: Interval, record: RangesRecord) -> Ranges:
    held = _holding(ranges, interval, record)
    id_ = record.headers.seen or 0
    return attrs.evolve(held, open=(*ranges.open, attrs.evolve(held.open[-1], id=id_)))


def leaves_the_frontier(
    ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange, limits: Limits
) -> Ranges:
    interval = claiming_range.at_the_frontier(ranges, claim, message, limits)
    return _holding(ranges, interval, record)


_mutant("NotAlive", "a request is no sign of life", "alive", same)
_mutant(
    *("DoneBeyondItsView", "what a record says counts for ranges that came after its view"),
    *("its_own", of_later_ones, P.NONE_SKIPPED),
)
_mutant(
    *("DoneOfEverybodys", "what a record says counts for everybody's ranges"),
    *("its_own", of_everybodys, P.NONE_SKIPPED, R.REFINES_LEASES),
)
_mutant(
    *("NotTheLastSeen", "the last range that its sender read of does not count"),
    *("its_own", not_the_last_seen),
)
_mutant("NothingIsDone", "`done` does nothing", "progressed", same)
_mutant(
    *("KeepsWhatIsEmpty", "a range that is done stays open"),
    *("progressed", keeps_what_is_empty, R.RANGES_DISJOINT),
)
_mutant(
    *("DoneMovesBack", "an older `done` takes back a later one"),
    *("progressed", done_moves_back, R.REFINES_LEASES, R.RANGES_DISJOINT),
)
_mutant("NothingIsGivenBack", "`keep` does nothing", "given_back", same)
_mutant(
    *("KeepCutsAtTheMost", "what is given back cuts a range in two also at the most"),
    *("cut", never, R.BOUNDED),
)
_mutant("KeepNeedsRoom", "what is given back whole needs room, too", "cut", always)
_mutant(
    *("KeepCountsForDone", "what is given back is forgotten"),
    *("given_back", keep_counts_for_done, P.NONE_SKIPPED),
)
_mutant(
    *("GivesAllOfIt", "a range that is cut goes to the pool whole"),
    *("given_back", gives_all_of_it, R.REFINES_LEASES, P.AT_MOST_ONCE),
)
_mutant(
    *("StaysOpen", "what is given back stays its holder's"),
    *("given_back", stays_open, R.RANGES_DISJOINT),
)
_mutant(
    *("ReapsBelowThePosition", "what a silent holder had is granted again at most once"),
    *("reaped", reaps_all, P.AT_MOST_ONCE, R.REFINES_LEASES),
)
_mutant(
    *("ForgetsAll", "what a silent holder had is forgotten also at least once"),
    *("reaped", forgets_all, P.NONE_SKIPPED),
)
_mutant("ForgetsNobody", "the silent are remembered", "reaped", forgets_nobody)
_mutant("NobodyReaps", "the silent keep what they have", "reaped", same)
_mutant(
    *("RobsTheLiving", "another instance need not be silent", "is_silent", always),
    R.REFINES_LEASES,
)
_mutant(
    *("SilentAtTwiceTheInterval", "exactly twice the interval is silent"),
    *("is_silent", silent_at_twice_the_interval, R.REFINES_LEASES),
)
_mutant("MergesThePool", "intervals that touch become one", "in_order", merges)
_mutant("HighestFirst", "the pool gives its highest interval", "in_order", highest_first)
_mutant(
    *("PoolKeepsWhatItGave", "what was granted from the pool stays there"),
    *("from_pool", leaves_it_in_the_pool, R.RANGES_DISJOINT),
)
_mutant("NoMoreThanAsked", "the pool gives a part of an interval", "from_pool", no_more_than_asked)
_mutant(
    *("NoBound", "ranges go beyond what was reserved, or beyond the window"),
    *("at_the_frontier", unbounded, R.WINDOW_HOLDS, P.AT_MOST_ONCE),
)
_mutant("AnyLength", "a range may have any length", "at_the_frontier", any_length)
_mutant("AllThatThereIs", "a range is as long as it may be", "at_the_frontier", all_that_there_is)
_mutant("OneMoreOpen", "an instance may have one range more", "too_many_open", one_more_open)
_mutant("NeverTooMany", "an instance may have any number of ranges", "too_many_open", never)
_mutant(
    *("NoLimit", "a claim may have any number of ranges", "window_full", only_the_window),
    R.BOUNDED,
)
_mutant(
    *("OnlyTheLimit", "the window is never full", "window_full", only_the_limit),
    R.RANGES_DISJOINT,
)
_mutant(
    "CountsThePoolToo", "the limit of an instance counts for the pool", "asked", counts_the_pool_too
)
_mutant("GivesWhoOnlyLives", "who asks for nothing gets something", "asked", gives_who_only_lives)
_mutant("WindowFirst", "the window is asked before the instance's limit", "asked", window_first)
_mutant("HeldByTheOwner", "a range is the anchor's", "holding", held_by_the_owner)
_mutant("CalledByItsView", "a range's id is its sender's view", "holding", called_by_its_view)
_mutant(
    *("LeavesTheFrontier", "what was cut is cut again", "from_frontier", leaves_the_frontier),
    *(R.RANGES_DISJOINT, P.AT_MOST_ONCE),
)
