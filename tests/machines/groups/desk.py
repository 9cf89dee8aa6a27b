"""Servers of groups in the hands of a test: nothing lands or is read unless it says so.

`settled` lets everything come about that is under way. Nothing else passes time but `pass_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import evolve

from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import Controllership, Group, Topic, TopicPartition
from kafka_marshal.core.groups.verdicts import Verdict
from kafka_marshal.group_codec.records import encode_record
from kafka_marshal.machines.groups import effects
from kafka_marshal.machines.groups.server import GroupServer, ServerSettings
from kafka_marshal.rpc.codec import BY_NAME, RpcAnswer, RpcRequest, encode_answer
from kafka_marshal.rpc.error_codes import ErrorCode

GROUP, SESSION_MS = "g", 3_000


class Desk:
    """A log of one partition, and servers at it, numbered from 0."""

    def __init__(self, servers: int = 1, **settings: Any) -> None:
        self.settings = settings
        self.log: list[EventRecord] = []
        self.verdicts: list[Verdict] = []
        self.state = Controllership()
        self.now_ms = 1_000
        self.topics = {"t": Topic(2, "first")}
        self.servers: list[GroupServer] = []
        self.unread: list[int] = []
        self.sent: list[list[EventRecord]] = []
        self.questions: list[list[int]] = []
        self.looks: list[tuple[int, effects.CountPartitions | effects.ResolveOffsets]] = []
        self.requests: dict[int, tuple[int, RpcRequest]] = {}
        """What was asked and is not answered, and over which connection."""
        self.answers: dict[int, RpcAnswer] = {}
        self.closed: dict[int, str] = {}
        """Connections that servers closed, and why."""
        self.forwarded: list[effects.ForwardRequest] = []
        self.positions: list[int] = []
        self.too_large: list[tuple[type[object], int]] = []
        self._asked = 0
        self._connections = 0
        for _ in range(servers):
            self.start()

    def start(self, begin: int = 0, *, at_position: bool = False, **settings: Any) -> int:
        """One more server, which reads from here."""
        number = len(self.servers)
        settings = {"partitions": 1, **self.settings, **settings}
        mine = ServerSettings(number, f"host{number}", 9, **settings)
        self.servers.append(GroupServer(mine))
        self.unread.append(begin)
        self.sent.append([])
        self.questions.append([])
        self.do(number, self.servers[number].begins(0, begin, self.now_ms, at_position=at_position))
        return number

    def serve(self, number: int = 0) -> Desk:
        """Have a server claim the partition, and win it."""
        self.do(number, self.servers[number].claimed(0, self.now_ms))
        self.settled()
        assert self.servers[number].serves(0)
        return self.pass_ms(200, number)

    # --- what comes about -------------------------------------------------------------------------

    def do(self, number: int, asked: Iterable[effects.Effect]) -> None:
        """Take down what a server asks for."""
        for effect in asked:
            match effect:
                case effects.AppendEvent(record):
                    assert record.offset == record.timestamp_ms == effects.NOT_APPENDED
                    assert record.partition == 0
                    assert encode_record(record)
                    self.sent[number].append(record)
                case effects.ReportTooLarge(record, size_bytes):
                    self.too_large.append((type(record.event), size_bytes))
                case effects.AskEnd(0, token):
                    self.questions[number].append(token)
                case effects.SendAnswer(connection, answer):
                    asked_over, request = self.requests.pop(answer.correlation_id)
                    assert connection == asked_over
                    assert (answer.api, answer.version) == (request.api, request.version)
                    assert encode_answer(answer)
                    self.answers[answer.correlation_id] = answer
                case effects.CloseConnection(connection, why):
                    assert why
                    self.closed[connection] = why
                case effects.CountPartitions(0) | effects.ResolveOffsets(0):
                    self.looks.append((number, effect))
                case effects.ForwardRequest():
                    self.forwarded.append(effect)
                case effects.MovePosition(0, offset):
                    self.positions.append(offset)
                case other:
                    raise AssertionError(other)

    def land(self, number: int = 0) -> None:
        """What a server sent gets into the log."""
        sent, self.sent[number] = self.sent[number], []
        for record in sent:
            self.append(record)

    def append(self, record: EventRecord) -> Verdict:
        """A record gets into the log."""
        outcome = step(self.state, record)
        self.log.append(evolve(record, offset=len(self.log)))
        self.state = step(self.state, self.log[-1]).controllership
        self.verdicts.append(outcome.verdict)
        return outcome.verdict

    def read(self, number: int = 0) -> None:
        """A server reads all that there is."""
        self.read_next(number, len(self.log))

    def read_next(self, number: int, records: int) -> None:
        """A server reads this many records."""
        for record in self.log[self.unread[number] :][:records]:
            self.unread[number] += 1
            self.do(number, self.servers[number].read(record, self.now_ms))

    def confirm(self, number: int = 0) -> None:
        """The broker says where the log ends."""
        asked, self.questions[number] = self.questions[number], []
        for token in asked:
            end = len(self.log)
            self.do(number, self.servers[number].end_is(0, token, end, self.now_ms))

    def look(self) -> None:
        """The cluster says what its topics are."""
        looks, self.looks = self.looks, []
        for number, effect in looks:
            server = self.servers[number]
            if isinstance(effect, effects.ResolveOffsets):
                found = {tp: 100 if at == -1 else 7 for tp, at in effect.offsets.items()}
                self.do(number, server.resolved(0, effect.token, found, self.now_ms))
                continue
            for name in sorted(effect.topics):
                topic = self.topics.get(name, Topic(0, ""))
                counted = server.counted(0, name, topic.topic_id, topic.count, self.now_ms)
                self.do(number, counted)

    def settled(self, *numbers: int) -> Desk:
        """Everything comes about that is under way, at all servers or at these."""
        which = numbers or range(len(self.servers))
        while any(self.sent[n] or self.questions[n] for n in which) or self.looks:
            self.look()
            for number in which:
                self.land(number)
            for number in which:
                self.read(number)
                self.confirm(number)
        for number in which:
            self.read(number)
        return self

    def tick(self, number: int = 0) -> None:
        """A server looks at its clock."""
        self.do(number, self.servers[number].tick(self.now_ms))

    def pass_ms(self, for_ms: int, *numbers: int) -> Desk:
        """Time passes, and servers look at their clocks; everything comes about."""
        which = numbers or range(len(self.servers))
        end_ms = self.now_ms + for_ms
        while self.now_ms < end_ms:
            self.now_ms = min(self.now_ms + 100, end_ms)
            for number in which:
                self.tick(number)
            self.settled(*which)
        return self

    # --- members ----------------------------------------------------------------------------------

    def connect(self, number: int = 0) -> int:
        """A connection to a server."""
        self._connections += 1
        self.do(number, self.servers[number].connected(self._connections, self.now_ms))
        return self._connections

    def ask(
        self, name: str, connection: int, server: int = 0, version: int = 1, **body: Any
    ) -> int:
        """A request comes; its CorrelationId."""
        self._asked += 1
        whole: Any = {each.name: body.pop(each.name, None) for each in BY_NAME[name].request}
        for each in BY_NAME[name].request:
            if each.since > version:
                del whole[each.name]
            elif whole[each.name] is None:
                whole[each.name] = DEFAULTS.get(each.name, 0)
        assert not body, body
        request = RpcRequest(BY_NAME[name], version, self._asked, "client", whole)
        self.requests[self._asked] = connection, request
        self.do(server, self.servers[server].requested(connection, request, self.now_ms))
        return self._asked

    def code(self, asked: int) -> ErrorCode | None:
        """What a request was answered; None: not yet."""
        answer = self.answers.get(asked)
        return None if answer is None else answer.code

    def told(self, name: str, connection: int, server: int = 0, **body: Any) -> Any:
        """The body of the answer to a request, once everything has come about."""
        asked = self.ask(name, connection, server, **body)
        self.settled()
        return self.answers[asked].body

    def create(self, server: int = 0, **body: Any) -> Desk:
        """Create the group."""
        told = self.told("CreateGroup", self.connect(server), server, **body)
        assert told["ErrorCode"] is ErrorCode.NONE
        return self

    def join(self, name: str, server: int = 0) -> tuple[int, int]:
        """A new member joins: its connection, and its generation."""
        connection = self.connect(server)
        told = self.told("RegisterConsumer", connection, server, ConsumerId=name, Generation=-1)
        assert told["ErrorCode"] is ErrorCode.NONE
        return connection, told["Generation"]

    @property
    def group(self) -> Group:
        """The group, by the log."""
        return self.state.groups[GROUP]

    def owned(self) -> dict[str, list[int]]:
        """Which partitions of the topic each member owns, by the log."""
        owned: dict[str, list[int]] = {}
        for tp, each in sorted(self.group.partitions.items()):
            if each.owner is not None:
                owned.setdefault(each.owner, []).append(tp.partition)
        return owned


DEFAULTS: Any = {
    "ConsumerGroup": GROUP,
    "ConsumerGroups": [],
    "ConsumerId": "m1",
    "SessionTimeout": SESSION_MS,
    "Topics": ["t"],
    "Static": [],
    "Held": [],
    "Positions": [],
    "PositionsV1": [],
    "NewOffsets": [],
    "NewOffsetsV1": [],
    "Rebalance": "incremental",
    "Strategy": "sticky",
}


def held(*partitions: int, topic: str = "t") -> list[dict[str, Any]]:
    """Partitions, as a request names them."""
    return [{"Topic": topic, "Partition": each} for each in partitions]


def at(**positions: tuple[int, int]) -> list[dict[str, Any]]:
    """Tenure and offset of partitions `t0`, `t1`, as a request says them."""
    return [
        {"Topic": name[0], "Partition": int(name[1:]), "Offset": offset, "Tenure": tenure}
        for name, (tenure, offset) in positions.items()
    ]


def place(partition: int) -> TopicPartition:
    """A partition of the topic."""
    return TopicPartition("t", partition)
