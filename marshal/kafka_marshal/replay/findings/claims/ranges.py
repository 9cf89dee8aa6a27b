"""Shared claims: ranges that were lost, and records that violate the rules of ranges.

This module folds the ranges of a log, in addition to the claims of its fold. It does not know the
effect of a record on ranges (see `core.ranges`). It cannot be used for a log whose head is missing,
because ranges are then unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core import wire
from kafka_marshal.core.claims.verdicts import Accepted, ReadTwice
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.messages import ClaimingRange, Heartbeat, Record
from kafka_marshal.core.ranges.claiming_range import frontier_max
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.state import OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.core.ranges.world import BEGIN_OR_END, RangesWorld
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.kernel.request_table import OFFSET
from kafka_marshal.range_codec import (
    RANGE_HEADER_FIELDS,
    checkpoint_as_written,
    checkpoint_of,
    decode_range,
)
from kafka_marshal.replay.findings.cases import Case
from kafka_marshal.replay.findings.catalogue import WARNING
from kafka_marshal.replay.findings.claims.checkpoints import (
    RecentStates,
    differences,
    differs,
    too_old,
)
from kafka_marshal.replay.findings.claims.range_standstills import (
    LowestPiece,
    LowestRange,
    StandstillCause,
    Standstills,
)
from kafka_marshal.replay.findings.observer import FindingObserver
from kafka_marshal.replay.model.chunk_items import Ints, RequestRun
from kafka_marshal.replay.model.events import Event, JudgedRecord
from kafka_marshal.replay.model.held_ranges import HeldRanges
from kafka_marshal.replay.model.internal import RangeRow
from kafka_marshal.replay.model.phrasing import claim_name, clock, span, times, who
from kafka_marshal.replay.model.position_progress import REST_INTERVALS

if TYPE_CHECKING:
    from kafka_marshal.kernel.requests import NumberedRanges, RequestJudging, TakenRequests


class SharedRanges(FindingObserver):
    """The ranges of one coordinating partition, under the fenced rules."""

    passes_over_releases = True

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._ranges = RangesWorld(world)
        self._standstills = Standstills()
        self._held = HeldRanges()
        self._recent: dict[ClaimKey, RecentStates] = {}
        """For every claim that was ever shared."""
        self._lowest: dict[ClaimKey, tuple[Ranges, LowestPiece]] = {}
        """Cached, since the search takes a while and is needed twice."""
        self._numbered: dict[ClaimKey, tuple[Ranges, NumberedRanges]] = {}
        """The ranges after a run, and the same as numbers, for the next run."""

    def of(self, key: ClaimKey) -> Ranges | None:
        """The current ranges of a claim; None if it is not shared."""
        ranges = self._ranges.of(key)
        return ranges if ranges is not None and ranges.has_begun else None

    def was_shared(self, key: ClaimKey) -> bool:
        """Whether the claim is shared, or was once."""
        return key in self._recent or self._ranges.of(key) is not None

    def held(self) -> list[RangeRow]:
        """Who held which offsets, for ranges that ended since the last call."""
        return self._held.drain()

    def held_at_the_end(self) -> list[RangeRow]:
        """The same, with ranges that are held at the end of the log."""
        return self._held.at_the_end()

    def observe(self, event: Event) -> None:
        """Begin, continue or end ranges. The claim is already as the record left it."""
        if event.verdict not in BEGIN_OR_END:
            return
        before = self._ranges.of(event.key)
        raw = event.sighting.raw
        if before is not None or any(name in RANGE_HEADER_FIELDS for name, _ in raw.headers):
            self._ranges.observe(raw.decoded_with_ranges(), event.key, event.verdict)
        after = self._ranges.of(event.key)
        self._cases.close(event.key)
        anew = _other(before, after)
        self._standstills.won(event.key, anew=anew)
        if anew:
            self._held.ended(event.key, event.clock_ms)
        if before is not None and before.window == 0 and not _goes_on(event, after):
            self._passed_over(event, before)
        was, now = (None if each is None else each.window for each in (before, after))
        if was is not None and now is not None and was != now:
            sender = event.message.instance_id, event.message.client_id
            sentence = partial(_window_changed, event.key, was, now)
            self._cases.add(
                (event.key, "window_changed"),
                event.key,
                event.sighting,
                lambda: Case.about("window_changed", event.key, sender, sentence, []),
            )

    def claiming_range(
        self,
        raw: RawRecord,
        record: RangesRecord,
        message: ClaimingRange,
        key: ClaimKey,
        clock_ms: int,
        rules: Rules,
    ) -> JudgedRecord:
        """Fold a ClaimingRange, and compare the ranges before and after."""
        before = self._ranges.latest(key)
        outcome = self._ranges.apply(record, message, rules)
        if isinstance(outcome, ReadTwice):
            return JudgedRecord(raw, message, outcome, clock_ms)
        verdict, after, claim = outcome.verdict, outcome.ranges, self._world.claim(key)
        self._keep(record.offset, key, claim, after if before is not None else None)
        sighting = JudgedRecord(raw, message, verdict, clock_ms)
        if before is None or not isinstance(verdict, RangeAccepted):
            return sighting
        if before.window != 0:
            low = self._lowest_of(key, before).offset
            if claim.position > low:
                self._above_low(sighting, key, low)
        else:
            open_now = {each.id for each in after.open}
            for lost in before.open:
                if lost.instance != message.instance_id and lost.id not in open_now:
                    self._lost(sighting, key, lost)
        self._held.request(key, message, before, after, clock_ms)
        if after.window != 0:
            lowest = self._lowest_of(key, after)
            stands = self._standstills.seen(
                sighting, record, key, before, claim, outcome, lowest, rules
            )
            if stands is not None:
                self._stands(sighting, key, *stands)
        return sighting

    def requests(self, run: RequestRun, rules: Rules) -> tuple[int, JudgedRecord | None]:
        """Fold the first requests of a run in one step, as far as they are ordinary.

        The result is the same as of `claiming_range` for each of them. Returns their number, and
        the last of them if there is one.
        """
        # Only here: numba takes its time to load.
        from kafka_marshal.kernel import requests as kernel
        from kafka_marshal.kernel.steps import BOUND

        key = run.key
        before, claim = self._ranges.latest(key), self._world.claim(key)
        if before is None or before.window is None or not claim.owned:
            return 0, None
        times_ms = (before.clock_ms, claim.clock_ms, rules.stale_after_ms)
        if max(times_ms) >= BOUND or min(times_ms) <= -BOUND:
            return 0, None
        known = self._numbered.get(key)
        if known is None or known[0] is not before or known[1].names is not run.names:
            known = before, kernel.NumberedRanges.of(before, run.names)
        numbered = known[1]
        judging = kernel.RequestJudging(
            claim.position,
            frontier_max(before, claim),
            claim.clock_ms,
            rules.stale_after_ms,
            watched=before.window != 0,
            rest_words=REST_INTERVALS,
            rest_ms=REST_INTERVALS * rules.heartbeat_interval_ms,
            limits=self._ranges.limits,
        )
        states = _RunStates(claim, numbered.copy(), run.table, judging)
        standing = self._standstills.numbers(key)
        taken = numbered.fold(run.table, judging, standing)
        if not taken.count:
            return 0, None
        after = numbered.ranges()
        self._numbered[key] = after, numbered
        self._ranges.put(key, after)
        recent = self._recent.setdefault(key, RecentStates())
        recent.add_run(run.table[: taken.count, OFFSET].tolist(), states)
        self._held.requests(key, run, taken.events)
        sighting = partial(_sighting, run, taken)
        last = sighting(taken.count - 1)
        if judging.watched:
            lowest = self._standstills.went_on(key, standing, after, sighting)
            if taken.stopped != kernel.GOES_ON:
                assert lowest is not None
                starved = taken.stopped == kernel.STARVED
                why = StandstillCause.STARVED_RANGE if starved else StandstillCause.STUCK_HOLDER
                self._stands(last, key, why, lowest)
        return taken.count, last

    def _lowest_of(self, key: ClaimKey, ranges: Ranges) -> LowestPiece:
        known = self._lowest.get(key)
        if known is None or known[0] is not ranges:
            known = self._lowest[key] = ranges, LowestPiece.of(ranges)
        return known[1]

    def keep(self, offset: int, key: ClaimKey) -> None:
        """Store the state of a shared claim after a message about it, or about its group."""
        self._keep(offset, key, self._world.claim(key), self._ranges.of(key))

    def _keep(self, offset: int, key: ClaimKey, claim: Claim, ranges: Ranges | None) -> None:
        if ranges is not None and not ranges.has_begun:
            ranges = None
        recent = self._recent.get(key)
        if recent is None:
            if ranges is None:
                return
            recent = self._recent[key] = RecentStates()
        recent.add(offset, None if ranges is None else (claim, ranges))

    def compare(self, sighting: JudgedRecord, record: Record, message: Heartbeat) -> bool:
        """Compare a heartbeat's checkpoint with the fold; returns whether there was a finding.

        It applies to any sender, and even to a refused heartbeat, as for a late reader.
        """
        seen = record.headers.seen
        if seen is None or not 0 <= seen < record.offset:
            return False
        pairs = sighting.raw.headers
        written = [value for name, value in pairs if name == wire.CHECKPOINT_HEADER]
        if not written:
            return False
        key = message.key
        recent = self._recent.get(key) or RecentStates()
        reached = recent.reach(seen)
        folded = recent.after(seen) if reached else None
        if folded is not None and written[-1] == checkpoint_as_written(folded):
            return False  # nearly always; to read it takes ten times as long
        checkpoint = checkpoint_of(message, pairs)
        if checkpoint is None:
            return False
        if not reached:
            self._checkpoint(sighting, key, partial(too_old, key, seen), WARNING)
            return True
        if folded == checkpoint:
            return False
        fields = None if folded is None else differences(checkpoint, folded)
        self._checkpoint(sighting, key, partial(differs, key, seen, fields))
        return True

    def _checkpoint(
        self,
        sighting: JudgedRecord,
        key: ClaimKey,
        sentence: Callable[[Case], str],
        severity: str | None = None,
    ) -> None:
        """One case per tenure of a claim, and one for checkpoints that cannot be compared."""
        message = sighting.message
        sender = message.instance_id, message.client_id
        self._cases.add(
            (key, "checkpoint_differs", severity),
            key,
            sighting,
            lambda: attrs.evolve(
                Case.about("checkpoint_differs", key, sender, sentence, []), severity=severity
            ),
        )

    def _passed_over(self, event: Event, before: Ranges) -> None:
        """One case per takeover. The claim is already as it left it."""
        given_to_nobody = [(before.frontier, event.after.position)]
        given_to_nobody += [(free.from_, free.to) for free in before.pool]
        free = [each for each in sorted(given_to_nobody) if each[0] < each[1]]
        if not free and not before.open:
            return
        sender = event.message.instance_id, event.message.client_id
        sentence = partial(_ranges_passed_over, event.key, event.after.position, free, before.open)
        self._cases.add(
            (event.key, "ranges_passed_over", event.record.offset),
            event.key,
            event.sighting,
            lambda: Case.about("ranges_passed_over", event.key, sender, sentence, []),
        )

    def _stands(
        self, sighting: JudgedRecord, key: ClaimKey, why: StandstillCause, lowest: LowestRange
    ) -> None:
        """One case per standstill of a range."""
        piece, since = lowest.piece, lowest.since
        holder = piece.instance if isinstance(piece, OpenRange) else None

        def opened() -> Case:
            sentence = partial(_SENTENCES[why], key, lowest)
            return Case(why.value, *key, holder, None, sentence, [since])

        self._cases.add((key, why, since.offset), key, sighting, opened)

    def _lost(self, sighting: JudgedRecord, key: ClaimKey, lost: OpenRange) -> None:
        """One case per range: its id is an offset of the log."""
        sentence = partial(_range_lost, key, lost)
        self._cases.add(
            (key, "range_lost", lost.id),
            key,
            sighting,
            lambda: Case("range_lost", *key, lost.instance, None, sentence),
        )

    def _above_low(self, sighting: JudgedRecord, key: ClaimKey, low: int) -> None:
        """One case per tenure of a claim."""
        claim = self._world.claim(key)
        sentence = partial(_above_low, key, claim.position, low)
        self._cases.add(
            (key, "position_above_low"),
            key,
            sighting,
            lambda: Case(
                *("position_above_low", *key, claim.owner_instance, claim.owner_client), sentence
            ),
        )


@frozen(eq=False)
class _RunStates:
    """A `StatesOfRun` that folds the run again up to an offset, which is rarely needed."""

    claim: Claim
    before: NumberedRanges
    table: Ints
    judging: RequestJudging

    def after(self, offset: int) -> FoldedState:
        ranges = self.before.copy()
        count = int(np.searchsorted(self.table[:, OFFSET], offset, side="right"))
        ranges.fold(self.table[:count], attrs.evolve(self.judging, watched=False))
        return FoldedState(self.claim, ranges.ranges())


def _sighting(run: RequestRun, taken: TakenRequests, number: int) -> JudgedRecord:
    """One of the requests that were folded in one step."""
    single = run.single(number)
    granted = taken.granted(number)
    verdict = RangeAccepted.RANGE_GRANTED if granted else RangeAccepted.RANGE_REFRESHED
    return JudgedRecord(single.raw, decode_range(single.raw.value), verdict, single.clock_ms)


def _messages(begin: int, end: int) -> str:
    return f"message {begin}" if end - begin == 1 else f"messages {begin} to {end - 1}"


def _window_changed(key: ClaimKey, before: int, after: int, case: Case) -> str:
    first = case.first_seen
    return (
        f"{who(case.instance, case.client)} claimed {claim_name(key)} at offset {first.offset} "
        f"({clock(first.clock_ms)}) with window {after}, while its ranges had window {before}. "
        f"They ended, and new ones begin at the position."
    )


def _goes_on(event: Event, after: Ranges | None) -> bool:
    """Its ranges continue, or an administrator ended them by setting the position."""
    if after is None or after.has_begun:
        return True
    if event.verdict is Accepted.POSITION_SET:
        return True
    return event.before.pauser == event.message.instance_id


def _ranges_passed_over(
    key: ClaimKey,
    position: int,
    free: Sequence[tuple[int, int]],
    held: Sequence[OpenRange],
    case: Case,
) -> str:
    first = case.first_seen
    told = (
        f"{who(case.instance, case.client)} claimed {claim_name(key)} at offset {first.offset} "
        f"({clock(first.clock_ms)}), knows nothing of its ranges, and goes on at {position}."
    )
    if free:
        count = sum(end - begin for begin, end in free)
        told += (
            f" {times(count, 'offset')} from {free[0][0]} to {free[-1][1] - 1} had been reserved "
            f"and given to nobody: nobody processes their messages."
        )
    if held:
        holders = sorted({each.instance for each in held})
        count = sum(each.to - each.from_ for each in held)
        told += (
            f" {times(count, 'offset')} from {min(each.from_ for each in held)} to "
            f"{max(each.to for each in held) - 1} were held by {times(len(holders), 'instance')} "
            f"({', '.join(holders)}): what these do not finish, nobody will."
        )
    return told


def _range_lost(key: ClaimKey, lost: OpenRange, case: Case) -> str:
    first = case.first_seen
    return (
        f"Instance {lost.instance} held {_messages(lost.from_, lost.to)} of {claim_name(key)}, "
        f"granted by offset {lost.id}, and was silent for more than two heartbeat intervals. A "
        f"request at offset {first.offset} ({clock(first.clock_ms)}) let that be forgotten. What "
        f"the instance has not processed, nobody will."
    )


def _stuck(key: ClaimKey, lowest: LowestRange, case: Case) -> str:
    since, last = lowest.since, case.last_seen
    return (
        f"Instance {case.instance} lives and has reported nothing of "
        f"{_messages(lowest.piece.from_, lowest.piece.to)} of {claim_name(key)} since offset "
        f"{since.offset} ({clock(since.clock_ms)}), for {span(last.clock_ms - since.clock_ms)}. "
        f"Messages up to {lowest.reached - 1} are reported as done, and the window is full: "
        f"{times(case.count, 'request')} got no offsets."
    )


def _starved(key: ClaimKey, lowest: LowestRange, case: Case) -> str:
    since, last = lowest.since, case.last_seen
    return (
        f"{_messages(lowest.piece.from_, lowest.piece.to).capitalize()} of {claim_name(key)} lay "
        f"in the pool for {span(last.clock_ms - since.clock_ms)} after offset {since.offset} "
        f"({clock(since.clock_ms)}), and nobody asked for offsets, although messages up to "
        f"{lowest.reached - 1} are reported as done."
    )


_SENTENCES: Final = {StandstillCause.STUCK_HOLDER: _stuck, StandstillCause.STARVED_RANGE: _starved}


def _other(before: Ranges | None, after: Ranges | None) -> bool:
    """Whether other ranges continue than before."""
    if before is None or after is None:
        return True
    return (before.window, before.frontier, before.open) != (
        after.window,
        after.frontier,
        after.open,
    )


def _above_low(key: ClaimKey, position: int, low: int, case: Case) -> str:
    first = case.first_seen
    return (
        f"The position of {claim_name(key)} was {position} at offset {first.offset} "
        f"({clock(first.clock_ms)}), although {_messages(low, position)} had not all been "
        f"reported as processed. A takeover would skip those that were not."
    )
