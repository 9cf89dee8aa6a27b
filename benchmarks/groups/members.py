"""Members of groups, each a process: ours, and those of Kafka's two protocols.

A member appends rows to a file of its own, which outlives kill -9. It commits whenever it has taken
what is there, at most 100 messages. The processes come from a fork server, which has imported
everything. It does not know what is measured.
"""

from __future__ import annotations

import itertools
import os
import signal
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from threading import Event as Flag
from typing import Final, Self

import attrs
import confluent_kafka as kafka
import numpy as np
from benchmarks.groups.ownership import ROW, Kind, Rows, covered_ns

from kafka_marshal import Fenced, GroupConsumer
from kafka_marshal.client.connect.log_writer import OutcomeUnknown

_ROW: Final = struct.Struct("=5q")
_POLL_S: Final = 0.1
_LOOK_S: Final = 0.05
_MESSAGES_MAX: Final = 100


@attrs.frozen
class Membership:
    """What all members of a group are given."""

    protocol: str
    """`ours`, `classic` or `consumer` (KIP-848)."""
    bootstrap: str
    controllers: str
    group: str
    topic: str
    session_s: float
    heartbeat_s: float | None
    """Of the classic protocol; None: the client's default."""


# --- in a process ---------------------------------------------------------------------------------


class Notes:
    """The rows of one member."""

    def __init__(self, path: Path, member: int) -> None:
        self._file, self._member = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), member

    def note(self, kind: Kind, partitions: Iterable[int] = (0,), number: int = 0) -> None:
        """A row for each partition, all of now."""
        now_ns = time.monotonic_ns()
        rows = (_ROW.pack(now_ns, kind, self._member, each, number) for each in partitions)
        os.write(self._file, b"".join(rows))


def work(membership: Membership, path: Path, member: int, go: Event) -> None:
    """Consume, note and commit, until SIGTERM or kill -9, or until the bench is gone."""
    stop = Flag()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    notes, parent = Notes(path, member), os.getppid()

    def over() -> bool:
        return stop.is_set() or os.getppid() != parent

    while not go.wait(1.0):
        if over():
            return
    notes.note(Kind.JOINED)
    if membership.protocol == "ours":
        _ours(membership, notes, f"member-{member}", over)
    else:
        _kafkas(membership, notes, over)
    notes.note(Kind.DIED)


def _ours(membership: Membership, notes: Notes, name: str, over: Callable[[], bool]) -> None:
    with GroupConsumer(
        membership.bootstrap,
        controllers=membership.controllers,
        group_id=membership.group,
        client_id=name,
        session_timeout_s=membership.session_s,
        on_assigned=lambda claims: notes.note(Kind.ASSIGNED, [one.partition for one in claims]),
        on_revoked=lambda claims: notes.note(Kind.REVOKED, [one.partition for one in claims]),
    ) as consumer:
        consumer.add_topic(membership.topic)
        while not over():
            messages = consumer.poll(_POLL_S, max_messages=_MESSAGES_MAX)
            for message in messages:
                notes.note(Kind.HANDED, [message.partition], message.offset)
            if messages:
                asked_ns = time.monotonic_ns()
                try:
                    consumer.commit()
                    notes.note(Kind.COMMITTED, number=asked_ns)
                except (Fenced, OutcomeUnknown):
                    notes.note(Kind.REFUSED, number=asked_ns)


def _kafkas(membership: Membership, notes: Notes, over: Callable[[], bool]) -> None:
    settings: dict[str, str | int | bool] = {
        "bootstrap.servers": membership.bootstrap,
        "group.id": membership.group,
        "group.protocol": membership.protocol,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if membership.protocol == "classic":
        settings["partition.assignment.strategy"] = "cooperative-sticky"
        settings["session.timeout.ms"] = int(membership.session_s * 1000)
        if membership.heartbeat_s is not None:
            settings["heartbeat.interval.ms"] = int(membership.heartbeat_s * 1000)

    def commit() -> None:
        asked_ns = time.monotonic_ns()
        try:
            consumer.commit(asynchronous=False)
            notes.note(Kind.COMMITTED, number=asked_ns)
        except kafka.KafkaException as error:
            if error.args[0].code() != kafka.KafkaError._NO_OFFSET:
                notes.note(Kind.REFUSED, number=asked_ns)

    def assigned(_: kafka.Consumer, partitions: list[kafka.TopicPartition]) -> None:
        notes.note(Kind.ASSIGNED, [each.partition for each in partitions])

    def revoked(_: kafka.Consumer, partitions: list[kafka.TopicPartition]) -> None:
        notes.note(Kind.REVOKED, [each.partition for each in partitions])
        commit()

    consumer = kafka.Consumer(settings)
    consumer.subscribe([membership.topic], on_assign=assigned, on_revoke=revoked)
    while not over():
        taken = 0
        while taken < _MESSAGES_MAX:
            message = consumer.poll(0 if taken else _POLL_S)
            if message is None or message.error() is not None:
                break
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            notes.note(Kind.HANDED, [partition], offset)
            taken += 1
        if taken:
            commit()
    consumer.close()


# --- those who watch ------------------------------------------------------------------------------


class Group:
    """Processes that are one group; a context manager that kills them at its end."""

    def __init__(self, membership: Membership, folder: Path) -> None:
        self._membership, self._folder = membership, folder
        self._context = get_context("forkserver")
        self._context.set_forkserver_preload([__name__])
        self._go = self._context.Event()
        self._numbers = itertools.count(1)
        self._processes: dict[int, BaseProcess] = {}
        self._deaths = self._path(0)

    def _path(self, member: int) -> Path:
        return self._folder / f"{self._membership.group}.{member}"

    def __enter__(self) -> Self:
        self._deaths.touch()
        return self

    def __exit__(self, *_: object) -> None:
        for member in [*self._processes]:
            self.kill(member)
        for path in self._folder.glob(f"{self._membership.group}.*"):
            path.unlink()

    @property
    def members(self) -> list[int]:
        """Those that live, the oldest first."""
        return [*self._processes]

    def start(self, count: int) -> None:
        """Start as many; they join at the first `go`, and later ones at once."""
        for member in itertools.islice(self._numbers, count):
            arguments = (self._membership, self._path(member), member, self._go)
            process = self._context.Process(target=work, args=arguments, daemon=True)
            process.start()
            self._processes[member] = process

    def go(self) -> None:
        """Let them join."""
        self._go.set()

    def stop(self, member: int, longest_s: float = 30.0) -> bool:
        """Let one leave in order, and wait for that; False if it had to be killed."""
        process = self._processes[member]
        process.terminate()
        process.join(longest_s)
        if process.is_alive():
            self.kill(member)
            return False
        del self._processes[member]
        return process.exitcode == 0

    def kill(self, member: int) -> int:
        """End one at once, and say when."""
        process = self._processes.pop(member)
        at_ns = time.monotonic_ns()
        with suppress(ProcessLookupError):
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
        process.join()
        with self._deaths.open("ab") as file:
            file.write(_ROW.pack(at_ns, Kind.DIED, member, 0, 0))
        return at_ns

    def rows(self) -> Rows:
        """What all noted by now."""
        paths = self._folder.glob(f"{self._membership.group}.*")
        return np.concatenate([_whole(path) for path in paths])

    def wait_until_covered(
        self, partitions: int, longest_s: float, *, evenly: bool = True
    ) -> int | None:
        """Until all partitions are owned by those that live; since when, or None if never."""
        return self.wait_for(
            lambda rows: covered_ns(rows, partitions, self.members, evenly=evenly), longest_s
        )

    def wait_for(self, found: Callable[[Rows], int | None], longest_s: float) -> int | None:
        """Until the rows give a number."""
        until_s = time.monotonic() + longest_s
        while (number := found(self.rows())) is None and time.monotonic() < until_s:
            time.sleep(_LOOK_S)
        return number


def _whole(path: Path) -> Rows:
    data = path.read_bytes()
    return np.frombuffer(data[: len(data) // _ROW.size * _ROW.size], ROW)
