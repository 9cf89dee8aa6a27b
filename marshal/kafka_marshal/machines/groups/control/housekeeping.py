"""A controller's periodic work: rebalances, partition counts, deletions, snapshots, expirations.

Decisions are based on the state after all pending events, and sent as events. This module knows no
requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

from attrs import define, field, frozen

from kafka_marshal.core.groups.assignment import STRATEGIES, Members, sticky_assignor
from kafka_marshal.core.groups.events import (
    EventRecord,
    GroupDeleted,
    GroupSnapshot,
    MemberExpired,
    Rebalanced,
)
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import Group, Topic, TopicPartition, is_due
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.machines.groups.control.controlled_log import ControlledLog
from kafka_marshal.machines.groups.control.sessions import Sessions
from kafka_marshal.machines.groups.control.topics import TopicCounts, topics_of
from kafka_marshal.machines.groups.controller import MemberKey
from kafka_marshal.machines.groups.effects import CountPartitions, MovePosition

FIRST_SNAPSHOT_MS: Final = 60_000
"""How long after its start a controller writes its first snapshots: it does not know when the one
before it did."""


@frozen
class HousekeepingIntervals:
    """The intervals of a controller's periodic work."""

    snapshot_ms: int
    snapshot_events: int
    count_ms: int


@define(eq=False)
class _Snapshot:
    """Snapshots that were sent."""

    first: int
    """Number of the ControllershipSnapshot."""
    last: int
    offset: int = -1
    """Where the first was read back."""


def target_of(group: Group) -> Rebalanced:
    """Whose each partition is to be, by the group's strategy. Spec: DecideRebalance."""
    strategy = STRATEGIES.get(group.strategy, sticky_assignor)
    counts = {name: topic.count for name, topic in group.topics.items()}
    owners = {tp: each.owner for tp, each in group.partitions.items() if each.owner is not None}
    target = strategy(
        cast("Members", group.members), counts, cast("Mapping[tuple[str, int], str]", owners)
    )
    return Rebalanced({TopicPartition(*tp): member for tp, member in target.items()})


def was_emptied(group: Group) -> bool:
    """Its last member is gone: one was there when a target was made."""
    return group.ephemeral and not group.members and group.rebalanced_at > 0


@define(eq=False)
class Housekeeping:
    """Of one partition, while this process is its controller."""

    log: ControlledLog
    sessions: Sessions
    intervals: HousekeepingIntervals
    counts: TopicCounts = field(factory=TopicCounts)
    _looked_at: dict[str, Group] = field(factory=dict)
    """Groups of which nothing is due, as they were then."""
    _snapshot: _Snapshot | None = None
    _snapshot_number: int = 0
    _snapshot_at_ms: int = 0

    def restart(self, now_ms: int) -> None:
        """The process has become controller."""
        self.counts = TopicCounts()
        self._looked_at = {}
        self._snapshot = None
        self._snapshot_number = self.log.view.number
        self._snapshot_at_ms = now_ms + min(FIRST_SNAPSHOT_MS, self.intervals.snapshot_ms)

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        self._look_at_groups()
        self._look_at_topics(now_ms)
        self._write_snapshots(now_ms)

    # --- members ----------------------------------------------------------------------------------

    def give_up(self) -> None:
        """Members that were silent for too long, or let nothing go (G4, G10). Spec: GiveUp."""
        for name, group in list(self.log.ahead.groups.items()):
            for member, reason in list(self.sessions.overdue(name, group)):
                silent_ms = self.sessions.silent_ms(MemberKey(name, member))
                self.log.decide(name, MemberExpired(member, reason, silent_ms))
                self.gone(MemberKey(name, member))

    def gone(self, key: MemberKey) -> None:
        """A member left or was given up: an ephemeral group goes with its last one."""
        self.sessions.forget(key)
        group = self.log.ahead.groups[key.group]
        if group.ephemeral and not group.members:
            self.log.decide(key.group, GroupDeleted())

    # --- groups -----------------------------------------------------------------------------------

    def _look_at_groups(self) -> None:
        """Decide what is due for each group that has changed."""
        for name, group in list(self.log.ahead.groups.items()):
            if self._looked_at.get(name) is not group:
                self._look_at(name, group)
        for name in self._looked_at.keys() - self.log.ahead.groups.keys():
            del self._looked_at[name]

    def _look_at(self, name: str, group: Group) -> None:
        if was_emptied(group):
            self.log.decide(name, GroupDeleted())
            return
        for event in list(self.counts.due(group)):
            self.log.decide(name, event)
        group = self.log.ahead.groups[name]
        if is_due(group):
            self.log.decide(name, target_of(group))
        self._looked_at[name] = self.log.ahead.groups[name]

    # --- topics -----------------------------------------------------------------------------------

    def _look_at_topics(self, now_ms: int) -> None:
        if not self.counts.is_due(now_ms):
            return
        self.counts.look_at_ms = now_ms + self.intervals.count_ms
        topics: set[str] = set().union(*map(topics_of, self.log.ahead.groups.values()))
        self.ask_counts(frozenset(topics))

    def ask_counts(self, topics: frozenset[str]) -> None:
        """Have these topics counted."""
        if topics:
            self.log.out.append(CountPartitions(self.log.partition, topics))

    def ask_new(self, topics: frozenset[str], group: Group) -> None:
        """Query the number of partitions of topics that were never counted."""
        self.ask_counts(topics - group.topics.keys() - self.counts.counted.keys())

    def counted(self, topic: str, now: Topic, now_ms: int) -> None:
        """A topic was counted, so something may be due of every group."""
        self.counts.saw(topic, now, now_ms, self.log.ahead.groups.values())
        self._looked_at = {}

    # --- snapshots --------------------------------------------------------------------------------

    def _write_snapshots(self, now_ms: int) -> None:
        """Write a snapshot of the controller and of every group, with no other event between."""
        events = self.log.ahead.number - self._snapshot_number
        if now_ms < self._snapshot_at_ms and events < self.intervals.snapshot_events:
            return
        first = self.log.ahead.number + 1
        self.log.decide("", self.log.config.snapshot())
        groups = self.log.ahead.groups.items()
        is_whole = not any(self.log.decide(name, GroupSnapshot(group)) for name, group in groups)
        # A reader that begins at incomplete snapshots would not know the missing group.
        self._snapshot = _Snapshot(first, self.log.ahead.number) if is_whole else None
        self._snapshot_number = self.log.ahead.number
        self._snapshot_at_ms = now_ms + self.intervals.snapshot_ms

    def read(self, record: EventRecord, outcome: GroupOutcome) -> None:
        """A record was read back: if it was the last of the snapshots, readers may begin there.

        Spec: AfterSnapshot, MovesPosition. Keeps: SuffixExact.
        """
        snapshot = self._snapshot
        if snapshot is None or record.epoch != self.log.c.epoch:
            return
        if outcome.verdict is GroupAccepted.SNAPSHOT_DIFFERS:
            self._snapshot = None
        elif not isinstance(outcome.verdict, GroupAccepted):
            return
        elif record.number == snapshot.first:
            snapshot.offset = record.offset
        if record.number == snapshot.last and self._snapshot is not None:
            self.log.out.append(MovePosition(self.log.partition, snapshot.offset))
            self._snapshot = None


def members_of(groups: Mapping[str, Group]) -> Iterator[MemberKey]:
    """Every member of these groups."""
    return (MemberKey(name, member) for name, group in groups.items() for member in group.members)
