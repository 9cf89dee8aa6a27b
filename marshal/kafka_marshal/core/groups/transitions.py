"""What each event does to its group after all guards passed. Each returns the next group.

It reads like the actions of `Group.tla`. The consequences of events are in `settling`, and the
check of their senders in `reducer`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from kafka_marshal.core.groups.events import (
    GroupCreated,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    OfAKnownGroup,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.guards import position_verdict, release_verdict
from kafka_marshal.core.groups.state import (
    NO_POSITION,
    Group,
    GroupMember,
    GroupPartition,
    Rebalance,
    TargetOf,
    Topic,
    TopicPartition,
    partitions_of,
    wishes,
)
from kafka_marshal.core.groups.verdicts import GroupAccepted, OfAPosition, OfARelease
from kafka_marshal.core.values import evolved


def after(group: Group, event: OfAKnownGroup, number: int) -> Group:
    """The group after an event that passed all guards, not settled yet. Spec: After."""
    match event:
        case MemberRegistered():
            return member_registered(group, event, number)
        case MemberLeft() | MemberExpired():
            return without_member(group, event.member, number)
        case PartitionsCounted():
            return partitions_counted(group, event, number)
        case Rebalanced():
            return rebalanced(group, event, number)
        case Reconciled():
            return reconciled(group, event)
        case PartitionsRewound():
            return partitions_rewound(group, event, number)
        case _:
            assert_never(event)


def event_verdict(group: Group, event: OfAKnownGroup) -> GroupAccepted:
    """The verdict on an event that passed all guards; `group` is before it. Spec: EventVerdict."""
    match event:
        case MemberRegistered():
            return registered_verdict(group, event)
        case MemberLeft():
            return GroupAccepted.LEFT
        case MemberExpired():
            return GroupAccepted.EXPIRED
        case PartitionsCounted():
            return GroupAccepted.COUNTED
        case Rebalanced():
            return GroupAccepted.REBALANCED
        case Reconciled():
            return GroupAccepted.RECONCILED
        case PartitionsRewound():
            return GroupAccepted.REWOUND
        case _:
            assert_never(event)


def changed(
    group: Group,
    which: Iterable[TopicPartition],
    how: Callable[[GroupPartition], GroupPartition],
) -> Mapping[TopicPartition, GroupPartition]:
    """The group with these partitions changed."""
    now = {tp: how(group.partitions[tp]) for tp in which}
    return {**group.partitions, **now} if now else group.partitions


def let_go(partition: GroupPartition) -> GroupPartition:
    """The partition without an owner. Spec: LetGo.

    It keeps its tenure, so requests of its last owner are refused.
    """
    return evolved(partition, owner=None, revoking=0)


def revoked(partition: GroupPartition, number: int) -> GroupPartition:
    """Its owner must release it: from now on, or since an earlier event. Spec: Revoked."""
    return partition if partition.revoking else evolved(partition, revoking=number)


# --- members --------------------------------------------------------------------------------------


def new_group(event: GroupCreated, number: int) -> Group:
    """A group without members, for which an empty target is right. Spec: NewGroup.

    The consumer's policy chooses the start of partitions that exist now.
    """
    begins = GroupPartition(position=NO_POSITION)
    return Group(
        session_timeout_ms=event.session_timeout_ms,
        rebalance=event.rebalance,
        strategy=event.strategy,
        ephemeral=event.ephemeral,
        topics=event.topics,
        members={},
        generation=number,
        rebalanced_at=0,
        target_of=TargetOf({}, event.topics),
        partitions=dict.fromkeys(partitions_of(event.topics), begins),
    )


def static_of(group: Group, event: MemberRegistered, number: int) -> Mapping[TopicPartition, int]:
    """The event number of each static wish: an unchanged one keeps its number.

    Spec: StaticOf.
    """
    known = group.members.get(event.member)
    before: Mapping[TopicPartition, int] = {} if known is None else known.static
    return {tp: before.get(tp, number) for tp in event.static}


def member_of(group: Group, event: MemberRegistered, number: int) -> GroupMember:
    """The member from now on. Spec: MemberOf."""
    known = group.members.get(event.member)
    joined_at = number if known is None else known.joined_at
    return GroupMember(event.client_id, event.topics, static_of(group, event, number), joined_at)


def with_member(group: Group, event: MemberRegistered, number: int) -> Group:
    """The group with this member and its wishes. Spec: WithMember."""
    members = {**group.members, event.member: member_of(group, event, number)}
    return evolved(group, members=members)


def renewed(partition: GroupPartition, number: int) -> GroupPartition:
    """Partitions that it must release are free; its others get a new tenure. Spec: Renewed."""
    return let_go(partition) if partition.revoking else evolved(partition, tenure=number)


def fresh(group: Group, member: str, number: int) -> Group:
    """A member without memory holds none of the partitions that it owns. Spec: Fresh."""
    partitions = changed(group, group.owned_by(member), lambda each: renewed(each, number))
    return evolved(group, partitions=partitions)


def member_registered(group: Group, event: MemberRegistered, number: int) -> Group:
    """A member joins, starts over, or changes what it wants. Spec: MemberRegistered."""
    joined = with_member(group, event, number)
    if event.member not in group.members:
        return evolved(joined, generation=number)
    return fresh(joined, event.member, number) if event.fresh else joined


def registered_verdict(group: Group, event: MemberRegistered) -> GroupAccepted:
    """Which of the three it was. Spec: RegisteredVerdict."""
    if event.member not in group.members:
        return GroupAccepted.JOINED
    return GroupAccepted.RENEWED if event.fresh else GroupAccepted.WISHES_CHANGED


def without_member(group: Group, member: str, number: int) -> Group:
    """The member is removed, and its partitions are free. Spec: WithoutMember."""
    return evolved(
        group,
        members={name: each for name, each in group.members.items() if name != member},
        partitions=changed(group, group.owned_by(member), let_go),
        generation=number,
    )


# --- topics ---------------------------------------------------------------------------------------


def gone(group: Group, event: PartitionsCounted, number: int) -> Group:
    """The topic is gone; its owned partitions must be released, and remain until then.

    Spec: Gone. Keeps: NoTwoOwners, for a topic that is created anew.
    """

    def ended(partition: GroupPartition) -> GroupPartition:
        is_owned = partition.owner is not None
        nobodys = evolved(partition, target=None)
        return revoked(nobodys, number) if is_owned else nobodys

    of_it = [tp for tp in group.partitions if tp.topic == event.topic]
    return evolved(
        group,
        topics={name: each for name, each in group.topics.items() if name != event.topic},
        partitions=changed(group, of_it, ended),
        generation=number,
    )


def grown(group: Group, event: PartitionsCounted) -> Group:
    """New partitions are consumed from their beginning. Spec: Grown."""
    topic = Topic(event.count, event.topic_id)
    added = dict.fromkeys(partitions_of({event.topic: topic}), GroupPartition(position=0))
    return evolved(
        group,
        topics={**group.topics, event.topic: topic},
        partitions={**added, **group.partitions},
    )


def partitions_counted(group: Group, event: PartitionsCounted, number: int) -> Group:
    """A topic has grown, or is gone. Spec: PartitionsCounted."""
    return gone(group, event, number) if event.count == 0 else grown(group, event)


# --- who owns what --------------------------------------------------------------------------------


def must_let_go(group: Group, partition: GroupPartition) -> bool:
    """Incremental: an owner must release what goes to another; eager: everything.

    Spec: MustLetGo.
    """
    return partition.owner is not None and (
        group.rebalance is Rebalance.EAGER or partition.owner != partition.target
    )


def retargeted(group: Group, event: Rebalanced, tp: TopicPartition, number: int) -> GroupPartition:
    """The partition with a new target. Spec: Retargeted.

    If its owner is the target again, it keeps the partition and the tenure, even if it was to
    release it.
    """
    partition = evolved(group.partitions[tp], target=event.target.get(tp))
    if must_let_go(group, partition):
        return revoked(partition, number)
    return evolved(partition, revoking=0)


def rebalanced(group: Group, event: Rebalanced, number: int) -> Group:
    """Set the target of each partition. Spec: Rebalanced."""
    return evolved(
        group,
        partitions={tp: retargeted(group, event, tp, number) for tp in group.partitions},
        target_of=TargetOf(wishes(group), group.topics),
        rebalanced_at=number,
        generation=number,
    )


def committed(group: Group, event: Reconciled) -> Group:
    """The owner increases the position, naming the tenure.

    Spec: Committed. Keeps: CommitFenced, OffsetsMonotone, RewindSticks.
    """
    risen = {
        tp: evolved(group.partitions[tp], position=at.offset)
        for tp, at in event.positions.items()
        if position_verdict(group, event, tp) is OfAPosition.COMMITTED
    }
    return evolved(group, partitions={**group.partitions, **risen}) if risen else group


def not_held(group: Group, event: Reconciled) -> list[TopicPartition]:
    """Partitions that the member owns, must release, and reports as not held. Spec: NotHeld."""
    if event.held is None:
        return []
    return [
        tp
        for tp in group.owned_by(event.member)
        if group.partitions[tp].revoking and tp not in event.held
    ]


def released(group: Group, event: Reconciled) -> Group:
    """G6: partitions that their owner has released are free. Spec: Released. Keeps: NoTwoOwners."""
    free = [
        tp
        for tp in not_held(group, event)
        if release_verdict(group, event, tp) is OfARelease.RELEASED
    ]
    return evolved(group, partitions=changed(group, free, let_go)) if free else group


def reconciled(group: Group, event: Reconciled) -> Group:
    """Commit, then release; both may apply to the same partition. Spec: Reconciled."""
    return released(committed(group, event), event)


def partitions_rewound(group: Group, event: PartitionsRewound, number: int) -> Group:
    """Set positions at once: earlier work has another tenure.

    Spec: PartitionsRewound. Keeps: RewindSticks.
    """
    rewound = {
        tp: evolved(group.partitions[tp], position=position, tenure=number)
        for tp, position in event.positions.items()
    }
    return evolved(group, partitions={**group.partitions, **rewound}, generation=number)
