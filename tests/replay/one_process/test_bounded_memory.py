"""One process holds few rows of a log at once, and answers as if it held them all."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.written import written

from kafka_marshal import RuleSet
from kafka_marshal.capture import RawRecord
from kafka_marshal.replay import Summary, run
from kafka_marshal.replay.fold import partition_fold
from kafka_marshal.replay.fold.jobs import WholeLog
from kafka_marshal.replay.model.folded_log import CLAIM
from kafka_marshal.replay.model.tables import FINDINGS, OF_CLAIMS, PARTITIONS, PUBLISHED, Rows
from kafka_marshal.replay.one_process import gathering, local_fold, sorted_table, sorting
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.one_process.sorting import Sorter, SpillFolder
from kafka_marshal.replay.sources import find
from tests.replay import dumps
from tests.replay.fleets import fleet

SCHEMA = pa.schema([("name", pa.string()), ("offset", pa.int64()), ("came", pa.int64())])
ORDER = ("name", "offset")
_NUMBERS = [each.name for each in PARTITIONS.columns if each.name != "log"]
TABLES = [table.name for table in PUBLISHED]


def nulls_first(row: dict[str, Any]) -> list[tuple[bool, Any]]:
    return [(row[name] is not None, row[name]) for name in ORDER]


@pytest.mark.parametrize("seed", range(5))
def test_rows_come_out_in_order_and_equal_ones_as_they_came(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorting, "FILES_AT_ONCE", 3)
    monkeypatch.setattr(sorting, "ROWS_AT_ONCE", 4)
    chance = random.Random(seed)
    rows = [
        {"name": chance.choice(["a", "b", "ç", None]), "offset": chance.choice([1, 2, None])}
        | {"came": number}
        for number in range(400)
    ]
    with SpillFolder() as folder:
        sorter = Sorter(SCHEMA, ORDER, folder)
        begin = 0
        while begin < len(rows):
            end = begin + chance.randint(1, 20)
            sorter.add(pa.RecordBatch.from_pylist(rows[begin:end], SCHEMA))
            begin = end
            if chance.random() < 0.7:
                sorter.spill()
        assert sorter.rows == len(rows)
        batches = list(sorter.batches())
        assert max(batch.num_rows for batch in batches) <= 4
        found = [row for batch in batches for row in batch.to_pylist()]
    assert found == sorted(rows, key=nulls_first)


def test_files_are_gone_with_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with SpillFolder() as folder:
        sorter = Sorter(SCHEMA, ORDER, folder)
        assert list(tmp_path.iterdir()) == []  # nothing is made for few rows
        for came in range(3):
            sorter.add(pa.RecordBatch.from_pylist([{"came": came}], SCHEMA))
            sorter.spill()
        [made] = tmp_path.iterdir()
        assert len(list(made.glob("[0-9]*"))) == 3
        assert len(list(sorter.batches())) == 3
        assert list(made.glob("[0-9]*")) == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes of rows were in memory, after each addition."""
    seen: list[int] = []
    add_stored = GatheredRows.add_stored

    def counted(gathered: GatheredRows, name: str, rows: pa.StructArray) -> None:
        add_stored(gathered, name, rows)
        seen.append(gathered.bytes_held)

    monkeypatch.setattr(GatheredRows, "add_stored", counted)
    return seen


@pytest.mark.night  # It is long. By day the next one counts rows in memory, too.
def test_a_log_of_any_length_is_folded_with_few_rows_in_memory(
    tmp_path: Path, held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = fleet(3, 3_000)
    for part in range(3):
        path = tmp_path / "log" / f"part-{part}.parquet"
        dumps.write(path, dumps.table(given[part::3]))

    def replayed(name: str, **options: Any) -> dict[str, str]:
        run(
            [str(tmp_path / "log")], out=tmp_path / name / "out", rules="both", engine="local",
            heartbeat_interval_s=4, **options,
        )  # fmt: skip
        return written(tmp_path / name / "out")

    at_once = replayed("at_once")
    most = max(held)
    held.clear()
    limit = most // 20
    monkeypatch.setattr(local_fold, "ROWS_BYTES_MAX", limit)
    monkeypatch.setattr(local_fold, "ROWS_PER_FILE", 20)
    monkeypatch.setattr(gathering, "READ_BYTES_MAX", limit)
    monkeypatch.setattr(sorting, "ROWS_AT_ONCE", 32)
    monkeypatch.setattr(sorting, "FILES_AT_ONCE", 4)
    monkeypatch.setattr(sorted_table, "ROW_GROUP_BYTES", 1 << 14)
    assert replayed("in_files") == at_once
    assert max(held) <= limit
    for table in TABLES:
        one, other = (tmp_path / name / "out" / table for name in ("at_once", "in_files"))
        assert pq.read_table(one).equals(pq.read_table(other)), table  # in the same order, too
    assert len(list((tmp_path / "in_files" / "out" / "findings").iterdir())) > 1
    held.clear()
    resumed = replayed("resumed", checkpoint=tmp_path / "checkpoint")
    assert max(held) <= limit
    for table in TABLES:
        assert resumed[table] == at_once[table], table


def test_records_that_reach_many_claims_do_not_pile_up_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_fold, "ROWS_WAITING_MAX", 500)
    values = [b"ClaimingPartition/1/60/i/c/g/t%d/0" % number for number in range(200)]
    values += [b"ReleaseGroup/1/60/i/c/g//0/90"] * 50
    given = [RawRecord(0, number, 60_000, value) for number, value in enumerate(values)]
    dumps.write(tmp_path / "log.parquet", dumps.table(given))
    judging = partition_fold.JudgingOptions((RuleSet.FENCED, RuleSet.ORIGINAL), 60_000)
    job = WholeLog(find([str(tmp_path / "log.parquet")]).chunks, judging, collapsing=False)
    drained = [len(rows) for rows in gathering.folded(job)]
    assert sum(drained) > 50 * 200 * 2
    assert max(drained) < 500 + 10 * 200


@pytest.mark.parametrize("limit", [1, 2, 50])
def test_the_first_findings_of_a_claim_are_the_worst_and_equal_ones_in_the_order_of_the_table(
    limit: int,
) -> None:
    chance = random.Random(limit)
    claims = [("log", 0, "g", "t", number) for number in range(2)]
    columns = dict.fromkeys([each.name for each in FINDINGS.columns if each.name != "records"])
    stored = [
        columns
        | dict(zip(CLAIM, chance.choice(claims), strict=True))
        | {"code": chance.choice("ab"), "rules": chance.choice([None, "fenced", "original"])}
        | {"severity": chance.choice(["error", "warning", "info"]), "offset": chance.randrange(3)}
        | {"instance": str(number), "records": ()}
        for number in range(200)
    ]
    with GatheredRows(OF_CLAIMS) as gathered:
        gathered.add(Rows(FINDINGS.rows(stored)))
        gathered.add(Rows(PARTITIONS.rows([dict.fromkeys(_NUMBERS, 0)])))
        fold = LocalFoldedLog.of(gathered)
        found = fold.first_of_claims(FINDINGS, claims, limit)
        in_order = list(fold.each(FINDINGS))
    ranks = {"error": 0, "warning": 1, "info": 2}
    expected, seen = [], Counter[object]()
    for row in sorted(in_order, key=lambda row: (ranks[row.severity], row.offset)):
        seen[row.topic_partition, row.rules] += 1
        if seen[row.topic_partition, row.rules] <= limit:
            expected.append(row.instance)
    assert [row.instance for row in found] == expected


def test_a_run_without_enough_memory_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = fleet(3, 600)
    for name, records in (("one", given[:400]), ("two", given)):
        dumps.write(tmp_path / name / "log" / "part-0.parquet", dumps.table(records))

    def replayed(name: str, out: str) -> Summary:
        return run(
            [str(tmp_path / name / "log")], out=tmp_path / out, heartbeat_interval_s=4,
            checkpoint=tmp_path / "checkpoint", engine="local",
        )  # fmt: skip

    def fail(*_: object) -> None:
        raise pa.lib.ArrowMemoryError("malloc of size 64 failed")

    replayed("one", "first")
    with monkeypatch.context() as patch:
        patch.setattr(GatheredRows, "add_stored", fail)
        with pytest.raises(MemoryError):
            replayed("two", "second")
    assert (tmp_path / "first").is_dir()
    assert not (tmp_path / "second").exists()
    assert replayed("two", "second").checkpoint == {"run": 2, "folded": 200, "skipped": 400}
