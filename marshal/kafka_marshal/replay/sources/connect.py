"""Folders of a Connect sink for object stores: `topics/T/partition=P/T+P+START.ext`.

The name states the partition and the first offset. A file holds values. Other parts of a record are
only there if the connector is configured to put them into the value: a field `value` with `offset`,
`timestamp` and `key` next to it. Otherwise offsets are counted from the name, on the assumption
that none is missing.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final, cast

import attrs
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.replay.places import local_copy, place_of
from kafka_marshal.replay.sources import text
from kafka_marshal.replay.sources.columns import NOT_STATED, Cells, batches_of
from kafka_marshal.replay.sources.guessed_time import NO_TIME, TIME_OF_MESSAGE, timed
from kafka_marshal.replay.sources.parquet import ROWS_PER_BYTE_MAX, check_rows, readable
from kafka_marshal.replay.sources.shapes import (
    CannotProve,
    Chunk,
    File,
    FileHead,
    FileRequest,
    Format,
    SinkObject,
    Survey,
    about_records,
)
from kafka_marshal.replay.sources.unpacking.avro import PlainAvro
from kafka_marshal.replay.sources.unpacking.parquet_pages import RowGroupLimit

NAME: Final = re.compile(
    r"^(?P<topic>.+)\+(?P<partition>\d+)\+(?P<start>\d+)"
    r"\.(?P<kind>json|avro|parquet|bin)(?:\.(?:gz|gzip|zst|zstd))?$"
)
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_COUNTED: Final = (
    "offsets were counted from the files' names, which presumes that no offset is missing in a "
    "file."
)
_NO_KEYS: Final = (
    "it holds values without a field 'key' beside them, so every record was judged as if it had no "
    "key."
)
CANNOT_PROVE: Final = CannotProve(
    headers="it holds values and no headers, so every record was judged as if it had been written "
    "without headers.",
    timestamp_type="it does not say who stamped a record.",
    timestamps=TIME_OF_MESSAGE,
    offsets=_COUNTED,
)


def _looks_like(head: FileHead) -> bool:
    return NAME.match(head.path.name) is not None


def _survey(file: File, asked: FileRequest) -> Survey:
    named = NAME.match(file.path.name)
    if named is None:
        raise UnreadableSource(
            f"{file.path}: a Connect sink names its files TOPIC+PARTITION+OFFSET.EXTENSION, for "
            "example __marshal+3+0000000000.json"
        )
    topics = frozenset({named["topic"]})
    partition, start = int(named["partition"]), int(named["start"])
    if partition > PARTITION_MAX or start >= 2**63:
        raise UnreadableSource(f"{file.path}: its name says no partition or offset of Kafka")
    if asked.topic is not None and named["topic"] != asked.topic:
        return Survey((), CANNOT_PROVE, (), topics)
    packed = file.compression is not None or named["kind"] in ("avro", "parquet")
    chunk = SinkObject(
        format=file.format,
        path=str(file.path),
        log=asked.log,
        records=about_records(text.size_of(file.path), packed=packed),
        kind=named["kind"],
        compression=file.compression,
        partition=partition,
        start=start,
        keys=asked.keys,
    )
    first = next(_items(chunk), None)
    if first is None:
        raise UnreadableSource(f"{file.path}: the source is empty")
    fields = first[1] if isinstance(first[1], dict) else {}
    cannot = attrs.evolve(
        CANNOT_PROVE,
        timestamps=None if fields.get("timestamp") is not None else TIME_OF_MESSAGE,
        offsets=None if fields.get("offset") is not None else _COUNTED,
        values="a value that holds a line end counts as two records."
        if chunk.kind == "bin"
        else None,
        keys=None if "key" in fields else _NO_KEYS,
    )
    return Survey((chunk,), cannot, (), topics)


def _read(order: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    assert isinstance(chunk, SinkObject)
    yield from batches_of(chunk, order, timed(_rows(chunk)))


def _rows(chunk: SinkObject) -> Iterator[Cells]:
    for index, (where, item) in enumerate(_items(chunk)):
        offset, timestamp, key = chunk.start + index, NO_TIME, None
        if isinstance(item, dict):
            if "value" not in item:
                raise UnreadableSource(f"{where}: field 'value' is missing")
            offset = _number(item, "offset", offset, where)
            timestamp = _number(item, "timestamp", timestamp, where)
            if chunk.keys:
                key = _content(item.get("key"), "the key", where)
            item = item["value"]
            if offset < 0:
                raise UnreadableSource(f"{where}: field 'offset' is negative: {offset}")
        value = _content(item, "the value", where)
        yield (chunk.partition, offset, timestamp, NOT_STATED, value, (), key)


def _content(item: object, what: str, where: str) -> bytes | None:
    if isinstance(item, str):
        return item.encode("utf-8", "surrogatepass")
    if not isinstance(item, bytes | None):
        raise UnreadableSource(f"{where}: {what} is neither text nor null: {item!r:.60}")
    return item


def _number(item: dict[str, Any], name: str, otherwise: int, where: str) -> int:
    number = item.get(name)
    if number is None:
        return otherwise
    if isinstance(number, dt.datetime):
        aware = number if number.tzinfo else number.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    if not isinstance(number, int) or isinstance(number, bool) or abs(number) >= 2**63:
        raise UnreadableSource(f"{where}: field {name!r} is not an integer: {number!r:.60}")
    return number


def _items(chunk: SinkObject) -> Iterator[tuple[str, Any]]:
    """Yield the file's contents, each with its place: text, bytes, null, or an object."""
    if chunk.kind == "parquet":
        return _of_parquet(chunk)
    return {"json": _of_json, "avro": _of_avro, "bin": _of_lines}[chunk.kind](chunk)


def _of_json(chunk: SinkObject) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.lines(chunk.path, chunk.compression), 1):
        if line.strip():
            where = f"{chunk.path}:{number}"
            try:
                yield where, json.loads(line.decode("utf-8"))
            except (ValueError, RecursionError) as error:
                raise UnreadableSource(f"{where}: not JSON: {error}") from None


def _of_lines(chunk: SinkObject) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.lines(chunk.path, chunk.compression), 1):
        yield f"{chunk.path}:{number}", line.removesuffix(b"\n")


def _of_avro(chunk: SinkObject) -> Iterator[tuple[str, Any]]:
    with text.opened(chunk.path, chunk.compression) as file:
        number, rows_max = 0, ROWS_PER_BYTE_MAX * text.size_of(chunk.path)
        try:
            plain = cast("IO[bytes]", PlainAvro(file, chunk.path))
            for number, item in enumerate(fastavro.reader(plain), 1):
                if number > rows_max:
                    raise UnreadableSource(f"{chunk.path}: more than {rows_max:,} records in it")
                yield f"{chunk.path}: record {number}", item
        except UnreadableSource:
            raise
        except Exception as error:  # fastavro lists none, and damage makes it raise many
            reason = str(error) or type(error).__name__
            raise UnreadableSource(
                f"{chunk.path}: record {number + 1}: not readable Avro: {reason}"
            ) from None


def _of_parquet(chunk: SinkObject) -> Iterator[tuple[str, Any]]:
    with (
        readable(chunk.path),
        local_copy(place_of(chunk.path)) as copy,
        pq.ParquetFile(copy) as parquet,
    ):
        names = parquet.schema_arrow.names
        check_rows(parquet.metadata.num_rows, chunk.path)
        if len(names) == 1:
            only = names[0]
        elif "value" in names:
            only = "value"
        else:
            raise UnreadableSource(f"{chunk.path}: column 'value' is missing")
        beside = ("offset", "timestamp", "key") if chunk.keys else ("offset", "timestamp")
        wanted = list(dict.fromkeys([only, *(name for name in beside if name in names)]))
        limit = RowGroupLimit(copy, parquet, chunk.path)
        number = 0
        for row_group in range(parquet.num_row_groups):
            limit.check(row_group, wanted)
            for batch in parquet.iter_batches(row_groups=[row_group], columns=wanted):
                for item in _of_columns(batch):
                    number += 1
                    yield f"{chunk.path}: row {number}", {**item, "value": item[only]}


def _of_columns(batch: pa.RecordBatch) -> Iterable[dict[str, Any]]:
    """Rows as dictionaries; timestamps are cut to milliseconds, since Python has no nanoseconds."""
    columns = {
        name: column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        if pa.types.is_timestamp(column.type)
        else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
    rows: list[dict[str, Any]] = pa.RecordBatch.from_pydict(columns).to_pylist()
    return rows


CONNECT: Final = Format(
    "connect",
    "folders of a Connect sink, `topics/T/partition=P/T+P+START.ext`: `.json`, `.avro`, "
    "`.parquet`, `.bin`",
    "a name of that form",
    True,
    CANNOT_PROVE,
    _looks_like,
    _survey,
    _read,
)
