"""Rows that a fold on Spark produced; if they are few, this process answers queries on them.

At its end, each task sends its number of rows, and the rows themselves if they are few. So one job
folds a log and returns its rows. Each query on Spark is another job, and planning one costs more
than querying so few rows here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final, TypeAlias, TypeVar

import pyarrow as pa
from attrs import frozen
from pyspark import RDD, AccumulatorParam, SparkContext
from pyspark.sql import SparkSession
from pyspark.storagelevel import StorageLevel

from kafka_marshal.replay.fold.jobs import check_counts, lines_of
from kafka_marshal.replay.model.folded_log import FoldedLog, OwnershipDifference
from kafka_marshal.replay.model.tables import TableSet
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.spark.spark_errors import plain_errors
from kafka_marshal.replay.spark.spark_fold import OnSpark, SparkFoldedLog
from kafka_marshal.replay.spark.stages import (
    StoredRows,
    TableRows,
    from_stored,
    lines_of_stored,
    to_stored,
)
from kafka_marshal.replay.spark.workers import mapped, settle

COLLECTED_ROWS_MAX: Final = 100_000
"""The most rows of all tables that this process fetches."""
_UNEVENLY: Final = 4
"""How much more than its part of those a task may send."""
_Taken = TypeVar("_Taken")
_TaskRows: TypeAlias = tuple[Counter[str], tuple[StoredRows, ...] | None]
"""The result of a task: the number of rows of each table; the rows, or None if there are too
many."""


class _ByTask(AccumulatorParam[dict[int, _TaskRows]]):
    """A task that ran twice counts once."""

    def zero(self, value: dict[int, _TaskRows]) -> dict[int, _TaskRows]:
        return {}

    def addInPlace(  # noqa: N802
        self, value1: dict[int, _TaskRows], value2: dict[int, _TaskRows]
    ) -> dict[int, _TaskRows]:
        return value1 | value2


@frozen(slots=False)
class CollectedFoldedLog(LocalFoldedLog):
    """As `Fold`."""

    session: Callable[[], SparkSession]
    table_set: TableSet

    @cached_property
    def on_spark(self) -> SparkFoldedLog:
        """The same rows on Spark, for a comparison with a fold that has too many to fetch."""
        lines = (
            lines_of(table.name, batch.to_struct_array(), self.table_set)
            for table in self.table_set
            for batch in self.tables[table.name].batches()
        )
        rows = self.session().createDataFrame(pa.Table.from_batches(lines, self.table_set.schema))
        return SparkFoldedLog.of(rows, self.counts)

    def parted_from(self, after: OnSpark, limit: int, *, same_rules: bool) -> OwnershipDifference:
        """As `Fold`."""
        if isinstance(after, CollectedFoldedLog):
            return super().parted_from(after, limit, same_rules=same_rules)
        return self.on_spark.parted_from(after, limit, same_rules=same_rules)


@contextmanager
def answering(
    context: SparkContext,
    session: Callable[[], SparkSession],
    pieces: RDD[_Taken],
    how: Callable[[Iterable[_Taken]], Iterator[TableRows]],
    tables: TableSet,
) -> Iterator[FoldedLog]:
    """Yield a folded log with the rows that `how` returns for each partition of `pieces`."""
    at_most = max(1, _UNEVENLY * COLLECTED_ROWS_MAX // pieces.getNumPartitions())
    sent = context.accumulator({}, _ByTask())

    def task(number: int, taken: Iterable[_Taken]) -> Iterator[StoredRows]:
        settle()
        counts, few = Counter[str](), list[StoredRows]()
        for name, rows in how(taken):
            stored = to_stored(name, rows)
            counts[name] += len(rows)
            if counts.total() <= at_most:
                few.append(stored)
            yield stored
        sent.add({number: (counts, tuple(few) if counts.total() <= at_most else None)})

    rows = pieces.mapPartitionsWithIndex(task).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with plain_errors():
            # Java counts the stored rows; `rows.count()` would start a second Python process for
            # that.
            rows._jrdd.count()
        by_task, sent.value = sent.value, {}
        total = sum((counts for counts, _ in by_task.values()), Counter())
        counts = {name: total[name] for name in tables.by_name}
        check_counts(counts)
        if total.total() <= COLLECTED_ROWS_MAX:
            with GatheredRows(tables) as gathered:
                for stored in _all(by_task, rows):
                    gathered.add_stored(*from_stored(stored, tables))
                yield CollectedFoldedLog(gathered.tables(), session, tables)
            return
        frame = session().createDataFrame(rows, "name string, rows binary", verifySchema=False)
        lines = mapped(frame, lambda batches: lines_of_stored(batches, tables), tables.schema)
        lines.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield SparkFoldedLog.of(lines, counts)
        finally:
            lines.unpersist()
    finally:
        rows.unpersist()


def _all(by_task: dict[int, _TaskRows], rows: RDD[StoredRows]) -> Iterable[StoredRows]:
    """All rows, in the order of tasks; those that were not sent are fetched."""
    if any(few is None for _, few in by_task.values()):
        with plain_errors():
            return rows.collect()
    return (stored for _, (_, few) in sorted(by_task.items()) for stored in few or ())
