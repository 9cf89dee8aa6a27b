"""JSON lines, one record each: captures, and the output of `kcat -J`.

orjson reads a block of lines at once, and its columns are checked as columns. A block that orjson
refuses, or whose columns are not as expected, is read again line by line by
`kafka_marshal.capture`. That understands surrogate escapes and reports errors with their line, so
the fast path decides nothing.

kcat writes a value's bytes unchanged, even if that is not valid JSON, so values that are not UTF-8
are preserved.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson
import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import (
    RawRecord,
    UnreadableSource,
    fields_of,
    record_of,
)
from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.markup import visible
from kafka_marshal.replay.sources import text
from kafka_marshal.replay.sources.columns import (
    CREATE_TIME,
    HEADERS,
    LOG_APPEND_TIME,
    NOT_STATED,
    assembled,
    batch_of,
    cells_of,
    header_lists,
)
from kafka_marshal.replay.sources.shapes import (
    NAMES_NO_TOPICS,
    CannotProve,
    Chunk,
    File,
    FileHead,
    FileRequest,
    Format,
    Survey,
    TextRange,
    about_records,
)

Fields = dict[str, Any]


@frozen
class _Names:
    """The names of a line's fields, and its words for the timestamp type."""

    timestamp: str
    stamp: str
    stamps: dict[object, str]
    value: str
    topic: str | None = None
    noise: bytes | None = None
    """The prefix of lines that are messages of the tool, not records."""


_CAPTURE: Final = _Names(
    "timestamp_ms", "timestamp_type", {1: CREATE_TIME, 2: LOG_APPEND_TIME}, "value"
)
_KCAT: Final = _Names(
    "ts",
    "tstype",
    {"create": CREATE_TIME, "logappend": LOG_APPEND_TIME},
    "payload",
    "topic",
    b"% ",
)


def first_object(head: FileHead) -> Fields | None:
    """The object in the first line that is neither blank nor kcat's own message, if it is one."""
    for line in head.first.split(b"\n"):
        if line.strip() and not line.startswith(b"% "):
            try:
                found = json.loads(line.decode("utf-8", "surrogateescape"))
            except (ValueError, RecursionError):
                return None
            return found if isinstance(found, dict) else None
    return None


def _is_kcat(head: FileHead) -> bool:
    found = first_object(head)
    return found is not None and {"partition", "offset", "payload"} <= found.keys()


def _is_capture(head: FileHead) -> bool:
    found = first_object(head)
    return found is not None and {"partition", "offset", "timestamp_ms"} <= found.keys()


def _survey_of(names: _Names, cannot_prove: CannotProve) -> Callable[[File, FileRequest], Survey]:
    def survey(file: File, asked: FileRequest) -> Survey:
        path = file.path
        if text.is_blank(path, file.compression):
            raise UnreadableSource(f"{path}: the source is empty")
        notes: tuple[str, ...] = ()
        topic = asked.topic
        if names.topic is None:
            notes, topic = (NAMES_NO_TOPICS,) if topic else (), None
        elif topic is None:
            first = first_object(text.head_of(path)) or {}
            cell = first.get(names.topic)
            topic = cell if isinstance(cell, str) else None
        chunks = tuple(
            TextRange(
                format=file.format,
                path=str(path),
                log=asked.log,
                records=about_records(end - begin, packed=file.compression is not None),
                begin=begin,
                end=end,
                compression=file.compression,
                topic=topic,
                filtering=asked.topic is not None,
                keys=asked.keys,
            )
            for begin, end in text.pieces(path, file.compression)
        )
        return Survey(chunks, cannot_prove, notes)

    return survey


def _read_of(names: _Names) -> Callable[[int, Chunk], Iterator[pa.RecordBatch]]:
    def read(order: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        assert isinstance(chunk, TextRange)
        for block in text.blocks(chunk):
            batch = _quick(names, chunk, block, order)
            if batch is None:
                rows = [cells_of(raw) for raw in _one_by_one(names, chunk, block)]
                if not rows:
                    continue
                batch = batch_of(chunk.log, order, rows, keys=chunk.keys)
            yield batch
            order += batch.num_rows

    return read


def _quick(names: _Names, chunk: TextRange, block: text.Block, order: int) -> pa.RecordBatch | None:
    """The block as columns, or None if it must be read line by line."""
    try:
        found = [orjson.loads(line) for line in block.lines]
        topic = chunk.topic if names.topic is not None else None
        if topic is not None and any(fields[names.topic] != topic for fields in found):
            return None
        partitions = [fields["partition"] for fields in found]
        offsets = [fields["offset"] for fields in found]
        timestamps = [fields[names.timestamp] for fields in found]
        values = [fields[names.value] for fields in found]
        stamps = [names.stamps.get(fields.get(names.stamp), NOT_STATED) for fields in found]
        kinds = {type(fields.get(names.stamp)) for fields in found}
        headers = [fields.get("headers") for fields in found]
        keys = [fields.get("key") for fields in found] if chunk.keys else None
        if any("state" in fields for fields in found):
            return None
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if (
        not found
        or {*map(type, partitions), *map(type, offsets), *map(type, timestamps)} != {int}
        or not kinds <= {int, str, type(None)}
        or not (min(partitions) >= 0 and max(partitions) <= PARTITION_MAX and min(offsets) >= 0)
    ):
        return None
    try:
        return assembled(
            chunk.log,
            order,
            pa.array(partitions, pa.int64()),
            pa.array(offsets, pa.int64()),
            pa.array(timestamps, pa.int64()),
            pa.array(stamps, pa.string()),
            pa.array(values, pa.string()).cast(pa.binary()),
            _quick_headers(headers, flat=names is _KCAT),
            None if keys is None else pa.array(keys, pa.string()).cast(pa.binary()),
        )
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _quick_headers(headers: list[Any], *, flat: bool) -> pa.Array:
    """The headers of all rows; raises if they are not as expected."""
    if not any(headers) and {*map(type, headers)} <= {list, dict, type(None)}:
        return pa.nulls(len(headers), HEADERS)
    lengths: list[int] = []
    keys: list[str] = []
    values: list[str | None] = []
    for header_cell in headers:
        before = len(keys)
        if isinstance(header_cell, dict):
            keys.extend(header_cell)
            values.extend(header_cell.values())
        elif isinstance(header_cell, list) and flat:
            keys.extend(header_cell[::2])
            values.extend(header_cell[1::2])
        elif isinstance(header_cell, list):
            if not all(isinstance(pair, list) for pair in header_cell):
                raise TypeError("not pairs")
            for key, value in header_cell:
                keys.append(key)
                values.append(value)
        elif header_cell is not None:
            raise TypeError("neither a map nor a list")
        lengths.append(len(keys) - before)
    if not {*map(type, keys)} <= {str}:
        raise TypeError("a name is no text")
    return header_lists(lengths, keys, pa.array(values, pa.string()).cast(pa.binary()))


def _one_by_one(names: _Names, chunk: TextRange, block: text.Block) -> Iterator[RawRecord]:
    parse = _parse_capture if names is _CAPTURE else _parse_kcat
    for number, line in enumerate(block.lines):
        if not line.strip() or (names.noise is not None and line.startswith(names.noise)):
            continue
        try:
            raw = parse(line, chunk, chunk.path)
        except UnreadableSource:
            raw = parse(line, chunk, text.where(chunk, block, number))
        if raw is not None:
            yield raw


def _parse_capture(line: bytes, chunk: TextRange, where: str) -> RawRecord | None:
    try:
        fields = fields_of(line.decode("utf-8"), where)
        if not chunk.keys:
            fields.pop("key", None)  # nobody looks at it, as where lines are read together
        return record_of(fields, where)
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{where}: not UTF-8 text (byte {error.start})") from None


def _parse_kcat(line: bytes, chunk: TextRange, where: str) -> RawRecord | None:
    try:
        fields = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        raise UnreadableSource(f"{where}: not a JSON object: {error}") from None
    if not isinstance(fields, dict):
        raise UnreadableSource(f"{where}: not a JSON object")
    for name in ("partition", "offset", "ts", "payload"):
        if name not in fields:
            raise UnreadableSource(f"{where}: field {name!r} is missing")
    if not isinstance(fields["payload"], str | None):
        raise UnreadableSource(f"{where}: field 'payload' is neither text nor null")
    if not isinstance(fields["ts"], int):
        raise UnreadableSource(f"{where}: field 'ts' is not an integer: {fields['ts']!r:.60}")
    topic = fields.get("topic")
    if chunk.topic is not None and topic != chunk.topic:
        if chunk.filtering:
            return None
        raise several_topics(where, {chunk.topic, str(topic)})
    stamp = fields.get("tstype")
    capture = {
        "partition": fields["partition"],
        "offset": fields["offset"],
        "timestamp_ms": fields["ts"],
        "timestamp_type": {"create": 1, "logappend": 2}.get(stamp)
        if isinstance(stamp, str)
        else None,
        "value": fields["payload"],
        "headers": _pairs(fields.get("headers"), where),
    }
    if chunk.keys:
        capture["key"] = fields.get("key")
    return record_of(capture, where)


def _pairs(headers: object, where: str) -> object:
    """Headers of kcat, which alternate names and values, as pairs; a map is returned unchanged."""
    if not isinstance(headers, list) or not headers or isinstance(headers[0], list):
        return headers
    if len(headers) % 2:
        raise UnreadableSource(f"{where}: field 'headers' holds a name without a value")
    return [list(pair) for pair in zip(headers[::2], headers[1::2], strict=True)]


def several_topics(where: str, topics: set[str] | frozenset[str]) -> UnreadableSource:
    """The error for several topics, whose offsets would be taken for those of one log."""
    some = sorted(visible(topic, 60) for topic in topics)
    named = ", ".join(some[:5]) + (f" and {len(some) - 5} more" if len(some) > 5 else "")
    return UnreadableSource(
        f"{where}: records of several topics ({named}); --topic chooses the coordination topic"
    )


_NOTHING: Final = CannotProve()
_COMMITTED: Final = CannotProve(
    committed="it does not name transactions, so a record whose transaction was aborted stands "
    "here as any other if kcat read uncommitted ones."
)

CAPTURE: Final = Format(
    "capture",
    "JSON lines: `partition`, `offset`, `timestamp_ms`, `timestamp_type`, `value`, `headers` and, "
    "where records have one, `key`",
    "a first line that is an object with `timestamp_ms`, or a name that ends in `.jsonl`",
    False,
    _NOTHING,
    _is_capture,
    _survey_of(_CAPTURE, _NOTHING),
    _read_of(_CAPTURE),
)
KCAT: Final = Format(
    "kcat",
    "the lines of `kcat -J`",
    "a first line that is an object with `payload`",
    False,
    _COMMITTED,
    _is_kcat,
    _survey_of(_KCAT, _COMMITTED),
    _read_of(_KCAT),
)
