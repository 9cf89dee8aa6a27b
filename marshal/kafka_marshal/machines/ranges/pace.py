"""Measures a participant's speed and the log's delay, on which its requests depend."""

from __future__ import annotations

from typing import Final

from attrs import define

_MEASURED_MS: Final = 20
"""A pace is measured over at least this much work."""
_WEIGHT: Final = 0.3
"""How much the last measurement counts."""


@define
class Pace:
    """A measured pace, smoothed."""

    round_trip_ms: float = 20.0
    """From sending a record to reading it."""
    _per_ms: float | None = None
    _counted: int = 0
    _busy_ms: int = 0
    """How long something was in hand since it was last measured."""
    _busy_since_ms: int | None = None

    @property
    def known(self) -> bool:
        """It has measured something."""
        return self._per_ms is not None

    def heard_after(self, ms: int) -> None:
        """A record came back after this long."""
        self.round_trip_ms += _WEIGHT * (max(1, ms) - self.round_trip_ms)

    def finished(self, count: int) -> None:
        """As many messages were finished since the last call. `looked` follows."""
        self._counted += count

    def looked(self, now_ms: int, *, is_busy: bool) -> None:
        """Whether something is in hand from now on. Time without counts for nothing."""
        if self._busy_since_ms is not None:
            self._busy_ms += now_ms - self._busy_since_ms
        self._busy_since_ms = now_ms if is_busy else None
        if self._busy_ms >= _MEASURED_MS and self._counted:
            measured = self._counted / self._busy_ms
            before = self._per_ms
            self._per_ms = measured if before is None else before + _WEIGHT * (measured - before)
            self._counted = self._busy_ms = 0

    def messages_in(self, ms: float) -> int:
        """As many messages at this pace."""
        return 0 if self._per_ms is None else int(self._per_ms * ms)
