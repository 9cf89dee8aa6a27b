"""A claim whose owner goes on: what its next heartbeats are added to, and their sum.

`RulesetFold` says how a claim stands, the kernel adds up the heartbeats that change nothing else
(`kernel.ordinary`), and `RulesetFold` takes the sum. This room folds nothing.
"""

from __future__ import annotations

from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.messages import Record
from kafka_marshal.replay.model.position_progress import PositionReport


@frozen
class BookStanding:
    """How a claim stands in the books of one rule set, after a heartbeat that its owner sent."""

    rest_ms: float
    """A position that moves again after it stood still for this time ended a standstill."""
    moved_ms: int
    """The clock when the position moved last."""
    beat_ms: int | None
    """The clock at the last heartbeat to be drawn; None: no more are drawn."""


@frozen
class Standing:
    """How a claim stands after a heartbeat, where its owner's next ones may be ordinary."""

    interval_ms: float
    """By which it is judged."""
    counts_silences: bool
    """Whether its silences say how well the interval fits."""
    missed_ms: float
    """A longer silence is reported."""
    grain_ms: float
    """Heartbeats that are closer together are drawn as one."""
    clock_ms: int
    books: tuple[BookStanding, ...]


@frozen
class WentOn:
    """The sum of ordinary heartbeats about one claim."""

    raw: RawRecord
    """The last of them."""
    record: Record
    clock_ms: int
    """The clock at the last of them."""
    count: int
    longest_ms: int
    """The longest silence, that before the first among them."""
    interval_ms: float
    moved: PositionReport | None
    """The last to move the position; None: none did."""
