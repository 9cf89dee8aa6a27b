from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafka_marshal.replay.spark import progress
from kafka_marshal.replay.spark.progress import tasks_reported

pytestmark = pytest.mark.spark


def test_tasks_are_told_while_they_are_done_and_not_after(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "EVERY_S", 0.05)
    told: list[tuple[int, int]] = []

    def slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(0.3)
        yield from batches

    def work() -> None:
        spark.range(12, numPartitions=12).mapInArrow(slow, "id: bigint").collect()

    with tasks_reported(spark.sparkContext, lambda done, of: told.append((done, of))):
        work()
    assert {of for _, of in told} == {12}
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert 0 < max(done for done, _ in told) <= 12
    before = len(told)
    work()
    assert len(told) == before
