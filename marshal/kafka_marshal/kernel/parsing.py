"""Bytes of values and headers to numbers, compiled: what `columns` is made with.

It takes what is written the ordinary way and says of the rest that it is odd; what that means is
for `codec` to say.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

CLAIMING_PARTITION: Final = 1
ODD: Final = -2
"""Not written the ordinary way."""

TYPES: Final = (
    b"Heartbeat",
    b"ClaimingPartition",
    b"ReleasingPartition",
    b"ClaimingMessages",
    b"ReleaseGroup",
)
"""Every type of message, by its number."""
_TYPES: Final = tuple(np.frombuffer(kind + b"/", dtype=np.uint8) for kind in TYPES)
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
def intern(data, at, end, slots, pool, used, spans, hashes, count):  # type: ignore[no-untyped-def]
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
    return ODD, 0


@_compiled
def decode_values(  # type: ignore[no-untyped-def]
    row, data, offsets, valid,
    kind, version, unix_s, number, address,
    slots, pool, used, spans, hashes, count,
):  # fmt: skip
    """Decode from `row` on; stop where there is no room for another address."""
    cuts = np.empty(8, np.int64)
    while row < len(kind):
        kind[row] = ODD
        at, end = offsets[row], offsets[row + 1]
        found, length = _kind(data, at, end) if valid[row] else (ODD, 0)
        if found == ODD:
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
        code, count, used = intern(
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
def read_headers(  # type: ignore[no-untyped-def]
    lists, key_data, key_offsets, value_data, value_offsets, value_valid, present, found, odd
):
    """The `marshal-` headers of every row, and which rows have one that is odd."""
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
