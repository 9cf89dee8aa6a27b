"""The timing of a member: when it sends a request, to which server, and until when it may deliver.

`group_member` defines a member's state and requests. This module finds the group's controller,
registers and sends heartbeats. It uses its own clock: it delivers no messages from 0.9 session
timeouts after it sent the last request that was answered (G5). It knows no sockets, Kafka clients
or clocks: each input has `now_ms`, a monotonic clock of the process in milliseconds. Each returns
effects, to be carried out in their order.

There is at most one unanswered request per API, so an answer needs no other identification. Answers
of a connection never come after it was lost or replaced.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias, cast

from attrs import define, field, frozen

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import Rebalance, TopicPartition
from kafka_marshal.core.validators import positive
from kafka_marshal.core.values import evolved
from kafka_marshal.machines.groups.group_member import (
    NO_CONNECTION,
    GroupMemberState,
    MemberAnswer,
    after_answer,
    after_asking,
    goes_on_until,
    is_closed,
    is_old,
    processed,
    request_of,
    says,
)
from kafka_marshal.rpc.codec import RpcAnswer
from kafka_marshal.rpc.error_codes import ErrorCode

LEASE: Final = 0.9
"""The part of the session timeout for which an answered request lets a member deliver messages."""
HEARTBEAT_MS: Final = 1_000
"""The shortest time between heartbeats, unless an answer reports a change; a tenth of the session
timeout if that is less."""
AGAIN_MS: Final = 100
"""The delay before a retry, in milliseconds."""
UNREACHABLE_MS: Final = 1_000
"""How long it does not retry an address that accepted no connection, in milliseconds."""
FIND_MS: Final = 5_000
"""The time after which it gives up a server that does not name the controller, in milliseconds."""
_LONG_AGO: Final = -math.inf
"""Earlier than any time, in milliseconds."""

_PASSES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)
"""Another server answers differently, or this one does soon."""
_FORGOTTEN: Final = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_ID_NOT_FOUND}
)
"""It is no longer a member: it holds nothing, and starts over without memory."""


@frozen
class MembershipSettings:
    """A member's identity, and the group that it creates if there is none."""

    group: str
    member: str
    """Its id, which no other process may have; preferably a new one in each run."""
    servers: tuple[tuple[str, int], ...]
    """Hosts and ports at which to begin the search for the controller."""
    session_timeout_ms: int = field(default=30_000, validator=positive)
    """For a group that it creates. An existing group has its own."""
    rebalance: Rebalance = Rebalance.INCREMENTAL
    strategy: str = "sticky"


@frozen
class ConnectTo:
    """Close the connection, if there is one, and open another: `connected`, `connection_lost`."""

    host: str
    port: int


@frozen
class SendRequest:
    """Send a request on the connection: `answered`, `connection_lost`."""

    api: str
    body: Mapping[str, Any]


@frozen
class PartitionStopped:
    """Deliver nothing more of a partition, not even fetched messages."""

    tp: TopicPartition
    at: At
    """The tenure that is over, and how far it was processed."""
    given_up: bool
    """The member has expired, so others may own it. Otherwise it releases the partition afterwards.
    """


@frozen
class PartitionStarted:
    """Fetch a partition from an offset. Messages fetched before belong to another tenure."""

    tp: TopicPartition
    at: At
    """The tenure, and the start: NO_POSITION if no position was committed."""


@frozen
class QuestionAnswered:
    """The answer to a request of `Membership.ask`."""

    answer: RpcAnswer


MemberEffect: TypeAlias = (
    ConnectTo | SendRequest | PartitionStopped | PartitionStarted | QuestionAnswered
)


class _Phase(enum.Enum):
    IDLE = enum.auto()
    """Without a connection."""
    CONNECTING = enum.auto()
    FINDING = enum.auto()
    """Connected to some server."""
    FOUND = enum.auto()
    """Connected to the group's controller, as far as it knows."""


@frozen
class _Sent:
    """A request without an answer."""

    at_ms: int
    connection: int = NO_CONNECTION
    about: object = None
    """The wishes in a RegisterConsumer, or the request of `ask`."""


@define(eq=False)
class _Question:
    api: str
    body: Mapping[str, Any]


class Membership:
    """One member. Carry out its effects before the next input."""

    def __init__(self, settings: MembershipSettings) -> None:
        self.settings: Final = settings
        self.member = GroupMemberState()
        """The member's state."""
        self.failure: ErrorCode | None = None
        """Why it will never be accepted; it sends no more requests."""
        self.controller: tuple[str, int] | None = None
        """The address of the group's controller, as far as it knows."""
        self._session_timeout_ms = settings.session_timeout_ms
        self._topics: frozenset[str] = frozenset()
        self._static: frozenset[TopicPartition] = frozenset()
        self._phase = _Phase.IDLE
        self._servers = [*settings.servers]
        """The first is used next; one that did not help moves to the end."""
        self._unreachable: tuple[tuple[str, int], int] | None = None
        """The last address that accepted no connection, and when."""
        self._here: tuple[str, int] | None = None
        """The address of the connection."""
        self._try_at_ms = _LONG_AGO
        """When to connect again or, if connected, when to ask again for the controller."""
        self._sent: dict[str, _Sent] = {}
        """By API."""
        self._registered_here = False
        """A RegisterConsumer was sent on this connection."""
        self._told_wishes: object = None
        """The wishes that were answered; None: it must register, whatever it wants."""
        self._heartbeat_at_ms: float
        """Set by the answer that accepts it."""
        self._beaten_at_ms = self._register_at_ms = self._lease_until_ms = _LONG_AGO
        self._question: _Question | None = None

    # --- state ------------------------------------------------------------------------------------

    def may_hand_out(self, now_ms: int) -> bool:
        """G5: whether it may deliver messages of its partitions."""
        return not self.member.fresh and now_ms < self._lease_until_ms

    @property
    def _heartbeat_ms(self) -> int:
        return min(HEARTBEAT_MS, self._session_timeout_ms // 10)

    @property
    def _wishes(self) -> object:
        return self._topics, self._static

    # --- the application --------------------------------------------------------------------------

    def wants(self, topics: Iterable[str], static: Iterable[TopicPartition]) -> None:
        """Request a share of these topics, and these partitions."""
        self._topics, self._static = frozenset(topics), frozenset(static)

    def processed(self, tp: TopicPartition, tenure: int, offset: int) -> None:
        """Everything of a partition below an offset was processed, under this tenure.

        This has no effect for a tenure that is over, or an offset that is not ahead.
        """
        at = self.member.at.get(tp)
        if at is not None and at.tenure == tenure and at.offset < offset:
            self.member = processed(self.member, tp, offset)

    def ask(self, api: str, body: Mapping[str, Any]) -> None:
        """Send the controller another request, repeatedly, until `QuestionAnswered`.

        It must be valid, and have the same effect, if it is carried out twice.
        """
        assert self._question is None
        self._question = _Question(api, body)

    def withdraw(self) -> None:
        """Stop asking. A request that was sent may still be carried out."""
        self._question = None

    def positions(self) -> list[dict[str, Any]]:
        """The positions that it commits, as in its requests."""
        return _positions(says(self.member))

    # --- the connection ---------------------------------------------------------------------------

    def connected(self) -> None:
        """The connection was established."""
        assert self._phase is _Phase.CONNECTING
        self._phase = _Phase.FOUND if self._here == self.controller else _Phase.FINDING

    def connection_lost(self, now_ms: int) -> None:
        """The connection was lost, or could not be established. It tries another server."""
        if self._phase is _Phase.CONNECTING and self._here is not None:
            self._unreachable = self._here, now_ms
        self._look_elsewhere(now_ms)

    def _look_elsewhere(self, now_ms: int) -> None:
        # In one step: a signal's handler may raise in between.
        self._servers = sorted(self._servers, key=lambda one: one == self._here)
        self._disconnected(now_ms + AGAIN_MS)
        self.controller = None

    def _disconnected(self, try_at_ms: float) -> None:
        self._phase, self._here, self._registered_here = _Phase.IDLE, None, False
        self._try_at_ms = try_at_ms
        self._sent.clear()

    def _connect(self, to: tuple[str, int]) -> list[MemberEffect]:
        self._disconnected(_LONG_AGO)
        self._phase, self._here = _Phase.CONNECTING, to
        return [ConnectTo(*to)]

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int, *, may_let_go: bool) -> list[MemberEffect]:
        """Do what is due.

        Without `may_let_go` it sends no request that could take a partition away: the application
        is processing a message.
        """
        if self.failure is not None or self._phase is _Phase.CONNECTING:
            return []
        if self._is_overdue(now_ms):
            self._look_elsewhere(now_ms)
        if self._phase is _Phase.IDLE:
            if now_ms < self._try_at_ms:
                return []
            return self._connect(self.controller or self._servers[0])
        if self._phase is _Phase.FINDING:
            if self._sent or now_ms < self._try_at_ms:
                return []
            named = {"ConsumerGroups": [self.settings.group], "Describe": 0}
            return [self._request("ListGroups", named, now_ms)]
        return self._due(now_ms, may_let_go=may_let_go)

    def _due(self, now_ms: int, *, may_let_go: bool) -> list[MemberEffect]:
        """To the controller: registration or heartbeat, and the application's request.

        A leaving member sends nothing else: it would learn that it is not a member, and join again.
        """
        effects: list[MemberEffect] = []
        question = self._question
        leaves = question is not None and question.api == "DeregisterConsumer"
        registers = self._told_wishes != self._wishes
        may_register = (may_let_go or self.member.fresh) and now_ms >= self._register_at_ms
        if "RegisterConsumer" not in self._sent and not leaves:
            if registers and may_register:
                if self.member.fresh and self._registered_here:
                    # "I hold nothing" is only true on a connection without an earlier answer.
                    assert self._here is not None
                    return self._connect(self._here)
                effects.append(self._register(now_ms))
            elif not self.member.fresh and self._heartbeat_is_due(now_ms):
                effects.append(self._heartbeat(now_ms))
        if question is not None and question.api not in self._sent:
            self._sent[question.api] = _Sent(now_ms, about=question)
            effects.append(SendRequest(question.api, question.body))
        return effects

    def _heartbeat_is_due(self, now_ms: int) -> bool:
        return "Heartbeat" not in self._sent and now_ms >= self._heartbeat_at_ms

    def _is_overdue(self, now_ms: int) -> bool:
        if not self._sent:
            return False
        longest_ms = self._session_timeout_ms // 3
        if self._phase is _Phase.FINDING:
            longest_ms = max(longest_ms, FIND_MS)
        return now_ms - min(each.at_ms for each in self._sent.values()) > longest_ms

    def _request(self, api: str, body: Mapping[str, Any], now_ms: int) -> SendRequest:
        self._sent[api] = _Sent(now_ms)
        return SendRequest(api, body)

    def _register(self, now_ms: int) -> SendRequest:
        asked, wishes = request_of(self.member), self._wishes
        self.member = after_asking(self.member)
        # Until it is answered, it is unknown whether the request arrived.
        self._told_wishes, self._registered_here = None, True
        self._sent["RegisterConsumer"] = _Sent(now_ms, asked.connection, wishes)
        return SendRequest(
            "RegisterConsumer",
            {
                "ConsumerGroup": self.settings.group,
                "ConsumerId": self.settings.member,
                "Generation": -1 if asked.as_of is None else asked.as_of,
                "Topics": sorted(self._topics),
                "Static": _places(self._static),
                "Held": _places(asked.held),
                "Positions": _positions(asked.positions),
            },
        )

    def _heartbeat(self, now_ms: int) -> SendRequest:
        # Parked for a sixth: the next one is answered, or missed, well before the lease is over.
        return self._request(
            "Heartbeat",
            {
                "SessionTimeout": self._session_timeout_ms,
                "ConsumerGroup": self.settings.group,
                "ConsumerId": self.settings.member,
                "Generation": self.member.generation,
                "MaxWaitMs": self._session_timeout_ms // 6,
            },
            now_ms,
        )

    # --- answers ----------------------------------------------------------------------------------

    def answered(self, answer: RpcAnswer, now_ms: int) -> list[MemberEffect]:
        """An answer arrived on the connection."""
        sent = self._sent.pop(answer.api.name, None)
        if sent is None:
            return []
        match answer.api.name:
            case "ListGroups":
                return self._found(answer, now_ms)
            case "CreateGroup":
                made = {ErrorCode.NONE, ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
                return [] if answer.code in made else self._refused(answer.code, now_ms)
            case "RegisterConsumer":
                return self._registered(answer, sent, now_ms)
            case "Heartbeat":
                return self._beaten(answer, sent, now_ms)
            case _:
                return self._told(answer, sent, now_ms)

    def _found(self, answer: RpcAnswer, now_ms: int) -> list[MemberEffect]:
        if answer.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return [self._request("CreateGroup", self._new_group(), now_ms)]
        if answer.code is not ErrorCode.NONE:
            return self._refused(answer.code, now_ms)
        infos = cast("list[dict[str, Any]]", answer.body["GroupsInfo"])
        more = cast("list[dict[str, Any]]", answer.body["GroupsInfoV1"])
        for info, info_v1 in zip(infos, more, strict=False):
            host = info["ControllerBroker"]["Host"]
            if info["GroupName"] == self.settings.group and host:
                self.controller = host, info_v1["Port"]
                if self.controller == self._here:
                    self._phase = _Phase.FOUND
                elif self._is_unreachable(self.controller, now_ms):
                    # It may have died, and this server will soon know the next controller.
                    self.controller, self._try_at_ms = None, now_ms + AGAIN_MS
                else:
                    return self._connect(self.controller)
                return []
        return self._refused(ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)

    def _is_unreachable(self, address: tuple[str, int], now_ms: int) -> bool:
        known = self._unreachable
        return known is not None and known[0] == address and now_ms < known[1] + UNREACHABLE_MS

    def _new_group(self) -> Mapping[str, Any]:
        settings = self.settings
        topics = self._topics | {tp.topic for tp in self._static}
        return {
            "ConsumerGroup": settings.group,
            "SessionTimeout": settings.session_timeout_ms,
            "Topics": sorted(topics),
            "Ephemeral": False,
            "Rebalance": settings.rebalance.value,
            "Strategy": settings.strategy,
        }

    def _registered(self, answer: RpcAnswer, sent: _Sent, now_ms: int) -> list[MemberEffect]:
        self._register_at_ms = now_ms + AGAIN_MS
        if answer.code is not ErrorCode.NONE:
            return self._refused(answer.code, now_ms)
        own = {
            TopicPartition(one["Topic"], one["Partition"]): At(one["Tenure"], one["Offset"])
            for one in cast("list[dict[str, Any]]", answer.body["PartitionsToOwnV1"])
        }
        generation = cast("int", answer.body["Generation"])
        told = MemberAnswer(sent.connection, generation, unknown=False, own=own)
        if is_closed(self.member, told):
            return []
        if is_old(self.member, told):
            self._look_elsewhere(now_ms)  # the server does not know a later controller yet
            return []
        self._session_timeout_ms = cast("int", answer.body["SessionTimeout"])
        self._prolong(sent)
        self._register_at_ms = now_ms
        self._heartbeat_at_ms = max(now_ms, self._beaten_at_ms + AGAIN_MS)
        before = self.member
        after = after_answer(before, told)
        # The answered request has reported earlier releases.
        at = {tp: one for tp, one in after.at.items() if tp in before.holds | after.holds}
        self.member = evolved(after, at=at)
        effects = self._changes(before, given_up=False)
        # A released partition has a new owner once the controller knows of the release.
        self._told_wishes = sent.about if before.holds <= self.member.holds else None
        return effects

    def _prolong(self, sent: _Sent) -> None:
        """G5: the controller received this request no earlier than it was sent."""
        lease_ms = LEASE * self._session_timeout_ms
        self._lease_until_ms = goes_on_until(self._lease_until_ms, sent.at_ms, lease_ms)

    def _changes(self, before: GroupMemberState, *, given_up: bool) -> list[MemberEffect]:
        """The partitions to stop and to begin, in this order."""
        after = self.member
        kept = {
            tp for tp in before.holds & after.holds if before.at[tp].tenure == after.at[tp].tenure
        }
        stopped = [
            PartitionStopped(tp, before.at[tp], given_up) for tp in sorted(before.holds - kept)
        ]
        return [
            *stopped,
            *(PartitionStarted(tp, after.at[tp]) for tp in sorted(after.holds - kept)),
        ]

    def _beaten(self, answer: RpcAnswer, sent: _Sent, now_ms: int) -> list[MemberEffect]:
        self._heartbeat_at_ms, self._beaten_at_ms = sent.at_ms + self._heartbeat_ms, sent.at_ms
        if answer.code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            generation = cast("int", answer.body["ControllerGeneration"])
            return self._refused(answer.code, now_ms, generation)
        if cast("int", answer.body["ControllerGeneration"]) < self.member.generation:
            return []
        self._prolong(sent)
        if answer.code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._told_wishes = None
        return []

    def _told(self, answer: RpcAnswer, sent: _Sent, now_ms: int) -> list[MemberEffect]:
        """An answer to a request of the application, perhaps one that it has withdrawn."""
        if answer.code in _PASSES:
            return self._refused(answer.code, now_ms)
        is_asked = sent.about is self._question
        if is_asked:
            self._question = None
        # The lease is that of heartbeats and registrations: only they are answered by a controller
        # that has confirmed that it is one.
        forgotten = answer.code in _FORGOTTEN and answer.api.name != "DeregisterConsumer"
        effects = self._refused(answer.code, now_ms) if forgotten else []
        return [*effects, QuestionAnswered(answer)] if is_asked else effects

    def _refused(
        self, code: ErrorCode, now_ms: int, generation: int | None = None
    ) -> list[MemberEffect]:
        """An answer with an error code."""
        if code in _FORGOTTEN:
            before = self.member
            known = before.generation if generation is None or generation < 0 else generation
            told = MemberAnswer(NO_CONNECTION, known, unknown=True)
            if is_old(before, told):
                self._look_elsewhere(now_ms)
                return []
            self._told_wishes = None  # first: interrupted before that, it would never register
            self.member, self._lease_until_ms = after_answer(before, told), _LONG_AGO
            if code is not ErrorCode.UNKNOWN_MEMBER_ID:
                self._look_elsewhere(now_ms)
            return self._changes(before, given_up=True)
        if code in _PASSES:
            self._look_elsewhere(now_ms)
            return []
        self.failure = code
        return []


def _places(partitions: Iterable[TopicPartition]) -> list[dict[str, Any]]:
    return [{"Topic": tp.topic, "Partition": tp.partition} for tp in sorted(partitions)]


def _positions(positions: Mapping[TopicPartition, At]) -> list[dict[str, Any]]:
    return [
        {"Topic": tp.topic, "Partition": tp.partition, "Offset": at.offset, "Tenure": at.tenure}
        for tp, at in sorted(positions.items())
    ]
