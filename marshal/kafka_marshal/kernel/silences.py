"""The gaps between a sender's heartbeats, as `gaps` counts them. Not compiled."""

from __future__ import annotations

from typing import Final

from attrs import frozen

DIGITS: Final = 3
"""Leading digits by which silences differ: enough for what is usual, and few enough to count."""


@frozen
class Gaps:
    """The silences between the heartbeats of a run."""

    shortest_ms: int
    longest_ms: int
    over: int
    """How many are longer than the interval."""
    counts: dict[int, int]
    """How many there are, by their first digits."""
