"""Random logs of one partition of `__marshal_groups`, folded as they grow. A walk has a seed.

In an honest log a controller decides what it may, of members that say what is true of a view that
may be old. In a hostile one anybody writes anything, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import attrs

from kafka_marshal.core.groups import reducer
from kafka_marshal.core.groups.events import (
    At,
    ControllershipSnapshot,
    ControllerStarted,
    Event,
    EventRecord,
    GroupCreated,
    GroupDeleted,
    GroupSnapshot,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
    UnknownEvent,
)
from kafka_marshal.core.groups.invariants import GroupProperty, GroupStep, broken
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    Rebalance,
    Topic,
    TopicPartition,
    asked_first,
    is_due,
    wanted,
)
from kafka_marshal.core.messages import NOT_DECIMAL

GROUPS, MEMBERS, TOPICS = ("g", "h"), ("m1", "m2", "m3"), ("a", "b")
STATIC = (TopicPartition("a", 0), TopicPartition("b", 1), TopicPartition("a", 3))


def target_for(group: Group) -> dict[TopicPartition, str]:
    """A target that no guard refuses: owners keep what they may, the rest goes round."""
    asked, target = asked_first(group), {}
    for place, tp in enumerate(sorted(wanted(group))):
        who = sorted(name for name, each in group.members.items() if tp.topic in each.topics)
        target[tp] = asked[tp] if tp in asked else who[(place + group.generation) % len(who)]
    return target


class Walk:
    """A log that grows, and what its fold has come to."""

    def __init__(self, seed: int, *, honest: bool) -> None:
        self.random = Random(seed)
        self.honest = honest
        self.now = Controllership()
        self.records: list[EventRecord] = []
        self.snapshots: list[int] = []
        """Where snapshots of everything begin."""
        self.met: set[object] = set()
        self._waiting: list[EventRecord] = []

    def steps(self, count: int) -> Iterator[set[GroupProperty]]:
        """Append and fold records; what each of them breaks."""
        for _ in range(count):
            yield broken(self.step())

    def step(self) -> GroupStep:
        """Append and fold one more record."""
        record = self._next()
        before = self.now
        outcome = reducer.step(before, record)
        self.now = outcome.controllership
        self.met |= {outcome.verdict, *outcome.positions.values(), *outcome.releases.values()}
        self.records.append(record)
        return GroupStep(before, record, outcome)

    def _next(self) -> EventRecord:
        if self._waiting:
            return self._waiting.pop(0)
        if self.now.epoch >= 0 and self.random.random() < 0.04:
            self._waiting = self._snapshot()
            self.snapshots.append(len(self.records))
            return self._waiting.pop(0)
        if self.now.epoch < 0 or self.random.random() < 0.03:
            return self._record(self._started())
        group = self.random.choice(GROUPS)
        record = self._record(self._event(self.now.groups.get(group)), group)
        return record if self.honest else self._spoiled(record)

    def _record(self, event: Event | UnknownEvent, group: str = "", ahead: int = 1) -> EventRecord:
        offset = len(self.records) + ahead - 1
        if isinstance(event, ControllerStarted):
            return EventRecord(0, offset, offset, event)
        number = self.now.number + ahead
        return EventRecord(0, offset, offset, event, group, self.now.epoch, number)

    def _snapshot(self) -> list[EventRecord]:
        """Who is controller, and every group, one after the other."""
        now = self.now
        assert now.controller_id is not None
        assert now.host is not None
        first = self._record(ControllershipSnapshot(now.controller_id, now.host, now.port))
        every = sorted(now.groups.items())
        return [
            first,
            *(self._record(GroupSnapshot(of), name, at) for at, (name, of) in enumerate(every, 2)),
        ]

    def _started(self) -> ControllerStarted:
        late = self.random.random() < 0.2
        epoch = max(self.now.epoch - 1, -1) if late else self.now.epoch
        return ControllerStarted(epoch, self.random.randrange(2), "localhost", 9090)

    # --- what a controller decides ----------------------------------------------------------------

    def _event(self, group: Group | None) -> Event:
        if group is None:
            return self._created()
        if is_due(group) and self.random.random() < 0.4:
            return Rebalanced(target_for(group))
        makers = [self._registered] * 3 + [self._reconciled] * 6
        makers += [self._left, self._counted, self._rewound]
        if not group.members:
            makers = [self._registered, self._deleted]
        return self.random.choice(makers)(group)

    def _created(self) -> Event:
        topics = {name: Topic(self.random.randint(1, 3), f"{name}0") for name in self._some(TOPICS)}
        how = self.random.choice(list(Rebalance))
        return GroupCreated(10_000, topics, how, "range", self.random.random() < 0.2)

    def _deleted(self, group: Group) -> Event:
        return GroupDeleted()

    def _registered(self, group: Group) -> Event:
        member = self.random.choice(MEMBERS)
        known = group.members.get(member)
        if known is None or self.random.random() < 0.3:
            topics, static = frozenset(self._some(TOPICS)), frozenset(self._some(STATIC, 0.2))
        else:
            topics, static = known.topics, frozenset(known.static)
        return MemberRegistered(member, "c", topics, static, self.random.random() < 0.3)

    def _left(self, group: Group) -> Event:
        member = self.random.choice(sorted(group.members))
        if self.random.random() < 0.5:
            return MemberLeft(member, "closed")
        return MemberExpired(member, "silent", 10_000)

    def _reconciled(self, group: Group) -> Event:
        """What a member says that knows the present, or that is late: also of its tenures."""
        choice = self.random.choice
        member = choice(sorted(group.members))
        own = list(group.owned_by(member))
        late = choice([0, 0, 0, 1, 2])
        positions = {}
        for tp in self._some(own):
            now = group.partitions[tp]
            offset = max(now.position + choice([1, 2, 2, -late]), 0)
            positions[tp] = At(max(now.tenure - choice([0, late]), 0), offset)
        kept = frozenset(tp for tp in own if not group.partitions[tp].revoking)
        held = choice([None, kept, kept, frozenset(own), frozenset()])
        return Reconciled(member, group.generation - choice([0, 0, late]), held, positions)

    def _counted(self, group: Group) -> Event:
        topic = self.random.choice(TOPICS)
        known = group.topics.get(topic)
        if known is None:
            return PartitionsCounted(
                topic, self.random.randint(1, 3), f"{topic}{len(self.records)}"
            )
        if self.random.random() < 0.5:
            return PartitionsCounted(topic, 0, known.topic_id)
        return PartitionsCounted(topic, min(known.count + 1, 5), known.topic_id)

    def _rewound(self, group: Group) -> Event:
        some = self._some(sorted(group.partitions))
        return PartitionsRewound({tp: self.random.randrange(4) for tp in some}, "operator")

    def _some(self, of: object, chance: float = 0.7) -> list:  # type: ignore[type-arg]
        return [each for each in of if self.random.random() < chance]  # type: ignore[attr-defined]

    # --- what anybody may write besides -----------------------------------------------------------

    def _spoiled(self, record: EventRecord) -> EventRecord:
        """The record, or one that is wrong in one way."""
        choose = self.random.random
        if choose() < 0.55:
            return record
        if choose() < 0.35:
            near = (-2, -1, 0, 1, NOT_DECIMAL)
            epoch, number = self.random.choice(near), self.random.choice(near)
            epoch = NOT_DECIMAL if epoch == NOT_DECIMAL else record.epoch + epoch
            number = NOT_DECIMAL if number == NOT_DECIMAL else record.number + number
            return attrs.evolve(record, epoch=epoch, number=number)
        return attrs.evolve(record, event=self._anything(self.now.groups.get(record.group)))

    def _anything(self, group: Group | None) -> Event | UnknownEvent:
        anybody, anywhere = (*MEMBERS, "nobody"), [TopicPartition("a", n) for n in range(5)]
        anywhere += [TopicPartition("b", 0), TopicPartition("c", 0)]
        any_number = range(-1, self.now.number + 2)
        choice, some = self.random.choice, self._some
        tenures = [0] if group is None else [each.tenure for each in group.partitions.values()]
        topic = choice(("a", "b", "c"))
        known = "x" if group is None or topic not in group.topics else group.topics[topic].topic_id
        makers: list[Callable[[], Event | UnknownEvent]] = [
            lambda: UnknownEvent("MemberMoved", 1),
            lambda: self._created(),
            lambda: GroupDeleted(),
            lambda: MemberLeft(choice(anybody), ""),
            lambda: MemberRegistered(
                choice(anybody), "c", frozenset({"a", "c"}), frozenset(some(anywhere)), True
            ),
            lambda: PartitionsCounted(topic, choice(range(5)), choice((known, "x"))),
            lambda: PartitionsCounted(topic, choice(range(1, 4)), known),
            lambda: Rebalanced({tp: choice(anybody) for tp in some(anywhere, 0.9)}),
            lambda: Rebalanced({} if group is None else target_for(group)),
            lambda: (
                Rebalanced({tp: choice(anybody) for tp in some(wanted(group))})
                if group is not None
                else GroupDeleted()
            ),
            lambda: Reconciled(
                choice(anybody),
                choice(any_number),
                choice([None, frozenset(some(anywhere))]),
                {tp: At(choice(tenures or [0]), choice(range(6))) for tp in some(anywhere)},
            ),
            lambda: PartitionsRewound(dict.fromkeys(some(anywhere, 0.2), 0), ""),
            lambda: self._ahead(group),
        ]
        return choice(makers)()

    def _ahead(self, group: Group | None) -> Event:
        """A member that knows a generation that there never was."""
        if group is None or not group.members:
            return GroupDeleted()
        member = self.random.choice(sorted(group.members))
        return Reconciled(member, group.generation + 1, frozenset(), {})


def folded(records: list[EventRecord]) -> Controllership:
    """What a reader of a whole log knows."""
    now = Controllership()
    for record in records:
        now = reducer.step(now, record).controllership
    return now
