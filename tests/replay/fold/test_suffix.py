"""A log that starts in the middle is reported from where it is certain, and no sooner.

The logs are those of simulated fleets, cut; each suffix is held against the replay of all of it.
"""

from __future__ import annotations

import pickle
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.runs.by_day import seeds
from tools.runs.simulate import Fleet, Simulation

from kafka_marshal import RuleSet, encode
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.codec import encode_headers
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.state import FENCED
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.replay.findings.records.inputs import log_findings
from kafka_marshal.replay.fold import suffix as suffix_room
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.chunk_items import HeartbeatRun, rest_of
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import ClaimRow, FindingRow, RefusalRow, TenureRow
from kafka_marshal.replay.model.rows import Row
from kafka_marshal.replay.model.tables import (
    CLAIMS,
    FINDINGS,
    GROUPS,
    PARTITIONS,
    REFUSALS,
    TENURES,
    Rows,
)
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import Chunked, fed
from tests.replay.told import BOTH, records, replayed

JUDGING = JudgingOptions((RuleSet.FENCED,), FENCED.heartbeat_interval_ms)
FLEETS = {
    "alo": Fleet(crash=0.01, pause=0.01, partitions=1, topics=3),
    "amo": Fleet(mode=Mode.AT_MOST_ONCE, crash=0.01, pause=0.01, partitions=1, topics=3),
    "mixed": Fleet(crash=0.02, stall=0.05, lose=0.05, pause=0.004, partitions=1, idempotent=False),
    "old": Fleet(certifies=False, crash=0.01, pause=0.01, partitions=1),
}


STEPPED_BACK = [
    "50 CP a1/A", "51 HB a1/A 5", "2 RG x1/X 9", "3 CP x1/X", "4 RP x1/X 7 set-position=1",
    "5 HB b1/B 1",
]  # fmt: skip
"""The broker's clock was ahead in the part that is missing: its successor's is not."""


@cache
def log(kind: str, seed: int, count: int = 500) -> tuple[RawRecord, ...]:
    if kind == "stepped back":
        return tuple(attrs.evolve(raw, partition=0) for raw in records(STEPPED_BACK))
    simulation = Simulation(seed, FLEETS[kind])
    made = simulation.events()
    while len(simulation._logs[0]) < count:
        next(made)
    return tuple(
        RawRecord(
            0, record.offset, record.timestamp_ms, encode(record.message),
            tuple(encode_headers(record.headers)), TimestampType.LOG_APPEND_TIME,
        )
        for record in simulation._logs[0]
    )  # fmt: skip


def told(raws: Sequence[RawRecord], judging: JudgingOptions = JUDGING) -> Rows:
    partition_fold = PartitionFold(LogPartition("log", 0), judging)
    for raw in raws:
        partition_fold.feed(raw)
    partition_fold.close()
    return partition_fold.drain()


@cache
def whole(kind: str, seed: int) -> Rows:
    return told(log(kind, seed))


def claim_of(row: ClaimRow | RefusalRow | FindingRow) -> tuple[object, ...]:
    return row.group, row.topic, row.topic_partition


def without(row: Row, *names: str) -> str:
    return str({k: v for k, v in attrs.asdict(row).items() if k not in names})


COUNTED = ("records", "first_offset", "known_from_offset", "uncertain")
"""What is of the part that was read, or of the suffix alone."""
SET = {"released": "released", "position_set": "released"}


def contradictions(full: Rows, part: Rows, cut: int) -> list[str]:
    """What a suffix says that the whole log does not, or misses although it is certain of it."""
    found: list[str] = []
    claims = {claim_of(row): row for row in full[CLAIMS]}
    known: dict[tuple[object, ...], int] = {}
    for row in part[CLAIMS]:
        expected = claims[claim_of(row)]
        if row.known_from_offset is not None:
            assert row.uncertain is None
            known[claim_of(row)] = row.known_from_offset
            if without(row, *COUNTED) != without(expected, *COUNTED):
                found.append(f"claim {row} {expected}")
            continue
        assert row.uncertain
        for name, value in attrs.asdict(row).items():
            if value is not None and name not in COUNTED and value != getattr(expected, name):
                found.append(f"uncertain claim, {name}: {row} {expected}")
    found += _tenures(full, part, known)
    found += _refusals(full, part, known)
    found += _findings(full, part, known, cut)
    return found


def _same(row: TenureRow, *without_names: str) -> str:
    """A tenure, but for a release that may have set the position."""
    return without(attrs.evolve(row, ended=SET.get(row.ended, row.ended)), *without_names)


def _tenures(full: Rows, part: Rows, known: dict[tuple[object, ...], int]) -> list[str]:
    found = []
    by_epoch = {(claim_of(row), row.epoch): row for row in full[TENURES]}
    seen = Counter(map(_same, part[TENURES]))
    for row in part[TENURES]:
        expected = by_epoch.get((claim_of(row), row.epoch))
        grown: tuple[str, ...] = (
            "began",
            "from_offset",
            "from_ms",
            "position_from",
            "records",
            "longest_silence_ms",
        )
        if row.began != "became_certain":
            grown = ()
        if row.ended == "unknowable" or row.position_to is None:
            grown = (*grown, "ended", "to_offset", "to_ms", "position_to")
        rows = [_same(each, *grown) for each in (row, expected) if each is not None]
        if len(rows) < 2 or rows[0] != rows[1]:
            found.append(f"tenure {row} {expected}")
    for row in full[TENURES]:
        since = known.get(claim_of(row))
        if since is not None and row.from_offset > since and not seen[_same(row)]:
            found.append(f"no tenure {row}")
    return found


def _refusals(full: Rows, part: Rows, known: dict[tuple[object, ...], int]) -> list[str]:
    ours, theirs = (Counter(rows[REFUSALS]) for rows in (part, full))
    found = [f"refusal {row}" for row in ours - theirs]
    for row in full[REFUSALS]:
        since = known.get(claim_of(row))
        if since is not None and row.offset > since and not ours[row]:
            found.append(f"no refusal {row}")
    return found


OF_CLAIMS = {
    "late_heartbeat_refused", "acts_without_owning", "unowned_release", "position_moved_back",
    "granted_twice", "missed_heartbeat", "set_position_half_done",
    "log_lost_records", "forged",
}  # fmt: skip
LATER = OF_CLAIMS - {"granted_twice"}
"""Found wherever they begin after the claim is certain; but a second grant needs a first."""


def _findings(full: Rows, part: Rows, known: dict[tuple[object, ...], int], cut: int) -> list[str]:
    """Those about claims: all others count or compare whatever was read."""
    found = []

    def name(row: FindingRow) -> tuple[object, ...]:
        return row.code, *claim_of(row), row.instance

    theirs: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    ours: dict[tuple[object, ...], list[tuple[int, int]]] = defaultdict(list)
    for rows, by_name in ((full, theirs), (part, ours)):
        for row in rows[FINDINGS]:
            if row.code in OF_CLAIMS:
                by_name[name(row)].append((row.offset or 0, row.last_offset or 0))
    for which, spans in ours.items():
        for begin, end in spans:
            if not any(a <= begin and end <= b for a, b in theirs[which]):
                found.append(f"finding {which} at {begin} to {end}, not in {theirs[which]}")
    for which, spans in theirs.items():
        since = known.get(which[1:4])
        for begin, end in spans:
            if which[0] not in LATER or since is None or begin <= since:
                continue
            if not any(a <= begin and end <= b for a, b in ours[which]):
                found.append(f"no finding {which} at {begin} to {end}, but {ours[which]}")
    return found


@pytest.mark.parametrize("kind", ["alo", "amo", "mixed", "old"])
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_what_a_suffix_tells_is_what_the_whole_log_tells(kind: str, seed: int) -> None:
    raws = log(kind, seed)
    certain = 0
    for cut in range(1, len(raws) - 1, 17):
        part = told(raws[cut:])
        assert contradictions(whole(kind, seed), part, cut) == []
        certain += sum(row.known_from_offset is not None for row in part[CLAIMS])
    assert certain > (5 if kind == "old" else 40)


@pytest.mark.parametrize(
    "rule_sets", [BOTH, pytest.param((RuleSet.FENCED,), marks=pytest.mark.night)], ids=str
)
@pytest.mark.parametrize("seed", seeds(1, 3))
def test_a_collapsed_suffix_is_told_as_it_is_record_by_record(
    seed: int, rule_sets: tuple[RuleSet, ...]
) -> None:
    """Runs of claims that are not certain are looked at one by one, and only until they are."""
    judging = JudgingOptions(rule_sets, 4000, coordination_partitions=2)
    raws = fleet(seed, 3_000 if seed else 1_500, pauses=seed > 1)
    raws.sort(key=lambda raw: raw.offset)
    for cut in (13, len(raws) // 2 + 1):
        chunked = Chunked(raws[cut:], 311, 4000)
        ours, expected = chunked.told(judging), fed(raws[cut:], judging)
        assert ours == expected
        assert "became_certain" in {row.began for row in Rows(expected)[TENURES]}
    for kind in ("alo", "amo", "mixed"):
        for cut in range(7, 400, 97 if seed else 193):
            part = log(kind, seed)[cut:]
            how = JudgingOptions(rule_sets, FENCED.heartbeat_interval_ms)
            expected = fed(part, how)
            for size in (100, 1000):
                ours = Chunked(part, size, how.heartbeat_interval_ms).told(how)
                assert ours == expected, (kind, cut, size)


def run_of(positions: Sequence[int], first: int = 0) -> HeartbeatRun:
    """What `collapse` says of heartbeats that say these positions."""
    moves = [n for n in range(1, len(positions)) if positions[n] != positions[n - 1]]
    numbers = np.arange(first, first + len(positions), dtype=np.int64)
    begin, end = (moves[0], moves[-1]) if moves else (-1, -1)
    last = RawRecord(0, first + len(positions) - 1, 0, b"", ())
    return HeartbeatRun(
        last, numbers, numbers, positions[0], begin, positions[max(begin, 0)], end, 0
    )


@given(st.lists(st.integers(0, 2), min_size=2, max_size=7))
def test_the_rest_of_a_run_is_the_run_of_the_rest(positions: list[int]) -> None:
    rest = rest_of(run_of(positions), iter(positions[2:]))
    expected = run_of(positions[1:], 1)
    for name in ("position", "first_move", "moved_to", "last_move", "last"):
        assert getattr(rest, name) == getattr(expected, name), name
    assert rest.offsets.tolist() == expected.offsets.tolist() == rest.clocks_ms.tolist()


def test_a_suffix_that_is_put_aside_goes_on_as_it_was() -> None:
    raws = log("alo", 1)[200:]
    for at in range(1, 300, 51):
        partition_fold = PartitionFold(LogPartition("log", 0), JUDGING)
        for raw in raws[:at]:
            partition_fold.feed(raw)
        partition_fold.settle()
        rows = partition_fold.drain()
        partition_fold = pickle.loads(pickle.dumps(partition_fold))
        for raw in raws[at:]:
            partition_fold.feed(raw)
        partition_fold.close()
        rows.extend(partition_fold.drain())
        assert rows == told(raws)


def test_a_whole_log_is_told_as_before() -> None:
    rows = whole("alo", 0)
    assert {row.uncertain for row in rows[CLAIMS]} == {None}
    assert {row.known_from_offset for row in rows[CLAIMS]} == {None}
    assert rows[PARTITIONS][0].unknowable is None
    assert not any(row.began == "became_certain" for row in rows[TENURES])


def head_missing(rows: Rows) -> str:
    return next(
        row.sentence for row in log_findings(rows[PARTITIONS]) if row.code == "head_missing"
    )


def test_the_finding_says_how_much_became_certain_and_from_where_on() -> None:
    part = told(log("alo", 1)[200:])
    known = [row.known_from_offset or 0 for row in part[CLAIMS]]
    said = head_missing(part)
    assert "(coordinating partition 0 at 200)" in said
    assert f"3 of 3 claims, from offset {min(known)} to {max(known)} on; 0 never." in said
    unknowable = part[PARTITIONS][0].unknowable
    assert f"{unknowable} records came before" in said
    by_original = told(log("alo", 1)[200:], JudgingOptions((RuleSet.ORIGINAL,), 4000))
    assert "as if it began here" in head_missing(by_original)


def test_without_headers_a_claim_is_never_certain_and_nothing_is_told_of_it() -> None:
    lines = ["0 CP a1/A at=9", "1 HB a1/A 5", "2 CP b1/B", "3 RP a1/A 9", "4 CP b1/B"]
    rows = replayed(records(lines), rule_sets=(RuleSet.FENCED,))
    assert [row.tenures for row in rows[GROUPS]] == [0]
    assert rows[TENURES] == []
    assert rows[REFUSALS] == []
    [claim] = rows[CLAIMS]
    assert claim.uncertain == "clock, epoch, owner, position"
    assert claim.records == 5
    assert (claim.owner_instance, claim.epoch, claim.position, claim.clock_ms) == (None,) * 4
    assert "0 of 1 claim; 1 never. 5 records came before" in head_missing(rows)
    told_anyway = replayed(records(lines), rule_sets=(RuleSet.ORIGINAL,))
    assert told_anyway[TENURES]


def test_a_release_group_makes_it_certain_that_nobody_owns_and_no_more() -> None:
    lines = ["0 HB a1/A 5 at=9", "1 RG adm/X 30", "2 HB a1/A 6"]
    [claim] = replayed(records(lines), rule_sets=(RuleSet.FENCED,))[CLAIMS]
    assert claim.uncertain == "clock, epoch, position"
    assert claim.stale is None


CERTIFIED = "1 HB a1/A 50 epoch=3 seen=9 clock=1700000000000"


def test_a_release_that_may_have_set_the_position_puts_the_claim_back() -> None:
    """Only if nobody was seen to pause the group, and it says less than was known."""
    lines = ["0 HB a1/A 49 epoch=3 at=10", CERTIFIED, "2 RP a1/A 20 epoch=3", "3 HB b1/B 1"]
    rows = replayed(records(lines), rule_sets=(RuleSet.FENCED,))
    [tenure] = rows[TENURES]
    assert (tenure.began, tenure.ended, tenure.position_to) == (
        "became_certain", "released", None,
    )  # fmt: skip
    [claim] = rows[CLAIMS]
    assert (claim.uncertain, claim.known_from_offset) == ("position", None)
    ahead = [*lines[:2], "2 RP a1/A 60 epoch=3", "3 CP b1/B"]
    [claim] = replayed(records(ahead), rule_sets=(RuleSet.FENCED,))[CLAIMS]
    assert (claim.known_from_offset, claim.position) == (11, 60)
    negative = [*lines[:2], "2 RP a1/A -1 epoch=3"]
    [tenure] = replayed(records(negative), rule_sets=(RuleSet.FENCED,))[TENURES]
    assert tenure.ended == "unknowable"


def test_what_was_left_out_on_purpose_is_not_unknown() -> None:
    raws = records(["0 CP a1/A at=9", "1 HB a1/A 5"])
    partition_fold = PartitionFold(
        LogPartition("log", 2), JudgingOptions((RuleSet.FENCED,), 4000, log_begins=0)
    )
    for raw in raws:
        partition_fold.feed(raw)
    partition_fold.close()
    [claim] = partition_fold.drain()[CLAIMS]
    assert claim.owner_instance == "a1"


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "the position need not be certain": lambda patch: patch.setattr(
        suffix_room, "NEEDED", suffix_room.NEEDED & ~Field.POSITION
    ),
    "the clock need not be certain": lambda patch: patch.setattr(
        suffix_room, "NEEDED", suffix_room.NEEDED & ~Field.CLOCK
    ),
    "a guess is enough": lambda patch: patch.setattr(suffix_room, "NEEDED", Field(0)),
    "the head is taken for nothing": lambda patch: patch.setattr(
        Reader, "beginning_at", lambda first: Reader()
    ),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_claim_that_is_seeded_too_early_is_noticed(
    mutant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = [("stepped back", 0), *((kind, seed) for kind in ("old", "alo") for seed in range(3))]
    full = {which: whole(*which) for which in logs}
    MUTANTS[mutant](monkeypatch)
    assert any(
        contradictions(rows, told(log(*which)[cut:]), cut)
        for which, rows in full.items()
        for cut in range(1, len(log(*which)) - 1, 1 if which[0] == "stepped back" else 17)
    )


def test_a_clock_that_was_ahead_before_is_not_certain() -> None:
    raws = log("stepped back", 0)
    for cut in range(1, len(raws) - 1):
        assert contradictions(whole("stepped back", 0), told(raws[cut:]), cut) == []
