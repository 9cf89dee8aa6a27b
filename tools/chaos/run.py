"""One chaos run: the load, the faults, and what is wrong in the end."""

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
from collections.abc import Callable
from pathlib import Path
from typing import Final

from attrs import frozen
from confluent_kafka import KafkaError, Message, Producer
from tests.client.crew import INTERVAL_S, RULES, Stage
from tools.chaos.agree import Recorded, Replayed, disagreements, processed_by, replay
from tools.chaos.brokers import BrokerFaults
from tools.chaos.clocks import Clocks
from tools.chaos.compare import Compared, Written, compare
from tools.chaos.crew import BATCH, Crew, Worker
from tools.chaos.plots import RunFacts, plot
from tools.chaos.proxy import Proxy
from tools.chaos.worker import WAYS

from kafka_marshal.capture import read_capture
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.claims.world import World
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.testing import Cluster
from kafka_marshal.validate import read_folder, validate

PARTITIONS: Final = 12
SET: Final = 0
"""Its positions are set, so how often its messages come is not judged."""
JUDGED: Final = [partition for partition in range(PARTITIONS) if partition != SET]
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
        self._refused: list[str] = []
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
                    on_delivery=self._delivered,
                )
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(f"message {message.value()!r}: {error}")

    def end(self) -> None:
        """Wait until the brokers have everything."""
        self._ended.set()
        self.join()
        if self._producer.flush(120) or self._refused:
            what = "; ".join(self._refused[:3]) or "not within 120 s"
            raise SystemExit(f"chaos: the brokers did not take what was produced: {what}")


@frozen
class Judged:
    """What came of one group."""

    crew: Crew
    written: Written
    compared: Compared
    replayed: Replayed
    recorded: Recorded
    apart: list[str]
    """Where the three judges disagree."""
    wrong: list[str]

    def rows(self) -> dict[str, int | None]:
        """Its column of the table; None where there is nothing to count."""
        listed = self.written.listed
        judged = self.written.ends
        processed = (partition in judged for partition, _ in self.recorded.processed)
        return {
            "processes of consumers": len([*self.crew.all()]),
            "  that found no broker": self.crew.could_not_start,
            "messages": sum(judged.values()),
            "accounting: handed over": sum(
                n for (p, _), n in self.written.handed.items() if p in judged
            ),
            "accounting: handed over again": self.compared.repeated,
            "accounting: lost": self.compared.lost,
            "receipts: may be lost": None
            if listed is None
            else sum(partition in judged for partition, _ in listed),
            "receipts: lost, not listed": None if listed is None else self.compared.unlisted,
            "replay: tenures": len(self.replayed.tenures),
            "replay: sum of positions": sum(self.replayed.positions.get(p, 0) for p in judged),
            "replay: errors": len(self.replayed.errors),
            "validate: processed": sum(processed),
            "validate: unexplained": int(self.recorded.unexplained is not None),
            "the judges disagree": len(self.apart),
            "violations": len(self.wrong),
        }


class Chaos:
    """One run."""

    def __init__(
        self,
        cluster: Cluster,
        proxy: Proxy,
        pids: dict[str, int],
        options: argparse.Namespace,
        folder: Path,
        clocks: Clocks,
    ) -> None:
        self.cluster, self.options, self.folder = cluster, options, folder
        self.dice = random.Random(options.seed)
        self.brokers = BrokerFaults(cluster, proxy, pids, self.dice, self.tell, clocks)
        self.stage = Stage(cluster, copies=len(cluster.numbers))
        self.topic = self.stage.topic(PARTITIONS, 0)
        self.facts = RunFacts(
            seed=options.seed,
            began_ms=now_ms(),
            interval_s=INTERVAL_S,
            a_second=A_SECOND,
        )
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.happened: Counter[str] = Counter()
        self.crews = {
            name: Crew(name, self.stage, self.topic, options, folder, pids) for name in SEMANTICS
        }
        self.load = Load(self.stage, self.topic)

    def tell(self, what: str) -> None:
        """Print one line of what happens."""
        print(f"{(now_ms() - self.facts.began_ms) / 1000:7.1f} s  {what}", flush=True)

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
        self.facts.killed[crew.name_of(worker)] = now_ms()
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
        self._must_end(crew, client, worker)
        self._again(crew, client, worker, "ends in order")
        return True

    def start_twin(self) -> bool:
        """Another process with its client id, for some seconds."""
        if (chosen := self._anybody()) is None:
            return False
        crew, client, _ = chosen
        twin = crew.start_twin(client)
        lives_s = self.dice.uniform(4, 12)
        self.tell(f"{crew.semantics} {twin.name} is a second {client} for {lives_s:.1f} s")
        self.after(lives_s, twin.kill)
        return True

    def _must_end(self, crew: Crew, client: str, worker: Worker) -> None:
        if not worker.ended(END_S):
            worker.kill()
            crew.wrong.append(f"{worker.name} did not end {END_S:.0f} s after SIGTERM")
        elif worker.read().failures and not crew.was_twin(client, worker):
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

    def set_clock(self) -> bool:
        """Its machine's clock is an hour behind, right, or an hour ahead from now on."""
        if (chosen := self._anybody()) is None:
            return False
        crew, _, worker = chosen
        if not worker.read().wins or not worker.running:
            return False  # it may not listen to the signal yet
        self.tell(f"{crew.semantics} {worker.name}: its clock is set")
        worker.send(signal.SIGUSR1)
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

        def types() -> None:
            try:
                done = self.marshal(crew, *words)
            except subprocess.TimeoutExpired:
                crew.wrong.append(f"{what} did not end in {COMMAND_S:.0f} s")
                return
            said = (done.stdout + done.stderr).strip().splitlines()
            self.tell(f"{crew.semantics} {what}: {done.returncode} {said[-1] if said else ''}")

        self.brokers.then(0.0, types)  # other faults go on meanwhile
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

    def fail_link(self) -> bool:
        """Of one consumer, one broker, or all."""
        return self.brokers.fail_link(self._consumers())

    def reset_links(self) -> bool:
        """Of one consumer, one broker, or all."""
        return self.brokers.reset_links(self._consumers())

    def move_leader(self) -> bool:
        """Of the log, or of the messages."""
        topic = self.dice.choice((self.topic, self.stage.coordination))
        return self.brokers.move_leader(topic, self.folder)

    def pause_brokers(self) -> bool:
        """All of them."""
        return self.brokers.pause_brokers(self.options.outcome_ms / 1000)

    def set_broker_clock(self) -> bool:
        """Of one broker, by up to three intervals."""
        return self.brokers.set_clock(3 * INTERVAL_S)

    def _consumers(self) -> list[str]:
        return [
            crew.name_of(worker) for crew in self.crews.values() for worker in crew.running.values()
        ]

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
        faults: list[tuple[Callable[[], bool], int, str]] = [
            (self.kill_consumer, 6, "consumers"),
            (self.stop_consumer, 5, "consumers"),
            (self.end_consumer, 3, "consumers"),
            (self.set_clock, 2, "consumers"),
            (self.start_twin, 1, "consumers"),
            (self.pause_group, 1, "operators"),
            (self.release_claims, 1, "operators"),
            (self.set_position, 1, "operators"),
            (self.fail_link, 7, "links"),
            (self.reset_links, 2, "links"),
            (self.pause_brokers, 1, "brokers"),
            (self.brokers.pause_broker, 2, "brokers"),
            (self.brokers.kill_broker, 2, "brokers"),
            (self.brokers.fill_disk, 1, "brokers"),
            (self.move_leader, 1, "brokers"),
            (self.set_broker_clock, 2, "brokers"),
        ]
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until or sum(self.happened.values()) < self.options.faults:
            time.sleep(self.dice.uniform(0.2, 2.5))
            self._what_is_due()
            [(fault, _, hits)] = self.dice.choices(faults, [weight for _, weight, _ in faults])
            began_ms = now_ms()
            if fault():
                self.happened[fault.__name__] += 1
                self.facts.faults.append((began_ms, hits, fault.__name__))
        self.tell("no more faults")
        while self.later:
            time.sleep(0.1)
            self._what_is_due()
        self.brokers.wait()
        self.brokers.set_clocks_right()
        self.facts.ended_ms = now_ms()
        self.load.end()
        self._drain()
        self._settle()
        for crew in self.crews.values():
            for worker in crew.running.values():
                worker.send(signal.SIGTERM)
        for crew in self.crews.values():
            for client, worker in crew.running.items():
                self._must_end(crew, client, worker)

    def _what_is_due(self) -> None:
        """Do what was put off; start again those that ended by themselves, and report it."""
        now = time.monotonic()
        due = [one for one in self.later if one[0] <= now]
        self.later = [one for one in self.later if one[0] > now]
        for _, do in due:
            do()
        for crew in self.crews.values():
            for sentence in crew.bury(faults=bool(self.happened)):
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
        replayed = replay(self.folder / "log.jsonl", self.folder / "replay", self.topic)
        judged = [
            self._judge_group(crew, replayed.get(crew.group, Replayed([], {}, [])))
            for crew in self.crews.values()
        ]
        wrong = [f"{one.crew.semantics} {what}" for one in judged for what in one.wrong]
        wrong += self.brokers.failed
        faults = sum(self.happened.values())
        if self.options.faults:
            wrong += [
                f"{semantics}: nothing was processed by {way}"
                for semantics, crew in self.crews.items()
                for way in WAYS[semantics]
                if not crew.processed_by(way)
            ]
        table = self._table(judged, faults)
        print(f"\n{table}\n", flush=True)
        self.facts.table = table + "".join(f"\nWRONG {one}" for one in wrong)
        self.facts.write(self.folder)
        print(f"plots: {plot(self.folder)}")
        for one in wrong:
            print(f"WRONG {one}")
        return len(wrong)

    def _judge_group(self, crew: Crew, replayed: Replayed) -> Judged:
        wrong = list(crew.wrong)
        at_most_once = crew.semantics == "at_most_once"
        listed = self._receipts(crew, wrong) if at_most_once else None
        ends = {partition: end for partition, end in self._ends().items() if partition in JUDGED}
        tenures = self._tenures(crew.group)
        written = Written(ends, crew.handed(), crew.done(), tenures, listed)
        compared = compare(written)
        recorded = self._recorded(crew)
        apart = disagreements(at_most_once, BATCH, ends, crew.did(), replayed, recorded)
        wrong += compared.wrong
        wrong += [f"the judges disagree: {sentence}" for sentence in apart]
        if recorded.unexplained is not None:
            wrong.append(f"unexplained: {recorded.unexplained}")
        return Judged(crew, written, compared, replayed, recorded, apart, wrong)

    def _receipts(self, crew: Crew, wrong: list[str]) -> set[tuple[int, int]]:
        """Partition and offset of everything that may have been lost, as an operator reads it."""
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

    def _recorded(self, crew: Crew) -> Recorded:
        """What was recorded, and what of it the specification does not explain."""
        folder = crew.folder / "recorded"
        processed = processed_by(folder)
        shutil.copy(self.folder / "log.jsonl", folder / "log.jsonl")
        return Recorded(processed, validate(read_folder(folder)).unexplained)

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
            key = message.key
            before = world.claim(key).epoch
            world.apply(record)
            if message.group_id == group and world.claim(key).epoch != before:
                found[message.partition] += 1
        return found

    def _table(self, judged: list[Judged], faults: int) -> str:
        """The table of the run."""
        told = ", ".join(f"{number} {what}" for what, number in self.happened.items())
        columns = [one.rows() for one in judged]
        rows: list[tuple[str, list[int | None]]] = [
            (name, [one[name] for one in columns]) for name in columns[0]
        ]
        rows += [
            (
                f"processed by {way}",
                [
                    one.crew.processed_by(way) if way in WAYS[one.crew.semantics] else None
                    for one in judged
                ],
            )
            for way in WAYS["at_least_once"]
        ]
        head = f"{'':32}" + "".join(f"{one.crew.semantics:>16}" for one in judged)
        lines = [
            f"{name:32}" + "".join(f"{'-' if n is None else f'{n:,}':>16}" for n in counts)
            for name, counts in rows
        ]
        return "\n".join([f"{faults} faults: {told}", "", head, *lines])


def now_ms() -> int:
    """This machine's clock, as workers write it down."""
    return time.time_ns() // 1_000_000
