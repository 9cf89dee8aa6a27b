"""Estimates when a record was written, from its message, for dumps without timestamps.

A message holds its sender's clock in whole seconds. A value that is no message has no time; it gets
that of the record before it, or of the first one after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.replay.sources.columns import Cells

NO_TIME: Final = -(2**63)
"""Marks a missing timestamp."""
TIME_OF_MESSAGE: Final = (
    "it does not say when a record was appended, so each message's own time was taken: its "
    "sender's clock, in whole seconds. Who was stale when was judged by that."
)
_MS_MAX: Final = 2**53
"""The largest accepted time; a message may state more."""


def timed(rows: Iterable[Cells]) -> Iterator[Cells]:
    """Yield the rows, each with a time."""
    last: int | None = None
    waiting: list[Cells] = []
    for row in rows:
        if row[2] != NO_TIME:
            last = row[2]
        else:
            stated_ms = _stated_ms(row[4])
            last = last if stated_ms is None else stated_ms
            if last is None:
                waiting.append(row)
                continue
            row = (*row[:2], last, *row[3:])
        yield from ((*early[:2], last, *early[3:]) for early in waiting)
        waiting = []
        yield row
    yield from ((*early[:2], 0, *early[3:]) for early in waiting)


def _stated_ms(value: bytes | None) -> int | None:
    """The unix milliseconds that a message states."""
    try:
        stated_ms = decode(value).unix_s * 1000
    except MalformedRecord:
        return None
    return stated_ms if abs(stated_ms) < _MS_MAX else None
