"""The guards of group events: each returns whether it refuses the event.

They repeat the checks of a controller before it decides, so that a controller with a bug cannot
take a partition. Their order is the specification's. `transitions` applies the events that pass.
"""

from __future__ import annotations

from typing import assert_never

from kafka_marshal.core.groups.events import (
    At,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    OfAKnownGroup,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.state import Group, TopicPartition, asked_first, is_due, may_have
from kafka_marshal.core.groups.state import wanted as wanted_of
from kafka_marshal.core.groups.verdicts import GroupRefused, OfAPosition, OfARelease


def event_guard(group: Group, event: OfAKnownGroup) -> GroupRefused | None:
    """The guard that refuses an event of an existing group, or None. Spec: EventGuard."""
    match event:
        case MemberRegistered():
            return None
        case MemberLeft() | MemberExpired() | Reconciled():
            return GroupRefused.UNKNOWN_MEMBER if unknown_member(group, event) else None
        case PartitionsCounted():
            return count_guard(group, event)
        case Rebalanced():
            return target_guard(group, event)
        case PartitionsRewound():
            return GroupRefused.UNKNOWN_PARTITION if unknown_partition(group, event) else None
        case _:
            assert_never(event)


def not_empty(group: Group) -> bool:
    """A group with members cannot be deleted. Spec: NotEmpty."""
    return bool(group.members)


def unknown_member(group: Group, event: MemberLeft | MemberExpired | Reconciled) -> bool:
    """It is about a client that is not a member. Spec: UnknownMember."""
    return event.member not in group.members


def unknown_partition(group: Group, event: PartitionsRewound) -> bool:
    """It rewinds a partition that the group does not have. Spec: UnknownPartition."""
    return any(tp not in group.partitions for tp in event.positions)


# --- of a count -----------------------------------------------------------------------------------


def count_guard(group: Group, event: PartitionsCounted) -> GroupRefused | None:
    """The guard that refuses a count, or None. Spec: CountGuard."""
    if nothing_new(group, event):
        return GroupRefused.NOTHING_NEW
    if still_owned(group, event):
        return GroupRefused.STILL_OWNED
    if remade(group, event):
        return GroupRefused.REMADE
    return GroupRefused.SHRUNK if shrunk(group, event) else None


def nothing_new(group: Group, event: PartitionsCounted) -> bool:
    """The topic has not changed. Spec: NothingNew."""
    known = group.topics.get(event.topic)
    if known is None:
        return event.count == 0
    return (known.count, known.topic_id) == (event.count, event.topic_id)


def still_owned(group: Group, event: PartitionsCounted) -> bool:
    """A topic that was created anew gets no partitions while one of the old topic has an owner.

    Spec: StillOwned. Otherwise the partition could have two holders, of two topics.
    """
    return event.topic not in group.topics and any(
        tp.topic == event.topic for tp in group.partitions
    )


def remade(group: Group, event: PartitionsCounted) -> bool:
    """Another topic with the same name: positions of the old one do not apply. Spec: Remade."""
    known = group.topics.get(event.topic)
    return known is not None and event.count > 0 and known.topic_id != event.topic_id


def shrunk(group: Group, event: PartitionsCounted) -> bool:
    """Fewer partitions than before, which Kafka does not allow. Spec: Shrunk."""
    known = group.topics.get(event.topic)
    return known is not None and 0 < event.count < known.count


# --- of a target ----------------------------------------------------------------------------------


def target_guard(group: Group, event: Rebalanced) -> GroupRefused | None:
    """The guard that refuses a target, or None. Spec: TargetGuard."""
    if not_a_member(group, event):
        return GroupRefused.NOT_A_MEMBER
    if not_wanted(group, event):
        return GroupRefused.NOT_WANTED
    if not_all_assigned(group, event):
        return GroupRefused.NOT_ALL_ASSIGNED
    return GroupRefused.NOTHING_CHANGED if nothing_changed(group, event) else None


def not_a_member(group: Group, event: Rebalanced) -> bool:
    """The target of a partition is not a member. Spec: NotAMember."""
    return not group.members.keys() >= {*event.target.values()}


def not_wanted(group: Group, event: Rebalanced) -> bool:
    """A partition does not exist, or its target may not have it. Spec: NotWanted."""
    asked = asked_first(group)
    return any(
        not (group.exists(tp) and may_have(group, asked, member, tp))
        for tp, member in event.target.items()
    )


def not_all_assigned(group: Group, event: Rebalanced) -> bool:
    """A wanted partition has no target. Spec: NotAllAssigned."""
    return any(tp not in event.target for tp in wanted_of(group))


def nothing_changed(group: Group, event: Rebalanced) -> bool:
    """No rebalance is due, so this one would only move partitions. Spec: NothingChanged."""
    return not is_due(group)


# --- of each partition of a Reconciled ------------------------------------------------------------


def is_unknown(group: Group, tp: TopicPartition) -> bool:
    """The group has no such partition. Spec: IsUnknown."""
    return tp not in group.partitions


def not_owner(group: Group, member: str, tp: TopicPartition) -> bool:
    """G7: the partition has another owner, or none. Spec: NotOwner."""
    return group.partitions[tp].owner != member


def other_tenure(group: Group, tp: TopicPartition, at: At) -> bool:
    """G7: it was granted again or rewound since. Spec: OtherTenure."""
    return group.partitions[tp].tenure != at.tenure


def not_ahead(group: Group, tp: TopicPartition, at: At) -> bool:
    """G8: a position only increases. Spec: NotAhead."""
    return at.offset <= group.partitions[tp].position


def position_verdict(group: Group, event: Reconciled, tp: TopicPartition) -> OfAPosition:
    """The verdict on one position of a Reconciled. Spec: PositionVerdict."""
    at = event.positions[tp]
    if is_unknown(group, tp):
        return OfAPosition.UNKNOWN_PARTITION
    if not_owner(group, event.member, tp):
        return OfAPosition.NOT_OWNER
    if other_tenure(group, tp, at):
        return OfAPosition.OTHER_TENURE
    return OfAPosition.NOT_AHEAD if not_ahead(group, tp, at) else OfAPosition.COMMITTED


def not_told(group: Group, tp: TopicPartition, event: Reconciled) -> bool:
    """G6: as of an earlier generation, the member did not know that it must release it.

    Spec: NotTold. The same holds for a generation that never existed.
    """
    return event.as_of < group.partitions[tp].revoking or event.as_of > group.generation


def release_verdict(group: Group, event: Reconciled, tp: TopicPartition) -> OfARelease:
    """The verdict on a partition that must be released and is not held. Spec: ReleaseVerdict."""
    return OfARelease.NOT_TOLD if not_told(group, tp, event) else OfARelease.RELEASED
