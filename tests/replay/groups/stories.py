"""Logs of `__marshal_groups` that are written by hand, event by event, as a controller would."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kafka_marshal.core.groups.events import (
    At,
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    EventRecord,
    GroupCreated,
    GroupSnapshot,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
    UnknownEvent,
)
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import Controllership, Group, Rebalance, Topic, TopicPartition
from kafka_marshal.replay.groups.groups_fold import GroupsJudging
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS, Rows
from tests.replay.groups.logs import folded, raw_of

START_MS = 1_795_219_134_000
SESSION_MS = 10_000
NONE: Mapping[TopicPartition, At] = MappingProxyType({})


def tp(number: int, topic: str = "orders") -> TopicPartition:
    """A partition."""
    return TopicPartition(topic, number)


class GroupLog:
    """A log that grows, with a clock that the story sets, in seconds."""

    def __init__(self, partitions: int = 4, how: Rebalance = Rebalance.INCREMENTAL) -> None:
        self.now_ms = START_MS
        self.now = Controllership()
        self.records: list[EventRecord] = []
        self.starts(1)
        topics = {"orders": Topic(partitions, "id-1")}
        self.writes(GroupCreated(SESSION_MS, topics, how, "sticky", False))

    @property
    def group(self) -> Group:
        """The story's group as it is."""
        return self.now.groups["g"]

    def at(self, second: float) -> GroupLog:
        """Set the clock."""
        self.now_ms = START_MS + round(1_000 * second)
        return self

    def starts(self, controller: int) -> GroupLog:
        """A controller takes over."""
        return self._append(ControllerStarted(self.now.epoch, controller, "localhost", 9_000), "")

    def writes(
        self,
        event: Event | UnknownEvent,
        group: str = "g",
        *,
        epoch: int | None = None,
        number: int | None = None,
    ) -> GroupLog:
        """The controller writes an event; another epoch and number may be given."""
        return self._append(event, group, epoch, number)

    def _append(
        self,
        event: Event | UnknownEvent,
        group: str,
        epoch: int | None = None,
        number: int | None = None,
    ) -> GroupLog:
        is_start = isinstance(event, ControllerStarted)
        record = EventRecord(
            0,
            len(self.records),
            self.now_ms,
            event,
            group,
            -2 if is_start else self.now.epoch if epoch is None else epoch,
            -2 if is_start else self.now.number + 1 if number is None else number,
        )
        self.records.append(record)
        self.now = step(self.now, record).controllership
        return self

    # --- what members do --------------------------------------------------------------------------

    def joins(
        self, member: str, *topics: str, static: frozenset[TopicPartition] = frozenset()
    ) -> GroupLog:
        """A member registers."""
        wants = frozenset(topics or ("orders",))
        return self.writes(MemberRegistered(member, f"client-{member}", wants, static, True))

    def leaves(self, member: str) -> GroupLog:
        """A member leaves."""
        return self.writes(MemberLeft(member, "closed"))

    def expires(self, member: str, reason: str = "silent") -> GroupLog:
        """A member is given up."""
        return self.writes(MemberExpired(member, reason, 10_300))

    def target(self, *members: str, topic: str = "orders") -> GroupLog:
        """The partitions of a topic go to these members, in order."""
        return self.writes(Rebalanced({tp(n, topic): m for n, m in enumerate(members)}))

    def lets_go(self, member: str, positions: Mapping[TopicPartition, At] = NONE) -> GroupLog:
        """A member holds nothing that it must let go, and says how far it got."""
        kept = (at for at in self.group.owned_by(member) if not self.group.partitions[at].revoking)
        return self.writes(Reconciled(member, self.group.generation, frozenset(kept), positions))

    def commits(self, member: str, number: int, offset: int, tenure: int | None = None) -> GroupLog:
        """A member commits a position of a partition."""
        known = self.group.partitions[tp(number)].tenure
        at = At(known if tenure is None else tenure, offset)
        return self.writes(Reconciled(member, self.group.generation, None, {tp(number): at}))

    def rewinds(self, number: int, offset: int) -> GroupLog:
        """Somebody sets a position."""
        return self.writes(PartitionsRewound({tp(number): offset}, "admin"))

    def snapshots(self) -> GroupLog:
        """The controller writes down everything."""
        now = self.now
        assert now.controller_id is not None
        assert now.host is not None
        self.writes(ControllershipSnapshot(now.controller_id, now.host, now.port), "")
        for name, group in sorted(now.groups.items()):
            self.writes(GroupSnapshot(group), name)
        return self

    # --- what a replay says -----------------------------------------------------------------------

    def rows(self, judging: GroupsJudging | None = None, first: int = 0) -> Rows:
        """All rows of the log from an offset on."""
        return folded(map(raw_of, self.records[first:]), judging)

    def found(self, code: str) -> list[FindingRow]:
        """The findings of one code."""
        return [row for row in self.rows()[FINDINGS] if row.code == code]


def shared() -> GroupLog:
    """Two members that share four partitions: m1 has 0 and 1, m2 has 2 and 3."""
    log = GroupLog().at(1).joins("m1").target(*["m1"] * 4)
    return log.at(2).joins("m2").target("m1", "m1", "m2", "m2").at(3).lets_go("m1")
