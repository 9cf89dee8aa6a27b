"""A machine's clocks: they follow the real ones, and a test can move them."""

from __future__ import annotations

import time

from attrs import define, field


@define(eq=False)
class Clock:
    """A clock that follows the machine's, and can be moved."""

    ahead_s: float = 0.0
    """How far both clocks were moved forward, in seconds."""
    stands: bool = False
    """If true, the clock is stopped, and only `advance` moves it."""
    wall_s: float = 0.0
    """How far the machine's date was set forward, in seconds."""
    _drift: float = 0.0
    _since_s: float = 0.0
    _began_unix_ms: int = 1_700_000_000_000
    _began_s: float = field(init=False)

    @_began_s.default
    def _begin_s(self) -> float:
        return 1_000.0 if self.stands else time.monotonic()

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self.ahead_s += seconds

    def monotonic(self) -> float:
        """Seconds of a steady clock, which may start anywhere."""
        return (self._began_s if self.stands else time.monotonic()) + self.ahead_s

    def drift(self, drift: float) -> None:
        """From now on the machine's date gains this many seconds per second."""
        now_s = self.monotonic()
        self.wall_s += self._drift * (now_s - self._since_s)
        self._drift, self._since_s = drift, now_s

    @property
    def date_ahead_s(self) -> float:
        """How far its date is ahead now, in seconds."""
        if not self._drift:
            return self.wall_s
        return self.wall_s + self._drift * (self.monotonic() - self._since_s)

    def unix_ms(self) -> int:
        """The machine's date, in unix milliseconds."""
        past_s = self.monotonic() - self._began_s
        return int(self._began_unix_ms + 1000 * (past_s + self.date_ahead_s))


@define(eq=False)
class ClockBeside(Clock):
    """The clock of another machine: it runs like the given one, but its date can differ."""

    of: Clock = field(kw_only=True)

    def advance(self, seconds: float) -> None:
        """Move the clock forward, and the given one with it."""

    def monotonic(self) -> float:
        """Seconds of a steady clock, which may start anywhere."""
        return self.of.monotonic()

    def unix_ms(self) -> int:
        """Its date, in unix milliseconds."""
        return self.of.unix_ms() + int(1000 * self.date_ahead_s)
