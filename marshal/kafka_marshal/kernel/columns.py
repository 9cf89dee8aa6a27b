"""Values and headers of records as columns of numbers; ids and claims as codes.

A value is `TYPE/version/unix_s/instance/client/group/topic/partition[/number]`. The five fields in
the middle, its *address*, name the sender and the claim. A log has few different ones, so each is
looked up by its bytes and split once. `codec` decodes what is not written the ordinary way (signs,
leading zeros, nineteen digits, too many fields), and says what is malformed.
"""

from __future__ import annotations

import itertools
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
    intern,
    read_headers,
    rehash,
)

Ints: TypeAlias = npt.NDArray[np.int64]
Codes: TypeAlias = npt.NDArray[np.int32]
Small: TypeAlias = npt.NDArray[np.int8]
Flags: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]

_Name = TypeVar("_Name")

MALFORMED: Final = -1

_CLAIMING_RANGE: Final = f"{ClaimingRange.__name__}/"
_NAMES_NO_CLAIM: Final = np.array([*(not layout.keyed for layout in wire.MESSAGES), False])

ABSENT: Final = -1
"""A header that is not there."""
NOT_DECIMAL: Final = -2
INT64_MAX: Final = 2**63 - 1
HEADER_COLUMNS: Final = tuple(header.field for header in wire.HEADERS)
"""The columns of `RecordColumns.headers`, by their names in `Headers`; the first `STRICT` may be
NOT_DECIMAL, which refuses the record, and the others are amendments, which decide nothing."""
STRICT: Final = sum(not header.amends for header in wire.HEADERS)
_BY_NAME: Final = {header.name: column for column, header in enumerate(wire.HEADERS)}
_LEAST: Final = np.array([header.least for header in wire.HEADERS])
"""A number below this is not ordinary."""


@frozen(eq=False)
class RecordColumns:
    """A batch of records, decoded. All arrays are as long as the batch."""

    kind: Small
    """Its index in `wire.MESSAGES`, or MALFORMED; then the other columns of the row say nothing.
    REQUEST is a ClaimingRange, if who decodes asks for them."""
    version: Ints
    unix_s: Ints
    number: Ints
    """The message's `Layout.number`; 0 where it has none."""
    address: Codes
    """The sender and the claim: an index in the tables of `NameCodes`."""
    present: Flags
    """Any `marshal-` header was there."""
    headers: Ints
    """Columns as in `HEADER_COLUMNS`: the number, ABSENT or NOT_DECIMAL."""
    amended_badly: Flags
    """An amendment was there that counts as absent: see `malformed_amendments`."""

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of_size(cls, count: int) -> RecordColumns:
        """Nothing is decoded yet."""
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


class NameCodes:
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
        self._listed: list[str] = []
        self._senders: list[tuple[str, str]] = []
        self._topicless: list[bool] = []
        self._salt = np.frombuffer(os.urandom(16), np.uint64)
        self._slots = np.full(1 << 12, -1, dtype=np.int32)
        self._pool = np.zeros(1 << 16, dtype=np.uint8)
        self._spans = np.zeros((1 << 10, 2), dtype=np.uint64)
        self._hashes = np.zeros(1 << 10, dtype=np.uint64)
        self._count = 0
        self._pool_used = np.uint64(0)

    @property
    def table(self) -> Codes:
        """By address: instance, client, group, claim."""
        known = len(self._table)
        if known != len(self._rows):
            # A watch asks after every few records, and most logs have a new sender now and then.
            fresh = np.array(self._rows[known:], dtype=np.int32).reshape(-1, 4)
            self._table = np.concatenate([self._table, fresh])
        return self._table

    def claim_keys(self) -> list[ClaimKey]:
        """The keys by their codes."""
        return list(self.claims)

    def instance_names(self) -> list[str]:
        """The instance ids by their codes."""
        return extended(self._listed, self.instances)

    def sender(self, address: int) -> tuple[str, str]:
        """Instance id and client id of an address."""
        if len(self._senders) != len(self._rows):
            instances, clients = list(self.instances), list(self.clients)
            self._senders = [(instances[each[0]], clients[each[1]]) for each in self._rows]
        return self._senders[address]

    def decoded(
        self, values: pa.Array, headers: pa.Array | None, *, requests: bool = False
    ) -> RecordColumns:
        """Decode a batch: values are binary, headers a list of structs of key and value.

        `requests`: also each ClaimingRange that is written the ordinary way, headers and all. Its
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
        row = 0
        while row < count:
            known = self._count
            row, self._count, used = decode_values(
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
                self._slots,
                self._pool,
                self._pool_used,
                self._spans,
                self._hashes,
                self._count,
                requests,
            )
            self._pool_used = np.uint64(used)
            self._learn(known)
            if row < count:
                self._grow()
        self._put_right(columns, values)
        _decode_headers(columns, headers)

    def address(self, message: Message) -> int:
        """The code of a message's address."""
        text = "/".join(str(getattr(message, name)) for name in wire.ADDRESS)
        code = self._codes.get(name := text.encode("utf-8", "surrogateescape"))
        if code is None:
            span = np.frombuffer(name, dtype=np.uint8)
            while self._count + 1 >= len(self._spans) or (
                int(self._pool_used) + len(name) > len(self._pool)
            ):
                self._grow()
            known = self._count
            code, self._count, used = intern(
                span,
                np.uint64(0),
                np.uint64(len(span)),
                self._salt,
                self._slots,
                self._pool,
                self._pool_used,
                self._spans,
                self._hashes,
                self._count,
            )
            self._pool_used = np.uint64(used)
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
                claim = self.claim(ClaimKey(group, topic, int(partition)))
            self._rows.append(
                (
                    self.instances.setdefault(instance, len(self.instances)),
                    self.clients.setdefault(client, len(self.clients)),
                    self.groups.setdefault(group, len(self.groups)),
                    claim,
                )
            )
            self._topicless.append(ordinary and topic == "" and partition == "0")

    def claim(self, key: ClaimKey) -> int:
        """The code of a claim."""
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
        rehash(self._slots, self._hashes, self._count)

    def _put_right(self, columns: RecordColumns, values: pa.Array) -> None:
        """Let `codec` decode what is not ordinary, and rule on it."""
        doubtful = columns.kind == ODD
        if self._rows:
            known = np.where(doubtful, 0, columns.address)
            claims = self.table[:, 3][known]
            doubtful |= claims < 0  # its partition is not written the ordinary way
            named = _NAMES_NO_CLAIM[columns.kind]
            if named.any():
                topicless = np.array(self._topicless, dtype=np.bool_)
                doubtful |= named & ~topicless[known]
        rows = np.flatnonzero(doubtful)
        if not rows.size:
            return
        # To `codec` this message is malformed, whatever its fields are. A log may hold millions.
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


def extended(names: list[_Name], codes: dict[_Name, int]) -> list[_Name]:
    """Names by their codes, of which a list holds the first already; it is made longer."""
    if len(names) < len(codes):
        fresh = list(itertools.islice(reversed(codes), len(codes) - len(names)))
        names.extend(reversed(fresh))
    return names


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
    """Which column of `RecordColumns.headers` a header says, if any."""
    name = _name(key)
    if name in _BY_NAME:
        return _BY_NAME[name]
    return OTHER if name.startswith(wire.HEADER_PREFIX) else NO_MARSHAL


def header_row(headers: Headers) -> list[int]:
    """Headers as a row of `RecordColumns.headers`. Beyond 64 bits all are alike."""
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
