"""A group goes from 0.1.0 to the present version and back under load, one consumer at a time.

In either direction one of them is killed with -9 in the middle of a batch. On the way up the next
one takes its id, so it takes its claims over at once. On the way down it has another id, so they
must become stale.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from confluent_kafka import Producer

from kafka_marshal.capture import read_capture
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.testing import Broker
from kafka_marshal.validate.reading import LOG_FILE
from tests.client.crew import Stage, until
from tests.upgrade.folding import NOBODY_IS_STALE
from tests.upgrade.versions import PRESENT, Folds, Row, command, differences, environment

PARTITIONS = 6
INTERVAL_S = 2.0
"""So an owner is stale after 4 s."""
WINDOW = 200
BATCH = 50


class Load(threading.Thread):
    """Appends the numbers from 0 on to the partitions in turn, until it is ended."""

    def __init__(self, stage: Stage, topic: str) -> None:
        super().__init__(daemon=True)
        self.produced = 0
        self._topic, self._ended = topic, threading.Event()
        settings = {"bootstrap.servers": stage.bootstrap, "enable.idempotence": True}
        self._producer = Producer({**settings, "linger.ms": 1})
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.03):
            for _ in range(2 * PARTITIONS):
                number, self.produced = self.produced, self.produced + 1
                self._producer.produce(self._topic, b"%d" % number, partition=number % PARTITIONS)
            self._producer.poll(0)

    def end(self) -> None:
        """All that was produced is in the topic."""
        self._ended.set()
        self.join()
        assert self._producer.flush(30) == 0


@attrs.frozen
class Past:
    """What a consumer did before it ended."""

    instance: str
    present: bool
    """Of the present version, not of 0.1.0."""
    killed: bool
    got: tuple[int, ...]
    """The numbers that it processed, in its order."""


class Member:
    """A consumer in a process of its own, under one of the two versions."""

    def __init__(self, version: Path, path: Path, options: dict[str, object]) -> None:
        self.version, self.killed = version, False
        self._path = path
        self._errors = path.with_suffix(".errors").open("w", encoding="utf-8")
        path.touch()
        self._process = subprocess.Popen(
            command("worker.py", json.dumps({"path": str(path), **options})),
            env=environment(version),
            stderr=self._errors,
        )

    @property
    def _lines(self) -> list[str]:
        # A line that is being written counts when it is whole.
        return self._path.read_text(encoding="utf-8").split("\n")[:-1]

    def told(self, word: str) -> list[str]:
        """What it wrote after this word, each time."""
        return [line.removeprefix(f"{word} ") for line in self._lines if line.startswith(word)]

    @property
    def got(self) -> list[int]:
        """The numbers that it processed, in its order."""
        return [int(line) for line in self._lines if line.isdecimal()]

    @property
    def past(self) -> Past:
        """All that it did."""
        [instance] = self.told("instance")
        return Past(instance, self.version == PRESENT, self.killed, tuple(self.got))

    @property
    def owns_and_processes(self) -> bool:
        """It has more claims than it lost, and has processed something."""
        self.assert_alive()
        return len(self.told("claimed")) > len(self.told("lost")) and bool(self.got)

    def assert_alive(self) -> None:
        assert self._process.poll() is None, self.errors

    @property
    def errors(self) -> str:
        return self._path.with_suffix(".errors").read_text(encoding="utf-8")

    def ask_to_end(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def assert_ended(self) -> None:
        """It ends in order, as it was asked to."""
        assert self._process.wait(20) == 0, self.errors
        assert self.told("ended"), self.errors

    def kill(self) -> None:
        """kill -9, in the middle of a batch."""
        self._process.send_signal(signal.SIGUSR1)
        until(lambda: self.told("holding"))
        self.assert_alive()
        self.killed = True
        self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._errors.close()


class Fleet:
    """Consumers of one group, and all that it ever had."""

    def __init__(self, stage: Stage, topic: str, semantics: str, folder: Path) -> None:
        self.load = Load(stage, topic)
        self.members: dict[str, Member] = {}
        """Those that live, by client id."""
        self.ever: list[Member] = []
        self._folder = folder
        self._options: dict[str, object] = {
            "bootstrap": stage.bootstrap,
            "group": stage.group,
            "coordination_topic": stage.coordination,
            "topic": topic,
            "semantics": semantics,
            "heartbeat_interval_s": INTERVAL_S,
            "window": WINDOW,
            "batch": BATCH,
        }

    def start(self, client_id: str, version: Path) -> None:
        path = self._folder / f"{len(self.ever)}-{client_id}.txt"
        member = Member(version, path, {**self._options, "client_id": client_id})
        self.members[client_id] = member
        self.ever.append(member)

    def end(self, *client_ids: str) -> None:
        """These end in order."""
        ending = [self.members.pop(client_id) for client_id in client_ids]
        for member in ending:
            member.ask_to_end()
        for member in ending:
            member.assert_ended()

    def kill(self, client_id: str) -> None:
        self.members.pop(client_id).kill()

    def works(self) -> None:
        """Wait until everybody has claims, and every partition is processed beyond now."""
        until(lambda: all(each.owns_and_processes for each in self.members.values()), 40)
        self.processes(self.load.produced)

    def processes(self, number: int) -> None:
        """Wait until those that live have processed this number, or a later one, everywhere."""
        until(lambda: self._behind(number) == set(), 40)

    def _behind(self, number: int) -> set[int]:
        got = [each for member in self.members.values() for each in member.got]
        return set(range(PARTITIONS)) - {each % PARTITIONS for each in got if each >= number}

    def close(self) -> None:
        self.load.end()
        for member in self.ever:
            member.close()


@contextmanager
def fleet(stage: Stage, semantics: str, folder: Path) -> Iterator[Fleet]:
    running = Fleet(stage, stage.topic(PARTITIONS, 0), semantics, folder)
    try:
        yield running
    finally:
        running.close()


def up_and_down(running: Fleet, old: Path) -> None:
    """Three of 0.1.0, then three of the present version, then three of 0.1.0; all end in order."""
    for client_id in ("ann", "bob", "cid"):
        running.start(client_id, old)
    running.works()
    running.end("ann")
    running.start("ann", PRESENT)
    running.works()
    running.kill("bob")
    running.start("bob", PRESENT)
    running.works()
    running.end("cid")
    running.start("cid", PRESENT)
    running.works()
    running.end("ann")
    running.start("ann", old)
    running.works()
    running.kill("bob")
    running.start("bert", old)
    running.works()
    running.end("cid")
    running.start("cid", old)
    running.works()
    running.load.end()
    running.processes(running.load.produced - PARTITIONS)
    running.end(*running.members)


def owners(rows: list[Row]) -> dict[str, list[str]]:
    """The instances that owned each claim, one after the other."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for name, claim in row["claims"].items():
            instance = claim["owner_instance"]
            if instance is not None and found[name][-1:] != [instance]:
                found[name].append(instance)
    return found


def granted(rows: list[Row]) -> dict[str, list[set[int]]]:
    """The numbers that each instance was granted, by batch."""
    found: dict[str, list[set[int]]] = defaultdict(list)
    positions: Counter[str] = Counter()
    for row in rows:
        for name, claim in row["claims"].items():
            if row["verdict"] == "granted":
                partition = int(name.rpartition("/")[2])
                offsets = range(positions[name], claim["position"])
                numbers = {offset * PARTITIONS + partition for offset in offsets}
                found[claim["owner_instance"]].append(numbers)
            positions[name] = claim["position"]
    return found


def moved(pasts: list[Past], rows: list[Row]) -> None:
    """Every claim went from 0.1.0 to the present version and back."""
    present = {each.instance for each in pasts if each.present}
    found = owners(rows)
    assert len(found) == PARTITIONS
    for name, instances in found.items():
        versions = ["new" if each in present else "old" for each in instances]
        assert versions[0] == versions[-1] == "old", f"{name}: {versions}"
        assert "new" in versions, f"{name}: {versions}"


def none_lost(pasts: list[Past], produced: int) -> None:
    """Everything was processed; again only what was in the window of one that was killed."""
    ended = Counter(number for each in pasts if not each.killed for number in each.got)
    assert [number for number, times in ended.items() if times > 1] == []
    times = Counter(number for each in pasts for number in each.got)
    assert set(range(produced)) == times.keys()
    for each in pasts:
        again = [number for number in each.got if times[number] > 1]
        if each.killed:
            assert again, "what it had in hand was not done"
            assert max(Counter(number % PARTITIONS for number in again).values()) <= WINDOW


def none_twice(pasts: list[Past], produced: int, batches: dict[str, list[set[int]]]) -> None:
    """Nothing was processed twice; each one that was killed lost a part of one batch a claim."""
    times = Counter(number for each in pasts for number in each.got)
    assert [number for number, count in times.items() if count > 1] == []
    lost = set(range(produced)) - times.keys()
    for each in pasts:
        theirs = [missing for batch in batches[each.instance] if (missing := batch & lost)]
        assert bool(theirs) is each.killed, f"{each.instance}: {theirs}"
        partitions = [min(missing) % PARTITIONS for missing in theirs]
        assert len(set(partitions)) == len(partitions), f"two batches of one claim: {theirs}"
        lost -= set().union(*theirs)
    assert lost == set(), "never granted, and passed over"


def doctored(pasts: list[Past], change: Callable[[tuple[int, ...]], tuple[int, ...]]) -> list[Past]:
    """The last that was not killed did something else."""
    [*_, wrong] = (each for each in pasts if not each.killed)
    changed = attrs.evolve(wrong, got=change(wrong.got))
    return [changed if each is wrong else each for each in pasts]


@pytest.mark.parametrize(
    "semantics", ["at_least_once", pytest.param("at_most_once", marks=pytest.mark.night)]
)
def test_a_group_is_upgraded_and_rolled_back_under_load(
    semantics: str,
    kafka_broker: Broker,
    old_version: Path,
    old_folds: Folds,
    new_folds: Folds,
    tmp_path: Path,
) -> None:
    stage = Stage(kafka_broker)
    with fleet(stage, semantics, tmp_path) as running:
        up_and_down(running, old_version)
    for each in running.ever:
        [version] = each.told("version")
        assert version.startswith("0.1.0 ") or each.version == PRESENT, version
        assert version.endswith(f" {each.version / 'kafka_marshal' / '__init__.py'}"), version
    write_log(stage.cluster.settings, stage.coordination, tmp_path)
    log = list(read_capture(tmp_path / LOG_FILE))
    interval_ms = int(INTERVAL_S * 1_000)
    rows = old_folds.fold(log, interval_ms)
    pasts = [each.past for each in running.ever]

    def judge(pasts: list[Past]) -> None:
        if semantics == "at_least_once":
            none_lost(pasts, running.load.produced)
        else:
            none_twice(pasts, running.load.produced, granted(rows))

    judge(pasts)
    moved(pasts, rows)
    assert differences(rows, new_folds.fold(log, interval_ms)) == []

    # Each check is seen to fail.
    for change in (lambda got: got[:-1], lambda got: (*got, got[-1])):
        with pytest.raises(AssertionError):
            judge(doctored(pasts, change))
    with pytest.raises(AssertionError):
        moved([attrs.evolve(each, present=False) for each in pasts], rows)
    broken = differences(rows, new_folds.fold(log, interval_ms, NOBODY_IS_STALE))
    assert any("took_over is live_owner now" in each for each in broken), broken[:3]
