"""A coordinating partition with most of a log is folded while chunks are read: to the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import evolve
from benchmarks.written import written

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay import InvalidOption, run
from kafka_marshal.replay.engines import by_partition
from kafka_marshal.replay.engines.folding_ahead import FoldingAhead
from kafka_marshal.replay.one_process import gathering
from kafka_marshal.replay.one_process.gathering import Place
from tests.replay import dumps
from tests.replay.fleets import fleet


def replayed(
    log: Path, processes: int, patch: pytest.MonkeyPatch
) -> tuple[dict[str, str], list[Place | None], list[int]]:
    """What was written of a log, what was folded ahead, and how many chunks and folds followed."""
    ahead: list[Place | None] = []
    counts: list[int] = []

    def counted(done: int, of: int) -> None:
        if done == of:
            counts.append(of)

    class Watched(FoldingAhead):
        def __exit__(self, *error: object) -> None:
            ahead.append(self.place)
            super().__exit__(*error)

    patch.setattr(by_partition, "RECORDS_PER_PROCESS", 100)
    patch.setattr(by_partition, "_cores", lambda: processes)
    patch.setattr(by_partition, "FoldingAhead", Watched)
    out = log.parent / f"out-{log.name}-{processes}"
    run([str(log)], out=out, heartbeat_interval_s=4, rules="both", engine="local", on_tasks=counted)
    return written(out), ahead, counts


def in_files(log: Path, parts: Sequence[Sequence[RawRecord]]) -> Path:
    for number, records in enumerate(parts):
        dumps.write(log / f"part-{number}.parquet", dumps.table(records))
    return log


def in_parts(records: Sequence[RawRecord], count: int) -> list[Sequence[RawRecord]]:
    size = max(1, -(-len(records) // count))
    return [records[begin : begin + size] for begin in range(0, len(records), size)]


NIGHT = pytest.mark.night


@pytest.mark.parametrize(
    ("others", "collapsing"),
    [
        pytest.param(0, True, id="one partition"),
        pytest.param(200, True, id="four fifths", marks=NIGHT),
        pytest.param(200, False, id="four fifths, record by record"),
    ],
)
def test_one_hot_partition_is_told_the_same_by_two_processes(
    tmp_path: Path, others: int, collapsing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collapsing:
        monkeypatch.setattr(gathering, "FED_RECORDS_MAX", 0)
    given = fleet(5, 1_600)
    hot = [raw for raw in given if raw.partition == 0]
    cold = [raw for raw in given if raw.partition == 1][:others]
    parts = [
        [*more, *raws]
        for more, raws in zip(in_parts(cold, 4) or [[]] * 4, in_parts(hot, 4), strict=True)
    ]
    log = in_files(tmp_path / "log", parts)
    alone, *_ = replayed(log, 1, monkeypatch)
    together, ahead, counts = replayed(log, 2, monkeypatch)
    assert together == alone
    assert ahead == [("log", 0)]
    assert counts == ([4, 1] if others else [4]), "the chunks, and then the other partition"
    assert alone["refusals"]
    values = b"".join(raw.value or b"" for raw in hot)
    assert b"ReleaseGroup" in values


@pytest.mark.parametrize("collapsing", [True, pytest.param(False, marks=NIGHT)])
def test_chunks_that_are_in_no_order_are_folded_when_all_were_read(
    tmp_path: Path, collapsing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if collapsing:
        monkeypatch.setattr(gathering, "FED_RECORDS_MAX", 0)
    parts = in_parts([raw for raw in fleet(8, 1_600) if raw.partition == 0], 4)
    told = []
    orders = {"in_order": [0, 1, 2, 3], "later": [0, 1, 3, 2]}
    for name, order in orders.items():
        log = in_files(tmp_path / name / "log", [parts[number] for number in order])
        told.append(replayed(log, 2, monkeypatch))
    (in_order, ahead, _), (later, not_ahead, _) = told
    assert (ahead, not_ahead) == ([("log", 0)], [None])
    for table in ("claims", "tenures", "findings", "refusals", "divergences"):
        assert later[table] == in_order[table]


def test_what_a_fold_ahead_raises_ends_the_replay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log contradicts the heartbeat interval that was given, which its fold sees."""
    monkeypatch.setattr(gathering, "FED_RECORDS_MAX", 0)
    says = ("marshal-interval", b"1000")
    given = [
        evolve(raw, headers=(*raw.headers, says)) for raw in fleet(8, 800) if raw.partition == 0
    ]
    log = in_files(tmp_path / "log", in_parts(given, 2))
    with pytest.raises(InvalidOption, match="1s in the log"):
        replayed(log, 2, monkeypatch)
