r"""Text output of `kafka-console-consumer` with its `print.*` options.

    LogAppendTime:1700000000000\tPartition:2\tOffset:5\tNO_HEADERS\tnull\tHeartbeat/1/...

The columns depend on the options, so the driver examines the first lines and passes the layout to
every task. The number of columns and the form of headers distinguish columns without a label
(headers, key, value). A line that does not begin a record continues the value before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import attrs
import pyarrow as pa

from kafka_marshal.capture import HeaderPairs, UnreadableSource
from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.replay.sources import text
from kafka_marshal.replay.sources.columns import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NOT_STATED,
    Cells,
    batches_of,
)
from kafka_marshal.replay.sources.guessed_time import NO_TIME, TIME_OF_MESSAGE, timed
from kafka_marshal.replay.sources.shapes import (
    NAMES_NO_TOPICS,
    CannotProve,
    Chunk,
    File,
    FileHead,
    FileRequest,
    Format,
    Layout,
    Survey,
    TextRange,
    about_records,
)

_LABELS: Final = {
    "timestamp": re.compile(
        rb"(?P<stamp>CreateTime|LogAppendTime):(?P<time>-?\d{1,19})|NO_TIMESTAMP"
    ),
    "partition": re.compile(rb"Partition:(?P<partition>\d{1,19})"),
    "offset": re.compile(rb"Offset:(?P<offset>\d{1,19})"),
    "delivery": re.compile(rb"Delivery:\w+"),
    "epoch": re.compile(rb"Epoch:\w+"),
}
"""Columns with a label, in printed order."""
_BEGINS: Final = re.compile(
    rb"(?:CreateTime|LogAppendTime|Partition|Offset|Delivery|Epoch):|NO_TIMESTAMP\t"
)
_NOISE: Final = re.compile(rb"\[[^\]]*\] (?:TRACE|DEBUG|INFO|WARN|ERROR) |Processed a total of \d")
_HEADERS: Final = re.compile(rb"NO_HEADERS|[^:,\t]+:.*")
_STAMPS: Final[dict[bytes | None, str]] = {
    b"CreateTime": CREATE_TIME,
    b"LogAppendTime": LOG_APPEND_TIME,
}
_INT64_MAX: Final = 2**63 - 1

CANNOT_PROVE: Final = CannotProve(
    values="it prints null as the word null, so a value or header of that text counts as null; "
    "a comma in a header's value begins the next header.",
    committed="it does not name transactions, so a record whose transaction was aborted stands "
    "here as any other if the consumer read uncommitted ones.",
)
_NO_HEADERS: Final = (
    "it was printed without print.headers=true, so every record was judged as if it had been "
    "written without headers."
)

_NO_KEYS: Final = (
    "it was printed without print.key=true, so every record was judged as if it had no key."
)
_NULL_KEYS: Final = "it prints no key as the word null, so a key of that text counts as none."


def _is_noise(line: bytes) -> bool:
    return not line.strip() or _NOISE.match(line) is not None


def _begins(line: bytes) -> bool:
    return _BEGINS.match(line) is not None or _NOISE.match(line) is not None


def _looks_like(head: FileHead) -> bool:
    lines = (line for line in head.first.split(b"\n") if not _is_noise(line))
    return _BEGINS.match(next(lines, b"")) is not None


def _labelled(line: bytes) -> tuple[list[str], list[bytes]]:
    """The names of the labelled columns at the start of the line, and the cells after them."""
    cells = line.split(b"\t")
    names = []
    for name, pattern in _LABELS.items():
        if cells and pattern.fullmatch(cells[0]):
            names.append(name)
            cells.pop(0)
    return names, cells


def layout_of(lines: list[bytes], where: str) -> Layout:
    """Detect the columns from the first lines that begin a record.

    Raises:
        UnreadableSource: a column that a replay needs was not printed.
    """
    names, _ = _labelled(lines[0])
    for name in ("partition", "offset"):
        if name not in names:
            raise UnreadableSource(
                f"{where}: it does not say each record's {name}; print it with "
                f"--property print.{name}=true"
            )
    rests = [rest for labels, rest in map(_labelled, lines) if labels == names]
    plain = min(len(rest) for rest in rests)
    if not plain:
        raise UnreadableSource(
            f"{where}: it does not print the value; leave print.value as it is, which is true"
        )
    headers = plain >= 2 and all(_HEADERS.fullmatch(rest[0]) for rest in rests)
    key = plain >= 2 + headers
    return (*names, *(["headers"] if headers else []), *(["key"] if key else []), "value")


def _survey(file: File, asked: FileRequest) -> Survey:
    path = file.path
    head = text.head_of(path)
    lines = [line for line in head.first.split(b"\n") if _BEGINS.match(line)]
    if len(head.first) >= text.HEAD_BYTES and len(lines) > 1:
        lines.pop()  # it may be cut
    if not lines:
        if text.is_blank(path, file.compression):
            raise UnreadableSource(f"{path}: the source is empty")
        raise UnreadableSource(
            f"{path}: no line begins as kafka-console-consumer prints it; it needs "
            "--property print.partition=true and --property print.offset=true"
        )
    layout = layout_of(lines, str(path))
    chunks = tuple(
        TextRange(
            format=file.format,
            path=str(path),
            log=asked.log,
            records=about_records(end - begin, packed=file.compression is not None),
            begin=begin,
            end=end,
            compression=file.compression,
            layout=layout,
            keys=asked.keys,
        )
        for begin, end in text.pieces(path, file.compression)
    )
    cannot = attrs.evolve(
        CANNOT_PROVE,
        headers=None if "headers" in layout else _NO_HEADERS,
        timestamps=None if "timestamp" in layout else TIME_OF_MESSAGE,
        keys=_NULL_KEYS if "key" in layout else _NO_KEYS,
    )
    return Survey(chunks, cannot, (NAMES_NO_TOPICS,) if asked.topic else ())


def _read(order: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    assert isinstance(chunk, TextRange)
    yield from batches_of(chunk, order, timed(_rows(chunk)))


def _rows(chunk: TextRange) -> Iterator[Cells]:
    pattern = _pattern(chunk.layout)
    for lines, where in text.records(chunk, _begins):
        if not _is_noise(lines[0]):
            record = lines[0] if len(lines) == 1 else b"\n".join(lines)
            yield _row(record, pattern, chunk.layout, where)


def _pattern(layout: Layout) -> re.Pattern[bytes]:
    """The pattern of a whole record; cells that are used have a group."""
    columns = {name: rb"(?:%b)" % pattern.pattern for name, pattern in _LABELS.items()}
    columns |= {"headers": rb"(?P<headers>[^\t]*)", "key": rb"(?P<key>[^\t]*)"}
    columns |= {"value": rb"(?P<value>.*)"}
    return re.compile(rb"\t".join(columns[name] for name in layout), re.DOTALL)


def _row(
    record: bytes, pattern: re.Pattern[bytes], layout: Layout, where: Callable[[], str]
) -> Cells:
    found = pattern.fullmatch(record)
    if found is None:
        shown = record.decode("utf-8", "backslashreplace")
        raise UnreadableSource(
            f"{where()}: not {', '.join(layout)}, as the lines before it: {shown:.60}"
        )
    cells = found.groupdict()
    partition, offset, time = int(cells["partition"]), int(cells["offset"]), cells.get("time")
    if partition > PARTITION_MAX:
        raise UnreadableSource(f"{where()}: partition {partition} is not in 0..{PARTITION_MAX}")
    if offset > _INT64_MAX or abs(int(time or 0)) > _INT64_MAX:
        raise UnreadableSource(f"{where()}: a number does not fit 64 bits")
    headers, value, key = cells.get("headers"), cells["value"], cells.get("key")
    return (
        partition,
        offset,
        int(time) if time else NO_TIME,
        _STAMPS.get(cells.get("stamp"), NOT_STATED),
        None if value == b"null" else value,
        () if headers is None else _headers(headers),
        None if key == b"null" else key,
    )


def _headers(cell: bytes) -> HeaderPairs:
    """Parse `name:value,name:value`; a part without a colon continues the value before it."""
    if cell == b"NO_HEADERS":
        return ()
    pairs: list[tuple[str, bytes | None]] = []
    for part in cell.split(b","):
        name, colon, value = part.partition(b":")
        if colon or not pairs:
            pairs.append((name.decode("utf-8", "replace"), value))
        else:
            last, before = pairs[-1]
            pairs[-1] = (last, (before or b"") + b"," + part)
    return tuple((name, None if value == b"null" else value) for name, value in pairs)


CONSOLE: Final = Format(
    "console",
    "the text of `kafka-console-consumer` with `print.partition`, `print.offset` and, better, "
    "`print.timestamp` and `print.headers`",
    "a first line that begins with a label such as `CreateTime:` or `Partition:`",
    False,
    CANNOT_PROVE,
    _looks_like,
    _survey,
    _read,
)
