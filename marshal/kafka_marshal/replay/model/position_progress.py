"""How an owner's position moves: the first one, the last move, and the standstills.

Nearly every record of a log is a heartbeat that moves the position or does not. So a tenure keeps a
few numbers, and a record changes them in constant time. `findings.movement` reports anomalies.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from attrs import define, field

REST_INTERVALS: Final = 5
"""The number of heartbeat intervals for which a position must stand still to count as a rest."""


class PositionReport(NamedTuple):
    """An owner's record, and the position after it."""

    position: int
    clock_ms: int
    offset: int


class Standstill(NamedTuple):
    """A period in which the owner sent records and the position stood still."""

    since: PositionReport
    """The record with which the position last changed."""
    until_ms: int
    """The time of the owner's last record with that position."""

    @property
    def lasted_ms(self) -> int:
        """The duration."""
        return self.until_ms - self.since.clock_ms


@define
class PositionProgress:
    """The movement of one tenure's position.

    Records come one by one (`word`), or many at once (`run`); the result is the same.
    """

    rest_ms: float
    """A standstill of at least this length is a rest."""
    began: PositionReport | None = None
    """The first known position; None while no record had one (a new claim's position is 0)."""
    moved: PositionReport | None = None
    """The last record that changed the position, or the first that had it."""
    longest_rest: Standstill | None = None
    """The longest rest that has ended."""
    brisk_from_ms: int = 0
    """The beginning of the current period without a rest."""
    longest_brisk: tuple[int, int] = field(default=(0, 0))
    """The longest finished period without a rest: its beginning and its end."""

    @classmethod
    def of_win(cls, rest_ms: float, word: PositionReport, stated: bool) -> PositionProgress:
        """A tenure begins. `stated`: its first record, or an earlier one, had the position."""
        pace = cls(rest_ms)
        if stated:
            pace.began = pace.moved = word
            pace.brisk_from_ms = word.clock_ms
        return pace

    def word(self, position: int, last_ms: int, clock_ms: int, offset: int) -> None:
        """The owner's next record; `last_ms` is the clock at the one before."""
        moved = self.moved
        if moved is None or position != moved.position:
            word = PositionReport(position, clock_ms, offset)
            if moved is not None and last_ms - moved.clock_ms < self.rest_ms:
                self.moved = word  # what `run` comes to, at half the price
            else:
                self.run(last_ms, word, word)

    def run(self, still_until_ms: int, first: PositionReport, last: PositionReport) -> None:
        """Several records of the owner; `first` and `last` are those that change the position.

        A run without a change needs no call. The standstill before the run ended with it: it lasted
        from `moved` until `still_until_ms`, the clock at the owner's last record before `first`.
        The current standstill began with `last`. This is exact if the position never stood still
        for `rest_ms` between `first` and `last`. That is certain if `last.clock_ms - first.clock_ms
        < rest_ms`: otherwise divide the run, or cut it at its rests.
        """
        if self.moved is None:
            self.began, self.brisk_from_ms = first, first.clock_ms
        else:
            rest = Standstill(self.moved, still_until_ms)
            if rest.lasted_ms >= self.rest_ms:
                if self.longest_rest is None or rest.lasted_ms > self.longest_rest.lasted_ms:
                    self.longest_rest = rest
                self.longest_brisk = self._longest_brisk(rest.since.clock_ms)
                self.brisk_from_ms = first.clock_ms
        self.moved = last

    def _longest_brisk(self, until_ms: int) -> tuple[int, int]:
        begin, end = self.longest_brisk
        if until_ms - self.brisk_from_ms > end - begin:
            return self.brisk_from_ms, until_ms
        return begin, end

    def rest_at(self, last_ms: int) -> Standstill | None:
        """The longest rest, including the current one, which lasts until `last_ms`."""
        rest = self.longest_rest
        if self.moved is not None:
            lasting = Standstill(self.moved, last_ms)
            if lasting.lasted_ms >= self.rest_ms and (
                rest is None or lasting.lasted_ms > rest.lasted_ms
            ):
                return lasting
        return rest

    def brisk(self) -> tuple[tuple[int, int], ...]:
        """Periods without a rest: the longest finished one, and the last one."""
        if self.moved is None:
            return ()
        return self.longest_brisk, (self.brisk_from_ms, self.moved.clock_ms)
