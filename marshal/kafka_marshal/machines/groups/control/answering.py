"""Requests that the controller accepted, and their answers.

An answer is made from records that were read back, once all events on which its decision was based
have landed (G2). If it prolongs a session, it waits until this process is confirmed as the current
controller (G3). This module decides nothing.
"""

from __future__ import annotations

from attrs import define, field

from kafka_marshal.core.groups.state import Group
from kafka_marshal.machines.groups.control import bodies
from kafka_marshal.machines.groups.control.controlled_log import ControlledLog
from kafka_marshal.machines.groups.control.holdings import Holdings, holdings_of
from kafka_marshal.machines.groups.control.sessions import Sessions
from kafka_marshal.machines.groups.control.waiting import Connection, Connections, Wait
from kafka_marshal.machines.groups.controller import MemberKey, has_landed, is_confirmed, needs
from kafka_marshal.rpc.codec import RpcAnswer
from kafka_marshal.rpc.error_codes import ErrorCode


@define(eq=False)
class Answering:
    """The requests of one partition that wait for an answer."""

    log: ControlledLog
    connections: Connections
    sessions: Sessions
    waits: list[Wait] = field(factory=list)
    parked: dict[str, list[Wait]] = field(factory=dict)
    """Heartbeats that are answered when something changes, by group."""
    holdings: dict[str, Holdings] = field(factory=dict)

    def wait(self, wait: Wait, *, prolongs: bool = False) -> None:
        """Answer when everything that was sent so far has landed.

        G3: an answer that prolongs a session is confirmed, by an event of its own or by the end of
        the log.
        """
        wait.needs = needs(self.log.c, self.log.view)
        if prolongs:
            wait.came_ms = self.sessions.clock.listened_ms
            if not self.is_muted(wait.key):
                self.sessions.heard(wait.key, wait.came_ms)
            wait.token = 0 if wait.has_events else self.log.confirmation()
        self.waits.append(wait)

    def changed(self, name: str) -> None:
        """A group is another, and perhaps of a new generation."""
        group = self.log.view.groups.get(name)
        known = self.holdings.get(name)
        if group is None:
            self.holdings.pop(name, None)
        elif known is not None and known.generation == group.generation:
            return
        else:
            self.holdings[name] = holdings_of(group)
            self.sessions.owing(name, dict(self.holdings[name].owed))
        self.waits += self.parked.pop(name, [])

    def all(self) -> list[Wait]:
        """Everything that waits."""
        return [*self.waits, *(wait for parked in self.parked.values() for wait in parked)]

    def drop(self, wait: Wait) -> None:
        """It waits no more."""
        for waits in (self.waits, self.parked.get(wait.key.group, [])):
            if wait in waits:
                waits.remove(wait)

    def answer_ready(self) -> None:
        """Send all answers that are ready."""
        waits, self.waits = self.waits, []
        for wait in waits:
            if self.is_ready(wait):
                self._answer(wait)
            else:
                self.waits.append(wait)

    def end_parked(self, now_ms: int) -> None:
        """Answer Heartbeats that have waited long enough."""
        for name, parked in self.parked.items():
            self.waits += [wait for wait in parked if now_ms >= wait.deadline_ms]
            self.parked[name] = [wait for wait in parked if now_ms < wait.deadline_ms]

    def is_ready(self, wait: Wait) -> bool:
        """G2, G3."""
        is_landed = has_landed(self.log.view, wait.needs)
        return is_landed and is_confirmed(self.log.confirmed, wait.token)

    def _answer(self, wait: Wait) -> None:
        """Spec: Answer, AnswersFrom."""
        if wait.code is not ErrorCode.NONE or wait.deletion is not None:
            self.refuse(wait, wait.code)
            return
        name = wait.request.api.name
        if name == "CreateGroup":
            self.reply(wait, bodies.create_answer(wait.request, self.log.view))
        elif name == "RewindConsumer":
            self.reply(wait, bodies.rewind_answer(wait.request, wait.rewound))
        elif name == "DeregisterConsumer":
            self.reply(wait, bodies.answered(wait.request, ErrorCode=ErrorCode.NONE))
        else:
            self._answer_member(wait)

    def _answer_member(self, wait: Wait) -> None:
        """An answer that prolongs a session, unless the member is given up."""
        name, member = wait.key
        group, to_be = self.log.view.groups.get(name), self.log.ahead.groups.get(name)
        if group is None:
            self.refuse(wait, ErrorCode.GROUP_ID_NOT_FOUND)
        elif member not in group.members:
            wait.closes = wait.connection.carries_only(wait.key)
            self.refuse(wait, ErrorCode.UNKNOWN_MEMBER_ID)
        elif to_be is None or member not in to_be.members or self.is_muted(wait.key):
            self.waits.append(wait)  # G3: its end is on its way, or comes near
        else:
            self._answer_living(wait, group)

    def _answer_living(self, wait: Wait, group: Group) -> None:
        """The answer prolongs the session, for the member and here: also of one that was muted."""
        self.sessions.heard(wait.key, wait.came_ms)
        if wait.request.api.name == "Heartbeat":
            self._answer_heartbeat(wait, group)
            wait.connection.is_of_member = True
        elif wait.request.api.name == "CommitOffsets":
            self.reply(wait, bodies.commit_answer(wait.request, group, wait.codes))
        else:
            self._answer_register(wait, group)

    def is_muted(self, key: MemberKey) -> bool:
        """Whether a member gets no answers until it has released what it must (G10)."""
        group = self.log.view.groups.get(key.group)
        return group is not None and self.sessions.is_muted(key, group.session_timeout_ms)

    def _answer_heartbeat(self, wait: Wait, group: Group) -> None:
        """Answer 27 (REBALANCE_IN_PROGRESS) if the member must learn or release something.

        A member may have to release a partition before it learned that it owns it, and so never
        held it. It can report that only for a generation that it learns by registering again.

        The first heartbeat of a connection is answered at once. Until then the connection counts
        as one without a known member, and a host may have only a few of them.
        """
        is_wide, holdings = wait.request.version > 0, self.holdings[wait.key.group]
        known = bodies.number(wait.request, "Generation") if is_wide else wait.connection.generation
        member = wait.key.member
        if holdings.must_register(member, known) or member in holdings.owed:
            answer = bodies.heartbeat_answer(wait.request, group, ErrorCode.REBALANCE_IN_PROGRESS)
            self.reply(wait, answer)
        elif self.sessions.clock.now_ms < wait.deadline_ms and wait.connection.is_of_member:
            self.parked.setdefault(wait.key.group, []).append(wait)
        else:
            self.reply(wait, bodies.heartbeat_answer(wait.request, group, ErrorCode.NONE))

    def _answer_register(self, wait: Wait, group: Group) -> None:
        own = self.holdings[wait.key.group].to_own.get(wait.key.member, [])
        if wait.request.version == 0:
            wait.connection.generation = group.generation
            wait.connection.tenures = {tp: group.partitions[tp].tenure for tp in own}
        wait.connection.is_of_member = True
        self.reply(wait, bodies.register_answer(wait.request, group, own))

    def reply(self, wait: Wait, answer: RpcAnswer) -> None:
        """Answer."""
        self.connections.answer(wait, answer)

    def refuse(self, wait: Wait, code: ErrorCode) -> None:
        """Answer nothing but a code."""
        self.connections.refuse(wait, code)

    def disconnected(self, connection: Connection) -> None:
        """Nobody waits over it any more."""
        self.waits = [each for each in self.waits if each.connection is not connection]
        for name, parked in self.parked.items():
            self.parked[name] = [each for each in parked if each.connection is not connection]
