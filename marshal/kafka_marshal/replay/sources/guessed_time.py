"""Estimates when a record was written, from its message, for dumps without timestamps.

A message holds its sender's clock in whole seconds. A value that is no message has none; it gets
the time of the record before it, or after it if there is none before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.replay.sources.columns import Cells

NO_TIME: Final = -(2**63)
"""A timestamp that is missing."""
TIME_OF_MESSAGE: Final = (
    "it does not say when a record was appended, so each message's own time was taken: its "
    "sender's clock, in whole seconds. Who was stale when was judged by that."
)
_MS_MAX: Final = 2**53
"""No clock says more; a message may."""


def timed(rows: Iterable[Cells]) -> Iterator[Cells]:
    """The rows, each with a time."""
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
    """Unix milliseconds that a message says."""
    try:
        stated_ms = decode(value).unix_s * 1000
    except MalformedRecord:
        return None
    return stated_ms if abs(stated_ms) < _MS_MAX else None
