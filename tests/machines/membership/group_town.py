"""Servers of groups and members, both without IO, in random schedules: the world between them.

Time is a number. Records land and are read late, but in order. Answers and requests travel, and
connections break; members and servers sleep for longer than a session, and another server may claim
the partition at any moment. What is promised is asked after every step.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random
from typing import Final, cast

from attrs import define, evolve, field

from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.machines.groups.effects import (
    AppendEvent,
    AskEnd,
    CloseConnection,
    CountPartitions,
    Effect,
    SendAnswer,
)
from kafka_marshal.machines.groups.membership import (
    ConnectTo,
    MemberEffect,
    Membership,
    MembershipSettings,
    PartitionStopped,
    SendRequest,
)
from kafka_marshal.machines.groups.server import GroupServer, ServerSettings
from kafka_marshal.rpc.codec import BY_NAME, RpcAnswer, RpcRequest
from kafka_marshal.rpc.fields import Body

STEP_MS: Final = 50
SESSION_MS: Final = 3_000
PARTITIONS: Final = 4
HOSTS: Final = ("a", "b")


@define(eq=False)
class _Server:
    host: str
    machine: GroupServer
    asleep_until_ms: int = 0
    open: set[int] = field(factory=set)
    """The connections that it accepted."""
    inbox: list[Callable[[], list[Effect]]] = field(factory=list)


@define(eq=False)
class Inhabitant:
    """A member, its connection, and what it has done."""

    name: str
    machine: Membership
    connection: int = 0
    server: _Server | None = None
    asleep_until_ms: int = 0
    heard: list[RpcAnswer] = field(factory=list)
    """What its socket has; it is read when it wakes."""
    is_closed: bool = False
    """The other side has closed the connection, behind what was heard."""


class GroupTown:
    """A random world of two servers and some members of one group."""

    def __init__(self, seed: int, members: int = 3, partitions: int = PARTITIONS) -> None:
        self.random = Random(seed)
        self.partitions = partitions
        self.now_ms = 1_000_000
        self.log: list[EventRecord] = []
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._connections = count(1)
        self._landing_ms: dict[str, int] = {}
        self.broken: list[str] = []
        """What was promised and not kept."""
        self.owned: dict[tuple[TopicPartition, int], str] = {}
        """Who handed out of a partition under a tenure."""
        self.handed_out = 0
        self.servers = [
            _Server(host, GroupServer(ServerSettings(number, host, 1, partitions=1)))
            for number, host in enumerate(HOSTS)
        ]
        self.members = [self._inhabitant(f"m{number}") for number in range(members)]
        for server in self.servers:
            self._carry_out(server, server.machine.begins(0, 0, self.now_ms, at_position=False))
        self.claimant = self.servers[0]
        """Who won the claim last."""
        self._claim(self.claimant)

    def _inhabitant(self, name: str) -> Inhabitant:
        servers = tuple((host, 1) for host in HOSTS)
        machine = Membership(MembershipSettings("g", name, servers, SESSION_MS))
        machine.wants({"t"}, ())
        return Inhabitant(name, machine)

    def run(self, ms: int, *, trouble: bool = True) -> None:
        """Let time pass."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            if trouble and self.random.random() < 0.03:
                self._trouble()
            while self._agenda and self._agenda[0][0] <= self.now_ms:
                heapq.heappop(self._agenda)[2]()
            for server in self.servers:
                if server.asleep_until_ms <= self.now_ms:
                    inbox, server.inbox = server.inbox, []
                    for happens in inbox:
                        self._carry_out(server, happens())
                    self._carry_out(server, server.machine.tick(self.now_ms))
            for member in self.members:
                if member.asleep_until_ms <= self.now_ms:
                    self._poll(member)
            self._judge()

    def _trouble(self) -> None:
        server, member = self.random.choice(self.servers), self.random.choice(self.members)
        until_ms = self.now_ms + self.random.randrange(100, 3 * SESSION_MS)
        match self.random.randrange(5):
            case 0:
                self._claim(server)
            case 1:
                server.asleep_until_ms = until_ms
            case 2 | 3:
                member.asleep_until_ms = until_ms
            case _:
                self._hang_up(member)

    def _claim(self, server: _Server) -> None:
        """It may compete; the other hears late that it may not any more."""
        [other] = [each for each in self.servers if each is not server]
        self.claimant = server
        self._input(server, lambda: server.machine.claimed(0, self.now_ms))

        def lost() -> None:
            if self.claimant is not other:
                self._input(other, lambda: other.machine.unclaimed(0, self.now_ms))

        self._later(self.random.randrange(2 * SESSION_MS), lost)

    def _later(self, ms: int, happens: Callable[[], None]) -> int:
        at_ms = self.now_ms + ms
        heapq.heappush(self._agenda, (at_ms, next(self._order), happens))
        return at_ms

    def _in_order(self, line: str, happens: Callable[[], None]) -> None:
        """A little later, and not before what is on the same line."""
        at_ms = max(self._landing_ms.get(line, 0), self.now_ms + self.random.randrange(120))
        self._landing_ms[line] = self._later(at_ms - self.now_ms, happens)

    # --- servers ----------------------------------------------------------------------------------

    def _input(self, server: _Server, happens: Callable[[], list[Effect]]) -> None:
        """An input, which the server takes when it is awake, behind those before."""
        server.inbox.append(happens)

    def _carry_out(self, server: _Server, effects: Iterable[Effect]) -> None:
        machine = server.machine
        for effect in effects:
            match effect:
                case AppendEvent():
                    self._in_order(server.host, partial(self._land, effect.record))
                case AskEnd():
                    ended = partial(machine.end_is, 0, effect.token, len(self.log))
                    self._in_order(f"end {server.host}", partial(self._ask, server, ended))
                case CountPartitions():
                    for topic in effect.topics:
                        counted = partial(machine.counted, 0, topic, "id", self.partitions)
                        self._later(20, partial(self._ask, server, counted))
                case SendAnswer() if effect.connection in server.open:
                    self._in_order(
                        f"from {effect.connection}",
                        partial(self._arrive, effect.connection, effect.answer),
                    )
                case CloseConnection():
                    server.open.discard(effect.connection)
                    self._in_order(
                        f"from {effect.connection}", partial(self._arrive, effect.connection, None)
                    )
                case _:
                    pass

    def _ask(self, server: _Server, asked: Callable[[int], list[Effect]]) -> None:
        self._input(server, lambda: asked(self.now_ms))

    def _land(self, record: EventRecord) -> None:
        landed = evolve(record, offset=len(self.log), timestamp_ms=self.now_ms)
        self.log.append(landed)
        for server in self.servers:
            read = partial(server.machine.read, landed)
            self._in_order(f"read {server.host}", partial(self._ask, server, read))

    def _arrive(self, connection: int, answer: RpcAnswer | None) -> None:
        for member in self.members:
            if member.connection == connection and answer is not None:
                member.heard.append(answer)
            elif member.connection == connection:
                member.is_closed = True

    # --- members ----------------------------------------------------------------------------------

    def _poll(self, member: Inhabitant) -> None:
        """What `GroupConsumer.poll` does."""
        machine = member.machine
        heard, member.heard = member.heard, []
        for answer in heard:
            self._obey(member, machine.answered(answer, self.now_ms))
        if member.is_closed:
            member.is_closed = False
            machine.connection_lost(self.now_ms)
            member.server = None
        self._obey(member, machine.tick(self.now_ms, may_let_go=True))
        if machine.may_hand_out(self.now_ms) and machine.member.holds:
            tp = self.random.choice(sorted(machine.member.holds))
            at = machine.member.at[tp]
            owner = self.owned.setdefault((tp, at.tenure), member.name)
            if owner != member.name:
                self.broken.append(f"{tp} of tenure {at.tenure} is {owner}'s and {member.name}'s")
            machine.processed(tp, at.tenure, max(0, at.offset) + 1)
            self.handed_out += 1

    def _obey(self, member: Inhabitant, effects: Iterable[MemberEffect]) -> None:
        for effect in effects:
            match effect:
                case ConnectTo():
                    self._hang_up(member)
                    [server] = [each for each in self.servers if each.host == effect.host]
                    number = next(self._connections)
                    member.connection, member.server = number, server
                    member.heard, member.is_closed = [], False
                    server.open.add(number)
                    # A server that sleeps accepts, and answers nothing.
                    self._input(server, partial(self._accepted, server, number))
                    member.machine.connected()
                case SendRequest() if member.server is not None:
                    self._send(member.server, member, effect)
                case PartitionStopped() | _:
                    pass

    def _accepted(self, server: _Server, number: int) -> list[Effect]:
        return server.machine.connected(number, self.now_ms)

    def _send(self, server: _Server, member: Inhabitant, sent: SendRequest) -> None:
        api, number, client = BY_NAME[sent.api], member.connection, f"client-{member.name}"
        request = RpcRequest(api, api.newest, next(self._order), client, cast("Body", sent.body))

        def arrives() -> list[Effect]:
            if number not in server.open:
                return []
            return server.machine.requested(number, request, self.now_ms)

        self._in_order(f"to {number}", lambda: self._input(server, arrives))

    def _hang_up(self, member: Inhabitant) -> None:
        """The connection breaks; both sides notice."""
        server, number = member.server, member.connection
        if server is None:
            return
        member.server, member.is_closed = None, True
        server.open.discard(number)
        gone = partial(server.machine.disconnected, number)
        self._in_order(f"to {number}", partial(self._ask, server, gone))

    # --- what is promised -------------------------------------------------------------------------

    def _judge(self) -> None:
        """NoTwoOwners and LeaseOver at once: of one partition at most one member hands out."""
        seen: dict[TopicPartition, str] = {}
        for member in self.members:
            if member.machine.may_hand_out(self.now_ms):
                for tp in member.machine.member.holds:
                    other = seen.setdefault(tp, member.name)
                    if other != member.name:
                        self.broken.append(f"{self.now_ms}: {tp}: {other} and {member.name}")
