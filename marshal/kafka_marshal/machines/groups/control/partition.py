"""The controller of one partition: it turns requests into events.

Requests are decided from the state after all pending events. `answering` decides what is answered,
and when. This module knows no bytes and no other partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.events import (
    At,
    Event,
    EventRecord,
    GroupDeleted,
    MemberExpired,
    MemberLeft,
    PartitionsRewound,
    Reconciled,
)
from kafka_marshal.core.groups.guards import position_verdict
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import Group, Topic, TopicPartition
from kafka_marshal.core.groups.verdicts import GroupAccepted, OfAPosition
from kafka_marshal.core.values import evolved
from kafka_marshal.machines.groups.control import bodies
from kafka_marshal.machines.groups.control.answering import Answering
from kafka_marshal.machines.groups.control.bodies import BadRequest, expect
from kafka_marshal.machines.groups.control.controlled_log import ControlledLog, LogKnowledge
from kafka_marshal.machines.groups.control.housekeeping import Housekeeping, members_of
from kafka_marshal.machines.groups.control.sessions import Sessions
from kafka_marshal.machines.groups.control.waiting import (
    Carried,
    Connection,
    Connections,
    Deletion,
    Wait,
)
from kafka_marshal.machines.groups.controller import (
    COMMITS_AS_OF,
    MemberKey,
    Registration,
    events_of_request,
    is_fresh,
    is_void,
    taken,
)
from kafka_marshal.machines.groups.effects import ResolveOffsets
from kafka_marshal.rpc.codec import RpcRequest
from kafka_marshal.rpc.error_codes import ErrorCode

MEMBERS_MAX: Final = 1_000
"""How many members a group has at most."""
WAIT_SHARE: Final = 3
"""A Heartbeat is parked for at most this part of a session timeout."""
EARLIEST: Final = -2
"""As an offset of a rewind: the earliest; -1 is the latest. Both are looked up."""
LOOK_UP_MS: Final = 10_000
"""How long the answer to a question about topics may take."""
ACCEPT_TICKS: Final = 2
"""For this many ticks after its start, the controller treats connections as older than itself: the
program may accept a connection long after it was made."""
OF_A_POSITION: Final[Mapping[OfAPosition, ErrorCode]] = {
    OfAPosition.UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    OfAPosition.NOT_OWNER: ErrorCode.ILLEGAL_GENERATION,
    OfAPosition.OTHER_TENURE: ErrorCode.ILLEGAL_GENERATION,
    OfAPosition.NOT_AHEAD: ErrorCode.NONE,
    OfAPosition.COMMITTED: ErrorCode.NONE,
}
"""A copy of a commit is answered as done (G8)."""


@define(eq=False)
class PartitionController:
    """Of one partition, also while it is another process that controls it."""

    log: ControlledLog
    connections: Connections
    sessions: Sessions
    housekeeping: Housekeeping
    answering: Answering
    _given_up: dict[MemberKey, int] = field(factory=dict)
    """Of members that left or expired, the latest connection that there was then."""
    _carried: Carried = field(factory=Carried)
    _from_before: int = 0
    """The latest connection that may be older than the start, or than the remembered ones."""
    _ticks_left: int = 0
    _creating: list[Wait] = field(factory=list)
    """Groups to create, whose topics are being counted."""
    _resolving: dict[int, Wait] = field(factory=dict)
    """Rewinds whose offsets are being looked up, by the number of the question."""
    _questions: Iterator[int] = field(factory=partial(count, 1))

    # --- the log ----------------------------------------------------------------------------------

    def begins(self, offset: int, *, at_position: bool) -> None:
        """Reading begins, perhaps again."""
        was_serving = self.log.serves
        self.log.begin(offset, at_position=at_position)
        if was_serving:
            self._stopped()

    def read(self, record: EventRecord, now_ms: int) -> None:
        """Fold a record, and carry out what follows from it. Spec: Read."""
        was_serving = self.log.serves
        outcome = self.log.read(record, now_ms)
        if was_serving and not self.log.serves:
            self._stopped()
        elif not was_serving and self.log.serves:
            self._started(now_ms)
        elif was_serving and outcome is not None and isinstance(outcome.verdict, GroupAccepted):
            self._folded(record, outcome)

    def _folded(self, record: EventRecord, outcome: GroupOutcome) -> None:
        self.housekeeping.read(record, outcome)
        if isinstance(record.event, MemberExpired | MemberLeft):
            key = MemberKey(record.group, record.event.member)
            self._given_up[key] = self.connections.latest
            self._carried.gone(key)
        if record.group:
            self.answering.changed(record.group)

    def _started(self, now_ms: int) -> None:
        """Its own start was read back: it serves. Connections from before count for nothing."""
        groups = dict(self.log.view.groups)
        self.sessions.restart(members_of(groups))
        self.housekeeping.restart(now_ms)
        self.answering.holdings, self._given_up = {}, {}
        self._ticks_left, self._from_before = ACCEPT_TICKS, self.connections.latest
        for name in groups:
            self.answering.changed(name)

    def _stopped(self) -> None:
        """It is the controller no longer: answer the waiting requests with an error code.

        It is unknown whether the events that it sent will land.
        """
        waits = [*self.answering.all(), *self._creating, *self._resolving.values()]
        self.answering.waits, self.answering.parked = [], {}
        self._creating, self._resolving = [], {}
        self._carried.clear()
        for wait in waits:
            is_open = wait.has_events
            code = ErrorCode.REQUEST_TIMED_OUT if is_open else ErrorCode.NOT_COORDINATOR
            wait.closes = False
            self.answering.refuse(wait, code)

    # --- claims -----------------------------------------------------------------------------------

    def unclaimed(self) -> None:
        """It may not compete."""
        was_serving = self.log.serves
        self.log.unclaimed()
        if was_serving:
            self._stopped()

    def append_failed(self, record: EventRecord, now_ms: int) -> None:
        """An event may be lost, so its decisions are uncertain: read again from the start."""
        was_serving = self.log.serves
        self.log.append_failed(record, now_ms)
        if was_serving and not self.log.serves:
            self._stopped()

    # --- requests ---------------------------------------------------------------------------------

    @property
    def absence(self) -> ErrorCode:
        """Why requests are not taken here; NONE: they are."""
        if self.log.serves:
            return ErrorCode.NONE
        if self.is_loading:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        known, me = self.log.view.controller_id, self.log.config.controller_id
        if known in (None, me) or self.log.knowledge is LogKnowledge.LOST:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.NOT_COORDINATOR

    @property
    def is_loading(self) -> bool:
        """It has not come to the end that there was when it began to read."""
        return self.log.knowledge in (LogKnowledge.NOTHING, LogKnowledge.SOME)

    @property
    def listed_as(self) -> ErrorCode:
        """The code by which ListGroups describes its groups: it may know them no more."""
        is_lost = self.log.knowledge is LogKnowledge.LOST
        return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_lost else ErrorCode.NONE

    def requested(
        self,
        connection: Connection,
        request: RpcRequest,
        key: MemberKey,
        deletion: Deletion | None = None,
    ) -> None:
        """Take a request of a group of this partition; `key` names group and member."""
        wait = Wait(connection, request, key, deletion=deletion)
        self.connections.took(wait)
        if not self.log.serves:
            self.answering.refuse(wait, self.absence)
            return
        try:
            expect(bodies.is_name(key.group), ErrorCode.INVALID_GROUP_ID)
            self._take(wait)
        except BadRequest as error:
            wait.code = error.code
            self.answering.wait(wait)

    def _take(self, wait: Wait) -> None:
        take = {
            "RegisterConsumer": self._register,
            "Heartbeat": self._heartbeat,
            "CommitOffsets": self._commit,
            "DeregisterConsumer": self._deregister,
            "RewindConsumer": self._rewind,
            "CreateGroup": self._create,
            "DeleteGroup": self._delete,
        }
        take[wait.request.api.name](wait)

    def _decide(self, wait: Wait, event: Event) -> None:
        """Send an event of a request.

        Raises:
            BadRequest: it is larger than the log takes, or the group would become so.
        """
        code = self.log.decide(wait.key.group, event)
        expect(code is ErrorCode.NONE, code)
        wait.has_events = True

    def _group(self, name: str) -> Group:
        """The group as it will be.

        Raises:
            BadRequest: there is none.
        """
        group = self.log.ahead.groups.get(name)
        if group is None:
            raise BadRequest(ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def _member_of(self, wait: Wait) -> Group:
        """The group, of a request of one of its members.

        Raises:
            BadRequest: there is no such group or member, or the member has connected again.
        """
        group = self._group(wait.key.group)
        if is_void(self.log.c, wait.key, wait.connection.number):
            self._close(wait, ErrorCode.FENCED_INSTANCE_ID)
        if wait.key.member not in group.members:
            self._close_given_up(wait)
            raise BadRequest(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _close(self, wait: Wait, code: ErrorCode) -> None:
        """Answer this, and then close the connection, if it serves no other member."""
        wait.closes = wait.connection.carries_only(wait.key)
        raise BadRequest(code)

    def _close_given_up(self, wait: Wait) -> None:
        """An id that left or expired comes back over a connection that is newer than that."""
        if wait.connection.number <= self._given_up.get(wait.key, 0):
            self._close(wait, ErrorCode.UNKNOWN_MEMBER_ID)

    # --- members ----------------------------------------------------------------------------------

    def _register(self, wait: Wait) -> None:
        """Spec: Receive."""
        connection, key = wait.connection, wait.key
        group = self._group(key.group)
        expect(bodies.is_name(key.member))
        if key in connection.registering:
            self._close(wait, ErrorCode.INVALID_REQUEST)
        request = self._request(wait, group)
        # "I hold nothing" is true only of when it was sent.
        holds_nothing = wait.request.version == 0 or is_fresh(request)
        if holds_nothing and (self._ticks_left or connection.number <= self._from_before):
            self._close(wait, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if is_void(self.log.c, key, request.connection):
            self._close(wait, ErrorCode.FENCED_INSTANCE_ID)
        if not is_fresh(request):
            self._member_of(wait)
        else:
            self._close_given_up(wait)
            is_full = key.member not in group.members and len(group.members) >= MEMBERS_MAX
            expect(not is_full, ErrorCode.GROUP_MAX_SIZE_REACHED)
            self._void_older(key, connection)
            self.log.c = taken(self.log.c, key, request.connection)
            self._given_up.pop(key, None)
        for event in events_of_request(group, request):
            self._decide(wait, event)
        self._carried.registers(key, connection)
        connection.registering.add(key)
        wait.registers = True
        self.answering.wait(wait, prolongs=True)
        if request.topics is not None:
            self.housekeeping.ask_new(request.topics | {tp.topic for tp in request.static}, group)

    def _request(self, wait: Wait, group: Group) -> Registration:
        """The requested registration. Version 0 means "I hold nothing", at the current state."""
        connection, request = wait.connection, wait.request
        if request.version > 0:
            return bodies.register_request(request, connection.number)
        expect(connection.key in (None, wait.key))
        client, topics = bodies.client_id(request), frozenset(group.topics)
        is_first = connection.key is None or wait.key.member not in group.members
        folded = self.log.view.groups.get(wait.key.group, group).generation
        connection.key = wait.key
        return Registration(
            wait.key.member,
            connection.number,
            as_of=None if is_first else folded,
            client_id=client,
            topics=topics if is_first else None,
        )

    def _void_older(self, key: MemberKey, connection: Connection) -> None:
        """The member has connected again, so it gets no answers on its earlier connection."""
        for wait in self.answering.all():
            if wait.key == key and wait.connection.number < connection.number:
                self.answering.drop(wait)
                wait.closes = wait.connection.carries_only(key)
                self.answering.refuse(wait, ErrorCode.FENCED_INSTANCE_ID)

    def _heartbeat(self, wait: Wait) -> None:
        group = self._member_of(wait)
        if wait.request.version > 0:
            longest = group.session_timeout_ms // WAIT_SHARE
            wait_ms = max(0, min(bodies.number(wait.request, "MaxWaitMs"), longest))
            wait.deadline_ms = self.sessions.clock.now_ms + wait_ms
        self.answering.wait(wait, prolongs=True)

    def _commit(self, wait: Wait) -> None:
        group = self._member_of(wait)
        if wait.request.version > 0:
            positions = bodies.positions(bodies.rows(wait.request, "PositionsV1"))
        else:
            offsets = bodies.offsets(bodies.rows(wait.request, "Positions"))
            told = wait.connection.tenures
            expect(all(offset >= 0 for offset in offsets.values()))
            positions = {tp: At(told.get(tp, 0), offset) for tp, offset in offsets.items()}
        self._decide_commit(wait, group, positions)
        self.answering.wait(wait, prolongs=True)

    def _decide_commit(
        self, wait: Wait, group: Group, positions: Mapping[TopicPartition, At]
    ) -> None:
        """Commit the valid positions. A commit releases nothing."""
        event = Reconciled(wait.key.member, COMMITS_AS_OF, None, positions)
        verdicts = {tp: position_verdict(group, event, tp) for tp in positions}
        wait.codes = {tp: OF_A_POSITION[verdict] for tp, verdict in verdicts.items()}
        if OfAPosition.COMMITTED in verdicts.values():
            self._decide(wait, event)

    def _deregister(self, wait: Wait) -> None:
        group = self._member_of(wait)
        positions = bodies.positions(bodies.rows(wait.request, "Positions"))
        self._decide_commit(wait, group, positions)
        self._decide(wait, MemberLeft(wait.key.member, "left"))
        self.housekeeping.gone(wait.key)
        self.answering.wait(wait)

    # --- groups -----------------------------------------------------------------------------------

    def _rewind(self, wait: Wait) -> None:
        group = self._group(wait.key.group)
        offsets = self._rewound(wait, group)
        asked = {tp: offset for tp, offset in offsets.items() if offset < 0}
        if not asked:
            self._decide_rewind(wait, offsets)
            return
        question = next(self._questions)
        wait.deadline_ms = self.sessions.clock.now_ms + LOOK_UP_MS
        self._resolving[question] = wait
        self.log.out.append(ResolveOffsets(self.log.partition, question, asked))

    def _rewound(self, wait: Wait, group: Group) -> dict[TopicPartition, int]:
        """Where partitions are to be set.

        Raises:
            BadRequest: the group does not have one, or has no such offset.
        """
        name, least = ("NewOffsetsV1", EARLIEST) if wait.request.version else ("NewOffsets", 0)
        offsets = bodies.offsets(bodies.rows(wait.request, name))
        expect(offsets.keys() <= group.partitions.keys(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        expect(all(offset >= least for offset in offsets.values()), ErrorCode.OFFSET_OUT_OF_RANGE)
        return offsets

    def resolved(self, token: int, found: Mapping[TopicPartition, int]) -> None:
        """Offsets of a rewind were looked up."""
        wait = self._resolving.pop(token, None)
        if wait is None:
            return
        try:
            offsets = self._rewound(wait, self._group(wait.key.group))
            offsets = {tp: found.get(tp, at) for tp, at in offsets.items()}
            expect(min(offsets.values()) >= 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._decide_rewind(wait, offsets)
        except BadRequest as error:
            wait.code = error.code
            self.answering.wait(wait)

    def _decide_rewind(self, wait: Wait, offsets: dict[TopicPartition, int]) -> None:
        if offsets:
            by = bodies.client_id(wait.request)
            self._decide(wait, PartitionsRewound(offsets, by))
        wait.rewound = offsets
        self.answering.wait(wait)

    def _create(self, wait: Wait) -> None:
        """A group is created once its topics are counted."""
        bodies.expect_settings(wait.request)
        if wait.key.group in self.log.ahead.groups:
            self._decide_creation(wait)
            return
        wait.deadline_ms = self.sessions.clock.now_ms + LOOK_UP_MS
        self._creating.append(wait)
        self.housekeeping.ask_counts(frozenset(bodies.texts(wait.request, "Topics")))
        self._create_counted()

    def counted(self, topic: str, now: Topic, now_ms: int) -> None:
        """The cluster's answer: how many partitions a topic has."""
        if not self.log.serves:
            return
        self.housekeeping.counted(topic, now, now_ms)
        for wait in self._creating:
            wait.counts[topic] = now
        self._create_counted()

    def _create_counted(self) -> None:
        """Create the groups whose topics are all counted now."""
        waiting, self._creating = self._creating, []
        for wait in waiting:
            if wait.counts.keys() >= {*bodies.texts(wait.request, "Topics")}:
                self._decide_creation(wait)
            else:
                self._creating.append(wait)

    def _decide_creation(self, wait: Wait) -> None:
        """Create a group, unless it was created meanwhile."""
        known = self.log.ahead.groups.get(wait.key.group)
        try:
            if known is None:
                self._decide(wait, bodies.created(wait.request, wait.counts))
            else:
                is_same = bodies.is_same(wait.request, known)
                expect(is_same, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        except BadRequest as error:
            wait.code = error.code
        self.answering.wait(wait)

    def _delete(self, wait: Wait) -> None:
        expect(not self._group(wait.key.group).members, ErrorCode.NON_EMPTY_GROUP)
        self._decide(wait, GroupDeleted())
        self.answering.wait(wait)

    # --- answers ----------------------------------------------------------------------------------

    def flush(self, now_ms: int) -> None:
        """Send ready answers, compete, and query the broker if any request waits for that."""
        if self.log.serves:
            self.answering.answer_ready()
        self.log.compete(now_ms)
        self.log.ask(now_ms)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int, *, gives_up: bool) -> None:
        """Do what is due. After a pause of the process no member expires at once (G4)."""
        if not self.log.serves:
            return
        if self._ticks_left:
            self._ticks_left -= 1
            self._from_before = self.connections.latest
        if gives_up:
            self.housekeeping.give_up()
        self.housekeeping.tick(now_ms)
        self._end_waits(now_ms)
        self._forget_connections()

    def _end_waits(self, now_ms: int) -> None:
        """End the waits of heartbeats after their time, and of queries without an answer."""
        self.answering.end_parked(now_ms)
        waits = [*self._creating, *self._resolving.values()]
        late = [wait for wait in waits if now_ms >= wait.deadline_ms]
        for wait in late:
            wait.code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.answering.wait(wait)
        self._creating = [wait for wait in self._creating if wait not in late]
        self._resolving = {t: wait for t, wait in self._resolving.items() if wait not in late}

    def _forget_connections(self) -> None:
        """Remember the connections of about as many members as there may be."""
        if len(self._given_up) > MEMBERS_MAX:
            self._given_up = self._latest_of(self._given_up)
        if len(self.log.c.newest) > 2 * MEMBERS_MAX:
            self.log.c = evolved(self.log.c, newest=self._latest_of(self.log.c.newest))

    def _latest_of(self, known: Mapping[MemberKey, int]) -> dict[MemberKey, int]:
        """The latest half. Over an earlier connection no member may begin without memory."""
        last = sorted(known.values())[len(known) // 2]
        self._from_before = max(self._from_before, last)
        return {key: connection for key, connection in known.items() if connection > last}
