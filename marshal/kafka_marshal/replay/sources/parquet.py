"""Parquet files in the schema of Spark's Kafka source.

They are read as columns: no row becomes a Python object, unless Arrow cannot cast the form of its
headers. Footers are read on the driver, so a missing column or a second topic is reported before
Spark starts.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.replay.places import local_copy, place_of, reason_of
from kafka_marshal.replay.sources.columns import (
    CREATE_TIME,
    LEAN_HEADERS,
    LOG_APPEND_TIME,
    NOT_STATED,
    assembled,
    headers_array,
)
from kafka_marshal.replay.sources.json_lines import several_topics
from kafka_marshal.replay.sources.shapes import (
    NAMES_NO_TOPICS,
    CannotProve,
    Chunk,
    File,
    FileHead,
    FileRequest,
    Format,
    RowGroups,
    Survey,
)
from kafka_marshal.replay.sources.text import size_of
from kafka_marshal.replay.sources.unpacking.parquet_pages import RowGroupLimit

MAGIC: Final = b"PAR1"
_PARTITION: Final = re.compile(r"partition=([0-9]{1,10})")
ROWS_PER_CHUNK: Final = 500_000
ROWS_PER_BYTE_MAX: Final = 64
"""The maximum of rows per byte of a file. Rows of a log differ; even well compressed ones take some
bytes each."""
_STAMPS: Final = pa.array([CREATE_TIME, LOG_APPEND_TIME, NOT_STATED], pa.string())
_NO_HEADERS: Final = CannotProve(
    headers="it has no column 'headers' (Spark writes one if asked with includeHeaders), so every "
    "record was judged as if it had been written without headers."
)
_NO_KEYS: Final = "it has no column 'key', so every record was judged as if it had no key."
CANNOT_PROVE: Final = CannotProve()


def _looks_like(head: FileHead) -> bool:
    return head.first.startswith(MAGIC)


def _survey(file: File, asked: FileRequest) -> Survey:
    path = str(file.path)
    with (
        readable(path),
        local_copy(file.path, _topic_bytes) as copy,
        pq.ParquetFile(copy) as parquet,
    ):
        schema, metadata = parquet.schema_arrow, parquet.metadata
        partition = _hive_partition(file.path)
        _check(schema, path, partition, keys=asked.keys)
        check_rows(metadata.num_rows, file.path)
        topics: list[frozenset[str]] = [frozenset()] * metadata.num_row_groups
        if "topic" in schema.names:
            topics = _topics(copy, metadata.num_row_groups, path)
    named: frozenset[str] = frozenset().union(*topics)
    if asked.topic is None and len(named) > 1:
        raise several_topics(f"{path}: column 'topic'", named)
    filtering = asked.topic if asked.topic is not None and "topic" in schema.names else None
    if "partition" in schema.names:
        partition = None
    wanted = [
        number
        for number, of_group in enumerate(topics)
        if metadata.row_group(number).num_rows and (filtering is None or filtering in of_group)
    ]
    chunks = tuple(
        RowGroups(
            format=file.format,
            path=path,
            log=asked.log,
            records=sum(metadata.row_group(number).num_rows for number in row_groups),
            row_groups=row_groups,
            partition=partition,
            topic=filtering,
            keys=asked.keys,
        )
        for row_groups in _together(wanted, metadata)
    )
    cannot = attrs.evolve(
        CANNOT_PROVE if "headers" in schema.names else _NO_HEADERS,
        keys=None if "key" in schema.names else _NO_KEYS,
    )
    notes = (NAMES_NO_TOPICS,) if asked.topic and "topic" not in schema.names else ()
    return Survey(chunks, cannot, notes)


def _together(row_groups: Sequence[int], metadata: pq.FileMetaData) -> Iterator[tuple[int, ...]]:
    """Yield groups of adjacent row groups that one task reads: longer chunks make longer runs."""
    taken: list[int] = []
    rows = 0
    for number in row_groups:
        more = metadata.row_group(number).num_rows
        if taken and (rows + more > ROWS_PER_CHUNK or number != taken[-1] + 1):
            yield tuple(taken)
            taken, rows = [], 0
        taken.append(number)
        rows += more
    if taken:
        yield tuple(taken)


def _topic_bytes(metadata: pq.FileMetaData) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of the column of topics."""
    for number in range(metadata.num_row_groups):
        yield from _bytes_of(metadata, number, "topic")


def _bytes_of(
    metadata: pq.FileMetaData, number: int, name: str | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the byte ranges of all columns of a row group, or of one of them."""
    row_group = metadata.row_group(number)
    for column in map(row_group.column, range(row_group.num_columns)):
        if name in (None, column.path_in_schema):
            first = column.dictionary_page_offset
            begin = min(first or column.data_page_offset, column.data_page_offset)
            yield begin, begin + column.total_compressed_size


def _topics(path: Path, row_groups: int, named: str) -> list[frozenset[str]]:
    """The topics of each row group, read as a dictionary column.

    The footer's statistics contain them too. But if a footer is damaged, Arrow aborts the process
    when it is asked for them.
    """
    with pq.ParquetFile(path, read_dictionary=["topic"]) as parquet:
        limit = RowGroupLimit(path, parquet, named)
        found = []
        for number in range(row_groups):
            limit.check(number, ["topic"])
            column = parquet.read_row_group(number, columns=["topic"]).column("topic")
            topics = itertools.chain.from_iterable(_distinct(chunk) for chunk in column.chunks)
            found.append(frozenset(str(topic) for topic in topics if topic is not None))
        return found


def _distinct(column: pa.Array) -> list[Any]:
    """The distinct values that occur.

    The column of topics is usually a dictionary with one value.
    """
    if isinstance(column, pa.DictionaryArray) and len(column.dictionary) == 1:
        column = column.dictionary if column.null_count < len(column) else column.slice(0, 0)
    return list(pc.unique(column).to_pylist())


def _hive_partition(path: Path) -> int | None:
    for part in reversed(path.absolute().parts[:-1]):
        named = _PARTITION.fullmatch(part)
        if named is not None and int(named[1]) <= PARTITION_MAX:
            return int(named[1])
    return None


def _is_bytes(kind: pa.DataType) -> bool:
    kinds = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())
    return any(kind == one for one in kinds)


def _is_header_list(kind: pa.DataType) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    struct = kind.value_type
    if not pa.types.is_struct(struct):
        return False
    fields = {struct.field(i).name: struct.field(i).type for i in range(struct.num_fields)}
    return all(name in fields and _is_bytes(fields[name]) for name in ("key", "value"))


_EXPECTED: Final = {
    "value": (lambda kind: _is_bytes(kind) or pa.types.is_null(kind), "binary"),
    "partition": (pa.types.is_integer, "int"),
    "offset": (pa.types.is_integer, "long"),
    "timestamp": (pa.types.is_timestamp, "timestamp"),
    "timestampType": (pa.types.is_integer, "int"),
    "headers": (
        lambda kind: _is_header_list(kind) or pa.types.is_null(kind),
        "array<struct<key: string, value: binary>>",
    ),
}
"""The columns to read, as Spark's Kafka source names them."""
_KEY: Final = {"key": _EXPECTED["value"]}
"""Read if keys are asked for."""


def _check(schema: pa.Schema, path: str, partition: int | None, *, keys: bool) -> None:
    for name, (fits, wanted) in (_EXPECTED | _KEY if keys else _EXPECTED).items():
        if name not in schema.names:
            if name in ("headers", "key") or (name == "partition" and partition is not None):
                continue
            raise UnreadableSource(f"{path}: column {name!r} is missing")
        kind = schema.field(name).type
        if not fits(kind):
            raise UnreadableSource(f"{path}: column {name!r} is {kind}, not {wanted}")


def _read(order: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    assert isinstance(chunk, RowGroups)

    def wanted_bytes(metadata: pq.FileMetaData) -> Iterator[tuple[int, int]]:
        for number in chunk.row_groups:
            ranges = [*_bytes_of(metadata, number)]
            yield min(begin for begin, _ in ranges), max(end for _, end in ranges)

    with (
        readable(chunk.path),
        local_copy(place_of(chunk.path), wanted_bytes) as copy,
        pq.ParquetFile(copy, metadata=_footer(copy, copy.stat().st_mtime_ns)) as parquet,
    ):
        present = parquet.schema_arrow.names
        columns = _EXPECTED | _KEY if chunk.keys else _EXPECTED
        wanted = [name for name in columns if name in present]
        if chunk.topic is not None:
            wanted.append("topic")
        before = range(chunk.row_groups[0])
        seen = sum(parquet.metadata.row_group(number).num_rows for number in before)
        for rows in _row_groups(parquet, copy, chunk, wanted):
            batch = _columns(rows, chunk, order, seen)
            if chunk.topic is not None:
                topics = rows.column("topic").cast(pa.string())
                batch = batch.filter(pc.equal(topics, chunk.topic))
            yield batch
            seen += rows.num_rows
            order += rows.num_rows


@functools.lru_cache(maxsize=8)
def _footer(path: Path, _mtime_ns: int) -> pq.FileMetaData:
    """The footer of a file, used for all of its chunks."""
    return pq.read_metadata(path)


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Report Arrow's errors about a damaged file with the file's name, which may not be UTF-8."""
    try:
        yield
    except MemoryError as error:  # the file's fault or not: a damaged one may ask for any size
        raise UnreadableSource(f"{path}: not enough memory to read it: {error}") from None
    except (OSError, pa.ArrowException, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else error
        raise UnreadableSource(f"{path}: not a readable Parquet file: {reason}") from None


def check_rows(rows: int, path: Path | str) -> None:
    """Stop at a file that states more rows than its bytes can hold: reading them might never end.

    Raises:
        UnreadableSource: it states too many rows.
    """
    if rows > ROWS_PER_BYTE_MAX * size_of(path):
        raise UnreadableSource(
            f"{path}: {rows:,} rows in {size_of(path):,} bytes: no log is packed like that"
        )


def _row_groups(
    parquet: pq.ParquetFile, path: Path, chunk: RowGroups, wanted: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield each row group as one batch; keys of headers are a dictionary column.

    If a row group has too many keys for a dictionary, Arrow reports it.
    """
    keys = [
        column.path
        for column in map(parquet.schema.column, range(len(parquet.schema)))
        if column.path.startswith("headers.") and column.path.endswith(".key")
    ]
    with pq.ParquetFile(
        path, metadata=parquet.metadata, read_dictionary=keys, memory_map=True
    ) as numbered:
        limit = RowGroupLimit(path, parquet, chunk.path)
        for number in chunk.row_groups:
            limit.check(number, wanted)
            try:
                rows = numbered.read_row_group(number, wanted, use_threads=False)
            except pa.ArrowNotImplementedError:
                rows = parquet.read_row_group(number, wanted, use_threads=False)
            yield from rows.combine_chunks().to_batches()


def _columns(rows: pa.RecordBatch, chunk: RowGroups, order: int, seen: int) -> pa.RecordBatch:
    count = rows.num_rows
    named = dict(zip(rows.schema.names, rows.columns, strict=True))
    if "partition" not in named:
        named["partition"] = pa.repeat(pa.scalar(chunk.partition, pa.int64()), count)
    timestamps = named["timestamp"]
    # A timestamp without a zone is UTC, as Spark writes it.
    in_ms = timestamps.cast(pa.timestamp("ms", timestamps.type.tz), safe=False)
    numbers = {
        "partition": named["partition"].cast(pa.int64()),
        "offset": named["offset"].cast(pa.int64()),
        "timestamp": in_ms.cast(pa.int64()),
    }
    _check_rows(numbers, chunk.path, seen)
    stamps = pc.fill_null(named["timestampType"].cast(pa.int64()), 2)
    stated = pc.and_(pc.greater_equal(stamps, 0), pc.less_equal(stamps, 1))
    return assembled(
        chunk.log,
        order,
        numbers["partition"],
        numbers["offset"],
        numbers["timestamp"],
        pa.DictionaryArray.from_arrays(pc.if_else(stated, stamps, 2).cast(pa.int32()), _STAMPS),
        named["value"].cast(pa.binary()),
        _headers(named["headers"]) if "headers" in named else pa.nulls(count, LEAN_HEADERS),
        _keys(named.get("key"), count) if chunk.keys else None,
    )


def _keys(column: pa.Array | None, count: int) -> pa.Array:
    return pa.nulls(count, pa.binary()) if column is None else column.cast(pa.binary())


def _check_rows(numbers: dict[str, pa.Array], path: str, seen: int) -> None:
    """Report the first row in which a number is missing or wrong, if there is one."""
    first: tuple[int, str, str] | None = None
    for name, column in numbers.items():
        wrong = None
        if column.null_count:
            at = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
            wrong = (at, name, "is null")
        if name == "timestamp" or not len(column):
            pass
        else:
            ends = pc.min_max(column).as_py()
            most = PARTITION_MAX if name == "partition" else None
            if (ends["min"] or 0) < 0 or (most is not None and (ends["max"] or 0) > most):
                odd = pc.less(column, 0)
                if most is not None:
                    odd = pc.or_(odd, pc.greater(column, most))
                at = int(np.argmax(pc.fill_null(odd, False).to_numpy(zero_copy_only=False)))
                if wrong is None or at < wrong[0]:
                    number = column[at].as_py()
                    how = "is negative" if number < 0 else f"is not in 0..{most}"
                    wrong = (at, name, f"{how}: {number}")
        if wrong is not None and (first is None or wrong[0] < first[0]):
            first = wrong
    if first is not None:
        at, name, what = first
        raise UnreadableSource(f"{path}: row {seen + at + 1}: column {name!r} {what}")


def _headers(column: pa.Array) -> pa.Array:
    lean = _lean(column)
    lean.values.field("key").dictionary.validate(full=True)  # Arrow reads keys as text unseen
    return lean


def _lean(column: pa.Array) -> pa.Array:
    if column.null_count == len(column):
        return pa.nulls(len(column), LEAN_HEADERS)
    if not pc.struct_field(column.flatten(), "key").null_count:
        if column.type == LEAN_HEADERS:
            return column
        try:
            return column.cast(LEAN_HEADERS)
        except pa.ArrowException:
            pass
    written = headers_array(
        tuple((_text(pair["key"]), _bytes(pair["value"])) for pair in pairs if pair)
        if pairs
        else ()
        for pairs in column.to_pylist()
    )
    return written.cast(LEAN_HEADERS)


def _bytes(cell: bytes | str | None) -> bytes | None:
    return cell.encode("utf-8", "surrogateescape") if isinstance(cell, str) else cell


def _text(cell: bytes | str | None) -> str:
    return cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell or ""


PARQUET: Final = Format(
    "parquet",
    "Parquet in the schema of Spark's Kafka source",
    "the bytes `PAR1`",
    True,
    CANNOT_PROVE,
    _looks_like,
    _survey,
    _read,
)
