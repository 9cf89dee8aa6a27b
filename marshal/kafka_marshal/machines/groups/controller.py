"""One controller of a partition of `__marshal_groups`: its state, its events and its answers.

Spec: module Controller. A controller knows the log up to where it has read (its view), and the
events that it sent and has not read back. It does not know whether another controller was started
behind its view. Each function reads like its operator. `controlled_log` and `partition` decide what
it does unasked, and when. This module does not know how requests arrive.

>>> from kafka_marshal.core.groups.events import GroupDeleted
>>> view = Controllership(epoch=7, number=1, controller_id=1)
>>> me = ControllerState(epoch=7)
>>> record = sending(me, view, 0, "g", GroupDeleted())
>>> _, outcome = sent(me, view, record)
>>> record.number, outcome.verdict.value
(2, 'no_such_group')
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from attrs import field

from kafka_marshal.core.groups.events import (
    At,
    ControllerStarted,
    Event,
    EventRecord,
    MemberRegistered,
    Reconciled,
)
from kafka_marshal.core.groups.guards import position_verdict, release_verdict
from kafka_marshal.core.groups.reducer import GroupOutcome, step
from kafka_marshal.core.groups.state import Controllership, Group, TopicPartition
from kafka_marshal.core.groups.transitions import not_held
from kafka_marshal.core.groups.verdicts import GroupAccepted, OfAPosition, OfARelease, Verdict
from kafka_marshal.core.values import evolved, value
from kafka_marshal.machines.groups.effects import NOT_APPENDED

COMMITS_AS_OF: Final = -1
"""The generation in a request that only commits: none."""


class MemberKey(NamedTuple):
    """A member, among all groups of a partition."""

    group: str
    member: str


@value
class Registration:
    """The content of a member's registration. Spec: RequestOf."""

    member: str
    connection: int
    as_of: int | None
    """The generation that it knows; None: it remembers nothing, so it holds nothing. That is true
    only at the moment when it was sent. Spec: NONE."""
    held: frozenset[TopicPartition] = frozenset()
    positions: Mapping[TopicPartition, At] = field(factory=dict)
    client_id: str = ""
    topics: frozenset[str] | None = None
    """The topics that it wants a share of; None: the same as before."""
    static: frozenset[TopicPartition] = frozenset()


@value
class ControllerState:
    """What a controller remembers. The default value is before its start. Spec: NewController.

    The specification's `read` and `waiting` are in `controlled_log` and `waiting`.
    """

    epoch: int | None = None
    """The epoch that it won, while it serves."""
    starts: bool = False
    """It has sent a ControllerStarted that it has not read back."""
    pending: tuple[EventRecord, ...] = ()
    """Events that it sent in its epoch and has not read back."""
    ahead: Controllership = field(factory=Controllership)
    """The view with `pending` folded in; None if nothing is pending."""
    newest: Mapping[MemberKey, int] = field(factory=dict)
    """For each member, the latest connection on which it registered without memory."""


def is_serving(c: ControllerState, view: Controllership) -> bool:
    """G1: between reading back its own start and reading another's. Spec: IsServing."""
    return c.epoch == view.epoch


def speculative(c: ControllerState, view: Controllership) -> Controllership:
    """The state if all that it sent lands, on which it bases decisions. Spec: Speculative."""
    return c.ahead if c.pending else view


# --- requests and their outcomes ------------------------------------------------------------------


def is_fresh(request: Registration) -> bool:
    """The member remembers nothing. Spec: IsFresh."""
    return request.as_of is None


def newest_of(c: ControllerState, key: MemberKey) -> int:
    """The latest connection of a member, as far as this controller knows. Spec: NewestOf."""
    return c.newest.get(key, 0)


def is_void(c: ControllerState, key: MemberKey, connection: int) -> bool:
    """Whether the member has connected again since, and so closed this connection.

    Spec: IsVoid. A request on it may be older than what the member holds. The specification drops
    only requests without memory; other requests on a closed connection are refused, too.
    """
    return connection < newest_of(c, key)


def says_something(group: Group, event: Reconciled) -> bool:
    """Whether it moves a position or frees a partition. Spec: SaysSomething."""
    return any(
        position_verdict(group, event, tp) is OfAPosition.COMMITTED for tp in event.positions
    ) or any(
        release_verdict(group, event, tp) is OfARelease.RELEASED for tp in not_held(group, event)
    )


def events_of_request(group: Group, request: Registration) -> list[MemberRegistered | Reconciled]:
    """The events of a request; empty if it has no effect. Spec: EventsOfRequest."""
    if request.as_of is None:
        return [registration(request, fresh=True)]
    if request.member not in group.members:
        return []
    said = Reconciled(request.member, request.as_of, request.held, request.positions)
    events: list[MemberRegistered | Reconciled] = []
    if wishes_differ(group, request):
        events.append(registration(request, fresh=False))
    if says_something(group, said):
        events.append(said)
    return events


def registration(request: Registration, *, fresh: bool) -> MemberRegistered:
    """The member joins, starts over, or changes its wishes. Spec: Register."""
    topics = request.topics or frozenset()
    return MemberRegistered(request.member, request.client_id, topics, request.static, fresh)


def wishes_differ(group: Group, request: Registration) -> bool:
    """Whether a member that continues wants something else than before."""
    known = group.members[request.member]
    return request.topics is not None and (
        known.topics != request.topics or known.static.keys() != request.static
    )


def sending(
    c: ControllerState, view: Controllership, partition: int, group: str, event: Event
) -> EventRecord:
    """The record of an event, after everything that was sent. Spec: Sending."""
    assert c.epoch is not None
    number = speculative(c, view).number + 1
    return EventRecord(partition, NOT_APPENDED, NOT_APPENDED, event, group, c.epoch, number)


def needs(c: ControllerState, view: Controllership) -> int:
    """G2: the number of the last event that an answer depends on.

    Spec: Needs. Call it after the events of the request were sent.
    """
    return speculative(c, view).number


def has_landed(view: Controllership, number: int) -> bool:
    """Whether everything that an answer depends on was read back. Spec: HasLanded."""
    return view.number >= number


def is_confirmed(confirmed: int, token: int) -> bool:
    """G3: it has read up to an end of the log that the broker reported after the request came in.

    Spec: IsConfirmed. Queries for the end are numbered; `confirmed` is the last one for which that
    holds, and `token` the first that was sent late enough.
    """
    return confirmed >= token


# --- actions --------------------------------------------------------------------------------------


def taken(c: ControllerState, key: MemberKey, connection: int) -> ControllerState:
    """A member without memory sent a request on this connection. Spec: Taken."""
    newest = max(newest_of(c, key), connection)
    return evolved(c, newest={**c.newest, key: newest})


def sent(
    c: ControllerState, view: Controllership, record: EventRecord
) -> tuple[ControllerState, GroupOutcome]:
    """An event was sent, unless a guard refuses it: then it must not be sent. Spec: Sent."""
    outcome = step(speculative(c, view), record)
    if isinstance(outcome.verdict, GroupAccepted):
        c = evolved(c, pending=(*c.pending, record), ahead=outcome.controllership)
    return c, outcome


def stopped(c: ControllerState) -> ControllerState:
    """It no longer serves. Spec: Stopped."""
    return evolved(c, epoch=None, pending=(), ahead=Controllership())


def started(c: ControllerState, offset: int) -> ControllerState:
    """It serves from now on, and knows no connection: those from before are closed."""
    return evolved(stopped(c), epoch=offset, starts=False, newest={})


def is_own_start(me: int, c: ControllerState, record: EventRecord) -> bool:
    """Whether this very process sent this ControllerStarted. Spec: IsOwnStart.

    One of an earlier process with the same id does not count.
    """
    event = record.event
    return isinstance(event, ControllerStarted) and c.starts and event.controller_id == me


def is_own_event(c: ControllerState, record: EventRecord) -> bool:
    """Whether it is an event of the epoch in which it serves. Spec: IsOwnEvent."""
    return not isinstance(record.event, ControllerStarted) and record.epoch == c.epoch


def after_own_start(c: ControllerState, record: EventRecord, verdict: Verdict) -> ControllerState:
    """It won the epoch, or another controller was faster. Spec: AfterOwnStart."""
    if verdict is GroupAccepted.STARTED:
        return started(c, record.offset)
    return evolved(c, starts=False)


def after_own_event(c: ControllerState, record: EventRecord, verdict: Verdict) -> ControllerState:
    """If it was refused, one before it was lost: it does not know the state. Spec: AfterOwnEvent.

    The same holds if another process writes in its epoch, which must not happen.
    """
    if not isinstance(verdict, GroupAccepted) or not c.pending:
        return stopped(c)
    return evolved(c, pending=c.pending[1:]) if is_copy(c.pending[0], record) else stopped(c)


def is_copy(sent_record: EventRecord, read_record: EventRecord) -> bool:
    """Whether the record that was read is the one that was sent."""
    return (sent_record.number, sent_record.event) == (read_record.number, read_record.event)


def after_reading(
    me: int, c: ControllerState, record: EventRecord, verdict: Verdict
) -> ControllerState:
    """The state after folding a record. Spec: AfterReading."""
    if is_own_start(me, c, record):
        return after_own_start(c, record, verdict)
    if verdict is GroupAccepted.STARTED:
        return stopped(c)
    if is_own_event(c, record):
        return after_own_event(c, record, verdict)
    return c
