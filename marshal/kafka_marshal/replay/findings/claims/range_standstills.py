"""Shared claims that stand still: the lowest range does, and others are processed beyond it.

An idle topic stands still, too: everybody holds ranges of messages that do not exist yet. So a
standstill counts only from the record on by which somebody has reported a higher offset as done. It
begins anew at every win, because what is done while ranges sleep nobody can report.

This room knows when a standstill is certain. It writes no sentence.
"""

from __future__ import annotations

import enum

from attrs import define

from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.claiming_range import RangeOutcome, frontier_max, its_own
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import Unmet
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.replay.model.events import JudgedRecord
from kafka_marshal.replay.model.position_progress import REST_INTERVALS


class StandstillCause(enum.Enum):
    """Why a shared claim gets no further. The value is the code of the finding."""

    STUCK_HOLDER = "stuck_holder"
    """Who holds the lowest range lives and reports nothing of it, and the window is full."""
    STARVED_RANGE = "starved_range"
    """The lowest range lies in the pool, and of those that live nobody asks."""


@define
class LowestRange:
    """The range that begins at the lowest offset that is not done, since it stands still."""

    piece: OpenRange | Interval
    since: JudgedRecord
    """From here on it stands still, and a higher offset was reported as done."""
    reached: int
    """The highest offset below which anybody has reported everything of a range as done."""
    words: int = 0
    """Accepted requests since: of its holder, or of anybody if it lies in the pool."""
    spoken_ms: int = 0
    """When the last of them landed."""


class Standstills:
    """The lowest range of every shared claim of one coordinating partition, at least once."""

    def __init__(self) -> None:
        self._reached: dict[ClaimKey, int] = {}
        self._lowest: dict[ClaimKey, LowestRange] = {}

    def won(self, key: ClaimKey, *, anew: bool) -> None:
        """Somebody won the claim, or set its position; `anew`: the ranges before it have ended."""
        self._lowest.pop(key, None)
        if anew:
            self._reached.pop(key, None)

    def seen(
        self,
        sighting: JudgedRecord,
        record: RangesRecord,
        message: ClaimingRange,
        before: Ranges,
        claim: Claim,
        outcome: RangeOutcome,
        rules: Rules,
    ) -> tuple[StandstillCause, LowestRange] | None:
        """Why the claim stands still, if after this accepted request that is certain."""
        key, after = message.key, outcome.ranges
        reached = max(self._reached.get(key, -1), *_reported(before, record), -1)
        self._reached[key] = reached
        low = after.low
        piece = _at(after, low)
        if after.window == 0 or piece is None or reached <= low:
            self._lowest.pop(key, None)
            return None
        lowest = self._lowest.get(key)
        if lowest is None or lowest.piece != piece:
            self._lowest[key] = LowestRange(piece, sighting, reached)
            return None
        lowest.reached = reached
        if not isinstance(piece, OpenRange) or piece.instance == message.instance_id:
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


def _reported(before: Ranges, record: RangesRecord) -> list[int]:
    """Of each range that the record speaks of, below which offset it is done."""
    done = record.range_headers.done
    if done is None:
        return []
    own = before.open_of(record.message.instance_id)
    return [min(done, each.to) for each in own if its_own(each, record) and done > each.from_]


def _at(ranges: Ranges, low: int) -> OpenRange | Interval | None:
    """What begins at this offset and is not done; None if nothing is."""
    pieces: list[OpenRange | Interval] = [*ranges.open, *ranges.pool]
    for piece in pieces:
        if piece.from_ == low:
            return piece
    return None
