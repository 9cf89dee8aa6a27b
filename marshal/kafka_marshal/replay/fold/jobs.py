"""What an engine runs: chunks to rows that are brought together by place, and those to tables.

A job says what is done to a chunk (`read`) and to the rows of coordinating partitions, each whole
and in order of offset and input (`fold`). An engine says where: on Spark's executors, to which a
job is pickled, or in this process. No job knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord, UnreadableSource
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, read_chunk, records_of
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.rows import arrow_rows
from kafka_marshal.replay.model.tables import FOLDED, PARTITIONS, Rows
from kafka_marshal.replay.sources import Chunk

if TYPE_CHECKING:
    from kafka_marshal.replay.model.chunk_items import Item

FOLDED_SCHEMA: Final = pa.schema([(table.name, table.arrow_type) for table in FOLDED])
"""A line holds one row of one table, in the column of that table's name."""


class Job(Protocol):
    """What is done to the chunks of one input."""

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """What is read."""

    @property
    def collapsing(self) -> bool:
        """Runs of heartbeats become one row each: `read` gives the schema of `run_length`."""

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one chunk.

        Raises:
            UnreadableSource: something there is no record.
        """

    def fold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """The tables' rows.

        Raises:
            SourcesOverlap: chunks do not follow each other, so nothing may be collapsed.
        """


@frozen
class WholeLog:
    """Everything is read and folded, and every log ends where its records do."""

    chunks: tuple[Chunk, ...]
    judging: JudgingOptions
    collapsing: bool

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """As `Job`."""
        if not self.collapsing:
            return read_chunk(number, self.chunks[number])
        from kafka_marshal.replay.fold.run_length import collapsed

        judging = self.judging
        return collapsed(
            number, self.chunks[number], judging.heartbeat_interval_ms, forced=judging.forced
        )

    def fold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """As `Job`."""
        if not self.collapsing:
            return self._folded(batches, placed_records, PartitionFold.feed)
        from kafka_marshal.replay.fold.request_runs import items_in_runs
        from kafka_marshal.replay.fold.run_length import Expander

        expander = Expander(self.chunks)

        def take(partition_fold: PartitionFold, item: Item) -> None:
            partition_fold.take(item, expander.records)

        return self._folded(batches, items_in_runs, take)

    def _folded(
        self,
        batches: Iterable[pa.RecordBatch],
        taken_from: Callable[[pa.RecordBatch], Iterator[tuple[str, int, _Taken]]],
        take: Callable[[PartitionFold, _Taken], None],
    ) -> Iterator[Rows]:
        place: tuple[str, int] | None = None
        partition_fold: PartitionFold | None = None
        for batch in batches:
            for log, partition, taken in taken_from(batch):
                if partition_fold is None or place != (log, partition):
                    if partition_fold is not None:
                        partition_fold.close()
                        yield partition_fold.drain()
                    place = log, partition
                    partition_fold = PartitionFold(LogPartition(*place), self.judging)
                take(partition_fold, taken)
                if partition_fold.is_full:
                    yield partition_fold.drain()
            if partition_fold is not None:
                yield partition_fold.drain()
        if partition_fold is not None:
            partition_fold.close()
            yield partition_fold.drain()


_Taken = TypeVar("_Taken")


def placed_records(batch: pa.RecordBatch) -> Iterator[tuple[str, int, RawRecord]]:
    """Log, coordinating partition and record of every row."""
    for log, raw in records_of(batch):
        yield log, raw.partition, raw


def row_schema(job: Job) -> pa.Schema:
    """Of the rows that `read` gives."""
    if not job.collapsing:
        return ARROW_SCHEMA
    from kafka_marshal.replay.fold.run_length import COLLAPSED_SCHEMA

    return COLLAPSED_SCHEMA


def row_batches(drained: Rows) -> Iterator[pa.RecordBatch]:
    """In `FOLDED_SCHEMA`, one batch per table."""
    for table, of_table in drained.tables():
        columns = {each.name: pa.nulls(len(of_table), each.arrow_type) for each in FOLDED}
        columns[table.name] = arrow_rows(table, of_table)
        yield pa.RecordBatch.from_pydict(columns, schema=FOLDED_SCHEMA)


def check_counts(counts: Mapping[str, int]) -> None:
    """Every coordinating partition that was folded has a row.

    Raises:
        UnreadableSource: none was.
    """
    if not counts[PARTITIONS.name]:
        raise UnreadableSource("the sources hold no record")
