"""Estimates the current time of a coordinating partition's log, from what its reader knows.

Brokers date the records, and the reducer judges by these dates alone: when an owner is stale, when
a pause is over. A machine that waits for such a moment counts with a steady clock of its own, which
never steps and may start anywhere. This room translates: the last record that was read says what
time the log had, and the steady clock says how long ago that was. The machine's wall clock never
enters, so one that is set wrong delays nothing.

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
"""A time before everything that a steady clock shows."""


@define
class LogClock:
    """The clock of one coordinating partition."""

    current: bool = False
    """It shows what the broker's clock shows: a record was read that came after the log had been
    read to its end. Before that it may be late by as long as the last record has lain there."""
    _own_ahead_ms: int | None = None
    """The own clock minus the log's; None before the first record."""
    _end_was_read: bool = False

    def read(self, timestamp_ms: int, now_ms: int) -> int:
        """The next record was read. Returns how much later it is than it seemed, in ms, if at all.

        The last record counts, even if it is older than one before it. A broker's clock that was
        ahead and was put right is right now, and nobody counts as silent because of that.
        """
        before, self._own_ahead_ms = self._own_ahead_ms, now_ms - timestamp_ms
        self.current = self._end_was_read
        return 0 if before is None else max(0, before - self._own_ahead_ms)

    def caught_up(self) -> None:
        """The log was read to its end."""
        self._end_was_read = True

    def borrow(self, other: LogClock) -> bool:
        """Be at least as late as the clock of another partition; True if that changes it.

        For a clock that is not current: brokers' clocks differ by less than the time for which a
        record may have lain there.
        """
        own, others = self._own_ahead_ms, other._own_ahead_ms
        if own is None or others is None or others >= own:
            return False
        self._own_ahead_ms = others
        return True

    def own_ms(self, log_ms: int) -> int:
        """When the log's clock comes to this, by the own clock; AT_ONCE before any record."""
        return AT_ONCE if self._own_ahead_ms is None else log_ms + self._own_ahead_ms
