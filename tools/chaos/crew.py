"""The consumers of one group: processes that run, processes that ran, and what they wrote down."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import define, field, frozen
from tests.client.crew import INTERVAL_S, Stage
from tools.chaos.judges.agree import Did
from tools.chaos.judges.compare import WINDOW
from tools.chaos.load import Load
from tools.chaos.worker import WAYS, Share

from kafka_marshal.reaper import Reaper

BATCH: Final = 50
SHARED_WINDOW: Final = 1_000
"""How far ranges run ahead. One that commits each message holds the position: within 100, on a busy
machine, all four together processed 50 messages of a partition a second."""
COMMAND_S: Final = 120.0
"""How long a command may take, also while a broker is down."""


@frozen
class Kind:
    """How the consumers of a group consume."""

    semantics: str
    share: Share = "partitions"

    @property
    def name(self) -> str:
        """In output, and of the folder."""
        return self.semantics if self.share == "partitions" else f"{self.semantics}_ranges"


@define
class Noted:
    """What one worker's file says; read on from where it was read to."""

    handed: Counter[tuple[int, int]] = field(factory=Counter)
    done: set[tuple[int, int]] = field(factory=set)
    claims: set[int] = field(factory=set)
    wins: set[tuple[int, int]] = field(factory=set)
    """Partition and epoch of each claim that it was given, or id of each range."""
    ranges: set[tuple[int, int]] = field(factory=set)
    """Partition and id of the ranges that it holds."""
    under: set[tuple[int, int, int]] = field(factory=set)
    """Partition, offset, and epoch or id of the range of each message."""
    failures: list[str] = field(factory=list)
    _read: int = 0

    @property
    def holds(self) -> bool:
        """It owns something."""
        return bool(self.claims or self.ranges)

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
                case ["+", partition, offset, *rest]:
                    self.handed[int(partition), int(offset)] += 1
                    if len(rest) == 2:
                        self.under.add((int(partition), int(offset), int(rest[1])))
                case ["-", partition, offset, *_]:
                    self.done.add((int(partition), int(offset)))
                case ["claimed", partition, epoch]:
                    self.wins.add((int(partition), int(epoch)))
                    self.claims.add(int(partition))
                case ["lost", partition, _]:
                    self.claims.discard(int(partition))
                case ["granted", partition, id_]:
                    self.wins.add((int(partition), int(id_)))
                    self.ranges.add((int(partition), int(id_)))
                case ["ended_range", partition, id_, _]:
                    self.ranges.discard((int(partition), int(id_)))
                case ["failed", *words]:
                    self.failures.append(" ".join(words))
                case _:
                    pass


class Worker:
    """A consumer in a process of its own."""

    def __init__(self, name: str, way: str, asked: dict[str, object], folder: Path) -> None:
        self.name, self.way = name, way
        self.client = str(asked["client_id"])
        self.noted = Noted()
        self.asleep = False
        self._notes = folder / f"{name}.txt"
        self.errors = folder / f"{name}.errors.txt"
        asked = {**asked, "way": way, "notes": str(self._notes)}
        command = [sys.executable, "-u", "-m", "tools.chaos.worker", json.dumps(asked)]
        with self.errors.open("w", encoding="utf-8") as errors:
            self._process = subprocess.Popen(command, stdout=errors, stderr=errors, process_group=0)
        # One for each: whatever ends this process, the worker ends too, also one that sleeps.
        self._sweeper: Reaper | None = Reaper(None)
        self._sweeper.watch(self._process.pid)

    def read(self) -> Noted:
        """All that it has written so far."""
        self.noted.read(self._notes)
        return self.noted

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """It has not ended."""
        return self._process.poll() is None

    @property
    def found_no_broker(self) -> bool:
        """It ended before it owned anything, since no broker answered."""
        noted = self.read()
        return not noted.wins and bool(noted.failures) and "BrokerFailed " in noted.failures[-1]

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
        """Why it ended, as far as it wrote."""
        if self.read().failures:
            return self.noted.failures[-1]
        lines = self.errors.read_text(encoding="utf-8", errors="replace").splitlines()
        return f"exit code {self._process.returncode}, {lines[-1] if lines else 'no word'}"


class Crew:
    """The consumers of one group: those that run, and those that ran."""

    def __init__(
        self,
        kind: Kind,
        stage: Stage,
        load: Load,
        consumers: int,
        options: argparse.Namespace,
        folder: Path,
        pids: dict[str, int],
    ) -> None:
        self._pids = pids
        """Of everybody in the run, by name: a worker's is its group's and its own."""
        self.kind, self.load = kind, load
        self._stage = stage
        self.group = f"{stage.group}-{self.name}"
        self.folder = folder / self.name
        self.folder.mkdir()
        self.running: dict[str, Worker] = {}
        self.former: list[Worker] = []
        self.wrong: list[str] = []
        self.could_not_start = 0
        """How many found no broker: such a consumer ends, and is started again."""
        self._twins: set[str] = set()
        """Client ids that two processes had for a while."""
        self._mistake = options.mistake
        self._asked: dict[str, object] = {
            "bootstrap": stage.bootstrap,
            "group": self.group,
            "coordination_topic": stage.coordination,
            "heartbeat_interval_s": INTERVAL_S,
            "semantics": kind.semantics,
            "share": kind.share,
            "topic": load.topic,
            "window": SHARED_WINDOW if self.shares else WINDOW,
            "batch": BATCH,
            "pause_s": 0.001,
            "record_to": str(self.folder / "recorded"),
            "settings": {"message.timeout.ms": str(options.outcome_ms)},
        }
        for number in range(consumers):
            self.start(f"c{number}")

    @property
    def name(self) -> str:
        """How it consumes."""
        return self.kind.name

    @property
    def shares(self) -> bool:
        """Its consumers share the topic by ranges."""
        return self.kind.share == "ranges"

    @property
    def at_most_once(self) -> bool:
        """What is lost is not processed again."""
        return self.kind.semantics == "at_most_once"

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways of consuming that its consumers take."""
        return WAYS[self.kind.semantics]

    def start(self, client: str) -> None:
        """A consumer, or one again under its client id."""
        self.running[client] = self._new(client)

    def start_twin(self, client: str) -> Worker:
        """One more under the same client id, by mistake: either of them may end, and says why."""
        twin = self._new(client)
        self._twins.add(client)
        self.former.append(twin)
        return twin

    def was_twin(self, client: str, worker: Worker) -> bool:
        """Whether it failed because another process had its client id, which was so."""
        failures = worker.read().failures
        return client in self._twins and bool(failures) and failures[-1].startswith("IdUsedTwice ")

    def _new(self, client: str) -> Worker:
        """A process, by the way of consuming that has done the least."""
        running = {worker.way for worker in self.running.values()}
        way = min(self.ways, key=lambda way: (way in running, self.processed_by(way)))
        name = f"{client}-{len(self.former) + len(self.running)}-{way}"
        asked = {**self._asked, "client_id": client}
        if self._mistake and client == "c0":
            asked["mistake"] = self._mistake
        worker = Worker(name, way, asked, self.folder)
        self._pids[self.name_of(worker)] = worker.pid
        return worker

    def name_of(self, worker: Worker) -> str:
        """Of one of all workers of the run."""
        return f"{self.name} {worker.name}"

    def gone(self, client: str) -> Worker:
        """It does not run any more."""
        worker = self.running.pop(client)
        self.former.append(worker)
        return worker

    def marshal(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command about the group, as an operator would type it."""
        command = [sys.executable, "-m", "kafka_marshal.cli", words[0], self.group, *words[1:]]
        command += ["--bootstrap", self._stage.bootstrap, "--topic", self._stage.coordination]
        if words[0] in ("set-position", "receipts"):
            command += ["--heartbeat-interval", f"{INTERVAL_S:g}"]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMMAND_S
        )

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

    def did(self) -> dict[str, Did]:
        """What was done under each client id."""
        found: dict[str, Did] = {}
        for worker in self.all():
            noted, before = worker.read(), found.get(worker.client, Did(0, set(), Counter(), set()))
            found[worker.client] = Did(
                before.processes + 1,
                before.won | noted.wins,
                before.handed + noted.handed,
                before.done | noted.done,
                before.under | noted.under,
            )
        return found

    def processed_by(self, way: str) -> int:
        """How many messages were processed by this way of consuming."""
        return sum(len(worker.read().done) for worker in self.all() if worker.way == way)

    def bury(self, faults: bool) -> list[str]:
        """Start those again that ended by themselves, which is wrong; a sentence about each.

        While there are `faults`, one may find no broker when it starts.
        """
        dead = [client for client, worker in self.running.items() if not worker.running]
        found = []
        for client in dead:
            worker = self.gone(client)
            if faults and worker.found_no_broker:
                self.could_not_start += 1
            elif not self.was_twin(client, worker):
                found.append(f"{worker.name} ended by itself: {worker.last_words()}")
            self.start(client)
        self.wrong += found
        return found
