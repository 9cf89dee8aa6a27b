"""A whole record of `__marshal_groups`: its key is the group, its headers fence the event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kafka_marshal.codec import MalformedRecord, UnsendableMessage
from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    EventRecord,
    GroupSnapshot,
    UnknownEvent,
)
from kafka_marshal.core.groups.invariants import numbers_below
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.group_codec.events import decode_event, encode_event
from kafka_marshal.group_codec.forms import INT64_MAX

EPOCH_HEADER: Final = "marshal-epoch"
NUMBER_HEADER: Final = "marshal-number"

Pairs = Iterable[tuple[str, bytes | str | None]]


def decode_record(
    partition: int,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: Pairs,
) -> EventRecord:
    """Decode a record of a Kafka client for the reducer.

    Raises:
        MalformedRecord: key or value are not an event's, naming the field; no other exception,
            whatever the bytes. Headers that are not numbers are no error: `step` refuses the
            event.
    """
    event = decode_event(value)
    epoch, number = decode_headers(headers)
    group = _group(event, key)
    is_odd = number == NOT_DECIMAL  # refused in any case
    if isinstance(event, GroupSnapshot) and not (is_odd or numbers_below(event.state, number - 1)):
        raise MalformedRecord("state", "it has a number that is not below its own")
    return EventRecord(partition, offset, timestamp_ms, event, group, epoch, number)


def _group(event: Event | UnknownEvent, key: bytes | None) -> str:
    """The group that a record is about, by its key."""
    if isinstance(event, UnknownEvent):
        return "" if key is None else key.decode(errors="replace")
    if isinstance(event, ControllerStarted | ControllershipSnapshot):
        if key is not None:
            raise MalformedRecord("key", "an event of the controllership has none")
        return ""
    if not key:
        raise MalformedRecord("key", "an event of a group needs its id")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise MalformedRecord("key", "it is not UTF-8") from None


def decode_headers(pairs: Pairs) -> tuple[int, int]:
    """Epoch and number among a record's headers; if one occurs twice, the last counts.

    NOT_DECIMAL stands for one that is absent or not in the form of `encode_headers`. Never raises.

    >>> decode_headers([("marshal-epoch", b"7"), ("marshal-number", b"08")])
    (7, -2)
    """
    found: dict[str, int] = {}
    for name, text in pairs:
        if name in (EPOCH_HEADER, NUMBER_HEADER):
            found[name] = _decimal(text)
    return found.get(EPOCH_HEADER, NOT_DECIMAL), found.get(NUMBER_HEADER, NOT_DECIMAL)


def _decimal(text: bytes | str | None) -> int:
    """A number of 64 bits in canonical form: no sign, and no leading 0."""
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    if text is None or not (text.isdecimal() and text.isascii()) or len(text) > 19:
        return NOT_DECIMAL
    number = int(text)
    return number if str(number) == text and number <= INT64_MAX else NOT_DECIMAL


def encode_record(record: EventRecord) -> tuple[bytes | None, bytes, list[tuple[str, bytes]]]:
    """Key, value and headers of a record to send; its offset is ignored.

    Raises:
        UnsendableMessage: it would not decode to itself; `field` names the place.
    """
    event = record.event
    if isinstance(event, UnknownEvent):
        raise UnsendableMessage("event", f"{event.name} of version {event.version} is not known")
    value = encode_event(event)
    try:
        key = record.group.encode() or None
    except UnicodeEncodeError as error:
        raise UnsendableMessage("key", f"it is no text: {error.reason}") from None
    headers = encode_headers(record.epoch, record.number)
    if isinstance(event, ControllerStarted):
        headers = []
    try:
        read = decode_record(
            record.partition, record.offset, record.timestamp_ms, key, value, headers
        )
    except MalformedRecord as error:
        raise UnsendableMessage(error.field, error.reason) from None
    if read != record:
        raise UnsendableMessage("headers", "they would decode to others")
    return key, value, headers


def encode_headers(epoch: int, number: int) -> list[tuple[str, bytes]]:
    """The headers that fence an event, as `decode_headers` reads them."""
    return [(EPOCH_HEADER, str(epoch).encode()), (NUMBER_HEADER, str(number).encode())]
