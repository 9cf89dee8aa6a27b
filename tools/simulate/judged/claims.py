"""The log of a run, folded by the reducer that ships: what each record did to which claim."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator

from attrs import define, field
from tools.simulate.history import Appended, Given, History, LogCut, Topic
from tools.simulate.judged.ranges import FoldedRanges
from tools.simulate.setting import Setting

from kafka_marshal.admin.fold import ClaimChange, ClaimsFold
from kafka_marshal.admin.receipts import Receipts
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.claims.invariants import sets_position
from kafka_marshal.core.claims.verdicts import Accepted, Verdict
from kafka_marshal.core.messages import Record
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.validate import Judgement

GROUP = "g"


def place(change: ClaimChange) -> Topic:
    """The topic and the partition of a change's claim."""
    return change.key.topic, change.key.topic_partition


def has_set(change: ClaimChange, record: Record) -> bool:
    """Whether an administrator's release was obeyed and set the position of a claim."""
    obeyed = isinstance(change.verdict, Accepted)
    return obeyed and sets_position(change.before.claim, record)


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
    listed_of: dict[tuple[Topic, int], set[int]] = field(factory=dict)
    """The same by the epoch that they were granted under."""

    lost_grants: dict[Topic, set[int]] = field(factory=lambda: defaultdict(set))
    """Messages whose grants the log has lost."""
    set_back: dict[int, dict[Topic, int]] = field(factory=dict)
    """Where the log lost records, by how many entries `changes` had: positions after that."""
    forgotten: set[Topic] = field(factory=set)
    """Claims of which the log lost the position."""
    _sets: dict[Topic, list[int]] = field(factory=dict)
    """Where in the log the position of a claim was set, by the number of the append."""
    _won: dict[tuple[Topic, int, str], int] = field(factory=dict)
    """By which append an instance won a claim, under which epoch."""
    cut_off: set[Topic] = field(factory=set)
    """Claims of which the log lost records."""
    _kept: dict[int, list[tuple[Record, list[ClaimChange]]]] = field(
        factory=lambda: defaultdict(list)
    )
    """What a coordinating partition holds by now."""
    _folds: dict[int, ClaimsFold] = field(factory=dict)
    shared: FoldedRanges = field(init=False)
    """Shared claims, and what each record did to them."""

    def __attrs_post_init__(self) -> None:
        setting, cuts = self.setting, deque(self.history.cuts)
        self.shared = FoldedRanges(setting)
        for index, appended in enumerate(self.history.log):
            while cuts and cuts[0].index <= index:
                self._cut(cuts.popleft())
            self.shared.read(appended)
            record = appended.record
            if record is not None:
                self._fold(appended, record)
        for cut in cuts:
            self._cut(cut)
        later_ms = self.history.ended_ms + 1_000_000
        for topic in setting.topics:
            receipts = Receipts(GROUP, topic)
            for partition in self._kept.values():
                for record, changes in partition:
                    receipts.read(record, changes)
            for one in receipts.receipts(later_ms, int(setting.rules.stale_after_ms)):
                where, offsets = (topic, one.topic_partition), range(one.start or 0, one.end)
                self.listed.setdefault(where, set()).update(offsets)
                if one.epoch is not None:
                    self.listed_of.setdefault((where, one.epoch), set()).update(offsets)

    def _fold_of(self, partition: int) -> ClaimsFold:
        if partition not in self._folds:
            self._folds[partition] = ClaimsFold(0, self.setting.rules)
        return self._folds[partition]

    def _fold(self, appended: Appended, record: Record) -> None:
        changes = self._fold_of(record.partition).apply(record)
        self._kept[record.partition].append((record, changes))
        ours = [change for change in changes if self._is_ours(record, change)]
        self.changes.append((appended, record, ours))
        for change in ours:
            if has_set(change, record):
                self._sets.setdefault(place(change), []).append(appended.index)
            after = change.after.claim
            if after.epoch is not None and after.epoch != change.before.claim.epoch:
                self._won[place(change), after.epoch, after.owner_instance or ""] = appended.index

    def _is_ours(self, record: Record, change: ClaimChange) -> bool:
        # What a stranger writes elsewhere is another claim, which nobody looks at.
        where = coordinating_partition(change.key.topic, self.setting.log_partitions)
        if change.key.topic in self.setting.shared:
            return False
        return change.key.group == GROUP and where == record.partition

    def _cut(self, cut: LogCut) -> None:
        """The log lost records, and is folded anew without them."""
        before = self._kept.pop(cut.partition, [])
        fold = self._folds[cut.partition] = ClaimsFold(0, self.setting.rules)
        positions: dict[Topic, int] = {}
        lost: set[Topic] = set()
        for record, changes in before:
            ours = [change for change in changes if self._is_ours(record, change)]
            if record.offset < cut.end:
                self._kept[cut.partition].append((record, fold.apply(record)))
                positions.update((place(each), each.after.claim.position) for each in ours)
                continue
            lost.update(map(place, ours))
            for change in ours:
                if change.verdict is Accepted.GRANTED:
                    start, end = change.before.claim.position, change.after.claim.position
                    self.lost_grants[place(change)].update(range(start, end))
        self.cut_off |= lost
        self.forgotten |= {where for where in lost if not positions.get(where)}
        self.set_back[len(self.changes)] = {
            **self.set_back.get(len(self.changes), {}),
            **{where: positions.get(where, cut.committed.get(where, 0)) for where in lost},
        }

    def unknown(self, topic: str) -> bool:
        """Whether a consumer reported claims without a known owner, and retention cut the log."""
        partition = coordinating_partition(topic, self.setting.log_partitions)
        cut = bool(self.history.removed.get((COORDINATION_TOPIC, partition)))
        return cut and any("the head of the log is gone" in line for line in self.history.lines)

    def generation(self, where: Topic, index: int) -> int:
        """How often the position of a claim had been set before this append."""
        return bisect_left(self._sets.get(where, []), index)

    def generation_of(self, given: Given) -> int:
        """How often the position of its claim had been set before the tenure was won."""
        won = self._won.get((given.where, given.epoch, given.instance), 0)
        return self.generation(given.where, won)

    def granted(self) -> Iterator[tuple[Topic, int, range]]:
        """Partition, how often its position was set before, and range of each grant.

        Not what may have been gone with its topic before anybody could be given it.
        """
        for appended, _, changes in self.changes:
            for change in changes:
                before, after = change.before.claim, change.after.claim
                if change.verdict is Accepted.GRANTED and after.epoch is not None:
                    where = place(change)
                    generation = self.generation(where, appended.index)
                    first = max([before.position, *self.history.vanished.get(where, ())])
                    yield where, generation, range(first, max(first, after.position))

    def wins(self) -> Iterator[tuple[Topic, int, str, int]]:
        """Partition, epoch, instance and position of each tenure, in the order of the log."""
        for _, _, changes in self.changes:
            for change in changes:
                before, after = change.before.claim, change.after.claim
                if after.owned and after.epoch is not None and before.epoch != after.epoch:
                    yield place(change), after.epoch, after.owner_instance or "", after.position

    def verdicts(self, partition: int) -> Iterator[Verdict]:
        """What the records did that a coordinating partition holds in the end."""
        for _, changes in self._kept[partition]:
            for change in changes:
                if change.key.group == GROUP and change.verdict is not None:
                    yield change.verdict

    def positions(self) -> dict[Topic, int]:
        """The position of each claim when the run ended."""
        found: dict[Topic, int] = {}
        for index, (_, _, changes) in enumerate(self.changes):
            found.update(self.set_back.get(index, {}))
            found.update((place(change), change.after.claim.position) for change in changes)
        return found | self.set_back.get(len(self.changes), {})
