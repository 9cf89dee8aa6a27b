"""The two stages of a job: chunks become rows grouped by partition; rows become tables.

A job defines what happens to a chunk (`read`), and to the rows of each coordinating partition,
complete and in order of offset and input (`fold`). An engine decides where: on Spark's executors,
to which a job is pickled, or in this process. No job knows which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from kafka_marshal.capture import RawRecord, UnreadableSource
from kafka_marshal.replay.fold.judging import Judging, Placed, PlaceFold
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, KEYED_SCHEMA, read_chunk, records_of
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import PARTITIONS, Rows, TableSet
from kafka_marshal.replay.sources import Chunk

WINDOW_BYTES: Final = 32 << 20
"""Bytes of rows that are looked at together, at least: 100,000 records, or far more in runs."""
WINDOW_BYTES_MAX: Final = 8 * WINDOW_BYTES
"""Bytes at which a window ends in the middle of one coordinating partition, if it is that long.

A claim that is steady is kept in columns within one window: what lies in the next one is folded
as an object of Python, at ten times the cost.
"""
WINDOW_OFFSET_BYTES: Final = 8 << 20
"""Bytes of offsets of runs at which rows are parted: two million records, of which each takes some
60 bytes while they are joined."""


class Job(Protocol):
    """The work on the chunks of one input."""

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The chunks to read."""

    @property
    def judging(self) -> Judging:
        """The protocol with its settings, and its tables."""

    @property
    def collapsing(self) -> bool:
        """Whether chunks are collapsed: then `read` returns the schema of `judging.collapse`."""

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk.

        Raises:
            UnreadableSource: the chunk contains something that is no record.
        """

    def fold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """Yield the tables' rows.

        Raises:
            SourcesOverlap: chunks do not follow each other, so nothing may be collapsed.
        """


@frozen
class WholeLog:
    """Reads and folds everything; every log ends with its last record."""

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

    A window ends with a coordinating partition, unless that has very many rows or records.
    """
    waiting: list[pa.RecordBatch] = []
    size = offsets = 0
    for batch in batches:
        end = _of_place(batch, waiting[-1]) if size >= WINDOW_BYTES else batch.num_rows
        if end < batch.num_rows or size >= WINDOW_BYTES_MAX or offsets >= WINDOW_OFFSET_BYTES:
            waiting.append(batch.slice(0, end))
            yield from _together(waiting)
            size, offsets, batch = 0, 0, batch.slice(end)
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
            offsets += pc.struct_field(batch["run"], "offsets").nbytes
    if waiting:
        yield from _together(waiting)


def _together(waiting: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """One batch, if there are rows; those that wait are let go, before anybody looks at them."""
    table = pa.Table.from_batches(waiting)
    waiting.clear()
    return table.combine_chunks().to_batches()  # type: ignore[no-any-return]


def _of_place(batch: pa.RecordBatch, before: pa.RecordBatch) -> int:
    """How many rows at its beginning are of the coordinating partition that is last before it."""
    same = [pc.equal(batch[name], before[name][-1]) for name in ("log", "partition")]
    end = pc.index(pc.and_(*same), False).as_py()
    return batch.num_rows if end < 0 else end  # type: ignore[no-any-return]


def placed_records(batch: pa.RecordBatch) -> Iterator[tuple[str, int, RawRecord]]:
    """Yield log, coordinating partition and record of every row."""
    for log, raw in records_of(batch):
        yield log, raw.partition, raw


def row_schema(job: Job) -> pa.Schema:
    """The schema of the rows that `read` yields."""
    judging = job.judging
    if job.collapsing and judging.collapse is not None:
        return judging.collapse.schema
    return KEYED_SCHEMA if judging.keys else ARROW_SCHEMA


def row_batches(drained: Rows, tables: TableSet) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the schema of the tables, each batch of one table."""
    for table, rows in drained.stored(tables):
        yield lines_of(table.name, rows, tables)


def lines_of(name: str, rows: pa.StructArray, tables: TableSet) -> pa.RecordBatch:
    """The rows of the table with that name, in the schema of all tables."""
    columns = {each.name: pa.nulls(len(rows), each.arrow_type) for each in tables}
    columns[name] = rows
    return pa.RecordBatch.from_pydict(columns, schema=tables.schema)


def check_counts(counts: Mapping[str, int]) -> None:
    """Check that something was folded: every coordinating partition has a row.

    Raises:
        UnreadableSource: there is none.
    """
    if not counts[PARTITIONS.name]:
        raise UnreadableSource("the sources hold no record")
