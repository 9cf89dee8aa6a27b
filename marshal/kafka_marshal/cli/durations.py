"""Parses durations and times: `90s`, `10m`, `1h30m`, `7d`; `2026-01-31 22:00:00`.

It does not know what an option is; `common` does.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Final

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_UNITS_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def milliseconds_of(text: str) -> int | None:
    """How long that is; None if it is no length of time. A number alone is seconds.

    >>> [milliseconds_of(text) for text in ("1h30m", "2.5s", "90", "x")]
    [5400000, 2500, 90000, None]
    """
    if re.fullmatch(r"\d+(\.\d+)?", text):
        text += "s"
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    found_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in parts)
    return round(found_ms) if math.isfinite(found_ms) else None


def duration_text(duration_ms: float) -> str:
    """In the two greatest units.

    >>> [duration_text(ms) for ms in (5_400_000, 86_400_000, 61_500, 2_500, 120)]
    ['1h 30m', '1d', '1m 1s', '2.5s', '0.1s']
    """
    if duration_ms < 10_000:
        return f"{max(duration_ms, 0) / 1000:.1f}".removesuffix(".0") + "s"
    left, words = int(duration_ms), []
    for unit in ("d", "h", "m", "s"):
        count, left = divmod(left, _UNITS_MS[unit])
        if count:
            words.append(f"{count}{unit}")
    return " ".join(words[:2])


def at(timestamp_ms: int) -> str:
    """A time as a person reads it, UTC; a producer may have stamped a record with any other.

    >>> at(0), at(2**63 - 1)
    ('1970-01-01 00:00:00', '9223372036854775807 ms')
    """
    try:
        return f"{_EPOCH + dt.timedelta(milliseconds=timestamp_ms):%Y-%m-%d %H:%M:%S}"
    except OverflowError:
        return f"{timestamp_ms} ms"
