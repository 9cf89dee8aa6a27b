"""The schema that every format is read into, and batches of records in it.

Timestamps are milliseconds and the timestamp type is a word, so the origin of a record makes no
difference from here on. `input_order` keeps what a shuffle would lose: which of two records at one
offset came first. The column of keys is optional: claims need no keys, and a column that is not
read costs nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from kafka_marshal.capture import HeaderPairs, RawRecord, TimestampType
from kafka_marshal.replay.sources.shapes import Chunk

BATCH: Final = 1_000
"""The number of records in a batch, if they are made one by one. It is small, since many living
objects cost more in Python's garbage collector than small batches do. `reading` joins batches."""
_BATCH_BYTES: Final = 64 << 20
"""The size of values at which a batch ends, whatever its number of records."""

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ARROW_SCHEMA: Final = pa.schema(
    [
        ("log", pa.string()),
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("input_order", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("timestamp_type", pa.string()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
KEYED_SCHEMA: Final = ARROW_SCHEMA.append(pa.field("key", pa.binary()))
"""The same with keys, for chunks that are read with them."""

_FEW: Final = pa.dictionary(pa.int32(), pa.string())
LEAN_HEADERS: Final = pa.list_(pa.struct([("key", _FEW), ("value", pa.binary())]))
LEAN_SCHEMA: Final = pa.schema(
    [
        field.with_type(
            {"log": _FEW, "timestamp_type": _FEW, "headers": LEAN_HEADERS}.get(
                field.name, field.type
            )
        )
        for field in ARROW_SCHEMA
    ]
)
"""The same with dictionaries for columns with few distinct texts. Sources may return it; see
`plain`."""

CREATE_TIME: Final = TimestampType.CREATE_TIME.value
LOG_APPEND_TIME: Final = TimestampType.LOG_APPEND_TIME.value
NOT_STATED: Final = TimestampType.NOT_STATED.value

Cells: TypeAlias = tuple[int, int, int, str, bytes | None, HeaderPairs, bytes | None]
"""Partition, offset, timestamp, type of the timestamp, value, headers, key."""


def cells_of(raw: RawRecord) -> Cells:
    """A record as one row."""
    stamp = raw.timestamp_type.value
    return (raw.partition, raw.offset, raw.timestamp_ms, stamp, raw.value, raw.headers, raw.key)


def batches_of(chunk: Chunk, order: int, rows: Iterator[Cells]) -> Iterator[pa.RecordBatch]:
    """Yield a chunk's rows as batches; `input_order` counts from `order`."""
    some: list[Cells] = []
    size = 0
    for row in rows:
        some.append(row)
        size += len(row[4] or b"")
        if len(some) == BATCH or size >= _BATCH_BYTES:
            yield batch_of(chunk.log, order, some, keys=chunk.keys)
            order += len(some)
            some, size = [], 0
    if some:
        yield batch_of(chunk.log, order, some, keys=chunk.keys)


def batch_of(log: str, order: int, rows: Sequence[Cells], *, keys: bool = False) -> pa.RecordBatch:
    """Make a batch of some rows, with their keys if `keys`."""
    partitions, offsets, timestamps, stamps, values, headers, key_cells = zip(*rows, strict=True)
    return assembled(
        log,
        order,
        pa.array(partitions, pa.int64()),
        pa.array(offsets, pa.int64()),
        pa.array(timestamps, pa.int64()),
        pa.array(stamps, pa.string()),
        pa.array(values, pa.binary()),
        headers_array(headers),
        pa.array(key_cells, pa.binary()) if keys else None,
    )


def assembled(
    log: str,
    order: int,
    partitions: pa.Array,
    offsets: pa.Array,
    timestamps: pa.Array,
    stamps: pa.Array,
    values: pa.Array,
    headers: pa.Array,
    keys: pa.Array | None = None,
) -> pa.RecordBatch:
    """Make a batch of columns, and of the two that are constant or only count.

    It is lean if `stamps` are, and then `headers` must be too.
    """
    count = len(offsets)
    lean = pa.types.is_dictionary(stamps.type)
    if lean:
        first = pa.array(np.zeros(count, np.int32))
        logs = pa.DictionaryArray.from_arrays(first, pa.array([log]))
    else:
        logs = pa.repeat(pa.scalar(log, pa.string()), count)
    orders = pa.array(np.arange(order, order + count, dtype=np.int64))
    columns = [logs, partitions, offsets, orders, timestamps, stamps, values, headers]
    schema = LEAN_SCHEMA if lean else ARROW_SCHEMA
    if keys is not None:
        columns.append(keys)
        schema = schema.append(KEYED_SCHEMA.field("key"))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A lean or plain batch in `ARROW_SCHEMA`, or in `KEYED_SCHEMA` if it has keys."""
    schema = KEYED_SCHEMA if "key" in batch.schema.names else ARROW_SCHEMA
    if batch.schema == schema:
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def padded(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with all columns of a schema; missing ones are null."""
    names = batch.schema.names
    columns = [
        batch.column(each.name) if each.name in names else pa.nulls(batch.num_rows, each.type)
        for each in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def headers_array(headers: Iterable[HeaderPairs]) -> pa.Array:
    """Headers of all rows."""
    listed = list(headers)
    if not any(listed):
        return pa.nulls(len(listed), HEADERS)
    names = [name for pairs in listed for name, _ in pairs]
    values = pa.array([value for pairs in listed for _, value in pairs], pa.binary())
    return header_lists([len(pairs) for pairs in listed], names, values)


def header_lists(lengths: Sequence[int], names: Sequence[str], values: pa.Array) -> pa.Array:
    """The headers of all rows, from the number that each has, and all names and values in order.

    A name that is not UTF-8 is shown with escapes; all names that matter are ASCII.
    """
    try:
        keys = pa.array(names, pa.string())
    except UnicodeEncodeError:
        shown = [name.encode("utf-8", "backslashreplace").decode() for name in names]
        keys = pa.array(shown, pa.string())
    ends = pa.array(np.cumsum([0, *lengths], dtype=np.int32))
    members = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(ends, members, type=HEADERS)


def records_of(batch: pa.RecordBatch) -> Iterator[tuple[str, RawRecord]]:
    """Yield every record of a batch with the name of its log."""
    types = {kind.value: kind for kind in TimestampType}
    columns = [
        values_of(batch.column(name))
        for name in ("log", "partition", "offset", "timestamp_ms", "value", "headers")
    ]
    stamped = batch.column("timestamp_type").to_pylist()
    if "key" in batch.schema.names:
        keys = values_of(batch.column("key"))
        for row, stamp, key in zip(zip(*columns, strict=True), stamped, keys, strict=True):
            log, partition, offset, timestamp_ms, value, pairs = row
            yield (
                log,
                RawRecord(partition, offset, timestamp_ms, value, pairs, types[stamp], key),
            )
        return
    for row, stamp in zip(zip(*columns, strict=True), stamped, strict=True):
        log, partition, offset, timestamp_ms, value, pairs = row
        yield log, RawRecord(partition, offset, timestamp_ms, value, pairs, types[stamp])


def values_of(column: pa.Array) -> list[Any]:
    """The values column by column, which is faster: structs as tuples, null lists as empty ones.

    Texts are few and repeated: equal ones are one object.
    """
    if pa.types.is_struct(column.type):
        return list(zip(*map(values_of, column.flatten()), strict=True))
    if pa.types.is_list(column.type):
        if column.null_count == len(column):  # of none at all Java writes no offsets
            return [()] * len(column)
        # In a slice, `values` still has the members of the whole: cutting a table into many slices
        # would take quadratic time.
        ends = column.offsets.to_numpy().tolist()
        first = ends[0]
        members = values_of(column.values.slice(first, ends[-1] - first))
        return [
            tuple(members[begin - first : end - first]) for begin, end in itertools.pairwise(ends)
        ]
    if pa.types.is_string(column.type):
        coded = column.dictionary_encode()
        names = [*coded.dictionary.to_pylist(), None]  # the last one for -1
        return [names[code] for code in coded.indices.fill_null(-1).to_numpy().tolist()]
    if column.null_count:
        return list(column.to_pylist())
    if pa.types.is_integer(column.type):
        return list(column.to_numpy().tolist())
    if pa.types.is_binary(column.type) and len(column):
        _, offsets, content = column.buffers()
        ends = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1].tolist()
        if content is None:
            return [b""] * len(column)
        first = ends[0]
        held = bytes(memoryview(content)[first : ends[-1]])
        return [held[begin - first : end - first] for begin, end in itertools.pairwise(ends)]
    return list(column.to_pylist())
