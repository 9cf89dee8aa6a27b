"""The properties of groups by name: those of every state, and those of every step.

This room judges; it takes no step. What members do with their partitions is no part of the state,
so what is promised of them (`LeaseOver`, `SessionKept`) is judged by the specification alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from kafka_marshal.core.claims.invariants import NamedProperty
from kafka_marshal.core.groups.events import (
    ControllerStarted,
    EventRecord,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.settling import barrier_holds, is_granted
from kafka_marshal.core.groups.state import (
    NO_POSITION,
    Controllership,
    Group,
    GroupPartition,
    Rebalance,
    TopicPartition,
    asked_first,
    is_due,
    may_have,
    partitions_of,
    wanted,
)
from kafka_marshal.core.groups.verdicts import GroupRefused
from kafka_marshal.core.values import value


class GroupProperty(NamedProperty):
    """What is promised of a group and of the controllership of its partition."""

    OWNER_IS_MEMBER = "OwnerIsMember", "The owner of a partition is a member."
    PARTITIONS_ARE_THE_TOPICS = (
        "PartitionsAreTheTopics",
        "A group has every partition of its topics, and of others what must still be let go.",
    )
    GENERATION_IS_THE_LATEST = (
        "GenerationIsTheLatest",
        "No tenure and no revoking is of an event after the generation.",
    )
    OWNED_WAS_GRANTED = "OwnedWasGranted", "Whatever is owned has a tenure, and nothing is below 0."
    REVOKING_IS_OWNED = "RevokingIsOwned", "Only what somebody owns must be let go."
    KEPT_BY_ITS_TARGET = (
        "KeptByItsTarget",
        "An owner that need not let go is the target; one that must is not, or all must.",
    )
    IS_SETTLED = "IsSettled", "Nothing is free that a member could be granted."
    NOTHING_UNASSIGNED = (
        "NothingUnassigned",
        "When no rebalance is due and nothing must be let go, all that is wanted is owned.",
    )
    ALL_OR_NONE = (
        "AllOrNone",
        "Eager: of what is owned all must be let go, or all is of the same rebalance.",
    )

    REFUSED_CHANGES_NOTHING = "RefusedChangesNothing", "A refused event changes nothing."
    NUMBERS_UNBROKEN = "NumbersUnbroken", "Each accepted event has the next number."
    CONTROLLER_FENCED = (
        "ControllerFenced",
        "Only the last controller that started decides, and who starts ends the one before.",
    )
    FAILOVER_KEEPS_GENERATION = (
        "FailoverKeepsGeneration",
        "A new controller changes nothing in its groups.",
    )
    GROUPS_APART = "GroupsApart", "An event changes no group but its own."
    NOT_EMPTY_IS_KEPT = "NotEmptyIsKept", "A group with members is not deleted."
    GENERATION_GROWS = (
        "GenerationGrows",
        "The generation never falls, and rises when a member, owner or tenure changes.",
    )
    REVOKE_BEFORE_ASSIGN = (
        "RevokeBeforeAssign",
        "An owner loses a partition by letting it go, or by leaving, expiring, forgetting.",
    )
    TENURE_IS_OF_ONE_OWNER = (
        "TenureIsOfOneOwner",
        "Who is granted a partition has it under a tenure of its own.",
    )
    COMMIT_FENCED = "CommitFenced", "Only the owner moves a position, under its tenure."
    OFFSETS_MONOTONE = "OffsetsMonotone", "A position falls by a rewind, or goes with its topic."
    REWIND_STICKS = (
        "RewindSticks",
        "A rewound partition is at its offset, under a tenure that nobody has committed by.",
    )
    NEW_TOPIC_BEGINS_ANEW = (
        "NewTopicBeginsAnew",
        "A partition that begins to exist is free, and consumed from its beginning.",
    )
    REBALANCE_IS_RIGHT = (
        "RebalanceIsRight",
        "A target is written when one is due, and gives members what they may have.",
    )


# --- of a state -----------------------------------------------------------------------------------


def owner_is_member(group: Group) -> bool:
    """Spec: OwnerIsMember."""
    return all(each.owner is None or each.owner in group.members for each in _states(group))


def partitions_are_the_topics(group: Group) -> bool:
    """Spec: PartitionsAreTheTopics."""
    there = sum(topic.count for topic in group.topics.values())
    return (
        all(topic.count > 0 for topic in group.topics.values())
        and there == sum(group.exists(tp) for tp in group.partitions)
        and all(
            group.exists(tp)
            or (each.owner is not None and each.revoking > 0 and each.target is None)
            for tp, each in group.partitions.items()
        )
    )


def generation_is_the_latest(group: Group) -> bool:
    """Spec: GenerationIsTheLatest. Wishes have numbers of their own: see `numbers_below`."""
    joined = (member.joined_at for member in group.members.values())
    tenures = (number for each in _states(group) for number in (each.tenure, each.revoking))
    numbers = (group.rebalanced_at, *joined, *tenures)
    return all(0 <= number <= group.generation for number in numbers)


def owned_was_granted(group: Group) -> bool:
    """Spec: OwnedWasGranted."""
    return all(
        each.position >= NO_POSITION and (each.owner is None or each.tenure > 0)
        for each in _states(group)
    )


def revoking_is_owned(group: Group) -> bool:
    """Spec: RevokingIsOwned."""
    return all(each.owner is not None or not each.revoking for each in _states(group))


def kept_by_its_target(group: Group) -> bool:
    """An owner is the target if and only if it may keep the partition; eager, all may have to go.

    So a rebalance that is written leaves nobody with what is to be another's.
    """
    eager = group.rebalance is Rebalance.EAGER
    return all(
        (each.owner == each.target) == (each.revoking == 0) or (eager and each.revoking > 0)
        for each in _states(group)
        if each.owner is not None
    )


def is_settled(group: Group) -> bool:
    """Spec: IsSettled."""
    return barrier_holds(group) or not any(is_granted(group, each) for each in _states(group))


def nothing_unassigned(group: Group) -> bool:
    """When nothing is due any more, somebody works on everything that is wanted."""
    if any(each.revoking for each in _states(group)) or is_due(group):
        return True
    return all(group.partitions[tp].owner is not None for tp in wanted(group))


def all_or_none(group: Group) -> bool:
    """Spec: AllOrNone. Of a topic that is gone something may have to be let go besides."""
    if group.rebalance is not Rebalance.EAGER:
        return True
    owned = [
        each for tp, each in group.partitions.items() if each.owner is not None and group.exists(tp)
    ]
    if any(each.revoking for each in owned):
        return all(each.revoking for each in owned)
    return all(each.tenure >= group.rebalanced_at for each in owned)


P = GroupProperty

STATE_CHECKS: Final[Mapping[GroupProperty, Callable[[Group], bool]]] = {
    P.PARTITIONS_ARE_THE_TOPICS: partitions_are_the_topics,
    P.OWNER_IS_MEMBER: owner_is_member,
    P.GENERATION_IS_THE_LATEST: generation_is_the_latest,
    P.OWNED_WAS_GRANTED: owned_was_granted,
    P.REVOKING_IS_OWNED: revoking_is_owned,
    P.KEPT_BY_ITS_TARGET: kept_by_its_target,
    P.IS_SETTLED: is_settled,
    P.NOTHING_UNASSIGNED: nothing_unassigned,
    P.ALL_OR_NONE: all_or_none,
}
"""In this order: those behind the first count on the partitions that exist."""


def impossible(group: Group) -> GroupProperty | None:
    """The first property that no fold leaves broken, and this group breaks; None: it may be."""
    return next((name for name, holds in STATE_CHECKS.items() if not holds(group)), None)


def numbers_below(group: Group, number: int) -> bool:
    """Whether a group can be the state after this number of accepted events."""
    wishes = (member.static.values() for member in group.members.values())
    return group.generation <= number and all(
        0 < asked <= number for each in wishes for asked in each
    )


def _states(group: Group) -> Iterator[GroupPartition]:
    return iter(group.partitions.values())


# --- of a step ------------------------------------------------------------------------------------


@value
class GroupStep:
    """One step that was taken of a controllership."""

    before: Controllership
    record: EventRecord
    outcome: GroupOutcome

    @property
    def after(self) -> Controllership:
        """The controllership after it."""
        return self.outcome.controllership

    @property
    def is_refused(self) -> bool:
        """A guard refused the event."""
        return isinstance(self.outcome.verdict, GroupRefused)

    @property
    def group(self) -> tuple[Group, Group] | None:
        """The group of the event before and after, if it is there both times."""
        before = self.before.groups.get(self.record.group)
        after = self.after.groups.get(self.record.group)
        return None if before is None or after is None else (before, after)

    @property
    def stayed(self) -> Iterator[tuple[TopicPartition, GroupPartition, GroupPartition]]:
        """Partitions that are there before and after, as they were and are."""
        if self.group is not None:
            before, after = self.group
            for tp in before.partitions.keys() & after.partitions.keys():
                yield tp, before.partitions[tp], after.partitions[tp]


def refused_changes_nothing(step: GroupStep) -> bool:
    """Spec: RefusedChangesNothing."""
    return not step.is_refused or step.after == step.before


def numbers_unbroken(step: GroupStep) -> bool:
    """Spec: NumbersUnbroken."""
    if step.is_refused:
        return True
    next_number = step.before.number + 1
    is_start = isinstance(step.record.event, ControllerStarted)
    return step.after.number == next_number and (is_start or step.record.number == next_number)


def controller_fenced(step: GroupStep) -> bool:
    """Spec: ControllerFenced."""
    event = step.record.event
    if step.is_refused:
        return True
    if isinstance(event, ControllerStarted):
        return event.supersedes == step.before.epoch and step.after.epoch == step.record.offset
    return step.record.epoch == step.before.epoch == step.after.epoch


def failover_keeps_generation(step: GroupStep) -> bool:
    """Spec: FailoverKeepsGeneration."""
    is_start = isinstance(step.record.event, ControllerStarted)
    return not is_start or step.after.groups == step.before.groups


def groups_apart(step: GroupStep) -> bool:
    """A log has many groups, and an event names one."""
    mine = step.record.group
    before = {name: each for name, each in step.before.groups.items() if name != mine}
    return before == {name: each for name, each in step.after.groups.items() if name != mine}


def generation_grows(step: GroupStep) -> bool:
    """Spec: GenerationGrows."""
    if step.group is None:
        return True
    before, after = step.group
    if after.generation < before.generation:
        return False
    changed = before.members.keys() != after.members.keys() or any(
        (was.owner, was.tenure, was.revoking) != (now.owner, now.tenure, now.revoking)
        for _, was, now in step.stayed
    )
    return after.generation == step.after.number if changed else True


def revoke_before_assign(step: GroupStep) -> bool:
    """Spec: RevokeBeforeAssign."""
    if step.group is None:
        return True
    before, after = step.group
    event = step.record.event
    for tp, was in before.partitions.items():
        now = after.partitions.get(tp)
        if was.owner is None or (now is not None and now.owner == was.owner):
            continue
        match event:
            case MemberLeft() | MemberExpired():
                may = event.member == was.owner
            case MemberRegistered():
                may = event.member == was.owner and event.fresh and was.revoking > 0
            case Reconciled():
                knows = was.revoking <= event.as_of <= before.generation
                holds = event.held is None or tp in event.held
                may = event.member == was.owner and was.revoking > 0 and knows and not holds
            case _:
                may = False
        if not may:
            return False
    return True


def tenure_is_of_one_owner(step: GroupStep) -> bool:
    """Spec: TenureIsOfOneOwner."""
    return all(
        now.tenure in (was.tenure, step.after.number)
        and (now.owner in (None, was.owner) or now.tenure == step.after.number)
        for _, was, now in step.stayed
    )


def commit_fenced(step: GroupStep) -> bool:
    """Spec: CommitFenced."""
    event = step.record.event
    for tp, was, now in step.stayed:
        if now.position == was.position or isinstance(event, PartitionsRewound):
            continue
        if not isinstance(event, Reconciled):
            return False
        at = event.positions.get(tp)
        if at is None or was.owner != event.member or at != (was.tenure, now.position):
            return False
    return True


def offsets_monotone(step: GroupStep) -> bool:
    """Spec: OffsetsMonotone."""
    is_rewind = isinstance(step.record.event, PartitionsRewound)
    if step.group is not None:
        before, after = step.group
        dropped = before.partitions.keys() - after.partitions.keys()
        if any(tp.topic in after.topics for tp in dropped):
            return False
    return is_rewind or all(now.position >= was.position for _, was, now in step.stayed)


def rewind_sticks(step: GroupStep) -> bool:
    """Spec: RewindSticks."""
    event = step.record.event
    if step.is_refused or not isinstance(event, PartitionsRewound):
        return True
    partitions = step.after.groups[step.record.group].partitions
    return all(
        (partitions[tp].position, partitions[tp].tenure) == (position, step.after.number)
        for tp, position in event.positions.items()
    )


def new_topic_begins_anew(step: GroupStep) -> bool:
    """Spec: NewTopicBeginsAnew. Of a topic made anew nothing existed before."""
    if step.group is None:
        return True
    before, after = step.group
    new = {*partitions_of(after.topics)} - {*partitions_of(before.topics)}
    of_both = before.topics.keys() & after.topics.keys()
    return all(
        after.partitions[tp].owner is None and after.partitions[tp].position == 0 for tp in new
    ) and all(after.topics[name].topic_id == before.topics[name].topic_id for name in of_both)


def rebalance_is_right(step: GroupStep) -> bool:
    """Spec: RebalanceIsRight."""
    event = step.record.event
    if step.is_refused or step.group is None or not isinstance(event, Rebalanced):
        return True
    before, after = step.group
    asked = asked_first(after)
    return (
        is_due(before)
        and not is_due(after)
        and all(
            member in after.members and may_have(after, asked, member, tp)
            for tp, member in event.target.items()
        )
    )


def not_empty_is_kept(step: GroupStep) -> bool:
    """Spec: NotEmptyIsKept."""
    gone = step.before.groups.keys() - step.after.groups.keys()
    return not any(step.before.groups[name].members for name in gone)


STEP_CHECKS: Final[Mapping[GroupProperty, Callable[[GroupStep], bool]]] = {
    P.REFUSED_CHANGES_NOTHING: refused_changes_nothing,
    P.NUMBERS_UNBROKEN: numbers_unbroken,
    P.CONTROLLER_FENCED: controller_fenced,
    P.FAILOVER_KEEPS_GENERATION: failover_keeps_generation,
    P.GROUPS_APART: groups_apart,
    P.NOT_EMPTY_IS_KEPT: not_empty_is_kept,
    P.GENERATION_GROWS: generation_grows,
    P.REVOKE_BEFORE_ASSIGN: revoke_before_assign,
    P.TENURE_IS_OF_ONE_OWNER: tenure_is_of_one_owner,
    P.COMMIT_FENCED: commit_fenced,
    P.OFFSETS_MONOTONE: offsets_monotone,
    P.REWIND_STICKS: rewind_sticks,
    P.NEW_TOPIC_BEGINS_ANEW: new_topic_begins_anew,
    P.REBALANCE_IS_RIGHT: rebalance_is_right,
}


def broken(step: GroupStep) -> set[GroupProperty]:
    """Every property that the step breaks, or that does not hold of its group afterwards."""
    found = {name for name, holds in STEP_CHECKS.items() if not holds(step)}
    group = step.after.groups.get(step.record.group)
    if group is not None:
        found |= {name for name, holds in STATE_CHECKS.items() if not holds(group)}
    return found
