"""Encodes and decodes messages and headers, and maps topics to coordinating partitions.

Byte-compatible with the original (`TYPE/version/unix_s/instance/client/group/topic/partition[/n]`),
with one deliberate difference: a partition outside 0..2^31-1 is malformed, because it crashed every
reader of the original. This module does not know the effect of a message on a claim.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from kafka_marshal.core import wire
from kafka_marshal.core.messages import NO_HEADERS, NOT_DECIMAL, Headers, Message

PARTITION_MAX: Final = 2**31 - 1
"""The highest partition Kafka can name."""

_INT64_MAX: Final = 2**63 - 1
_INT64_MIN: Final = -(2**63)
_BASE_FIELDS: Final = 1 + len(wire.TIME) + len(wire.ADDRESS)
Layouts: TypeAlias = Mapping[str, tuple[Callable[..., Message], str | None, bool]]
"""By a message's name: its class, the name of its number, and whether it names a claim."""
LAYOUTS: Final[Layouts] = {
    layout.name: (layout.message, layout.number, layout.keyed) for layout in wire.MESSAGES
}
"""As tuples: `decode` unpacks one faster than it reads three attributes of a `Layout`."""
HEADER_FIELDS: Final = {header.name: header.field for header in wire.HEADERS}
_FIELDS: Final = tuple(HEADER_FIELDS.values())
_AMENDMENTS: Final = {header.field: header.least for header in wire.HEADERS if header.amends}


class MalformedRecord(ValueError):
    """A record's value is not a message: `field` and `reason` tell why."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"malformed {field}: {reason}")
        self.field = field
        """The message's field (`version`, `partition` ...), or `value`, `length`, `type`."""
        self.reason = reason


class UnsendableMessage(ValueError):
    """A message that would not decode to itself: `field` names the part that is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"cannot encode {field}: {reason}")
        self.field = field
        self.reason = reason


def decode(value: bytes | None, layouts: Layouts = LAYOUTS) -> Message:
    """Decode the message in a record's value.

    `layouts` is for a reader that knows more messages (`range_codec`). For every other reader those
    are malformed, as they are for earlier versions.

    As tolerant as the original with well-formed text: any version, a sign before a number, empty
    ids, negative offsets. Ids that are not UTF-8 survive a round trip (surrogate escapes).

    Raises:
        MalformedRecord: anything else, naming the field; no other exception, whatever the bytes.

    >>> decode(b"Heartbeat/1/1700000000/i1/c1/g/events/3/500").offset
    500
    >>> decode(b"Heartbeat/1/1700000000/i1/c1/g/events/-3/500")
    Traceback (most recent call last):
    kafka_marshal.codec.MalformedRecord: malformed partition: -3 is not in 0..2147483647
    """
    if not value:
        raise MalformedRecord("value", "null" if value is None else "empty")
    parts = value.decode("utf-8", "surrogateescape").split("/")
    if len(parts) < _BASE_FIELDS:
        raise MalformedRecord("length", f"{len(parts)} fields, at least {_BASE_FIELDS} are needed")
    kind, version_text, unix_text, instance, client, group, topic, partition_text, *rest = parts
    version = _integer(version_text, "version")
    partition = _integer(partition_text, "partition")
    unix_s = _integer(unix_text, "unix_s")
    if not 0 <= partition <= PARTITION_MAX:
        raise MalformedRecord("partition", f"{partition} is not in 0..{PARTITION_MAX}")

    layout = layouts.get(kind)
    if layout is None:
        raise MalformedRecord("type", f"{kind[:40]!r} is no message of the protocol")
    message, number, keyed = layout
    if number is None:
        _expect(rest, 0)
    else:
        _expect(rest, 1)
    if not keyed:
        if topic:
            raise MalformedRecord("topic", f"a {kind} names no topic")
        if partition:
            raise MalformedRecord("partition", f"a {kind} has partition 0")
    if number is None:
        return message(version, unix_s, instance, client, group, topic, partition)
    said = _integer(rest[0], number)
    return message(version, unix_s, instance, client, group, topic, partition, said)


def _expect(rest: list[str], count: int) -> None:
    if len(rest) != count:
        raise MalformedRecord(
            "length", f"{_BASE_FIELDS + len(rest)} fields, not {_BASE_FIELDS + count}"
        )


def _integer(text: str, field: str) -> int:
    """A 64-bit integer as Go's strconv reads it: an optional sign and ASCII digits."""
    if text.isdecimal() and len(text) < 19 and text.isascii():
        return int(text)  # nearly always
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isdecimal() and digits.isascii()):
        raise MalformedRecord(field, f"{text[:40]!r} is not an integer")
    significant = digits if len(digits) < 20 else digits.lstrip("0")
    if len(significant) > 19:
        raise MalformedRecord(field, f"{text[:40]!r} does not fit 64 bits")
    number = int(significant or "0")
    if text[0] == "-":
        number = -number
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise MalformedRecord(field, f"{text[:40]!r} does not fit 64 bits")
    return number


def encode(message: Message, layouts: Layouts = LAYOUTS) -> bytes:
    """The record value of a message, byte for byte as the original writes it.

    `layouts` as in `decode`.

    Raises:
        UnsendableMessage: an id or topic contains '/', which would corrupt the message, or a field
            would not decode to itself.

    >>> encode(decode(b"Heartbeat/+1/1700000000/i1/c1/g/events/3/500"))
    b'Heartbeat/1/1700000000/i1/c1/g/events/3/500'
    """
    for field in ("instance_id", "client_id", "group_id", "topic"):
        if "/" in getattr(message, field):
            raise UnsendableMessage(field, "'/' separates fields and cannot stand in one")
    name = type(message).__name__
    _, number, keyed = layouts[name]
    if not keyed and (message.topic or message.partition):
        raise UnsendableMessage("topic", f"a {name} has neither topic nor partition")
    tail = "" if number is None else f"/{getattr(message, number)}"
    text = (
        f"{name}/{message.version}/{message.unix_s}/{message.instance_id}/"
        f"{message.client_id}/{message.group_id}/{message.topic}/{message.partition}{tail}"
    )
    try:
        value = text.encode("utf-8", "surrogateescape")
        if decode(value, layouts) != message:
            raise UnsendableMessage("message", "it would decode to another message")
    except UnicodeEncodeError as error:
        raise UnsendableMessage("message", f"an id is not text: {error.reason}") from None
    except MalformedRecord as error:
        raise UnsendableMessage(error.field, error.reason) from None
    return value


def decode_headers(pairs: Iterable[tuple[str, bytes | str | None]]) -> Headers:
    """Decode the `marshal-*` headers of a record; if one occurs twice, the last counts.

    A value that is not ASCII decimal becomes `NOT_DECIMAL`, which never matches. An invalid
    amendment counts as absent, because older versions do not look at it and must come to the same
    verdict (`malformed_amendments` names it). Never raises.
    """
    present = False
    found: dict[str, int | None] = {}
    for name, value in pairs:
        if name.startswith(wire.HEADER_PREFIX):
            present = True
            field = HEADER_FIELDS.get(name)
            if field is not None:
                number = decimal(value)
                found[field] = number if field not in _AMENDMENTS else _amendment(field, number)
    if not present:
        return NO_HEADERS
    return Headers(True, *map(found.get, _FIELDS))


def malformed_amendments(pairs: Iterable[tuple[str, bytes | str | None]]) -> tuple[str, ...]:
    """The names of a record's amendments that `decode_headers` counts as absent, sorted.

    >>> malformed_amendments([("marshal-epoch", b"x"), ("marshal-interval", b"0")])
    ('marshal-interval',)
    """
    last = {name: value for name, value in pairs if HEADER_FIELDS.get(name) in _AMENDMENTS}
    return tuple(
        name
        for name, value in sorted(last.items())
        if _amendment(HEADER_FIELDS[name], decimal(value)) is None
    )


def _amendment(field: str, number: int) -> int | None:
    return number if _AMENDMENTS[field] <= number <= _INT64_MAX else None


def decimal(value: bytes | str | None) -> int:
    """The number in a header; `NOT_DECIMAL` if it is not ASCII decimal."""
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if value is None or not (value.isdecimal() and value.isascii()):
        return NOT_DECIMAL
    significant = value.lstrip("0") or "0"
    # All numbers beyond the largest offset are equivalent.
    return int(significant) if len(significant) < 20 else _INT64_MAX + 1


def encode_headers(headers: Headers) -> list[tuple[str, bytes]]:
    """Encode headers, so that `decode_headers` returns an equal value.

    If headers are present but all fields are absent, this writes `marshal-version`: our
    ClaimingPartition must differ from the original's (R1c, R2) even if it has nothing to add.

    Raises:
        UnsendableMessage: a header is negative, or `NOT_DECIMAL`.
    """
    pairs = []
    for name, field in HEADER_FIELDS.items():
        number = getattr(headers, field)
        if number is not None:
            if number < 0:
                raise UnsendableMessage(name, f"{number} is not an offset")
            pairs.append((name, str(number).encode()))
    if headers.present and not pairs:
        pairs.append(("marshal-version", b"1"))
    return pairs


def coordinating_partition(topic: str, partitions: int) -> int:
    """The coordinating partition of a data topic, which holds all records of its claims.

    The first 8 bytes of md5(topic) as a little-endian integer, modulo the coordination topic's
    partition count; of the topic alone, as the original does.

    Raises:
        ValueError: `partitions` is not positive.

    >>> coordinating_partition("events", 64)
    22
    """
    if partitions <= 0:
        raise ValueError(f"partitions must be positive, not {partitions}")
    digest = hashlib.md5(topic.encode("utf-8", "surrogateescape"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "little") % partitions
