"""A world around servers of groups: one partition of the log, members that speak RPC, and chance.

Everything that happens has a time, and what comes next is drawn from a seed. Records of one server
land in their order, late or never. Readers lag, processes pause, connections break. After each
event the properties of `GroupProperties.tla` are asked, and with clocks that who holds a partition
and has not stopped by its own clock owns it.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from attrs import define, evolve, field

from kafka_marshal.core.groups.events import ControllershipSnapshot, EventRecord
from kafka_marshal.core.groups.invariants import GroupStep, broken
from kafka_marshal.core.groups.reducer import begun_at, step
from kafka_marshal.core.groups.state import Controllership, Group, Topic, TopicPartition
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused
from kafka_marshal.machines.groups import effects
from kafka_marshal.machines.groups.server import GroupServer, ServerSettings
from kafka_marshal.rpc.codec import RpcAnswer, RpcRequest, refusal
from kafka_marshal.rpc.error_codes import ErrorCode
from tests.machines.groups.members import Member

GROUP = "g"
EXPECTED_REFUSALS = {
    GroupRefused.NOT_THE_EPOCH,
    GroupRefused.DEPOSED,
    GroupRefused.OUT_OF_NUMBER,
}
"""All others repeat what a controller asked before it decided."""


class Violated(AssertionError):
    """A property does not hold; its name comes first."""


@define(eq=False)
class Faults:
    """How likely what goes wrong is. None of it happens by default."""

    lost: float = 0.0
    """A record never lands."""
    unknown: float = 0.0
    """It is reported as failed, and lands later."""
    late: float = 0.0
    """Something takes seconds: a record, a reader, an answer, a request."""
    unasked: float = 0.0
    """A question to the broker is not answered."""


@define(eq=False)
class Process:
    """A server at work."""

    number: int
    server: GroupServer
    read: int = 0
    last: dict[Any, int] = field(factory=lambda: defaultdict(int))
    """When the last thing of a channel comes: none comes before it."""
    asleep_until: int = 0
    reads_from: int = 0
    """Its reader hears nothing until then."""
    queued: dict[Any, list[Callable[[], None]]] = field(factory=dict)
    """What came while it slept, of each channel in its order."""
    is_alive: bool = True


@define(eq=False)
class Link:
    """A connection of a member to a server."""

    number: int
    process: Process
    member: Member
    is_open: bool = True
    last: dict[str, int] = field(factory=lambda: defaultdict(int))


class World:
    """One partition, servers, members."""

    def __init__(self, seed: int, *, faults: Faults | None = None, **settings: Any) -> None:
        self.chance = Random(seed)
        self.faults = faults or Faults()
        self.now_ms = 0
        self.log: list[EventRecord] = []
        self.verdicts: list[GroupAccepted | GroupRefused] = []
        self.states: list[Controllership] = [Controllership()]
        self.topics: dict[str, Topic] = {"t": Topic(4, "first")}
        self.settings = settings
        self.processes: list[Process] = []
        self.members: list[Member] = []
        self.links = 0
        self.answers: list[RpcAnswer] = []
        self.position = 0
        """The claim's: where a reader may begin."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = 0
        self._servers = 0

    # --- time -------------------------------------------------------------------------------------

    def at(self, time_ms: int, what: Callable[[], None]) -> None:
        """Something happens at this time."""
        self._order += 1
        heapq.heappush(self._events, (max(time_ms, self.now_ms), self._order, what))

    def after(self, delay_ms: int, what: Callable[[], None]) -> None:
        """Something happens after this delay."""
        self.at(self.now_ms + delay_ms, what)

    def delay_ms(self, usually_ms: int = 20) -> int:
        """How long something takes."""
        if self.chance.random() < self.faults.late:
            return self.chance.randrange(500, 6_000)
        return self.chance.randrange(1, usually_ms)

    def run(self, until_ms: int) -> None:
        """Let everything happen until then."""
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, what = heapq.heappop(self._events)
            what()
            self.check_members()
        self.now_ms = max(self.now_ms, until_ms)

    def run_until(self, done: Callable[[], bool], within_ms: int = 60_000) -> None:
        """Let things happen until something is so."""
        end_ms = self.now_ms + within_ms
        while not done():
            assert self._events
            assert self._events[0][0] <= end_ms, "it never came to that"
            self.run(self._events[0][0])

    # --- servers ----------------------------------------------------------------------------------

    def start(self, *, claims: bool = True, begin: int = 0) -> Process:
        """A server starts, and reads from the beginning."""
        self._servers += 1
        settings = ServerSettings(self._servers, f"host{self._servers}", 9, 1, **self.settings)
        process = Process(self._servers, GroupServer(settings), read=begin)
        self.processes.append(process)
        self.give(process, lambda now: process.server.begins(0, begin, now, at_position=True))
        self.poll(process)
        self.tick(process)
        if claims:
            self.give(process, lambda now: process.server.claimed(0, now))
        return process

    def tick(self, process: Process) -> None:
        """It looks at its clock ten times a second."""
        if process.is_alive:
            self.give(process, process.server.tick, "tick")
            self.after(100, lambda: self.tick(process))

    def crash(self, process: Process) -> None:
        """A process is gone; what it sent may land yet."""
        process.is_alive = False
        for member in self.members:
            if member.link is not None and member.link.process is process:
                self.close(member.link)

    def pause(self, process: Process, for_ms: int) -> None:
        """A process does nothing for a while; what comes waits for it."""
        process.asleep_until = max(process.asleep_until, self.now_ms + for_ms)
        self.at(process.asleep_until, lambda: self.wake(process))

    def wake(self, process: Process) -> None:
        """Everything that waited comes at once, channels in any order; perhaps the clock first."""
        if self.now_ms < process.asleep_until or not process.is_alive:
            return
        queued, process.queued = process.queued, {}
        if self.chance.random() < 0.5:
            self.give(process, process.server.tick)
        while queued:
            channel = self.chance.choice([*queued])
            queued[channel].pop(0)()
            if not queued[channel]:
                del queued[channel]

    def give(
        self,
        process: Process,
        call: Callable[[int], list[effects.Effect]],
        channel: Any = "broker",
    ) -> None:
        """Give an input to a server, and carry out what it asks for."""
        if not process.is_alive:
            return
        if self.now_ms < process.asleep_until:
            if channel != "tick":
                again = lambda: self.give(process, call, channel)  # noqa: E731
                process.queued.setdefault(channel, []).append(again)
            return
        for effect in call(self.now_ms):
            self.carry_out(process, effect)

    def poll(self, process: Process) -> None:
        """It reads what there is, and looks again."""
        if not process.is_alive:
            return
        for record in self.log[process.read :] if self.now_ms >= process.reads_from else ():
            process.read += 1
            self.give(process, partial(process.server.read, record), "log")
        self.after(self.delay_ms(30), lambda: self.poll(process))

    def carry_out(self, process: Process, effect: effects.Effect) -> None:
        """What a server asks for comes about, later, or never."""
        server = process.server
        match effect:
            case effects.AppendEvent(record):
                self.append(process, record)
            case effects.AskEnd(partition, token):
                self.after(self.delay_ms(), lambda: self.end(process, partition, token))
            case effects.SendAnswer(connection, answer):
                self.answer(process, connection, answer)
            case effects.CloseConnection(connection, _):
                link = self.link(connection)
                if link is not None:
                    self.in_order(link.last, "down", self.delay_ms(), lambda: self.close(link))
            case effects.CountPartitions(partition, topics):
                for name in sorted(topics):
                    topic = self.topics.get(name, Topic(0, ""))

                    what = partial(server.counted, partition, name, topic.topic_id, topic.count)
                    self.after(self.delay_ms(), partial(self.give, process, what))
            case effects.ResolveOffsets(partition, token, asked):
                found = {tp: 0 if at == -2 else 100 for tp, at in asked.items()}
                self.after(
                    self.delay_ms(),
                    lambda: self.give(
                        process, lambda now: server.resolved(partition, token, found, now)
                    ),
                )
            case effects.ForwardRequest(connection, request, host, _):
                self.forward(process, connection, request, host)
            case effects.ReportTooLarge(record, size):
                raise AssertionError(f"{size} bytes: {record}")
            case effects.MovePosition(_, offset):
                self.check_position(offset)
                self.position = offset

    def in_order(
        self, last: dict[Any, int], channel: Any, delay_ms: int, what: Callable[[], None]
    ) -> None:
        """It comes behind what was sent before over the same channel."""
        last[channel] = max(last[channel], self.now_ms + delay_ms)
        self.at(last[channel], what)

    def end(self, process: Process, partition: int, token: int) -> None:
        """The broker says where the log ends now."""
        if self.chance.random() < self.faults.unasked:
            return
        end = len(self.log)
        self.after(
            self.delay_ms(),
            lambda: self.give(
                process, lambda now: process.server.end_is(partition, token, end, now)
            ),
        )

    # --- the log ----------------------------------------------------------------------------------

    def append(self, process: Process, record: EventRecord) -> None:
        """A record is on its way."""
        drawn = self.chance.random()
        failed = drawn < self.faults.lost + self.faults.unknown
        delay_ms = self.delay_ms()
        if drawn >= self.faults.lost:
            wait_ms = delay_ms + (self.chance.randrange(3_000) if failed else 0)
            self.in_order(process.last, "log", wait_ms, lambda: self.land(record))
        if failed:

            def fails(now: int) -> list[effects.Effect]:
                return process.server.append_failed(record, now)

            self.after(delay_ms, lambda: self.give(process, fails))

    def land(self, record: EventRecord) -> None:
        """A record gets into the log, and is what the fold makes of it."""
        record = evolve(record, offset=len(self.log), timestamp_ms=self.now_ms)
        outcome = step(self.states[-1], record)
        self.log.append(record)
        self.verdicts.append(outcome.verdict)
        taken = GroupStep(self.states[-1], record, outcome)
        self.states.append(outcome.controllership)
        found = broken(taken)
        if found:
            raise Violated(f"{sorted(each.value for each in found)}: {record}")
        if isinstance(outcome.verdict, GroupRefused) and outcome.verdict not in EXPECTED_REFUSALS:
            raise Violated(f"JudgedBefore: {outcome.verdict} of {record}")

    @property
    def latest(self) -> Controllership:
        """What the log says."""
        return self.states[-1]

    @property
    def group(self) -> Group | None:
        """The group, by the log."""
        return self.latest.groups.get(GROUP)

    def count(self, verdict: GroupAccepted | GroupRefused) -> int:
        """How many records came to that."""
        return self.verdicts.count(verdict)

    # --- connections ------------------------------------------------------------------------------

    def connect(self, member: Member, process: Process | None = None) -> Link | None:
        """A member connects to a server; None if there is none."""
        alive = [each for each in self.processes if each.is_alive]
        if not alive:
            return None
        if process is None:
            process = self.chance.choice(alive)
        self.links += 1
        link = Link(self.links, process, member)
        member.links[link.number] = link
        self.in_order(
            link.last,
            "up",
            0,
            lambda: self.give(
                process, lambda now: process.server.connected(link.number, now), link.number
            ),
        )
        return link

    def link(self, number: int) -> Link | None:
        """The connection of this number, while it is open."""
        for member in self.members:
            link = member.links.get(number)
            if link is not None:
                return link if link.is_open else None
        return None

    def close(self, link: Link) -> None:
        """A connection ends. What was sent over it may come yet."""
        if not link.is_open:
            return
        link.is_open = False
        link.member.lost(link)
        server = link.process.server
        self.in_order(
            link.last,
            "up",
            self.delay_ms(),
            lambda: self.give(
                link.process, lambda now: server.disconnected(link.number, now), link.number
            ),
        )

    def send(self, link: Link, request: RpcRequest) -> None:
        """A member asks."""
        server = link.process.server
        self.in_order(
            link.last,
            "up",
            self.delay_ms(),
            lambda: self.give(
                link.process, lambda now: server.requested(link.number, request, now), link.number
            ),
        )

    def answer(self, process: Process, number: int, answer: RpcAnswer) -> None:
        """A server answers."""
        self.answers.append(answer)
        self.check_answer(number, answer)
        link = self.link(number)
        if link is not None:
            self.in_order(
                link.last,
                "down",
                self.delay_ms(),
                lambda: link.member.heard(link, answer) if link.is_open else None,
            )

    def forward(self, process: Process, number: int, request: RpcRequest, host: str) -> None:
        """A server has another one answer."""
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer = refusal(request.api, request.version, request.correlation_id, code)
        for other in self.processes:
            if other.is_alive and other.server.settings.host == host:
                link = self.link(number)
                if link is not None:
                    proxy = self.connect(link.member, other)
                    assert proxy is not None
                    self.send(proxy, request)
                return
        self.answer(process, number, answer)

    # --- what is promised -------------------------------------------------------------------------

    def groups(self) -> list[Group]:
        """Every state of the group that there was."""
        return [state.groups[GROUP] for state in self.states if GROUP in state.groups]

    def expelled_at(self, member: str) -> int:
        """Spec: ExpelledAt."""
        at = 0
        for record, verdict, state in zip(self.log, self.verdicts, self.states[1:], strict=True):
            if verdict is GroupAccepted.EXPIRED and record.event.member == member:  # type: ignore[union-attr]
                at = state.number
        return at

    def check_members(self) -> None:
        """Spec: NoTwoOwners, and with clocks LeaseOver: who is given up has stopped."""
        group = self.group
        for member in self.members:
            if not (member.is_alive and member.holds):
                continue
            is_active = self.now_ms < member.lease_until_ms
            for tp in member.holds:
                partition = None if group is None else group.partitions.get(tp)
                if partition is not None and partition.owner == member.name:
                    continue
                if is_active:
                    raise Violated(f"LeaseOver: {member.name} works on {tp} of {partition}")
                if self.expelled_at(member.name) <= member.generation:
                    raise Violated(f"NoTwoOwners: {member.name} holds {tp} of {partition}")

    def check_answer(self, number: int, answer: RpcAnswer) -> None:
        """Spec: AnswersHold. Of a commit that was answered as done: it is."""
        if answer.code is not ErrorCode.NONE or answer.version == 0:
            return
        if answer.api.name == "RegisterConsumer":
            own: Any = answer.body["PartitionsToOwnV1"]
            told = {TopicPartition(row["Topic"], row["Partition"]): row["Tenure"] for row in own}
            for group in reversed(self.groups()):
                if group.generation == answer.body["Generation"]:
                    now = {tp: group.partitions.get(tp) for tp in told}
                    if all(each and each.tenure == told[tp] for tp, each in now.items()):
                        return
            raise Violated(f"AnswersHold: {answer.body}")
        if answer.api.name == "CommitOffsets":
            done: Any = answer.body["PositionsV1"]
            member = next(each for each in self.members if number in each.links)
            committed = member.committing.get(answer.correlation_id, {})
            for row in done:
                tp = TopicPartition(row["Topic"], row["Partition"])
                is_done = row["ErrorCode"] is ErrorCode.NONE
                if is_done and not self.reached(tp, committed[tp].offset):
                    raise Violated(f"AnswersHold: {tp} never was at {committed[tp]}")

    def reached(self, tp: TopicPartition, offset: int) -> bool:
        """The log once had this position."""
        states = [group.partitions.get(tp) for group in self.groups()]
        return any(each is not None and each.position >= offset for each in states)

    def check_position(self, offset: int) -> None:
        """Who begins to read at a claim's position knows what the others know."""
        first = self.log[offset]
        if not isinstance(first.event, ControllershipSnapshot):
            raise Violated(f"BeginsInTheMiddle: {first} is no snapshot")
        known = begun_at(first, first.event)
        for record in self.log[offset + 1 :]:
            known = step(known, record).controllership
        if known != self.latest:
            raise Violated(f"BeginsInTheMiddle: {known} and not {self.latest}")

    def check_rest(self) -> None:
        """At rest: whatever is wanted is owned, and held by its owner, under its tenure."""
        group = self.group
        alive = [each for each in self.members if each.is_alive]
        if group is None:
            raise Violated("RebalanceEnds: the group is gone")
        for tp, each in group.partitions.items():
            holders = [member.name for member in alive if tp in member.holds]
            if alive and holders != [each.owner]:
                raise Violated(f"RebalanceEnds: {tp} is {each.owner}'s, and {holders} hold it")
            if any(each.tenure != by.at[tp].tenure for by in alive if tp in by.holds):
                raise Violated(f"HeldTenureWasGiven: {tp} is another tenure's")
        if {each.name for each in alive} != {*group.members}:
            raise Violated(f"DeadMemberReplaced: {sorted(group.members)} are members")
        if {*self.topics.items()} != {*group.topics.items()}:
            raise Violated(f"NewPartitionOwned: {group.topics}")
