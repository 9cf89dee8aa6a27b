"""Records as a dump contains them, before anything is decoded or checked.

This module knows captures: JSON lines, one record of the coordination topic each. It knows no other
kind of dump (`replay.sources` does), nor Spark, nor the effect of a record.
"""

from __future__ import annotations

import enum
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from kafka_marshal.codec import PARTITION_MAX, decode, decode_headers
from kafka_marshal.core.messages import ClaimingRange, Record
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import LogEntry
from kafka_marshal.core.values import value
from kafka_marshal.markup import printable
from kafka_marshal.range_codec import (
    checkpoint_of,
    decode_claiming_range_headers,
    decode_range,
    decode_range_headers,
)

HeaderPairs: TypeAlias = tuple[tuple[str, bytes | None], ...]
UNREADABLE_NAME: Final = "\ufffd"
"""Replaces the name of a header that is not UTF-8. Such a header affects no decision."""


class TimestampType(enum.Enum):
    """The source of a record's timestamp. Only the broker's is the same fact for all readers."""

    CREATE_TIME = "create_time"
    """The producer's clock."""
    LOG_APPEND_TIME = "log_append_time"
    """The broker's clock, as the protocol requires for the coordination topic."""
    NOT_STATED = "not_stated"
    """The dump does not contain it."""

    @classmethod
    def of_kafka_client(cls, number: object) -> TimestampType:
        """From the number that Kafka's clients use: 1 CreateTime, 2 LogAppendTime."""
        kinds: dict[object, TimestampType] = {1: cls.CREATE_TIME, 2: cls.LOG_APPEND_TIME}
        return kinds.get(number, cls.NOT_STATED)


@value
class RawRecord:
    """One record of the coordination topic, its value not yet decoded."""

    partition: int
    """Coordinating partition."""
    offset: int
    timestamp_ms: int
    """Unix milliseconds."""
    value: bytes | None
    headers: HeaderPairs = ()
    timestamp_type: TimestampType = TimestampType.NOT_STATED
    key: bytes | None = None
    """None: the record has no key, or keys were not requested. A claim's record needs none."""

    def decoded(self) -> Record:
        """The record with its message.

        Raises:
            MalformedRecord: the value is not a message.
        """
        return Record(
            self.partition,
            self.offset,
            self.timestamp_ms,
            decode(self.value),
            decode_headers(self.headers),
        )

    def decoded_with_ranges(self) -> RangesRecord:
        """The record as a reader of ranges decodes it.

        Raises:
            MalformedRecord: the value is not a message; of a ClaimingRange the last field is `n`.
        """
        message = decode_range(self.value)
        if isinstance(message, ClaimingRange):
            headers, range_headers = decode_claiming_range_headers(self.headers)
        else:
            headers = decode_headers(self.headers)
            range_headers = decode_range_headers(self.headers)
        return RangesRecord(
            self.partition, self.offset, self.timestamp_ms, message, headers, range_headers
        )

    def log_entry(self) -> LogEntry:
        """The record for a reader that began in the middle: with its checkpoint, if it has one.

        Raises:
            MalformedRecord: the value is not a message.
        """
        record = self.decoded_with_ranges()
        return LogEntry(record, checkpoint_of(record.message, self.headers))


class UnreadableSource(Exception):
    """A source cannot be read; the message names the file, and the line if there is one.

    The message is one printable line, whatever the file contains, or a library reports.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message.strip()))


def refuse_pipe(path: Path) -> None:
    """Refuse what is no regular file, for readers that open it more than once.

    Call it before the file is opened: opening a named pipe waits until somebody writes to it.

    Raises:
        UnreadableSource: it is a pipe, a socket or a device.
        OSError: it does not exist, or cannot be examined.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise UnreadableSource(
            f"{path}: it is a {kind}, and would be read more than once: write it to a file"
        )


def read_capture(path: Path) -> Iterator[RawRecord]:
    """The records of one JSONL capture, in the order of its lines. Blank lines are skipped.

    Raises:
        UnreadableSource: the file cannot be opened, a line is not a record, or there is no record.
    """
    found = False
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    found = True
                    yield parse_line(line, f"{path}:{number}")
    except OSError as error:
        raise UnreadableSource(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"{path}: not UTF-8 text (byte {error.start})") from None
    if not found:
        raise UnreadableSource(f"{path}: the source is empty")


def capture_line(raw: RawRecord) -> str:
    """One line of a capture, as `parse_line` reads it back: every byte, whatever it is."""
    fields: dict[str, object] = {
        "partition": raw.partition,
        "offset": raw.offset,
        "timestamp_ms": raw.timestamp_ms,
        "value": _as_text(raw.value),
    }
    number = {TimestampType.CREATE_TIME: 1, TimestampType.LOG_APPEND_TIME: 2}
    if raw.timestamp_type in number:
        fields["timestamp_type"] = number[raw.timestamp_type]
    if raw.headers:
        fields["headers"] = [[name, _as_text(value)] for name, value in raw.headers]
    if raw.key is not None:
        fields["key"] = _as_text(raw.key)
    return json.dumps(fields)


def _as_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "surrogateescape")


def parse_line(line: str, where: str) -> RawRecord:
    """Parse one line of a capture; `where` names it in errors.

    Raises:
        UnreadableSource: it is not JSON, or a field is missing or has the wrong type.
    """
    return record_of(fields_of(line, where), where)


def fields_of(line: str, where: str) -> dict[str, object]:
    """Parse a line as a JSON object; `where` names it in errors.

    Raises:
        UnreadableSource: it is not a JSON object.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UnreadableSource(f"{where}: not a JSON object: {error}") from None
    if not isinstance(fields, dict):
        raise UnreadableSource(f"{where}: not a JSON object")
    return fields


def record_of(fields: dict[str, object], where: str) -> RawRecord:
    """Make the record from the fields of one line; `where` names the line in errors.

    Raises:
        UnreadableSource: a field is missing or has the wrong type.
    """
    if "state" in fields:
        raise UnreadableSource(f"{where}: a row of a trace, not a record of a log")
    return RawRecord(
        partition=_integer(fields, "partition", where),
        offset=_integer(fields, "offset", where),
        timestamp_ms=_integer(fields, "timestamp_ms", where),
        value=value_of(fields, where),
        headers=headers_of(fields.get("headers"), where),
        timestamp_type=TimestampType.of_kafka_client(_hashable(fields.get("timestamp_type"))),
        key=_text_of(fields, "key", where) if "key" in fields else None,
    )


def _hashable(number: object) -> object:
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _integer(fields: dict[str, object], name: str, where: str) -> int:
    if name not in fields:
        raise UnreadableSource(f"{where}: field {name!r} is missing")
    number = fields[name]
    if not isinstance(number, int) or isinstance(number, bool):
        raise UnreadableSource(f"{where}: field {name!r} is not an integer: {number!r:.60}")
    if name != "timestamp_ms" and number < 0:
        raise UnreadableSource(f"{where}: field {name!r} is negative: {number}")
    if name == "partition" and number > PARTITION_MAX:
        raise UnreadableSource(f"{where}: field 'partition' is not in 0..{PARTITION_MAX}: {number}")
    if abs(number) >= 2**63:
        raise UnreadableSource(f"{where}: field {name!r} does not fit 64 bits: {number!r:.60}")
    return number


def value_of(fields: dict[str, object], where: str) -> bytes | None:
    """The field `value`, as bytes."""
    if "value" not in fields:
        raise UnreadableSource(f"{where}: field 'value' is missing")
    return _text_of(fields, "value", where)


def _text_of(fields: dict[str, object], name: str, where: str) -> bytes | None:
    text = fields[name]
    if text is None:
        return None
    if not isinstance(text, str):
        raise UnreadableSource(f"{where}: field {name!r} is neither text nor null: {text!r:.60}")
    return _bytes(text)


def _bytes(text: str) -> bytes:
    """The bytes of a text: surrogate escapes are bytes that were not UTF-8."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def headers_of(headers: object, where: str) -> HeaderPairs:
    """Headers as a map, or as a list of pairs (a name may occur twice)."""
    if headers is None:
        return ()
    if isinstance(headers, dict):
        pairs = list(headers.items())
    elif isinstance(headers, list) and all(isinstance(p, list) and len(p) == 2 for p in headers):
        pairs = [(name, value) for name, value in headers]
    else:
        raise UnreadableSource(f"{where}: field 'headers' is neither a map nor a list of pairs")
    for name, text in pairs:
        if not isinstance(name, str) or not (text is None or isinstance(text, str)):
            raise UnreadableSource(f"{where}: header {name!r:.60} is not text: {text!r:.60}")
    return tuple((name, None if text is None else _bytes(text)) for name, text in pairs)
