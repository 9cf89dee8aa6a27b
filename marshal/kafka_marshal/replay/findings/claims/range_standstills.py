"""Shared claims at a standstill: the lowest range is stuck while others go on beyond it.

An idle topic stands still, too: then all consumers hold ranges of messages that do not exist yet.
So a standstill counts only from the record that reports a higher offset as done. It starts over at
every win, because progress cannot be reported while ranges sleep.

This module knows when a standstill is certain. It writes no sentence.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
from attrs import define

from kafka_marshal.core.ranges.claiming_range import RangeOutcome, frontier_max, its_own
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import Unmet
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.replay.model.chunk_items import Ints
from kafka_marshal.replay.model.events import JudgedRecord
from kafka_marshal.replay.model.position_progress import REST_INTERVALS

_FROM: Final[Callable[[OpenRange | Interval], int]] = attrgetter("from_")
_BEFORE: Final = -1
"""In place of a request's number: the standstill began before all of them."""


class StandstillCause(enum.Enum):
    """Why a shared claim makes no progress. The value is the code of the finding."""

    STUCK_HOLDER = "stuck_holder"
    """The holder of the lowest range is alive and reports no progress in it, and the window is
    full."""
    STARVED_RANGE = "starved_range"
    """The lowest range is in the pool, and no live consumer asks for it."""


class LowestPiece(NamedTuple):
    """The range or interval that begins at the lowest offset that is not done."""

    offset: int
    piece: OpenRange | Interval | None
    """None: everything below the frontier is done."""

    @classmethod
    def of(cls, ranges: Ranges) -> LowestPiece:
        """The lowest piece of these ranges.

        >>> LowestPiece.of(Ranges(window=9, frontier=4)).offset
        4
        >>> LowestPiece.of(Ranges(9, 6, (OpenRange(1, 4, 6, "i"),), (Interval(2, 3),))).piece
        Interval(from_=2, to=3)
        """
        lowest: OpenRange | Interval | None = min(ranges.open, key=_FROM, default=None)
        if ranges.pool and (lowest is None or ranges.pool[0].from_ < lowest.from_):
            lowest = ranges.pool[0]  # it is in order
        return cls(ranges.frontier if lowest is None else lowest.from_, lowest)


@define
class LowestRange:
    """The lowest piece of a claim, and since when it has stood still."""

    piece: OpenRange | Interval
    since: JudgedRecord
    """The standstill began here, and a higher offset was reported as done."""
    reached: int
    """The highest offset below which any holder has reported all of its range as done."""
    words: int = 0
    """Accepted requests since: of its holder, or of anyone if it is in the pool."""
    spoken_ms: int = 0
    """When the last of them landed."""


class Standstills:
    """The lowest range of every shared claim of one coordinating partition, at least once."""

    def __init__(self) -> None:
        self._reached: dict[ClaimKey, int] = {}
        self._lowest: dict[ClaimKey, LowestRange] = {}

    def won(self, key: ClaimKey, *, anew: bool) -> None:
        """The claim was won, or its position was set; `anew`: the earlier ranges have ended."""
        self._lowest.pop(key, None)
        if anew:
            self._reached.pop(key, None)

    def numbers(self, key: ClaimKey) -> Ints:
        """The state of a claim in the form that `kernel.requests` continues with."""
        reached, lowest = self._reached.get(key, -1), self._lowest.get(key)
        if lowest is None:
            return np.array([reached, *[0] * 4, _BEFORE, *[0] * 3], np.int64)
        piece = lowest.piece
        id_ = piece.id if isinstance(piece, OpenRange) else -1
        since_ms = lowest.since.clock_ms
        return np.array(
            [reached, 1, id_, piece.from_, piece.to, _BEFORE, since_ms, lowest.words,
             lowest.spoken_ms], np.int64,
        )  # fmt: skip

    def went_on(
        self,
        key: ClaimKey,
        numbers: Ints,
        ranges: Ranges,
        sighting: Callable[[int], JudgedRecord],
    ) -> LowestRange | None:
        """Take the numbers back, after requests that led to these ranges.

        `sighting` returns one of the requests. Returns the lowest range, if it stands still.
        """
        reached, stands, _, _, _, since, _, words, spoken_ms = numbers.tolist()
        if reached >= 0:
            self._reached[key] = reached
        if not stands:
            self._lowest.pop(key, None)
            return None
        if since != _BEFORE:
            piece = LowestPiece.of(ranges).piece
            assert piece is not None
            self._lowest[key] = LowestRange(piece, sighting(since), reached)
        lowest = self._lowest[key]
        lowest.reached, lowest.words, lowest.spoken_ms = reached, words, spoken_ms
        return lowest

    def seen(
        self,
        sighting: JudgedRecord,
        record: RangesRecord,
        key: ClaimKey,
        before: Ranges,
        claim: Claim,
        outcome: RangeOutcome,
        lowest_piece: LowestPiece,
        rules: Rules,
    ) -> tuple[StandstillCause, LowestRange] | None:
        """Why the claim stands still, if that is certain after this accepted request.

        `lowest_piece` is that of the ranges after it.
        """
        after, low, piece = outcome.ranges, lowest_piece.offset, lowest_piece.piece
        reached = self._reached.get(key, -1)
        done = record.range_headers.done
        if done is not None and done > reached:
            reached = self._reached[key] = max([reached, *_reported(before, record, done)])
        if piece is None or reached <= low:
            self._lowest.pop(key, None)
            return None
        lowest = self._lowest.get(key)
        if lowest is None or lowest.piece != piece:
            self._lowest[key] = LowestRange(piece, sighting, reached)
            return None
        lowest.reached = reached
        if not isinstance(piece, OpenRange) or piece.instance == sighting.message.instance_id:
            lowest.words += 1
            lowest.spoken_ms = sighting.clock_ms
        rested_ms = lowest.spoken_ms - lowest.since.clock_ms
        if (
            lowest.words < REST_INTERVALS
            or rested_ms < REST_INTERVALS * rules.heartbeat_interval_ms
        ):
            return None
        if not isinstance(piece, OpenRange):
            return StandstillCause.STARVED_RANGE, lowest
        full = outcome.guard is Unmet.WINDOW_FULL and after.frontier >= frontier_max(after, claim)
        if full and claim.position == low:
            return StandstillCause.STUCK_HOLDER, lowest
        return None


def _reported(before: Ranges, record: RangesRecord, done: int) -> list[int]:
    """For each range that the record refers to, the offset below which it is done."""
    own = before.open_of(record.message.instance_id)
    return [min(done, each.to) for each in own if its_own(each, record) and done > each.from_]
