"""The events of `__marshal_groups`, and the records that carry them.

An event is a decision of a controller. This module defines the content of events. It does not know
their bytes (see `kafka_marshal.group_codec`) nor their effect on a group (see `transitions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from kafka_marshal.core.groups.state import Group, Rebalance, Topic, TopicPartition
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.core.values import value

KNOWN_VERSION: Final = 1
"""The version of every event that this reducer knows.

ControllerStarted never gets another one: if fields are added, older readers ignore them. So every
reader always knows who is the controller."""


class At(NamedTuple):
    """How far a member has processed a partition, and under which tenure."""

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
    """The host by which members reach it."""
    port: int


@value
class ControllershipSnapshot:
    """The current controller, for readers that begin here. Spec: ControllershipSnapshot."""

    controller_id: int
    host: str
    port: int


@value
class GroupCreated:
    """A group without members is created. Spec: GroupCreated."""

    session_timeout_ms: int
    topics: Mapping[str, Topic]
    rebalance: Rebalance
    strategy: str
    ephemeral: bool


@value
class GroupDeleted:
    """The group and its positions are deleted. Spec: GroupDeleted."""


@value
class GroupSnapshot:
    """A whole group, as it was before this event. Spec: GroupSnapshot."""

    state: Group


@value
class MemberRegistered:
    """A member joins, starts over, or changes what it wants. Spec: MemberRegistered."""

    member: str
    """The member's id."""
    client_id: str
    topics: frozenset[str]
    static: frozenset[TopicPartition]
    """Partitions that it requests by number."""
    fresh: bool
    """It remembers nothing, so it holds nothing."""


@value
class MemberLeft:
    """A member leaves. Spec: WithoutMember."""

    member: str
    reason: str


@value
class MemberExpired:
    """The controller removed a member. Spec: WithoutMember."""

    member: str
    reason: str
    """`silent`, or `unreleased`: it is alive, but released nothing for a rebalance timeout."""
    silent_ms: int
    """How long it was silent while a controller listened, in milliseconds."""


@value
class PartitionsCounted:
    """A topic has this many partitions. Spec: PartitionsCounted."""

    topic: str
    count: int
    """0: the topic is gone."""
    topic_id: str
    """Kafka's id of the counted topic."""


@value
class Rebalanced:
    """The next owner of each partition. Spec: Rebalanced.

    The target is written and not derived, so no reader needs the strategy that computed it.
    """

    target: Mapping[TopicPartition, str]


@value
class Reconciled:
    """A member's report on its partitions: its positions, and what it holds. Spec: Reconciled."""

    member: str
    as_of: int
    """The generation that it knows."""
    held: frozenset[TopicPartition] | None
    """What it holds; None: it does not report that, it only commits."""
    positions: Mapping[TopicPartition, At]
    """The positions that it commits."""

    @property
    def commits_only(self) -> bool:
        """It releases nothing, whatever it holds."""
        return self.held is None


@value
class PartitionsRewound:
    """Positions are set, backwards or forwards. Spec: PartitionsRewound."""

    positions: Mapping[TopicPartition, int]
    by: str
    """Who requested it."""


@value
class UnknownEvent:
    """An event of a later version: its name or its version is not known here."""

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
"""Events that change an existing group."""

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
    """The partition of the log."""
    offset: int
    timestamp_ms: int
    """When the broker appended it. The reducer never looks at it."""
    event: Event | UnknownEvent
    group: str = ""
    """The group that it is about: the record's key. Empty for an event about the controllership."""
    epoch: int = NOT_DECIMAL
    """Header `marshal-epoch`: the epoch of the decision; NOT_DECIMAL also if it is absent. A
    ControllerStarted has none."""
    number: int = NOT_DECIMAL
    """Header `marshal-number`: the number of accepted events before it, plus 1; otherwise like
    `epoch`."""
