"""Values and headers of records as columns of numbers; names and claims become codes.

A value is `TYPE/version/unix_s/instance/client/group/topic/partition[/number]`. The five fields in
the middle, its *address*, name the sender and the claim. A log has few distinct addresses, so each
is looked up by its bytes and split once. `codec` decodes values that are not in the ordinary form
(signs, leading zeros, nineteen digits, too many fields), and decides what is malformed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import astuple, frozen

from kafka_marshal.codec import (
    PARTITION_MAX,
    MalformedRecord,
    decode,
    decode_headers,
    malformed_amendments,
)
from kafka_marshal.core import wire
from kafka_marshal.core.messages import ClaimingRange, Headers, Message
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.kernel.parsing import (
    NO_MARSHAL,
    ODD,
    OTHER,
    REQUEST,
    decode_values,
    intern_in,
    learn,
    look_up,
    read_headers,
    rehash,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Small: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

MALFORMED: Final = -1

_CLAIMING_RANGE: Final = f"{ClaimingRange.__name__}/"
_NAMES_NO_CLAIM: Final = np.array([*(not layout.keyed for layout in wire.MESSAGES), False])

_LEARNT_AT_ONCE: Final = 4096
"""The number of addresses split in one step: there must be room for their fields, as if all were
new."""
ABSENT: Final = -1
"""The header is missing."""
NOT_DECIMAL: Final = -2
INT64_MAX: Final = 2**63 - 1
HEADER_COLUMNS: Final = tuple(header.field for header in wire.HEADERS)
"""The columns of `RecordColumns.headers`, by their names in `Headers`. The first `STRICT` may be
NOT_DECIMAL, which refuses the record; the others are amendments, which affect no decision."""
STRICT: Final = sum(not header.amends for header in wire.HEADERS)
_BY_NAME: Final = {header.name: column for column, header in enumerate(wire.HEADERS)}
_LEAST: Final = np.array([header.least for header in wire.HEADERS])
"""A lower number is not ordinary."""


@frozen(eq=False)
class RecordColumns:
    """A batch of records, decoded. All arrays are as long as the batch."""

    kind: Small
    """The index in `wire.MESSAGES`, or MALFORMED; then the other columns of the row are undefined.
    REQUEST is a ClaimingRange, if the caller decodes requests."""
    version: Ints
    unix_s: Ints
    number: Ints
    """The message's `Layout.number`; 0 if it has none."""
    address: Codes
    """The sender and the claim: an index in the tables of `NameCodes`."""
    present: Flags
    """Whether there was any `marshal-` header."""
    headers: Ints
    """Columns as in `HEADER_COLUMNS`: the number, ABSENT or NOT_DECIMAL."""
    amended_badly: Flags
    """Whether an amendment was present that counts as absent: see `malformed_amendments`."""

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of_size(cls, count: int) -> RecordColumns:
        """Empty columns."""
        return cls(
            np.empty(count, np.int8),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            np.zeros(count, np.int32),
            np.zeros(count, np.bool_),
            np.full((count, len(HEADER_COLUMNS)), ABSENT, np.int64),
            np.zeros(count, np.bool_),
        )

    def cut(self, begin: int, end: int) -> RecordColumns:
        """Some of the rows, in the same memory."""
        return RecordColumns(*(part[begin:end] for part in astuple(self, recurse=False)))


class TextCodes:
    """Texts and their codes, assigned in order of occurrence."""

    def __init__(self, salt: npt.NDArray[np.uint64], *first: str) -> None:
        self._salt = salt
        self.slots = np.full(1 << 10, -1, dtype=np.int32)
        self.pool = np.zeros(1 << 14, dtype=np.uint8)
        self.spans = np.zeros((1 << 8, 2), dtype=np.uint64)
        self.hashes = np.zeros(1 << 8, dtype=np.uint64)
        self.heads = np.zeros(2, np.int64)
        """The number of texts, and their size in the pool."""
        self._names: list[str] = []
        for text in first:
            self.code(text)

    def __len__(self) -> int:
        return int(self.heads[0])

    @property
    def arrays(self) -> tuple[Codes, Bytes, npt.NDArray[np.uint64], npt.NDArray[np.uint64], Ints]:
        """The arguments of the compiled functions; fetch them again after making room."""
        return self.slots, self.pool, self.spans, self.hashes, self.heads

    def names(self) -> list[str]:
        """The texts by code: a list that grows."""
        known, count = len(self._names), len(self)
        if known < count:
            spans = self.spans[known:count].astype(np.int64)
            first = int(spans[0, 0])
            content = self.pool[first : int(self.heads[1])].tobytes()
            self._names += [
                content[begin:end].decode("utf-8", "surrogateescape")
                for begin, end in (spans - first).tolist()
            ]
        return self._names

    def code(self, text: str) -> int:
        """The code of a text, which is assigned if it is new."""
        name = text.encode("utf-8", "surrogateescape")
        self.make_room(1, len(name))
        return int(intern_in(self.arrays, *_whole(name), self._salt))

    def known(self, text: str) -> int:
        """The code of a text, or -1."""
        name = text.encode("utf-8", "surrogateescape")
        return int(look_up(self.arrays, *_whole(name), self._salt))

    def make_room(self, texts: int, size: int) -> None:
        """Make room for this many more texts, with `size` bytes in all."""
        count, used = self.heads.tolist()
        while used + size > len(self.pool):
            self.pool = np.concatenate([self.pool, np.zeros_like(self.pool)])
        if count + texts + 1 >= len(self.spans):
            while count + texts + 1 >= len(self.spans):
                self.spans = np.concatenate([self.spans, np.zeros_like(self.spans)])
                self.hashes = np.concatenate([self.hashes, np.zeros_like(self.hashes)])
            self.slots = np.full(4 * len(self.spans), -1, dtype=np.int32)
            rehash(self.slots, self.hashes, count)


class NameCodes:
    """The codes of ids, groups, claims and addresses, assigned in order of occurrence.

    Code 0 of the ids is the empty id.
    """

    def __init__(self) -> None:
        self._salt = np.frombuffer(os.urandom(16), np.uint64)
        self.instances = TextCodes(self._salt, "")
        self.clients = TextCodes(self._salt, "")
        self.groups = TextCodes(self._salt, "")
        self.claims = TextCodes(self._salt)
        self._addresses = TextCodes(self._salt)
        self._keys: list[ClaimKey] = []
        self._claim_groups: Codes = np.empty(len(self.claims.spans), np.int32)
        self._table: Codes = np.empty((len(self._addresses.spans), 4), np.int32)
        self._topicless: Flags = np.empty(len(self._addresses.spans), np.bool_)
        self._after: Codes = np.zeros(len(self._addresses.spans), np.int32)

    @property
    def table(self) -> Codes:
        """By address: instance, client, group, claim."""
        return self._table[: len(self._addresses)]

    def claim_keys(self) -> list[ClaimKey]:
        """The keys by code: a list that grows."""
        known = len(self._keys)
        if known < len(self.claims):
            for name in self.claims.names()[known:]:
                group, topic, partition = name.split("/")
                self._keys.append(ClaimKey(group, topic, int(partition)))
        return self._keys

    def claim(self, key: ClaimKey) -> int:
        """The code of a claim, which is assigned if it is new."""
        group = self.groups.code(key.group)
        claim = self.claims.code(_claim_text(key))
        self._claim_groups = _as_long(self._claim_groups, self.claims.spans)
        self._claim_groups[claim] = group
        return claim

    def known_claim(self, key: ClaimKey) -> int:
        """The code of a claim, or -1."""
        return self.claims.known(_claim_text(key))

    def group_of(self, claim: int) -> int:
        """The code of a claim's group."""
        return int(self._claim_groups[claim])

    def sender(self, address: int) -> tuple[str, str]:
        """Instance id and client id of an address."""
        instance, client = self._table[address, :2].tolist()
        return self.instances.names()[instance], self.clients.names()[client]

    def decoded(
        self, values: pa.Array, headers: pa.Array | None, *, requests: bool = False
    ) -> RecordColumns:
        """Decode a batch: values are binary, headers a list of structs of key and value.

        `requests`: also decode ClaimingRanges in the ordinary form, including headers. Their
        headers `marshal-ranges` and `marshal-keep` are not decoded.
        """
        return self.decoded_together([(values, headers)], requests=requests)

    def decoded_together(
        self, parts: Sequence[tuple[pa.Array, pa.Array | None]], *, requests: bool = False
    ) -> RecordColumns:
        """Decode several batches as one; each is values and headers, as in `decoded`."""
        columns = RecordColumns.of_size(sum(len(values) for values, _ in parts))
        begin = 0
        for values, headers in parts:
            end = begin + len(values)
            self._decode(values, headers, columns.cut(begin, end), requests)
            begin = end
        return columns

    def _decode(
        self, values: pa.Array, headers: pa.Array | None, columns: RecordColumns, requests: bool
    ) -> None:
        values = _binary(values)
        count = len(values)
        data, offsets = _buffers(values)
        valid = _validity(values)
        row, known = 0, len(self._addresses)
        while row < count:
            slots, pool, spans, hashes, heads = self._addresses.arrays
            self._after = _as_long(self._after, spans)
            row, heads[0], heads[1] = decode_values(
                row,
                data,
                offsets,
                valid,
                columns.kind,
                columns.version,
                columns.unix_s,
                columns.number,
                columns.address,
                self._salt,
                slots,
                pool,
                np.uint64(heads[1]),
                spans,
                hashes,
                heads[0],
                requests,
                self._after,
            )
            if row < count:
                self._addresses.make_room(len(spans), len(pool))
        self._learn(known)
        self._put_right(columns, values)
        _decode_headers(columns, headers)

    def address(self, message: Message) -> int:
        """The code of a message's address."""
        known = len(self._addresses)
        text = "/".join(str(getattr(message, name)) for name in wire.ADDRESS)
        code = self._addresses.code(text)
        self._learn(known)
        return code

    def _learn(self, known: int) -> None:
        """Split the new addresses."""
        addresses = self._addresses
        self._table = _as_long(self._table, addresses.spans)
        self._topicless = _as_long(self._topicless, addresses.spans)
        while known < len(addresses):
            until = min(known + _LEARNT_AT_ONCE, len(addresses))
            size = int(addresses.spans[until - 1, 1] - addresses.spans[known, 0])
            for texts in (self.instances, self.clients, self.groups, self.claims):
                texts.make_room(until - known, size)
            self._claim_groups = _as_long(self._claim_groups, self.claims.spans)
            learn(
                known,
                until,
                addresses.arrays,
                self._salt,
                self.instances.arrays,
                self.clients.arrays,
                self.groups.arrays,
                self.claims.arrays,
                PARTITION_MAX,
                self._table,
                self._topicless,
                self._claim_groups,
            )
            known = until

    def _put_right(self, columns: RecordColumns, values: pa.Array) -> None:
        """Let `codec` decode the values that are not ordinary, and decide about them."""
        doubtful = columns.kind == ODD
        if len(self._addresses):
            known = np.where(doubtful, 0, columns.address)
            claimless = self.table[:, 3] < 0
            if claimless.any():
                doubtful |= claimless[known]  # its partition is not written the ordinary way
            named = _NAMES_NO_CLAIM[columns.kind]
            if named.any():
                doubtful |= named & ~self._topicless[known]
        rows = np.flatnonzero(doubtful)
        if not rows.size:
            return
        # `codec` treats this message as malformed, whatever its fields are. A log may hold
        # millions.
        named = pc.starts_with(values.take(pa.array(rows)), _CLAIMING_RANGE).fill_null(False)
        of_ranges = named.to_numpy(zero_copy_only=False)
        columns.kind[rows[of_ranges]] = MALFORMED
        for row in rows[~of_ranges]:
            try:
                message = decode(values[int(row)].as_py())
            except MalformedRecord:
                columns.kind[row] = MALFORMED
                continue
            layout = wire.BY_CLASS[type(message)]
            columns.kind[row] = wire.number_of(layout.message)
            columns.version[row] = message.version
            columns.unix_s[row] = message.unix_s
            columns.number[row] = getattr(message, layout.number) if layout.number else 0
            columns.address[row] = self.address(message)


_Array = TypeVar("_Array", Codes, Flags)


def _as_long(array: _Array, other: npt.NDArray[np.uint64]) -> _Array:
    """The array, or a longer copy of the other's length, filled with zeros."""
    if len(array) >= len(other):
        return array
    longer = np.zeros((len(other), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _whole(text: bytes) -> tuple[Bytes, np.uint64, np.uint64]:
    """A text in the form for compiled functions: data, begin, end."""
    return np.frombuffer(text or b"?", np.uint8), np.uint64(0), np.uint64(len(text))


def _claim_text(key: ClaimKey) -> str:
    return f"{key.group}/{key.topic}/{key.topic_partition}"


# --- headers --------------------------------------------------------------------------------------


def _decode_headers(columns: RecordColumns, headers: pa.Array | None) -> None:
    if headers is None or len(headers) == headers.null_count:
        return
    entries = headers.values
    keys, values = entries.field("key"), _binary(entries.field("value"))
    if not pa.types.is_dictionary(keys.type):
        keys = keys.dictionary_encode()
    names = keys.dictionary.to_pylist()
    fields = np.array([*map(_field, names), NO_MARSHAL])
    if (fields == NO_MARSHAL).all():
        return
    odd = np.zeros(len(headers), np.bool_)
    read_headers(
        headers.offsets.to_numpy(),
        keys.indices.cast(pa.int32()).fill_null(len(names)).to_numpy(),
        fields,
        _LEAST,
        *_buffers(values),
        _validity(values),
        columns.present,
        columns.headers,
        odd,
    )
    odd_requests = odd & (columns.kind == REQUEST)
    columns.kind[odd_requests] = MALFORMED
    for row in np.flatnonzero(odd & ~odd_requests):
        found = headers[int(row)].as_py() or []
        pairs = [(_name(pair["key"]), pair["value"]) for pair in found]
        said = decode_headers(pairs)
        columns.amended_badly[row] = bool(malformed_amendments(pairs))
        columns.present[row] = said.present
        columns.headers[row] = header_row(said)


def _field(key: bytes | str) -> int:
    """The column of `RecordColumns.headers` for a header, or another code if it has none."""
    name = _name(key)
    if name in _BY_NAME:
        return _BY_NAME[name]
    return OTHER if name.startswith(wire.HEADER_PREFIX) else NO_MARSHAL


def header_row(headers: Headers) -> list[int]:
    """Headers as a row of `RecordColumns.headers`. All numbers beyond 64 bits are equivalent."""
    fields = (getattr(headers, name) for name in HEADER_COLUMNS)
    return [ABSENT if each is None else min(each, INT64_MAX) for each in fields]


def _name(key: bytes | str) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else key


# --- Arrow ----------------------------------------------------------------------------------------


def _binary(values: pa.Array) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.array([None] * len(values), pa.large_binary())
    if pa.types.is_binary(values.type):
        return values
    return values.cast(pa.large_binary())


def _buffers(values: pa.Array) -> tuple[Bytes, Ints | Codes]:
    _, offsets, data = values.buffers()
    if offsets is None:
        return np.zeros(1, np.uint8), np.zeros(1, np.int64)
    width: type[np.signedinteger[Any]] = np.int32 if pa.types.is_binary(values.type) else np.int64
    ends = np.frombuffer(offsets, dtype=width)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else None
    return (np.zeros(1, np.uint8) if content is None else content), ends


def _validity(values: pa.Array) -> Flags:
    if not values.null_count:
        return np.ones(len(values), np.bool_)
    return cast("Flags", values.is_valid().to_numpy(zero_copy_only=False))
