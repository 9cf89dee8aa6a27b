"""Measures a participant's speed and the log's delay, on which its requests depend."""

from __future__ import annotations

from typing import Final

from attrs import define

_MEASURED_MS: Final = 20
"""The shortest working time over which a pace is measured."""
_WEIGHT: Final = 0.3
"""The weight of the latest measurement."""


@define
class Pace:
    """A measured pace, smoothed."""

    round_trip_ms: float = 20.0
    """The time from sending a record to reading it."""
    _per_ms: float | None = None
    _counted: int = 0
    _busy_ms: int = 0
    """The working time since the last measurement."""
    _busy_since_ms: int | None = None

    @property
    def known(self) -> bool:
        """Whether anything was measured."""
        return self._per_ms is not None

    def heard_after(self, ms: int) -> None:
        """A record was read back after this time."""
        self.round_trip_ms += _WEIGHT * (max(1, ms) - self.round_trip_ms)

    def finished(self, count: int) -> None:
        """This many messages were finished since the last call. Call `looked` next."""
        self._counted += count

    def looked(self, now_ms: int, *, is_busy: bool) -> None:
        """Whether messages are in flight from now on. Idle time does not count."""
        if self._busy_since_ms is not None:
            self._busy_ms += now_ms - self._busy_since_ms
        self._busy_since_ms = now_ms if is_busy else None
        if self._busy_ms >= _MEASURED_MS and self._counted:
            measured = self._counted / self._busy_ms
            before = self._per_ms
            self._per_ms = measured if before is None else before + _WEIGHT * (measured - before)
            self._counted = self._busy_ms = 0

    def messages_in(self, ms: float) -> int:
        """The number of messages in this time, at this pace."""
        return 0 if self._per_ms is None else int(self._per_ms * ms)
