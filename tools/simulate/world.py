"""One simulated run: processes that consume, a producer, and faults, all by one seed.

The shipped consumers run against a Kafka in memory, on a clock that only the run moves. What is
done to them is decided in `faults`, and what they did is judged in `checkers`.
"""

from __future__ import annotations

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

import attrs
from attrs import define, field
from tools.simulate.applications import AT_LEAST_ONCE_ONLY, WAYS
from tools.simulate.faults import FAULTS, Happening, planned
from tools.simulate.history import Appended, History
from tools.simulate.judged.ranges import FoldedRanges
from tools.simulate.keys import Keys
from tools.simulate.process import LATE, Process
from tools.simulate.setting import WAITS, Setting

from kafka_marshal import Consumer
from kafka_marshal.client.connect.settings import TOPIC_BYTES_MIN, Settings
from kafka_marshal.errors import COORDINATION_TOPIC, MarshalError
from kafka_marshal.testing.in_memory import (
    LANDS,
    InMemoryKafka,
    ScheduledThread,
    Scheduler,
)

ENDS_WITHIN: Final = 12
"""After how many intervals without faults everything is to be consumed."""
UNKNOWN_S: Final = 30.0
"""How long an append may have no outcome: the end waits for that."""
UNREAD: Final = frozenset({"cut", "link", "stall", "stall_thread"})
"""Faults by which somebody does not read the log for a while."""
IDLE_ROUNDS: Final = 20
"""Rounds in which nobody is given anything, until nothing that was granted is left in hand."""
KEYS: Final = 5
VARIES: Final = re.compile(r"[0-9a-f]{32}|c\d+'*|\d+(\.\d+)?")
"""What differs between two log lines of one wording."""


class NotedKafka(InMemoryKafka):
    """Notes each append to the coordination topic."""

    history: History
    folded: FoldedRanges
    """Shared claims, as everybody reads them who has read everything."""

    def append(self, topic: str, partition: int, *record: Any, **more: Any) -> int:
        """Append one record, and return its offset."""
        offset = super().append(topic, partition, *record, **more)
        if topic == COORDINATION_TOPIC:
            stored = self.topics[topic][partition].records[offset]
            assert stored is not None
            history = self.history
            at_s = self.clock.monotonic()
            processed = len(history.processed)
            index = len(history.log)
            of_ranges = len(history.processed_of_ranges)
            appended = Appended(partition, offset, stored, processed, at_s, index, of_ranges)
            history.log.append(appended)
            self.folded.read(appended)
        return offset

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Unclean election: what lies from this offset on is lost; its offsets are used anew."""
        if topic == COORDINATION_TOPIC and end < self.topics[topic][partition].high:
            self.history.cut(partition, end, self.committed)
        super().truncate(topic, partition, end)

    def delete(self, topic: str) -> None:
        """Delete a topic, and what groups have committed for it."""
        history = self.history
        for number, partition in enumerate(self.topics[topic]):
            if topic == COORDINATION_TOPIC:
                history.cut(number, 0, self.committed)
            else:
                history.vanished[topic, number].append(partition.high)
        super().delete(topic)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Retention: what lies before this offset is gone."""
        super().delete_records(topic, partition, before)
        self.history.removed[topic, partition].append((len(self.history.log), before))

    def compact(self, topic: str, partition: int, before: int) -> None:
        """Compaction: of what lies before this offset little is left."""
        super().compact(topic, partition, before)
        self.history.removed[topic, partition].append((len(self.history.log), before))


@define(eq=False)
class World:
    """Processes of one group, their brokers, and what happens to both."""

    seed: int
    setting: Setting = field(factory=Setting)
    plan: tuple[Happening, ...] | None = None
    """Its faults; those of the seed where nothing is given."""
    scheduler: Scheduler = field(init=False)
    kafka: NotedKafka = field(init=False)
    folder: Path | None = None
    """Where files are written; None: none are."""
    history: History = field(factory=History)
    processes: dict[str, Process] = field(factory=dict)
    """Those that run, by their clients."""
    calm: bool = False
    """There are no more faults, and no more messages."""
    keys: Keys = field(factory=Keys)
    forged_ms: int = -1
    """When the last record was written that no key signed, by the brokers' clock."""
    originals: int = 0
    """How many there were."""
    disk_full: bool = False
    """Nothing more can be written to a file."""
    read_until_s: float = 0.0
    """Until then everybody reads the log: it was made anew, and he who stalls would not notice."""
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
        chance = Random(f"batches {self.seed}")
        waits = chance.choice(WAITS)
        self.kafka.waits_for_more = lambda: chance.random() < waits
        if chance.random() < 0.5:
            takes = {"max.message.bytes": str(TOPIC_BYTES_MIN)}
            log = {**self.kafka.topic_settings[COORDINATION_TOPIC], **takes}
            self.kafka.create(COORDINATION_TOPIC, setting.log_partitions, settings=log)
        self.kafka.folded = FoldedRanges(setting)
        for topic in setting.every_topic:
            self.kafka.create(topic, setting.partitions)
        self.kafka.create(LATE)

    @property
    def settings(self) -> Settings:
        """The cluster, as an operator reaches it; what is written is signed where all sign."""
        keyring = self.keys.keyring() if self.setting.signing == "required" else None
        return attrs.evolve(self.kafka.settings(), keyring=keyring)

    @property
    def record_to(self) -> Path | None:
        """A folder in which consumers record what they do."""
        return self.folder if self.setting.recorded else None

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; 0 while it does not exist."""
        return len(self.kafka.topics.get(topic, ()))

    # --- processes --------------------------------------------------------------------------------

    def start(self, client_id: str) -> Process:
        """Start a process under this client id."""
        setting = self.setting
        ways = [
            way
            for way in setting.ways or WAYS
            if setting.at_least_once or way not in AT_LEAST_ONCE_ONLY
        ]
        way = self.scheduler.chance.choice(ways)
        self.history.ways[way] += 1
        self._numbers += 1
        name = f"{client_id}, {self._numbers}"
        process = self.processes[client_id] = Process(name, client_id, way, self, self.scheduler)
        some = setting.signing == "some" and self.scheduler.chance.random() < 0.5
        if some or setting.signing == "required":
            process.keyring, process.keys = self.keys.keyring(), self.keys.changed
        if (
            self.folder is not None
            and not setting.recorded
            and not setting.shared
            and self.scheduler.chance.random() < 0.5
        ):
            process.snapshot = self.folder / f"{client_id}.snapshot"
        process.thread = self.scheduler.begin(name, process.runs)
        return process

    def ended(self, process: Process, error: str) -> None:
        """A process ended; who was not asked to is started again, as a supervisor does it."""
        self.history.ended.append((self.scheduler.clock.monotonic(), process.name, error))
        if not process.stopping and self.processes.get(process.client_id) is process:
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
        process.slow_s = process.takes_s = 0.0
        process.signals.left = 0
        process.raises, process.stopping = False, True
        self.scheduler.stop(process.name, stands=False)
        while process.consumer is None and process.thread.is_alive():
            self.scheduler.sleep(0.1)
        if process.consumer is not None:
            process.consumer.stop()
            process.stop_returned = True
            self.scheduler.start(partial(self._adds, process.consumer), LATE, process.name)
            mended = self.mended
            patience_s = UNKNOWN_S if mended else 0.0
            process.thread.join(2 * self.setting.heartbeat_interval_s + patience_s)
            if mended and process.thread.is_alive():
                self.history.unended.append(process.name)
            elif mended:
                consumer = process.consumer
                ended = len(self.history.log), process.name, consumer.instance_id
                self.history.ended_well.append(ended)
            if process.thread.is_alive():
                self.history.interrupted.add(process.name)
            process.consumer.close(timeout_s=2.0)
        process.thread.join()

    def _adds(self, consumer: Consumer) -> None:
        with suppress(MarshalError):
            consumer.subscribe([*self.setting.topics, LATE])

    # --- the run ----------------------------------------------------------------------------------

    def produces(self) -> None:
        """Somebody produces, in bursts."""
        setting, chance = self.setting, self.scheduler.chance
        pause_s = (setting.burst_max + 1) / 2 / setting.messages_per_s
        while not self.calm:
            self.scheduler.sleep(chance.expovariate(1 / pause_s))
            topic = chance.choice(setting.every_topic)
            partition = chance.randrange(self.partitions(topic) or 1)
            keys = [
                b"%d" % chance.randrange(KEYS) for _ in range(chance.randint(1, setting.burst_max))
            ]
            if partition < self.partitions(topic):
                for key in keys:
                    self.kafka.append(topic, partition, b"", key=key)

    def mend(self) -> None:
        """Take every fault back."""
        self.mended = True
        self.kafka.appends = lambda _: LANDS
        self.kafka.fetching = lambda _: None
        self.kafka.flow()
        self.disk_full = False
        for process in self.processes.values():
            process.slow_s = process.takes_s = 0.0
            process.signals.left = 0
            process.raises = False
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
            self._measure()
        scheduler.sleep(began_s + setting.simulated_s - scheduler.clock.monotonic())
        self.calm = True
        for thread in threads:
            thread.join()
        self.mend()
        ends_s = max(ENDS_WITHIN * setting.heartbeat_interval_s, 2 * UNKNOWN_S)
        until_s = scheduler.clock.monotonic() + ends_s
        idle = 0
        while scheduler.clock.monotonic() < until_s and idle < IDLE_ROUNDS:
            for number in range(setting.clients):
                if not any(one.rstrip("'") == f"c{number}" for one in self.processes):
                    self.start(f"c{number}")
            before = self._given
            scheduler.sleep(0.5)
            idle = idle + 1 if self.done and self._given == before else 0
        self.history.finished = self.done
        self._look_at_the_end()
        # What is done of this is in releases, and in no heartbeat.
        for topic in setting.every_topic:
            for number in range(self.partitions(topic)):
                for _ in range(scheduler.chance.randint(0, setting.burst_max)):
                    self.kafka.append(topic, number, b"", key=b"0")
        scheduler.sleep(scheduler.chance.choice((0.1, 1.0)))
        for client_id in scheduler.chance.sample(sorted(self.processes), len(self.processes)):
            if client_id in self.processes:  # else it has failed meanwhile
                self.end(client_id)

    def _look_at_the_end(self) -> None:
        """How things stand when all was consumed, and nothing was a fault for a while."""
        history = self.history
        history.ends = {
            (topic, number): partition.high
            for topic in self.setting.every_topic
            for number, partition in enumerate(self.kafka.topics[topic])
        }
        for process in self.processes.values():
            if process.consumer is None:
                continue
            since_ms = 0 if process.keyring is None else process.keyring.signed_since_ms or 0
            if self.setting.signing == "required" and self.forged_ms >= since_ms:
                history.trusting.append(process.name)
            tenures = process.consumer._coordinator.ownership._tenures.all
            newest = {each.claim.key: each for each in tenures}
            history.outlived += [
                f"{process.name} kept {each.claim}, and a later one has decided it"
                for each in tenures
                if each.drained and not each.unconfirmed and each is not newest[each.claim.key]
            ]
            kept = Counter(each.claim.key for each in tenures if each.drained)
            history.tenures_max = max(history.tenures_max, *kept.values(), 0)

    def _disturb(self, planned: Happening) -> None:
        """A fault happens, beside others that last."""
        now_s = self.scheduler.clock.monotonic()
        at_s, what = now_s - self._began_s, "nothing"
        if now_s >= self.read_until_s or planned.fault not in UNREAD:
            what = FAULTS[planned.fault].happens(self, Random(planned.seed))
        self.history.faults.append((at_s, planned.fault, what))

    def _measure(self) -> None:
        """How much each process has open, and in memory."""
        history = self.history
        threads = Counter(one.process for one in self.scheduler.threads)
        self.kafka.readings = [one for one in self.kafka.readings if not one.closed]
        clients = Counter(one._process for one in self.kafka.readings)
        for process in self.processes.values():
            history.threads_max = max(history.threads_max, threads[process.name])
            history.clients_max = max(history.clients_max, clients[process.name])
            history.files_max = max(history.files_max, process.files)
            if process.consumer is not None:
                history.miscounted += process.miscounted()
                buffers = process.consumer._fetcher._buffers._buffers.values()
                most = max((each.messages for each in buffers), default=0)
                history.buffered_max = max(history.buffered_max, most)

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
            left.get((topic, number), -1) >= partition.high
            for topic in self.setting.topics
            for number, partition in enumerate(self.kafka.topics[topic])
        ) and all(
            self.kafka.folded.low(topic, number) >= partition.high
            for topic in self.setting.shared
            for number, partition in enumerate(self.kafka.topics[topic])
        )

    @property
    def _given(self) -> int:
        return len(self.history.given) + len(self.history.given_of_ranges)

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
        self._lines[f"{record.levelname} {VARIES.sub('…', record.getMessage())}"] += 1
