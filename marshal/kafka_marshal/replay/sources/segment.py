"""A broker's segment files, `.log`: record batches of format v2, with any compression.

The only dump without loss. aiokafka reads the batches. This module iterates over them, since a
segment is longer than a buffer. The driver reads all headers of batches first, so that every task
gets whole batches, and a damaged end of the file is known before anything is folded.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import UNREADABLE_NAME, UnreadableSource
from kafka_marshal.replay.places import UriPath
from kafka_marshal.replay.sources import text
from kafka_marshal.replay.sources.columns import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NOT_STATED,
    Cells,
    batches_of,
)
from kafka_marshal.replay.sources.dump_log import ABORTED, topic_partition_of
from kafka_marshal.replay.sources.shapes import (
    UNPACKED_BYTES_MAX,
    Batches,
    CannotProve,
    Chunk,
    File,
    FileHead,
    FileRequest,
    Format,
    Survey,
)
from kafka_marshal.replay.sources.unpacking import codecs

_HEADER: Final = struct.Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, checksum, attributes, last offset's delta."""
_BEFORE_LENGTH_COUNTS: Final = 12
_LEAST: Final = 61
"""The size of a batch without records."""
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_INT64_MAX: Final = 2**63 - 1
_CODEC: Final = 0x07
_ATTRIBUTES: Final = 22
"""The offset of their low byte."""
_STAMPS: Final = {0: CREATE_TIME, 1: LOG_APPEND_TIME}

CANNOT_PROVE: Final = CannotProve(committed=ABORTED)
"""The .txnindex file next to it names aborted transactions, but is not read."""


@frozen
class _Walked:
    """The contents of the headers of a segment's batches."""

    pieces: tuple[tuple[int, int, int], ...]
    """For each piece: its begin and end, and its number of records, before compaction if there was
    one."""
    transactional: bool
    cut_at: int | None
    """The position of an incomplete last batch."""


def _looks_like(head: FileHead) -> bool:
    if head.compression is not None or len(head.first) < _LEAST:
        return False
    base, length, _, magic, _, attributes, delta = _HEADER.unpack_from(head.first)
    legacy = magic in (0, 1) and head.path.suffix == ".log"
    return bool(
        base >= 0 and length > 0 and (legacy or (magic == 2 and attributes < 128 and delta >= 0))
    )


def _walk(path: Path) -> _Walked:
    """Read the headers of all batches.

    Raises:
        UnreadableSource: something is not a batch of format v2; names the byte.
    """
    with text.opened(path, None) as file, _mapped(path, file) as data:
        at = begin = records = 0
        pieces: list[tuple[int, int, int]] = []
        transactional, cut_at = False, None
        while at < len(data):
            if len(data) - at < _LEAST:
                cut_at = at
                break
            _, length, _, magic, _, attributes, delta = _HEADER.unpack_from(data, at)
            if length == 0 and not any(data[at : at + (1 << 20)]):
                break  # preallocated, not yet written
            if magic in (0, 1):
                raise UnreadableSource(
                    f"{path}: byte {at}: a message of format v{magic}, older than Kafka 0.11: "
                    "only v2 is read"
                )
            if magic != 2 or length < _LEAST - _BEFORE_LENGTH_COUNTS:
                raise UnreadableSource(f"{path}: byte {at}: not a record batch")
            if at + _BEFORE_LENGTH_COUNTS + length > len(data):
                cut_at = at
                break
            transactional |= attributes & (_TRANSACTIONAL | _CONTROL) == _TRANSACTIONAL
            at += _BEFORE_LENGTH_COUNTS + length
            records += delta + 1
            if at - begin >= text.CHUNK_BYTES:
                pieces.append((begin, at, records))
                begin, records = at, 0
        if at > begin:
            pieces.append((begin, at, records))
        return _Walked(tuple(pieces), transactional, cut_at)


def _mapped(path: Path, file: IO[bytes]) -> AbstractContextManager[mmap.mmap | bytes]:
    """All bytes of a segment.

    An object in a store is read into memory, as brokers limit segments.
    """
    if isinstance(path, UriPath):
        return nullcontext(file.read())
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _survey(file: File, asked: FileRequest) -> Survey:
    path = file.path
    if file.compression is not None:
        raise UnreadableSource(f"{path}: a segment cannot be read compressed; unpack it")
    topic_partition = topic_partition_of(str(path.absolute()))
    if topic_partition is None:
        raise UnreadableSource(
            f"{path}: no partition is known: a segment lies in a folder named TOPIC-PARTITION, for "
            "example __marshal-3"
        )
    if text.size_of(path) == 0:
        raise UnreadableSource(f"{path}: the source is empty")
    topic, partition = topic_partition
    if asked.topic is not None and topic != asked.topic:
        return Survey((), CANNOT_PROVE, (), frozenset({topic}))
    walked = _walk(path)
    notes = []
    if walked.cut_at is not None:
        notes.append(
            f"the last batch of {path} is cut at byte {walked.cut_at}, as in a copy of a live "
            "file; it was left out."
        )
    chunks = tuple(
        Batches(
            format=file.format,
            path=str(path),
            log=asked.log,
            records=records,
            begin=begin,
            end=end,
            partition=partition,
            keys=asked.keys,
        )
        for begin, end, records in walked.pieces
    )
    cannot = CANNOT_PROVE if walked.transactional else CannotProve()
    return Survey(chunks, cannot, tuple(notes), frozenset({topic}))


def _read(order: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    assert isinstance(chunk, Batches)
    yield from batches_of(chunk, order, _rows(chunk))


def _rows(chunk: Batches) -> Iterator[Cells]:
    with text.opened(chunk.path, None) as file:
        file.seek(chunk.begin)
        at = chunk.begin
        while at < chunk.end:
            head = file.read(_BEFORE_LENGTH_COUNTS)
            length = int.from_bytes(head[8:], "big")
            yield from _of_batch(head + file.read(length), chunk, at)
            at += _BEFORE_LENGTH_COUNTS + length


def _of_batch(data: bytes, chunk: Batches, at: int) -> Iterator[Cells]:
    # Imported here because it loads slowly, and other dumps do not need it.
    from aiokafka.errors import KafkaError
    from aiokafka.record.default_records import DefaultRecordBatch

    where = f"{chunk.path}: byte {at}"
    try:
        batch = DefaultRecordBatch(data)
        if not batch.validate_crc():
            raise UnreadableSource(f"{where}: the checksum of a record batch is wrong")
        if batch.is_control_batch:
            return
        if batch.compression_type:
            data = _plain(data, batch.compression_type, where)
            batch = DefaultRecordBatch(data)
        stamp = _STAMPS.get(batch.timestamp_type, NOT_STATED)
        try:
            records = list(batch)
        except UnicodeDecodeError:
            records = list(_with_any_names(data))
        for record in records:
            if not 0 <= record.offset <= _INT64_MAX:
                raise UnreadableSource(f"{where}: offset {record.offset} is none of Kafka's")
            yield (
                chunk.partition,
                record.offset,
                record.timestamp,
                stamp,
                record.value,
                tuple(record.headers),
                record.key,
            )
    except UnreadableSource:
        raise
    except (KafkaError, ValueError, RuntimeError, OSError, struct.error, zlib.error) as error:
        raise UnreadableSource(f"{where}: not a readable record batch: {error}") from None


class _AnyNames(bytearray):
    """The records of a batch in which the name of a header may not be UTF-8."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        return _AnyNames(found) if isinstance(at, slice) else found

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        try:
            return bytes(self).decode(encoding, errors)
        except UnicodeDecodeError:
            return UNREADABLE_NAME


def _with_any_names(data: bytes) -> Iterator[Any]:
    """Yield the records of an uncompressed batch, with aiokafka's slow Python implementation."""
    from aiokafka.record.default_records import _DefaultRecordBatchPy

    batch = _DefaultRecordBatchPy(data)
    batch._buffer = _AnyNames(data)
    yield from batch


# --- unpacking ------------------------------------------------------------------------------------


def _plain(data: bytes, codec: int, where: str) -> bytes:
    """The batch with its records unpacked, within the limit, which aiokafka does not have.

    Raises:
        UnreadableSource: the records exceed the limit.
        ValueError, OSError, zlib.error: the batch is damaged.
    """
    if codec not in _UNPACKING:
        raise ValueError(f"no compression has the number {codec}")
    records = codecs.unpacked(_UNPACKING[codec], data[_LEAST:], UNPACKED_BYTES_MAX, where)
    attributes = data[_ATTRIBUTES] & ~_CODEC
    return data[:_ATTRIBUTES] + bytes([attributes]) + data[_ATTRIBUTES + 1 : _LEAST] + records


_UNPACKING: Final[Mapping[int, codecs.Unpacking]] = {
    1: codecs.gzip,
    2: codecs.snappy,
    3: codecs.stream("lz4"),
    4: codecs.stream("zstd"),
}
"""By codec number in a batch's attributes."""


SEGMENT: Final = Format(
    "segment",
    "a broker's segment files, `TOPIC-PARTITION/*.log`, in any compression",
    "the header of a record batch in its first bytes",
    True,
    CANNOT_PROVE,
    _looks_like,
    _survey,
    _read,
)
