"""How fast a participant works, and how long a record takes to come back: what requests go by."""

from __future__ import annotations

from typing import Final

from attrs import define

_WINDOW_MS: Final = 200
"""A pace is measured over at least this long."""
_WEIGHT: Final = 0.3
"""How much the last measurement counts."""


@define
class Pace:
    """A measured pace, smoothed."""

    round_trip_ms: float = 20.0
    """From sending a record to reading it."""
    _per_ms: float | None = None
    _counted: int = 0
    _since_ms: int | None = None

    @property
    def known(self) -> bool:
        """It has measured something."""
        return self._per_ms is not None

    def heard_after(self, ms: int) -> None:
        """A record came back after this long."""
        self.round_trip_ms += _WEIGHT * (max(1, ms) - self.round_trip_ms)

    def finished(self, count: int, now_ms: int) -> None:
        """As many messages were finished since the last call."""
        if self._since_ms is None:
            self._since_ms = now_ms
        self._counted += count
        passed_ms = now_ms - self._since_ms
        if passed_ms >= _WINDOW_MS:
            measured = self._counted / passed_ms
            before = self._per_ms
            self._per_ms = measured if before is None else before + _WEIGHT * (measured - before)
            self._counted, self._since_ms = 0, now_ms

    def messages_in(self, ms: float) -> int:
        """As many messages at this pace."""
        return 0 if self._per_ms is None else int(self._per_ms * ms)
