"""Processes that work on one topic, each a consumer: what they do, and what they note.

A process notes each message in a row of its own file, which is mapped into memory. So a row costs
no system call, others see it at once, and it outlives kill -9. The processes come from a fork
server, which has imported everything: to start 32 of them takes a second and not ten.

It does not know what is measured, nor what the rows are compared with.
"""

from __future__ import annotations

import logging
import mmap
import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import attrs
import confluent_kafka as kafka
import numpy as np
from benchmarks.meter import cpu_s
from numpy.typing import NDArray

from kafka_marshal import Consumer
from kafka_marshal.client.coordinate.configuration import Semantics

ROW: Final = np.dtype(
    [("place", "i8"), ("appended_ms", "i8"), ("begun_ns", "i8"), ("done_ns", "i8")]
)
"""`place` is the offset and 1, so that an empty row is all zeros. Times are unix times."""
Rows = NDArray[Any]
"""Of the type `ROW`."""
_ATTEMPTS: Final = 50


class Note(NamedTuple):
    """What is noted of a message."""

    offset: int
    appended_ms: int


@attrs.frozen
class Job:
    """What each process of a fleet does."""

    kind: str
    """`at_least_once`, `at_most_once`, `plain` (without a group) or `share` (a share group)."""
    bootstrap: str
    topic: str
    group: str
    folder: Path
    rows_max: int
    """The most messages that one process notes."""
    handler_s: float = 0.0
    coordination_topic: str = "__marshal"
    heartbeat_interval_s: float = 10.0
    settings: Mapping[str, str] = attrs.Factory(dict)
    """More settings of Kafka's client."""


# --- in a process ---------------------------------------------------------------------------------


def work(job: Job, number: int) -> None:
    """Handle messages and note them, until the process is killed."""
    path = job.folder / f"{job.group}.{number}"
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        rows = memoryview(memory).cast("B").cast("q")
        at, sleep, now = 0, time.sleep, time.time_ns
        for offset, appended_ms in _messages(job, number):
            rows[at] = offset + 1
            rows[at + 1] = appended_ms
            rows[at + 2] = now()
            if job.handler_s:
                sleep(job.handler_s)
            rows[at + 3] = now()
            at += 4


def _messages(job: Job, number: int) -> Iterator[Note]:
    match job.kind:
        case "at_least_once" | "at_most_once":
            return _ours(job, number, job.kind)
        case "share":
            return _share(job)
        case _:
            return _plain(job)


def _ours(job: Job, number: int, semantics: Semantics) -> Iterator[Note]:
    with Consumer(
        job.bootstrap,
        group_id=job.group,
        client_id=f"worker-{number}",
        semantics=semantics,
        coordination_topic=job.coordination_topic,
        heartbeat_interval_s=job.heartbeat_interval_s,
        settings=job.settings,
    ) as consumer:
        consumer.add_topic(job.topic, share="ranges")
        for message in consumer:
            yield Note(message.offset, message.timestamp_ms)


def _plain(job: Job) -> Iterator[Note]:
    consumer = kafka.Consumer(
        {"bootstrap.servers": job.bootstrap, "group.id": job.group, **job.settings}
    )
    consumer.assign([kafka.TopicPartition(job.topic, 0, 0)])
    while True:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            yield _note_of(message)


def _share(job: Job) -> Iterator[Note]:
    consumer = share_consumer(job)
    while True:
        for message in consumer.poll(1.0):
            if message.error() is None:
                yield _note_of(message)


def _note_of(message: kafka.Message) -> Note:
    offset = message.offset()
    assert offset is not None
    return Note(offset, message.timestamp()[1])


class _MemberId(logging.Handler):
    """Hears of the member id, which the client does not show otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = ""

    def emit(self, record: logging.LogRecord) -> None:
        """`updating member id "(not-set)" -> "…"`."""
        words = record.getMessage().split('"')
        if record.getMessage().startswith("MEMBERID") and words[-2] != "(not-set)":
            self.seen = words[-2]


def share_consumer(job: Job) -> kafka.ShareConsumer:
    """A member of a share group, whose id Kafka 4.1.0 can read.

    librdkafka writes the id in base64 with `+` and `/`. Brokers before KAFKA-19846 take these for
    an error and answer every fetch of that member with it: half of all members get no message.
    So this draws until there is neither.
    """
    for _ in range(_ATTEMPTS):
        heard = _MemberId()
        logger = logging.Logger("share", logging.DEBUG)
        logger.addHandler(heard)
        consumer = kafka.ShareConsumer(
            {
                "bootstrap.servers": job.bootstrap,
                "group.id": job.group,
                "debug": "cgrp",
                "logger": logger,
                **job.settings,
            }
        )
        consumer.subscribe([job.topic])
        while not heard.seen:
            consumer.poll(0.01)
        if not set("+/") & set(heard.seen):
            return consumer
        consumer.close()
    raise RuntimeError("no share consumer has an id that the broker reads")


# --- those who watch ------------------------------------------------------------------------------


class Fleet:
    """Processes that do one job; a context manager that kills them at its end."""

    def __init__(self, job: Job, processes: int) -> None:
        self.job = job
        self._of_fork_server = get_context("forkserver")
        self._of_fork_server.set_forkserver_preload([__name__])
        self._paths = [job.folder / f"{job.group}.{number}" for number in range(processes)]
        for path in self._paths:
            with path.open("wb") as file:
                file.truncate(job.rows_max * ROW.itemsize)
        self._processes = [
            self._of_fork_server.Process(target=work, args=(job, number), daemon=True)
            for number in range(processes)
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill(range(len(self._processes)))
        for path in self._paths:
            path.unlink()

    def kill(self, numbers: Iterable[int]) -> None:
        """End these at once."""
        for number in numbers:
            process = self._processes[number]
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
            process.join()

    def rows(self, number: int) -> Rows:
        """What a process noted by now."""
        rows = np.fromfile(self._paths[number], ROW)
        return rows[rows["begun_ns"] > 0]

    def all_rows(self) -> Rows:
        """What all noted by now."""
        return np.concatenate([self.rows(number) for number in range(len(self._paths))])

    def cpu_s(self) -> float:
        """Processor seconds of those who live."""
        return sum(cpu_s(process.pid) for process in self._processes if process.pid is not None)

    @property
    def working(self) -> int:
        """Those that have begun a message."""
        return sum(map(_has_row, self._paths))

    def wait_until_all_work(self, longest_s: float) -> None:
        """Until each has begun a message; the caller looks whether all have."""
        until_s = time.monotonic() + longest_s
        while self.working < len(self._paths) and time.monotonic() < until_s:
            time.sleep(0.1)

    def wait_for(self, count: int, longest_s: float) -> Rows:
        """Until as many different messages are done, or nothing more is for this long."""
        done, since_s = -1, time.monotonic()
        while True:
            rows = self.all_rows()
            distinct = len(np.unique(rows["place"][rows["done_ns"] > 0]))
            if distinct >= count:
                return rows
            if distinct > done:
                done, since_s = distinct, time.monotonic()
            elif time.monotonic() > since_s + longest_s:
                return rows
            time.sleep(0.2)


def _has_row(path: Path) -> bool:
    return bool(np.fromfile(path, ROW, count=1)["begun_ns"][0])
