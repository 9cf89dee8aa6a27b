"""Chunks of sources to Arrow batches: what every executor does first.

Both kinds come out in one schema, with timestamps in milliseconds and the timestamp type as a
word, so from here on nobody knows where a record came from. `input_order` keeps what the shuffle
would lose: which of two records at one offset came first.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_marshal.capture import RawRecord, TimestampType, UnreadableSource, parse_line
from kafka_marshal.replay.sources import Chunk, JsonLines, RowGroups

BATCH: Final = 10_000
"""Records in one batch."""

SPARK_SCHEMA: Final = (
    "log: string, partition: bigint, offset: bigint, input_order: bigint, timestamp_ms: bigint, "
    "timestamp_type: string, value: binary, "
    "headers: array<struct<key: string, value: binary>>"
)
ARROW_SCHEMA: Final = pa.schema(
    [
        ("log", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("input_order", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("timestamp_type", pa.string()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)
_ORDER_BITS: Final = 40
"""The low bits of `input_order` count within a chunk, the high ones the chunks."""


def read_chunk(number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """The records of one chunk; `number` is its place in the input.

    Raises:
        UnreadableSource: a line or a row is no record; the message names the file and the line.
    """
    records = _lines(chunk) if isinstance(chunk, JsonLines) else _rows(chunk)
    order = number << _ORDER_BITS
    while batch := list(itertools.islice(records, BATCH)):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([chunk.log] * len(batch), pa.string()),
                pa.array([raw.partition for raw in batch], pa.int64()),
                pa.array([raw.offset for raw in batch], pa.int64()),
                pa.array(range(order, order + len(batch)), pa.int64()),
                pa.array([raw.timestamp_ms for raw in batch], pa.int64()),
                pa.array([raw.timestamp_type.value for raw in batch], pa.string()),
                pa.array([raw.value for raw in batch], pa.binary()),
                pa.array(
                    [
                        [
                            {"key": name.encode("utf-8", "surrogatepass"), "value": value}
                            for name, value in raw.headers
                        ]
                        for raw in batch
                    ],
                    _WRITTEN_HEADERS,
                ).cast(ARROW_SCHEMA.field("headers").type)
                if any(raw.headers for raw in batch)
                else pa.nulls(len(batch), ARROW_SCHEMA.field("headers").type),
            ],
            schema=ARROW_SCHEMA,
        )
        order += len(batch)


_WRITTEN_HEADERS: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def records_of(batch: pa.RecordBatch) -> Iterator[tuple[str, RawRecord]]:
    """Back from a batch: every record with the name of its log."""
    types = {kind.value: kind for kind in TimestampType}
    columns = [
        batch.column(name).to_pylist()
        for name in ("log", "partition", "offset", "timestamp_ms", "value", "headers")
    ]
    stamped = batch.column("timestamp_type").to_pylist()
    for row, stamp in zip(zip(*columns, strict=True), stamped, strict=True):
        log, partition, offset, timestamp_ms, value, headers = row
        pairs = tuple((pair["key"], pair["value"]) for pair in headers) if headers else ()
        yield log, RawRecord(partition, offset, timestamp_ms, value, pairs, types[stamp])


def _lines(chunk: JsonLines) -> Iterator[RawRecord]:
    """The lines that begin in the range; the one that crosses its end belongs to it whole."""
    try:
        with Path(chunk.path).open("rb") as file:
            if chunk.begin:
                file.seek(chunk.begin - 1)
                file.readline()
            while (at := file.tell()) < chunk.end:
                line = file.readline()
                if line.strip():
                    yield _parsed(line, chunk.path, at)
    except OSError as error:
        raise UnreadableSource(f"{chunk.path}: {error.strerror or error}") from None


def _parsed(line: bytes, path: str, at: int) -> RawRecord:
    try:
        return parse_line(line.decode("utf-8"), path)
    except UnicodeDecodeError as error:
        where = _where(path, at)
        raise UnreadableSource(f"{where}: not UTF-8 text (byte {error.start})") from None
    except UnreadableSource:
        return parse_line(line.decode("utf-8"), _where(path, at))


def _where(path: str, at: int) -> str:
    """The line number, counted only when somebody must be told."""
    with Path(path).open("rb") as file:
        newlines = 0
        while at > 0:
            block = file.read(min(at, 1 << 20))
            if not block:
                break
            newlines += block.count(b"\n")
            at -= len(block)
    return f"{path}:{newlines + 1}"


def _rows(chunk: RowGroups) -> Iterator[RawRecord]:
    try:
        yield from _rows_of(chunk)
    except (OSError, pa.ArrowException) as error:
        raise UnreadableSource(f"{chunk.path}: not a readable Parquet file: {error}") from None


def _rows_of(chunk: RowGroups) -> Iterator[RawRecord]:
    with pq.ParquetFile(chunk.path) as parquet:
        wanted = ("partition", "offset", "timestamp", "timestampType", "value", "headers")
        columns = [name for name in wanted if name in parquet.schema_arrow.names]
        seen = sum(
            parquet.metadata.row_group(number).num_rows for number in range(chunk.row_groups[0])
        )
        for batch in parquet.iter_batches(BATCH, row_groups=chunk.row_groups, columns=columns):
            yield from _of_batch(batch, chunk, seen)
            seen += batch.num_rows


def _of_batch(batch: pa.RecordBatch, chunk: RowGroups, row: int) -> Iterator[RawRecord]:
    count = batch.num_rows
    named = dict(zip(batch.schema.names, batch.columns, strict=True))
    partitions = (
        _numbers(named["partition"])
        if "partition" in named
        else itertools.repeat(chunk.partition, count)
    )
    headers = named["headers"].to_pylist() if "headers" in named else itertools.repeat(None, count)
    types = named["timestampType"].to_pylist()
    rows = zip(
        partitions,
        _numbers(named["offset"]),
        _milliseconds(named["timestamp"]),
        types,
        named["value"].to_pylist(),
        headers,
        strict=True,
    )
    for number, (partition, offset, timestamp_ms, stamp, value, pairs) in enumerate(rows, row + 1):
        for name, cell in (
            ("partition", partition),
            ("offset", offset),
            ("timestamp", timestamp_ms),
        ):
            if cell is None:
                raise UnreadableSource(f"{chunk.path}: row {number}: column {name!r} is null")
            if cell < 0 and name != "timestamp":
                raise UnreadableSource(
                    f"{chunk.path}: row {number}: column {name!r} is negative: {cell}"
                )
        yield RawRecord(
            partition,
            offset,
            timestamp_ms,
            _bytes(value),
            tuple((_name(pair["key"]), _bytes(pair["value"])) for pair in pairs if pair)
            if pairs
            else (),
            TimestampType.of_spark(stamp),
        )


def _numbers(column: pa.Array) -> Iterable[int | None]:
    numbers: list[int | None] = column.to_pylist()
    return numbers


def _milliseconds(column: pa.Array) -> Iterable[int | None]:
    """Unix milliseconds of any timestamp; one without a zone is UTC, as Spark writes it."""
    numbers: list[int | None] = (
        column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64()).to_pylist()
    )
    return numbers


def _bytes(cell: bytes | str | None) -> bytes | None:
    return cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else cell


def _name(cell: bytes | str | None) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell or ""
