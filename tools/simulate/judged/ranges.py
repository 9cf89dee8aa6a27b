"""Shared claims of a run, folded by the shipped reducer: what each record did to which ranges."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field, frozen
from tools.simulate.history import Appended, Topic
from tools.simulate.setting import Setting

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord, coordinating_partition
from kafka_marshal.core.messages import ClaimingRange, ReleaseGroup
from kafka_marshal.core.ranges.invariants import RangesStep, broken_by
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.reducer import claim_outcome, step
from kafka_marshal.core.ranges.state import LIMITS, Ranges
from kafka_marshal.core.ranges.verdicts import RangeVerdict
from kafka_marshal.core.state import Claim

GROUP = "g"


@frozen
class SharedChange:
    """What a record did to one shared claim."""

    appended: Appended
    record: RangesRecord
    where: Topic
    before: FoldedState
    after: FoldedState
    verdict: RangeVerdict
    broken: tuple[str, ...]
    """Properties that this step breaks."""

    @property
    def freed(self) -> Iterator[tuple[int, str, range]]:
        """Id, holder and offsets of what was open, and is neither open nor done any more."""
        open_after = {each.id: each for each in self.after.ranges.open}
        ended = self.before.ranges.window != self.after.ranges.window
        for each in self.before.ranges.open:
            left = open_after.get(each.id)
            whole = range(each.from_, each.to)
            kept = range(0) if left is None else range(left.from_, left.to)
            free = [
                offset
                for offset in whole
                if offset not in kept and (ended or self._in_pool(offset))
            ]
            if free:
                yield each.id, each.instance, range(free[0], free[-1] + 1)

    def _in_pool(self, offset: int) -> bool:
        ranges = self.after.ranges
        new = ranges.open[-1:]  # it may be granted at once to who asked
        free = [*((each.from_, each.to) for each in ranges.pool)]
        free += [(each.from_, each.to) for each in new]
        return any(begin <= offset < end for begin, end in free)


@define
class FoldedRanges:
    """The shared claims of the group, through the last record that was read."""

    setting: Setting
    states: dict[Topic, FoldedState] = field(factory=dict)
    changes: list[SharedChange] = field(factory=list)

    def read(self, appended: Appended) -> None:
        """The next record of the log."""
        if not self.setting.shared:
            return
        stored = appended.stored
        raw = RawRecord(
            appended.partition, appended.offset, stored.timestamp_ms, stored.value, stored.headers
        )
        try:
            record = raw.decoded_with_ranges()
        except MalformedRecord:
            return
        for where in self._meant(record):
            self._step(appended, record, where)

    def low(self, topic: str, partition: int) -> int:
        """The lowest offset that is not done; below 0 where nobody shares."""
        state = self.states.get((topic, partition))
        return state.ranges.low if state is not None and state.ranges.has_begun else -1

    def _meant(self, record: RangesRecord) -> list[Topic]:
        message = record.message
        if message.group_id != GROUP:
            return []
        if isinstance(message, ReleaseGroup):
            return [where for where in self.states if self._home(where[0]) == record.partition]
        ours = (
            message.topic in self.setting.shared and self._home(message.topic) == record.partition
        )
        return [(message.topic, message.key.topic_partition)] if ours else []

    def _home(self, topic: str) -> int:
        return coordinating_partition(topic, self.setting.log_partitions)

    def _step(self, appended: Appended, record: RangesRecord, where: Topic) -> None:
        rules = self.setting.rules
        before = self.states.get(where) or FoldedState(Claim(), Ranges())
        claim, message = before.claim, record.message
        outcome = step(before.ranges, claim, record, rules, LIMITS)
        if not isinstance(message, ClaimingRange):
            claim, _ = claim_outcome(claim, record, message, rules)
        taken = RangesStep(before.ranges, before.claim, record, outcome, claim, rules, LIMITS)
        after = self.states[where] = FoldedState(claim, outcome.ranges)
        broken = tuple(each.name for each in broken_by(taken))
        self.changes.append(
            SharedChange(appended, record, where, before, after, outcome.verdict, broken)
        )
