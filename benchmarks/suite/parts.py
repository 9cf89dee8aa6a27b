"""What `make bench` runs: each part in a process of its own, so that none takes another with it.

A part is a benchmark, or one of its parts, with the arguments of each scale. The default scale is
chosen so that all of it takes less than a quarter of an hour on two quiet cores. The part `kill` of
`make bench-ranges` is left out: it counts messages, and no ratio comes of it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from benchmarks.suite.figures import Figure, read, say

DEFAULT: Final = "default"
QUICK: Final = "quick"
LONGEST_S: Final = 600.0
"""A part that takes longer hangs."""


@attrs.frozen
class Part:
    """A process that measures."""

    name: str
    """What figures of it begin with, too."""
    module: str
    words: Sequence[str]
    """Its arguments at the default scale."""
    quick: Sequence[str]
    """Its arguments when it is tried."""

    def command(self, scale: str, figures: Path) -> list[str]:
        """What runs it, and writes its figures there."""
        words = self.quick if scale == QUICK else self.words
        return [sys.executable, "-m", self.module, *words, "--figures", str(figures)]


def _client(part: str, scale: float = 1.0, quick: float = 0.01) -> Part:
    words = [[part, "--scale", f"{each:g}"] for each in (scale, quick)]
    return Part(f"client.{part}", "benchmarks.bench_client", *words)


def _scaled(benchmark: str, module: str, part: str) -> Part:
    return Part(f"{benchmark}.{part}", module, [part, "--brief"], [part, "--quick"])


PARTS: Final = (
    Part(
        "reducer",
        "benchmarks.bench_reducer",
        ["--records", "200000"],
        ["--records", "1000", "--passes", "1"],
    ),
    Part(
        "validate",
        "benchmarks.bench_validate",
        ["--events", "50000"],
        ["--events", "200"],
    ),
    Part(
        "replay",
        "benchmarks.bench_replay",
        ["--records", "3000000", "--passes", "1"],
        ["--records", "10000", "--passes", "1", "--only", "polars", "kernel", "account", "here"],
    ),
    _client("noop", 0.4),
    _client("pool", 0.4),
    _client("amo", 0.15),
    _client("claims"),
    _client("idle"),
    _client("failover", 0.3, 0.05),
    _client("catch_up"),
    *(
        _scaled("ranges", "benchmarks.bench_ranges", part)
        for part in ("slow", "fast", "late", "once", "records")
    ),
    Part(
        "watch",
        "benchmarks.bench_watch",
        [
            "--seconds=10",
            "--catch-up=500000",
            "--only",
            "watch",
            "checkpoint",
            "catch_up",
            "catch_up_with_headers",
        ],
        ["--seconds=1", "--rate=2000", "--catch-up=5000", "--only", "watch", "catch_up"],
    ),
    *(
        _scaled("groups", "benchmarks.groups.protocol", part)
        for part in ("assignment", "start", "death", "controller", "heartbeats", "restart")
    ),
)


@attrs.frozen
class Ran:
    """What came of a part."""

    part: str
    figures: Sequence[Figure]
    """All that it gave, also before it failed."""
    seconds: float
    failure: str = ""
    """Why it failed, in its own last words; empty if it did not."""


def run(part: Part, scale: str, folder: Path, longest_s: float = LONGEST_S) -> Ran:
    """Run a part; what it prints is shown as it comes, and kept in `folder/NAME.txt`."""
    figures, output = folder / f"{part.name}.jsonl", folder / f"{part.name}.txt"
    figures.unlink(missing_ok=True)
    began_s = time.monotonic()
    process = subprocess.Popen(
        part.command(scale, figures),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        process_group=0,
        text=True,
        errors="replace",
    )
    assert process.stdout is not None
    hangs = threading.Event()

    def end() -> None:
        hangs.set()
        os.killpg(process.pid, signal.SIGKILL)

    timer, last = threading.Timer(longest_s, end), ""
    timer.start()
    try:
        with output.open("w", encoding="utf-8") as file:
            for line in process.stdout:
                file.write(line)
                say(line.rstrip())
                last = line.strip() or last
        code = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()
    found, failure = read(figures), ""
    if hangs.is_set():
        failure = f"did not end in {longest_s:.0f} s: {last}"
    elif code:
        failure = last or f"exit code {code}"
    elif not found:
        failure = f"gave no figure: {last}"
    return Ran(part.name, found, time.monotonic() - began_s, failure)
