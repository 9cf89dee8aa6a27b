"""A second member joins a group, and then its controller dies: two members, two controllers, a log.

The steps are what `kafka_marshal.machines.groups` does when a script of events is played to its
server and its member. This module holds the script: who asks when, and which controller dies. It
decides no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, Final

import attrs

from kafka_marshal.core.groups.events import (
    EventRecord,
    MemberRegistered,
    Rebalanced,
    Reconciled,
)
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.counterexample import Counterexample, Participant, Step, StepKind
from kafka_marshal.counterexample.model import spec_name
from kafka_marshal.machines.groups import effects
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
from kafka_marshal.rpc.error_codes import ErrorCode

MEMBERS: Final = ("m1", "m2")
CONTROLLERS: Final = ("c1", "c2")
LOG: Final = "log"
PORT: Final = 9092
PARTITIONS: Final = 2
SHOWN: Final = frozenset({"RegisterConsumer", "Heartbeat"})
"""The requests that are drawn; how a member finds its controller is not."""
ENDS: Final = (
    "Members, owners, tenures and positions are what they were: a failover is no rebalance."
)


class Script:
    """Two members and two controllers at one log of one partition; what is asked comes at once."""

    def __init__(self) -> None:
        """Begin with an empty log, that the first controller serves."""
        self.now_ms = 1_000
        self.steps = [Step(0)]
        self.shown = False
        """Whether what happens is a step of the story."""
        self.state = Controllership()
        self.log: list[EventRecord] = []
        self.servers = {
            name: GroupServer(ServerSettings(number, name, PORT, partitions=1))
            for number, name in enumerate(CONTROLLERS)
        }
        self._connections = count(1)
        self._correlation = count(1)
        self.members = {
            name: Membership(MembershipSettings("g", name, tuple((c, PORT) for c in CONTROLLERS)))
            for name in MEMBERS
        }
        self.connected: dict[str, tuple[str, int]] = {}
        """Of each member that is connected, to whom, and the connection."""
        for name, server in self.servers.items():
            self._do(name, server.begins(0, 0, self.now_ms, at_position=False))
        self.claims(CONTROLLERS[0])

    def _step(self, step: Step) -> None:
        if self.shown:
            number = len(self.steps)
            self.steps.append(attrs.evolve(step, number=number, sentence=step.label))

    def _arrow(self, source: str, target: str, label: str) -> None:
        self._step(Step(0, who=source, source=source, target=target, label=label))

    # --- controllers ------------------------------------------------------------------------------

    def claims(self, name: str) -> None:
        """It may compete for the partition; the claims' own log is not drawn."""
        self._do(name, self.servers[name].claimed(0, self.now_ms))
        self.passes(200)

    def crashes(self, name: str) -> None:
        """It is gone, and its connections with it."""
        self._step(Step(0, kind=StepKind.CRASHED, who=name, label="crashes"))
        del self.servers[name]
        for member, (server, _) in [*self.connected.items()]:
            if server == name:
                del self.connected[member]
                self.members[member].connection_lost(self.now_ms)

    def passes(self, ms: int) -> None:
        """Time passes, and controllers look at their clocks."""
        self.now_ms += ms
        for name, server in self.servers.items():
            self._do(name, server.tick(self.now_ms))

    def _do(self, name: str, asked: Iterable[effects.Effect]) -> None:
        server = self.servers[name]
        for effect in asked:
            match effect:
                case effects.AppendEvent(record):
                    self._lands(name, record)
                case effects.AskEnd(_, token):
                    self._do(name, server.end_is(0, token, len(self.log), self.now_ms))
                case effects.CountPartitions(_, topics):
                    for topic in sorted(topics):
                        counted = server.counted(0, topic, "id", PARTITIONS, self.now_ms)
                        self._do(name, counted)
                case effects.SendAnswer(connection, answer):
                    self._answered(name, connection, answer)
                case _:
                    pass

    def _lands(self, name: str, record: EventRecord) -> None:
        landed = attrs.evolve(record, offset=len(self.log), timestamp_ms=self.now_ms)
        self.log.append(landed)
        outcome = step(self.state, landed)
        self.state = outcome.controllership
        self._step(
            Step(
                0,
                kind=StepKind.APPENDED,
                who=name,
                source=name,
                target=LOG,
                offset=landed.offset,
                label=_event(landed),
                verdict=spec_name(outcome.verdict),
            )
        )
        for reader, server in [*self.servers.items()]:
            self._do(reader, server.read(landed, self.now_ms))

    def _answered(self, name: str, connection: int, answer: RpcAnswer) -> None:
        for member, over in [*self.connected.items()]:
            if over == (name, connection):
                if answer.api.name in SHOWN:
                    self._arrow(name, member, _answer(answer))
                self._obeys(member, self.members[member].answered(answer, self.now_ms))

    # --- members ----------------------------------------------------------------------------------

    def joins(self, name: str) -> None:
        """It wants a share of the topic, and asks until it is in."""
        machine = self.members[name]
        machine.wants({"t"}, ())
        while machine.member.fresh:
            self.asks(name)

    def asks(self, name: str) -> None:
        """Some time later its timers are looked at."""
        self.passes(100)
        self._obeys(name, self.members[name].tick(self.now_ms, may_let_go=True))

    def _obeys(self, name: str, asked: Iterable[MemberEffect]) -> None:
        machine = self.members[name]
        for effect in asked:
            match effect:
                case ConnectTo(host) if host not in self.servers:
                    machine.connection_lost(self.now_ms)
                case ConnectTo(host):
                    number = next(self._connections)
                    self.connected[name] = host, number
                    self._do(host, self.servers[host].connected(number, self.now_ms))
                    machine.connected()
                case SendRequest(api, body):
                    self._requests(name, api, body)
                case PartitionStopped(tp, at):
                    label = f"stops partition {tp.partition} at offset {at.offset}"
                    self._step(Step(0, kind=StepKind.PROCESSED, who=name, label=label))
                case _:
                    pass

    def _requests(self, name: str, api: str, body: Mapping[str, Any]) -> None:
        host, number = self.connected[name]
        if api in SHOWN:
            self._arrow(name, host, _request(api, body))
        known = BY_NAME[api]
        request = RpcRequest(known, known.newest, next(self._correlation), name, {**body})
        self._do(host, self.servers[host].requested(number, request, self.now_ms))

    def waiting(self) -> set[str]:
        """The members with a heartbeat at a controller, which answers when something changes."""
        last = {step.source: step for step in self.steps if step.source in MEMBERS}
        return {
            who
            for who, step in last.items()
            if who and step.target in self.servers and step.label.startswith("Heartbeat")
        }

    def counterexample(self) -> Counterexample:
        """Return the steps in the form that is drawn."""
        others = [Participant(name, "member") for name in MEMBERS]
        others += [Participant(CONTROLLERS[0], "controller"), Participant(LOG, "of groups")]
        others += [Participant(CONTROLLERS[1], "controller")]
        return Counterexample(None, "a script", tuple(others), tuple(self.steps), wrong=ENDS)


def _event(record: EventRecord) -> str:
    match record.event:
        case MemberRegistered(member):
            return f"MemberRegistered, {member}"
        case Rebalanced(target):
            owners = ", ".join(f"{tp.partition} to {to}" for tp, to in sorted(target.items()))
            return f"Rebalanced, {owners}"
        case Reconciled(member):
            return f"Reconciled, {member}"
        case other:
            return type(other).__name__


def _request(api: str, body: Mapping[str, Any]) -> str:
    if api == "Heartbeat":
        return f"Heartbeat, generation {body['Generation']}"
    held = ", ".join(str(each["Partition"]) for each in body["Held"])
    return f"{api}, holds {held or 'nothing'}"


def _answer(answer: RpcAnswer) -> str:
    if answer.api.name == "Heartbeat":
        changed = answer.code is ErrorCode.REBALANCE_IN_PROGRESS
        return "something changed: register" if changed else "nothing changed"
    own: Any = answer.body["PartitionsToOwnV1"]
    owned = ", ".join(str(each["Partition"]) for each in own)
    return f"generation {answer.body['Generation']}, owns {owned or 'nothing'}"


def joins_and_failover() -> Counterexample:
    """Return the story: one of two partitions moves to a new member, and then a controller dies."""
    play = Script()
    first, second = MEMBERS
    play.joins(first)
    machine = play.members[first]
    while not machine.member.holds:
        play.asks(first)
    for tp, at in machine.member.at.items():
        machine.processed(tp, at.tenure, 40 + tp.partition)
    play.shown = True
    while len(play.steps) == 1:
        play.asks(first)
    play.joins(second)
    while not play.members[second].member.holds:
        play.asks(first)
        play.asks(second)
    while len(play.waiting()) < len(MEMBERS):
        play.asks(first)
        play.asks(second)
    play.crashes(CONTROLLERS[0])
    play.claims(CONTROLLERS[1])
    while len(play.waiting()) < len(MEMBERS):
        play.asks(first)
        play.asks(second)
    return play.counterexample()
