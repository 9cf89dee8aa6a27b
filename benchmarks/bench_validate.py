"""How fast recorded runs are validated, and how that grows: `make bench-validate`.

Input: one simulated run (`tools.runs.simulate`) for each mode, of four consumers on
eight claims of two coordinating partitions. It has stalls, crashes, restarts in the middle of the
log, releases, lost records and an administrator, and is cut at 10^4, 10^5 and 10^6 events. A fresh
process judges it: its CPU time from the file to the verdict, JSON included, and the most memory
that it had, Python's own included. The peer is `json.loads` of each line.

A file of 64 MB is judged by the compiled judge (`validate.compiled`), if numba is there. What it
compiles once for all runs is not counted: a process before has done that. Loading it is.

Of 10^4 events most are read by processes that saw all of the log and share one fold. Later every
process has begun in the middle and folds for itself, so an event costs half as much again. From
2 * 10^5 events on the cost of an event stays the same.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from benchmarks.suite.figures import Better, Report, Target
from tools.runs.simulate import Fleet, Simulation

from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.scratch import Scratch
from kafka_marshal.validate import read_run, validate
from kafka_marshal.validate.run import header
from kafka_marshal.validate.validator import COMPILED_FROM_BYTES

SIZES = (10_000, 100_000, 1_000_000)
SEED = 7
PEER = "json.loads of its lines"
TARGET = Target(100_000_000 / 120)
"""100 million events in two minutes."""


def write(path: Path, mode: Mode, events: int) -> None:
    """A run as a file; its first line names those who will have taken part."""
    simulation = Simulation(SEED, Fleet(mode=mode, consumers=4, topics=8))
    body = path.with_suffix(".events")
    with body.open("w", encoding="utf-8") as file:
        for fields in islice(simulation.events(), events):
            file.write(json.dumps(fields) + "\n")
    with path.open("w", encoding="utf-8") as file, body.open(encoding="utf-8") as written:
        file.write(json.dumps(header(simulation.setting)) + "\n")
        file.writelines(written)
    body.unlink()


def judge(path: Path) -> tuple[float, float, str]:
    """CPU seconds, the most memory in MB, and what is not explained."""
    began = time.process_time()
    judgement = validate(read_run(path))
    seconds = time.process_time() - began
    found = "" if judgement.explained else str(judgement.unexplained)
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, found


def json_alone(path: Path) -> float:
    """CPU seconds of the peer."""
    began = time.process_time()
    with path.open(encoding="utf-8") as file:
        for line in file:
            json.loads(line)
    return time.process_time() - began


def main(arguments: Sequence[str] | None = None) -> int:
    """Report a figure for each mode and size; 1 if a run is not explained."""
    parser = argparse.ArgumentParser(prog="make bench-validate")
    parser.add_argument("--events", type=int, nargs="+", default=SIZES)
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    report = Report(asked.figures)
    spawned = multiprocessing.get_context("spawn")
    with Scratch("desk") as desk:
        for mode in Mode:
            for events in asked.events:
                path = desk / f"{mode.value}-{events}.jsonl"
                write(path, mode, events)
                for _ in range(1 + (path.stat().st_size >= COMPILED_FROM_BYTES)):
                    with spawned.Pool(1) as pool:
                        seconds, megabytes, unexplained = pool.apply(judge, (path,))
                peer_s = json_alone(path)
                path.unlink()
                if unexplained:
                    print(unexplained)
                    return 1
                report.add(
                    f"validate.{mode.value.lower()}_{events}",
                    "events/s",
                    Better.HIGHER,
                    events / seconds,
                    f"a run {mode.name.lower().replace('_', ' ')} of {events:,} events, CPU time",
                    {PEER: events / peer_s},
                    TARGET,
                    note=f"{megabytes:.0f} MB",
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
