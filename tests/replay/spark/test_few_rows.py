"""Marshal promises that a log of few rows is one job on Spark, and asks it no query."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from benchmarks.written import written
from pyspark.sql import SparkSession
from tools.runs.by_day import sampled

from kafka_marshal.replay import run
from kafka_marshal.replay.spark import collected
from kafka_marshal.replay.spark.pipeline import SparkEngine
from tests.replay.sizes import as_a_large_log

pytestmark = pytest.mark.spark

CAPTURES = Path(__file__).parent.parent.parent / "data" / "captures" / "original"
D3 = CAPTURES / "d3_late_heartbeat_theft.jsonl"


@pytest.mark.parametrize(("unevenly", "jobs"), sampled([(collected._UNEVENLY, 1), (0, 2)], 2))
def test_rows_that_tasks_send_or_are_asked_for_are_the_same(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unevenly: int,
    jobs: int,
) -> None:
    def refused(engine: SparkEngine) -> SparkSession:
        raise AssertionError("a query was asked")

    run([str(D3)], out=tmp_path / "here" / "out", heartbeat_interval_s=4, engine="local")
    monkeypatch.setattr(SparkEngine, "session", refused)
    monkeypatch.setattr(collected, "_UNEVENLY", unevenly)
    group, context = f"unevenly {unevenly}", spark.sparkContext
    context.setJobGroup(group, group)
    try:
        with as_a_large_log(collected.COLLECTED_ROWS_MAX):
            run([str(D3)], out=tmp_path / "there" / "out", heartbeat_interval_s=4, spark=spark)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert len(context.statusTracker().getJobIdsForGroup(group)) == jobs
    assert written(tmp_path / "there" / "out") == written(tmp_path / "here" / "out")


def test_a_worker_begins_with_what_tasks_need_and_without_pandas(spark: SparkSession) -> None:
    def imported(_: Iterable[int]) -> Iterator[tuple[bool, bool]]:
        yield "kafka_marshal.replay.spark.stages" in sys.modules, "pandas" in sys.modules

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(imported).collect()
    assert found == [(True, False)]
