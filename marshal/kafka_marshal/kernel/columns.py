"""Values and headers of records as columns of numbers; ids and claims as codes.

A value is `TYPE/version/unix_s/instance/client/group/topic/partition[/number]`. The five fields in
the middle, its *address*, name the sender and the claim; a log has few different ones, so each is
looked up by its bytes and split once. Whatever is not written the ordinary way (signs, leading
zeros, nineteen digits, too many fields) is decoded by `codec`, which also says what is malformed.
"""

from __future__ import annotations

from typing import Final, TypeAlias, cast

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from kafka_marshal.codec import (
    PARTITION_MAX,
    MalformedRecord,
    decode,
    decode_headers,
)
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Small: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

HEARTBEAT: Final = 0
CLAIMING_PARTITION: Final = 1
RELEASING_PARTITION: Final = 2
CLAIMING_MESSAGES: Final = 3
RELEASE_GROUP: Final = 4
MALFORMED: Final = -1
_ODD: Final = -2

KINDS: Final[tuple[type[Message], ...]] = (
    Heartbeat,
    ClaimingPartition,
    ReleasingPartition,
    ClaimingMessages,
    ReleaseGroup,
)
"""The messages, by their number in `Columns.kind`."""

HEADER_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""Headers as `Names.decoded` takes them; keys may be binary too."""

ABSENT: Final = -1
"""A header that is not there."""
NOT_DECIMAL: Final = -2
INT64_MAX: Final = 2**63 - 1

_TYPES: Final = tuple(
    np.frombuffer(kind.__name__.encode() + b"/", dtype=np.uint8) for kind in KINDS
)
_HEADERS: Final = tuple(
    np.frombuffer(name, dtype=np.uint8)
    for name in (
        b"marshal-epoch",
        b"marshal-seen",
        b"marshal-clock",
        b"marshal-supersedes",
        b"marshal-set-position",
    )
)
_PREFIX: Final = np.frombuffer(b"marshal-", dtype=np.uint8)
_SLASH: Final = ord("/")


@frozen(eq=False)
class Columns:
    """A batch of records, decoded. All arrays are as long as the batch."""

    kind: Small
    """Index in `KINDS`, or MALFORMED; then the other columns of the row say nothing."""
    version: Ints
    unix_s: Ints
    number: Ints
    """The message's offset, or `expires_unix_s`; 0 where its type has none."""
    address: Codes
    """Who speaks of which claim: an index in the tables of `Names`."""
    present: Flags
    """Any `marshal-` header was there."""
    headers: Ints
    """Columns epoch, seen, clock, supersedes, set_position: the number, ABSENT or NOT_DECIMAL."""

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: npt.NDArray[np.intp]) -> Columns:
        """Some of the rows, in this order."""
        return Columns(
            self.kind[rows],
            self.version[rows],
            self.unix_s[rows],
            self.number[rows],
            self.address[rows],
            self.present[rows],
            self.headers[rows],
        )


class Names:
    """The codes of ids, groups, claims and addresses, given out as they are first seen.

    Code 0 of the ids is the empty id.
    """

    def __init__(self) -> None:
        self.instances: dict[str, int] = {"": 0}
        self.clients: dict[str, int] = {"": 0}
        self.groups: dict[str, int] = {"": 0}
        self.claims: dict[ClaimKey, int] = {}
        self.claim_groups: list[int] = []
        """The group's code, by the claim's."""
        self._codes: dict[bytes, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []
        self._table: Codes = np.empty((0, 4), np.int32)
        self._odd: list[bool] = []
        self._topicless: list[bool] = []
        self._slots = np.full(1 << 12, -1, dtype=np.int32)
        self._pool = np.zeros(1 << 16, dtype=np.uint8)
        self._spans = np.zeros((1 << 10, 2), dtype=np.int64)
        self._hashes = np.zeros(1 << 10, dtype=np.uint64)
        self._count = 0
        self._pool_used = 0

    @property
    def table(self) -> Codes:
        """By address: instance, client, group, claim."""
        if len(self._table) != len(self._rows):
            self._table = np.array(self._rows, dtype=np.int32).reshape(-1, 4)
        return self._table

    def claim_keys(self) -> list[ClaimKey]:
        """The keys by their codes."""
        return list(self.claims)

    def decoded(self, values: pa.Array, headers: pa.Array | None) -> Columns:
        """Decode a batch: values are binary, headers a list of structs of key and value."""
        values = _binary(values)
        count = len(values)
        data, offsets = _buffers(values)
        valid = _validity(values)
        columns = Columns(
            np.empty(count, np.int8),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count, np.int32),
            np.zeros(count, np.bool_),
            np.full((count, 5), ABSENT, np.int64),
        )
        row = 0
        while row < count:
            known = self._count
            row, self._count, self._pool_used = _decode_values(
                row,
                data,
                offsets,
                valid,
                columns.kind,
                columns.version,
                columns.unix_s,
                columns.number,
                columns.address,
                self._slots,
                self._pool,
                self._pool_used,
                self._spans,
                self._hashes,
                self._count,
            )
            self._learn(known)
            if row < count:
                self._grow()
        self._put_right(columns, values)
        _decode_headers(columns, headers)
        return columns

    def address(self, message: Message) -> int:
        """The code of a message's address."""
        text = "/".join(
            (
                message.instance_id,
                message.client_id,
                message.group_id,
                message.topic,
                str(message.partition),
            )
        )
        code = self._codes.get(name := text.encode("utf-8", "surrogateescape"))
        if code is None:
            span = np.frombuffer(name, dtype=np.uint8)
            while self._count + 1 >= len(self._spans) or self._pool_used + len(name) > len(
                self._pool
            ):
                self._grow()
            known = self._count
            code, self._count, self._pool_used = _intern(
                span,
                0,
                len(span),
                self._slots,
                self._pool,
                self._pool_used,
                self._spans,
                self._hashes,
                self._count,
            )
            self._learn(known)
        return int(code)

    def _learn(self, known: int) -> None:
        """Split the addresses that are new."""
        for code in range(known, self._count):
            begin, end = self._spans[code]
            name = self._pool[begin:end].tobytes()
            self._codes[name] = code
            instance, client, group, topic, partition = name.decode(
                "utf-8", "surrogateescape"
            ).split("/")
            ordinary = (
                partition.isascii()
                and partition.isdecimal()
                and (partition == "0" or not partition.startswith("0"))
                and len(partition) < 11
                and int(partition) <= PARTITION_MAX
            )
            claim = -1
            if ordinary:
                claim = self._claim(ClaimKey(group, topic, int(partition)))
            self._rows.append(
                (
                    self.instances.setdefault(instance, len(self.instances)),
                    self.clients.setdefault(client, len(self.clients)),
                    self.groups.setdefault(group, len(self.groups)),
                    claim,
                )
            )
            self._odd.append(not ordinary)
            self._topicless.append(ordinary and topic == "" and partition == "0")

    def _claim(self, key: ClaimKey) -> int:
        code = self.claims.get(key)
        if code is None:
            code = self.claims[key] = len(self.claims)
            self.claim_groups.append(self.groups.setdefault(key.group, len(self.groups)))
        return code

    def _grow(self) -> None:
        self._pool = np.concatenate([self._pool, np.zeros_like(self._pool)])
        self._spans = np.concatenate([self._spans, np.zeros_like(self._spans)])
        self._hashes = np.concatenate([self._hashes, np.zeros_like(self._hashes)])
        self._slots = np.full(2 * len(self._slots), -1, dtype=np.int32)
        _rehash(self._slots, self._hashes, self._count)

    def _put_right(self, columns: Columns, values: pa.Array) -> None:
        """Let `codec` decode what is not ordinary, and rule on it."""
        odd = np.array(self._odd, dtype=np.bool_)
        topicless = np.array(self._topicless, dtype=np.bool_)
        doubtful = columns.kind == _ODD
        if len(odd):
            known = np.where(doubtful, 0, columns.address)
            doubtful |= odd[known]
            doubtful |= (columns.kind == RELEASE_GROUP) & ~topicless[known]
        for row in np.flatnonzero(doubtful):
            try:
                message = decode(values[int(row)].as_py())
            except MalformedRecord:
                columns.kind[row] = MALFORMED
                continue
            columns.kind[row] = KINDS.index(type(message))
            columns.version[row] = message.version
            columns.unix_s[row] = message.unix_s
            columns.number[row] = getattr(message, "offset", getattr(message, "expires_unix_s", 0))
            columns.address[row] = self.address(message)


# --- headers --------------------------------------------------------------------------------------


def _decode_headers(columns: Columns, headers: pa.Array | None) -> None:
    if headers is None or len(headers) == headers.null_count:
        return
    offsets = np.asarray(headers.offsets, dtype=np.int64)
    pairs = headers.values
    keys, values = _binary(pairs.field("key")), _binary(pairs.field("value"))
    odd = np.zeros(len(headers), np.bool_)
    _read_headers(
        offsets,
        *_buffers(keys),
        *_buffers(values),
        _validity(values),
        columns.present,
        columns.headers,
        odd,
    )
    for row in np.flatnonzero(odd):
        found = headers[int(row)].as_py() or []
        said = decode_headers([(_name(pair["key"]), pair["value"]) for pair in found])
        columns.present[row] = said.present
        columns.headers[row] = header_row(said)


def header_row(headers: Headers) -> list[int]:
    """Headers as a row of `Columns.headers`. Beyond 64 bits one number is as good as another."""
    fields = (
        headers.epoch,
        headers.seen,
        headers.clock,
        headers.supersedes,
        headers.set_position,
    )
    return [ABSENT if each is None else min(each, INT64_MAX) for each in fields]


def _name(key: bytes | str) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key


# --- Arrow ----------------------------------------------------------------------------------------


def _binary(values: pa.Array) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.array([None] * len(values), pa.large_binary())
    return values.cast(pa.large_binary())


def _buffers(values: pa.Array) -> tuple[Bytes, Ints]:
    _, offsets, data = values.buffers()
    if offsets is None:
        return np.zeros(1, np.uint8), np.zeros(1, np.int64)
    ends = np.frombuffer(offsets, dtype=np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else None
    return (np.zeros(1, np.uint8) if content is None else content), ends


def _validity(values: pa.Array) -> Flags:
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return cast("Flags", values.is_valid().to_numpy(zero_copy_only=False))


# --- compiled -------------------------------------------------------------------------------------

_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def _begins_with(data, at, end, word):  # type: ignore[no-untyped-def]
    if end - at < len(word):
        return False
    for i in range(len(word)):  # noqa: SIM110  (numba knows no generators)
        if data[at + i] != word[i]:
            return False
    return True


@_compiled
def _digits(data, at, end):  # type: ignore[no-untyped-def]
    """The number between these places, or -1 if it is not 1 to 18 digits."""
    if end <= at or end - at > 18:
        return np.int64(-1)
    number = np.int64(0)
    for i in range(at, end):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        number = number * 10 + digit
    return number


@_compiled
def _hash(data, at, end):  # type: ignore[no-untyped-def]
    """FNV-1a of every fourth byte, four times at once: a multiplication need not await the last."""
    prime = np.uint64(1099511628211)
    one = np.uint64(14695981039346656037)
    two, three, four = one + np.uint64(1), one + np.uint64(2), one + np.uint64(3)
    i = at
    while i + 4 <= end:
        one = (one ^ np.uint64(data[i])) * prime
        two = (two ^ np.uint64(data[i + 1])) * prime
        three = (three ^ np.uint64(data[i + 2])) * prime
        four = (four ^ np.uint64(data[i + 3])) * prime
        i += 4
    while i < end:
        one = (one ^ np.uint64(data[i])) * prime
        i += 1
    found = (((one * prime) ^ two) * prime ^ three) * prime ^ four
    return found ^ (found >> np.uint64(29))


@_compiled
def _intern(data, at, end, slots, pool, used, spans, hashes, count):  # type: ignore[no-untyped-def]
    """The code of these bytes, which become known if they were not; -1 if there is no room."""
    name = _hash(data, at, end)
    mask = np.uint64(len(slots) - 1)
    slot = name & mask
    while True:
        code = slots[slot]
        if code < 0:
            break
        if hashes[code] == name and spans[code, 1] - spans[code, 0] == end - at:
            begin = spans[code, 0]
            differ = np.uint8(0)
            for i in range(end - at):  # without a way out, so that it is done many at a time
                differ |= pool[begin + i] ^ data[at + i]
            if differ == 0:
                return code, count, used
        slot = (slot + np.uint64(1)) & mask
    if count + 1 >= len(spans) or 2 * count >= len(slots) or used + end - at > len(pool):
        return np.int32(-1), count, used
    for i in range(end - at):
        pool[used + i] = data[at + i]
    spans[count, 0], spans[count, 1] = used, used + end - at
    hashes[count] = name
    slots[slot] = count
    return np.int32(count), count + 1, used + end - at


@_compiled
def _rehash(slots, hashes, count):  # type: ignore[no-untyped-def]
    mask = np.uint64(len(slots) - 1)
    for code in range(count):
        slot = hashes[code] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = code


@_compiled
def _kind(data, at, end):  # type: ignore[no-untyped-def]
    if _begins_with(data, at, end, _TYPES[0]):
        return 0, len(_TYPES[0])
    if _begins_with(data, at, end, _TYPES[1]):
        return 1, len(_TYPES[1])
    if _begins_with(data, at, end, _TYPES[2]):
        return 2, len(_TYPES[2])
    if _begins_with(data, at, end, _TYPES[3]):
        return 3, len(_TYPES[3])
    if _begins_with(data, at, end, _TYPES[4]):
        return 4, len(_TYPES[4])
    return _ODD, 0


@_compiled
def _decode_values(  # type: ignore[no-untyped-def]
    row, data, offsets, valid,
    kind, version, unix_s, number, address,
    slots, pool, used, spans, hashes, count,
):  # fmt: skip
    """Decode from `row` on; stop where there is no room for another address."""
    cuts = np.empty(8, np.int64)
    while row < len(kind):
        kind[row] = _ODD
        at, end = offsets[row], offsets[row + 1]
        found, length = _kind(data, at, end) if valid[row] else (_ODD, 0)
        if found == _ODD:
            row += 1
            continue
        # The slashes after the type: seven more, six for a ClaimingPartition.
        wanted = 6 if found == CLAIMING_PARTITION else 7
        seen = 0
        for i in range(at + length, end):
            if data[i] == _SLASH:
                if seen < 8:
                    cuts[seen] = i
                seen += 1
        if seen != wanted:
            row += 1
            continue
        says_version = _digits(data, at + length, cuts[0])
        says_unix_s = _digits(data, cuts[0] + 1, cuts[1])
        address_end = cuts[6] if wanted == 7 else end
        says_number = _digits(data, cuts[6] + 1, end) if wanted == 7 else np.int64(0)
        if says_version < 0 or says_unix_s < 0 or says_number < 0:
            row += 1
            continue
        code, count, used = _intern(
            data, cuts[1] + 1, address_end, slots, pool, used, spans, hashes, count
        )
        if code < 0:
            return row, count, used
        kind[row] = found
        version[row] = says_version
        unix_s[row] = says_unix_s
        number[row] = says_number
        address[row] = code
        row += 1
    return row, count, used


@_compiled
def _read_headers(  # type: ignore[no-untyped-def]
    lists, key_data, key_offsets, value_data, value_offsets, value_valid, present, found, odd
):
    first = lists[0]
    for row in range(len(present)):
        for pair in range(lists[row], lists[row + 1]):
            place = pair - first
            at, end = key_offsets[place], key_offsets[place + 1]
            if not _begins_with(key_data, at, end, _PREFIX):
                continue
            present[row] = True
            field = -1
            if end - at == len(_HEADERS[0]) and _begins_with(key_data, at, end, _HEADERS[0]):
                field = 0
            elif end - at == len(_HEADERS[1]) and _begins_with(key_data, at, end, _HEADERS[1]):
                field = 1
            elif end - at == len(_HEADERS[2]) and _begins_with(key_data, at, end, _HEADERS[2]):
                field = 2
            elif end - at == len(_HEADERS[3]) and _begins_with(key_data, at, end, _HEADERS[3]):
                field = 3
            elif end - at == len(_HEADERS[4]) and _begins_with(key_data, at, end, _HEADERS[4]):
                field = 4
            if field < 0:
                continue
            number = np.int64(-1)
            if value_valid[place]:
                number = _digits(value_data, value_offsets[place], value_offsets[place + 1])
            if number < 0:
                odd[row] = True
            else:
                found[row, field] = number
