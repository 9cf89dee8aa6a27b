"""Parquet in a store, written and read by the Pythons of executors.

Spark's own writer needs a jar for each store, of half a gigabyte for S3. Arrow needs none, and an
executor has it already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from kafka_marshal.replay.one_process.sorted_table import row_groups
from kafka_marshal.replay.places import parquet_file, parquet_writer
from kafka_marshal.replay.spark.spark_errors import plain_errors
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
        groups = row_groups(batch for table in cast for batch in table.to_batches())
        count = 0
        first = next(groups, None)
        if first is not None:
            with parquet_writer(folder / f"part-{number:05}.parquet", schema) as file:
                while first is not None:
                    file.write_table(first)
                    count += first.num_rows
                    first = next(groups, None)
        yield pa.RecordBatch.from_pydict({"rows": [count]}, schema=_WRITTEN)

    with plain_errors():
        mapped(rows, write, _WRITTEN).collect()


def read_parquet(spark: SparkSession, folders: Sequence[Path], schema: pa.Schema) -> DataFrame:
    """The rows of all files in these folders."""
    files = [path for folder in folders for path in sorted(folder.glob("*.parquet"))]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with parquet_file(files[number]) as file:
                    for rows in file.iter_batches():
                        yield from pa.Table.from_batches([rows]).cast(schema).to_batches()

    tasks = max(1, min(len(files), 4 * spark.sparkContext.defaultParallelism))
    return mapped(spark.range(len(files), numPartitions=tasks), read, schema)
