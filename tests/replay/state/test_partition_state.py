"""A coordinating partition put aside and taken up again says what it says without that."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.chunk_items import ChunkFacts, RowItem
from kafka_marshal.replay.model.rows import Row
from kafka_marshal.replay.model.tables import FINDINGS
from kafka_marshal.replay.state.partition_state import PartitionState, read_head, take_up
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import Chunked, fed, judging
from tests.replay.told import INTERVAL_MS, records

LINES = ["0 CP a1/A", "1 HB a1/A 1", "2 HB a1/A 2", "40 CP b1/B", "41 HB a1/A 3", "42 HB b1/B 3"]


def take(standing: PartitionState, item: RowItem, chunked: Chunked) -> None:
    assert isinstance(standing.place_fold, PartitionFold)
    standing.take(item, partial(standing.place_fold.take, expand=chunked.expand))


def parted(
    pieces: Sequence[Sequence[RawRecord]],
    collapsed: Sequence[bool],
    how: JudgingOptions,
    folder: Path,
) -> Counter[Row]:
    """The rows of a log in pieces, each collapsed or record by record."""
    told: Counter[Row] = Counter()
    states: dict[int, Path] = {}
    for piece, collapsing in zip(pieces, collapsed, strict=True):
        chunked = Chunked(piece, 211, how.heartbeat_interval_ms, joined=False)
        for partition in sorted({raw.partition for raw in piece}):
            known = states.get(partition)
            standing = take_up(known) if known else PartitionState.of("log", partition, how)
            if collapsing:
                for place, item in chunked.items:
                    if place == partition:
                        take(standing, item, chunked)
            else:
                for raw in sorted(piece, key=lambda raw: raw.offset):
                    if raw.partition == partition:
                        standing.feed(raw)
            told.update(standing.put_aside(folder / f"{partition}.state"))
            states[partition] = folder / f"{partition}.state"
            assert read_head(states[partition]).folded == standing.folded
    for path in states.values():
        told.update(take_up(path).ended())
    return told


@pytest.mark.parametrize(
    "seed", [0, 3, *(pytest.param(seed, marks=pytest.mark.night) for seed in (1, 2))]
)
def test_a_log_in_pieces_comes_to_what_it_comes_to_whole(seed: int, tmp_path: Path) -> None:
    raws = fleet(seed, 3_000, headers=seed % 2 == 0, pauses=seed > 2)
    raws.sort(key=lambda raw: raw.offset)
    cuts = sorted(random.Random(seed).sample(range(len(raws)), 5))
    pieces = [raws[a:b] for a, b in zip([0, *cuts], [*cuts, len(raws)], strict=True)]
    collapsed = [random.Random(seed * cut).random() < 0.6 for cut in (0, *cuts)]
    assert parted(pieces, collapsed, judging(), tmp_path) == fed(raws, judging())


@pytest.mark.parametrize("collapsed", [(True, False), (False, True), (True, True)])
def test_the_clock_goes_on_from_the_latest_time_of_the_last_run(
    collapsed: tuple[bool, bool], tmp_path: Path
) -> None:
    raws = records(["0 CP a1/A", "1 HB a1/A 1", "99 CP b1/B p=1", "2 HB a1/A 2", "3 HB a1/A 3"])
    pieces = raws[:3], raws[3:]
    assert parted(pieces, collapsed, judging(), tmp_path) == fed(raws, judging())


def test_a_clock_that_is_forgotten_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail."""
    monkeypatch.setattr(PartitionFold, "settle", lambda account: account._take_waiting(None))
    with pytest.raises(AssertionError):
        test_the_clock_goes_on_from_the_latest_time_of_the_last_run((True, False), tmp_path)


def standing(folder: Path, lines: Sequence[str] = LINES) -> Path:
    made = PartitionState.of("log", 2, judging())
    for raw in records(lines):
        made.feed(raw)
    made.put_aside(folder / "2.state")
    return folder / "2.state"


def found(standing: PartitionState) -> set[object]:
    return {row.code for row in standing.ended()[FINDINGS]}


def test_another_record_where_the_last_run_ended_is_a_forked_log(tmp_path: Path) -> None:
    last = records(LINES)[-1]
    same, other = take_up(standing(tmp_path)), take_up(standing(tmp_path))
    same.again(last)
    other.again(attrs.evolve(last, value=b"Heartbeat/1/1/x/y/g/t/0/1"))
    assert (same.forked, same.skipped) == (False, 1)
    assert "conflicting_duplicate" not in found(same)
    assert other.forked
    assert "conflicting_duplicate" in found(other)


@pytest.mark.parametrize("collapsing", [False, True])
def test_offsets_missing_between_two_runs_are_a_gap(tmp_path: Path, collapsing: bool) -> None:
    after = records(["50 HB b1/B 4 at=9", "51 HB b1/B 5"])
    resumed = take_up(standing(tmp_path))
    assert resumed.next_offset == 6
    if collapsing:
        chunked = Chunked(after, 100, INTERVAL_MS, joined=False)
        assert chunked.kinds[ChunkFacts] == 1
        for _, item in chunked.items:
            take(resumed, item, chunked)
    else:
        for raw in after:
            resumed.feed(raw)
    (gap,) = (row for row in resumed.ended()[FINDINGS] if row.code == "offset_gap")
    assert str(gap.sentence).startswith("3 offsets are missing inside the log, in 1 gap: 6 to 8")
    assert "who won or released a claim in them is not known" in str(gap.sentence)


def test_a_state_that_is_damaged_is_refused(tmp_path: Path) -> None:
    path = standing(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["2.state"]
    whole = path.read_bytes()
    for bad in (
        b"",
        b"{}\n",
        whole[:-1],
        b"garbage\n" + whole,
        whole.replace(b'"sha256"', b'"sha"'),
    ):
        path.write_bytes(bad)
        with pytest.raises(CheckpointRefused, match=r"2\.state is damaged"):
            take_up(path)
