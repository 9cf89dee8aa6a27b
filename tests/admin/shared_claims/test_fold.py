"""An administrator's view knows the ranges of a shared claim exactly, or calls them unknown."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import FENCED
from kafka_marshal.admin.fold import ClaimsFold
from kafka_marshal.admin.listed_ranges import ListedHolder, ListedInterval, listed_ranges
from kafka_marshal.admin.shared_claims import FoldedSharedClaim
from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.reader import FoldedState, LogEntry
from kafka_marshal.core.ranges.reader import after as read
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.range_codec import encode_checkpoint
from tests.core.ranges.test_range_reader import with_checkpoints
from tests.core.ranges.walking import LIMITS, RULES
from tests.replay.told import BEGIN_S, records

KEY = ClaimKey("g", "events", 0)
FOUR_S = attrs.evolve(FENCED, heartbeat_interval_ms=4000)
SHARED = ["0 CP anchor/ranges ranges=20", "0.1 CR p1/P 4", "0.2 CR q1/Q 6"]


def feed(fold: ClaimsFold, raw: RawRecord) -> None:
    try:
        fold.apply(raw.decoded(), raw.log_entry())
    except MalformedRecord:
        record = raw.decoded_with_ranges()
        assert isinstance(record.message, ClaimingRange)
        fold.claiming_range(record, record.message)


def folded(*lines: str, first: int = 0) -> ClaimsFold:
    fold = ClaimsFold(first, FOUR_S)
    for raw in records(lines):
        if raw.offset >= first:
            feed(fold, raw)
    return fold


def shared(*lines: str, first: int = 0) -> FoldedSharedClaim | None:
    return folded(*lines, first=first).shared(KEY)


def feed_entry(fold: ClaimsFold, entry: LogEntry) -> None:
    record, message = entry.record, entry.record.message
    if isinstance(message, ClaimingRange):
        fold.claiming_range(record, message)
    else:
        fold.apply(record.without_ranges(message), entry)


@pytest.mark.parametrize("seed", range(4))
def test_a_view_from_the_first_record_on_knows_the_ranges_after_every_record(seed: int) -> None:
    log, end = with_checkpoints(seed, honest=False)
    key = next(e.record.message.key for e in log if isinstance(e.record.message, ClaimingRange))
    fold = ClaimsFold(0, RULES, LIMITS)
    for entry in log:
        feed_entry(fold, entry)
    found = fold.shared(key)
    assert fold.claim(key).claim == end.claim
    assert (found.ranges if found else None) == (end.ranges if end.ranges.has_begun else None)


@pytest.mark.parametrize("honest", [True, False], ids=["honest", "hostile"])
@pytest.mark.parametrize("seed", range(6))
def test_a_view_from_the_middle_is_never_wrong_and_mostly_knows(seed: int, honest: bool) -> None:
    log, end = with_checkpoints(seed, honest=honest)
    key = next(e.record.message.key for e in log if isinstance(e.record.message, ClaimingRange))
    knowing = 0
    for first in range(1, len(log), 7):
        fold = ClaimsFold(first, RULES, LIMITS)
        for entry in log[first:]:
            feed_entry(fold, entry)
        found = fold.shared(key)
        if found is None or found.ranges is None:
            continue
        assert FoldedState(found.claim, found.ranges) == end, f"seed {seed}, from {first}"
        knowing += 1
    assert knowing or not end.ranges.has_begun


def test_without_the_head_ranges_are_unknown_until_a_checkpoint_counts() -> None:
    whole = folded(*SHARED)
    known = whole.shared(KEY)
    assert known is not None
    assert known.ranges is not None
    late = folded(*SHARED, first=1)
    assert late.shared(KEY) == FoldedSharedClaim(
        late.claim(KEY).claim, None, {"p1": "P", "q1": "Q"}
    )
    state = FoldedState(known.claim, known.ranges)
    [_, _, _, beat] = records([*SHARED, "1 HB anchor/ranges 0 epoch=0 seen=2 clock=0"])
    feed(late, with_checkpoint(beat, state))
    feed(whole, beat)
    after, exact = late.shared(KEY), whole.shared(KEY)
    assert after is not None
    assert exact is not None
    assert (after.claim, after.ranges) == (exact.claim, exact.ranges)
    late.pass_gap(9)
    assert late.shared(KEY) is None, "nothing read since shows that it is shared"


def test_a_win_without_the_header_and_a_set_position_end_what_was_shared() -> None:
    assert shared(*SHARED, "9 CP a1/A") is None
    assert shared(*SHARED, "1 RG x1/X 60", "2 CP x1/X", "3 RP x1/X 7 epoch=4") is None
    slept = shared(*SHARED, "1 RG x1/X 60")
    assert slept is not None
    assert slept.ranges is not None
    assert len(slept.ranges.open) == 2


def test_from_the_middle_an_end_of_ranges_is_known_where_the_win_is() -> None:
    """A group release says that nobody owns, so what wins after the pause is certain."""
    lines = [*SHARED, "1 RG x1/X 0", "2 CP a1/A", "3 HB a1/A 7 epoch=4 seen=4 clock=0"]
    assert shared(*lines[:-2], first=1) is not None
    assert shared(*lines, first=1) is None
    again = shared(*lines, "4 CP a1/A ranges=5", "5 CR p1/P 1", first=1)
    assert again is not None
    assert again.ranges is None


def with_checkpoint(raw: RawRecord, state: FoldedState) -> RawRecord:
    held = ("marshal-ranges-at", encode_checkpoint(state))
    return attrs.evolve(raw, headers=(*raw.headers, held))


def after(state: FoldedState, *lines: str) -> FoldedSharedClaim | None:
    """From offset 1 on; the last of them is a heartbeat that holds this checkpoint."""
    fold = ClaimsFold(1, FOUR_S)
    *others, beat = records([SHARED[0], *lines])[1:]
    for raw in others:
        feed(fold, raw)
    feed(fold, with_checkpoint(beat, state))
    return fold.shared(KEY)


def test_a_checkpoint_speaks_of_records_before_anything_showed_that_the_claim_is_shared() -> None:
    [first] = records(SHARED[:1])
    won = read(FoldedState(Claim(), Ranges()), first.decoded_with_ranges(), FOUR_S)
    lines = ["0.5 HB anchor/ranges 9 epoch=0", "1 HB anchor/ranges 4 epoch=0 seen=0 clock=0"]
    found = after(won, *lines)
    assert found is not None
    assert (found.claim.position, found.ranges and found.ranges.window) == (9, 20)


def test_a_checkpoint_of_before_an_exclusive_tenure_does_not_count_after_it() -> None:
    """What participants asked meanwhile was not kept."""
    state = FoldedState(Claim(), Ranges(window=20))
    exclusive = ["0.5 CR p1/P 1", "1 RG x1/X 0", "2 CP a1/A", "3 CR p1/P 1"]
    found = after(state, *exclusive, "4 HB a1/A 4 epoch=3 seen=0 clock=0")
    assert found is not None
    assert found.ranges is None


def test_a_checkpoint_can_say_that_a_claim_is_not_shared() -> None:
    lines = ["0.5 CR p1/P 1", "1 HB a1/A 4 epoch=0 seen=1 clock=0"]
    assert after(FoldedState(Claim(), Ranges()), *lines) is None


def test_an_ordinary_claim_is_not_shared() -> None:
    assert shared("0 CP a1/A", "1 HB a1/A 7 epoch=0") is None
    assert shared("0 CP a1/A", "1 CR p1/P 4") is None
    assert shared("0 CP a1/A ranges=x", "1 CR p1/P 4") is None


def test_holders_and_what_becomes_of_their_ranges_if_they_stay_silent() -> None:
    lines = [*SHARED, "0.3 CR r1/R 2", "0.4 CR r1/R 0 seen=3 keep=11", "5 CR q1/Q 0 seen=3 done=7"]
    found = shared(*lines)
    assert found is not None
    now_ms = BEGIN_S * 1000 + 9000
    listed = listed_ranges(found, 9, now_ms, FOUR_S)
    assert (listed.knowledge, listed.delivery, listed.window) == ("known", "at_least_once", 20)
    assert (listed.anchor_client, listed.anchor_instance) == ("ranges", "anchor")
    assert [(one.start, one.end, one.instance) for one in listed.open] == [
        (0, 4, "p1"),
        (7, 10, "q1"),
        (10, 11, "r1"),
    ]
    assert listed.pool == (ListedInterval(11, 12),)
    assert listed.frontier == 12
    assert (listed.undone, listed.ahead) == (4 + 2, 1 + 1 + 1)
    p1, q1, _ = listed.holders
    heard_ms = BEGIN_S * 1000 + 100
    assert p1 == ListedHolder("p1", "P", 1, 4, heard_ms, silent=True, to_pool=4, to_forget=0)
    assert (q1.silent, q1.messages) == (False, 3)
    nobody_knows = listed_ranges(found, None, now_ms, FOUR_S)
    assert (nobody_knows.undone, nobody_knows.ahead) == (None, None)


def test_at_most_once_what_a_silent_holder_has_is_forgotten() -> None:
    found = shared("0 CP anchor/ranges ranges=0", "0.1 CM anchor/ranges 10 epoch=0", "1 CR p1/P 4")
    assert found is not None
    listed = listed_ranges(found, 100, BEGIN_S * 1000 + 2000, FOUR_S)
    assert (listed.delivery, listed.reserved, listed.asleep) == ("at_most_once", 6, False)
    [p1] = listed.holders
    assert (p1.to_pool, p1.to_forget, p1.silent) == (0, 4, False)
    unknown = listed_ranges(attrs.evolve(found, ranges=None), 100, 0, FOUR_S)
    assert (unknown.knowledge, unknown.window, unknown.holders) == ("unknown", None, ())
