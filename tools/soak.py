"""Consumers on real brokers under random faults, for a while: `make soak ARGS="--seconds 120"`.

Whatever the dice say is killed with -9, put to sleep, ended in order and started again; the group
is paused, a position is set, and with three brokers a broker is killed or stands still. Messages
are produced all the time. In the end everything must have been processed, no more than a window
again for every new owner, and at most once nothing twice; and the specification must explain the
whole run as it was recorded. The seed says what is done to whom, and not what the machine's load
makes of it.
"""

from __future__ import annotations

import argparse
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

from confluent_kafka import Producer
from tests.runtime.broken import MISTAKES
from tests.runtime.crew import RULES, Process, Stage

from kafka_marshal.capture import read_capture
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.world import World
from kafka_marshal.runtime.recording import write_log
from kafka_marshal.testing import QUICK, Cluster
from kafka_marshal.validate import read_folder, validate

PARTITIONS = 6
SET = 0
"""Of this partition positions are set, so nothing is said of how often its messages come."""
WINDOW = 100
BATCH = 50
A_SECOND = 300
"""Messages that are produced, at most."""
DRAIN_S = 60.0


class Load(threading.Thread):
    """Numbers, all the time until it is ended."""

    def __init__(self, stage: Stage, topic: str) -> None:
        super().__init__(daemon=True)
        self.produced = 0
        self._topic, self._ended = topic, threading.Event()
        # With more in flight a broker's death could take numbers that were acknowledged to nobody.
        settings = {"bootstrap.servers": stage.bootstrap, "enable.idempotence": True}
        self._producer = Producer({**settings, "message.timeout.ms": 300_000})

    def run(self) -> None:
        """Produce."""
        while not self._ended.wait(10 / A_SECOND):
            for _ in range(10):
                number, self.produced = self.produced, self.produced + 1
                self._producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS)
            self._producer.poll(0)

    def end(self) -> None:
        """Everything is there."""
        self._ended.set()
        self.join()
        if self._producer.flush(120):
            raise SystemExit("soak: the brokers did not take what was produced")


class Soak:
    """One run."""

    def __init__(self, cluster: Cluster, options: argparse.Namespace, folder: Path) -> None:
        self.cluster, self.options, self.folder = cluster, options, folder
        self.dice = random.Random(options.seed)
        self.stage = Stage(cluster, copies=len(cluster.numbers))
        self.topic = self.stage.topic(PARTITIONS, 0)
        self.began = time.monotonic()
        self.crew: dict[str, Process] = {}
        self.former: list[Process] = []
        self.later: list[tuple[float, Callable[[], None]]] = []
        self.happened: Counter[str] = Counter()
        self.down: set[int] = set()
        self.asleep: set[str] = set()
        self.stage.errors = (folder / "consumers.txt").open("w", encoding="utf-8")

    def tell(self, what: str) -> None:
        """One line of what happens."""
        print(f"{time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        """Do it then."""
        self.later.append((time.monotonic() + seconds, do))

    # --- consumers ------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a consumer, or start it again under its id."""
        semantics = {"semantics": "at_most_once"} if self.options.at_most_once else {}
        if self.options.mistake and name == "w0":
            semantics["mistake"] = self.options.mistake
        self.crew[name] = self.stage.process(
            name,
            self.topic,
            window=WINDOW,
            batch=BATCH,
            pause_s=0.001,
            record_to=str(self.folder),
            settings={"message.timeout.ms": str(self.options.outcome_ms)},
            **semantics,
        )

    def kill(self, name: str) -> None:
        """Kill -9, and again some seconds later under the same id."""
        process = self.crew.pop(name)
        process.kill()
        self._over(name, process, "is killed")

    def end_in_order(self, name: str) -> None:
        """It gives its claims up."""
        process = self.crew.pop(name)
        process.send(signal.SIGTERM)
        if not process.ended(40):
            raise SystemExit(f"soak: {name} does not end when it is asked to")
        self._over(name, process, "ends in order")

    def _over(self, name: str, process: Process, how: str) -> None:
        again_s = self.dice.uniform(0, 5)
        self.former.append(process)
        self.tell(f"{name} {how}, and is started again in {again_s:.1f} s")
        self.after(again_s, lambda: self.start(name))

    def sleep(self, name: str) -> None:
        """It stands still, often for longer than its claims live."""
        process, asleep_s = self.crew[name], self.dice.uniform(0.5, 6)
        self.tell(f"{name} sleeps for {asleep_s:.1f} s")
        process.send(signal.SIGSTOP)
        self.asleep.add(name)

        def awake() -> None:
            self.asleep.discard(name)
            if self.crew.get(name) is process:
                process.send(signal.SIGCONT)

        self.after(asleep_s, awake)

    # --- administrators and brokers -------------------------------------------------------------

    def marshal(self, *words: str) -> None:
        """A command, as an operator would type it."""
        command = [
            sys.executable,
            "-m",
            "kafka_marshal.cli",
            words[0],
            self.stage.group,
            *words[1:],
        ]
        command += ["--bootstrap", self.stage.bootstrap, "--topic", self.stage.coordination]
        if words[0] == "set-position":
            command += ["--heartbeat-interval", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip().splitlines()
        self.tell(f"marshal {' '.join(words)}: {done.returncode} {said[-1] if said else ''}")

    def pause_group(self) -> None:
        """Nobody owns anything, for some seconds."""
        self.marshal("pause", "--for", f"{self.dice.randint(1, 4)}s")

    def set_position(self) -> None:
        """Back, or forward."""
        target = self.dice.randint(0, max(1, self.load.produced // PARTITIONS))
        self.marshal("set-position", f"{self.topic}:{SET}={target}")

    def kill_broker(self) -> None:
        """One of three, and it comes back."""
        number = self.dice.choice(self.cluster.running)
        self.down.add(number)
        self.cluster.kill(number)
        gone_s = self.dice.uniform(1, 8)
        self.tell(f"broker {number} is killed for {gone_s:.1f} s")

        def back() -> None:
            self.cluster.start(number)
            self.down.discard(number)
            self.tell(f"broker {number} is back")

        self.after(gone_s, back)

    def pause_brokers(self) -> None:
        """All of them stand still."""
        still_s = self.dice.uniform(0.5, 2.5 + self.options.outcome_ms / 1000)
        self.tell(f"the brokers stand still for {still_s:.1f} s")
        self.cluster.pause()
        time.sleep(still_s)
        self.cluster.resume()

    # --- the run --------------------------------------------------------------------------------

    def run(self) -> int:
        """All of it; how many things are wrong."""
        try:
            self._mishaps()
        finally:
            for process in (*self.crew.values(), *self.former):
                process.__exit__()
        return self._judge()

    def _mishaps(self) -> None:
        names = [f"w{number}" for number in range(self.options.consumers)]
        for name in names:
            self.start(name)
        self.load = Load(self.stage, self.topic)
        self.load.start()
        while not all(process.told("claimed") for process in self.crew.values()):
            time.sleep(0.1)
        until = time.monotonic() + self.options.seconds
        mishaps: list[tuple[Callable[[str], None] | Callable[[], None], int]] = [
            (self.kill, 4),
            (self.sleep, 4),
            (self.end_in_order, 2),
            (self.pause_group, 1),
            (self.set_position, 1),
            (self.pause_brokers, 1),
        ]
        if len(self.cluster.numbers) > 1:
            mishaps.append((self.kill_broker, 2))
        while time.monotonic() < until:
            time.sleep(self.dice.uniform(0.2, 2.5))
            self._what_is_due()
            weights = [weight for _, weight in mishaps]
            [mishap] = self.dice.choices([one for one, _ in mishaps], weights)
            self._happen(mishap)
        self.tell("no more mishaps")
        while self.later:
            time.sleep(0.1)
            self._what_is_due()
        self.load.end()
        self._drain()
        for process in self.crew.values():
            process.send(signal.SIGTERM)
        for name, process in self.crew.items():
            if not process.ended(40):
                self.tell(f"{name} does not end when it is asked to")

    def _happen(self, mishap: Callable[..., None]) -> None:
        to_consumer = mishap in (self.kill, self.sleep, self.end_in_order)
        if to_consumer and self.crew:
            name = self.dice.choice(sorted(self.crew))
            if mishap == self.kill or name not in self.asleep:
                mishap(name)
        elif not to_consumer and not self.down:
            mishap()
        self.happened[mishap.__name__] += 1

    def _what_is_due(self) -> None:
        now = time.monotonic()
        due = [one for one in self.later if one[0] <= now]
        self.later = [one for one in self.later if one[0] > now]
        for _, do in due:
            do()

    def _got(self) -> list[list[int]]:
        return [process.got for process in (*self.former, *self.crew.values())]

    def _drain(self) -> None:
        """Until the last of every partition came, or nothing comes any more."""
        last = set(range(self.load.produced - PARTITIONS, self.load.produced))
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline:
            time.sleep(0.5)
            if last <= {number for each in self._got() for number in each}:
                time.sleep(1)
                return

    # --- what must be so ------------------------------------------------------------------------

    def _judge(self) -> int:
        wrong: list[str] = []
        times = Counter(number for each in self._got() for number in each)
        said = [f for each in (*self.former, *self.crew.values()) for f in each.told("failed")]
        wrong += [f"a consumer {one}" for one in said]
        records = write_log(self.stage.cluster.settings, self.stage.coordination, self.folder)
        tenures = self._tenures()
        for partition in range(PARTITIONS):
            if partition == SET:
                continue
            numbers = range(partition, self.load.produced, PARTITIONS)
            lost = [number for number in numbers if not times[number]]
            repeated = sum(times[number] - 1 for number in numbers if times[number])
            owners = tenures[partition]
            self.tell(
                f"partition {partition}: {len(numbers)} messages, {owners} tenures, "
                f"{len(lost)} lost, {repeated} repeated"
            )
            if self.options.at_most_once:
                lost_max, repeated_max = BATCH * owners, 0
            else:
                lost_max, repeated_max = 0, WINDOW * (owners - 1)
            if len(lost) > lost_max:
                wrong.append(f"partition {partition}: lost {len(lost)}, such as {lost[:5]}")
            if repeated > repeated_max:
                wrong.append(f"partition {partition}: {repeated} repeated, {repeated_max} allowed")
        judgement = validate(read_folder(self.folder))
        self.tell(f"{records} records; explained events: {dict(judgement.kinds)}")
        if judgement.unexplained is not None:
            wrong.append(f"unexplained: {judgement.unexplained}")
        self.tell(f"what happened: {dict(self.happened)}")
        for one in wrong:
            self.tell(f"WRONG: {one}")
        return len(wrong)

    def _tenures(self) -> Counter[int]:
        """How often each of the topic's claims was won, as the log says."""
        found: Counter[int] = Counter()
        worlds: dict[int, World] = {}
        for raw in read_capture(self.folder / "log.jsonl"):
            try:
                record = raw.decoded()
            except MalformedRecord:
                continue
            world = worlds.setdefault(record.partition, World(RULES))
            message = record.message
            key = ClaimKey(message.group_id, message.topic, message.partition)
            before = None if isinstance(message, ReleaseGroup) else world.claim(key).epoch
            world.apply(record)
            if not isinstance(message, ReleaseGroup) and world.claim(key).epoch != before:
                found[message.partition] += 1
        return found


def main() -> None:
    """Run it; exits 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--consumers", type=int, default=3)
    parser.add_argument("--brokers", type=int, default=1, choices=(1, 3))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--at-most-once", action="store_true")
    parser.add_argument("--outcome-ms", type=int, default=3_000, help="then it is unknown")
    parser.add_argument("--mistake", choices=sorted(MISTAKES), help="w0 is broken, to see it fail")
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
