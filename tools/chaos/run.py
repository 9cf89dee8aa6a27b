"""One chaos run: the load, the faults, and what is wrong in the end."""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.client.crew import INTERVAL_S, Stage
from tools.chaos.brokers import BrokerFaults
from tools.chaos.clocks import Clocks
from tools.chaos.crew import COMMAND_S, Crew, Kind, Worker
from tools.chaos.judges.agree import Replayed, replay
from tools.chaos.judges.groups import judge, table
from tools.chaos.load import SET, Load
from tools.chaos.proxy import Proxy
from tools.chaos.worker import WAYS, Share

from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.testing import Cluster

PARTITIONS: Final = 12
DRAIN_S: Final = 60.0
"""How long nothing new may be processed before the rest is lost."""
QUIET_S: Final = 10.0
"""At most once, how long nobody gets anything of a shared topic before the rest is lost. Ranges of
a silent holder are forgotten, and those that were given back are taken, after two intervals."""
END_S: Final = 45.0
"""How long a consumer may take to end in order: `close` takes 30 s at most."""
SHARED_PARTITIONS: Final = 3
"""Fewer than a group has consumers."""


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
        self.began = time.monotonic()
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.happened: Counter[str] = Counter()
        self.loads: list[Load] = []
        self.crews: dict[str, Crew] = {}
        self._begin("partitions", PARTITIONS, options.consumers, pids)
        self._begin("ranges", SHARED_PARTITIONS, options.sharing, pids)

    def _begin(self, share: Share, partitions: int, consumers: int, pids: dict[str, int]) -> None:
        """A topic, and a group of each semantics that consumes it; none without consumers."""
        if consumers == 0:
            return
        load = Load(self.stage, partitions)
        self.loads.append(load)
        for kind in (Kind(semantics, share) for semantics in WAYS):
            self.crews[kind.name] = Crew(
                *(kind, self.stage, load, consumers, self.options, self.folder, pids)
            )

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
        self.tell(f"{crew.name} {twin.name} is a second {client} for {lives_s:.1f} s")
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
        self.tell(f"{crew.name} {worker.name} {how}, starts again in {again_s:.1f} s")
        self.after(again_s, lambda: crew.start(client))

    def stop_consumer(self) -> bool:
        """It stands still, often for longer than its claims live."""
        if (chosen := self._anybody()) is None:
            return False
        crew, _, worker = chosen
        asleep_s = self.dice.uniform(0.5, 6)
        self.tell(f"{crew.name} {worker.name} sleeps for {asleep_s:.1f} s")
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
        self.tell(f"{crew.name} {worker.name}: its clock is set")
        worker.send(signal.SIGUSR1)
        return True

    # --- administrators and brokers -------------------------------------------------------------

    def _administer(self, crew: Crew, *words: str) -> bool:
        """Also while a broker is down: it may fail, but not hang."""
        what = f"marshal {' '.join(words)}"

        def types() -> None:
            try:
                done = crew.marshal(*words)
            except subprocess.TimeoutExpired:
                crew.wrong.append(f"{what} did not end in {COMMAND_S:.0f} s")
                return
            said = (done.stdout + done.stderr).strip().splitlines()
            self.tell(f"{crew.name} {what}: {done.returncode} {said[-1] if said else ''}")

        self.brokers.then(0.0, types)  # other faults go on meanwhile
        return True

    def pause_group(self) -> bool:
        """Nobody owns anything, for some seconds."""
        return self._administer(self._any_crew(), "pause", "--for", f"{self.dice.randint(1, 4)}s")

    def release_claims(self) -> bool:
        """Everybody loses a claim, and may have it again at once."""
        crew = self._any_crew()
        partition = self.dice.choice([*crew.load.judged()])
        return self._administer(crew, "release", f"{crew.load.topic}:{partition}")

    def set_position(self) -> bool:
        """Back, or forward."""
        crew = self._any_crew()
        load = crew.load
        target = self.dice.randint(0, max(1, load.produced // load.partitions))
        return self._administer(crew, "set-position", f"{load.topic}:{SET}={target}")

    def _any_crew(self) -> Crew:
        return self.dice.choice([*self.crews.values()])

    def fail_link(self) -> bool:
        """Of one consumer, one broker, or all."""
        return self.brokers.fail_link(self._consumers())

    def reset_links(self) -> bool:
        """Of one consumer, one broker, or all."""
        return self.brokers.reset_links(self._consumers())

    def move_leader(self) -> bool:
        """Of the log, or of the messages."""
        topic = self.dice.choice((*(one.topic for one in self.loads), self.stage.coordination))
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
        for load in self.loads:
            load.start()
        self._settle()
        faults: list[tuple[Callable[[], bool], int]] = [
            (self.kill_consumer, 6),
            (self.stop_consumer, 5),
            (self.end_consumer, 3),
            (self.set_clock, 2),
            (self.start_twin, 1),
            (self.pause_group, 1),
            (self.release_claims, 1),
            (self.set_position, 1),
            (self.fail_link, 7),
            (self.reset_links, 2),
            (self.pause_brokers, 1),
            (self.brokers.pause_broker, 2),
            (self.brokers.kill_broker, 2),
            (self.brokers.fill_disk, 1),
            (self.move_leader, 1),
            (self.set_broker_clock, 2),
        ]
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until or sum(self.happened.values()) < self.options.faults:
            time.sleep(self.dice.uniform(0.2, 2.5))
            self._what_is_due()
            [(fault, _)] = self.dice.choices(faults, [weight for _, weight in faults])
            if fault():
                self.happened[fault.__name__] += 1
        self.tell("no more faults")
        while self.later:
            time.sleep(0.1)
            self._what_is_due()
        self.brokers.wait()
        self.brokers.set_clocks_right()
        for load in self.loads:
            load.end()
            if twice := load.appended_twice:
                self.tell(f"the producer of {load.topic} appended {twice} messages twice")
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
                self.tell(f"{crew.name} WRONG: {sentence}")

    def _settle(self) -> None:
        """Until everybody owns something: there is enough for all."""
        deadline = time.monotonic() + DRAIN_S
        while idle := [
            (crew, worker)
            for crew in self.crews.values()
            for worker in crew.running.values()
            if not worker.read().holds
        ]:
            time.sleep(0.2)
            self._what_is_due()
            if time.monotonic() > deadline:
                for crew, worker in idle:
                    crew.wrong.append(f"{worker.name} owns nothing after {DRAIN_S:.0f} s")
                return

    def _drain(self) -> None:
        """Until all is processed at least once, or nothing more is by anybody for a while."""
        before, since = -1, time.monotonic()
        while time.monotonic() - since < DRAIN_S:
            self._what_is_due()
            quiet_s = time.monotonic() - since
            if all(self._has_drained(crew, quiet_s) for crew in self.crews.values()):
                return
            done = sum(len(crew.done()) for crew in self.crews.values())
            if done != before:
                before, since = done, time.monotonic()
            time.sleep(0.5)

    def _has_drained(self, crew: Crew, quiet_s: float) -> bool:
        """All is processed, but where positions are set; at most once some may be lost."""
        ends = crew.load.judged()
        done = {each for each in crew.done() if each[0] in ends}
        if len(done) == sum(ends.values()):
            return True
        if crew.shares:
            return crew.at_most_once and quiet_s > QUIET_S
        return crew.at_most_once and {(p, end - 1) for p, end in ends.items()} <= done

    # --- what must be so ------------------------------------------------------------------------

    def _judge(self) -> int:
        write_log(self.stage.cluster.settings, self.stage.coordination, self.folder)
        log = self.folder / "log.jsonl"
        out = self.folder / "replay"
        replayed = replay(log, out, *(one.topic for one in self.loads))
        judged = [
            judge(crew, log, out, replayed.get(crew.group, Replayed([], {}, [])))
            for crew in self.crews.values()
        ]
        wrong = [f"{one.crew.name} {what}" for one in judged for what in one.wrong]
        wrong += self.brokers.failed
        if self.options.faults:
            wrong += [
                f"{name}: nothing was processed by {way}"
                for name, crew in self.crews.items()
                for way in crew.ways
                if not crew.processed_by(way)
            ]
        print(f"\n{table(judged, self.happened)}\n", flush=True)
        for one in wrong:
            print(f"WRONG {one}")
        return len(wrong)
