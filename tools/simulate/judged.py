"""The log of a run, folded by the reducer that ships: what each record did to which claim."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from attrs import define, field
from tools.simulate.history import Appended, History, Topic
from tools.simulate.setting import Setting

from kafka_marshal.admin.fold import ClaimChange, ClaimsFold
from kafka_marshal.admin.receipts import Receipts
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import Record
from kafka_marshal.validate import Judgement

GROUP = "g"


@define
class Judged:
    """A run's history, and what its log says."""

    history: History
    setting: Setting
    recorded: Judgement | None = None
    """What the validator says of what consumers recorded."""
    changes: list[tuple[Appended, Record, list[ClaimChange]]] = field(factory=list)
    """Of each record of the protocol, in the order of the appends: what it did to the group."""
    listed: dict[Topic, set[int]] = field(factory=dict)
    """Messages that `marshal receipts` would list when every owner has been silent for long."""

    _sets: dict[Topic, list[int]] = field(factory=dict)
    """Where in the log the position of a claim was set."""

    def __attrs_post_init__(self) -> None:
        setting = self.setting
        folds = [ClaimsFold(0, setting.rules) for _ in range(setting.log_partitions)]
        receipts = [Receipts(GROUP, topic) for topic in setting.topics]
        for appended in self.history.log:
            record = appended.record
            if record is None:
                continue
            changes = folds[appended.partition].apply(record)
            for each in receipts:
                each.read(record, changes)
            ours = [
                change
                for change in changes
                if change.key.group == GROUP
                # What a stranger writes elsewhere is another claim, which nobody looks at.
                and coordinating_partition(change.key.topic, setting.log_partitions)
                == record.partition
            ]
            self.changes.append((appended, record, ours))
            for change in ours:
                if change.verdict is Accepted.POSITION_SET:
                    where = change.key.topic, change.key.topic_partition
                    self._sets.setdefault(where, []).append(record.offset)
        later_ms = self.history.ended_ms + 1_000_000
        for topic, each in zip(setting.topics, receipts, strict=True):
            for one in each.receipts(later_ms, int(setting.rules.stale_after_ms)):
                offsets = self.listed.setdefault((topic, one.topic_partition), set())
                offsets.update(range(one.start or 0, one.end))

    def generation(self, where: Topic, epoch: int) -> int:
        """How often the position of a claim had been set before this epoch was won."""
        return bisect_left(self._sets.get(where, []), epoch)

    def granted(self) -> Iterator[tuple[Topic, int, range]]:
        """Partition, epoch and range of each grant."""
        for _, _, changes in self.changes:
            for change in changes:
                before, after = change.before.claim, change.after.claim
                if change.verdict is Accepted.GRANTED and after.epoch is not None:
                    where = change.key.topic, change.key.topic_partition
                    yield where, after.epoch, range(before.position, after.position)

    def wins(self) -> Iterator[tuple[Topic, int, str, int]]:
        """Partition, epoch, instance and position of each tenure, in the order of the log."""
        for _, _, changes in self.changes:
            for change in changes:
                before, after = change.before.claim, change.after.claim
                if after.owned and after.epoch is not None and before.epoch != after.epoch:
                    where = change.key.topic, change.key.topic_partition
                    yield where, after.epoch, after.owner_instance or "", after.position

    def positions(self) -> dict[Topic, int]:
        """The position of each claim when the run ended."""
        return {
            (change.key.topic, change.key.topic_partition): change.after.claim.position
            for _, _, changes in self.changes
            for change in changes
        }
