"""Processes of a world of groups: a member with its application, and a controller.

Each machine has a clock of its own, which runs a little too fast or too slowly. What a process does
goes into the history.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
from attrs import define, field
from tools.simulate.groups.history import Done, GroupsHistory, HandedOut, Place, Told

from kafka_marshal import Fenced, GroupConsumer, MarshalError
from kafka_marshal.client.connect.log_writer import OutcomeUnknown
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.groups.connection import RequestRefused
from kafka_marshal.client.groups.controller import ControllerOptions, ControllerService
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.client.observe.controller_observers import (
    AnsweredRequest,
    ControllerObserver,
    HungUp,
)
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.testing.in_memory import ScheduledThread
from kafka_marshal.testing.in_memory.clock import ClockBeside

if TYPE_CHECKING:
    from tools.simulate.groups.world import GroupsWorld

GROUP: Final = "g"
PORT: Final = 9393
DRIFT: Final = 0.03
"""How much faster or slower a machine's clock runs than the true time, at most, by choice."""
WORK_S: Final = (0.01, 0.2, 1.0, 8.0)
WORKS: Final = 0.01
"""How often a message takes time."""
COMMIT_S: Final = 8.0
OF_LIMITS: Final = {ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.MESSAGE_TOO_LARGE}
"""Codes by which a member hears that there is no room for it."""


@define(eq=False)
class GroupsProcess:
    """A process of the world, and its machine."""

    name: str
    """Of this start of it."""
    machine: str
    """`m0` or `c0`: stays when it is started again."""
    world: GroupsWorld
    uptime: ClockBeside = field(init=False)
    """How much its monotonic clock is ahead of the true time."""
    stopping: bool = False
    thread: ScheduledThread | None = None
    slow_s: float = 0.0
    """What a member takes longer for each message for now."""
    hangs_until_s: float = 0.0
    """Until when a member stays in one message, by the true time."""
    consumer: GroupConsumer | None = None
    """Of a member."""
    service: ControllerService | None = None
    """Of a controller."""
    _handed: dict[tuple[Place, int], tuple[int, Claim]] = field(factory=dict)
    """By partition and tenure: the next offset, of what was handed out and not committed."""

    def __attrs_post_init__(self) -> None:
        self.uptime = ClockBeside(of=self.world.scheduler.clock)
        chance = self.world.scheduler.chance
        if self.world.setting.fault_every_s and chance.random() < 0.5:
            self.uptime.drift(chance.choice((-DRIFT, DRIFT)))

    @property
    def now_s(self) -> float:
        """The true time."""
        return self.world.scheduler.clock.monotonic()

    @property
    def settings(self) -> Settings:
        """The cluster, and its machine's clock."""
        settings = self.world.kafka.settings()
        clock, uptime = self.world.scheduler.clock, self.uptime
        environment = attrs.evolve(
            settings.environment, monotonic=lambda: clock.monotonic() + uptime.date_ahead_s
        )
        return attrs.evolve(settings, environment=environment)

    def runs(self) -> None:
        """Its first thread."""
        error, limited = "", False
        try:
            if self.machine.startswith("c"):
                self._controls()
            else:
                self._consumes()
        except MarshalError as met:
            error = f"{type(met).__name__}: {met}"
            limited = isinstance(met, RequestRefused) and met.code in OF_LIMITS
        self.world.ended(self, error, limited=limited)

    # --- a controller -----------------------------------------------------------------------------

    def _controls(self) -> None:
        options = ControllerOptions(host=self.machine, port=PORT, limits=self.world.limits.port)
        observer = _Counting(self.world.history)
        listened = list[str]()
        while not self.stopping:
            try:
                self.service = ControllerService(self.settings, options, [observer])
                self.service.run(lambda: self.stopping, lambda host, _: listened.append(host))
            except BrokerFailed:
                # It slept while it asked, say. A supervisor starts it again.
                if listened:
                    raise
                self.world.scheduler.sleep(1.0)
            else:
                return

    # --- a member ---------------------------------------------------------------------------------

    def _consumes(self) -> None:
        world = self.world
        with GroupConsumer(
            settings=self.settings,
            controllers=[f"{each}:{PORT}" for each in world.controllers],
            group_id=GROUP,
            client_id=self.machine,
            session_timeout_s=world.setting.session_timeout_s,
            strategy=world.strategy,
            rebalance=world.rebalance,
            bounds=world.setting.limits.fetched,
            on_assigned=partial(self._told, "assigned"),
            on_revoked=partial(self._told, "revoked"),
        ) as consumer:
            self.consumer = consumer
            for topic in world.setting.topics:
                consumer.add_topic(topic)
            if world.static and self.machine == "m0":
                consumer.add_topic(world.setting.topics[0], 0)
            while not self.stopping:
                self._works(consumer)
            self._commits(consumer)

    def _works(self, consumer: GroupConsumer) -> None:
        chance = self.world.scheduler.chance
        self._notes_done()
        messages = consumer.poll(chance.choice((0.1, 1.0)), max_messages=chance.choice((1, 5, 500)))
        self._handed_out(consumer, messages)
        for _ in messages:
            self._at_work(consumer)
        if chance.random() < 0.5:
            self._commits(consumer)

    def _at_work(self, consumer: GroupConsumer) -> None:
        scheduler = self.world.scheduler
        works_s = self.slow_s
        if not self.world.mended and scheduler.chance.random() < WORKS:
            works_s += scheduler.chance.choice(WORK_S)
        while works_s > 0.5 and not self.stopping and scheduler.chance.random() < 0.9:
            consumer.keep_alive()
            scheduler.sleep(0.5)
            works_s -= 0.5
        if works_s > 0:
            scheduler.sleep(works_s)
        while self.now_s < self.hangs_until_s and not self.stopping:
            consumer.keep_alive()
            scheduler.sleep(0.5)

    def _handed_out(self, consumer: GroupConsumer, messages: Sequence[Message]) -> None:
        for one in messages:
            place = one.topic, one.partition
            self.world.history.handed_out.append(
                HandedOut(self.now_s, self.name, consumer._member_id, place, one.tenure, one.offset)
            )
            self._handed[place, one.tenure] = one.offset + 1, one.claim

    def _notes_done(self) -> None:
        """Everything that was handed out is done: the next call says so."""
        assert self.consumer is not None
        self.world.history.done += self._dones()

    def _dones(self) -> list[Done]:
        assert self.consumer is not None
        member = self.consumer._member_id
        return [
            Done(self.now_s, member, place, tenure, offset)
            for (place, tenure), (offset, _) in self._handed.items()
        ]

    def _commits(self, consumer: GroupConsumer) -> None:
        self._notes_done()
        world, fenced = self.world, set()
        try:
            consumer.commit(timeout_s=COMMIT_S)
        except Fenced as error:
            fenced = set(error.partitions)
            world.history.calls.append((self.now_s, self.name, "Fenced"))
        except (OutcomeUnknown, RequestRefused) as error:
            world.history.calls.append((self.now_s, self.name, type(error).__name__))
            return
        owned = {
            (place, tenure)
            for (place, tenure), (_, claim) in self._handed.items()
            if claim.owned and place not in fenced
        }
        world.history.committed += [
            one for one in self._dones() if (one.place, one.tenure) in owned
        ]
        self._handed.clear()

    def _told(self, kind: str, claims: Sequence[Claim]) -> None:
        self.world.history.told += [
            Told(self.now_s, self.name, kind, (one.topic, one.partition), one.epoch)
            for one in claims
        ]


class _Counting(ControllerObserver):
    def __init__(self, history: GroupsHistory) -> None:
        self._history = history

    def answered(self, request: AnsweredRequest) -> None:
        self._history.answers[f"{request.api} {request.code.name}"] += 1

    def hung_up(self, host: str, why: HungUp, detail: str) -> None:
        if why not in (HungUp.STOPPED, HungUp.CONTROLLER):
            self._history.met[f"hung up: {why.value}"] += 1
