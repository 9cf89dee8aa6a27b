"""Requests that wait for an answer, and the connections that they arrived on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.state import Topic, TopicPartition
from kafka_marshal.machines.groups.control.bodies import delete_answer
from kafka_marshal.machines.groups.controller import MemberKey
from kafka_marshal.machines.groups.effects import CloseConnection, Effect, SendAnswer
from kafka_marshal.rpc.codec import RpcAnswer, RpcRequest, refusal
from kafka_marshal.rpc.error_codes import ErrorCode

CLOSING: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.FENCED_INSTANCE_ID: "its member has registered over another connection",
    ErrorCode.UNKNOWN_MEMBER_ID: "its member was given up",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "it may be older than what the controller remembers",
    ErrorCode.INVALID_REQUEST: "a request came while one was unanswered",
}
"""Codes after which a connection may be closed, and the reasons for the log."""


@define(eq=False)
class Connection:
    """What a server remembers of a connection."""

    number: int
    members: set[MemberKey] = field(factory=set)
    """Members that registered over it last, as `Carried` knows."""
    registering: set[MemberKey] = field(factory=set)
    """Those of which a Register is not answered yet."""
    unanswered: int = 0
    is_open: bool = True
    is_of_member: bool = False
    """A Register or a Heartbeat of a member was answered over it."""
    # --- version 0, which names its member once
    key: MemberKey | None = None
    generation: int = -1
    """Of the last answer to its Register."""
    tenures: Mapping[TopicPartition, int] = field(factory=dict)
    """The last tenures that its member was sent."""

    def carries_only(self, key: MemberKey) -> bool:
        """Nobody else would lose it."""
        return self.members <= {key}


@define(eq=False)
class Carried:
    """Over which connection each member of a partition registered last, while it is one.

    So a connection over which ever new ids come and go carries no more than there are members.
    """

    _by: dict[MemberKey, Connection] = field(factory=dict)

    def registers(self, key: MemberKey, connection: Connection) -> None:
        """A member registers. It has left the connection before."""
        self.gone(key)
        self._by[key] = connection
        connection.members.add(key)

    def gone(self, key: MemberKey) -> None:
        """It is no member any more."""
        connection = self._by.pop(key, None)
        if connection is not None:
            connection.members.discard(key)

    def clear(self) -> None:
        """This process controls the partition no longer."""
        for key in [*self._by]:
            self.gone(key)


@define(eq=False)
class Deletion:
    """A DeleteGroup, with the result for each of its groups; each is decided on its own."""

    groups: int
    codes: dict[str, ErrorCode] = field(factory=dict)
    """Of each group of which it is known."""


@define(eq=False)
class Wait:
    """A request that was taken, and is not answered yet."""

    connection: Connection
    request: RpcRequest
    key: MemberKey
    """Its member is '' where it is of none."""
    needs: int = 0
    """G2: the number of the last event that its answer was judged by."""
    token: int = 0
    """G3: the query that must be answered first; 0 if an event of its own confirms it, or if the
    answer prolongs no session."""
    code: ErrorCode = ErrorCode.NONE
    """The code of the answer, by the decision."""
    codes: Mapping[TopicPartition, ErrorCode] = field(factory=dict)
    """Of each position that it commits."""
    has_events: bool = False
    """Something of it is in the log, or on its way."""
    came_ms: int = 0
    """When it came, in listened milliseconds."""
    registers: bool = False
    """It is a Register, of which a member has one under way."""
    closes: bool = False
    """The connection ends with the answer."""
    deadline_ms: int = 0
    """Until when a Heartbeat may wait for a change, or a question for its answer."""
    counts: dict[str, Topic] = field(factory=dict)
    """The partition counts for a CreateGroup."""
    rewound: Mapping[TopicPartition, int] = field(factory=dict)
    """Where a RewindConsumer sets partitions."""
    deletion: Deletion | None = None
    """The DeleteGroup that it is a part of."""


@define(eq=False)
class Connections:
    """All connections of a server."""

    out: list[Effect]
    latest: int = 0
    _all: dict[int, Connection] = field(factory=dict)

    def opened(self, number: int) -> None:
        """A connection was accepted."""
        self.latest = max(self.latest, number)
        self._all[number] = Connection(number)

    def get(self, number: int) -> Connection | None:
        """The connection of this number, while it is open."""
        return self._all.get(number)

    def gone(self, number: int) -> Connection | None:
        """It was closed."""
        connection = self._all.pop(number, None)
        if connection is not None:
            connection.is_open = False
        return connection

    def took(self, wait: Wait) -> None:
        """A request is to be answered."""
        wait.connection.unanswered += 1

    def answer(self, wait: Wait, answer: RpcAnswer) -> None:
        """Answer a request that was taken, and close its connection where that is due."""
        connection = wait.connection
        connection.unanswered -= 1
        if wait.registers:
            connection.registering.discard(wait.key)
        self.send(connection, answer, closes=wait.closes)

    def refuse(self, wait: Wait, code: ErrorCode) -> None:
        """Answer nothing but a code: a DeleteGroup once there is one of each group."""
        deletion = wait.deletion
        if deletion is None:
            self.answer(wait, refused(wait.request, code))
            return
        wait.connection.unanswered -= 1
        deletion.codes[wait.key.group] = code
        if len(deletion.codes) == deletion.groups:
            self.send(wait.connection, delete_answer(wait.request, deletion.codes))

    def send(self, connection: Connection, answer: RpcAnswer, *, closes: bool = False) -> None:
        """Send an answer, if the connection is open."""
        if not connection.is_open:
            return
        self.out.append(SendAnswer(connection.number, answer))
        if closes:
            self.out.append(CloseConnection(connection.number, CLOSING[answer.code]))
            self.gone(connection.number)


def refused(request: RpcRequest, code: ErrorCode) -> RpcAnswer:
    """An answer that holds nothing but a code."""
    return refusal(request.api, request.version, request.correlation_id, code)
