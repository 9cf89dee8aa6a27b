"""What follows from every event: each free partition goes to its target.

This is not a decision, so there is no event for it. Otherwise a controller could die between
"released" and "granted"; here there is no such state.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka_marshal.core.groups.state import Group, GroupPartition, Rebalance, TopicPartition
from kafka_marshal.core.values import evolved


def remaining(group: Group) -> Mapping[TopicPartition, GroupPartition]:
    """Of a topic that is gone, only partitions with an owner remain. Spec: Remaining."""
    gone = [
        tp for tp, each in group.partitions.items() if each.owner is None and not group.exists(tp)
    ]
    if not gone:
        return group.partitions
    left = dict(group.partitions)
    for tp in gone:
        del left[tp]
    return left


def barrier_holds(group: Group) -> bool:
    """Eager: some partition must still be released, so none is granted.

    Spec: BarrierHolds. Keeps: OneGeneration.
    """
    return group.rebalance is Rebalance.EAGER and any(
        each.owner is not None and each.revoking for each in group.partitions.values()
    )


def is_granted(group: Group, partition: GroupPartition) -> bool:
    """Whether a partition is free (G6) and its target is a member; ignores the barrier.

    Spec: IsGranted.
    """
    return partition.owner is None and partition.target in group.members


def granted(partition: GroupPartition, number: int) -> GroupPartition:
    """The partition belongs to its target, under a new tenure. Spec: Granted."""
    return evolved(partition, owner=partition.target, tenure=number, revoking=0)


def settle(group: Group, number: int) -> Group:
    """Grant every free partition to its target; the event's number becomes its tenure.

    Spec: Settle.
    """
    left = remaining(group)
    free = [tp for tp, each in left.items() if is_granted(group, each)]
    if free and not barrier_holds(group):
        left = {**left, **{tp: granted(left[tp], number) for tp in free}}
    return group if left is group.partitions else evolved(group, partitions=left)


def owners_differ(before: Group, after: Group) -> bool:
    """Whether an owner or a tenure has changed, or a partition has gone. Spec: OwnersDiffer."""
    if after.partitions is before.partitions:
        return False
    for tp, was in before.partitions.items():
        now = after.partitions.get(tp)
        if now is was:
            continue  # most are not touched
        if now is None or now.owner != was.owner or now.tenure != was.tenure:
            return True
    return False


def settled(before: Group, after: Group, number: int) -> Group:
    """The group after an event: settled, with a new generation if that is due.

    Spec: Settled.
    """
    done = settle(after, number)
    return evolved(done, generation=number) if owners_differ(before, done) else done
