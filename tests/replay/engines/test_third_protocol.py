"""Marshal promises that a third protocol is a few dozen lines: both engines fold what they get.

`counting` is one. It has a table of its own, reads keys, and knows nothing of claims.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_marshal.capture import RawRecord, capture_line
from kafka_marshal.replay.engines.engine import Engine, run_fold
from kafka_marshal.replay.engines.local import LocalEngine
from kafka_marshal.replay.model.tables import PARTITIONS
from kafka_marshal.replay.sources import find
from kafka_marshal.replay.spark.pipeline import SparkEngine
from tests.replay.engines.counting import KEYS, KeyJudging
from tests.replay.sizes import as_a_large_log

RECORDS = [
    RawRecord(n % 3, n // 3, 1_700_000_000_000 + n, b"{}", key=b"%d" % (n % 5) if n % 7 else None)
    for n in range(200)
    if n != 150
]


def capture(folder: Path) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(capture_line(raw) + "\n" for raw in RECORDS))
    return path


def counted(engine: Engine, path: Path) -> tuple[dict[tuple[int, str], int], list[str], int]:
    """Records by partition and key; the codes found; how many tables there are."""
    with run_fold(engine, find([str(path)], keys=True).chunks, KeyJudging()) as fold:
        rows = {
            (row.coordinating_partition or 0, row.key): row.records
            for row in fold.collect(KEYS)[KEYS]
        }
        assert sum(row.records for row in fold.collect(PARTITIONS)[PARTITIONS]) == len(RECORDS)
        codes = [one.code for one in fold.findings_counted]
        fold.write(KEYS, path.parent)
        assert [*(path.parent / "keys").glob("*.parquet")]
        return rows, codes, len(fold.counts)


WANTED = Counter((raw.partition, (raw.key or b"").decode()) for raw in RECORDS)


def test_this_process_folds_a_protocol_that_it_does_not_know(tmp_path: Path) -> None:
    assert counted(LocalEngine(), capture(tmp_path)) == (WANTED, ["offset_gap"], 4)


@pytest.mark.spark
def test_spark_folds_a_protocol_that_it_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    with as_a_large_log():  # by queries: chunks are shuffled with their keys
        assert counted(SparkEngine(spark), capture(tmp_path)) == (WANTED, ["offset_gap"], 4)
