"""Counts the gaps between a sender's heartbeats, by length. Compiled."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from kafka_marshal.kernel.columns import Ints
from kafka_marshal.kernel.silences import DIGITS, Gaps

_MANTISSAS: Final = 10**DIGITS
_COUNTS: Final = np.zeros(20 * _MANTISSAS, np.int64)
"""All zero, except while counting."""


def gaps_of(clocks_ms: Ints, interval_ms: float) -> Gaps:
    """The silences between ascending times.

    A single time has none; then the shortest is infinite.
    """
    shortest, longest, over, lengths, counts = _counted(clocks_ms, interval_ms, _COUNTS)
    return Gaps(shortest, longest, over, dict(zip(lengths.tolist(), counts.tolist(), strict=True)))


@numba.njit(cache=True)
def _counted(clocks_ms, interval_ms, by_code):  # type: ignore[no-untyped-def]
    shortest, longest, over = np.int64(2**63 - 1), np.int64(0), 0
    codes = np.empty(len(clocks_ms), np.int64)
    lengths = np.empty(len(clocks_ms), np.int64)
    known = 0
    last, code = np.int64(-1), np.int64(0)
    for i in range(1, len(clocks_ms)):
        gap = clocks_ms[i] - clocks_ms[i - 1]
        shortest, longest = min(shortest, gap), max(longest, gap)
        over += gap > interval_ms
        if gap != last:
            grain, limit, magnitude = np.int64(1), np.int64(_MANTISSAS), np.int64(0)
            while gap >= limit:
                grain, limit, magnitude = grain * 10, limit * 10, magnitude + 1
            code = magnitude * _MANTISSAS + gap // grain
            if by_code[code] == 0:
                codes[known] = code
                lengths[known] = gap // grain * grain
                known += 1
            last = gap
        by_code[code] += 1
    counts = by_code[codes[:known]]
    by_code[codes[:known]] = 0
    return shortest, longest, over, lengths[:known], counts
