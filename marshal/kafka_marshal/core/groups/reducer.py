"""`step`: the one function that applies an event to the state of its partition.

Controllers, members' requests and a replay of last week's log all fold with it, so they agree on
the owners without asking each other. It knows no clock: that a member was silent for too long is a
decision of its controller, recorded as an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from attrs import field

from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    ControllerStarted,
    EventRecord,
    GroupCreated,
    GroupDeleted,
    GroupSnapshot,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    OfAKnownGroup,
    PartitionsCounted,
    PartitionsRewound,
    Rebalanced,
    Reconciled,
    UnknownEvent,
)
from kafka_marshal.core.groups.guards import (
    event_guard,
    not_empty,
    position_verdict,
    release_verdict,
)
from kafka_marshal.core.groups.settling import settled
from kafka_marshal.core.groups.state import Controllership, Group, TopicPartition
from kafka_marshal.core.groups.transitions import after, event_verdict, new_group, not_held
from kafka_marshal.core.groups.verdicts import (
    GroupAccepted,
    GroupRefused,
    OfAPosition,
    OfARelease,
    Verdict,
)
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.core.values import evolved, value


@value
class GroupOutcome:
    """The next controllership, and the verdicts. Spec: Outcome."""

    controllership: Controllership
    verdict: Verdict
    positions: Mapping[TopicPartition, OfAPosition] = field(factory=dict)
    """The verdict on each position of an accepted Reconciled."""
    releases: Mapping[TopicPartition, OfARelease] = field(factory=dict)
    """The verdict on each partition that its member must release and does not hold."""


def step(controllership: Controllership, record: EventRecord) -> GroupOutcome:
    """Return the next controllership, and what the event did or the guard that refused it.

    Spec: Step. A refused event changes nothing and does not count. Never raises. A reader calls
    `stops_reader` first.

    >>> begins = ControllerStarted(-1, 1, "localhost", 9090)
    >>> outcome = step(Controllership(), EventRecord(0, 7, 1700000000123, begins))
    >>> outcome.verdict.value, outcome.controllership.epoch, outcome.controllership.number
    ('started', 7, 1)
    >>> late = EventRecord(0, 8, 1700000000124, GroupDeleted(), "g", epoch=3, number=2)
    >>> step(outcome.controllership, late).verdict.value
    'deposed'
    """
    event = record.event
    if isinstance(event, UnknownEvent):
        return GroupOutcome(controllership, GroupRefused.UNKNOWN_VERSION)
    if isinstance(event, ControllerStarted):
        return controller_started(controllership, record, event)
    refused = epoch_guard(controllership, record)
    if refused is not None:
        return GroupOutcome(controllership, refused)
    match event:
        case ControllershipSnapshot():
            return controllership_snapshot(controllership, event)
        case GroupCreated():
            return group_created(controllership, record, event)
        case GroupDeleted():
            return group_deleted(controllership, record)
        case GroupSnapshot():
            return group_snapshot(controllership, record, event)
        case (
            MemberRegistered()
            | MemberLeft()
            | MemberExpired()
            | PartitionsCounted()
            | Rebalanced()
            | Reconciled()
            | PartitionsRewound()
        ):
            return group_event(controllership, record, event)
        case _:
            assert_never(event)


def stops_reader(controllership: Controllership, record: EventRecord) -> bool:
    """Whether it is an event of a later version that counts: a reader cannot count further.

    Spec: StopsReader. Such a reader neither answers members nor competes from then on.
    """
    return (
        isinstance(record.event, UnknownEvent)
        and record.epoch == controllership.epoch
        and record.number == controllership.number + 1
    )


def begun_at(record: EventRecord, event: ControllershipSnapshot) -> Controllership:
    """The controllership of a reader that begins at this snapshot.

    Retention has deleted the log before it. Snapshots of all groups must follow at once: an event
    of an unknown group cannot be judged, so the count would be lost. The log alone does not show
    whether the snapshot was accepted. Spec: BegunAt.
    """
    return Controllership(record.epoch, record.number, event.controller_id, event.host, event.port)


# --- the guards of every event --------------------------------------------------------------------


def not_the_epoch(controllership: Controllership, event: ControllerStarted) -> bool:
    """It names another epoch to end: of two that compete, the first in the log wins.

    Spec: NotTheEpoch.
    """
    return event.supersedes != controllership.epoch


def malformed(record: EventRecord) -> bool:
    """A header is absent or not decimal. Spec: Malformed."""
    return NOT_DECIMAL in (record.epoch, record.number)


def deposed(controllership: Controllership, record: EventRecord) -> bool:
    """G1: its sender is no longer the controller. Spec: Deposed."""
    return record.epoch < controllership.epoch


def never_started(controllership: Controllership, record: EventRecord) -> bool:
    """An epoch is the offset of a ControllerStarted, and there is none at this offset.

    Spec: NeverStarted.
    """
    return record.epoch > controllership.epoch


def out_of_number(controllership: Controllership, record: EventRecord) -> bool:
    """An event before it was lost, or it is a duplicate. Spec: OutOfNumber."""
    return record.number != controllership.number + 1


def epoch_guard(controllership: Controllership, record: EventRecord) -> GroupRefused | None:
    """The guard that refuses an event whatever its group, or None. Spec: EpochGuard."""
    if malformed(record):
        return GroupRefused.MALFORMED
    if deposed(controllership, record):
        return GroupRefused.DEPOSED
    if never_started(controllership, record):
        return GroupRefused.NEVER_STARTED
    return GroupRefused.OUT_OF_NUMBER if out_of_number(controllership, record) else None


# --- one transition for each event of the controllership ------------------------------------------


def counted(controllership: Controllership) -> Controllership:
    """Count one more accepted event. Spec: Counted. Keeps: NumbersUnbroken."""
    return evolved(controllership, number=controllership.number + 1)


def with_group(controllership: Controllership, name: str, group: Group) -> Controllership:
    """Count one more accepted event, and set the group. Spec: WithGroup."""
    return evolved(counted(controllership), groups={**controllership.groups, name: group})


def without_group(controllership: Controllership, name: str) -> Controllership:
    """Count one more accepted event, and remove the group. Spec: WithoutGroup."""
    groups = {other: each for other, each in controllership.groups.items() if other != name}
    return evolved(counted(controllership), groups=groups)


def controller_started(
    controllership: Controllership, record: EventRecord, event: ControllerStarted
) -> GroupOutcome:
    """Make its sender the controller, if it ends the current epoch.

    Spec: ControllerStarted. Keeps: FailoverKeepsGeneration. Groups stay as they are (G11).
    """
    if not_the_epoch(controllership, event):
        return GroupOutcome(controllership, GroupRefused.NOT_THE_EPOCH)
    started = evolved(
        counted(controllership),
        epoch=record.offset,
        controller_id=event.controller_id,
        host=event.host,
        port=event.port,
    )
    return GroupOutcome(started, GroupAccepted.STARTED)


def controllership_snapshot(
    controllership: Controllership, event: ControllershipSnapshot
) -> GroupOutcome:
    """Compare the controller with the known one. A reader that begins here calls `begun_at`.

    Spec: ControllershipSnapshot.
    """
    known = controllership.controller_id, controllership.host, controllership.port
    agrees = (event.controller_id, event.host, event.port) == known
    return GroupOutcome(counted(controllership), _snapshot(agrees))


def group_snapshot(
    controllership: Controllership, record: EventRecord, event: GroupSnapshot
) -> GroupOutcome:
    """Begin with this group, or compare it with the known one. Spec: GroupSnapshot."""
    group = controllership.groups.get(record.group)
    if group is None:
        begun = with_group(controllership, record.group, event.state)
        return GroupOutcome(begun, GroupAccepted.SNAPSHOT_TAKEN)
    return GroupOutcome(counted(controllership), _snapshot(group == event.state))


def _snapshot(agrees: bool) -> GroupAccepted:
    return GroupAccepted.SNAPSHOT_AGREES if agrees else GroupAccepted.SNAPSHOT_DIFFERS


def group_created(
    controllership: Controllership, record: EventRecord, event: GroupCreated
) -> GroupOutcome:
    """Create a group. Spec: GroupCreated."""
    if record.group in controllership.groups:
        return GroupOutcome(controllership, GroupRefused.GROUP_EXISTS)
    made = new_group(event, controllership.number + 1)
    return GroupOutcome(with_group(controllership, record.group, made), GroupAccepted.CREATED)


def group_deleted(controllership: Controllership, record: EventRecord) -> GroupOutcome:
    """Delete a group that has no members. Spec: GroupDeleted."""
    group = controllership.groups.get(record.group)
    if group is None:
        return GroupOutcome(controllership, GroupRefused.NO_SUCH_GROUP)
    if not_empty(group):
        return GroupOutcome(controllership, GroupRefused.NOT_EMPTY)
    return GroupOutcome(without_group(controllership, record.group), GroupAccepted.DELETED)


def group_event(
    controllership: Controllership, record: EventRecord, event: OfAKnownGroup
) -> GroupOutcome:
    """Apply an event to its group, with all consequences. Spec: GroupEvent."""
    group = controllership.groups.get(record.group)
    if group is None:
        return GroupOutcome(controllership, GroupRefused.NO_SUCH_GROUP)
    refused = event_guard(group, event)
    if refused is not None:
        return GroupOutcome(controllership, refused)
    number = controllership.number + 1
    now = settled(group, after(group, event, number), number)
    outcome = GroupOutcome(
        with_group(controllership, record.group, now), event_verdict(group, event)
    )
    return in_each(group, event, outcome)


def in_each(group: Group, event: OfAKnownGroup, outcome: GroupOutcome) -> GroupOutcome:
    """A Reconciled's verdicts on each partition; `group` is the state before it. Spec: InEach."""
    if not isinstance(event, Reconciled):
        return outcome
    return evolved(
        outcome,
        positions={tp: position_verdict(group, event, tp) for tp in event.positions},
        releases={tp: release_verdict(group, event, tp) for tp in not_held(group, event)},
    )
