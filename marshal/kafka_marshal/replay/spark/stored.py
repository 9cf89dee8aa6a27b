"""Writes Parquet to an object store from executors' Python processes.

Spark's own writer needs a jar for each store, of half a gigabyte for S3. Arrow needs none, and an
executor has it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from kafka_marshal.replay.spark.spark_errors import plain_errors
from kafka_marshal.replay.spark.stages import write_batches
from kafka_marshal.replay.spark.workers import mapped

_WRITTEN: Final = pa.schema([("rows", pa.int64())])


def write_parquet(rows: DataFrame, folder: Path, schema: pa.Schema) -> None:
    """A file for each partition that has rows, in the order that they have.

    A partition that is computed again writes the same file once more, whole.

    Raises:
        SparkFailed: one could not be written.
    """

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()  # type: ignore[union-attr]
        cast = (pa.Table.from_batches([batch]).cast(schema) for batch in batches)
        rows = (batch for table in cast for batch in table.to_batches())
        count = write_batches(rows, schema, folder / f"part-{number:05}.parquet")
        yield pa.RecordBatch.from_pydict({"rows": [count]}, schema=_WRITTEN)

    with plain_errors():
        mapped(rows, write, _WRITTEN).collect()
