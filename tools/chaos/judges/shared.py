"""What the log says of a topic that a group shares by ranges, and what that allows its messages.

The reducer that ships folds the log: which range was granted to whom, and which one was taken from
a holder that had fallen silent. A message may come again once for each silent holder of it (at
least once), or may be lost with one (at most once). So may what an administrator ends with all
ranges of a partition. The log allows exactly that, and no figure is guessed. Starts nothing, waits
for nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq
from attrs import define, field, frozen
from tests.client.crew import RULES
from tools.chaos.judges.agree import Judges
from tools.chaos.judges.compare import ranges
from tools.runs.folded_ranges import FoldedPartition

from kafka_marshal.capture import read_capture
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.deliveries import taken_by
from kafka_marshal.core.ranges.invariants import (
    RangesStep,
    broken_by,
    is_done,
    position_is_low,
)
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.core.state import ClaimKey

ODD: frozenset[str] = frozenset({"ranges_passed_over", "window_changed"})
"""Warnings of the replay that no fault of a run brings about: all share, under one window."""


@frozen
class Granted:
    """A range, as it was granted."""

    client: str
    start: int
    end: int


@frozen
class TakenRange:
    """What was taken from a silent holder."""

    partition: int
    instance: str
    start: int
    end: int
    by: int
    """Log offset of the record that took it."""


@define
class RangesOfLog:
    """What the log says of one topic of a group."""

    granted: dict[tuple[int, int], Granted] = field(factory=dict)
    """By partition and id."""
    taken: list[TakenRange] = field(factory=list)
    ended: int = 0
    """How often an administrator ended all ranges of a partition."""
    again: Counter[tuple[int, int]] = field(factory=Counter)
    """By partition and offset, how often a message may come again or, at most once, be lost: its
    holder was silent, or an administrator ended the ranges."""
    broken: list[str] = field(factory=list)
    """Promises of ranges that a record broke."""
    stands: dict[int, FoldedState] = field(factory=dict)
    """By partition, when the log ended."""

    def read(self, key: ClaimKey, taken: RangesStep) -> None:
        """What one record did to one claim."""
        record, before, after = taken.record, taken.ranges, taken.outcome.ranges
        message, partition = record.message, key.topic_partition
        named = f"partition {partition}: record {record.partition}/{record.offset}"
        if isinstance(message, ClaimingRange) and (
            taken.outcome.verdict is RangeAccepted.RANGE_GRANTED
        ):
            new = after.open[-1]
            self.granted[partition, new.id] = Granted(message.client_id, new.from_, new.to)
        for each in taken_by(message, before, after):
            one = TakenRange(partition, each.instance, each.from_, each.to, record.offset)
            self.taken.append(one)
            self.again.update((partition, at) for at in range(each.from_, each.to))
        if before.has_begun and not taken.go_on:
            self.ended += 1
            self.again.update((partition, at) for at in _given_anew(taken))
            if taken.claim.pauser != message.instance_id:
                self.broken.append(f"{named} ends all ranges, and is no administrator's")
        self.broken += [f"{named} breaks {each.name}" for each in broken_by(taken)]
        if not position_is_low(taken.claim_after, after):
            self.broken.append(f"{named} breaks PositionIsLow")
        self.stands[partition] = FoldedState(taken.claim_after, after)

    def silent_at_the_end(self) -> set[tuple[int, int]]:
        """Partition and offset of what silent holders still have in the end."""
        found = set()
        for partition, state in self.stands.items():
            clock_ms = state.ranges.clock_ms
            live = {
                each.instance
                for each in state.ranges.alive
                if clock_ms - each.ms <= RULES.stale_after_ms
            }
            for each in state.ranges.open:
                if each.instance not in live:
                    found |= {(partition, at) for at in range(each.from_, each.to)}
        return found


def _given_anew(taken: RangesStep) -> Iterator[int]:
    """Offsets that somebody else gets, or nobody, when all ranges end: new ones begin behind."""
    before, position = taken.ranges, taken.claim_after.position
    if before.window:
        yield from range(position, before.frontier)
        return
    # At most once what is reserved is passed over.
    yield from (at for at in range(before.low, position) if not is_done(before, at))


def ranges_of(log: Path, group: str, topic: str) -> RangesOfLog:
    """Fold a capture of the log."""
    found = RangesOfLog()
    partitions = defaultdict[int, FoldedPartition](lambda: FoldedPartition(RULES))
    for raw in read_capture(log):
        try:
            record = raw.decoded_with_ranges()
        except MalformedRecord:
            continue
        if record.message.group_id != group:
            continue
        for key, taken in partitions[record.partition].apply(record):
            if key.topic == topic:
                found.read(key, taken)
    return found


# --- what the replay says -------------------------------------------------------------------------


@frozen
class ReplayedRanges:
    """What the replay says of the ranges of a group."""

    stands: Mapping[int, tuple[int | None, ...]]
    """By partition: position, frontier, open offsets, offsets in the pool."""
    lost: Counter[tuple[int, str, int]]
    """`range_lost`, by partition, holder and log offset of the record that took it."""
    odd: list[str]


def replayed_ranges(out: Path, group: str, topic: str) -> ReplayedRanges:
    """Read the tables that a replay wrote."""
    columns = "position", "ranges_frontier", "ranges_open", "ranges_pool"
    stands = {
        row["topic_partition"]: tuple(row[each] for each in columns)
        for row in pq.read_table(out / "claims").to_pylist()
        if (row["group"], row["topic"]) == (group, topic)
    }
    lost: Counter[tuple[int, str, int]] = Counter()
    odd = []
    for row in pq.read_table(out / "findings").to_pylist():
        if (row["group"], row["topic"]) != (group, topic):
            continue
        if row["code"] == "range_lost":
            lost[row["topic_partition"], row["instance"], row["offset"]] += 1
        if row["code"] in ODD:
            odd.append(f"{row['code']}: {row['topic_partition']} {row['client']}")
    return ReplayedRanges(stands, lost, odd)


# --- compared -------------------------------------------------------------------------------------


@frozen(kw_only=True)
class SharedJudges(Judges):
    """The judges of a group that shares a topic by ranges."""

    log: RangesOfLog
    ranges: ReplayedRanges

    def owners(self) -> list[str]:
        """A process had a range, and messages under it, as the log granted it to its client."""
        wrong = []
        for client, did in self.did.items():
            not_its: dict[int, list[int]] = defaultdict(list)
            for partition, id_ in sorted(did.won):
                if self._granted(client, partition, id_) is None:
                    not_its[partition].append(id_)
            strange: dict[int, list[int]] = defaultdict(list)
            for partition, offset, id_ in sorted(did.under):
                one = self._granted(client, partition, id_)
                if one is None or not one.start <= offset < one.end:
                    strange[partition].append(offset)
            what = f"{client} had ranges that the log did not grant to it"
            wrong += [f"partition {p}: {what}: {ranges(ids)}" for p, ids in not_its.items()]
            what = f"{client} had messages of no range that the log granted to it"
            wrong += [f"partition {p}: {what}: {ranges(at)}" for p, at in strange.items()]
        return wrong

    def _granted(self, client: str, partition: int, id_: int) -> Granted | None:
        one = self.log.granted.get((partition, id_))
        return one if one is not None and one.client == client else None

    def messages(self) -> list[str]:
        """In the end the log has all as done, and the replay sees its ranges as they stand."""
        wrong = list(self.log.broken)
        silent = self.log.silent_at_the_end() if self.at_most_once else set()
        for partition, end in self.ends.items():
            state = self.log.stands.get(partition)
            if state is None:
                wrong.append(f"partition {partition}: nobody shared it, by the log")
                continue
            stands = state.ranges
            left = [
                at for at in range(end) if not is_done(stands, at) and (partition, at) not in silent
            ]
            if left:
                wrong.append(f"partition {partition}: not done, by the log: {ranges(left)}")
            by_log = (
                state.claim.position,
                stands.frontier,
                sum(each.to - each.from_ for each in stands.open),
                sum(each.to - each.from_ for each in stands.pool),
            )
            if self.ranges.stands.get(partition) != by_log:
                wrong.append(
                    f"partition {partition}: position, frontier, open, pool are {by_log}, and "
                    f"to the replay {self.ranges.stands.get(partition)}"
                )
        return wrong

    def _twice(self) -> set[int]:
        """That a claim is granted twice says nothing of ranges."""
        return set()

    def findings(self) -> list[str]:
        """The replay names the ranges that were lost, and reports nothing that was not so."""
        lost: Counter[tuple[int, str, int]] = Counter()
        if self.at_most_once:
            lost.update((each.partition, each.instance, each.by) for each in self.log.taken)
        wrong = super().findings()
        wrong += [
            f"partition {partition}: at {by} a range of {instance} was lost, and no finding says so"
            for partition, instance, by in lost - self.ranges.lost
        ]
        wrong += [
            f"only the replay finds range_lost: {partition} {instance}, at {by}"
            for partition, instance, by in self.ranges.lost - lost
        ]
        return wrong + [f"only the replay finds {sentence}" for sentence in self.ranges.odd]
