"""`GroupWorld.tla`: everything that can follow a state, by the shipped machines of groups.

The reducer folds the log, `controller` decides, and `group_member` obeys. What is here is the world
between them: records, requests and answers on their way, and time. There is a state for every way
to take an action, as TLC counts. What a machine makes of one input is worked out once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import product
from typing import Any

from kafka_marshal.core.groups.events import (
    At,
    Event,
    EventRecord,
    MemberExpired,
    PartitionsRewound,
    Rebalanced,
)
from kafka_marshal.core.groups.state import (
    Group,
    TargetOf,
    is_due,
    partitions_of,
    wanted,
    wishes,
)
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.core.values import evolved
from kafka_marshal.machines.groups import controller, group_member
from kafka_marshal.machines.groups.control.holdings import holdings_of
from kafka_marshal.machines.groups.controller import ControllerState, MemberKey, Registration
from kafka_marshal.machines.groups.effects import NOT_APPENDED
from kafka_marshal.machines.groups.group_member import GroupMemberState, MemberAnswer
from model_tests.explorer.groups import world
from model_tests.explorer.groups.parts import (
    Answer,
    Clock,
    Controller,
    GroupsState,
    Log,
    Member,
    Process,
    Request,
    Sent,
    Spent,
    Wait,
)
from model_tests.explorer.groups.world import GROUP, WorldOfGroups


class EnvironmentOfGroups:
    """The actions of one world, by the names of `GroupWorld.tla`."""

    def __init__(self, given: WorldOfGroups) -> None:
        """Its bounds."""
        self.world = given
        self._number_of = {member: at for at, member in enumerate(given.members)}
        self._memo: dict[Hashable, Any] = {}

    # --- where it begins --------------------------------------------------------------------------

    def initial(self) -> GroupsState:
        """Spec: Init."""
        given = self.world
        log = Log(None, None)
        for record in given.beginning:
            log = log.with_record(Sent.of(record))
        told = world.group_at(given.beginning, given.told_after)
        newest = {MemberKey(GROUP, member): 1 for member in told.members}
        first = Controller.of(ControllerState(epoch=0, newest=newest))
        others = Process(0, Controller.of(ControllerState()), frozenset())
        begun = Process(len(given.beginning), first, frozenset())
        return GroupsState(
            log=log,
            sending=tuple(() for _ in given.controllers),
            controllers=(begun, *(others for _ in given.controllers[1:])),
            members=tuple(Member.of(member_at(told, member)) for member in given.members),
            requests=frozenset(self._first_requests()),
            answers=frozenset(self._first_answers()),
            spent=Spent(tuple(0 for _ in given.members)),
            clock=Clock(
                0,
                tuple(given.timeout for _ in given.members),
                tuple(tuple(0 for _ in given.members) for _ in given.controllers),
                frozenset(),
            ),
        )

    def _first_requests(self) -> Iterator[Request]:
        nothing = frozenset[Any](), frozenset[Any](), 0
        if self.world.old_requests:
            yield Request("m1", None, 0, 3, *nothing)
        if self.world.old_connections:
            for number in self.world.controllers:
                yield Request("m1", number, 0, None, *nothing)

    def _first_answers(self) -> Iterator[Answer]:
        if self.world.old_answers:
            yield answer_to(world.group_at(self.world.beginning, 4), Wait("m1", 0, 0, 0))

    # --- what follows -----------------------------------------------------------------------------

    def successors(self, state: GroupsState) -> list[GroupsState]:
        """Every state that can follow, once for each way. Spec: Next."""
        found: list[GroupsState] = []
        for at in range(len(self.world.controllers)):
            found += self._of_controller(state, at)
        for at in range(len(self.world.members)):
            found += self._of_member(state, at)
        found += self._tick(state)
        return found

    def _of_controller(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        process = state.controllers[at]
        view = state.log.path[process.read]
        yield from self._compete(state, at)
        yield from self._land(state, at)
        yield from self._read(state, at)
        asleep = at in state.clock.asleep
        if asleep:
            clock = state.clock._replace(asleep=state.clock.asleep - {at})
            yield state._replace(clock=self._listens(clock, at))
        elif self._serves(process, view):
            yield from self._decide_alone(state, at, view)
            for request in state.requests:
                yield from self._receive(state, at, view, request)
            yield from self._confirm(state, at)
            yield from self._answer(state, at, view)
            if state.spent.sleeps < self.world.sleeps_max:
                spent = state.spent._replace(sleeps=state.spent.sleeps + 1)
                clock = state.clock._replace(asleep=state.clock.asleep | {at})
                yield state._replace(spent=spent, clock=clock)

    def _serves(self, process: Process, view: Log) -> bool:
        """Spec: IsServing."""
        known = view.memo.get(process.c)
        if known is None:
            serves = controller.is_serving(process.c.state(view.after), view.after)
            known = view.memo[process.c] = serves
        return bool(known)

    def _room(self, state: GroupsState, records: int) -> bool:
        """Spec: HasRoom."""
        return state.log.length + sum(map(len, state.sending)) + records <= self.world.log_max

    def _compete(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        process, latest = state.controllers[at], state.log
        if (
            state.spent.elections < self.world.elections_max
            and self._room(state, 1)
            and not process.c.starts
            and not self._serves(process, latest)
        ):
            c = controller.stopped(process.c.state(latest.after))
            begun = Process(latest.length, Controller.of(evolved(c, starts=True)), frozenset())
            started = world.start(latest.after.epoch, self.world.controllers[at])
            record = EventRecord(0, NOT_APPENDED, NOT_APPENDED, started)
            yield state._replace(
                controllers=put(state.controllers, at, begun),
                sending=put(state.sending, at, (*state.sending[at], Sent.of(record))),
                spent=state.spent._replace(elections=state.spent.elections + 1),
            )

    def _land(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        """Spec: Land, Lose."""
        if not state.sending[at]:
            return
        first, *rest = state.sending[at]
        sending = put(state.sending, at, tuple(rest))
        yield state._replace(log=state.log.with_record(first), sending=sending)
        if state.spent.losses < self.world.losses_max:
            spent = state.spent._replace(losses=state.spent.losses + 1)
            yield state._replace(sending=sending, spent=spent)

    def _reads(self, process: Process) -> bool:
        """Spec: Reads."""
        return process.c.starts or process.c.epoch is not None

    def _read(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        process = state.controllers[at]
        behind = process.read < state.log.length
        if not (self._reads(process) and at not in state.clock.asleep and behind):
            return
        entry = state.log.path[process.read + 1]
        me, c = self.world.controllers[at], process.c
        key = "read", me, c
        if key not in entry.memo:
            before = c.state(state.log.path[process.read].after)
            assert entry.record is not None
            assert entry.verdict is not None
            after = controller.after_reading(me, before, entry.record, entry.verdict)
            own = controller.is_own_start(me, before, entry.record)
            began = own and entry.verdict is GroupAccepted.STARTED
            entry.memo[key] = Controller.of(after), began
        now, began = entry.memo[key]
        goes_on = now.epoch is not None and now.epoch == c.epoch
        waiting = process.waiting if goes_on else frozenset()
        state = state._replace(
            controllers=put(state.controllers, at, Process(process.read + 1, now, waiting))
        )
        if began:
            yield state._replace(
                requests=frozenset(one for one in state.requests if one.to != me),
                clock=self._listens(state.clock, at),
            )
        else:
            yield state

    def _listens(self, clock: Clock, at: int) -> Clock:
        """Spec: ListensFrom."""
        now = tuple(clock.now for _ in self.world.members)
        return clock._replace(heard=put(clock.heard, at, now))

    # --- what a controller decides ----------------------------------------------------------------

    def _foreseen(self, process: Process, view: Log) -> Group:
        """Spec: Foreseen."""
        key = "foreseen", process.c
        if key not in view.memo:
            c = process.c.state(view.after)
            view.memo[key] = controller.speculative(c, view.after).groups[GROUP]
        found: Group = view.memo[key]
        return found

    def _decide(
        self, state: GroupsState, at: int, view: Log, event: Event
    ) -> Iterator[GroupsState]:
        """Spec: Decide."""
        if not self._room(state, 1):
            return
        process = state.controllers[at]
        after, sent = self._sent(process.c, view, [event])
        yield state._replace(
            controllers=put(state.controllers, at, process._replace(c=after)),
            sending=put(state.sending, at, (*state.sending[at], *sent)),
        )

    def _sent(
        self, c: Controller, view: Log, events: Sequence[Event]
    ) -> tuple[Controller, tuple[Sent, ...]]:
        known, sent = c.state(view.after), []
        for event in events:
            record = controller.sending(known, view.after, 0, GROUP, event)
            known, _ = controller.sent(known, view.after, record)
            sent.append(Sent.of(record))
        return Controller.of(known), tuple(sent)

    def _decide_alone(self, state: GroupsState, at: int, view: Log) -> Iterator[GroupsState]:
        """Spec: DecideRebalance, GiveUp, DecideRewind."""
        spent, clock = state.spent, state.clock
        group = self._foreseen(state.controllers[at], view)
        for target in self._targets(state.controllers[at], view, group):
            yield from self._decide(state, at, view, target)
        if spent.expiries < self.world.expiries_max:
            for number, member in enumerate(self.world.members):
                silent = clock.now - clock.heard[at][number] >= self.world.timeout
                if member in group.members and silent:
                    event = MemberExpired(member, "silent", 10_001)
                    for after in self._decide(state, at, view, event):
                        yield after._replace(spent=spent._replace(expiries=spent.expiries + 1))
        if spent.rewinds < self.world.rewinds_max:
            rewound = PartitionsRewound(dict.fromkeys(partitions_of(group.topics), 0), "op")
            for after in self._decide(state, at, view, rewound):
                yield after._replace(spent=spent._replace(rewinds=spent.rewinds + 1))

    def _targets(self, process: Process, view: Log, group: Group) -> list[Rebalanced]:
        """Any that is right, once for each reason why one is due. Spec: TargetsOf, IsDue."""
        key = "targets", process.c
        if key not in view.memo:
            tps = wanted(group)
            each = product(sorted(group.members), repeat=len(tps))
            targets = [Rebalanced(dict(zip(tps, whose, strict=True))) for whose in each]
            differs = group.target_of != TargetOf(wishes(group), group.topics)
            reasons = differs + sum(group.partitions[tp].target is None for tp in tps)
            assert bool(reasons) is is_due(group)
            view.memo[key] = targets * reasons
        found: list[Rebalanced] = view.memo[key]
        return found

    # --- requests ---------------------------------------------------------------------------------

    def _receive(
        self, state: GroupsState, at: int, view: Log, request: Request
    ) -> Iterator[GroupsState]:
        process = state.controllers[at]
        if request.to not in (self.world.controllers[at], None):
            return
        key = "receive", process.c, request
        if key not in view.memo:
            view.memo[key] = self._received(process, view, request)
        is_void, after, sent, needs = view.memo[key]
        if is_void or not self._room(state, len(sent)):
            return
        wait = Wait(request.member, request.connection, needs, request.sent)
        now = process._replace(c=after, waiting=process.waiting | {wait})
        once = request.as_of is None or self.world.every_one
        heard = put(state.clock.heard[at], self._number_of[request.member], state.clock.now)
        yield state._replace(
            controllers=put(state.controllers, at, now),
            sending=put(state.sending, at, (*state.sending[at], *sent)),
            requests=state.requests - {request} if once else state.requests,
            clock=state.clock._replace(heard=put(state.clock.heard, at, heard)),
        )

    def _received(
        self, process: Process, view: Log, request: Request
    ) -> tuple[bool, Controller, tuple[Sent, ...], int]:
        """Whether it is void, what the controller then remembers, what it sends and awaits."""
        registration = Registration(
            request.member,
            request.connection,
            request.as_of,
            request.held,
            dict(request.positions),
            "c",
            frozenset({"t"}) if request.as_of is None else None,
        )
        c, key = process.c.state(view.after), MemberKey(GROUP, request.member)
        is_fresh = controller.is_fresh(registration)
        is_void = is_fresh and controller.is_void(c, key, request.connection)
        events = controller.events_of_request(self._foreseen(process, view), registration)
        taken = Controller.of(controller.taken(c, key, request.connection))
        after, sent = self._sent(taken, view, events)
        return is_void, after, sent, controller.needs(after.state(view.after), view.after)

    def _confirm(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        if not self.world.timeout:
            return
        process, end = state.controllers[at], state.log.length
        waiting = frozenset(
            wait._replace(end=end) if wait.end is None else wait for wait in process.waiting
        )
        if waiting != process.waiting:
            now = process._replace(waiting=waiting)
            yield state._replace(controllers=put(state.controllers, at, now))

    def _answer(self, state: GroupsState, at: int, view: Log) -> Iterator[GroupsState]:
        process = state.controllers[at]
        for wait in process.waiting:
            confirmed = wait.end is not None and process.read >= wait.end
            if not controller.has_landed(view.after, wait.needs):
                continue
            if self.world.timeout and not confirmed:
                continue
            key = "answer", wait.member, wait.connection, wait.sent
            if key not in view.memo:
                view.memo[key] = answer_to(view.after.groups[GROUP], wait)
            now = process._replace(waiting=process.waiting - {wait})
            yield state._replace(
                controllers=put(state.controllers, at, now),
                answers=state.answers | {view.memo[key]},
            )

    # --- members ----------------------------------------------------------------------------------

    def _of_member(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        member = state.members[at]
        yield from self._ask(state, at)
        for answer in state.answers:
            if answer.member == self.world.members[at]:
                yield from self._hear(state, at, answer)
        for tp in member.state.holds:
            offset = member.state.at[tp].offset
            if offset < self.world.messages_max:
                after = Member.of(group_member.processed(member.state, tp, offset + 1))
                yield state._replace(members=put(state.members, at, after))

    def _has_asked(self, state: GroupsState, at: int) -> bool:
        """Spec: HasAsked."""
        return state.spent.requests[at] > state.clock.now

    def _ask(self, state: GroupsState, at: int) -> Iterator[GroupsState]:
        spent = state.spent.requests[at]
        if spent >= self.world.requests_max[at]:
            return
        if self.world.is_punctual and self._has_asked(state, at):
            return
        member = state.members[at]
        if ("ask", member) not in self._memo:
            asked = group_member.request_of(member.state)
            said = {} if self.world.says_nothing else asked.positions
            after = Member.of(group_member.after_asking(member.state))
            self._memo["ask", member] = asked, frozenset(said.items()), after
        asked, positions, after = self._memo["ask", member]
        name, now = self.world.members[at], state.clock.now
        for to in self.world.controllers if asked.as_of is None else (None,):
            what = asked.connection, asked.as_of, asked.held, positions
            yield state._replace(
                requests=state.requests | {Request(name, to, *what, now)},
                members=put(state.members, at, after),
                spent=state.spent._replace(requests=put(state.spent.requests, at, spent + 1)),
            )

    def _hear(self, state: GroupsState, at: int, answer: Answer) -> Iterator[GroupsState]:
        member = state.members[at]
        key = "hear", member, answer
        if key not in self._memo:
            self._memo[key] = heard(member, answer)
        after = self._memo[key]
        if after is None:
            return
        until = state.clock.until[at]
        later = group_member.goes_on_until(until, answer.sent, self.world.timeout)
        if (after, later) != (member, until):
            clock = state.clock._replace(until=put(state.clock.until, at, later))
            yield state._replace(members=put(state.members, at, after), clock=clock)

    # --- time -------------------------------------------------------------------------------------

    def _tick(self, state: GroupsState) -> Iterator[GroupsState]:
        if state.clock.now >= self.world.time_max:
            return
        if self.world.is_punctual and not self._is_at_rest(state):
            return
        yield state._replace(clock=state.clock._replace(now=state.clock.now + 1))

    def _is_at_rest(self, state: GroupsState) -> bool:
        """Spec: IsAtRest of all controllers, and HasAsked of all members."""
        for at, process in enumerate(state.controllers):
            if at in state.clock.asleep:
                continue
            if self._reads(process) and process.read != state.log.length:
                return False
            if self._serves(process, state.log.path[process.read]) and state.requests:
                return False
        return all(self._has_asked(state, at) for at in range(len(self.world.members)))


def put(items: tuple[Any, ...], at: int, item: object) -> tuple[Any, ...]:
    """The same with another item at one place."""
    return (*items[:at], item, *items[at + 1 :])


def member_at(group: Group, member: str) -> GroupMemberState:
    """A member that holds all that the group says it owns. Spec: MemberAt, NewMember."""
    if member not in group.members:
        return GroupMemberState()
    own = holdings_of(group).to_own.get(member, [])
    at = {tp: group.partitions[tp] for tp in own}
    return GroupMemberState(
        generation=group.generation,
        fresh=False,
        holds=frozenset(own),
        at={tp: At(each.tenure, max(each.position, 0)) for tp, each in at.items()},
        connection=1,
    )


def answer_to(group: Group, wait: Wait) -> Answer:
    """Spec: AnswerTo."""
    to_own = holdings_of(group).to_own.get(wait.member, [])
    own = {tp: group.partitions[tp] for tp in to_own}
    return Answer(
        wait.member,
        wait.connection,
        wait.sent,
        group.generation,
        wait.member not in group.members,
        frozenset((tp, At(each.tenure, each.position)) for tp, each in own.items()),
    )


def heard(member: Member, answer: Answer) -> Member | None:
    """The member after an answer; None if it does not obey. A member of these worlds begins at 0.

    Spec: Hear.
    """
    own = {tp: At(at.tenure, max(at.offset, 0)) for tp, at in answer.own}
    told = MemberAnswer(answer.connection, answer.generation, answer.unknown, own)
    if group_member.is_old(member.state, told) or group_member.is_closed(member.state, told):
        return None
    return Member.of(group_member.after_answer(member.state, told))
