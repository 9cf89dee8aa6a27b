"""Captures as Parquet, as Spark's Kafka source would have written them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_marshal.capture import RawRecord, TimestampType

_SPARK_TYPES = {TimestampType.CREATE_TIME: 0, TimestampType.LOG_APPEND_TIME: 1}
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(given: Iterable[RawRecord], unit: str = "us", with_headers: bool = True) -> pa.Table:
    rows = list(given)
    columns = {
        "key": pa.array([raw.key for raw in rows], pa.binary()),
        "value": pa.array([raw.value for raw in rows], pa.binary()),
        "topic": pa.array(["__marshal"] * len(rows)),
        "partition": pa.array([raw.partition for raw in rows], pa.int32()),
        "offset": pa.array([raw.offset for raw in rows], pa.int64()),
        "timestamp": pa.array([raw.timestamp_ms for raw in rows], pa.int64())
        .cast(pa.timestamp("ms"))
        .cast(pa.timestamp(unit, "UTC")),
        "timestampType": pa.array([_SPARK_TYPES.get(r.timestamp_type) for r in rows], pa.int32()),
    }
    if with_headers:
        pairs = [[{"key": n, "value": v} for n, v in raw.headers] or None for raw in rows]
        columns["headers"] = pa.array(pairs, HEADERS)
    return pa.table(columns)


def write(path: Path, given: pa.Table) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(given, path, row_group_size=100)
    return path
