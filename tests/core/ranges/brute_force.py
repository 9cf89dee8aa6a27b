"""The ranges of a claim once more, offset by offset: slow, and written without `core.ranges`.

It is written from the design's sentences. It keeps a cell for each offset below the frontier and
no interval at all, so it shares no arithmetic with the reducer that it is compared with.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count, groupby

import attrs

from kafka_marshal import Claim, ClaimingPartition
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, Ranges

WINS = {"claimed", "reclaimed", "restarted", "took_over", "fast_reclaimed"}


@attrs.frozen
class Piece:
    """What an offset belongs to: a range of its holder or, without one, an interval of the pool."""

    number: int
    holder: str | None = None


@attrs.define
class Cells:
    """The ranges of one claim."""

    limits: Limits
    stale_after_ms: float
    window: int | None = None
    frontier: int = 0
    cells: dict[int, Piece] = attrs.Factory(dict)
    """Of every offset that is not done."""
    heard: dict[str, int] = attrs.Factory(dict)
    clock_ms: int = -1
    _numbers: Iterable[int] = attrs.field(factory=lambda: count(), init=False)

    def old(self, record: RangesRecord, position: int, verdict: str) -> None:
        """One of the five messages, after it did to the claim what its verdict says."""
        self.clock_ms = max(self.clock_ms, record.timestamp_ms)
        wanted = record.range_headers.window
        shares = isinstance(record.message, ClaimingPartition) and (wanted or 0) >= 0
        begins = verdict in WINS and shares and wanted is not None
        if begins and wanted == self.window:
            return
        if verdict in WINS or verdict == "position_set":
            self.window, self.frontier = (wanted, position) if begins else (None, 0)
            self.cells.clear()
            self.heard.clear()

    def new(self, claim: Claim, record: RangesRecord) -> tuple[str, str | None]:
        """A ClaimingRange: its verdict, and why it was granted nothing."""
        message, said = record.message, record.range_headers
        assert isinstance(message, ClaimingRange)
        if claim != Claim():
            self.clock_ms = max(self.clock_ms, record.timestamp_ms)
        me, seen = message.instance_id, record.headers.seen
        refusal = self.refusal(claim, record, message)
        if refusal is None or (refusal == "no_range_tenure" and self.holds(me)):
            self.heard[me] = self.clock_ms
        if refusal is not None:
            return refusal, None
        mine = [
            offset
            for offset, piece in self.cells.items()
            if piece.holder == me and seen is not None and piece.number <= seen
        ]
        for offset in mine:
            if said.done is not None and offset < said.done:
                del self.cells[offset]
        if said.keep is not None:
            self.give_back([o for o in mine if o in self.cells], said.keep)
        self.reap(me, claim.position)
        return self.grant(claim, record, message)

    def holds(self, who: str) -> bool:
        return any(piece.holder == who for piece in self.cells.values())

    def refusal(self, claim: Claim, record: RangesRecord, message: ClaimingRange) -> str | None:
        headers, said = record.headers, record.range_headers
        checked = [headers.epoch, headers.seen, headers.clock, headers.supersedes]
        checked += [headers.set_position, said.window, said.done, said.keep]
        if message.version not in (0, 1):
            return "unknown_version"
        if -2 in checked:
            return "header_not_decimal"
        if any(
            each is not None and each >= record.offset for each in (headers.epoch, headers.seen)
        ):
            return "header_from_the_future"
        if claim.owner_instance is None or self.window is None:
            return "no_range_tenure"
        if headers.seen is None and (said.done, said.keep) != (None, None):
            return "seen_missing"
        return "negative_count" if message.count < 0 else None

    def give_back(self, mine: list[int], keep: int) -> None:
        by_piece = groupby(sorted(mine), key=lambda offset: self.cells[offset])
        whole = {piece: list(offsets) for piece, offsets in by_piece}
        room = self.limits.intervals_max - len(set(self.cells.values()))
        for offsets in whole.values():
            back = [offset for offset in offsets if offset >= keep]
            if len(back) == len(offsets) or room > 0:
                self.free(back)

    def free(self, offsets: Iterable[int]) -> None:
        piece = Piece(-1 - next(iter(self._numbers)))
        for offset in offsets:
            self.cells[offset] = piece

    def reap(self, me: str, position: int) -> None:
        silent = {
            who
            for who, ms in self.heard.items()
            if who != me and self.clock_ms - ms > self.stale_after_ms
        }
        of_silent = {piece for piece in self.cells.values() if piece.holder in silent}
        for piece in of_silent:
            offsets = [offset for offset, its in self.cells.items() if its == piece]
            for offset in offsets:
                del self.cells[offset]
            self.free(offset for offset in offsets if offset >= position)
        for who in silent:
            del self.heard[who]

    def grant(
        self, claim: Claim, record: RangesRecord, message: ClaimingRange
    ) -> tuple[str, str | None]:
        me, piece = message.instance_id, Piece(record.offset, message.instance_id)
        if not message.count:
            return "range_refreshed", None
        free = [offset for offset, its in self.cells.items() if its.holder is None]
        if free:
            lowest = self.cells[min(free)]
            for offset in free:
                if self.cells[offset] == lowest:
                    self.cells[offset] = piece
            return "range_granted", None
        pieces = set(self.cells.values())
        if sum(its.holder == me for its in pieces) >= self.limits.open_ranges_max:
            return "range_refreshed", "too_many_open"
        assert self.window is not None
        granted = 0
        while (
            granted < min(message.count, self.limits.range_messages_max)
            and self.frontier < claim.position + self.window
            and len(pieces) < self.limits.intervals_max
        ):
            self.cells[self.frontier] = piece
            self.frontier += 1
            granted += 1
        return ("range_granted", None) if granted else ("range_refreshed", "window_full")

    def is_like(self, ranges: Ranges) -> bool:
        """Whether the reducer came to the same."""
        theirs: dict[int, tuple[str | None, int]] = {}
        held = [Interval(each.from_, each.to) for each in ranges.open]
        if any(each.from_ >= each.to for each in (*held, *ranges.pool)):
            return False
        for each in ranges.open:
            theirs |= dict.fromkeys(range(each.from_, each.to), (each.instance, each.id))
        for number, interval in enumerate(ranges.pool):
            theirs |= dict.fromkeys(range(interval.from_, interval.to), (None, number))
        places = sorted({p for p in self.cells.values() if p.holder is None}, key=self._lowest)
        ours = {
            offset: (piece.holder, piece.number if piece.holder else places.index(piece))
            for offset, piece in self.cells.items()
        }
        heard = {sign.instance: sign.ms for sign in ranges.alive}
        return (ours, self.heard, self.window, self.frontier, self.clock_ms) == (
            *(theirs, heard, ranges.window, ranges.frontier, ranges.clock_ms),
        )

    def _lowest(self, piece: Piece) -> int:
        return min(offset for offset, its in self.cells.items() if its == piece)
