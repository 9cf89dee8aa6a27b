"""One simulated run: processes that consume, a producer, and faults, all by one seed.

The shipped consumers run against a Kafka in memory, on a clock that only the run moves. What is
done to them is decided in `faults`, and what they did is judged in `checkers`.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from attrs import define, field
from tools.simulate.applications import (
    AS_LISTS,
    AT_LEAST_ONCE_ONLY,
    IN_LOOPS,
    THREADED,
    UNORDERED,
    WAYS,
    WORK_S,
)
from tools.simulate.faults import FAULTS, Happening, planned
from tools.simulate.history import Appended, Called, Committed, Given, History
from tools.simulate.setting import Setting

from kafka_marshal import AsyncConsumer, Consumer, Lost, MarshalError
from kafka_marshal.client.message import Claim, Message
from kafka_marshal.errors import COORDINATION_TOPIC, BrokerFailed, ConsumerClosed
from kafka_marshal.testing.in_memory import (
    LANDS,
    InMemoryKafka,
    ScheduledEventLoop,
    ScheduledThread,
    Scheduler,
)

ENDS_WITHIN: Final = 12
"""After how many intervals without faults everything is to be consumed."""
UNKNOWN_S: Final = 30.0
"""How long an append may have no outcome: the end waits for that."""
IDLE_ROUNDS: Final = 20
"""Rounds in which nobody is given anything, until nothing that was granted is left in hand."""
WORKS: Final = 0.05
"""How often processing a message takes time."""
KEYS: Final = 5
VARIES: Final = re.compile(r"[0-9a-f]{32}|c\d+'*|\d+(\.\d+)?")
"""What differs between two log lines of one wording."""


@define(eq=False)
class Process:
    """A consumer, and the application around it."""

    name: str
    client_id: str
    way: str
    world: World
    scheduler: Scheduler
    thread: ScheduledThread | None = None
    consumer: Consumer | None = None
    slow_s: float = 0.0
    """What processing a message takes longer for now."""
    raises: bool = False
    """Processing fails for now."""
    stopping: bool = False
    """It was asked to end."""
    paused: set[tuple[str, int, int]] = field(factory=set)
    """Tenures that the one `pause` under way has paused."""
    pauses: bool = False
    """A `pause` is under way."""
    in_hand: Counter[tuple[Any, ...]] = field(factory=Counter)
    """How many messages of a tenure, and of a lane of it, were begun and are not finished."""

    def runs(self) -> None:
        """Its first thread."""
        try:
            if self.way in THREADED:
                self._in_threads()
            else:
                self._in_loop()
        except ConsumerClosed as error:  # it was closed before it had ended by itself
            closed = self.consumer is not None and self.consumer.delivery.closed and self.stopping
            self.world.ended(self, "" if closed else f"{type(error).__name__}: {error}")
        except (MarshalError, Broke) as error:
            self.world.ended(self, f"{type(error).__name__}: {error}")
        else:
            self.world.ended(self, "")

    def _options(self) -> dict[str, Any]:
        world, setting = self.world, self.world.setting
        return {
            "settings": world.kafka.settings(),
            "group_id": "g",
            "client_id": self.client_id,
            "semantics": setting.semantics,
            "heartbeat_interval_s": setting.heartbeat_interval_s,
            "window": setting.window,
            "batch": setting.batch,
            "on_claimed": partial(self.called, "claimed"),
            "on_lost": partial(self.called, "lost"),
            "on_drained": partial(self.called, "drained"),
            "record_to": world.record_to,
        }

    def _in_threads(self) -> None:
        with Consumer(**self._options()) as consumer:
            self.consumer = consumer
            consumer.subscribe(self.world.setting.topics)
            THREADED[self.way](consumer, self)
            if self.stopping:  # a call after `stop` does nothing, and is no error
                try:
                    consumer.subscribe(self.world.setting.topics)
                except BrokerFailed:
                    pass
                except ConsumerClosed:
                    if not consumer.delivery.closed:
                        raise

    def _in_loop(self) -> None:
        async def main() -> None:
            async with AsyncConsumer(**self._options()) as consumer:
                self.consumer = consumer._consumer
                await consumer.subscribe(self.world.setting.topics)
                await IN_LOOPS[self.way](consumer, self)

        loop = ScheduledEventLoop(self.scheduler)
        try:
            loop.run_until_complete(main())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def tenures(self, topic: str) -> set[tuple[str, int, int]]:
        """What it owns of a topic."""
        claims = self.consumer.claims if self.consumer else ()
        return {(one.topic, one.partition, one.epoch) for one in claims if one.topic == topic}

    @property
    def stopped(self) -> bool:
        """It was asked to end, or its consumer has."""
        return self.stopping or self.consumer is None or self.consumer.delivery.ended

    def takes(self, message: Message) -> None:
        """Process it."""
        with self._begun(message) as given:
            if for_s := self._works_s():
                self.scheduler.sleep(for_s)
            self._processed(given)

    async def takes_in_loop(self, message: Message) -> None:
        """Process it in an event loop."""
        with self._begun(message) as given:
            if for_s := self._works_s():
                await asyncio.sleep(for_s)
            self._processed(given)

    @contextmanager
    def _begun(self, message: Message) -> Iterator[Given]:
        claim = message.claim
        tenure = claim.topic, claim.partition, claim.epoch
        lane = {"run_partition": (*tenure, None), "run_none": (*tenure, message.offset, None)}.get(
            self.way, (*tenure, message.key)
        )
        given = self._given(message, beside=self.way.startswith("run") and self.in_hand[lane] > 0)
        self.in_hand.update((tenure, lane))
        try:
            yield given
        finally:
            self.in_hand.subtract((tenure, lane))

    def committed(self, message: Message) -> None:
        """The commit of this message has returned."""
        claim, now_s = message.claim, self.scheduler.clock.monotonic()
        self.world.history.committed.append(
            Committed(now_s, self.name, claim.topic, claim.partition, claim.epoch, message.offset)
        )

    def _withheld(self, claim: Claim) -> str:
        assert self.consumer is not None
        if self.way in AS_LISTS:
            return ""
        if claim.lost is not None and self.world.setting.at_least_once:
            return "lost"
        if self.consumer.delivery.stopped:
            return "stopped"
        tenure = claim.topic, claim.partition, claim.epoch
        return "paused" if tenure in self.paused else ""

    def _given(self, message: Message, *, beside: bool) -> Given:
        assert self.consumer is not None
        claim = message.claim
        given = Given(
            self.scheduler.clock.monotonic(),
            self.name,
            self.consumer.instance_id,
            claim.topic,
            claim.partition,
            claim.epoch,
            message.offset,
            self.way in UNORDERED,
            self.scheduler.current_name,
            self._withheld(claim),
            beside,
        )
        self.world.history.given.append(given)
        return given

    def _works_s(self) -> float:
        chance = self.scheduler.chance
        return self.slow_s or (chance.choice(WORK_S) if chance.random() < WORKS else 0.0)

    def _processed(self, given: Given) -> None:
        history = self.world.history
        if self.raises:
            history.raised.add((self.name, given.where, given.offset))
            raise Broke(f"{given.where} {given.offset}")
        history.processed.append(given)

    def called(self, kind: str, claim: Claim, reason: Lost | None = None) -> None:
        """A callback."""
        self.world.history.called.append(
            Called(
                self.scheduler.clock.monotonic(),
                self.name,
                self.consumer.instance_id if self.consumer else "",
                kind,
                claim.topic,
                claim.partition,
                claim.epoch,
                "" if reason is None else reason.value,
                self.in_hand[claim.topic, claim.partition, claim.epoch],
                self.stopping or self.raises,
            )
        )


class Broke(Exception):
    """The application failed at a message."""


class NotedKafka(InMemoryKafka):
    """Notes each append to the coordination topic."""

    history: History

    def append(self, topic: str, partition: int, *record: Any, **more: Any) -> int:
        """Append one record, and return its offset."""
        offset = super().append(topic, partition, *record, **more)
        if topic == COORDINATION_TOPIC:
            stored = self.topics[topic][partition].records[offset]
            assert stored is not None
            history = self.history
            at_s = self.clock.monotonic()
            processed = len(history.processed)
            history.log.append(Appended(partition, offset, stored, processed, at_s))
        return offset


@define(eq=False)
class World:
    """Processes of one group, their brokers, and what happens to both."""

    seed: int
    setting: Setting = field(factory=Setting)
    plan: tuple[Happening, ...] | None = None
    """Its faults; those of the seed where nothing is given."""
    scheduler: Scheduler = field(init=False)
    kafka: NotedKafka = field(init=False)
    record_to: Path | None = None
    """A folder in which consumers record what they do."""
    history: History = field(factory=History)
    processes: dict[str, Process] = field(factory=dict)
    """Those that run, by their clients."""
    gone: set[str] = field(factory=set)
    """Clients that nobody starts again."""
    calm: bool = False
    """There are no more faults, and no more messages."""
    mended: bool = False
    """Those that lasted are taken back, too."""
    _numbers: int = 0
    _began_s: float = 0.0

    def __attrs_post_init__(self) -> None:
        setting = self.setting
        if self.plan is None:
            self.plan = planned(self.seed, setting)
        self.scheduler = Scheduler(self.seed)
        self._began_s = self.scheduler.clock.monotonic()
        self.kafka = NotedKafka(setting.log_partitions, self.scheduler, setting.brokers)
        self.kafka.history = self.history
        for topic in setting.topics:
            self.kafka.create(topic, setting.partitions)

    # --- processes --------------------------------------------------------------------------------

    def start(self, client_id: str) -> Process:
        """Start a process under this client id."""
        setting = self.setting
        ways = setting.ways or [
            way for way in WAYS if setting.at_least_once or way not in AT_LEAST_ONCE_ONLY
        ]
        way = self.scheduler.chance.choice(ways)
        self.history.ways[way] += 1
        self._numbers += 1
        name = f"{client_id}, {self._numbers}"
        process = self.processes[client_id] = Process(name, client_id, way, self, self.scheduler)
        process.thread = self.scheduler.begin(name, process.runs)
        return process

    def ended(self, process: Process, error: str) -> None:
        """A process ended by itself; one that failed is started again, as a supervisor does it."""
        self.history.ended.append((self.scheduler.clock.monotonic(), process.name, error))
        if error and self.processes.get(process.client_id) is process:
            del self.processes[process.client_id]
            later = partial(self._again, process.client_id)
            self.scheduler.begin(f"supervisor of {process.name}", later)

    def _again(self, client_id: str) -> None:
        self.scheduler.sleep(self.scheduler.chance.uniform(0.1, 5.0))
        if client_id not in self.processes and not self.calm:
            self.start(client_id)

    def end(self, client_id: str) -> None:
        """Ask an application to end, and wait until it has."""
        process = self.processes.pop(client_id)
        assert process.thread is not None
        process.slow_s, process.raises, process.stopping = 0.0, False, True
        self.scheduler.stop(process.name, stands=False)
        while process.consumer is None and process.thread.is_alive():
            self.scheduler.sleep(0.1)
        if process.consumer is not None:
            process.consumer.stop()
            with suppress(MarshalError):
                process.consumer.subscribe(self.setting.topics)
            mended = self.mended
            patience_s = UNKNOWN_S if mended else 0.0
            process.thread.join(2 * self.setting.heartbeat_interval_s + patience_s)
            if mended and process.thread.is_alive():
                self.history.unended.append(process.name)
            process.consumer.close(timeout_s=2.0)
        process.thread.join()

    # --- the run ----------------------------------------------------------------------------------

    def produces(self) -> None:
        """Somebody produces, in bursts."""
        setting, chance = self.setting, self.scheduler.chance
        pause_s = (setting.burst_max + 1) / 2 / setting.messages_per_s
        while not self.calm:
            self.scheduler.sleep(chance.expovariate(1 / pause_s))
            topic = chance.choice(setting.topics)
            partition = chance.randrange(len(self.kafka.topics[topic]))
            keys = [
                b"%d" % chance.randrange(KEYS) for _ in range(chance.randint(1, setting.burst_max))
            ]
            for key in keys:
                self.kafka.append(topic, partition, b"", key=key)

    def mend(self) -> None:
        """Take every fault back."""
        self.mended = True
        self.kafka.appends = lambda _: LANDS
        self.kafka.fetching = lambda _: None
        self.kafka.flow()
        for process in self.processes.values():
            process.slow_s, process.raises = 0.0, False
            self.scheduler.stop(process.name, stands=False)

    def run(self) -> History:
        """Run to the end: faults, then a while without, then everybody ends."""
        gc.collect()
        gc.disable()  # what it collects, and when, depends on what the process did before
        try:
            with self._listening():
                self._run()
        finally:
            self.scheduler.close()
            gc.enable()
        history, scheduler = self.history, self.scheduler
        history.ends = {
            (topic, number): partition.high
            for topic in self.setting.topics
            for number, partition in enumerate(self.kafka.topics[topic])
        }
        history.group_offsets = {
            (topic, number): offset
            for (group, topic, number), offset in self.kafka.committed.items()
            if group == "g"
        }
        history.simulated_s = scheduler.clock.monotonic() - self._began_s
        history.ended_ms = scheduler.clock.unix_ms()
        history.switched = scheduler.switched
        return history

    def _run(self) -> None:
        setting, scheduler = self.setting, self.scheduler
        for number in range(setting.clients):
            self.start(f"c{number}")
        scheduler.begin("producer", self.produces)
        began_s = scheduler.clock.monotonic()
        threads: list[ScheduledThread] = []
        for each in self.plan or ():
            scheduler.sleep(began_s + each.at_s - scheduler.clock.monotonic())
            threads.append(scheduler.begin(f"fault {len(threads)}", partial(self._disturb, each)))
            self._count_threads()
        scheduler.sleep(began_s + setting.simulated_s - scheduler.clock.monotonic())
        self.calm = True
        for thread in threads:
            thread.join()
        self.mend()
        until_s = scheduler.clock.monotonic() + ENDS_WITHIN * setting.heartbeat_interval_s
        idle = 0
        while scheduler.clock.monotonic() < until_s and idle < IDLE_ROUNDS:
            for number in range(setting.clients):
                if not any(one.rstrip("'") == f"c{number}" for one in self.processes):
                    self.start(f"c{number}")
            before = len(self.history.given)
            scheduler.sleep(0.5)
            idle = idle + 1 if self.done and len(self.history.given) == before else 0
        self.history.finished = self.done
        for client_id in list(self.processes):
            if client_id in self.processes:  # another one may end by itself meanwhile
                self.end(client_id)

    def _disturb(self, planned: Happening) -> None:
        """A fault happens, beside others that last."""
        at_s = self.scheduler.clock.monotonic() - self._began_s
        what = FAULTS[planned.fault].happens(self, Random(planned.seed))
        self.history.faults.append((at_s, planned.fault, what))

    def _count_threads(self) -> None:
        for process in self.processes.values():
            count = sum(one.process == process.name for one in self.scheduler.threads)
            self.history.threads_max = max(self.history.threads_max, count)

    @property
    def began_s(self) -> float:
        """When the run began, by the monotonic clock."""
        return self._began_s

    @property
    def done(self) -> bool:
        """The log has everything as processed, or granted."""
        left = {
            (claim.topic, claim.partition): claim.committed
            for each in self.processes.values()
            if each.consumer
            for claim in each.consumer.claims
            if claim.owned
        }
        return all(
            left.get((topic, number)) == partition.high
            for topic in self.setting.topics
            for number, partition in enumerate(self.kafka.topics[topic])
        )

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Count what is logged."""
        logger = logging.getLogger("kafka_marshal")
        handler = _Counting(self.history.lines)
        before = logger.propagate, logger.level
        logger.addHandler(handler)
        logger.propagate, logger.level = False, logging.INFO
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.propagate, logger.level = before


class _Counting(logging.Handler):
    def __init__(self, lines: Any) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines[f"{record.levelname} {VARIES.sub('…', str(record.msg))}"] += 1
