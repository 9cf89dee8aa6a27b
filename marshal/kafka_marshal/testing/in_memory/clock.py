"""The clocks of a machine, which run with those of this one and can be moved."""

from __future__ import annotations

import time

from attrs import define, field


@define(eq=False)
class Clock:
    """Runs with the machine's, and can be moved."""

    ahead_s: float = 0.0
    """By how much both clocks were moved on, in seconds."""
    stands: bool = False
    """It does not run with the machine's: only `advance` moves it."""
    wall_s: float = 0.0
    """By how much the machine's date was set, in seconds."""
    _began_unix_ms: int = 1_700_000_000_000
    _began_s: float = field(init=False)

    @_began_s.default
    def _begin_s(self) -> float:
        return 1_000.0 if self.stands else time.monotonic()

    def advance(self, seconds: float) -> None:
        """Move both clocks on."""
        self.ahead_s += seconds

    def monotonic(self) -> float:
        """Seconds, from wherever."""
        return (self._began_s if self.stands else time.monotonic()) + self.ahead_s

    def unix_ms(self) -> int:
        """The machine's date, in unix milliseconds."""
        return int(self._began_unix_ms + 1000 * (self.monotonic() - self._began_s + self.wall_s))
