"""The Spark job: read, collapse, shuffle by (log, coordinating partition), sort by offset, fold.

The fold streams: one task holds the books of one coordinating partition at a time, and its rows
leave as they come. Each output row is one row of one table, in the column of that table's name.
What order promises is checked: `World` raises `OutOfOrder`.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.storagelevel import StorageLevel

from kafka_marshal.capture import RawRecord, UnreadableSource
from kafka_marshal.replay.account import Account, Judging
from kafka_marshal.replay.collapse import (
    COLLAPSED_SPARK_SCHEMA,
    Expander,
    Read,
    collapsed,
    items_of,
)
from kafka_marshal.replay.errors import SourcesOverlap, SparkFailed
from kafka_marshal.replay.events import Place
from kafka_marshal.replay.reading import SPARK_SCHEMA, read_chunk, records_of
from kafka_marshal.replay.rows import Row, Table, arrow_rows
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.tables import BY_NAME, FINDINGS, FOLDED, PARTITIONS
from kafka_marshal.replay.workers import mapped

ROWS_PER_FILE: Final = 2_000_000
ROWS_PER_TASK: Final = 250_000
"""So many rows of tables are asked by one task: a task costs more than to look at them."""
TASKS_PER_CORE: Final = 8
_CLAIM_NAME: Final = {
    "log": pa.string(),
    "coordinating_partition": pa.int64(),
    "group": pa.string(),
    "topic": pa.string(),
    "topic_partition": pa.int64(),
}
PROOF_COLUMN: Final = "records"
"""Of findings, what takes most room."""
ClaimName: TypeAlias = tuple[object, ...]
"""Log, coordinating partition, group, topic, partition."""

_UNREADABLE: Final = re.compile(r"UnreadableSource: (.+)")
_OVERLAP: Final = re.compile(r"SourcesOverlap: (.+)")
FOLDED_SCHEMA: Final = ", ".join(f"{t.name}: struct<{t.spark_schema}>" for t in FOLDED)
_FOLDED_ARROW: Final = pa.schema([(table.name, table.arrow_type) for table in FOLDED])


def records(spark: SparkSession, chunks: tuple[Chunk, ...]) -> DataFrame:
    """Every record of the input, each chunk read by one task."""
    return _read(spark, chunks, SPARK_SCHEMA, read_chunk)


def small(spark: SparkSession, chunks: tuple[Chunk, ...], judging: Judging) -> DataFrame:
    """The same, with runs of heartbeats collapsed within each chunk."""
    how = functools.partial(collapsed, interval_ms=judging.heartbeat_interval_ms)
    return _read(spark, chunks, COLLAPSED_SPARK_SCHEMA, how)


def _read(spark: SparkSession, chunks: tuple[Chunk, ...], schema: str, how: Read) -> DataFrame:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from how(number, chunks[number])

    return mapped(spark.range(len(chunks), numPartitions=len(chunks)), read, schema)


def folded(found: DataFrame, judging: Judging) -> DataFrame:
    """The rows of all tables, one per line, each in the column of its table."""

    def placed(batch: pa.RecordBatch) -> Iterator[tuple[str, int, RawRecord]]:
        for log, raw in records_of(batch):
            yield log, raw.partition, raw

    return _folded(found, judging, placed, Account.feed)


def folded_small(found: DataFrame, judging: Judging, chunks: tuple[Chunk, ...]) -> DataFrame:
    """The same, from what `small` gives."""
    expander = Expander(chunks)
    return _folded(
        found, judging, items_of, lambda account, item: account.take(item, expander.records)
    )


_Taken = TypeVar("_Taken")


def _folded(
    found: DataFrame,
    judging: Judging,
    taken_from: Callable[[pa.RecordBatch], Iterator[tuple[str, int, _Taken]]],
    take: Callable[[Account, _Taken], None],
) -> DataFrame:
    def fold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place: Place | None = None
        account: Account | None = None
        for batch in batches:
            for log, partition, taken in taken_from(batch):
                if account is None or place != Place(log, partition):
                    if account is not None:
                        account.close()
                        yield from row_batches(account.drain())
                    place = Place(log, partition)
                    account = Account(place, judging)
                take(account, taken)
            if account is not None:
                yield from row_batches(account.drain())
        if account is not None:
            account.close()
            yield from row_batches(account.drain())

    return mapped(by_place(found), fold, FOLDED_SCHEMA)


def by_place(found: DataFrame) -> DataFrame:
    """Each coordinating partition whole in one task, in offset order."""
    # So many tasks that places spread evenly, and told by number: what was collapsed is so small
    # that Spark would otherwise fold all of it in one.
    tasks = TASKS_PER_CORE * found.sparkSession.sparkContext.defaultParallelism
    return found.repartition(tasks, "log", "partition").sortWithinPartitions(
        "log", "partition", "offset", "input_order"
    )


def row_batches(rows: Mapping[str, list[Row]]) -> Iterator[pa.RecordBatch]:
    """One batch per table: its column holds the rows, every other column is null."""
    for name, of_table in rows.items():
        columns = [
            arrow_rows(table, of_table)
            if table.name == name
            else pa.nulls(len(of_table), table.arrow_type)
            for table in FOLDED
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_FOLDED_ARROW)


@frozen
class Fold:
    """A fold that has run: its rows wait in Spark's storage."""

    spark: SparkSession
    rows: DataFrame
    """Of all tables, in so few partitions that asking them shuffles nothing it need not."""
    counts: Mapping[str, int]
    """Rows per table."""

    @classmethod
    def of(cls, rows: DataFrame, counts: Mapping[str, int]) -> Fold:
        """Rows that are stored or cheap to read, and how many each table has."""
        tasks = max(1, -(-sum(counts.values()) // ROWS_PER_TASK))
        return cls(rows.sparkSession, rows.coalesce(tasks), counts)

    @cached_property
    def findings_counted(self) -> list[Row]:
        """How many findings there are of each log, rule set, code and severity, as `count`."""
        if not self.counts[FINDINGS.name]:
            return []
        columns = ("log", "rules", "code", "severity")
        counted = self.table(FINDINGS).groupBy(*columns).count().collect()
        return [row.asDict() for row in counted]

    def table(self, table: Table) -> DataFrame:
        """One table."""
        return self.rows.where(sf.col(table.name).isNotNull()).select(f"{table.name}.*")

    def collect(self, *wanted: Table) -> dict[str, list[Row]]:
        """Whole tables on the driver, by name and in their order: for summaries."""
        return self._collect(self.rows, wanted)

    def collect_claims(
        self, wanted: Sequence[Table], names: Collection[ClaimName]
    ) -> dict[str, list[Row]]:
        """The rows about these claims, by table, without proofs: for what one page can draw."""
        if not any(self.counts[table.name] for table in wanted):
            return {table.name: [] for table in wanted}
        named = self.rows.select(
            *(
                sf.col(table.name).dropFields(PROOF_COLUMN).alias(table.name)
                if table is FINDINGS
                else sf.col(table.name)
                for table in wanted
            ),
            *(
                sf.coalesce(*(sf.col(f"{table.name}.{name}") for table in wanted)).alias(name)
                for name in _CLAIM_NAME
            ),
        )
        return self._collect(self.of_claims(named, names), wanted)

    def of_claims(self, rows: DataFrame, names: Collection[ClaimName]) -> DataFrame:
        """Those of the rows that are about these claims."""
        columns = zip(*sorted(names, key=str), strict=True)
        chosen = self.spark.createDataFrame(
            pa.table([*map(pa.array, columns, _CLAIM_NAME.values())], names=[*_CLAIM_NAME])
        )
        return rows.join(sf.broadcast(chosen), list(_CLAIM_NAME), "left_semi")

    def _collect(self, rows: DataFrame, wanted: Sequence[Table]) -> dict[str, list[Row]]:
        """One job, whatever the number of tables."""
        columns = [sf.col(table.name) for table in wanted]
        some = functools.reduce(operator.or_, (column.isNotNull() for column in columns))
        found: dict[str, list[Row]] = {table.name: [] for table in wanted}
        for line in rows.where(some).select(*columns).toArrow().to_pylist():
            for name, row in line.items():
                if row is not None:
                    found[name].append(row)
        for table in wanted:
            found[table.name].sort(key=functools.partial(_sorting, order=table.order))
        return found

    def first(self, table: Table, limit: int, *before: Column) -> list[Row]:
        """The first rows in the table's order, or in another that goes before it."""
        if not self.counts[table.name]:
            return []
        rows = self.table(table).orderBy(*before, *table.order).limit(limit)
        return [row.asDict(recursive=True) for row in rows.collect()]

    def each(self, table: Table) -> Iterator[Row]:
        """The rows of one table in its order, one by one: the driver never holds all of them."""
        for row in self.table(table).orderBy(*table.order).toLocalIterator():
            yield row.asDict(recursive=True)

    def write(self, table: Table, folder: Path, extra: list[Row] | None = None) -> None:
        """The table as Parquet, sorted, in as few files as its size asks for.

        `extra` are rows that only the driver could know, because they are about whole logs.
        """
        rows = self.table(table)
        if extra:
            lines = [tuple(_cell(row, column.name) for column in table.columns) for row in extra]
            rows = rows.unionByName(self.spark.createDataFrame(lines, table.spark_schema))
        count = self.counts[table.name] + len(extra or ())
        if not count:  # Spark takes its time to write nothing
            (folder / table.name).mkdir()
            nothing = pa.schema(list(table.arrow_type)).empty_table()
            pq.write_table(nothing, folder / table.name / "part-00000.parquet")
            return
        files = max(1, -(-count // ROWS_PER_FILE))
        rows = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *table.order)
        with told_plainly():
            rows.sortWithinPartitions(*table.order).write.parquet(str(folder / table.name))
        for marker in (folder / table.name).glob("_*"):
            marker.unlink()


def _sorting(row: Row, order: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
    """Nulls first, as Spark sorts."""
    return tuple((row[name] is not None, row[name]) for name in order)


def _cell(row: Row, name: str) -> object:
    value = row.get(name)
    if name == "records":
        assert isinstance(value, list)
        return [
            tuple(
                proof.get(field.name) for field in FINDINGS.arrow_type.field(name).type.value_type
            )
            for proof in value
        ]
    return value


def rows_counted(rows: DataFrame) -> Mapping[str, int]:
    """How many rows each table has.

    Raises:
        UnreadableSource: no coordinating partition was folded, or a line or a row is no record.
        SparkFailed: a task broke for another reason.
    """
    with told_plainly():
        counted = rows.agg(
            *(sf.count(sf.col(table.name)).alias(table.name) for table in FOLDED)
        ).collect()[0]
    if not counted[PARTITIONS.name]:
        raise UnreadableSource("the sources hold no record")
    return {name: cast("int", counted[name]) for name in BY_NAME}


def _stored(rows: DataFrame) -> tuple[DataFrame, Mapping[str, int]]:
    """The rows, computed and kept, and how many each table has."""
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return rows, rows_counted(rows)
    except BaseException:
        rows.unpersist()
        raise


@contextmanager
def run_fold(
    spark: SparkSession,
    chunks: tuple[Chunk, ...],
    judging: Judging,
    on_progress: Callable[[str], None],
) -> Iterator[Fold]:
    """Read and fold everything; the rows stay stored while the block lasts.

    Raises:
        UnreadableSource: a line or a row is no record.
        SparkFailed: a task broke for another reason.
    """
    on_progress(f"reading {len(chunks)} chunks, folding")
    rows = folded_small(small(spark, chunks, judging), judging, chunks)
    try:
        rows, counts = _stored(rows)
    except SourcesOverlap:
        on_progress("the sources overlap: reading them again, record by record")
        rows, counts = _stored(folded(records(spark, chunks), judging))
    try:
        yield Fold.of(rows, counts)
    finally:
        rows.unpersist()


@contextmanager
def told_plainly() -> Iterator[None]:
    """An executor's trouble with a source, as the exception it was there."""
    try:
        yield
    except PySparkException as error:
        text = str(error)
        if overlap := _OVERLAP.search(text):
            raise SourcesOverlap(overlap[1].strip()) from None
        told = _UNREADABLE.findall(text)
        if told:
            raise UnreadableSource(told[-1].strip()) from None
        raise SparkFailed(f"a Spark task failed: {_last_line(text)}") from error
    except Py4JJavaError as error:
        raise SparkFailed(f"Spark failed: {_root_cause(error)}") from error


def _root_cause(error: Py4JJavaError) -> str:
    """What the innermost Java exception says, for example that the disk is full."""
    try:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.toString())
    except Exception:  # the JVM is gone, and its words with it
        return "the Java process ended"


def _last_line(text: str) -> str:
    """The line of a Python traceback that says what went wrong."""
    lines = [
        line for line in text.splitlines() if re.match(r"^[\w.]+(Error|Exception|Order)\b", line)
    ]
    return lines[-1] if lines else text.splitlines()[0] if text else "unknown"
