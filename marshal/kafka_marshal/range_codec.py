"""Encodes and decodes messages for readers that know ranges, and range checkpoints.

It is separate from `codec`. Claims depend on what `codec` decodes, and there all versions must
agree. So for every other reader a ClaimingRange is malformed, as for the original and older
versions. A caller opts in by the function that it calls: code that calls `decode` does not change.

This module does not know the effect of a ClaimingRange.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NoReturn, cast

import attrs

from kafka_marshal import codec
from kafka_marshal.codec import MalformedRecord, UnsendableMessage
from kafka_marshal.core import wire
from kafka_marshal.core.messages import (
    NO_HEADERS,
    NOT_DECIMAL,
    ClaimingRange,
    Headers,
    Heartbeat,
    Message,
)
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders, RangesMessage
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.state import OFFSET_MAX, Interval, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.state import Claim

_LAYOUTS: Final[codec.Layouts] = {
    **codec.LAYOUTS,
    ClaimingRange.__name__: (cast("Callable[..., Message]", ClaimingRange), "count", True),
}
CLAIMING_RANGE: Final = f"{ClaimingRange.__name__}/".encode()
"""How the value of every ClaimingRange begins."""
RANGE_HEADER_FIELDS: Final = {header.name: header.field for header in wire.RANGE_HEADERS}
_OF_CLAIMING_RANGE: Final = {*codec.HEADER_FIELDS, *RANGE_HEADER_FIELDS}
_PRESENT: Final = Headers(present=True)


def decode_range(value: bytes | None) -> RangesMessage:
    """The message in a record's value, ClaimingRange among them.

    As tolerant as `codec.decode`, which refuses this one.

    Raises:
        MalformedRecord: anything else, naming the field; no other exception, whatever the bytes.

    >>> decode_range(b"ClaimingRange/1/1700000000/i1/c1/g/events/3/500").count
    500
    >>> codec.decode(b"ClaimingRange/1/1700000000/i1/c1/g/events/3/500")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    kafka_marshal.codec.MalformedRecord: malformed type: 'ClaimingRange' is no message ...
    """
    try:
        return codec.decode(value, _LAYOUTS)
    except MalformedRecord as error:
        if error.field == "count":  # a field of a class; the protocol calls it `n`
            raise MalformedRecord("n", error.reason) from None
        raise


def is_claiming_range(value: bytes | None) -> bool:
    """Whether the value is a ClaimingRange, which is not damaged for readers without ranges."""
    if value is None or not value.startswith(CLAIMING_RANGE):
        return False
    try:
        decode_range(value)
    except MalformedRecord:
        return False
    return True


def encode_range(message: RangesMessage) -> bytes:
    """The record value of a message, ClaimingRange among them.

    Raises:
        UnsendableMessage: as `codec.encode`.

    >>> encode_range(decode_range(b"ClaimingRange/1/1700000000/i1/c1/g/events/3/+500"))
    b'ClaimingRange/1/1700000000/i1/c1/g/events/3/500'
    """
    return codec.encode(cast("Message", message), _LAYOUTS)


def decode_range_headers(pairs: Iterable[tuple[str, bytes | str | None]]) -> RangeHeaders:
    """The headers of ranges among a record's headers; if one occurs twice, the last counts.

    A value that is not ASCII decimal, or above every possible offset, becomes `NOT_DECIMAL`. Its
    effect depends on the message: see `RangeHeaders`. Never raises.
    """
    found: dict[str, int] = {}
    for name, text in pairs:
        field = RANGE_HEADER_FIELDS.get(name)
        if field is not None:
            found[field] = _offset(text)
    return RangeHeaders(**found) if found else NO_RANGE_HEADERS


def decode_claiming_range_headers(
    pairs: Collection[tuple[str, bytes | str | None]],
) -> tuple[Headers, RangeHeaders]:
    """Both parts of a ClaimingRange's headers, in one pass; of repeated ones the last counts.

    No older version reads the message, so every possible header is checked, including the
    amendments. A value that is not decimal for `decode_range_headers` is not decimal here. Never
    raises.

    >>> pairs = [("marshal-seen", b"7"), ("marshal-interval", b"x"), ("marshal-keep", b"4")]
    >>> headers, range_headers = decode_claiming_range_headers(pairs)
    >>> headers.seen, headers.interval_ms == NOT_DECIMAL, range_headers.keep
    (7, True, 4)
    """
    found: dict[str, int | None] = {
        name: _offset(text) for name, text in pairs if name in _OF_CLAIMING_RANGE
    }
    if not found:
        present = any(name.startswith(wire.HEADER_PREFIX) for name, _ in pairs)
        return _PRESENT if present else NO_HEADERS, NO_RANGE_HEADERS
    if found.get("marshal-interval") == 0:
        found["marshal-interval"] = None  # decimal, and no interval
    headers = Headers(True, *map(found.get, codec.HEADER_FIELDS))
    return headers, RangeHeaders(*map(found.get, RANGE_HEADER_FIELDS))


def encode_range_headers(
    headers: Headers, range_headers: RangeHeaders, checkpoint: FoldedState | None = None
) -> list[tuple[str, bytes]]:
    """The record headers for both arguments, as both decoders read them, and the checkpoint.

    Raises:
        UnsendableMessage: a header is negative, `NOT_DECIMAL` or above every offset. Or there are
            headers of ranges while `headers` states that there are none, or has another `done`.
            Or `encode_checkpoint` refuses the checkpoint.
    """
    said = attrs.asdict(range_headers)
    if not headers.present and any(number is not None for number in said.values()):
        raise UnsendableMessage("present", "a record with a header of ranges has headers")
    if range_headers.done is not None and headers.done not in (None, range_headers.done):
        raise UnsendableMessage("marshal-done", f"{headers.done} and {range_headers.done}")
    more: dict[str, bytes] = {}
    for name, field in RANGE_HEADER_FIELDS.items():
        number = said[field]
        if number is not None:
            if not 0 <= number <= OFFSET_MAX:
                raise UnsendableMessage(name, f"{number} is not an offset")
            more[name] = str(number).encode()
    pairs = dict(codec.encode_headers(headers))
    if more and "marshal-version" in pairs:
        del pairs["marshal-version"]  # it is there to be some header, and now others are
    if checkpoint is not None:
        more[wire.CHECKPOINT_HEADER] = encode_checkpoint(checkpoint)
    return list((pairs | more).items())


def _offset(text: bytes | str | None) -> int:
    if isinstance(text, bytes) and len(text) < 19 and text.isdigit():
        return int(text)  # nearly always
    number = codec.decimal(text)
    return number if number <= OFFSET_MAX else NOT_DECIMAL


# --- the checkpoint -------------------------------------------------------------------------------

CHECKPOINT_VERSION: Final = "1"
_CLAIM: Final = tuple(f.name for f in attrs.fields(Claim) if f.name != "last_release_ms")
"""The fields of a claim in a checkpoint: all that the fenced rules use."""
_TEXTS: Final = ("owner_instance", "owner_client", "pauser")
_FLAGS: Final = ("won_with_headers", "position_set")
_MAY_BE_NOTHING: Final = ("epoch", "last_heartbeat_ms", "paused_until_ms", "window")
_RANGES: Final = ("window", "frontier", "clock_ms")


def checkpoint_of(
    message: RangesMessage, pairs: Iterable[tuple[str, bytes | str | None]]
) -> FoldedState | None:
    """The checkpoint among a record's headers; if it occurs twice, the last counts.

    None: there is none, it is invalid, or the message is no heartbeat. Never raises.
    """
    held = [text for name, text in pairs if name == wire.CHECKPOINT_HEADER]
    if not held or not isinstance(message, Heartbeat):
        return None
    try:
        return decode_checkpoint(held[-1])
    except MalformedRecord:
        return None


def encode_checkpoint(checkpoint: FoldedState) -> bytes:
    """The value of `marshal-ranges-at`.

        1/CLAIM.../window/frontier/clock/ALIVE/instance/ms.../OPEN/id/from/length/holder.../POOL/...

    Fields are separated by '/', which occurs in no id. An absent number is empty, and so is an
    absent id; an id that is present begins with '='. Words in capitals are counts. A holder is the
    index of its instance in the list of live ones, and an interval of the pool is its start and its
    length. That is some 35 bytes for a range and 50 for an instance.

    Raises:
        UnsendableMessage: it would not decode to itself, as a fold's state does.
    """
    try:
        encoded = checkpoint_as_written(checkpoint)
        if decode_checkpoint(encoded) != checkpoint:
            raise UnsendableMessage("checkpoint", "it would decode to another one")
    except UnicodeEncodeError as error:
        raise UnsendableMessage("checkpoint", f"an id is not text: {error.reason}") from None
    except MalformedRecord as error:
        raise UnsendableMessage(error.field, error.reason) from None
    return encoded


def checkpoint_as_written(checkpoint: FoldedState) -> bytes:
    """`encode_checkpoint` without checks, for a state that a fold made.

    Raises:
        UnsendableMessage: an instance that was never alive holds a range.
        UnicodeEncodeError: an id is not text.
    """
    claim, ranges = checkpoint.claim, checkpoint.ranges
    place = {sign.instance: str(number) for number, sign in enumerate(ranges.alive)}
    try:
        holders = [place[each.instance] for each in ranges.open]
    except KeyError as error:
        raise UnsendableMessage("open", f"{error} holds a range and was never alive") from None
    parts = [CHECKPOINT_VERSION]
    parts += [_text(name, getattr(claim, name)) for name in _CLAIM]
    parts += [_text(name, getattr(ranges, name)) for name in _RANGES]
    parts.append(str(len(ranges.alive)))
    for sign in ranges.alive:
        parts += [sign.instance, str(sign.ms)]
    parts.append(str(len(ranges.open)))
    for each, holder in zip(ranges.open, holders, strict=True):
        parts += [str(each.id), str(each.from_), str(each.to - each.from_), holder]
    parts.append(str(len(ranges.pool)))
    for interval in ranges.pool:
        parts += [str(interval.from_), str(interval.to - interval.from_)]
    return "/".join(parts).encode("utf-8", "surrogateescape")


def _text(name: str, said: Any) -> str:
    if name in _FLAGS:
        return str(int(said))
    if said is None:
        return ""
    return f"={said}" if name in _TEXTS else str(said)


def decode_checkpoint(value: bytes | str | None) -> FoldedState:
    """A checkpoint as `encode_checkpoint` writes it, and no other spelling of it.

    Raises:
        MalformedRecord: it is anything else; no other exception, whatever the bytes.
    """
    if value is None:
        raise MalformedRecord(wire.CHECKPOINT_HEADER, "null")
    text = value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
    parts = _Parts(iter(text.split("/")))
    version = parts.next()
    if version != CHECKPOINT_VERSION:
        parts.malformed(f"version {version[:40]!r}, not {CHECKPOINT_VERSION}")
    claim = Claim(**{name: _FIELDS[name](parts) for name in _CLAIM})
    begun: Mapping[str, Any] = {name: _FIELDS[name](parts) for name in _RANGES}
    alive = tuple([SignOfLife(parts.next(), parts.number()) for _ in range(parts.count())])
    open_ = tuple([_open_range(parts, alive) for _ in range(parts.count())])
    pool = tuple([Interval(*_bounds(parts)) for _ in range(parts.count())])
    parts.end()
    names = [sign.instance for sign in alive]
    if names != sorted(set(names)):
        parts.malformed("instances are not in order")
    ids = [each.id for each in open_]
    if ids != sorted(set(ids)):
        parts.malformed("ranges are not in order")
    if any(one.to > other.from_ for one, other in itertools.pairwise(pool)):
        parts.malformed("the pool is not in order")
    return FoldedState(claim, Ranges(**begun, open=open_, pool=pool, alive=alive))


class _Parts:
    """The fields of a checkpoint, one after the other."""

    def __init__(self, fields: Iterator[str]) -> None:
        self._fields = fields

    def malformed(self, reason: str) -> NoReturn:
        raise MalformedRecord(wire.CHECKPOINT_HEADER, reason)

    def next(self) -> str:
        field = next(self._fields, None)
        if field is None:
            self.malformed("it is cut short")
        return field

    def end(self) -> None:
        if next(self._fields, None) is not None:
            self.malformed("it goes on behind its end")

    def number(self, least: int = -1) -> int:
        text = self.next()
        digits = text.removeprefix("-")
        is_short = digits.isdecimal() and digits.isascii() and len(digits) < 20
        number = int(text) if is_short else None
        if number is None or str(number) != text or not least <= number <= OFFSET_MAX:
            self.malformed(f"{text[:40]!r} is no number that can stand here")
        return number

    def count(self) -> int:
        """Read a count. A wrong one is detected by the fields, one at a time."""
        return self.number(least=0)

    def optional(self) -> int | None:
        text = self.next()
        if not text:
            return None
        return _Parts(iter([text])).number()

    def flag(self) -> bool:
        text = self.next()
        if text not in ("0", "1"):
            self.malformed(f"{text[:40]!r} is neither 0 nor 1")
        return text == "1"

    def id(self) -> str | None:
        text = self.next()
        if not text:
            return None
        if not text.startswith("="):
            self.malformed(f"{text[:40]!r} is no id")
        return text[1:]


def _bounds(parts: _Parts) -> tuple[int, int]:
    """The begin and end of an interval, which is not empty and ends at an offset."""
    from_ = parts.number(least=0)
    to = from_ + parts.number(least=1)
    if to > OFFSET_MAX:
        parts.malformed(f"{to} is not an offset")
    return from_, to


def _open_range(parts: _Parts, alive: tuple[SignOfLife, ...]) -> OpenRange:
    id_ = parts.number(least=0)
    bounds = _bounds(parts)
    holder = parts.number(least=0)
    if holder >= len(alive):
        parts.malformed(f"{holder} is no place among {len(alive)} instances")
    return OpenRange(id_, *bounds, alive[holder].instance)


_FIELDS: Final[Mapping[str, Callable[[_Parts], Any]]] = {
    name: (
        _Parts.id
        if name in _TEXTS
        else _Parts.flag
        if name in _FLAGS
        else _Parts.optional
        if name in _MAY_BE_NOTHING
        else _Parts.number
    )
    for name in (*_CLAIM, *_RANGES)
}
