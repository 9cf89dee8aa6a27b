"""The state of one partition of `__marshal_groups`: its controller and its groups.

This module holds the fields, and functions of them: what is wanted, and what is due. It does not
know how they change (see `transitions`, `settling`, `reducer`).

Mappings are never modified: a next state has its own mappings, or shares them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from attrs import field

from kafka_marshal.core.values import value

NO_POSITION: Final = -1
"""No position was committed: the consumer's policy chooses the start. Spec: NONE."""
NEVER_STARTED_EPOCH: Final = -1
"""The epoch before the first ControllerStarted, which supersedes it. Spec: NONE."""
PARTITIONS_MAX: Final = 4_000
"""The most partitions of a group's topic, so that its target fits into one record."""


class TopicPartition(NamedTuple):
    """A partition of a topic that a group consumes."""

    topic: str
    partition: int


class Rebalance(enum.Enum):
    """What a group's members must release when partitions are to move."""

    INCREMENTAL = "incremental"
    """The partitions that move."""
    EAGER = "eager"
    """Everything: then the same rebalance has granted all owned partitions."""


@value
class Topic:
    """A topic as it was last counted."""

    count: int
    """The number of its partitions, at least 1; a topic that is gone is removed from the group's
    topics."""
    topic_id: str
    """Kafka's id of it: another id is another topic with the same name."""


@value
class GroupPartition:
    """A partition of a topic that the group consumes. Spec: NewPartition."""

    owner: str | None = None
    """The member that owns it; None: it is free."""
    tenure: int = 0
    """The number of the event that granted or rewound it; requests about it must name this number.
    0: it never had an owner. It is kept when the partition becomes free."""
    target: str | None = None
    """The next owner, by the last Rebalanced; possibly no member any more."""
    revoking: int = 0
    """The number of the event since which its owner must release it; 0: it need not."""
    position: int = 0
    """The next offset to consume, or NO_POSITION."""


@value
class Wish:
    """What a member wants. Spec: Wishes."""

    topics: frozenset[str] = frozenset()
    """Topics of which it takes a share."""
    static: Mapping[TopicPartition, int] = field(factory=dict)
    """Partitions that it requests by number, each with the number of the requesting event: the
    first in the log gets it."""


@value
class GroupMember:
    """A member of a group."""

    client_id: str
    topics: frozenset[str]
    """See `Wish`."""
    static: Mapping[TopicPartition, int]
    """See `Wish`."""
    joined_at: int
    """The number of the event by which it became a member."""

    @property
    def wish(self) -> Wish:
        """What it wants."""
        return Wish(self.topics, self.static)


@value
class TargetOf:
    """The input of the last target: a rebalance is due when the current input differs."""

    members: Mapping[str, Wish] = field(factory=dict)
    topics: Mapping[str, Topic] = field(factory=dict)


@value
class Group:
    """A group. Field names and their order are the specification's. Spec: NewGroup."""

    session_timeout_ms: int
    """Controllers measure silence by it; the reducer does not."""
    rebalance: Rebalance
    strategy: str
    """The name of the function that computes targets. The reducer accepts any target that is
    written."""
    ephemeral: bool
    """Its controller deletes it when the last member is gone."""
    topics: Mapping[str, Topic]
    members: Mapping[str, GroupMember]
    """By member id."""
    generation: int
    """The number of the last event that changed the members, what must be released, owners or
    tenures. It only grows, even over a deletion."""
    rebalanced_at: int
    """The number of the last Rebalanced; 0: none yet."""
    target_of: TargetOf
    partitions: Mapping[TopicPartition, GroupPartition]
    """Those that exist, and of topics that are gone those that still have an owner."""

    def exists(self, tp: TopicPartition) -> bool:
        """Whether the topic exists and has such a partition. Spec: Exists."""
        topic = self.topics.get(tp.topic)
        return topic is not None and 0 <= tp.partition < topic.count

    def owned_by(self, member: str) -> Iterator[TopicPartition]:
        """The partitions that a member owns. Spec: OwnedBy."""
        return (tp for tp, each in self.partitions.items() if each.owner == member)


@value
class Controllership:
    """The state of one partition of the log. The default value is before its first event.

    Spec: NewControllership. Field names are the specification's.
    """

    epoch: int = NEVER_STARTED_EPOCH
    """The offset of the ControllerStarted that won."""
    number: int = 0
    """The number of accepted events, and of the last one."""
    controller_id: int | None = None
    """The controller's id; None before the first start."""
    host: str | None = None
    """The host by which members reach it; None before the first start."""
    port: int = 0
    groups: Mapping[str, Group] = field(factory=dict)
    """By group id."""


# --- words for a group ----------------------------------------------------------------------------


def partitions_of(topics: Mapping[str, Topic]) -> Iterator[TopicPartition]:
    """Every partition of some topics. Spec: PartitionsOf."""
    return (
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number in range(topic.count)
    )


def asked_first(group: Group) -> Mapping[TopicPartition, str]:
    """For each partition requested by number, the member that asked first in the log.

    Spec: AskedFirst, Askers. Partitions that no member requested are missing.
    """
    first: dict[TopicPartition, tuple[int, str]] = {}
    for name, member in group.members.items():
        for tp, number in member.static.items():
            if tp not in first or number < first[tp][0]:
                first[tp] = number, name
    return {tp: name for tp, (_, name) in first.items()}


def may_have(
    group: Group, asked: Mapping[TopicPartition, str], member: str, tp: TopicPartition
) -> bool:
    """Whether a target may give a partition to a member; `asked` is `asked_first(group)`.

    Spec: MayHave. A partition that was requested by number goes to no other member.
    """
    first = asked.get(tp)
    return tp.topic in group.members[member].topics if first is None else first == member


def wanted(group: Group) -> list[TopicPartition]:
    """The partitions that a target must name. Spec: Wanted, IsWanted."""
    topics = frozenset().union(*(member.topics for member in group.members.values()))
    asked = asked_first(group)
    return [tp for tp in partitions_of(group.topics) if tp in asked or tp.topic in topics]


def wishes(group: Group) -> Mapping[str, Wish]:
    """What each member wants. Spec: Wishes."""
    return {name: member.wish for name, member in group.members.items()}


def is_due(group: Group) -> bool:
    """Whether a rebalance is due: members, wishes or topics differ from the target's input.

    Spec: IsDue. A topic that went and came back between two rebalances looks unchanged, but its
    partitions are new: a wanted one without a target makes a rebalance due, too.
    """
    if group.target_of != TargetOf(wishes(group), group.topics):
        return True
    return any(group.partitions[tp].target is None for tp in wanted(group))
