"""The holders of the ranges of shared claims over time: rows for the report's page.

A range is one row, from the request that was granted it to the record that ended it. A part that
its holder gives back is a row of its own. Progress within a range is not drawn. This module follows
ranges from state to state; it does not know the effect of records.
"""

from __future__ import annotations

from typing import Final

from attrs import define

from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.kernel.request_table import CLOCK
from kafka_marshal.replay.model.chunk_items import Ints, RequestRun
from kafka_marshal.replay.model.internal import RangeRow

ROWS_MAX: Final = 1000
"""The most rows of one claim; later ranges are not drawn."""

HELD, DONE, GIVEN_BACK, TAKEN, LOST, VOID = "held", "done", "given_back", "taken", "lost", "void"


@define
class _Held:
    start: int
    end: int
    instance: str
    client: str
    from_ms: int


@define
class _OfClaim:
    held: dict[int, _Held]
    """By id."""
    rows: int = 0


class HeldRanges:
    """The ranges of one coordinating partition."""

    def __init__(self) -> None:
        self._claims: dict[ClaimKey, _OfClaim] = {}
        self._ready: list[RangeRow] = []

    def request(
        self, key: ClaimKey, message: ClaimingRange, before: Ranges, after: Ranges, clock_ms: int
    ) -> None:
        """Add the ranges that an accepted request ended, and the one that it was granted."""
        sender = message.instance_id
        of_claim = self._claims.get(key)
        if of_claim is None:
            of_claim = self._claims[key] = _OfClaim({})
        if of_claim.held:
            self._ends(key, of_claim, sender, before, after, clock_ms)
        if not after.open or of_claim.rows + len(of_claim.held) >= ROWS_MAX:
            return
        latest = after.open[-1]  # a request is granted one range, under a higher id than others
        if not before.open or latest.id > before.open[-1].id:
            of_claim.held[latest.id] = _Held(
                latest.from_, latest.to, sender, message.client_id, clock_ms
            )

    def requests(self, key: ClaimKey, run: RequestRun, events: Ints) -> None:
        """The same for a run of ordinary requests, from the events of `kernel.requests`."""
        of_claim = self._claims.get(key)
        if of_claim is None:
            of_claim = self._claims[key] = _OfClaim({})
        held = of_claim.held
        if of_claim.rows >= ROWS_MAX and not held:
            return
        for at, id_, begin, end in events.tolist():
            clock_ms = int(run.table[at, CLOCK])
            if begin >= 0:
                if of_claim.rows + len(held) < ROWS_MAX:
                    held[id_] = _Held(begin, end, *run.sender(at), clock_ms)
            elif (was := held.pop(id_, None)) is not None:
                self._row(key, id_, was, was.start, end, clock_ms, DONE)

    def _ends(
        self,
        key: ClaimKey,
        of_claim: _OfClaim,
        sender: str,
        before: Ranges,
        after: Ranges,
        clock_ms: int,
    ) -> None:
        """Update the drawn ranges after a request."""
        untouched = set(map(id, after.open))
        touched = [each for each in before.open if id(each) not in untouched]
        now = {each.id: each for each in after.open} if touched else {}
        for was in touched:
            is_ = now.get(was.id)
            if is_ is not None and is_.to == was.to:
                continue
            held = of_claim.held.get(was.id)
            if held is None:
                continue
            if is_ is not None:  # cut: the rest of it goes on
                self._row(key, was.id, held, is_.to, was.to, clock_ms, GIVEN_BACK)
                held.end = is_.to
                continue
            free: list[Interval | OpenRange] = [*after.pool, *after.open]
            back = any(each.from_ < was.to and was.from_ < each.to for each in free)
            if was.instance == sender:
                how = GIVEN_BACK if back else DONE
            else:
                how = TAKEN if back else LOST
            self._row(key, was.id, held, held.start, was.to, clock_ms, how)
            del of_claim.held[was.id]

    def ended(self, key: ClaimKey, clock_ms: int) -> None:
        """All ranges of a claim have ended."""
        self._end(key, clock_ms, VOID)

    def drain(self) -> list[RangeRow]:
        """The rows of ranges that have ended since the last call."""
        ready, self._ready = self._ready, []
        return ready

    def at_the_end(self) -> list[RangeRow]:
        """The rows of ranges that are still held at the end of the log."""
        for key in self._claims:
            self._end(key, None, HELD)
        return self.drain()

    def _end(self, key: ClaimKey, clock_ms: int | None, how: str) -> None:
        of_claim = self._claims.get(key)
        if of_claim is None:
            return
        for id_, held in of_claim.held.items():
            self._row(key, id_, held, held.start, held.end, clock_ms, how)
        of_claim.held.clear()

    def _row(
        self,
        key: ClaimKey,
        id_: int,
        held: _Held,
        start: int,
        end: int,
        to_ms: int | None,
        ended: str,
    ) -> None:
        if self._claims[key].rows >= ROWS_MAX:
            return
        self._claims[key].rows += 1
        self._ready.append(
            RangeRow(
                group=key.group,
                topic=key.topic,
                topic_partition=key.topic_partition,
                offset=id_,
                start=start,
                end=end,
                instance=held.instance,
                client=held.client,
                from_ms=held.from_ms,
                to_ms=to_ms,
                ended=ended,
            )
        )
