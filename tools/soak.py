"""Chaos on real brokers, for a while: `make soak ARGS="--seconds 600 --brokers 3"`.

Two groups consume one topic at once, one at least once and one at most once. Each consumer is a
process; whenever one is started it takes the way of consuming that has done the least. Faults are
drawn from a seed: consumers are killed with -9, put to sleep, ended in order and started again; a
group is paused or released, a position is set, and with three brokers one is killed or all stand
still.

In the end it compares what consumers wrote down with what must be so:

- at least once no message is lost, and no more than a window repeated for every new owner;
- at most once no message is handed over twice, and every message that was not processed is in what
  `marshal receipts` lists, which is at most one batch for a tenure and partition;
- no consumer ended by itself, failed, or owns nothing at the end;
- the specification explains the whole run as it was recorded.

Exit code 1 if one of these is not so. The seed repeats the faults, not the machine's load.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Final

from attrs import define, field, frozen
from confluent_kafka import Producer
from tests.runtime.broken import MISTAKES
from tests.runtime.crew import INTERVAL_S, RULES, Stage
from tools.soak_worker import WAYS

from kafka_marshal.capture import read_capture
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.world import World
from kafka_marshal.runtime.recording import write_log
from kafka_marshal.sweeper import Sweeper
from kafka_marshal.testing import QUICK, Cluster
from kafka_marshal.validate import read_folder, validate

PARTITIONS: Final = 6
SET: Final = 0
"""Of this partition positions are set, so nothing is said of how often its messages come."""
JUDGED: Final = [partition for partition in range(PARTITIONS) if partition != SET]
WINDOW: Final = 100
BATCH: Final = 50
A_SECOND: Final = 200
"""Messages that are produced, at most."""
KEYS: Final = 16
DRAIN_S: Final = 60.0
"""How long nothing new may be processed before the rest is lost."""
END_S: Final = 45.0
"""How long a consumer may take to end in order: `close` takes 30 s at most."""
COMMAND_S: Final = 120.0
"""How long a command may take, also while a broker is down."""
SEMANTICS: Final = ("at_least_once", "at_most_once")


class Load(threading.Thread):
    """Produces until it is ended."""

    def __init__(self, stage: Stage, topic: str) -> None:
        super().__init__(daemon=True)
        self.produced = 0
        self._topic, self._ended = topic, threading.Event()
        # With more in flight a broker's death could lose messages that it had acknowledged.
        settings = {
            "bootstrap.servers": stage.bootstrap,
            "enable.idempotence": True,
            "log_level": 0,
        }
        self._producer = Producer({**settings, "message.timeout.ms": 300_000})

    def run(self) -> None:
        """Produce."""
        while not self._ended.wait(10 / A_SECOND):
            for _ in range(10):
                number, self.produced = self.produced, self.produced + 1
                self._producer.produce(
                    *(self._topic, b"%d" % number, b"%d" % (number % KEYS)),
                    partition=number % PARTITIONS,
                )
            self._producer.poll(0)

    def end(self) -> None:
        """Wait until the brokers have everything."""
        self._ended.set()
        self.join()
        if self._producer.flush(120):
            raise SystemExit("soak: the brokers did not take what was produced")


@define
class Noted:
    """What one worker's file says; read on from where it was read to."""

    handed: Counter[tuple[int, int]] = field(factory=Counter)
    done: set[tuple[int, int]] = field(factory=set)
    claims: set[int] = field(factory=set)
    wins: int = 0
    failures: list[str] = field(factory=list)
    _read: int = 0

    def read(self, path: Path) -> None:
        """The lines that came since; a last one without its end is left for the next time."""
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read)
            text, ended, _ = file.read().rpartition(b"\n")
        self._read += len(text) + len(ended)
        for line in text.decode().splitlines():
            match line.split(" "):
                case ["+", partition, offset]:
                    self.handed[int(partition), int(offset)] += 1
                case ["-", partition, offset]:
                    self.done.add((int(partition), int(offset)))
                case ["claimed", partition, _]:
                    self.wins += 1
                    self.claims.add(int(partition))
                case ["lost", partition, _]:
                    self.claims.discard(int(partition))
                case ["failed", *words]:
                    self.failures.append(" ".join(words))


class Worker:
    """A consumer in a process of its own."""

    def __init__(self, name: str, way: str, asked: dict[str, object], folder: Path) -> None:
        self.name, self.way = name, way
        self.noted = Noted()
        self.asleep = False
        self._notes = folder / f"{name}.txt"
        self.errors = folder / f"{name}.errors.txt"
        asked = {**asked, "way": way, "notes": str(self._notes)}
        command = [sys.executable, "-u", "-m", "tools.soak_worker", json.dumps(asked)]
        with self.errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(command, stdout=errors, stderr=errors, process_group=0)
        # One for each: whatever ends this process, the worker ends too, also one that sleeps.
        self._sweeper: Sweeper | None = Sweeper(None)
        self._sweeper.watch(self._process.pid)

    def read(self) -> Noted:
        """All that it has written so far."""
        self.noted.read(self._notes)
        return self.noted

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """A signal, if it still runs."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it at once, also if it sleeps."""
        self._process.kill()
        self._process.wait()
        self._leave()

    def ended(self, within_s: float) -> bool:
        """It ends in that time."""
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        self._leave()
        return True

    def _leave(self) -> None:
        if self._sweeper is not None:
            self._sweeper.leave()
            self._sweeper = None

    def last_words(self) -> str:
        """Why it ended, as far as it said."""
        if self.read().failures:
            return self.noted.failures[-1]
        lines = self.errors.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"exit code {self._process.returncode}, {lines[-1] if lines else 'no word'}"


class Crew:
    """The consumers of one group: those that run, and those that ran."""

    def __init__(
        self, semantics: str, stage: Stage, topic: str, options: argparse.Namespace, folder: Path
    ) -> None:
        self.semantics = semantics
        self.group = f"{stage.group}-{semantics}"
        self.folder = folder / semantics
        self.folder.mkdir()
        self.running: dict[str, Worker] = {}
        self.former: list[Worker] = []
        self.wrong: list[str] = []
        self._mistake = options.mistake
        self._asked: dict[str, object] = {
            "bootstrap": stage.bootstrap,
            "group": self.group,
            "coordination_topic": stage.coordination,
            "heartbeat_interval_s": INTERVAL_S,
            "semantics": semantics,
            "topic": topic,
            "window": WINDOW,
            "batch": BATCH,
            "pause_s": 0.001,
            "record_to": str(self.folder / "recorded"),
            "settings": {"message.timeout.ms": str(options.outcome_ms)},
        }
        for number in range(options.consumers):
            self.start(f"c{number}")

    def start(self, client: str) -> None:
        """A consumer, or one again under its client id, by the way that has done the least."""
        running = {worker.way for worker in self.running.values()}
        way = min(WAYS[self.semantics], key=lambda way: (way in running, self.processed_by(way)))
        name = f"{client}-{len(self.former) + len(self.running)}-{way}"
        asked = {**self._asked, "client_id": client}
        if self._mistake and client == "c0":
            asked["mistake"] = self._mistake
        self.running[client] = Worker(name, way, asked, self.folder)

    def gone(self, client: str) -> Worker:
        """It does not run any more."""
        worker = self.running.pop(client)
        self.former.append(worker)
        return worker

    def all(self) -> Iterator[Worker]:
        """Everybody who ever ran."""
        yield from (*self.former, *self.running.values())

    def done(self) -> set[tuple[int, int]]:
        """Partition and offset of everything that was processed."""
        return set().union(*(worker.read().done for worker in self.all()))

    def handed(self) -> Counter[tuple[int, int]]:
        """How often each message was handed over."""
        found: Counter[tuple[int, int]] = Counter()
        for worker in self.all():
            found.update(worker.read().handed)
        return found

    def processed_by(self, way: str) -> int:
        """How many messages were processed by this way of consuming."""
        return sum(len(worker.read().done) for worker in self.all() if worker.way == way)

    def bury(self) -> list[str]:
        """Start those again that ended by themselves, which is wrong; a sentence about each."""
        dead = [client for client, worker in self.running.items() if not worker.running]
        found = []
        for client in dead:
            worker = self.gone(client)
            found.append(f"{worker.name} ended by itself: {worker.last_words()}")
            self.start(client)
        self.wrong += found
        return found


@frozen
class Written:
    """What the consumers of a group wrote down, and what the log says; keys: partition, offset."""

    ends: Mapping[int, int]
    """How many messages each judged partition has."""
    handed: Counter[tuple[int, int]]
    done: Set[tuple[int, int]]
    tenures: Counter[int]
    listed: Set[tuple[int, int]] | None
    """What `marshal receipts` lists; None at least once."""


@frozen
class Compared:
    """What came of the messages of a group."""

    lost: int
    unlisted: int
    repeated: int
    wrong: list[str]


def compare(written: Written) -> Compared:
    """Compare what was written down with what must be so."""
    lost_in_all = unlisted_in_all = repeated_in_all = 0
    wrong: list[str] = []
    for partition, end in written.ends.items():
        offsets = range(end)
        lost = [offset for offset in offsets if (partition, offset) not in written.done]
        times = {offset: written.handed[partition, offset] for offset in offsets}
        repeated = sum(number - 1 for number in times.values() if number)
        lost_in_all, repeated_in_all = lost_in_all + len(lost), repeated_in_all + repeated
        if written.listed is None:
            if lost:
                wrong.append(f"partition {partition}: lost {len(lost)}: {ranges(lost)}")
            most = WINDOW * max(0, written.tenures[partition] - 1)
            if repeated > most:
                wrong.append(f"partition {partition}: {repeated} repeated, {most} allowed")
            continue
        if twice := [offset for offset, number in times.items() if number > 1]:
            wrong.append(f"partition {partition}: twice {len(twice)}: {ranges(twice)}")
        unlisted = [offset for offset in lost if (partition, offset) not in written.listed]
        unlisted_in_all += len(unlisted)
        if unlisted:
            what = f"{len(unlisted)} of {len(lost)} lost are in no receipt"
            wrong.append(f"partition {partition}: {what}: {ranges(unlisted)}")
    return Compared(lost_in_all, unlisted_in_all, repeated_in_all, wrong)


@frozen
class Judged:
    """What came of one group."""

    crew: Crew
    written: Written
    compared: Compared
    wrong: list[str]

    def rows(self) -> dict[str, int | None]:
        """Its column of the table; None where there is nothing to count."""
        listed = self.written.listed
        judged = self.written.ends
        return {
            "processes of consumers": len([*self.crew.all()]),
            "tenures": sum(self.written.tenures.values()),
            "messages": sum(judged.values()),
            "handed over": sum(n for (p, _), n in self.written.handed.items() if p in judged),
            "handed over again": self.compared.repeated,
            "lost": self.compared.lost,
            "listed by marshal receipts": None
            if listed is None
            else sum(partition in judged for partition, _ in listed),
            "lost and not listed": None if listed is None else self.compared.unlisted,
            "violations": len(self.wrong),
        }


class Soak:
    """One run."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace, folder: Path) -> None:
        self.cluster, self.options, self.folder = cluster, options, folder
        self.dice = random.Random(options.seed)
        self.stage = Stage(cluster, copies=len(cluster.numbers))
        self.topic = self.stage.topic(PARTITIONS, 0)
        self.began = time.monotonic()
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.happened: Counter[str] = Counter()
        self.down: set[int] = set()
        self.crews = {
            name: Crew(name, self.stage, self.topic, options, folder) for name in SEMANTICS
        }
        self.load = Load(self.stage, self.topic)

    def tell(self, what: str) -> None:
        """Print one line of what happens."""
        print(f"{time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do it then."""
        self.later.append((time.monotonic() + seconds, do))

    # --- consumers ------------------------------------------------------------------------------

    def _anybody(self) -> tuple[Crew, str, Worker] | None:
        """A consumer that runs and is awake, by the dice."""
        found = [
            (crew, client, worker)
            for crew in self.crews.values()
            for client, worker in sorted(crew.running.items())
            if not worker.asleep
        ]
        return self.dice.choice(found) if found else None

    def kill_consumer(self) -> bool:
        """Kill -9, and again some seconds later under the same client id."""
        if (chosen := self._anybody()) is None:
            return False
        crew, client, worker = chosen
        if not worker.running:
            return False
        crew.gone(client).kill()
        self._again(crew, client, worker, "is killed")
        return True

    def end_consumer(self) -> bool:
        """It gives its claims up."""
        if (chosen := self._anybody()) is None:
            return False
        crew, client, worker = chosen
        if not worker.running:
            return False
        crew.gone(client).send(signal.SIGTERM)
        self._must_end(crew, worker)
        self._again(crew, client, worker, "ends in order")
        return True

    def _must_end(self, crew: Crew, worker: Worker) -> None:
        if not worker.ended(END_S):
            worker.kill()
            crew.wrong.append(f"{worker.name} did not end {END_S:.0f} s after SIGTERM")
        elif worker.read().failures:
            crew.wrong.append(f"{worker.name} failed at its end: {worker.last_words()}")

    def _again(self, crew: Crew, client: str, worker: Worker, how: str) -> None:
        again_s = self.dice.uniform(0, 5)
        self.tell(f"{crew.semantics} {worker.name} {how}, starts again in {again_s:.1f} s")
        self.after(again_s, lambda: crew.start(client))

    def stop_consumer(self) -> bool:
        """It stands still, often for longer than its claims live."""
        if (chosen := self._anybody()) is None:
            return False
        crew, _, worker = chosen
        asleep_s = self.dice.uniform(0.5, 6)
        self.tell(f"{crew.semantics} {worker.name} sleeps for {asleep_s:.1f} s")
        worker.send(signal.SIGSTOP)
        worker.asleep = True

        def awake() -> None:
            worker.send(signal.SIGCONT)
            worker.asleep = False

        self.after(asleep_s, awake)
        return True

    # --- administrators and brokers -------------------------------------------------------------

    def marshal(self, crew: Crew, *words: str) -> subprocess.CompletedProcess[str]:
        """A command, as an operator would type it."""
        command = [sys.executable, "-m", "kafka_marshal.cli", words[0], crew.group, *words[1:]]
        command += ["--bootstrap", self.stage.bootstrap, "--topic", self.stage.coordination]
        if words[0] in ("set-position", "receipts"):
            command += ["--heartbeat-interval", f"{INTERVAL_S:g}"]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMMAND_S
        )

    def _administer(self, *words: str) -> bool:
        """Of either group, also while a broker is down: it may fail, but not hang."""
        crew = self.crews[self.dice.choice(SEMANTICS)]
        what = f"marshal {' '.join(words)}"
        try:
            done = self.marshal(crew, *words)
        except subprocess.TimeoutExpired:
            crew.wrong.append(f"{what} did not end in {COMMAND_S:.0f} s")
            return True
        said = (done.stdout + done.stderr).strip().splitlines()
        self.tell(f"{crew.semantics} {what}: {done.returncode} {said[-1] if said else ''}")
        return True

    def pause_group(self) -> bool:
        """Nobody owns anything, for some seconds."""
        return self._administer("pause", "--for", f"{self.dice.randint(1, 4)}s")

    def release_claims(self) -> bool:
        """Everybody loses a claim, and may have it again at once."""
        return self._administer("release", f"{self.topic}:{self.dice.choice(JUDGED)}")

    def set_position(self) -> bool:
        """Back, or forward."""
        target = self.dice.randint(0, max(1, self.load.produced // PARTITIONS))
        return self._administer("set-position", f"{self.topic}:{SET}={target}")

    def kill_broker(self) -> bool:
        """One of three, and it comes back."""
        if self.down or len(self.cluster.numbers) == 1:
            return False
        number = self.dice.choice(self.cluster.running)
        self.down.add(number)
        self.cluster.kill(number)
        gone_s = self.dice.uniform(1, 8)
        self.tell(f"broker {number} is killed for {gone_s:.1f} s")

        def start() -> None:
            self.cluster.start(number)
            self.down.discard(number)
            self.tell(f"broker {number} is back")

        # On a busy machine that takes a while, and other faults go on.
        self.after(gone_s, threading.Thread(target=start, daemon=True).start)
        return True

    def pause_brokers(self) -> bool:
        """All of them stand still."""
        if self.down:
            return False
        still_s = self.dice.uniform(0.5, 2.5 + self.options.outcome_ms / 1000)
        self.tell(f"the brokers stand still for {still_s:.1f} s")
        self.cluster.pause()
        time.sleep(still_s)
        self.cluster.resume()
        return True

    # --- the run --------------------------------------------------------------------------------

    def run(self) -> int:
        """All of it; how many things are wrong."""
        try:
            self._go()
        finally:
            for crew in self.crews.values():
                for worker in crew.all():
                    worker.kill()
        return self._judge()

    def _go(self) -> None:
        self.load.start()
        self._settle()
        faults: list[tuple[Callable[[], bool], int]] = [
            (self.kill_consumer, 6),
            (self.stop_consumer, 5),
            (self.end_consumer, 3),
            (self.pause_group, 1),
            (self.release_claims, 1),
            (self.set_position, 1),
            (self.pause_brokers, 1),
            (self.kill_broker, 3),
        ]
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(0.2, 2.5))
            self._what_is_due()
            [fault] = self.dice.choices([one for one, _ in faults], [w for _, w in faults])
            self.happened[fault.__name__] += fault()
        self.tell("no more faults")
        while self.later or self.down:
            time.sleep(0.1)
            self._what_is_due()
        self.load.end()
        self._drain()
        self._settle()
        for crew in self.crews.values():
            for worker in crew.running.values():
                worker.send(signal.SIGTERM)
        for crew in self.crews.values():
            for worker in crew.running.values():
                self._must_end(crew, worker)

    def _what_is_due(self) -> None:
        """What was put off; and those that ended by themselves start again, but it is told."""
        now = time.monotonic()
        due = [one for one in self.later if one[0] <= now]
        self.later = [one for one in self.later if one[0] > now]
        for _, do in due:
            do()
        for crew in self.crews.values():
            for sentence in crew.bury():
                self.tell(f"{crew.semantics} WRONG: {sentence}")

    def _settle(self) -> None:
        """Until everybody owns something: there is enough for all."""
        deadline = time.monotonic() + DRAIN_S
        while idle := [
            (crew, worker)
            for crew in self.crews.values()
            for worker in crew.running.values()
            if not worker.read().claims
        ]:
            time.sleep(0.2)
            self._what_is_due()
            if time.monotonic() > deadline:
                for crew, worker in idle:
                    crew.wrong.append(f"{worker.name} owns nothing after {DRAIN_S:.0f} s")
                return

    def _drain(self) -> None:
        """Until all is processed at least once, or nothing more is by anybody for a while."""
        ends = self._ends()
        most = sum(ends.values())
        before, since = -1, time.monotonic()
        while time.monotonic() - since < DRAIN_S:
            self._what_is_due()
            done = [len(crew.done()) for crew in self.crews.values()]
            last = all(
                {(p, end - 1) for p, end in ends.items()} <= crew.done()
                for crew in self.crews.values()
            )
            if done[0] == most and last:
                return
            if sum(done) != before:
                before, since = sum(done), time.monotonic()
            time.sleep(0.5)

    def _ends(self) -> dict[int, int]:
        """How many messages each partition has; they were produced in turn."""
        return {
            partition: len(range(partition, self.load.produced, PARTITIONS))
            for partition in range(PARTITIONS)
        }

    # --- what must be so ------------------------------------------------------------------------

    def _judge(self) -> int:
        write_log(self.stage.cluster.settings, self.stage.coordination, self.folder)
        judged = [self._judge_group(crew) for crew in self.crews.values()]
        wrong = [f"{one.crew.semantics} {what}" for one in judged for what in one.wrong]
        faults = sum(self.happened.values())
        if faults < self.options.faults:
            wrong.append(f"only {faults} faults, {self.options.faults} were wanted")
        if self.options.faults:
            wrong += [
                f"{semantics}: nothing was processed by {way}"
                for semantics, crew in self.crews.items()
                for way in WAYS[semantics]
                if not crew.processed_by(way)
            ]
        self._print(judged, faults)
        for one in wrong:
            print(f"WRONG {one}")
        return len(wrong)

    def _judge_group(self, crew: Crew) -> Judged:
        wrong = list(crew.wrong)
        listed = self._receipts(crew, wrong) if crew.semantics == "at_most_once" else None
        ends = {partition: end for partition, end in self._ends().items() if partition in JUDGED}
        tenures = self._tenures(crew.group)
        written = Written(ends, crew.handed(), crew.done(), tenures, listed)
        compared = compare(written)
        unexplained = self._unexplained(crew)
        wrong += compared.wrong
        wrong += [] if unexplained is None else [f"unexplained: {unexplained}"]
        return Judged(crew, written, compared, wrong)

    def _receipts(self, crew: Crew, wrong: list[str]) -> set[tuple[int, int]]:
        """Partition and offset of everything that may have been lost, as an operator is told."""
        ran = self.marshal(crew, "receipts", self.topic, "--json")
        if ran.returncode not in (0, 1):
            wrong.append(f"marshal receipts: exit code {ran.returncode}, {ran.stderr.strip()}")
            return set()
        listed: set[tuple[int, int]] = set()
        for one in map(json.loads, ran.stdout.splitlines()):
            partition, start, end = one["topic_partition"], one["start"], one["end"]
            listed |= {(partition, offset) for offset in range(start or 0, end)}
            if partition != SET and (start is None or end - start > BATCH):
                wrong.append(f"partition {partition}: a receipt of {start} to {end}")
        return listed

    def _unexplained(self, crew: Crew) -> object | None:
        """What of the run the specification does not explain."""
        recorded = crew.folder / "recorded"
        shutil.copy(self.folder / "log.jsonl", recorded / "log.jsonl")
        return validate(read_folder(recorded)).unexplained

    def _tenures(self, group: str) -> Counter[int]:
        """How often each claim of the group was won, as the log says."""
        found: Counter[int] = Counter()
        worlds: dict[int, World] = {}
        for raw in read_capture(self.folder / "log.jsonl"):
            try:
                record = raw.decoded()
            except MalformedRecord:
                continue
            world = worlds.setdefault(record.partition, World(RULES))
            message = record.message
            if isinstance(message, ReleaseGroup):
                world.apply(record)
                continue
            key = ClaimKey(message.group_id, message.topic, message.partition)
            before = world.claim(key).epoch
            world.apply(record)
            if message.group_id == group and world.claim(key).epoch != before:
                found[message.partition] += 1
        return found

    def _print(self, judged: list[Judged], faults: int) -> None:
        """The table of the run."""
        told = ", ".join(f"{number} {what}" for what, number in self.happened.items())
        print(f"\n{faults} faults: {told}\n")
        print(f"{'':28}" + "".join(f"{one.crew.semantics:>16}" for one in judged))
        columns = [one.rows() for one in judged]
        for name in columns[0]:
            counts = ("-" if (count := one[name]) is None else f"{count:,}" for one in columns)
            print(f"{name:28}" + "".join(f"{count:>16}" for count in counts))
        print("\nmessages processed, by the way of consuming")
        for way in WAYS["at_least_once"]:
            counts = (
                f"{one.crew.processed_by(way):,}" if way in WAYS[one.crew.semantics] else "-"
                for one in judged
            )
            print(f"{way:28}" + "".join(f"{count:>16}" for count in counts))
        print(flush=True)


def ranges(offsets: list[int]) -> str:
    """The first few of them, as ranges.

    >>> ranges([1, 2, 3, 7, 9, 10])
    '1..3, 7, 9..10'
    """
    found: list[list[int]] = []
    for offset in offsets:
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    told = [f"{first}..{last}" if first != last else f"{first}" for first, last in found[:5]]
    return ", ".join(told) + (" ..." if found[5:] else "")


def main() -> None:
    """Run it; exits 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="how long there are faults")
    parser.add_argument("--faults", type=int, default=0, help="fewer than this are a failure")
    parser.add_argument("--consumers", type=int, default=3, help="of each group")
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--outcome-ms", type=int, default=3_000, help="then it is unknown")
    parser.add_argument("--mistake", choices=sorted(MISTAKES), help="c0 is broken, to see it fail")
    parser.add_argument("--folder", type=Path, default=Path("build/soak"))
    options = parser.parse_args()
    folder = options.folder / str(options.seed)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    print(f"soak: --seed {options.seed}, recorded in {folder}", flush=True)
    with Cluster(brokers=options.brokers, java_options=QUICK) as cluster:
        wrong = Soak(cluster, options, folder).run()
    print(f"soak: --seed {options.seed}: {'all is well' if not wrong else f'{wrong} WRONG'}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
