"""One soak: the load, four consumers, and what they processed."""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Producer
from tests.client.crew import Stage
from tools.chaos.worker import WAYS
from tools.soak.judge import Samples, derived, fits, table

from kafka_marshal.reaper import Reaper
from kafka_marshal.testing import Broker, Cluster

SEMANTICS: Final = ("at_least_once", "at_most_once")
OF_A_GROUP: Final = 2
"""Processes."""
SIZE: Final = 200
"""Bytes of a message."""
WARM_UP: Final = 1 / 6
"""Of the time; caches and buffers fill meanwhile."""
SETTLE_S: Final = 120.0
END_S: Final = 45.0
DRAIN_S: Final = 60.0
"""How long nothing new may be processed before the rest is lost."""


class Load(threading.Thread):
    """Produces numbered messages at a rate, until it is ended."""

    def __init__(self, stage: Stage, topic: str, partitions: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.produced = 0
        self._topic, self._partitions, self._rate = topic, partitions, rate
        self._ended = threading.Event()
        settings = {"bootstrap.servers": stage.bootstrap, "linger.ms": 5, "log_level": 0}
        self._producer = Producer(settings)

    def run(self) -> None:
        """Produce."""
        began = time.monotonic()
        while not self._ended.wait(0.02):
            for number in range(self.produced, int((time.monotonic() - began) * self._rate)):
                text = b"%d" % number
                self._producer.produce(
                    *(self._topic, text.ljust(SIZE), b"%d" % (number % 1000)),
                    partition=number % self._partitions,
                )
                self.produced = number + 1
            self._producer.poll(0)

    def end(self) -> None:
        """Wait until the broker has everything."""
        self._ended.set()
        self.join()
        if self._producer.flush(60):
            raise SystemExit("soak: the broker did not take what was produced")


class Consuming:
    """A consumer in a process of its own."""

    def __init__(self, name: str, asked: dict[str, object], folder: Path) -> None:
        self.name, self.stem = name, folder / name
        command = [sys.executable, "-u", "-m", "tools.soak.worker", json.dumps(asked)]
        with self.stem.with_suffix(".log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        self._reaper: Reaper | None = Reaper(None)
        self._reaper.watch(self.process.pid)

    def samples(self) -> list[dict[str, float | None]]:
        """What it sampled so far."""
        path = self.stem.with_suffix(".samples.jsonl")
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def processed(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The numbers of all messages that it processed."""
        path = self.stem.with_suffix(".processed")
        return np.fromfile(path, dtype="<i8") if path.exists() else np.empty(0, np.int64)

    def end(self) -> str | None:
        """In order; what was wrong with that."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"{self.name} did not end {END_S:.0f} s after SIGTERM"
        self.kill()
        return f"{self.name} ended with exit code {code}" if code else None

    def kill(self) -> None:
        """At once."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._reaper is not None:
            self._reaper.leave()
            self._reaper = None


class Soak:
    """One run."""

    def __init__(self, broker: Broker | Cluster, options: argparse.Namespace, folder: Path) -> None:
        self.options, self.folder = options, folder
        self.stage = Stage(broker)
        self.topic = self.stage.topic(options.partitions, 0)
        self.wrong: list[str] = []
        dice = random.Random(options.seed)
        self.groups = {
            semantics: [
                self._consuming(semantics, f"c{number}", way)
                for number, way in enumerate(dice.sample(ways(semantics), OF_A_GROUP))
            ]
            for semantics in SEMANTICS
        }
        self.all = [each for group in self.groups.values() for each in group]
        if options.leak:
            print(f"soak: {self.all[0].name} {options.leak}", flush=True)
        self.load = Load(self.stage, self.topic, options.partitions, options.rate)

    def _consuming(self, semantics: str, client: str, way: str) -> Consuming:
        name = f"{semantics}-{way}"
        first = (semantics, client) == (SEMANTICS[0], "c0")
        kept = self.folder / "kept" / name
        kept.mkdir(parents=True)
        asked = {
            "bootstrap": self.stage.bootstrap,
            "group_id": f"{self.stage.group}-{semantics}",
            "client_id": client,
            "coordination_topic": self.stage.coordination,
            "heartbeat_interval_s": self.options.interval,
            "semantics": semantics,
            "topic": self.topic,
            "way": way,
            # A consumer with a snapshot cannot record.
            **(
                {"record_to": str(kept)} if client == "c0" else {"snapshot": str(kept / "snapshot")}
            ),
            "kept": str(kept),
            "stem": str(self.folder / name),
            "every_s": self.options.every,
            "leak": self.options.leak if first else None,
            "traced": self.options.traced,
        }
        return Consuming(name, asked, self.folder)

    def run(self) -> int:
        """All of it; how many things are wrong."""
        try:
            self._settle()
            began = time.time()
            self.load.start()
            self._wait(self.options.seconds * WARM_UP)
            self._look()
            self._wait(self.options.seconds * (1 - WARM_UP))
            self._look()
            ended = time.time()
            self.load.end()
            self._drain()
            for each in self.all:
                each.process.send_signal(signal.SIGTERM)
            self.wrong += [what for each in self.all if (what := each.end()) is not None]
        finally:
            for each in self.all:
                each.kill()
        self._account()
        self._judge(began, ended)
        for what in self.wrong:
            print(f"WRONG {what}")
        return len(self.wrong)

    def _look(self) -> None:
        """Have what each process keeps noted, if it is traced."""
        for each in self.all if self.options.traced else ():
            each.process.send_signal(signal.SIGUSR1)

    def _settle(self) -> None:
        """Until each consumer has its share of the claims."""
        least = self.options.partitions // OF_A_GROUP
        deadline = time.monotonic() + SETTLE_S
        while True:
            held = {name: [_held(each) for each in group] for name, group in self.groups.items()}
            if all(
                sum(each) == self.options.partitions and min(each) >= least
                for each in held.values()
            ):
                print(f"soak: claims are shared: {held}", flush=True)
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"soak: the claims are not shared after {SETTLE_S:.0f} s: {held}")
            self._running()
            time.sleep(0.1)

    def _running(self) -> None:
        for each in self.all:
            if each.process.poll() is not None:
                raise SystemExit(f"soak: {each.name} ended by itself, see {each.stem}.log")

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(min(1.0, max(0.0, until - time.monotonic())))
            self._running()

    def _drain(self) -> None:
        """Until every group has processed everything, or nothing more for a while."""
        before, since = -1, time.monotonic()
        while time.monotonic() - since < DRAIN_S:
            done = [
                sum(each.stem.with_suffix(".processed").stat().st_size // 8 for each in group)
                for group in self.groups.values()
            ]
            if min(done) >= self.load.produced:
                return
            if sum(done) != before:
                before, since = sum(done), time.monotonic()
            elif self.options.leak == "skips_messages":
                return  # it waits in vain
            time.sleep(0.2)

    def _account(self) -> None:
        """Every message was processed once by each group: there was no fault."""
        print(f"\n{'':32}{'produced':>12}{'processed':>12}{'lost':>8}{'twice':>8}")
        for name, group in self.groups.items():
            times = np.bincount(
                np.concatenate([each.processed() for each in group]), minlength=self.load.produced
            )
            lost, twice = int((times == 0).sum()), int((times > 1).sum())
            print(f"{name:32}{self.load.produced:>12,}{times.sum():>12,}{lost:>8,}{twice:>8,}")
            if lost or twice:
                self.wrong.append(f"{name}: {lost} messages lost, {twice} processed twice")

    def _judge(self, began: float, ended: float) -> None:
        samples: Mapping[str, Samples] = {
            each.name: derived(each.samples(), began) for each in self.all
        }
        warm_up_s, until_s = self.options.seconds * WARM_UP, ended - began
        fitted = [
            fit for name, each in samples.items() for fit in fits(name, each, warm_up_s, until_s)
        ]
        print(f"\n{table(fitted)}\n")
        self.wrong += [what for fit in fitted if (what := fit.wrong) is not None]


def _held(each: Consuming) -> int:
    """How many claims it has."""
    samples = each.samples()
    return int(samples[-1]["held"] or 0) if samples else 0


def ways(semantics: str) -> list[str]:
    """Ways of consuming; but none that waits for the log after each message, which is too slow."""
    slow = {"poll"} if semantics == "at_least_once" else set()
    return sorted({*WAYS[semantics]} - slow)
