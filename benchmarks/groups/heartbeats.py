"""Many members that only speak the RPC, in one thread: how long their heartbeats take.

Each has a connection of its own. It registers until it has heard everything, then it sends a
heartbeat a second, and asks for an answer at once (MaxWaitMs 0). The time of an answer counts from
when its heartbeat was due, so what waits behind a slow answer counts, too. What this thread itself
is late by is in it.
"""

from __future__ import annotations

import heapq
import selectors
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, cast

import attrs

from kafka_marshal.client.connect.environment import REAL, Stream
from kafka_marshal.client.groups.connection import (
    AGAIN_S,
    GO_AGAIN,
    Address,
    ServerConnection,
    ServerUnreachable,
    groups_of,
)
from kafka_marshal.rpc.codec import RpcAnswer
from kafka_marshal.rpc.error_codes import ErrorCode

_EVERY_S = 1.0
_KNOCKING_MAX = 32
"""Connections on which nobody has registered yet."""


@attrs.define(eq=False)
class _Member:
    connection: ServerConnection
    stream: Any
    """What the connection runs on, for the selector."""
    name: str
    generation: int = -1
    own: Sequence[dict[str, Any]] = ()
    due_s: float = 0.0
    """When its next heartbeat is, or was, due."""
    settled: bool = False
    """Its last heartbeat was answered with 0."""
    looks: bool = False
    """It asks a server who is controller."""


@attrs.define
class Beats:
    """What was measured."""

    settled: int = 0
    """How many members had nothing left to hear when it began."""
    settles_s: float = 0.0
    """From the first registration to that."""
    answers_ms: list[float] = attrs.Factory(list)
    changes: int = 0
    """Answers that asked a member to register again, while it was measured."""


class Crowd:
    """The members; a context manager that disconnects them."""

    def __init__(self, controller: Address, group: str, topic: str, members: int) -> None:
        self._controller, self._group, self._topic = controller, group, topic
        self._wanted, self._beats = members, Beats()
        self._stack, self._selector = ExitStack(), selectors.DefaultSelector()
        self._stack.callback(self._selector.close)
        self._members: list[_Member] = []
        self._queue: list[tuple[float, str, _Member]] = []
        self._measures = False

    def __enter__(self) -> Crowd:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def settle(self, longest_s: float) -> Beats:
        """Register all, and go on until nobody has anything left to hear."""
        began_s = time.monotonic()
        while (now_s := time.monotonic()) < began_s + longest_s:
            knocking = sum(member.generation < 0 for member in self._members)
            if len(self._members) < self._wanted and knocking < _KNOCKING_MAX:
                self._connect(began_s)
            elif all(member.settled for member in self._members):
                break
            self._step(now_s)
        self._beats.settled = sum(member.settled for member in self._members)
        self._beats.settles_s = time.monotonic() - began_s
        return self._beats

    def _connect(self, began_s: float) -> None:
        """One more; their heartbeats are spread over the second."""
        number = len(self._members)
        connection, stream = self._connection()
        due_s = began_s + _EVERY_S * number / self._wanted
        member = _Member(connection, stream, f"m{number:05}", due_s=due_s)
        self._selector.register(stream, selectors.EVENT_READ, member)
        self._members.append(member)
        self._register(member)

    def measure(self, seconds: float) -> Beats:
        """Send heartbeats, and note how long each answer takes."""
        until_s, self._measures = time.monotonic() + seconds, True
        while (now_s := time.monotonic()) < until_s:
            self._step(now_s)
        return self._beats

    def fail_over(self, to: Address, longest_s: float) -> float:
        """Their controller is dead: each asks this server, until that is it and knows the member.

        Returns the seconds until the last one's heartbeat was answered.
        """
        began_s, self._measures, self._controller = time.monotonic(), False, to
        self._queue.clear()
        for member in self._members:
            member.looks, member.settled = True, False
            self._connect_again(member, began_s)
        while (now_s := time.monotonic()) < began_s + longest_s:
            if all(member.settled for member in self._members):
                return now_s - began_s
            self._step(now_s)
        left = sum(not member.settled for member in self._members)
        raise RuntimeError(f"{left} members were not heard within {longest_s:.0f} s")

    def _connection(self) -> tuple[ServerConnection, Any]:
        streams = list[Stream]()

        def connect(*given: Any) -> Stream:
            streams.append(REAL.connect(*given))
            return streams[-1]

        noted = attrs.evolve(REAL, connect=connect)
        connection = ServerConnection(self._controller, "crowd", environment=noted)
        return self._stack.enter_context(connection), streams[-1]

    def _step(self, now_s: float) -> None:
        while self._queue and self._queue[0][0] <= now_s:
            member = heapq.heappop(self._queue)[2]
            if member.looks:
                asked = {"ConsumerGroups": [self._group], "Describe": 0}
                member.connection.send("ListGroups", asked)
            else:
                (self._register if member.generation < 0 else self._heartbeat)(member)
        wait_s = self._queue[0][0] - now_s if self._queue else _EVERY_S
        for key, _ in self._selector.select(max(0.0, min(wait_s, 0.01))):
            member = cast("_Member", key.data)
            connection = member.connection
            try:
                while (answer := connection.receive(0)) is not None:
                    self._answered(member, answer)
                    if connection is not member.connection:
                        break
            except ServerUnreachable:
                if not member.looks:
                    raise
                self._connect_again(member, now_s + AGAIN_S)

    def _retry(self, member: _Member, now_s: float, code: ErrorCode) -> None:
        """A controller that has just begun closes connections: it does not know how old they are.

        While it is measured it has no such reason.
        """
        if self._measures:
            raise RuntimeError(f"the controller ceased to serve {member.name}: {code.name}")
        self._connect_again(member, now_s + AGAIN_S)

    def _connect_again(self, member: _Member, due_s: float) -> None:
        self._selector.unregister(member.stream)
        member.connection.close()
        member.connection, member.stream = self._connection()
        self._selector.register(member.stream, selectors.EVENT_READ, member)
        heapq.heappush(self._queue, (due_s, member.name, member))

    def _heartbeat(self, member: _Member) -> None:
        body = {"SessionTimeout": 0, "Generation": member.generation, "MaxWaitMs": 0}
        self._send(member, "Heartbeat", body)

    def _register(self, member: _Member) -> None:
        held = [{"Topic": one["Topic"], "Partition": one["Partition"]} for one in member.own]
        body = {"Generation": member.generation, "Topics": [self._topic], "Static": []}
        self._send(member, "RegisterConsumer", {**body, "Held": held, "Positions": []})

    def _send(self, member: _Member, api: str, body: Mapping[str, object]) -> None:
        whose = {"ConsumerGroup": self._group, "ConsumerId": member.name}
        member.connection.send(api, {**whose, **body})

    def _answered(self, member: _Member, answer: RpcAnswer) -> None:
        api, code, now_s = answer.api.name, answer.code, time.monotonic()
        if api == "ListGroups":
            [found] = groups_of(answer)
            if (found["Host"], found["Port"]) == (self._controller.host, self._controller.port):
                member.looks, member.due_s = False, now_s
            else:
                member.due_s = now_s + AGAIN_S
            heapq.heappush(self._queue, (member.due_s, member.name, member))
            return
        if code in GO_AGAIN:
            self._retry(member, now_s, code)
            return
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            raise RuntimeError(f"member {member.name}: {api} was answered {code.name}")
        if api == "Heartbeat":
            if self._measures:
                self._beats.answers_ms.append((now_s - member.due_s) * 1000)
                self._beats.changes += code is not ErrorCode.NONE
            member.settled = code is ErrorCode.NONE
            member.due_s += _EVERY_S
            if not member.settled:
                self._register(member)
                return
        else:
            member.generation = cast("int", answer.body["Generation"])
            member.own = cast("list[dict[str, Any]]", answer.body["PartitionsToOwnV1"])
            # What came while it registered is not due any more.
            while member.due_s < now_s - _EVERY_S:
                member.due_s += _EVERY_S
        heapq.heappush(self._queue, (member.due_s, member.name, member))
