"""The gaps between a sender's heartbeats, as `gaps` counts them. Not compiled."""

from __future__ import annotations

from typing import Final

from attrs import frozen

DIGITS: Final = 3
"""The number of leading digits by which silences are counted: precise enough for usual ones, with
few distinct values."""


@frozen
class Gaps:
    """The silences between the heartbeats of a run."""

    shortest_ms: int
    longest_ms: int
    over: int
    """The number of silences that are longer than the interval."""
    counts: dict[int, int]
    """By leading digits, the number of silences."""
