"""What an engine runs: chunks to rows that are brought together by place, and those to tables.

A job says what is done to a chunk (`read`) and to the rows of coordinating partitions, each whole
and in order of offset and input (`fold`). An engine says where: on Spark's executors, to which a
job is pickled, or in this process. No job knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol

import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord, UnreadableSource
from kafka_marshal.replay.fold.judging import Judging, Placed, PlaceFold
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, KEYED_SCHEMA, read_chunk, records_of
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import PARTITIONS, Rows, TableSet
from kafka_marshal.replay.sources import Chunk

WINDOW_BYTES: Final = 128 << 20
"""Bytes of rows that are looked at together: 400,000 records, each a row of its own."""
WINDOW_OFFSET_BYTES: Final = 8 << 20
"""Bytes of offsets of runs among them: two million records, of which each takes some 60 bytes while
they are joined."""


class Job(Protocol):
    """What is done to the chunks of one input."""

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """What is read."""

    @property
    def judging(self) -> Judging:
        """By what is folded, and into which tables."""

    @property
    def collapsing(self) -> bool:
        """Chunks are made small: `read` gives the schema of `judging.collapse`."""

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
    judging: Judging
    collapsing: bool

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """As `Job`."""
        collapse = self.judging.collapse
        if not self.collapsing or collapse is None:
            return read_chunk(number, self.chunks[number])
        return collapse.read(number, self.chunks[number])

    def fold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """As `Job`."""
        collapse = self.judging.collapse
        if not self.collapsing or collapse is None:
            return self._folded(batches, placed_records, attrgetter("feed"))
        return self._folded(windows(batches), *collapse.taking(self.chunks))

    def _folded(
        self,
        batches: Iterable[pa.RecordBatch],
        taken_from: Callable[[pa.RecordBatch], Placed],
        taker: Callable[[PlaceFold], Callable[[Any], None]],
    ) -> Iterator[Rows]:
        place: tuple[str, int] | None = None
        place_fold: PlaceFold | None = None
        take: Callable[[Any], None]
        for batch in batches:
            for log, partition, taken in taken_from(batch):
                if place_fold is None or place != (log, partition):
                    if place_fold is not None:
                        place_fold.close()
                        yield place_fold.drain()
                    place = log, partition
                    place_fold = self.judging.begin(LogPartition(*place))
                    take = taker(place_fold)
                take(taken)
                if place_fold.is_full:
                    yield place_fold.drain()
            if place_fold is not None:
                yield place_fold.drain()
        if place_fold is not None:
            place_fold.close()
            yield place_fold.drain()


def windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in larger batches: what is folded in runs is looked for in each by itself.

    Each but the last one is as large as one of both limits.
    """
    waiting: list[pa.RecordBatch] = []
    size = offsets = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        offsets += batch.column("run").field("offsets").nbytes
        if size >= WINDOW_BYTES or offsets >= WINDOW_OFFSET_BYTES:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, size, offsets = [], 0, 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def placed_records(batch: pa.RecordBatch) -> Iterator[tuple[str, int, RawRecord]]:
    """Log, coordinating partition and record of every row."""
    for log, raw in records_of(batch):
        yield log, raw.partition, raw


def row_schema(job: Job) -> pa.Schema:
    """Of the rows that `read` gives."""
    judging = job.judging
    if job.collapsing and judging.collapse is not None:
        return judging.collapse.schema
    return KEYED_SCHEMA if judging.keys else ARROW_SCHEMA


def row_batches(drained: Rows, tables: TableSet) -> Iterator[pa.RecordBatch]:
    """In the schema of the tables, each batch of one table."""
    for table, rows in drained.stored(tables):
        yield lines_of(table.name, rows, tables)


def lines_of(name: str, rows: pa.StructArray, tables: TableSet) -> pa.RecordBatch:
    """The rows of the table of that name in the schema of all tables."""
    columns = {each.name: pa.nulls(len(rows), each.arrow_type) for each in tables}
    columns[name] = rows
    return pa.RecordBatch.from_pydict(columns, schema=tables.schema)


def check_counts(counts: Mapping[str, int]) -> None:
    """Every coordinating partition that was folded has a row.

    Raises:
        UnreadableSource: none was.
    """
    if not counts[PARTITIONS.name]:
        raise UnreadableSource("the sources hold no record")
