"""The Spark job: read, collapse, shuffle by (log, coordinating partition), sort by offset, fold.

The fold streams: one task holds the books of one coordinating partition at a time, and its rows
leave as they come. Each output row is one row of one table, in the column of that table's name.
What order promises is checked: `World` raises `OutOfOrder`.

A small log is one task, which does all of that by itself and returns the rows. No query is planned
for it, no second Python worker starts, and Java does not even load the classes of Spark SQL.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast

import pyarrow as pa
from attrs import frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.fold.jobs import (
    Job,
    check_counts,
    row_batches,
    row_schema,
)
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.rows import RowT, Table, arrow_rows
from kafka_marshal.replay.model.tables import TableSet
from kafka_marshal.replay.one_process.gathering import folded, gather, worth_collapsing
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.options import TableFormat
from kafka_marshal.replay.places import UriPath
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.spark.collected import nearest
from kafka_marshal.replay.spark.spark_errors import plain_errors, root_cause
from kafka_marshal.replay.spark.spark_fold import SparkFoldedLog
from kafka_marshal.replay.spark.stored import read_parquet, write_parquet
from kafka_marshal.replay.spark.workers import mapped, settle
from kafka_marshal.replay.state.partition_state import take_up

TASKS_PER_CORE: Final = 8
ONE_TASK_RECORDS_MAX: Final = 50_000
"""Records that one task reads and folds alone, at most: a query costs more than folding them."""
ONE_PROCESS_BYTES_MAX: Final = 4 << 20
"""Bytes of rows and states put aside that are read here, at most, without Spark."""


@frozen
class SparkEngine:
    """As `Engine`: each chunk, and each coordinating partition, is a task."""

    spark: SparkSession

    def collapses(self, chunks: Sequence[Chunk]) -> bool:
        """As `Engine`: whatever is not collapsed is shuffled, except in one task."""
        return not _one_task(chunks) or worth_collapsing(chunks)

    @contextmanager
    def fold(self, job: Job) -> Iterator[FoldedLog]:
        """As `Engine`."""
        if _one_task(job.chunks):
            with self._in_one_task(job) as gathered:
                yield LocalFoldedLog.of(gathered)
            return
        rows = self._folded(job).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield _answering(rows, job.judging.tables)
        finally:
            rows.unpersist()

    def fold_into(self, job: Job, folder: Path) -> None:
        """As `Engine`."""
        if _one_task(job.chunks):
            with self._in_one_task(job) as gathered:
                folder.mkdir(parents=True)
                gathered.write(folder / "part-00000.parquet")
            return
        rows = self._folded(job)
        if isinstance(folder, UriPath):
            write_parquet(rows, folder, job.judging.tables.schema)
            return
        with plain_errors():
            rows.write.parquet(str(folder))

    @contextmanager
    def fold_of(
        self, folders: Sequence[Path], states: Sequence[Path], tables: TableSet
    ) -> Iterator[FoldedLog]:
        """As `Engine`."""
        if _bytes_in(folders, states) <= ONE_PROCESS_BYTES_MAX:
            with GatheredRows(tables) as gathered:
                gather(gathered, folders, states)
                yield LocalFoldedLog.of(gathered)
            return
        ends = self._ends(states, tables).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            if any(isinstance(folder, UriPath) for folder in folders):
                rows = read_parquet(self.spark, folders, tables.schema)
            else:
                rows = self.spark.read.schema(ends.schema).parquet(*map(str, folders))
            yield _answering(rows.unionByName(ends), tables)
        finally:
            ends.unpersist()

    def save(
        self,
        table_format: TableFormat,
        fold: FoldedLog,
        table: Table[RowT],
        folder: Path,
        extra: Sequence[RowT],
    ) -> None:
        """Write a table in a format that is not Parquet.

        Raises:
            InvalidOption: this Spark has no such format.
        """
        on_spark = getattr(fold, "on_spark", None)
        if isinstance(on_spark, SparkFoldedLog):
            rows = on_spark.table_with(table, extra)
        else:
            here = pa.Table.from_struct_array(arrow_rows(table, [*fold.each(table), *extra]))
            rows = self.spark.createDataFrame(here, table.spark_schema)
        rows = rows.sortWithinPartitions(*table.order)
        place = folder if isinstance(folder, UriPath) else folder.absolute()
        uri = str(place) if isinstance(place, UriPath) else place.as_uri()
        with plain_errors():
            try:
                if table_format is TableFormat.iceberg:
                    self._save_iceberg(rows, uri, table.name)
                else:
                    rows.write.format(table_format).save(f"{uri}/{table.name}")
            except (PySparkException, Py4JJavaError) as error:
                of_java = isinstance(error, Py4JJavaError)
                reason = root_cause(error) if of_java else str(error).splitlines()[0]
                absent = "ClassNotFound" in reason or "plugin class" in reason
                if not absent and not isinstance(error, AnalysisException):
                    raise
                raise InvalidOption(
                    f"--table-format {table_format}: Spark refuses it ({reason}); --spark-conf "
                    "spark.jars.packages=... brings the format, spark.sql.extensions=... the rest"
                ) from None

    def _save_iceberg(self, rows: DataFrame, uri: str, name: str) -> None:
        """Iceberg makes a table in a catalog alone; this one's tables are folders below `uri`."""
        catalog = f"marshal_{uuid.uuid4().hex}"  # Spark loads one once for each name
        key = f"spark.sql.catalog.{catalog}"
        self.spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
        self.spark.conf.set(f"{key}.type", "hadoop")
        self.spark.conf.set(f"{key}.warehouse", uri)
        rows.writeTo(f"{catalog}.{name}").using("iceberg").create()

    @contextmanager
    def _in_one_task(self, job: Job) -> Iterator[GatheredRows]:
        """The rows of all tables, from one task."""
        tables = job.judging.tables

        def fold(_: Iterable[int]) -> Iterator[tuple[str, pa.StructArray]]:
            settle()
            for drained in folded(job):
                for table, rows in drained.tables(tables):
                    yield table.name, arrow_rows(table, rows)

        with plain_errors():
            found = self.spark.sparkContext.parallelize([0], 1).mapPartitions(fold).collect()
        with GatheredRows(tables) as gathered:
            for name, rows in found:
                gathered.add_stored(name, rows)
            yield gathered

    def _folded(self, job: Job) -> DataFrame:
        """The rows of all tables, one per line, each in the column of its table."""
        tables = job.judging.tables

        def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from job.read(number)

        def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for drained in job.fold(batches):
                yield from row_batches(drained, tables)

        count = len(job.chunks)
        numbers = self.spark.range(count, numPartitions=count)
        found = mapped(numbers, read, row_schema(job))
        return mapped(self._by_log_partition(found), fold, tables.schema)

    def _by_log_partition(self, found: DataFrame) -> DataFrame:
        """Each coordinating partition whole in one task, in offset order."""
        # Enough tasks to spread partitions evenly, and an explicit number: what was collapsed is so
        # small that Spark would otherwise fold all of it in one.
        tasks = TASKS_PER_CORE * self.spark.sparkContext.defaultParallelism
        return found.repartition(tasks, "log", "partition").sortWithinPartitions(
            "log", "partition", "offset", "input_order"
        )

    def _ends(self, states: Sequence[Path], tables: TableSet) -> DataFrame:
        """What every state says if the log ends there."""
        paths = list(states)

        def end(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from row_batches(take_up(paths[number]).ended(), tables)

        tasks = max(1, min(len(paths), 4 * self.spark.sparkContext.defaultParallelism))
        numbers = self.spark.range(len(paths), numPartitions=tasks)
        return mapped(numbers, end, tables.schema)


def _one_task(chunks: Sequence[Chunk]) -> bool:
    return sum(chunk.records for chunk in chunks) <= ONE_TASK_RECORDS_MAX


def _bytes_in(folders: Sequence[Path], states: Sequence[Path]) -> int:
    files = (path for folder in folders for path in folder.glob("*.parquet"))
    return sum(path.stat().st_size for path in itertools.chain(files, states))


def _answering(rows: DataFrame, tables: TableSet) -> FoldedLog:
    """What answers about these rows."""
    return nearest(rows, SparkFoldedLog.of(rows, _counted(rows, tables)), tables)


def _counted(rows: DataFrame, tables: TableSet) -> Mapping[str, int]:
    """How many rows each table has."""
    with plain_errors():
        counted = rows.agg(
            *(sf.count(sf.col(table.name)).alias(table.name) for table in tables)
        ).collect()[0]
    counts = {name: cast("int", counted[name]) for name in tables.by_name}
    check_counts(counts)
    return counts
