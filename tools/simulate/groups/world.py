"""One simulated run of groups: controllers, members, brokers, the network, and faults, by one seed.

What ships runs: `ControllerService` in an event loop and its threads, `GroupConsumer` in a thread.
What is done to them is decided in `faults`, and what they did is judged in `checkers`.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any, Final

from attrs import define, field
from tools.simulate.faults.fault import Happening
from tools.simulate.groups import faults
from tools.simulate.groups.history import AtTheEnd, GroupsHistory, Limited
from tools.simulate.groups.limits import AROUND_BYTES, GroupsLimits
from tools.simulate.groups.processes import GROUP, GroupsProcess
from tools.simulate.groups.setting import GroupsSetting
from tools.simulate.setting import WAITS

from kafka_marshal.client.connect.coordination_topic import TopicSpec, settings_for
from kafka_marshal.client.connect.reader import CONNECT_S
from kafka_marshal.client.groups.event_log import GROUPS_TOPIC, PARTITIONS
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import Controllership, is_due, wanted
from kafka_marshal.group_codec.records import decode_record
from kafka_marshal.machines.groups.control.sizes import GROWS
from kafka_marshal.testing.in_memory import (
    LANDS,
    InMemoryKafka,
    ScheduledThread,
    Scheduler,
    Stored,
    Wire,
)
from kafka_marshal.testing.in_memory.contexts import Killed

PARTITION: Final = coordinating_partition(GROUP, PARTITIONS)
"""Of the log: where the group's events are."""
LATENCIES: Final = (
    Wire(),
    Wire(latency_s=0.001, jitter_s=0.002),
    Wire(latency_s=0.01, jitter_s=0.05),
)
STRATEGIES: Final = ("sticky", "range", "round_robin")
TAKES_OVER_S: Final = 6.0
"""Within what time another controller serves, in seconds, and what is read late is read."""
TOO_LARGE: Final = "it is not appended"
"""What a controller logs of an event that is larger than its log takes."""
SIZES_S: Final = 20.0
"""How long the end waits for a group of which an event is too large, in seconds."""


class NotedKafka(InMemoryKafka):
    """Notes when each record of the log of events is appended."""

    history: GroupsHistory

    def append(self, topic: str, partition: int, *record: Any, **more: Any) -> int:
        """Append a record."""
        at_s = self.clock.monotonic()
        self.history.appended_s[topic, partition].append(at_s)
        return super().append(topic, partition, *record, **more)


@define(eq=False)
class GroupsWorld:
    """Controllers and members, their brokers, and what happens to all of them."""

    seed: int
    setting: GroupsSetting = field(factory=GroupsSetting)
    plan: tuple[Happening, ...] | None = None
    """Its faults; those of the seed where nothing is given."""
    scheduler: Scheduler = field(init=False)
    kafka: NotedKafka = field(init=False)
    history: GroupsHistory = field(factory=GroupsHistory)
    processes: dict[str, GroupsProcess] = field(factory=dict)
    """Those that run, by their machines."""
    wires: dict[tuple[str | None, str | None], Wire] = field(factory=dict)
    """Ways between machines that do not work as they should; None: to or from any."""
    usual: Wire = field(init=False)
    strategy: str = field(init=False)
    rebalance: str = field(init=False)
    static: bool = field(init=False)
    """Whether a member asks for a partition by its number."""
    calm: bool = False
    """There are no more faults, and no more messages."""
    mended: bool = False
    """Those that lasted are taken back, too."""
    limits: GroupsLimits = field(init=False)
    """Of controllers that start now."""
    absent: set[str] = field(factory=set)
    """Machines of members that have left for good."""
    _holding: ExitStack = field(factory=ExitStack)
    _numbers: int = 0
    _began_s: float = 0.0

    def __attrs_post_init__(self) -> None:
        setting = self.setting
        if self.plan is None:
            self.plan = faults.planned(self.seed, setting)
        self.scheduler = Scheduler(self.seed)
        chance = self.scheduler.chance
        self._began_s = self.scheduler.clock.monotonic()
        self.usual = chance.choice(LATENCIES)
        self.strategy = chance.choice(STRATEGIES)
        self.rebalance = chance.choice(("incremental", "eager"))
        self.static = chance.random() < 0.2
        self.kafka = NotedKafka(2, self.scheduler, 3)
        self.kafka.history = self.history
        batches = Random(f"batches {self.seed}")
        waits = batches.choice(WAITS)
        self.kafka.waits_for_more = lambda: batches.random() < waits
        self.kafka.network.wires, self.kafka.network.hosts = self._wire, self._host
        self.limits = setting.limits
        if setting.limits.event_bytes_max:
            log = settings_for(TopicSpec(GROUPS_TOPIC), 3)
            bytes_max = setting.limits.event_bytes_max + AROUND_BYTES
            log["max.message.bytes"] = str(bytes_max)
            self.kafka.create(GROUPS_TOPIC, PARTITIONS, settings=log)
        for topic in setting.topics:
            self.kafka.create(topic, setting.partitions)

    @property
    def controllers(self) -> list[str]:
        """Their machines."""
        return [f"c{number}" for number in range(self.setting.controllers)]

    @property
    def members(self) -> list[str]:
        """Their machines."""
        every = (f"m{number}" for number in range(self.setting.members))
        return [one for one in every if one not in self.absent]

    def _host(self, process: str) -> str:
        machine = process.partition(",")[0]
        return "gateway" if self.setting.limits.one_host and machine[0] == "m" else machine

    def _wire(self, sender: str, receiver: str) -> Wire:
        a, b = sender.partition(",")[0], receiver.partition(",")[0]
        for one in ((a, b), (a, None), (None, b)):
            if one in self.wires:
                return self.wires[one]
        return self.usual

    def wire(self, a: str | None, b: str | None, wire: Wire | None) -> None:
        """The way from one machine to another is this one from now on; None: as usual."""
        if wire is None:
            self.wires.pop((a, b), None)
        else:
            self.wires[a, b] = wire
        self.kafka.network.rewired()

    # --- processes --------------------------------------------------------------------------------

    def start(self, machine: str) -> None:
        """Start a process on this machine, unless one runs there."""
        if machine in self.processes:
            return
        self._numbers += 1
        process = GroupsProcess(f"{machine}, {self._numbers}", machine, self)
        self.processes[machine] = process
        process.thread = self.scheduler.begin(process.name, process.runs)

    def kill(self, process: GroupsProcess, *, silently: bool) -> None:
        """As `kill -9` does it; silently: its machine is gone, too."""
        if self.processes.get(process.machine) is process:
            del self.processes[process.machine]
        self.scheduler.kill(process.name)
        self.kafka.network.died(process.name, silently=silently)

    def end(self, process: GroupsProcess) -> None:
        """Ask it to end, and wait until it has."""
        if self.processes.get(process.machine) is process:
            del self.processes[process.machine]
        process.slow_s, process.stopping = 0.0, True
        self.scheduler.stop(process.name, stands=False)
        assert process.thread is not None
        process.thread.join()

    def ended(self, process: GroupsProcess, error: str, *, limited: bool = False) -> None:
        """A process ended; who was not asked to is started again, as a supervisor does it."""
        if limited:
            self.limited(process.name, error)
        elif not process.stopping or error:
            self.history.ended.append((self.scheduler.clock.monotonic(), process.name, error))
        if not process.stopping and self.processes.get(process.machine) is process:
            del self.processes[process.machine]
            self.scheduler.begin("supervisor", partial(self._again, process.machine))

    def limited(self, process: str, why: str) -> None:
        """An application heard, or its log has, that it is not served, and why."""
        now_s = self.scheduler.clock.monotonic()
        self.history.limited.append(Limited(now_s, process, process.partition(",")[0], why))
        code = why.rpartition("(")[2].partition(",")[0]
        self.history.met[f"told: {code if code.isupper() else 'no connection'}"] += 1

    def _again(self, machine: str) -> None:
        self.scheduler.sleep(self.scheduler.chance.uniform(0.1, 3.0))
        if not self.calm:
            self.start(machine)

    # --- the run ----------------------------------------------------------------------------------

    def produces(self) -> None:
        """Somebody produces."""
        setting, chance = self.setting, self.scheduler.chance
        while not self.calm:
            self.scheduler.sleep(chance.expovariate(setting.messages_per_s / 5))
            topic = chance.choice(setting.topics)
            partition = chance.randrange(len(self.kafka.topics[topic]))
            for _ in range(chance.randint(1, 9)):
                self.kafka.append(topic, partition, b"")

    def mend(self) -> None:
        """Take every fault back."""
        self.mended = True
        self.history.mended_s = self.scheduler.clock.monotonic()
        self.history.session_timeout_s = self.setting.session_timeout_s
        self.history.members_max = self.limits.members_max
        self.kafka.appends = lambda _: LANDS
        self.kafka.other_appends = lambda _: LANDS
        self.kafka.flow()
        self.wires.clear()
        self.kafka.network.rewired()
        for process in self.processes.values():
            process.slow_s = 0.0
            self.scheduler.stop(process.name, stands=False)

    def run(self) -> GroupsHistory:
        """Run to the end: faults, then a while without, then everybody ends."""
        gc.collect()
        gc.disable()  # what it collects, and when, depends on what the process did before
        try:
            with self._listening(), self._holding:
                self._holding.enter_context(self.limits.hold())
                self._run()
        finally:
            self.scheduler.close()
            gc.enable()
        history = self.history
        history.log, history.events = self._log, self.events()
        history.simulated_s = self.scheduler.clock.monotonic() - self._began_s
        history.switched = self.scheduler.switched
        history.processes = self._numbers
        return history

    def _run(self) -> None:
        setting, scheduler = self.setting, self.scheduler
        for machine in (*self.controllers, *self.members):
            self.start(machine)
        scheduler.begin("producer", self.produces)
        threads: list[ScheduledThread] = []
        for each in self.plan or ():
            scheduler.sleep(self._began_s + each.at_s - scheduler.clock.monotonic())
            disturb = partial(self._disturb, each)
            threads.append(scheduler.begin(f"fault {len(threads)}", disturb))
        scheduler.sleep(self._began_s + setting.simulated_s - scheduler.clock.monotonic())
        self.calm = True
        scheduler.kill("producer")
        for thread in threads:
            thread.join()
        self.mend()
        self._settles()
        if not self.has_room and (self.history.finished or self.history.too_large):
            self._note_who_is_out()
            self._makes_room()
            self._settles()
        if self.history.finished:
            self._fails_over()
        scheduler.sleep(2.0)  # everybody hears of it
        self._look_at_the_end()
        leaving = [*self.processes.values()]
        # Members leave while there is somebody to whom they say it.
        for process in sorted(leaving, key=lambda one: one.machine, reverse=True):
            self.end(process)
        scheduler.sleep(1.0)
        network = self.kafka.network
        self.history.left = [
            *(f"a connection of {one.process}" for one in network.ends),
            *(f"{one.process} listens" for one in network.servers.values()),
        ]
        # A controller does not wait for what it has asked the cluster, and that has a time-out.
        until_s = scheduler.clock.monotonic() + 2 * CONNECT_S
        while scheduler.threads[1:] and scheduler.clock.monotonic() < until_s:
            scheduler.sleep(1.0)
        self.history.left += [
            f"thread {one.name} of {one.process}" for one in scheduler.threads[1:]
        ]

    @property
    def has_room(self) -> bool:
        """Everybody who is there may be served within the limits."""
        return len(self.members) <= self.limits.room() and not self.history.too_large

    def _settles(self) -> None:
        """Wait until the group is settled; where there is no room for all, until they know it."""
        scheduler, setting = self.scheduler, self.setting
        began_s = scheduler.clock.monotonic()
        within_s = SIZES_S if self.history.too_large else setting.ends_within_s
        knows_s = 0.0 if self.has_room else 3 * setting.session_timeout_s
        self.history.finished = False
        while not self.history.finished and scheduler.clock.monotonic() < began_s + within_s:
            for machine in (*self.controllers, *self.members):
                self.start(machine)
            scheduler.sleep(1.0)
            late = scheduler.clock.monotonic() >= began_s + knows_s
            self.history.finished = late and self.settled

    def _fails_over(self) -> None:
        """The controller is killed, and nothing else is wrong; then it comes back."""
        serves = [
            one
            for one in self.processes.values()
            if one.service is not None and one.service._server.serves(PARTITION)
        ]
        scheduler, chance = self.scheduler, self.scheduler.chance
        if len(serves) != 1 or len(self.controllers) < 2:
            return
        began_s = scheduler.clock.monotonic()
        self.kill(serves[0], silently=chance.random() < 0.3)
        scheduler.sleep(TAKES_OVER_S + 2 * self.setting.session_timeout_s)
        self.history.failed_over = began_s, scheduler.clock.monotonic()
        self._settles()

    def _note_who_is_out(self) -> None:
        """Who is not served must know why by now."""
        group = self._folded.groups.get(GROUP)
        for machine in self.members:
            one = self.processes.get(machine)
            consumer = None if one is None else one.consumer
            if group is None or consumer is None or consumer._member_id not in group.members:
                self.history.out.append((self.scheduler.clock.monotonic(), machine))

    def _makes_room(self) -> None:
        """Some members leave, or controllers come that allow more."""
        room, chance = self.limits.room(), self.scheduler.chance
        if self.limits.leaves and not self.history.too_large:
            for machine in chance.sample(self.members, len(self.members) - room):
                self.absent.add(machine)
                if machine in self.processes:
                    self.end(self.processes[machine])
            return
        self.limits = GroupsLimits()
        self._holding.enter_context(self.limits.hold())
        if GROUPS_TOPIC in self.kafka.topics:
            log = {**self.kafka.topic_settings[GROUPS_TOPIC], "max.message.bytes": "1048588"}
            self.kafka.topic_settings[GROUPS_TOPIC] = log
            for each in self.kafka.topics[GROUPS_TOPIC]:
                each.settings = log
        for machine in self.controllers:
            if machine in self.processes:
                self.end(self.processes[machine])
            self.start(machine)
            self.scheduler.sleep(1.0)
        self.history.too_large.clear()  # also what the last of the old ones logged

    def _look_at_the_end(self) -> None:
        history = self.history
        history.looked_s, history.even = self.scheduler.clock.monotonic(), self._even
        history.ends = {
            (topic, number): partition.high
            for topic in self.setting.topics
            for number, partition in enumerate(self.kafka.topics[topic])
        }
        for process in self.processes.values():
            if process.consumer is not None:
                owns = {(one.topic, one.partition): one.epoch for one in process.consumer.claims}
                history.at_the_end.append(AtTheEnd(process.name, owns))
            elif process.service is not None:
                view = process.service._server.view(PARTITION)
                history.at_the_end.append(AtTheEnd(process.name, view=view))

    def _disturb(self, planned: Happening) -> None:
        """A fault happens, beside others that last."""
        at_s = self.scheduler.clock.monotonic() - self._began_s
        what = faults.FAULTS[planned.fault].happens(self, Random(planned.seed))
        self.history.faults.append((at_s, planned.fault, what))

    @property
    def began_s(self) -> float:
        """When the run began."""
        return self._began_s

    def events(self) -> list[EventRecord]:
        """The log of the group, from its start."""
        return [
            decode_record(PARTITION, offset, one.timestamp_ms, one.key, one.value, one.headers)
            for offset, one in enumerate(self._log)
        ]

    @property
    def _log(self) -> list[Stored]:
        if GROUPS_TOPIC not in self.kafka.topics:
            return []
        records = self.kafka.topics[GROUPS_TOPIC][PARTITION].records
        return [one for one in records if one is not None]  # nothing is compacted

    @property
    def settled(self) -> bool:
        """The log has everything as consumed, and everything as its target's; nobody hangs."""
        now_s = self.scheduler.clock.monotonic()
        if any(one.hangs_until_s > now_s for one in self.processes.values()):
            return False
        group = self._folded.groups.get(GROUP)
        if group is None or is_due(group):
            return False
        places = wanted(group)
        live = {
            each.consumer._member_id
            for each in self.processes.values()
            if each.consumer is not None
        }
        wants = sum(len(self.kafka.topics[topic]) for topic in self.setting.topics)
        return (
            len(places) == wants
            and group.members.keys() <= live
            and len(group.members) == min(len(self.members), self.limits.room())
            and all(
                (one := group.partitions[tp]).owner == one.target
                and not one.revoking
                and max(0, one.position) >= self.kafka.topics[tp.topic][tp.partition].high
                for tp in places
            )
        )

    @property
    def _folded(self) -> Controllership:
        """The group's partition of the log."""
        view = Controllership()
        for record in self.events():
            view = step(view, record).controllership
        return view

    @property
    def _even(self) -> bool:
        """Members own as many partitions as each other, or one more: a range is of one topic."""
        return not self.static and self.strategy != "range"

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Note exceptions that are logged."""
        ours, loops = logging.getLogger("kafka_marshal"), logging.getLogger("asyncio")
        handler = _Noting(self)
        before = [(one, one.propagate, one.level) for one in (ours, loops)]
        for one in (ours, loops):
            one.addHandler(handler)
            one.propagate = False
            one.setLevel(logging.INFO)
        try:
            yield
        finally:
            for one, propagate, level in before:
                one.removeHandler(handler)
                one.propagate = propagate
                one.setLevel(level)


class _Noting(logging.Handler):
    def __init__(self, world: GroupsWorld) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process, line = self._world.scheduler.current.process, record.getMessage()
        if getattr(record, "event", "") == "unserved":
            self._world.limited(process, line)
        if TOO_LARGE in line:
            self._world.history.too_large.append(line)
            self._world.history.sizes_met = True
            self._world.history.met["an event is too large"] += 1
            if not any(each.__name__ in line for each in GROWS):
                self._world.history.unforeseen.append(line)
        if record.exc_info is None and record.levelno < logging.ERROR:
            return
        error = None if record.exc_info is None else record.exc_info[1]
        if isinstance(error, Killed):
            return
        what = "" if error is None else f": {type(error).__name__}: {error}"
        self._world.history.logged.append(f"{process}: {line}{what}")
