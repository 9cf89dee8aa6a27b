"""Shared claims of a run, folded by the shipped reducer: what each record did to which ranges."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import define, field, frozen
from tools.runs.folded_ranges import FoldedPartition
from tools.simulate.history import Appended, Topic
from tools.simulate.setting import Setting

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord, coordinating_partition
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.ranges.invariants import RangesStep, broken_by
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.verdicts import RangeVerdict
from kafka_marshal.core.state import ClaimKey

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
    partitions: dict[int, FoldedPartition] = field(factory=dict)
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
        if self._meant(record):
            for key, taken in self._partition(record.partition).apply(record):
                self._keep(appended, key, taken)

    def low(self, topic: str, partition: int) -> int:
        """The lowest offset that is not done; below 0 where nobody shares."""
        key = ClaimKey(GROUP, topic, partition)
        ranges = self._partition(self._home(topic)).states[key].ranges
        return ranges.low if ranges.has_begun else -1

    def _partition(self, partition: int) -> FoldedPartition:
        """A coordinating partition, as far as it was read."""
        return self.partitions.setdefault(partition, FoldedPartition(self.setting.rules))

    def _meant(self, record: RangesRecord) -> bool:
        message = record.message
        if message.group_id != GROUP or isinstance(message, ReleaseGroup):
            return message.group_id == GROUP
        return (
            message.topic in self.setting.shared and self._home(message.topic) == record.partition
        )

    def _home(self, topic: str) -> int:
        return coordinating_partition(topic, self.setting.log_partitions)

    def _keep(self, appended: Appended, key: ClaimKey, taken: RangesStep) -> None:
        outcome = taken.outcome
        change = SharedChange(
            appended,
            taken.record,
            (key.topic, key.topic_partition),
            FoldedState(taken.claim, taken.ranges),
            FoldedState(taken.claim_after, outcome.ranges),
            outcome.verdict,
            tuple(each.name for each in broken_by(taken)),
        )
        self.changes.append(change)
