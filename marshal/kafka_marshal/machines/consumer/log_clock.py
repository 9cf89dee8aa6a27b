"""Estimates the current time of a coordinating partition's log, from what its reader knows.

Brokers date the records, and the reducer judges by these timestamps alone: when an owner is stale,
or a pause is over. A machine that waits for such a moment uses a steady clock, which never steps
and may start anywhere. This module converts between the two: the last record read gives the log's
time, and the steady clock measures how long ago that was. The wall clock of the machine is not
used, so a wrong one delays nothing.

>>> clock = LogClock()
>>> clock.read(1_800_000_000_000, now_ms=-50)
0
>>> clock.own_ms(1_800_000_120_000)
119950
"""

from __future__ import annotations

from typing import Final

from attrs import define

AT_ONCE: Final = -(2**62)
"""A time before every value of a steady clock."""


@define
class LogClock:
    """The clock of one coordinating partition."""

    current: bool = False
    """Whether it equals the broker's clock: true after a record was read that was appended after
    the log had been read to its end. Before that it may be late by the age of the last record."""
    _own_ahead_ms: int | None = None
    """The steady clock minus the log's clock; None before the first record."""
    _end_was_read: bool = False

    def read(self, timestamp_ms: int, now_ms: int) -> int:
        """Read the next record. Returns by how much the estimate has increased, in ms; 0 if not.

        The last record counts, even if it is older than one before it. If a broker's clock was
        ahead and has been corrected, it is right now, and no owner counts as silent because of
        that.
        """
        before, self._own_ahead_ms = self._own_ahead_ms, now_ms - timestamp_ms
        self.current = self._end_was_read
        return 0 if before is None else max(0, before - self._own_ahead_ms)

    def caught_up(self) -> None:
        """The log was read to its end."""
        self._end_was_read = True

    def borrow(self, other: LogClock) -> bool:
        """Be at least as late as the clock of another partition; True if that changes the estimate.

        For a clock that is not current: brokers' clocks differ by less than the possible age of its
        last record.
        """
        own, others = self._own_ahead_ms, other._own_ahead_ms
        if own is None or others is None or others >= own:
            return False
        self._own_ahead_ms = others
        return True

    def own_ms(self, log_ms: int) -> int:
        """When the log's clock reaches this time, by the steady clock; AT_ONCE at first."""
        return AT_ONCE if self._own_ahead_ms is None else log_ms + self._own_ahead_ms
