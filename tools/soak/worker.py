"""One consumer of a soak, in a process of its own, that samples what it keeps.

A message that was processed is its number in a file, eight bytes. A sample is a line of JSON in
another one. This room does not know how much is too much.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from attrs import define, field
from tools.chaos.worker import IN_LOOPS, IN_THREADS, Notes, Work

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Claim, Consumer, Lost, Message
from kafka_marshal.client.observe.metrics import PrometheusObserver
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.core.state import ClaimKey

PAGE: Final = os.sysconf("SC_PAGE_SIZE")
TRACED: Final = 25
"""Lines of code that keep most, as they are printed at the end."""


class Processed(Work):
    """Writes down the number of each message."""

    def __init__(self, path: Path, at_least_once: bool) -> None:
        super().__init__(Notes(path.with_suffix(".notes.txt")), 0, at_least_once)
        self._at_least_once = at_least_once
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.count = 0

    def begins(self, message: Message) -> bool:
        """Whether it is still this consumer's."""
        return not self._at_least_once or message.claim.owned

    def ends(self, message: Message) -> None:
        """One write, so nothing of it waits in this process."""
        os.write(self._file, int(message.value or b"-1").to_bytes(8, "little", signed=True))
        self.count += 1


class Lateness(Observer):
    """How late heartbeats are, and how many claims are held."""

    def __init__(self, planned_s: float) -> None:
        self.moved = 0
        """Claims won or lost."""
        self._planned_s = planned_s
        self._lock = threading.Lock()
        self._last: dict[ClaimKey, float] = {}
        self._worst_s = 0.0

    @property
    def held(self) -> int:
        """Claims."""
        return len(self._last)

    def worst_s(self) -> float:
        """How much later than planned a heartbeat was, or is by now; the worst since asked last."""
        with self._lock:
            worst, self._worst_s = self._worst_s, 0.0
            return max([worst, *map(self._late_s, self._last.values())])

    def _late_s(self, last: float) -> float:
        return time.monotonic() - last - self._planned_s

    def claimed(self, claim: Claim) -> None:
        """From now on it has to be heard of."""
        with self._lock:
            self._last[claim.key] = time.monotonic()
            self.moved += 1

    def lost(self, claim: Claim, reason: Lost) -> None:
        """No more."""
        self.left(claim)
        self.moved += 1

    def left(self, claim: Claim) -> None:
        """No more."""
        with self._lock:
            self._last.pop(claim.key, None)

    def appended(self, key: ClaimKey, kind: str, seconds: float) -> None:
        """A record lies in the log."""
        with self._lock:
            if kind == "Heartbeat" and key in self._last:
                self._worst_s = max(self._worst_s, self._late_s(self._last[key]))
                self._last[key] = time.monotonic()


class Lines(logging.Handler):
    """Counts the lines of the log."""

    count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """One more."""
        self.count += 1


MALLINFO: Final = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)


class Malloc(ctypes.Structure):
    """What glibc's `mallinfo2` returns."""

    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO]


def allocated() -> int | None:
    """Bytes that C code holds, librdkafka's with them; None where no glibc tells."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):
        return None
    mallinfo.restype = Malloc
    found = mallinfo()
    return int(found.uordblks + found.hblkhd)


def resident() -> int:
    """Bytes of memory."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE


def entries(folder: str) -> int:
    """How many it has."""
    return sum(1 for _ in Path(folder).iterdir())


@define(eq=False, slots=False)
class Sampler(threading.Thread):
    """Writes a sample every few seconds, until it is ended."""

    path: Path
    every_s: float
    recorded: Path
    """The folder of the recording, or of the snapshot."""
    work: Processed
    lateness: Lateness
    lines: Lines
    leak: Callable[[Sampler], None] | None
    ended: threading.Event = field(factory=threading.Event)
    kept: list[object] = field(factory=list)
    """What a leak leaks."""

    def __attrs_pre_init__(self) -> None:
        super().__init__(daemon=True)

    def run(self) -> None:
        """Sample."""
        with self.path.open("w", encoding="utf-8") as file:
            while not self.ended.wait(self.every_s):
                if self.leak is not None:
                    self.leak(self)
                file.write(f"{json.dumps(self.sample())}\n")
                file.flush()

    def sample(self) -> dict[str, float | None]:
        """What is kept now."""
        return {
            "at": time.time(),
            "resident": resident(),
            "blocks": sys.getallocatedblocks(),
            "allocated": allocated(),
            "handles": entries("/proc/self/fd"),
            "threads": entries("/proc/self/task"),
            "late": self.lateness.worst_s(),
            "recorded": sum(each.stat().st_size for each in self.recorded.glob("*")),
            "lines": self.lines.count,
            "held": self.lateness.held,
            "moved": self.lateness.moved,
            "processed": self.work.count,
        }


def leaks_memory(sampler: Sampler) -> None:
    """A megabyte and some small objects for each sample."""
    sampler.kept += [bytes(range(256)) * 4096, [object() for _ in range(1000)]]


def leaks_handles(sampler: Sampler) -> None:
    """An open file for each sample."""
    sampler.kept.append(os.open("/dev/null", os.O_RDONLY))


def leaks_threads(sampler: Sampler) -> None:
    """A thread for each sample."""
    threading.Thread(target=sampler.ended.wait, daemon=True).start()


def leaks_lines(sampler: Sampler) -> None:
    """A line of the log for each sample."""
    logging.getLogger("kafka_marshal").warning("one more")


def leaks_time(sampler: Sampler) -> None:
    """Each heartbeat is held up for longer than the one before."""
    sampler.kept.append(None)
    appended = Lateness.appended

    def slowly(observer: Lateness, key: ClaimKey, kind: str, seconds: float) -> None:
        time.sleep(len(sampler.kept) / 50)
        appended(observer, key, kind, seconds)

    if len(sampler.kept) == 1:
        Lateness.appended = slowly  # type: ignore[method-assign, assignment]


def leaks_records(sampler: Sampler) -> None:
    """A recording that grows ever faster."""
    sampler.kept.append(None)
    with (sampler.recorded / "leak.jsonl").open("a", encoding="ascii") as file:
        file.write("x" * 10_000 * len(sampler.kept))


def skips_messages(sampler: Sampler) -> None:
    """One message for each sample is not written down."""
    ends, begun = sampler.work.ends, sampler.work.count

    def skip(message: Message) -> None:
        if sampler.work.count == begun and not sampler.kept:
            sampler.kept.append(message)
        else:
            ends(message)

    sampler.kept.clear()
    sampler.work.ends = skip  # type: ignore[method-assign]


LEAKS: Final[Mapping[str, Callable[[Sampler], None]]] = {
    each.__name__: each
    for each in (
        leaks_memory, leaks_handles, leaks_threads, leaks_lines, leaks_time, leaks_records,
        skips_messages,
    )
}  # fmt: skip
"""Mistakes that a soak must find."""


def main(text: str) -> None:
    """Consume until SIGTERM; what it is asked to do is JSON."""
    asked: dict[str, Any] = json.loads(text)
    way, topic, stem = asked.pop("way"), asked.pop("topic"), Path(asked.pop("stem"))
    every_s, leak, traced = asked.pop("every_s"), asked.pop("leak"), asked.pop("traced")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    lines = Lines()
    logging.getLogger().addHandler(lines)
    if traced:
        tracemalloc.start()
        signal.signal(signal.SIGUSR1, lambda *_: kept.append(traces()))
    kept: list[tracemalloc.Snapshot] = []
    work = Processed(stem.with_suffix(".processed"), asked["semantics"] == "at_least_once")
    lateness = Lateness(asked["heartbeat_interval_s"] / 2)
    files = Path(asked.pop("kept"))
    options = {**asked, "observers": [lateness, PrometheusObserver()]}
    sampler = Sampler(
        *(stem.with_suffix(".samples.jsonl"), every_s, files, work, lateness, lines),
        LEAKS[leak] if leak else None,
    )
    sampler.start()
    if way in IN_LOOPS:
        asyncio.run(_in_loop(way, topic, work, options))
    else:
        _in_threads(way, topic, work, options)
    sampler.ended.set()
    sampler.join()
    if kept:
        grown = kept[-1].compare_to(kept[0], "lineno")
        grown.sort(key=lambda each: -each.count_diff)
        print("kept since the warm-up:", *grown[:TRACED], sep="\n")


def traces() -> tracemalloc.Snapshot:
    """What is kept now, and by which lines of code."""
    gc.collect()
    return tracemalloc.take_snapshot()


def _in_threads(way: str, topic: str, work: Processed, options: dict[str, Any]) -> None:
    with Consumer(**options) as consumer:

        def stop(*_: object) -> None:
            work.stopping.set()
            consumer.stop()

        signal.signal(signal.SIGTERM, stop)
        consumer.add_topic(topic)
        IN_THREADS[way](consumer, work)


async def _in_loop(way: str, topic: str, work: Processed, options: dict[str, Any]) -> None:
    async with AsyncConsumer(**options) as consumer:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, consumer.stop)
        await consumer.add_topic(topic)
        await IN_LOOPS[way](consumer, work)


if __name__ == "__main__":
    main(sys.argv[1])
