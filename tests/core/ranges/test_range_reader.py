"""Marshal promises that a late reader knows the ranges of a claim exactly, or not at all."""

from __future__ import annotations

import attrs
import pytest

from kafka_marshal import Claim
from kafka_marshal.capture import RawRecord
from kafka_marshal.core.ranges.reader import FoldedState, LogEntry, RangesReader, candidates
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.range_codec import encode_checkpoint
from tests.core.ranges.walking import LIMITS, RULES, walk

HEARTBEAT = b"Heartbeat/1/1/anchor/ranges/g/t/0/0"
LIE = FoldedState(Claim(position=7), Ranges())


def with_checkpoints(seed: int, *, honest: bool) -> tuple[list[LogEntry], FoldedState]:
    """A log in which every record that says what it saw holds a checkpoint, and its end."""
    walked = walk(seed, 12, honest=honest)
    for _ in walked.steps(80):
        pass
    states = [FoldedState(*each) for each in walked.history]
    log = []
    for record in walked.log:
        seen = record.headers.seen
        holds = seen is not None and 0 <= seen < record.offset
        log.append(LogEntry(record, states[seen + 1] if seen is not None and holds else None))
    return log, FoldedState(walked.claim, walked.ranges)


@pytest.mark.parametrize("honest", [True, False], ids=["honest", "hostile"])
@pytest.mark.parametrize("seed", range(6))
def test_whoever_begins_in_the_middle_knows_what_a_full_reader_does(
    seed: int, honest: bool
) -> None:
    log, end = with_checkpoints(seed, honest=honest)
    knowing = 0
    for first in range(1, len(log), 7):
        late = RangesReader(first, RULES, LIMITS)
        for entry in log[first:]:
            late.read(entry)
        assert late.candidates <= {end}, f"seed {seed}, from offset {first}"
        assert late.candidates == candidates(log[first:], first, RULES, LIMITS)
        knowing += late.known == end
    assert knowing


def known_after(late: RangesReader, *entries: LogEntry) -> FoldedState | None:
    for each in entries:
        late.read(each)
    return late.known


def test_a_checkpoint_of_what_the_reader_has_not_read_is_not_used() -> None:
    for seen, counts in ((38, False), (39, True), (40, False), (None, False)):
        assert (
            known_after(RangesReader(40), entry(40, checkpoint=LIE, seen=seen)) is not None
        ) is counts


def test_where_two_checkpoints_differ_neither_is_used() -> None:
    state, late = FoldedState(Claim(), Ranges(window=3)), RangesReader(5)
    alone = known_after(late, entry(5, checkpoint=state, seen=4))
    assert alone is not None
    assert alone.ranges.window == 3
    assert known_after(late, entry(6, checkpoint=LIE, seen=5)) is None
    assert len(late.candidates) == 2


def entry(
    offset: int, *, checkpoint: FoldedState | None = None, seen: int | None = None
) -> LogEntry:
    pairs: list[tuple[str, bytes | None]] = [("marshal-epoch", b"0")]
    if seen is not None:
        pairs.append(("marshal-seen", str(seen).encode()))
    if checkpoint is not None:
        pairs.append(("marshal-ranges-at", encode_checkpoint(checkpoint)))
    return RawRecord(0, offset, 1000, HEARTBEAT, tuple(pairs)).log_entry()


def test_a_reader_that_keeps_few_records_knows_nothing_else_and_forgets_nothing() -> None:
    log, end = with_checkpoints(3, honest=True)
    for first in range(1, len(log), 7):
        late = RangesReader(first, RULES, LIMITS, records_max=9)
        for each in log[first:]:
            late.read(each)
        assert late.candidates <= {end}
        assert len(late._log) <= 9


def test_a_checkpoint_of_records_that_are_not_kept_any_more_does_not_count() -> None:
    late = RangesReader(5, records_max=2)
    few = [entry(offset) for offset in (5, 6, 7)]
    assert known_after(late, *few, entry(8, checkpoint=LIE, seen=4)) is None
    assert known_after(late, entry(9, checkpoint=LIE, seen=8)) is not None


def test_the_checkpoint_of_a_refused_heartbeat_counts() -> None:
    late = RangesReader(5)
    state = FoldedState(Claim(owner_instance="o", owner_client="o", epoch=3), Ranges())
    late.read(entry(5, checkpoint=state, seen=4))
    assert late.known is not None
    assert late.known.claim.owner_instance == "o"


@pytest.mark.parametrize("text", [b"", b"1/", b"2/whatever", None])
def test_a_checkpoint_that_cannot_be_read_is_none(text: bytes | None) -> None:
    good = ("marshal-ranges-at", encode_checkpoint(LIE))
    raw = RawRecord(0, 5, 1000, HEARTBEAT, (good, ("marshal-ranges-at", text)))
    assert raw.log_entry().checkpoint is None
    assert attrs.evolve(raw, headers=raw.headers[::-1]).log_entry().checkpoint == LIE


def test_only_a_heartbeat_holds_one() -> None:
    held = (("marshal-ranges-at", encode_checkpoint(LIE)),)
    for value in (b"ClaimingRange/1/1/p/p/g/t/0/1", b"ReleasingPartition/1/1/p/p/g/t/0/1"):
        assert RawRecord(0, 5, 1000, value, held).log_entry().checkpoint is None


def test_a_reader_from_the_beginning_is_no_late_one() -> None:
    with pytest.raises(ValueError, match="from offset 0 on knows every record"):
        RangesReader(0)
