"""Text output of `kafka-dump-log --print-data-log` (`kafka.tools.DumpLogSegments`).

    Dumping data/__marshal-2/00000000000000000000.log
    baseOffset: 0 lastOffset: 1 count: 2 ... isTransactional: false isControl: false ...
    | offset: 0 LogAppendTime: 1700000000000 keySize: -1 valueSize: 41 sequence: -1
        headerKeys: [marshal-epoch] payload: Heartbeat/1/...

(a record is one line there). The partition is in the heading, or in the name of the file's folder.
Names of headers are printed and their values are not, so epochs are lost; the replay reports that.
Values are cut by their printed sizes, so they may contain anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

import pyarrow as pa

from kafka_marshal.capture import UnreadableSource
from kafka_marshal.codec import PARTITION_MAX
from kafka_marshal.replay.sources import text
from kafka_marshal.replay.sources.columns import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NOT_STATED,
    Cells,
    batches_of,
)
from kafka_marshal.replay.sources.guessed_time import NO_TIME, timed
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

FOLDER: Final = re.compile(r"^(?P<topic>[\w.-]+)-(?P<partition>\d{1,10})$")
"""The name that a broker gives to the folder of a partition."""
_DUMPING: Final = re.compile(rb"^Dumping .*$", re.MULTILINE)
_RECORD: Final = re.compile(
    rb"^\| offset: (?P<offset>\d{1,19}) (?:"
    rb"(?P<stamp>CreateTime|LogAppendTime): (?P<time>-?\d{1,19}) |NoTimestampType: -?\d+ )"
    rb"(?:isValid: \w+ )?key ?[sS]ize: (?P<key>-?\d{1,10}) "
    rb"value ?[sS]ize: (?P<value>-?\d{1,10})(?!\d)"
    rb"(?: sequence: -?\d+)?(?: headerKeys: \[(?P<headers>[^\]]*)\])?"
)
_BEGINS: Final = re.compile(
    rb"\| offset: \d|baseOffset: \d|Dumping |(?:Log s|S)tarting offset: \d|Found "
)
_CONTROL: Final = re.compile(rb" (?:endTxnMarker|controlType): ?")
_STAMPS: Final = {b"CreateTime": CREATE_TIME, b"LogAppendTime": LOG_APPEND_TIME}
_INT64_MAX: Final = 2**63 - 1

_NO_HEADERS: Final = (
    "it prints the names of headers and not their values, so every record was judged as if it had "
    "been written without headers."
)
ABORTED: Final = (
    "records were written in transactions, and one whose transaction was aborted stands here as "
    "any other."
)
CANNOT_PROVE: Final = CannotProve(
    headers=_NO_HEADERS,
    values="bytes that are not UTF-8 were replaced when it was printed.",
    committed=ABORTED,
)
_SOME_HEADERS: Final = re.compile(rb" headerKeys: \[[^\]\n]")
_MARSHAL_HEADERS: Final = re.compile(rb"headerKeys: \[[^\]\n]*marshal-")
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}".encode()
_TRANSACTION: Final = b"isTransactional: true isControl: false"
EPOCHS_LOST: Final = (
    "EPOCHS ARE LOST: records were written with marshal- headers, and this text cannot carry their "
    "values. Owners, refusals and findings may differ from what happened; replay the segment files "
    "themselves instead."
)


def _looks_like(head: FileHead) -> bool:
    lines = (line for line in head.first.split(b"\n") if line.strip())
    return _BEGINS.match(next(lines, b"")) is not None


def topic_partition_of(path: str) -> tuple[str, int] | None:
    """The topic and partition in the folder name of a segment's path."""
    parts = re.split(r"[/\\]", path)
    named = FOLDER.match(parts[-2]) if len(parts) > 1 else None
    if named is None or int(named["partition"]) > PARTITION_MAX:
        return None
    return named["topic"], int(named["partition"])


def _survey(file: File, asked: FileRequest) -> Survey:
    path = file.path
    begins_at: list[tuple[int, tuple[str, int] | None]] = []
    transactions = names = headers = lossy = printed = False
    silent = True
    at = 0
    with text.opened(path, file.compression) as lines:
        while block := lines.read(text.SCAN_BYTES):
            block += text.rest_of_line(lines, str(path))
            for heading in _DUMPING.finditer(block):
                named = heading[0].decode("utf-8", "replace").removeprefix("Dumping ")
                begins_at.append((at + heading.start(), topic_partition_of(named.strip())))
            transactions = transactions or _TRANSACTION in block
            silent = silent and b" headerKeys: [" not in block
            names = names or _SOME_HEADERS.search(block) is not None
            headers = headers or _MARSHAL_HEADERS.search(block) is not None
            lossy = lossy or _REPLACED in block
            printed = printed or b"| offset: " in block
            at += len(block)
    if not printed:
        raise UnreadableSource(
            f"{path}: it holds no record; kafka-dump-log prints them with --print-data-log"
            if at
            else f"{path}: the source is empty"
        )
    if not begins_at or begins_at[0][0]:
        begins_at.insert(0, (0, topic_partition_of(str(path.absolute()))))
    topics = frozenset(named[0] for _, named in begins_at if named)
    cannot = CannotProve(
        headers=EPOCHS_LOST if headers else _NO_HEADERS if names or silent else None,
        values=CANNOT_PROVE.values if lossy else None,
        committed=ABORTED if transactions else None,
    )
    notes = []
    if asked.topic and not topics:
        notes.append(NAMES_NO_TOPICS)
    chunks = tuple(_chunks(file, asked, begins_at, at))
    return Survey(chunks, cannot, tuple(notes), topics)


def _chunks(
    file: File, asked: FileRequest, begins_at: list[tuple[int, tuple[str, int] | None]], size: int
) -> Iterator[TextRange]:
    """Yield each heading's part of the text in pieces; a compressed text is one piece."""
    ends = [*(begin for begin, _ in begins_at[1:]), size]
    for (begin, topic_partition), end in zip(begins_at, ends, strict=True):
        if (
            asked.topic
            and topic_partition
            and topic_partition[0] != asked.topic
            and file.compression is None
        ):
            continue
        pieces = [(0, size)] if file.compression else text.ranges(file.path, begin, end)
        for first, last in pieces:
            yield TextRange(
                format=file.format,
                path=str(file.path),
                log=asked.log,
                records=about_records(last - first, packed=file.compression is not None),
                begin=first,
                end=last,
                compression=file.compression,
                topic=asked.topic,
                partition=topic_partition[1] if topic_partition else None,
                keys=asked.keys,
            )
        if file.compression:
            return


def _read(order: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    assert isinstance(chunk, TextRange)
    yield from batches_of(chunk, order, timed(_rows(chunk)))


def _rows(chunk: TextRange) -> Iterator[Cells]:
    partition, wanted = chunk.partition, True
    for lines, where in text.records(chunk, lambda line: _BEGINS.match(line) is not None):
        first = lines[0]
        if first.startswith(b"Dumping "):
            topic_partition = topic_partition_of(first[8:].decode("utf-8", "replace").strip())
            if topic_partition is not None:
                partition = topic_partition[1]
                wanted = chunk.topic is None or topic_partition[0] == chunk.topic
        elif first.startswith(b"| offset: "):
            if wanted and not _CONTROL.search(first):
                yield _row(b"\n".join(lines), partition, where)
        elif not _BEGINS.match(first) and first.strip():
            shown = first.decode("utf-8", "backslashreplace")
            raise UnreadableSource(f"{where()}: not a line of kafka-dump-log: {shown:.60}")


def _row(record: bytes, partition: int | None, where: Callable[[], str]) -> Cells:
    fields = _RECORD.match(record)
    if fields is None:
        shown = record.decode("utf-8", "backslashreplace")
        raise UnreadableSource(f"{where()}: not a record as kafka-dump-log prints it: {shown:.60}")
    if partition is None:
        raise UnreadableSource(
            f"{where()}: no partition is known: neither a heading 'Dumping .../TOPIC-PARTITION/"
            "....log' nor the file's folder says it"
        )
    offset, time = int(fields["offset"]), int(fields["time"] or NO_TIME)
    if offset > _INT64_MAX or not -_INT64_MAX - 1 <= time <= _INT64_MAX:
        raise UnreadableSource(f"{where()}: a number does not fit 64 bits")
    key, value = _contents(record[fields.end() :], int(fields["key"]), int(fields["value"]), where)
    return (partition, offset, time, _STAMPS.get(fields["stamp"], NOT_STATED), value, (), key)


def _contents(
    rest: bytes, key_size: int, size: int, where: Callable[[], str]
) -> tuple[bytes | None, bytes | None]:
    """Key and value of ` key: ... payload: ...`; if the key is garbled, cut at the first mark."""
    label, mark = b" key: ", b" payload: "
    keyed = key_size >= 0 and rest.startswith(label)
    at = len(label) + key_size if keyed else 0
    if size < 0:
        return rest[len(label) :] if keyed else None, None
    if not rest.startswith(mark, at):
        at = rest.find(mark)
    if at < 0:
        raise UnreadableSource(f"{where()}: the value is missing; print it with --print-data-log")
    return rest[len(label) : at] if keyed else None, rest[at + len(mark) :]


DUMP_LOG: Final = Format(
    "dump-log",
    "the text of `kafka-dump-log --print-data-log`",
    "a first line that begins with `Dumping`, `baseOffset:`, or a bar and `offset:`",
    True,
    CANNOT_PROVE,
    _looks_like,
    _survey,
    _read,
)
