"""What the configurations of `MCRanges` and its sisters put in the place of an operator.

A mistake of the reducer is made in the shipped one. `model_tests.ranges.mutants` has most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType

import attrs

from kafka_marshal import Claim, Refused, Rules, Verdict
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingRange, Message
from kafka_marshal.core.ranges import claiming_range, reader, reducer
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges
from model_tests.explorer.ranges import environment, liveness, parts, records, suffix
from model_tests.explorer.ranges.parts import Built, Landing, Lease, Leases, Moment, Notes
from model_tests.explorer.ranges.world import WorldOfRanges
from model_tests.mutants.hand_made import HandMade
from model_tests.ranges import mutants

# --- of the reducer -------------------------------------------------------------------------------


def _taken(ranges: Ranges, gone: Sequence[OpenRange], from_: Callable[[OpenRange], int]) -> Ranges:
    """The ranges that are gone, in the pool; who is alive stays as it is."""
    taken = {Interval(from_(each), each.to) for each in gone}
    return attrs.evolve(
        ranges,
        open=tuple(each for each in ranges.open if each not in gone),
        pool=claiming_range.in_order(*{*ranges.pool, *(t for t in taken if t.from_ < t.to)}),
    )


def _of_the_silent(ranges: Ranges, message: ClaimingRange, rules: Rules) -> list[OpenRange]:
    heard_ms = {each.instance: each.ms for each in ranges.alive}
    return [
        each
        for each in ranges.open
        if each.instance != message.instance_id
        and claiming_range.is_silent(ranges, heard_ms.get(each.instance), rules)
    ]


def reaps_all(ranges: Ranges, claim: Claim, message: ClaimingRange, rules: Rules) -> Ranges:
    """Spec: ReapsAll."""
    return _taken(ranges, _of_the_silent(ranges, message, rules), lambda each: each.from_)


def forgets_nobody(ranges: Ranges, claim: Claim, message: ClaimingRange, rules: Rules) -> Ranges:
    """Spec: ForgetsNobody."""
    gone = _of_the_silent(ranges, message, rules)
    return _taken(ranges, gone, lambda each: max(each.from_, claim.position))


def robs_the_living(ranges: Ranges, claim: Claim, message: ClaimingRange, rules: Rules) -> Ranges:
    """Spec: RobsTheLiving."""
    gone = [each for each in ranges.open if each.instance != message.instance_id]
    return _taken(ranges, gone, lambda each: max(each.from_, claim.position))


def refuses_a_bad_header(
    claim: Claim, record: RangesRecord, message: Message, rules: Rules
) -> tuple[Claim, Verdict]:
    """Spec: RefusesABadHeader."""
    if record.range_headers.window == NOT_DECIMAL:
        clock_ms = max(claim.clock_ms, record.timestamp_ms)
        return attrs.evolve(claim, clock_ms=clock_ms), Refused.HEADER_NOT_DECIMAL
    return _claim_outcome(claim, record, message, rules)


_claim_outcome = reducer.claim_outcome

# --- of who writes, and of who processes ----------------------------------------------------------


def refreshes_the_anchor(claim: Claim, built: Built) -> Claim:
    """Spec: RefreshesTheAnchor."""
    clock_ms = max(claim.clock_ms, built.landed.record.timestamp_ms)
    alive_ms = clock_ms if claim.owned else claim.last_heartbeat_ms
    return attrs.evolve(claim, clock_ms=clock_ms, last_heartbeat_ms=alive_ms)


def no_view_is_too_early(history: Sequence[Moment]) -> range:
    """Spec: NoViewIsTooEarly."""
    return range(len(history))


def forgets_what_it_gave_back(notes: Notes, lease: Lease, x: int) -> bool:
    """Spec: ForgetsWhatItGaveBack."""
    return False


def takes_what_it_asks_for(
    world: WorldOfRanges, history: Sequence[Moment], built: Built, landing: Landing
) -> Leases:
    """Spec: TakesWhatItAsksFor."""
    record = built.landed.record
    message = record.message
    if not isinstance(message, ClaimingRange) or message.count <= 0:
        return frozenset()
    seen = record.headers.seen
    from_ = history[0 if seen is None else seen + 1].ranges.frontier
    return frozenset({Lease(record.offset, built.sender, from_, from_ + message.count)})


def only_asks(instance: str, moment: Moment) -> Iterator[tuple[None, None]]:
    """Spec: OnlyAsks."""
    yield None, None


def asks_or_says_done(instance: str, moment: Moment) -> Iterator[tuple[int | None, None]]:
    """Spec: AsksOrSaysDone."""
    return ((done, None) for done, keep in _what_it_says(instance, moment) if keep is None)


_what_it_says = records.what_it_says


def at_frontier(moment: Moment) -> int:
    """Spec: AtFrontier."""
    return moment.ranges.frontier


def claims_as_the_anchor(instance: str) -> str:
    """Spec: ClaimsAsTheAnchor."""
    return records.ANCHOR


def _made(name: str, module: ModuleType, attribute: str, instead: object) -> tuple[HandMade, ...]:
    return (HandMade(name, name, module, attribute, instead),)


def _reducer(name: str, attribute: str, instead: object) -> tuple[HandMade, ...]:
    module = reducer if hasattr(reducer, attribute) else claiming_range
    return _made(name, module, attribute, instead)


AS_SPECIFIED: Mapping[tuple[str, str], tuple[HandMade, ...]] = {
    ("NoRangeTenure", "NeedsNoAnchor"): _reducer("NeedsNoAnchor", "no_range_tenure", mutants.never),
    ("NoRangeTenure", "NeverSleeps"): _reducer(
        "NeverSleeps", "no_range_tenure", mutants.never_sleeps
    ),
    ("SleepsAlive", "HeardByNobody"): _reducer("HeardByNobody", "sleeps_alive", mutants.never),
    ("AtTheFrontier", "Unbounded"): _reducer("Unbounded", "at_the_frontier", mutants.unbounded),
    ("WindowFull", "FullNever"): _reducer("FullNever", "window_full", mutants.never),
    ("WindowFull", "OnlyTheWindow"): _reducer(
        "OnlyTheWindow", "window_full", mutants.only_the_window
    ),
    ("TooManyOpen", "AnyNumber"): _reducer("AnyNumber", "too_many_open", mutants.never),
    ("GivesBack", "CutsAtTheMost"): _reducer("CutsAtTheMost", "cut", mutants.never),
    ("FromPool", "LeavesItInThePool"): _reducer(
        "LeavesItInThePool", "from_pool", mutants.leaves_it_in_the_pool
    ),
    ("Reaped", "ReapsAll"): _reducer("ReapsAll", "reaped", reaps_all),
    ("Reaped", "ForgetsNobody"): _reducer("ForgetsNobody", "reaped", forgets_nobody),
    ("Reaped", "RobsTheLiving"): _reducer("RobsTheLiving", "reaped", robs_the_living),
    ("ItsOwn", "OfLaterOnes"): _reducer("OfLaterOnes", "its_own", mutants.of_later_ones),
    ("ItsOwn", "OfEverybodys"): _reducer("OfEverybodys", "its_own", mutants.of_everybodys),
    ("Void", "KeepsThem"): _reducer("KeepsThem", "void", mutants.same),
    ("Begun", "GoesOnAnyhow"): _reducer("GoesOnAnyhow", "begun", mutants.goes_on_anyhow),
    ("Begun", "BeginsAtThePosition"): _reducer(
        "BeginsAtThePosition", "begun", mutants.begins_at_the_position
    ),
    ("AfterClaim", "ReleaseEndsThem"): _reducer(
        "ReleaseEndsThem", "after_claim", mutants.release_ends_them
    ),
    ("ClaimOutcome", "RefusesABadHeader"): _made(
        "RefusesABadHeader", reducer, "claim_outcome", refuses_a_bad_header
    ),
    ("ClaimOutcome", "RefreshesTheAnchor"): _made(
        "RefreshesTheAnchor", environment, "passed_over", refreshes_the_anchor
    ),
    ("RangeViews", "NoViewIsTooEarly"): _made(
        "NoViewIsTooEarly", records, "range_views", no_view_is_too_early
    ),
    ("SaysNever", "ForgetsWhatItGaveBack"): _made(
        "ForgetsWhatItGaveBack", parts, "says_never", forgets_what_it_gave_back
    ),
    ("NewLeases", "TakesWhatItAsksFor"): _made(
        "TakesWhatItAsksFor", environment, "new_leases", takes_what_it_asks_for
    ),
    ("RangingFrom", "OnlyAsks"): _made("OnlyAsks", records, "what_it_says", only_asks),
    ("AnchorAt", "AtFrontier"): _made("AtFrontier", records, "anchor_at", at_frontier),
    ("MayShare", "SharesAtOnce"): _made("SharesAtOnce", records, "may_share", mutants.always),
    ("ClaimAloneSent", "ClaimsAsTheAnchor"): _made(
        "ClaimsAsTheAnchor", records, "claims_alone_as", claims_as_the_anchor
    ),
    ("Checkpoint", "FrontierOnly"): _made(
        "FrontierOnly", suffix, "checkpoint", suffix.frontier_only
    ),
    ("FoldsFrom", "FromItsLanding"): _made(
        "FromItsLanding", suffix, "folds_from", suffix.from_its_landing
    ),
    ("FoldsFrom", "FromTheSuffix"): _made(
        "FromTheSuffix", suffix, "folds_from", suffix.from_the_suffix
    ),
    ("CheckpointCounts", "AnyCheckpoint"): _made(
        "AnyCheckpoint", reader, "checkpoint_counts", suffix.any_checkpoint
    ),
    ("MayHold", "MayLie"): _made("MayLie", suffix, "may_hold", suffix.may_lie),
    ("Candidates", "OfTheLast"): _made("OfTheLast", suffix, "counting", suffix.of_the_last),
    ("RangingFrom", "AsksOrSaysDone"): _made(
        "AsksOrSaysDone", records, "what_it_says", asks_or_says_done
    ),
    ("Reaped", "NobodyReaps"): _reducer("NobodyReaps", "reaped", mutants.same),
    ("Asked", "CountsForThePool"): _reducer(
        "CountsForThePool", "asked", mutants.counts_the_pool_too
    ),
    ("Wants", "WantsEmptyHanded"): _made(
        "WantsEmptyHanded", liveness, "wants", liveness.wants_empty_handed
    ),
}
