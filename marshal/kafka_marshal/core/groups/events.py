"""The events of `__marshal_groups`, and the records that carry them.

An event is a decision of a controller, written down. This room knows what an event says. It does
not know its bytes (`kafka_marshal.group_codec` does) nor what it does to a group (`transitions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kafka_marshal.core.groups.state import Group, Rebalance, Topic, TopicPartition
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.core.values import value

KNOWN_VERSION: Final = 1
"""The version of every event that this reducer knows.

ControllerStarted is never written in another one: it gets fields, and older readers pass over them.
So nobody loses sight of who is controller.
"""


class At(NamedTuple):
    """How far a member got in a partition, and under which tenure."""

    tenure: int
    offset: int
    """The next offset to consume."""


@value
class ControllerStarted:
    """A controller takes over this partition of the log. Spec: ControllerStarted."""

    supersedes: int
    """The epoch that it ends, -1 before the first start: of two that compete, the first wins."""
    controller_id: int
    host: str
    """Where members reach it."""
    port: int


@value
class ControllershipSnapshot:
    """Who is controller, for readers that begin here. Spec: ControllershipSnapshot."""

    controller_id: int
    host: str
    port: int


@value
class GroupCreated:
    """A group without members. Spec: GroupCreated."""

    session_timeout_ms: int
    topics: Mapping[str, Topic]
    rebalance: Rebalance
    strategy: str
    ephemeral: bool


@value
class GroupDeleted:
    """The group is gone, and its positions with it. Spec: GroupDeleted."""


@value
class GroupSnapshot:
    """A whole group, as it was before this event. Spec: GroupSnapshot."""

    state: Group


@value
class MemberRegistered:
    """A member joins, begins anew, or changes what it wants. Spec: MemberRegistered."""

    member: str
    """The member's id."""
    client_id: str
    topics: frozenset[str]
    static: frozenset[TopicPartition]
    """Partitions that it asks for by their number."""
    fresh: bool
    """It remembers nothing, so it holds nothing."""


@value
class MemberLeft:
    """A member leaves. Spec: WithoutMember."""

    member: str
    reason: str


@value
class MemberExpired:
    """The controller gave a member up. Spec: WithoutMember."""

    member: str
    reason: str
    """`silent`, or `unreleased`: it lives, and let nothing go for a rebalance timeout."""
    silent_ms: int
    """For how long nothing came from it while somebody listened, in milliseconds."""


@value
class PartitionsCounted:
    """A topic has this many partitions. Spec: PartitionsCounted."""

    topic: str
    count: int
    """0: it is gone."""
    topic_id: str
    """Kafka's id of the topic that was counted."""


@value
class Rebalanced:
    """Whose each partition is to be. Spec: Rebalanced.

    The target is written and not derived, so no reader needs the strategy that made it.
    """

    target: Mapping[TopicPartition, str]


@value
class Reconciled:
    """What a member says of its partitions: how far it got, and what it holds. Spec: Reconciled."""

    member: str
    as_of: int
    """The generation that it knows."""
    held: frozenset[TopicPartition] | None
    """What it holds; None: it says nothing about that, it only commits."""
    positions: Mapping[TopicPartition, At]
    """What it commits."""

    @property
    def commits_only(self) -> bool:
        """It lets nothing go, whatever it holds."""
        return self.held is None


@value
class PartitionsRewound:
    """Somebody sets positions, backwards or forwards. Spec: PartitionsRewound."""

    positions: Mapping[TopicPartition, int]
    by: str
    """Who asked for it."""


@value
class UnknownEvent:
    """An event that a later version writes: its name or its version is not known here."""

    name: str
    version: int


OfAKnownGroup: TypeAlias = (
    MemberRegistered
    | MemberLeft
    | MemberExpired
    | PartitionsCounted
    | Rebalanced
    | Reconciled
    | PartitionsRewound
)
"""Events that change a group that there is."""

Event: TypeAlias = (
    ControllerStarted
    | ControllershipSnapshot
    | GroupCreated
    | GroupDeleted
    | GroupSnapshot
    | OfAKnownGroup
)
"""Events by their name in the specification. Spec: EventTypes."""


@value
class EventRecord:
    """One record of `__marshal_groups`."""

    partition: int
    """The log's own."""
    offset: int
    timestamp_ms: int
    """When the broker appended it. The reducer never looks at it."""
    event: Event | UnknownEvent
    group: str = ""
    """The group that it is about: the record's key. Empty for an event of the controllership."""
    epoch: int = NOT_DECIMAL
    """Header `marshal-epoch`: the epoch in which it was decided; NOT_DECIMAL also if it is absent.
    A ControllerStarted has none."""
    number: int = NOT_DECIMAL
    """Header `marshal-number`: accepted events before it, and 1; as `epoch`."""
