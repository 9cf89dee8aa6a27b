"""Formats times and durations for readers, and chooses the ticks of a time axis. All in UTC."""

from __future__ import annotations

import datetime
from typing import Final

from attrs import frozen

from kafka_marshal.markup import js_int

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28, 91, 365)),
)
"""Usual distances between ticks of a time axis."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _datetime(ms: int) -> datetime.datetime | None:
    """None outside the years 1 to 9999: a record may carry any 64-bit number."""
    try:
        return _EPOCH + datetime.timedelta(milliseconds=ms)
    except OverflowError:
        return None


def moment(ms: int | None) -> str:
    """Date and time to the millisecond.

    >>> moment(1795219134206)
    '2026-11-20 23:58:54.206'
    """
    if ms is None:
        return "–"
    when = _datetime(ms)
    if when is None:
        return f"{ms} ms"
    return f"{when:%Y-%m-%d %H:%M:%S}.{when.microsecond // 1000:03d}"


def time_of_day(ms: int) -> str:
    """Time to the millisecond, for tables whose heading has the date.

    >>> time_of_day(1795219134206)
    '23:58:54.206'
    """
    return moment(ms).partition(" ")[2] if _datetime(ms) else moment(ms)


def span(from_ms: int | None, to_ms: int | None) -> str:
    """Begin, end and duration, without repeating the date.

    >>> span(1795219114674, 1795219164085)
    '2026-11-20 23:58:34 to 23:59:24 UTC (49 s)'
    """
    if from_ms is None or to_ms is None:
        return "no time"
    if _datetime(from_ms) is None or _datetime(to_ms) is None:
        return between(from_ms, to_ms)
    return f"{between(from_ms, to_ms)} UTC ({duration(to_ms - from_ms)})"


def between(from_ms: int, to_ms: int) -> str:
    """Begin and end, to the second.

    >>> between(1795219114674, 1795219164085), between(1795219114674, 1795219114999)
    ('2026-11-20 23:58:34 to 23:59:24', '2026-11-20 23:58:34')
    """
    start, end = _datetime(from_ms), _datetime(to_ms)
    if start is None or end is None:
        return f"{from_ms} ms to {to_ms} ms"
    if from_ms // _SECOND == to_ms // _SECOND:
        return f"{start:%Y-%m-%d %H:%M:%S}"
    last = f"{end:%H:%M:%S}" if start.date() == end.date() else f"{end:%Y-%m-%d %H:%M:%S}"
    return f"{start:%Y-%m-%d %H:%M:%S} to {last}"


def duration(ms: int) -> str:
    """A duration in its two largest units.

    >>> [duration(ms) for ms in (0, 850, -7230, 49411, 203768, 7_500_000, 200_000_000)]
    ['0 ms', '850 ms', '−7.2 s', '49 s', '3 min 24 s', '2 h 5 min', '2 d 8 h']
    """
    sign, ms = ("−", -ms) if ms < 0 else ("", ms)
    if ms < _SECOND:
        return f"{sign}{ms} ms"
    if ms < 10 * _SECOND:
        return f"{sign}{ms / _SECOND:.1f} s"
    for unit, below, big, small in (
        (_SECOND, _MINUTE, "s", ""),
        (_SECOND, _HOUR, "min", "s"),
        (_MINUTE, _DAY, "h", "min"),
    ):
        if ms < below - unit // 2:
            count = (ms + unit // 2) // unit
            if not small:
                return f"{sign}{count} {big}"
            return _two(sign, *divmod(count, 60), big, small)
    return _two(sign, *divmod((ms + _HOUR // 2) // _HOUR, 24), "d", "h")


def _two(sign: str, many: int, rest: int, big: str, small: str) -> str:
    tail = f" {rest} {small}" if rest and many < 1000 else ""
    return f"{sign}{many:,} {big}{tail}"


@frozen
class Axis:
    """A time span mapped to a width of 100 %."""

    from_ms: int
    to_ms: int

    @classmethod
    def around(cls, from_ms: int, to_ms: int) -> Axis:
        """With a margin, so that glyphs at the ends are not cut."""
        length = max(to_ms - from_ms, 1)
        margin = max(length // 50, 1)
        return cls(from_ms - margin, to_ms + margin)

    def fraction(self, ms: int) -> float:
        """The position of a time, 0 to 1; times outside are moved to the edge."""
        length = self.to_ms - self.from_ms
        return min(max((ms - self.from_ms) / length, 0.0), 1.0)

    def percent(self, ms: int) -> str:
        """`fraction` as an SVG length."""
        return f"{100 * self.fraction(ms):.3f}".rstrip("0").rstrip(".") + "%"

    def ticks(self, ticks_max: int = 9) -> list[tuple[int, str]]:
        """Round times and their labels, at most `ticks_max`.

        >>> Axis(1795219114674, 1795219164085).ticks(3)
        [(1795219140000, '23:59:00')]
        """
        length = self.to_ms - self.from_ms
        step = next((s for s in STEPS_MS if length // s < ticks_max), None)
        if step is None:
            step = STEPS_MS[-1] * (length // (STEPS_MS[-1] * ticks_max) + 1)
        first = -(-self.from_ms // step) * step
        return [(ms, _tick_label(ms, step)) for ms in range(first, self.to_ms + 1, step)]

    @property
    def json(self) -> list[str | int | None]:
        """Both ends, for the script, which draws finer ticks after zooming in."""
        return [js_int(self.from_ms), js_int(self.to_ms)]


def _tick_label(ms: int, step: int) -> str:
    when = _datetime(ms)
    if when is None:
        return f"{ms:.3e}"
    if step >= _DAY:
        return f"{when.day} {when:%b}" if step < 300 * _DAY else f"{when:%b} {when.year}"
    if ms % _DAY == 0 and step >= _HOUR:
        return f"{when.day} {when:%b}"
    if step >= _MINUTE:
        return f"{when:%H:%M}"
    if step >= _SECOND:
        return f"{when:%H:%M:%S}"
    return f"{when:%H:%M:%S}.{when.microsecond // 1000:03d}"
