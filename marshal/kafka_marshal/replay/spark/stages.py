"""The two stages of a fold on Spark, as its Python workers run them: rows are sent as bytes.

The first stage reads chunks, and splits their rows by coordinating partition. The second sorts the
pieces of each partition, folds them, and returns rows of tables. Spark transports bytes between
them without decoding them. So no query is planned, and one Python worker per core runs both. This
module does not know Spark, nor how the rows are used.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from kafka_marshal import cache
from kafka_marshal.replay.fold.jobs import Job, lines_of, row_batches, row_schema
from kafka_marshal.replay.model.tables import Rows, TableSet
from kafka_marshal.replay.one_process.gathering import (
    ROW_ORDER,
    Place,
    by_place,
    collecting_seldom,
    read_rows,
)
from kafka_marshal.replay.one_process.sorted_table import row_groups
from kafka_marshal.replay.one_process.sorting import Sorter, SpillFolder
from kafka_marshal.replay.places import UriPath, parquet_writer
from kafka_marshal.replay.state.saved_rows import saved_batches

SORTED_BYTES_MAX: Final = 64 << 20
"""Bytes of pieces that a task sorts in memory, at most: an executor leaves Python little of it."""
_CODEC: Final = "lz4"
_SIZE_BYTES: Final = 8
Piece: TypeAlias = tuple[int, bytes]
"""Which task folds it, and some rows of one coordinating partition."""
TableRows: TypeAlias = tuple[str, pa.StructArray]
"""The name of a table, and some of its rows."""
StoredRows: TypeAlias = tuple[str, bytes]
"""The same as bytes."""


def read_pieces(job: Job, numbers: Iterable[int], tasks: int) -> Iterator[Piece]:
    """Yield the rows of some chunks, split for this many tasks.

    Raises:
        UnreadableSource: a line or a row is no record.
    """
    for number in numbers:
        with SpillFolder() as folder:
            rows, _ = read_rows(job, [number], folder)
            for batch in rows.batches():
                for place, piece in by_place(batch):
                    yield task_of(place, tasks), _packed(piece)


def task_of(place: Place, tasks: int) -> int:
    """Which task folds a coordinating partition: those of one log are spread evenly.

    >>> sorted(task_of(("log", partition), 4) for partition in range(8))
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    log, partition = place
    return (zlib.crc32(log.encode("utf-8", "surrogatepass")) + partition) % tasks


def folded_pieces(job: Job, pieces: Iterable[Piece]) -> Iterator[Rows]:
    """Yield the tables' rows of complete coordinating partitions.

    Raises:
        SourcesOverlap: chunks do not follow each other, so nothing may be collapsed.
    """
    schema = row_schema(job)
    with SpillFolder() as folder, collecting_seldom():
        rows = Sorter(schema, ROW_ORDER, folder)
        for _, piece in pieces:
            rows.add(_unpacked(piece, schema))
            if rows.bytes_held > SORTED_BYTES_MAX:
                rows.spill()
        yield from job.fold(rows.batches())


def table_rows(drained: Iterable[Rows], tables: TableSet) -> Iterator[TableRows]:
    """The same rows as Arrow has them."""
    for rows in drained:
        for table, of_table in rows.stored(tables):
            yield table.name, of_table


def table_rows_in(path: Path, tables: TableSet) -> Iterator[TableRows]:
    """The rows of a file in the schema of the tables.

    Raises:
        CheckpointRefused: it is damaged.
    """
    for lines in saved_batches(path):
        for table in tables:
            rows = lines.column(table.name).drop_null()
            if len(rows):
                yield table.name, rows.cast(table.arrow_type)


def to_stored(name: str, rows: pa.StructArray) -> StoredRows:
    """To bytes."""
    return name, _packed(pa.RecordBatch.from_struct_array(rows))


def from_stored(stored: StoredRows, tables: TableSet) -> TableRows:
    """Back from bytes."""
    name, piece = stored
    schema = pa.schema(list(tables.by_name[name].arrow_type))
    return name, _unpacked(piece, schema).to_struct_array()


def lines_of_stored(
    batches: Iterable[pa.RecordBatch], tables: TableSet
) -> Iterator[pa.RecordBatch]:
    """Batches of `StoredRows`, as lines of the tables' schema."""
    for batch in batches:
        for stored in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield lines_of(*from_stored(stored, tables), tables)


def write_rows(drained: Iterable[Rows], tables: TableSet, path: Path) -> int:
    """Write a file in the schema of the tables, and return its number of rows; no file if 0.

    If two tasks write it, both write the same, and a partial file is never read.
    """
    lines = (batch for rows in drained for batch in row_batches(rows, tables))
    return write_batches(lines, tables.schema, path)


def write_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, path: Path) -> int:
    """As `write_rows`."""
    groups = row_groups(iter(batches))
    first = next(groups, None)
    if first is None:
        return 0
    count = 0
    whole = nullcontext(path) if isinstance(path, UriPath) else cache.made_beside(path)
    with whole as made, parquet_writer(made, schema) as file:
        while first is not None:
            file.write_table(first)
            count += first.num_rows
            first = next(groups, None)
    return count


def _packed(batch: pa.RecordBatch) -> bytes:
    """As bytes: how many they are unpacked, and they themselves.

    Spark would pack them, too, but only after Python and Java have copied them.
    """
    message = batch.serialize()
    size = len(message).to_bytes(_SIZE_BYTES, "little")
    packed: bytes = pa.compress(message, codec=_CODEC, asbytes=True)
    return size + packed


def _unpacked(piece: bytes, schema: pa.Schema) -> pa.RecordBatch:
    size = int.from_bytes(piece[:_SIZE_BYTES], "little")
    message = pa.decompress(pa.py_buffer(piece).slice(_SIZE_BYTES), size, codec=_CODEC)
    return pa.ipc.read_record_batch(message, schema)
