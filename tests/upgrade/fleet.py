"""A fleet of two versions: consumers in processes of their own, the load, and what each one did."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.client.appender import Appender
from tests.client.crew import Stage, until
from tests.upgrade.versions import PRESENT, command, environment


class Load(threading.Thread):
    """Appends the numbers from 0 on to the partitions in turn, until it is ended."""

    def __init__(self, stage: Stage, topic: str, partitions: int, per_tick: int) -> None:
        super().__init__(daemon=True)
        self.produced = 0
        self.partitions = partitions
        self._topic, self._per_tick, self._ended = topic, per_tick, threading.Event()
        self._appender = Appender(stage.bootstrap, linger_ms=1)
        self.start()

    def run(self) -> None:
        while not self._ended.wait(0.03):
            for _ in range(self._per_tick):
                number, self.produced = self.produced, self.produced + 1
                partition = number % self.partitions
                self._appender.produce(self._topic, b"%d" % number, partition=partition)
            self._appender.poll(0)

    def end(self) -> None:
        """All that was produced is in the topic."""
        self._ended.set()
        self.join()
        self._appender.append_all()


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

    def __init__(self, version: Path, path: Path, options: dict[str, Any]) -> None:
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

    def sleep(self) -> None:
        """SIGSTOP, wherever it is."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait(10)
        self._errors.close()


class Fleet:
    """Consumers of one group, and all that it ever had."""

    def __init__(
        self, stage: Stage, folder: Path, partitions: int, per_tick: int, options: dict[str, Any]
    ) -> None:
        self.stage, self.topic = stage, stage.topic(partitions, 0)
        self.load = Load(stage, self.topic, partitions, per_tick)
        self.members: dict[str, Member] = {}
        """Those that live, by client id."""
        self.ever: list[Member] = []
        self._folder = folder
        self._options: dict[str, Any] = {
            "bootstrap": stage.bootstrap,
            "group": stage.group,
            "coordination_topic": stage.coordination,
            "topic": self.topic,
            **options,
        }

    def start(self, client_id: str, version: Path, **options: Any) -> Member:
        path = self._folder / f"{len(self.ever)}-{client_id}.txt"
        member = Member(version, path, {**self._options, **options, "client_id": client_id})
        self.members[client_id] = member
        self.ever.append(member)
        return member

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
        for member in self.members.values():
            member.assert_alive()
        got = [each for member in self.members.values() for each in member.got]
        partitions = self.load.partitions
        return set(range(partitions)) - {each % partitions for each in got if each >= number}

    def close(self) -> None:
        self.load.end()
        for member in self.ever:
            member.close()


@contextmanager
def fleet(
    stage: Stage, folder: Path, *, partitions: int, per_tick: int, **options: Any
) -> Iterator[Fleet]:
    """A fleet without a consumer, and a load; `options` are those of every consumer."""
    running = Fleet(stage, folder, partitions, per_tick, options)
    try:
        yield running
    finally:
        running.close()
