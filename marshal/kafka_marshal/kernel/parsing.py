"""Parses the bytes of values and headers into numbers, for `columns`. Compiled.

It parses the ordinary form, and marks everything else as odd; `codec` decides what that means.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from kafka_marshal.core import wire
from kafka_marshal.core.messages import ClaimingRange

ODD: Final = -2
"""Not in the ordinary form."""
REQUEST: Final = len(wire.MESSAGES)
"""The number of ClaimingRange, for callers that decode requests; to others it is no message."""

_TYPES: Final = tuple(
    np.frombuffer(f"{name}/".encode(), dtype=np.uint8)
    for name in (*(layout.name for layout in wire.MESSAGES), ClaimingRange.__name__)
)
"""The first bytes of each message, by its number."""
_HAS_NUMBER: Final = np.array([*(layout.number is not None for layout in wire.MESSAGES), True])
_SLASHES: Final = len(wire.ADDRESS) - 1
_SLASH: Final = ord("/")
_ZERO: Final = ord("0")
OTHER: Final = -1
"""The header begins with `marshal-`, but has no meaning."""
NO_MARSHAL: Final = -2

_u = np.uint64
_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def _begins_with(data, at, end, word):  # type: ignore[no-untyped-def]
    if end - at < _u(len(word)):
        return False
    for i in range(_u(len(word))):  # noqa: SIM110  (numba knows no generators)
        if data[at + i] != word[i]:
            return False
    return True


@_compiled
def _word(data, at):  # type: ignore[no-untyped-def]
    """Eight bytes as a number; the compiler makes one load of it."""
    return (
        _u(data[at])
        | _u(data[at + _u(1)]) << _u(8)
        | _u(data[at + _u(2)]) << _u(16)
        | _u(data[at + _u(3)]) << _u(24)
        | _u(data[at + _u(4)]) << _u(32)
        | _u(data[at + _u(5)]) << _u(40)
        | _u(data[at + _u(6)]) << _u(48)
        | _u(data[at + _u(7)]) << _u(56)
    )


@_compiled
def _eight_digits(word):  # type: ignore[no-untyped-def]
    """The number that eight decimal digits represent, or -1: two digits at a time, then four."""
    above = _u(0xF0F0F0F0F0F0F0F0)
    zeros = _u(0x3030303030303030)
    if word & above != zeros or (word + _u(0x0606060606060606)) & above != zeros:
        return np.int64(-1)
    word -= zeros
    word = word * _u(10) + (word >> _u(8))
    pairs = _u(0x000000FF000000FF)
    outer = (word & pairs) * _u(0x000F424000000064)
    inner = ((word >> _u(16)) & pairs) * _u(0x0000271000000001)
    return np.int64((outer + inner) >> _u(32))


@_compiled
def _digits(data, at, end):  # type: ignore[no-untyped-def]
    """The number between these indices, or -1 if it is not 1 to 18 digits."""
    if end <= at or end - at > _u(18):
        return np.int64(-1)
    number = np.int64(0)
    while end - at >= _u(8):
        eight = _eight_digits(_word(data, at))
        if eight < 0:
            return np.int64(-1)
        number = number * 100_000_000 + eight
        at += _u(8)
    while at < end:
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        number = number * 10 + digit
        at += _u(1)
    return number


@_compiled
def _slash(data, at, end):  # type: ignore[no-untyped-def]
    """The index of the next slash, or the end."""
    while at < end and data[at] != _SLASH:
        at += _u(1)
    return at


@_compiled
def _round(v0, v1, v2, v3):  # type: ignore[no-untyped-def]
    v0 += v1
    v2 += v3
    v1 = (v1 << _u(13) | v1 >> _u(51)) ^ v0
    v3 = (v3 << _u(16) | v3 >> _u(48)) ^ v2
    v0 = v0 << _u(32) | v0 >> _u(32)
    v2 += v1
    v0 += v3
    v1 = (v1 << _u(17) | v1 >> _u(47)) ^ v2
    v3 = (v3 << _u(21) | v3 >> _u(43)) ^ v0
    v2 = v2 << _u(32) | v2 >> _u(32)
    return v0, v1, v2, v3


@_compiled
def hashed(data, at, end, salt):  # type: ignore[no-untyped-def]
    """SipHash-1-3 of these bytes.

    Clients choose their ids. With an unkeyed hash, all ids could have one hash value, and each
    look-up would visit all of them.
    """
    v0 = salt[0] ^ _u(0x736F6D6570736575)
    v1 = salt[1] ^ _u(0x646F72616E646F6D)
    v2 = salt[0] ^ _u(0x6C7967656E657261)
    v3 = salt[1] ^ _u(0x7465646279746573)
    last = (end - at) << _u(56)
    while at + _u(8) <= end:
        word = _word(data, at)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ word)
        v0 ^= word
        at += _u(8)
    shift = _u(0)
    while at < end:
        last |= _u(data[at]) << shift
        shift += _u(8)
        at += _u(1)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3 ^ last)
    v0 ^= last
    v2 ^= _u(0xFF)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@_compiled
def _are_alike(data, at, end, other, begin, size):  # type: ignore[no-untyped-def]
    """Whether the bytes here begin with `size` bytes of another text."""
    if end - at < size:
        return False
    differ = np.uint8(0)
    for i in range(size):  # without a way out, so that it is done many at a time
        differ |= other[begin + i] ^ data[at + i]
    return differ == 0


@_compiled
def known_code(data, at, end, name, slots, pool, spans, hashes):  # type: ignore[no-untyped-def]
    """The code of these bytes, or -1; and the slot that holds it, or is free for it."""
    mask = _u(len(slots) - 1)
    slot = name & mask
    while True:
        code = slots[slot]
        if code < 0:
            return np.int32(-1), slot
        if (
            hashes[code] == name
            and spans[code, 1] - spans[code, 0] == end - at
            and _are_alike(data, at, end, pool, spans[code, 0], end - at)
        ):
            return code, slot
        slot = (slot + _u(1)) & mask


@_compiled
def _is_address(data, at, end):  # type: ignore[no-untyped-def]
    """Whether there are as many fields as in an address, with any content."""
    slashes = 0
    while at < end:
        slashes += data[at] == _SLASH
        at += _u(1)
    return slashes == _SLASHES


@_compiled
def intern(data, at, end, salt, slots, pool, used, spans, hashes, count):  # type: ignore[no-untyped-def]
    """The code of these bytes, which is assigned if they are new; -1 if there is no room.

    Indices are unsigned throughout: Python's, which may count from the end, are slower.
    """
    name = hashed(data, at, end, salt)
    code, slot = known_code(data, at, end, name, slots, pool, spans, hashes)
    if code >= 0:
        return code, count, used
    if count + 1 >= len(spans) or 2 * count >= len(slots) or used + (end - at) > _u(len(pool)):
        return np.int32(-1), count, used
    for i in range(end - at):
        pool[used + i] = data[at + i]
    spans[count, 0], spans[count, 1] = used, used + (end - at)
    hashes[count] = name
    slots[slot] = count
    return np.int32(count), count + 1, used + (end - at)


@_compiled
def intern_in(texts, data, at, end, salt):  # type: ignore[no-untyped-def]
    """The same in the arrays of a `TextCodes`."""
    slots, pool, spans, hashes, heads = texts
    code, heads[0], used = intern(
        data, at, end, salt, slots, pool, _u(heads[1]), spans, hashes, heads[0]
    )
    heads[1] = np.int64(used)
    return code


@_compiled
def look_up(texts, data, at, end, salt):  # type: ignore[no-untyped-def]
    """The code of these bytes in the arrays of a `TextCodes`, or -1."""
    slots, pool, spans, hashes, _ = texts
    name = hashed(data, at, end, salt)
    code, _ = known_code(data, at, end, name, slots, pool, spans, hashes)
    return code


@_compiled
def learn(  # type: ignore[no-untyped-def]
    known, until, addresses, salt, instances, clients, groups, claims, partition_max,
    table, topicless, claim_groups,
):  # fmt: skip
    """Split the addresses from `known` to before `until`; there must be room for their fields.

    The text of a claim is that of an address without its sender. A claim whose partition is not in
    the ordinary form has no code: -1.
    """
    _, data, spans, _, _ = addresses
    for address in range(known, until):
        begin, end = spans[address, 0], spans[address, 1]
        client_at = _slash(data, begin, end) + _u(1)
        group_at = _slash(data, client_at, end) + _u(1)
        topic_at = _slash(data, group_at, end) + _u(1)
        partition_at = _slash(data, topic_at, end) + _u(1)
        partition = _digits(data, partition_at, end)
        ordinary = (
            0 <= partition <= partition_max
            and (data[partition_at] != _ZERO or end - partition_at == _u(1))
        )  # fmt: skip
        group = intern_in(groups, data, group_at, topic_at - _u(1), salt)
        claim = np.int32(-1)
        if ordinary:
            claim = intern_in(claims, data, group_at, end, salt)
            claim_groups[claim] = group
        table[address, 0] = intern_in(instances, data, begin, client_at - _u(1), salt)
        table[address, 1] = intern_in(clients, data, client_at, group_at - _u(1), salt)
        table[address, 2] = group
        table[address, 3] = claim
        topicless[address] = ordinary and partition == 0 and partition_at - topic_at == _u(1)


@_compiled
def rehash(slots, hashes, count):  # type: ignore[no-untyped-def]
    """Put every known address into empty slots."""
    mask = np.uint64(len(slots) - 1)
    for code in range(count):
        slot = hashes[code] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = code


@_compiled
def _kind(data, at, end):  # type: ignore[no-untyped-def]
    for number, word in enumerate(_TYPES):
        if _begins_with(data, at, end, word):
            return number, len(word)
    return ODD, 0


@_compiled
def decode_values(  # type: ignore[no-untyped-def]
    row, data, offsets, valid,
    kind, version, unix_s, number, address,
    salt, slots, pool, used, spans, hashes, count, requests, after,
):  # fmt: skip
    """Decode from `row` on; stop if there is no room for another address.

    `requests`: whether to decode ClaimingRanges too. `after` holds, for every address, the one that
    followed it last. Claims alternate, and many records have the same second. So most records begin
    with the bytes of the record before, and continue with the address that followed last time.
    """
    last = -1
    head_at = head_size = _u(0)
    while row < len(kind):
        kind[row] = ODD
        begin, end = _u(offsets[row]), _u(offsets[row + 1])
        if last >= 0 and valid[row] and _are_alike(data, begin, end, data, head_at, head_size):
            code = after[address[last]]
            address_at, size = begin + head_size, spans[code, 1] - spans[code, 0]
            if (
                _are_alike(data, address_at, end, pool, spans[code, 0], size)
                and address_at + size < end
                and data[address_at + size] == _SLASH
            ):
                says_number = _digits(data, address_at + size + _u(1), end)
                if says_number >= 0:
                    kind[row] = kind[last]
                    version[row] = version[last]
                    unix_s[row] = unix_s[last]
                    number[row] = says_number
                    address[row] = code
                    last = row
                    row += 1
                    continue
        found, length = _kind(data, begin, end) if valid[row] else (ODD, 0)
        row += 1
        if found == ODD or (found == REQUEST and not requests):
            continue
        version_at = begin + _u(length)
        version_end = _slash(data, version_at, end)
        unix_s_end = _slash(data, version_end + _u(1), end)
        if unix_s_end >= end:
            continue
        # The bytes from here to the number, or to the end, are looked up as one.
        address_at = unix_s_end + _u(1)
        address_end = end
        if _HAS_NUMBER[found]:
            address_end = end - _u(1)
            while address_end > address_at and data[address_end] != _SLASH:
                address_end -= _u(1)
            if address_end <= address_at:
                continue
        says_version = _digits(data, version_at, version_end)
        says_unix_s = _digits(data, version_end + _u(1), unix_s_end)
        says_number = np.int64(0)
        if _HAS_NUMBER[found]:
            says_number = _digits(data, address_end + _u(1), end)
        if says_version < 0 or says_unix_s < 0 or says_number < 0:
            continue
        name = hashed(data, address_at, address_end, salt)
        code, _ = known_code(data, address_at, address_end, name, slots, pool, spans, hashes)
        if code < 0:
            if not _is_address(data, address_at, address_end):
                continue
            code, count, used = intern(
                data, address_at, address_end, salt, slots, pool, used, spans, hashes, count
            )
            if code < 0:
                return row - 1, count, used
        kind[row - 1] = found
        version[row - 1] = says_version
        unix_s[row - 1] = says_unix_s
        number[row - 1] = says_number
        address[row - 1] = code
        if _HAS_NUMBER[found]:
            if last >= 0:
                after[address[last]] = code
            last = row - 1
            head_at, head_size = begin, address_at - begin
    return row, count, used


@_compiled
def read_headers(  # type: ignore[no-untyped-def]
    lists, keys, fields, least, value_data, value_offsets, value_valid, present, found, odd
):
    """The `marshal-` headers of every row, and which rows have an odd one.

    `fields` holds, for every key, its column in `found`, OTHER or NO_MARSHAL; `least` the minimum
    of ordinary numbers of every column.
    """
    for row in range(_u(len(present))):
        for index in range(_u(lists[row]), _u(lists[row + _u(1)])):
            field = fields[_u(keys[index])]
            if field == NO_MARSHAL:
                continue
            present[row] = True
            if field == OTHER:
                continue
            number = np.int64(-1)
            if value_valid[index]:
                number = _digits(
                    value_data, _u(value_offsets[index]), _u(value_offsets[index + _u(1)])
                )
            if number < least[_u(field)]:
                odd[row] = True
            else:
                found[row, _u(field)] = number
