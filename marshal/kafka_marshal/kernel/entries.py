"""Reads length-prefixed byte strings that are stored one after another. Compiled."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

_LENGTH_BYTES: Final = 4


def longest_entry(data: memoryview) -> int:
    """The length of the longest string; lengths are unsigned 32-bit little-endian integers."""
    return int(_longest(np.frombuffer(data, np.uint8)))


@numba.njit(cache=True, nogil=True)
def _longest(data):  # type: ignore[no-untyped-def]
    longest, at = np.int64(0), np.int64(0)
    while at <= len(data) - _LENGTH_BYTES:
        size = np.int64(0)
        for place in range(_LENGTH_BYTES):
            size |= np.int64(data[at + place]) << (8 * place)
        longest = max(longest, size)
        at += _LENGTH_BYTES + size
    return longest
