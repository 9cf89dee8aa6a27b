from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import attrs
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_marshal import FENCED, ORIGINAL
from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.replay import (
    InvalidOption,
    OutputExists,
    ReplayError,
    Summary,
    UnreadableSource,
    run,
)
from kafka_marshal.replay.engines.engine import run_fold
from kafka_marshal.replay.errors import SparkFailed
from kafka_marshal.replay.exports.output import placed
from kafka_marshal.replay.fold.jobs import WholeLog
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.model import tables
from kafka_marshal.replay.model.rows import arrow_rows
from kafka_marshal.replay.sources import find
from kafka_marshal.replay.spark import pipeline
from kafka_marshal.replay.spark.pipeline import SparkEngine
from kafka_marshal.trace import trace
from tests.replay import dumps
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import sharing
from tests.replay.told import BOTH, records, replayed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("large")]
BY_ONE_PROCESS = pytest.mark.night
"""By day `tests/replay/fold` and `tests/replay/sources` have the same in one process."""

CAPTURES = Path(__file__).parent.parent.parent / "data" / "captures" / "original"
D3 = CAPTURES / "d3_late_heartbeat_theft.jsonl"


def replay(spark: SparkSession, out: Path, *sources: Path, rules: str = "both") -> Summary:
    return run([str(s) for s in sources], out=out, heartbeat_interval_s=4, rules=rules, spark=spark)


def read(out: Path, table: str) -> pd.DataFrame:
    return pd.read_parquet(out / table)


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[RawRecord]]:
    """One log over five coordinating partitions, in many unsorted files, with odd records."""
    folder = tmp_path_factory.mktemp("dump")
    given: list[RawRecord] = []
    names = ("a_clean", "c_fast_reclaim", "d3_late_heartbeat_theft", "f_admin_set_position")
    for partition, name in enumerate(names):
        path = CAPTURES / f"{name}.jsonl"
        given += [attrs.evolve(raw, partition=partition) for raw in read_capture(path)]
    odd = records(["0 CP a1/A", "1 HB a1/A 5 epoch=0 seen=0", "2 garbage", "3 HB a1/A 7 epoch=9"])
    given += [attrs.evolve(raw, partition=4) for raw in odd]
    given += [given[10], attrs.evolve(given[20], value=b"Heartbeat/1/1/x/y/g/t/0/1"), odd[-1]]
    order = random.Random(7)  # the seed that replays it
    order.shuffle(given)
    for number in range(6):
        dumps.write(folder / f"part-{number}.parquet", dumps.table(given[number::6]))
    read_order = [raw for number in range(6) for raw in given[number::6]]
    return folder, read_order


@pytest.mark.night
def test_a_shuffled_log_folds_as_if_it_had_been_read_in_order(
    spark: SparkSession, shuffled: tuple[Path, list[RawRecord]], tmp_path: Path
) -> None:
    folder, given = shuffled
    summary = replay(spark, tmp_path / "out", folder)
    assert summary.records == len(given)
    wanted = replayed(given)
    for table in set(tables.PUBLISHED) - {tables.FINDINGS}:
        rows = [attrs.evolve(row, log=folder.name) for row in wanted[table]]
        stored = arrow_rows(table, rows).to_pylist()
        found = spark.read.parquet(str(tmp_path / "out" / table.name)).collect()
        assert sorted(map(repr, stored)) == sorted(
            repr(row.asDict(recursive=True)) for row in found
        )
    for rules in (FENCED, ORIGINAL):
        judged = attrs.evolve(rules, heartbeat_interval_ms=4000)
        traced = [r for r in trace(given, judged) if r["verdict"] == "refused"]
        rows_found = read(tmp_path / "out", "refusals").query(f"rules == '{rules.rule_set.value}'")
        assert sorted((r["partition"], r["offset"], r["guard"]) for r in traced) == sorted(
            zip(
                rows_found["coordinating_partition"],
                rows_found["offset"],
                rows_found["guard"],
                strict=True,
            )
        )


@BY_ONE_PROCESS
def test_captures_parquet_folders_and_globs_go_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    dump = tmp_path / "dump" / "part-0.parquet"
    dumps.write(dump, dumps.table(read_capture(CAPTURES / "a_clean.jsonl"), "ns"))
    summary = replay(spark, tmp_path / "out", D3, dump.parent, CAPTURES / "h_*.jsonl")
    assert set(summary.logs) == {"d3_late_heartbeat_theft", "dump", "h_entire_topic"}
    found = read(tmp_path / "out", "findings")
    stolen = found[found["code"] == "late_heartbeat_stole"]
    assert list(stolen["offset"]) == [82, 176]
    assert set(stolen["rules"]) == {"original"}
    assert set(found[found["severity"] != "info"]["log"]) == {"d3_late_heartbeat_theft"}
    assert set(read(tmp_path / "out", "claims")["rules"]) == {"fenced", "original"}


def test_a_run_leaves_tables_a_summary_and_a_page_and_no_stray_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A second one gives the same, and never overwrites."""
    summary = replay(spark, tmp_path / "out", D3, rules="original")
    names = {table.name for table in tables.PUBLISHED}
    assert {path.name for path in (tmp_path / "out").iterdir()} == names | {
        "summary.json",
        "report.html",
    }
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    for table in tables.PUBLISHED:
        stored = read(tmp_path / "out", table.name)
        assert list(stored.columns) == [column.name for column in table.columns]
        assert len(stored) == summary.rows[table.name]
        assert [p.suffix for p in (tmp_path / "out" / table.name).iterdir()] == [".parquet"]
    told = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert (told["records"], told["rules"]) == (236, ["original"])
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "stole events/4 of group g.d3" in page
    replay(spark, tmp_path / "two", D3, rules="original")
    for name in ("summary.json", "report.html"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    with pytest.raises(OutputExists, match="out: exists already"):
        replay(spark, tmp_path / "out", D3)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


@BY_ONE_PROCESS
def test_what_only_a_whole_log_shows_is_a_finding(spark: SparkSession, tmp_path: Path) -> None:
    lines = ["0 CP a1/A at=3 late=-9", "1 HB a1/A 1 late=-9", "2 HB a1/A 2 late=-9"]
    given = [*records(lines), *records(["3 HB a1/A 3 at=6 stamp=create"])]
    dumps.write(tmp_path / "dump.parquet", dumps.table(given))
    summary = replay(spark, tmp_path / "out", tmp_path / "dump.parquet", rules="fenced")
    found = read(tmp_path / "out", "findings")
    of_log = set(found[found["rules"].isna()]["code"])
    assert of_log == {"head_missing", "create_time", "sender_clock_off"}
    assert of_log <= {count.code for count in summary.findings}
    assert len(summary.caveats) == 2


@pytest.mark.parametrize(
    "bad", ["{oops", pytest.param('{"partition": 1}', marks=pytest.mark.night)]
)
@pytest.mark.parametrize("records_max", [-1, pipeline.ONE_TASK_RECORDS_MAX])
def test_an_unreadable_line_stops_the_run_and_leaves_nothing(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bad: str,
    records_max: int,
) -> None:
    monkeypatch.setattr(pipeline, "ONE_TASK_RECORDS_MAX", records_max)
    lines = D3.read_text(encoding="utf-8").splitlines()[:5]
    path = tmp_path / "in" / "x.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join([*lines, bad]), encoding="utf-8")
    with pytest.raises(UnreadableSource) as caught:
        replay(spark, tmp_path / "out", path)
    assert str(caught.value).startswith(f"{path}:6: ")
    assert "\n" not in str(caught.value)
    assert [entry.name for entry in tmp_path.iterdir()] == ["in"]


def test_what_breaks_in_a_small_logs_task_is_told_in_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    chunks = find([str(D3)]).chunks

    def broken(*_: object) -> None:
        raise ZeroDivisionError("of a task")

    job = WholeLog(chunks, JudgingOptions(BOTH, 4000), collapsing=False)
    monkeypatch.setattr(pipeline, "folded", broken)
    with (
        pytest.raises(SparkFailed, match="ZeroDivisionError: of a task") as caught,
        SparkEngine(spark)._in_one_task(job),
    ):
        pass
    assert "\n" not in str(caught.value)


def test_a_missing_column_is_told_before_spark_starts(tmp_path: Path) -> None:
    given = dumps.table(records(["0 CP a1/A"])).drop_columns(["offset"])
    path = dumps.write(tmp_path / "d.parquet", given)
    with pytest.raises(UnreadableSource, match="column 'offset' is missing"):
        run([str(path)], out=tmp_path / "out", heartbeat_interval_s=4)
    assert [entry.name for entry in tmp_path.iterdir()] == ["d.parquet"]


@pytest.mark.parametrize("interval_s", [0, -1, float("nan"), float("inf")])
def test_an_interval_that_makes_no_sense_is_named(tmp_path: Path, interval_s: float) -> None:
    with pytest.raises(InvalidOption, match="--heartbeat-interval must be"):
        run([str(D3)], out=tmp_path / "out", heartbeat_interval_s=interval_s)


@pytest.mark.parametrize(
    "option",
    [{"rules": "none"}, {"pause_max_s": 0}, {"coordination_partitions": 0}],
    ids=["rules", "pause", "partitions"],
)
def test_an_option_that_makes_no_sense_is_named(tmp_path: Path, option: dict[str, object]) -> None:
    with pytest.raises(InvalidOption, match=r"--(rules|pause-max|coordination-partitions)"):
        run([str(D3)], out=tmp_path / "out", heartbeat_interval_s=4, **option)  # type: ignore[arg-type]


def test_a_run_that_breaks_leaves_no_folder(tmp_path: Path) -> None:
    def broken() -> None:
        with placed(tmp_path / "out") as folder:
            (folder / "half").touch()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_appears_meanwhile_is_left_whole(tmp_path: Path) -> None:
    def overtaken() -> None:
        with placed(tmp_path / "out") as folder:
            (folder / "mine").touch()
            (tmp_path / "out").mkdir()

    with pytest.raises(OutputExists):
        overtaken()
    assert list(tmp_path.rglob("*")) == [tmp_path / "out"]


def test_an_output_under_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ReplayError, match="cannot write there"), placed(tmp_path / "file" / "out"):
        pass


def test_records_that_conflict_keep_their_input_order(spark: SparkSession, tmp_path: Path) -> None:
    (first,) = records(["0 CP a1/A"])
    (other,) = records(["0 CP b1/B"])
    for name, given in (("a", first), ("b", other)):
        dumps.write(tmp_path / "dump" / f"{name}.parquet", dumps.table([given]))
    found = find([str(tmp_path / "dump")])
    judging = JudgingOptions(BOTH, 4000)
    for chunks, owner in ((found.chunks, "a1"), (found.chunks[::-1], "b1")):
        with run_fold(SparkEngine(spark), chunks, judging) as fold:
            claims = fold.collect(tables.CLAIMS)[tables.CLAIMS]
            assert {row.owner_instance for row in claims} == {owner}


def test_spark_reads_what_spark_wrote(spark: SparkSession, tmp_path: Path) -> None:
    given = records(["0 CP a1/A", "1.5 HB a1/A 5 epoch=0 seen=0", "2 RP a1/A 5 epoch=0"])
    arrow = dumps.table(given)
    frame = spark.createDataFrame(
        [tuple(row.values()) for row in arrow.to_pylist()],
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
        " timestampType int, headers array<struct<key: string, value: binary>>",
    )
    assert pa.types.is_timestamp(arrow.schema.field("timestamp").type)
    for kind in ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        frame.repartition(2).write.parquet(str(tmp_path / f"{kind}.parquet"))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    found = find([str(tmp_path)])
    assert set(found.logs) == {"INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"}
    with run_fold(SparkEngine(spark), found.chunks, JudgingOptions(BOTH, 4000)) as fold:
        tenures = fold.collect(tables.TENURES)[tables.TENURES]
    assert {(row.log, row.rules, row.to_ms, row.ended) for row in tenures} == {
        (log, rules, given[-1].timestamp_ms, "released")
        for log in found.logs
        for rules in ("fenced", "original")
    }


def test_a_log_that_starts_in_the_middle_is_told_from_where_it_is_certain(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The log is shuffled. `test_local` has one that begins there, too, and is in order."""
    given = [raw for raw in fleet(3, 1_500) if raw.offset >= 200]
    shuffled = list(given)
    random.Random(1).shuffle(shuffled)
    dumps.write(tmp_path / "dump.parquet", dumps.table(shuffled))
    out = tmp_path / "out"
    summary = replay(spark, out, tmp_path / "dump.parquet")
    expected = replayed(given)
    for table in set(tables.PUBLISHED) - {tables.FINDINGS}:
        assert len(read(out, table.name)) == len(expected[table])
    claims = read(out, "claims").query("rules == 'fenced'")
    assert claims["known_from_offset"].notna().all()
    assert claims["uncertain"].isna().all()
    [missing] = read(out, "findings").query("code == 'head_missing'")["sentence"]
    assert "12 of 12 claims, from offset 2" in missing
    told = json.loads(summary.json())["logs"][0]["partitions"]
    assert [row["claims_known_later"] for row in told] == [6, 6]
    assert "head_missing" in summary.report.read_text(encoding="utf-8")


@BY_ONE_PROCESS
def test_claims_that_are_never_certain_are_on_the_page(spark: SparkSession, tmp_path: Path) -> None:
    given = [raw for raw in fleet(3, 1_000, headers=False) if raw.offset >= 200]
    dumps.write(tmp_path / "dump.parquet", dumps.table(given))
    summary = replay(spark, tmp_path / "out", tmp_path / "dump.parquet", rules="fenced")
    claims = read(tmp_path / "out", "claims")
    assert len(claims) == 12
    assert claims["uncertain"].notna().all()
    assert summary.report.exists()


def test_spark_folds_ranges_as_one_process_does(spark: SparkSession, tmp_path: Path) -> None:
    given = sharing(0)
    dumps.write(tmp_path / "dump" / "a.parquet", dumps.table(given))
    judging = JudgingOptions(BOTH, 4000)
    with run_fold(SparkEngine(spark), find([str(tmp_path / "dump")]).chunks, judging) as fold:
        collected = fold.collect(*tables.PUBLISHED, tables.RANGES)
    expected = replayed(given)
    for table in (*tables.PUBLISHED, tables.RANGES):
        told = Counter(attrs.evolve(row, log="log") for row in collected[table])
        assert told == Counter(expected[table]), table.name
    found = {row.code for row in collected[tables.FINDINGS]}
    assert {"range_lost", "checkpoint_differs"} <= found
    assert any(row.ranges_frontier for row in collected[tables.CLAIMS])
    assert "lost" in {row.ended for row in collected[tables.RANGES]}
