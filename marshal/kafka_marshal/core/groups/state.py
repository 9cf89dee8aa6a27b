"""The state of one partition of `__marshal_groups`: its controller and its groups.

This room holds the fields and the questions one can ask of them: what is wanted, and what is due.
It does not know how they change (`transitions`, `settling`, `reducer`).

Mappings are never changed in place: a next state has mappings of its own, or shares them.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from attrs import field

from kafka_marshal.core.values import value

NO_POSITION: Final = -1
"""Nobody has committed yet: the consumer's policy chooses where to begin. Spec: NONE."""
NEVER_STARTED_EPOCH: Final = -1
"""The epoch before the first ControllerStarted, which supersedes it. Spec: NONE."""
PARTITIONS_MAX: Final = 4_000
"""How many partitions a topic of a group has at most, so that its target fits into one record."""


class TopicPartition(NamedTuple):
    """A partition of a topic that a group consumes."""

    topic: str
    partition: int


class Rebalance(enum.Enum):
    """What a group's members must let go when partitions are to move."""

    INCREMENTAL = "incremental"
    """What moves."""
    EAGER = "eager"
    """Everything: whatever is owned was granted by the same rebalance."""


@value
class Topic:
    """A topic as it was last counted."""

    count: int
    """Its partitions, at least 1: a topic that is gone is not in a group's topics."""
    topic_id: str
    """Kafka's id of it: another id is another topic of the same name."""


@value
class GroupPartition:
    """A partition of a topic that the group consumes. Spec: NewPartition."""

    owner: str | None = None
    """The member that owns it; None: it is free."""
    tenure: int = 0
    """Number of the event that granted or rewound it: who speaks of it names this. 0: nobody
    ever owned it. It stays when the partition gets free."""
    target: str | None = None
    """Whose it is to be, by the last Rebalanced. Perhaps no member any more."""
    revoking: int = 0
    """Number of the event since which its owner must let it go; 0: it need not."""
    position: int = 0
    """The next offset to consume, or NO_POSITION."""


@value
class Wish:
    """What a member wants. Spec: Wishes."""

    topics: frozenset[str] = frozenset()
    """Topics of which it takes a share."""
    static: Mapping[TopicPartition, int] = field(factory=dict)
    """Partitions that it asks for by their number, each with the number of the event that asked:
    the first in the log gets it."""


@value
class GroupMember:
    """A member of a group."""

    client_id: str
    topics: frozenset[str]
    """As in `Wish`."""
    static: Mapping[TopicPartition, int]
    """As in `Wish`."""
    joined_at: int
    """Number of the event by which it became a member."""

    @property
    def wish(self) -> Wish:
        """What it wants."""
        return Wish(self.topics, self.static)


@value
class TargetOf:
    """What the last target was made of: a rebalance is due when this is not what is."""

    members: Mapping[str, Wish] = field(factory=dict)
    topics: Mapping[str, Topic] = field(factory=dict)


@value
class Group:
    """A group. Field names and their order are the specification's. Spec: NewGroup."""

    session_timeout_ms: int
    """Controllers count silence by it; the reducer does not."""
    rebalance: Rebalance
    strategy: str
    """Names the function that makes targets. The reducer takes whatever target is written."""
    ephemeral: bool
    """Its controller deletes it when the last member is gone."""
    topics: Mapping[str, Topic]
    members: Mapping[str, GroupMember]
    """By member id."""
    generation: int
    """Number of the last event that changed who is a member, what must be let go, who owns what,
    or where it begins. It only grows, also over deletion."""
    rebalanced_at: int
    """Number of the last Rebalanced; 0: none yet."""
    target_of: TargetOf
    partitions: Mapping[TopicPartition, GroupPartition]
    """Those that exist, and of a topic that is gone those that somebody still owns."""

    def exists(self, tp: TopicPartition) -> bool:
        """The topic is there and has such a partition. Spec: Exists."""
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
    """Offset of the ControllerStarted that won."""
    number: int = 0
    """Events accepted so far, each of which has named its own."""
    controller_id: int | None = None
    """The controller's id; None before the first start."""
    host: str | None = None
    """Where members reach it; None before the first start."""
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
    """Who asked first, in the log, of those that ask for a partition by its number.

    Spec: AskedFirst, Askers. One that nobody asked for is not among them.
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

    Spec: MayHave. One that somebody asked for by its number is nobody else's.
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
    """A rebalance is due: the target is of other members, wishes or topics than there are.

    Spec: IsDue. A topic that went and came back between two rebalances is what it was, and its
    partitions are new: a wanted one without a target makes it due, too.
    """
    if group.target_of != TargetOf(wishes(group), group.topics):
        return True
    return any(group.partitions[tp].target is None for tp in wanted(group))
