"""One consumer of a chaos run, in a process of its own, by one of the ways that the client has.

A message is a line in the worker's file when it is handed over, and another one when it is done. A
line is one write, so the file holds it also if the next thing that happens is kill -9. This room
does not know what happens to the worker, nor what is made of the file.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import attrs
from tests.client.broken import MISTAKES, RANGE_MISTAKES

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import (
    Claim,
    ClaimLost,
    Consumer,
    Lost,
    Message,
    OutcomeUnknown,
)
from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.observe.observers import Observer

Share: TypeAlias = Literal["partitions", "ranges"]

AT_ONCE: Final = 40
"""Messages of a list, at most."""
WAIT_S: Final = 0.5
WORKERS: Final = 4


class Notes:
    """The file of one worker."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, *words: object) -> None:
        """One line, in one piece."""
        os.write(self._file, f"{' '.join(map(str, words))}\n".encode())


class RangesNoted(Observer):
    """Writes down which ranges of shared topics came and went."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def range_granted(self, claim: Claim) -> None:
        """As the observer's."""
        self._notes.write("granted", claim.partition, claim.epoch)

    def range_ended(self, claim: Claim, reason: Lost) -> None:
        """As the observer's."""
        self._notes.write("ended_range", claim.partition, claim.epoch, reason.value)


class Work:
    """What is done for a message: nothing, for a moment."""

    def __init__(self, notes: Notes, pause_s: float, at_least_once: bool) -> None:
        self.stopping = threading.Event()
        self._notes, self._pause_s, self._at_least_once = notes, pause_s, at_least_once

    def begins(self, message: Message) -> bool:
        """Say that it was handed over; False if it is somebody else's by now."""
        if self._at_least_once and not message.claim.owned:
            return False
        at_ms = time.time_ns() // 1_000_000
        self._notes.write("+", message.partition, message.offset, at_ms, message.epoch)
        return True

    def ends(self, message: Message) -> None:
        """Say that it is done."""
        self._notes.write("-", message.partition, message.offset, time.time_ns() // 1_000_000)

    def __call__(self, message: Message) -> None:
        """All of it, in this thread."""
        if self.begins(message):
            time.sleep(self._pause_s)
            self.ends(message)

    async def in_loop(self, message: Message) -> None:
        """All of it, in an event loop."""
        if self.begins(message):
            await asyncio.sleep(self._pause_s)
            self.ends(message)


# --- ways of consuming ----------------------------------------------------------------------------


def iterator(consumer: Consumer, work: Work) -> None:
    """A loop over messages."""
    for message in consumer:
        work(message)


def poll(consumer: Consumer, work: Work) -> None:
    """One by one; a commit after each."""
    while not work.stopping.is_set():
        message = consumer.poll(WAIT_S)
        if message is not None:
            work(message)
            with suppress(ClaimLost, OutcomeUnknown):  # somebody else does it again
                consumer.commit(message)


def lists(consumer: Consumer, work: Work) -> None:
    """Lists, each done when it was looked at."""
    while not work.stopping.is_set():
        messages = consumer.consume(AT_ONCE, WAIT_S)
        for message in messages:
            work(message)
        if messages:
            consumer.ack()


def batches(consumer: Consumer, work: Work) -> None:
    """A loop over batches."""
    for batch in consumer.batches():
        for message in batch.messages:
            work(message)


def run_partition(consumer: Consumer, work: Work) -> None:
    """Threads, in the order of each partition."""
    consumer.run(work, workers=WORKERS, order="partition")


def run_key(consumer: Consumer, work: Work) -> None:
    """Threads, in the order of each key."""
    consumer.run(work, workers=WORKERS, order="key")


def run_none(consumer: Consumer, work: Work) -> None:
    """Threads, in no order."""
    consumer.run(work, workers=WORKERS, order="none")


async def loop(consumer: AsyncConsumer, work: Work) -> None:
    """An event loop over messages."""
    async for message in consumer:
        await work.in_loop(message)


async def run_loop(consumer: AsyncConsumer, work: Work) -> None:
    """An event loop with handlers."""
    await consumer.run(work.in_loop, concurrency=WORKERS, order="key")


IN_THREADS: Final[Mapping[str, Callable[[Consumer, Work], None]]] = {
    each.__name__: each
    for each in (iterator, poll, lists, batches, run_partition, run_key, run_none)
}
IN_LOOPS: Final = {each.__name__: each for each in (loop, run_loop)}
AT_LEAST_ONCE_ONLY: Final = {"run_partition", "run_key", "run_none", "run_loop"}
WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "at_least_once": (*IN_THREADS, *IN_LOOPS),
    "at_most_once": tuple(way for way in (*IN_THREADS, *IN_LOOPS) if way not in AT_LEAST_ONCE_ONLY),
}
"""By semantics: all ways that the client has."""


def on_this_machine(asked: dict[str, Any]) -> Settings:
    """How to connect, with a clock that SIGUSR1 sets; takes those options out."""
    ahead = itertools.cycle((3_600_000, 0, -3_600_000))
    ahead_ms = 0

    def set_clock(*_: object) -> None:
        nonlocal ahead_ms
        ahead_ms = next(ahead)

    signal.signal(signal.SIGUSR1, set_clock)
    values = {"bootstrap.servers": asked.pop("bootstrap"), **asked.pop("settings")}
    clock = attrs.evolve(REAL, unix_ms=lambda: REAL.unix_ms() + ahead_ms)
    return Settings(values, environment=clock)


def main(text: str) -> None:
    """Consume until SIGTERM; what it is asked to do is JSON."""
    asked: dict[str, Any] = json.loads(text)
    notes = Notes(Path(asked.pop("notes")))
    way, topic, pause_s = asked.pop("way"), asked.pop("topic"), asked.pop("pause_s")
    share, mistake = asked.pop("share"), asked.pop("mistake", None)
    if mistake is not None:
        {**MISTAKES, **RANGE_MISTAKES}[mistake]()
    work = Work(notes, pause_s, asked["semantics"] == "at_least_once")

    def claimed(claim: Claim) -> None:
        notes.write("claimed", claim.partition, claim.epoch)

    def lost(claim: Claim, reason: Lost) -> None:
        notes.write("lost", claim.partition, reason.value)

    settings = on_this_machine(asked)
    options = {**asked, "on_claimed": claimed, "on_lost": lost, "settings": settings}
    options["observers"] = [RangesNoted(notes)]
    try:
        if way in IN_LOOPS:
            asyncio.run(_in_loop(way, topic, share, work, options))
        else:
            _in_threads(way, topic, share, work, options)
    except Exception as error:
        notes.write("failed", type(error).__name__, *str(error).split())
        raise
    notes.write("ended")


def _in_threads(way: str, topic: str, share: Share, work: Work, options: dict[str, Any]) -> None:
    with Consumer(**options) as consumer:

        def stop(*_: object) -> None:
            work.stopping.set()
            consumer.stop()

        signal.signal(signal.SIGTERM, stop)
        consumer.add_topic(topic, share=share)
        IN_THREADS[way](consumer, work)


async def _in_loop(way: str, topic: str, share: Share, work: Work, options: dict[str, Any]) -> None:
    async with AsyncConsumer(**options) as consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        await consumer.add_topic(topic, share=share)
        await IN_LOOPS[way](consumer, work)


if __name__ == "__main__":
    main(sys.argv[1])
