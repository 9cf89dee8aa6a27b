"""The engine on Spark: its tasks, and the format in which it writes tables.

A log is one job of two stages (`stages`). A task of the first stage reads chunks. One of the second
folds coordinating partitions, each complete and in order. The order is checked: `World` raises
`OutOfOrder`. The rows of tables are few, and returned at the end of the tasks, or stay on Spark
(`collected`).

A small log is one task, which does all of that and returns the rows. Java then does not even load
the classes of Spark SQL.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from attrs import frozen
from py4j.protocol import Py4JJavaError
from pyspark import RDD, SparkContext
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.fold.jobs import Job
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.rows import RowT, Table, arrow_rows
from kafka_marshal.replay.model.tables import TableSet
from kafka_marshal.replay.one_process.gathering import folded, gather, worth_collapsing
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.options import TableFormat
from kafka_marshal.replay.places import UriPath
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.spark.collected import answering
from kafka_marshal.replay.spark.spark_errors import plain_errors, root_cause
from kafka_marshal.replay.spark.spark_fold import SparkFoldedLog
from kafka_marshal.replay.spark.stages import (
    Piece,
    TableRows,
    folded_pieces,
    read_pieces,
    table_rows,
    table_rows_in,
    write_rows,
)
from kafka_marshal.replay.spark.workers import settle
from kafka_marshal.replay.state.partition_state import take_up

TASKS_PER_CORE: Final = 8
ONE_TASK_RECORDS_MAX: Final = 50_000
"""Records that one task reads and folds alone, at most: a query costs more than folding them."""
ONE_PROCESS_BYTES_MAX: Final = 4 << 20
"""The most bytes of saved rows and states that are read here, without Spark."""


@frozen
class SparkEngine:
    """As `Engine`: each chunk, and each coordinating partition, is a task."""

    spark: SparkSession | SparkContext
    """A session is created for a context at the first query: few rows need none."""

    @property
    def context(self) -> SparkContext:
        """Runs tasks."""
        return self.spark if isinstance(self.spark, SparkContext) else self.spark.sparkContext

    def session(self) -> SparkSession:
        """Plans queries."""
        if isinstance(self.spark, SparkSession):
            return self.spark
        return SparkSession.builder.getOrCreate()

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
        tables = job.judging.tables

        def fold_pieces(pieces: Iterable[Piece]) -> Iterator[TableRows]:
            return table_rows(folded_pieces(job, pieces), tables)

        with answering(self.context, self.session, self._pieces(job), fold_pieces, tables) as fold:
            yield fold

    def fold_into(self, job: Job, folder: Path) -> None:
        """As `Engine`."""
        if _one_task(job.chunks):
            with self._in_one_task(job) as gathered:
                folder.mkdir(parents=True)
                gathered.write(folder / "part-00000.parquet")
            return
        folder.mkdir(parents=True)

        def write(number: int, pieces: Iterable[Piece]) -> Iterator[int]:
            settle()
            path = folder / f"part-{number:05}.parquet"
            yield write_rows(folded_pieces(job, pieces), job.judging.tables, path)

        with plain_errors():
            self._pieces(job).mapPartitionsWithIndex(write).collect()

    @contextmanager
    def fold_of(
        self, files: Sequence[Path], states: Sequence[Path], tables: TableSet
    ) -> Iterator[FoldedLog]:
        """As `Engine`."""
        paths = [*files, *states]
        if sum(path.stat().st_size for path in paths) <= ONE_PROCESS_BYTES_MAX:
            with GatheredRows(tables) as gathered:
                gather(gathered, files, states)
                yield LocalFoldedLog.of(gathered)
            return

        def read(numbers: Iterable[int]) -> Iterator[TableRows]:
            for number in numbers:
                if number < len(files):
                    yield from table_rows_in(files[number], tables)
                else:
                    yield from table_rows([take_up(paths[number]).ended()], tables)

        tasks = max(1, min(len(paths), 4 * self.context.defaultParallelism))
        numbers = self.context.parallelize(range(len(paths)), tasks)
        with answering(self.context, self.session, numbers, read, tables) as fold:
            yield fold

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
        if isinstance(fold, SparkFoldedLog):
            rows = fold.table_with(table, extra)
        else:
            here = pa.Table.from_struct_array(arrow_rows(table, [*fold.each(table), *extra]))
            rows = self.session().createDataFrame(here, table.spark_schema)
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
        conf = self.session().conf
        conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
        conf.set(f"{key}.type", "hadoop")
        conf.set(f"{key}.warehouse", uri)
        rows.writeTo(f"{catalog}.{name}").using("iceberg").create()

    @contextmanager
    def _in_one_task(self, job: Job) -> Iterator[GatheredRows]:
        """The rows of all tables, from one task."""
        tables = job.judging.tables

        def fold(_: Iterable[int]) -> Iterator[TableRows]:
            settle()
            yield from table_rows(folded(job), tables)

        with plain_errors():
            found = self.context.parallelize([0], 1).mapPartitions(fold).collect()
        with GatheredRows(tables) as gathered:
            for name, rows in found:
                gathered.add_stored(name, rows)
            yield gathered

    def _pieces(self, job: Job) -> RDD[Piece]:
        """The rows of all chunks, each coordinating partition complete in one task."""
        # Enough tasks to spread partitions evenly, and ideally no more than partitions.
        tasks = TASKS_PER_CORE * self.context.defaultParallelism
        count = len(job.chunks)

        def read(numbers: Iterable[int]) -> Iterator[Piece]:
            settle()
            return read_pieces(job, numbers, tasks)

        numbers = self.context.parallelize(range(count), count)
        return numbers.mapPartitions(read).partitionBy(tasks, int)


def _one_task(chunks: Sequence[Chunk]) -> bool:
    return sum(chunk.records for chunk in chunks) <= ONE_TASK_RECORDS_MAX
