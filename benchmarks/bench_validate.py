"""How fast recorded runs are validated, and how that grows: `make bench-validate`.

Input: one simulated run (`tools.runs.simulate`) for each mode, of four consumers on
eight claims of two coordinating partitions. It has stalls, crashes, restarts in the middle of the
log, releases, lost records and an administrator, and is cut at 10^4, 10^5 and 10^6 events. A fresh
process judges it: its CPU time from the file to the verdict, JSON included, and the most memory
that it had, Python's own included. The peer is `json.loads` of each line.

A file of 64 MB is judged by the compiled judge (`validate.compiled`), if numba is there. What it
compiles once for all runs is not counted: a process before has done that. Loading it is.

`--steady EVENTS` measures runs in which nothing happens but heartbeats. They are written 40 times
as fast as simulated ones, so it can be 10^8 events, in a file of 12 GB.

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

from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.scratch import Scratch
from kafka_marshal.validate import read_run, validate
from kafka_marshal.validate.run import RecordedInstance, Setting, header, started
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


STEADY_CONSUMERS = 4


def write_steady(path: Path, events: int) -> int:
    """A run in which nothing goes wrong, written fast; how many events it has.

    Each consumer owns one claim for good, at least once, and sends heartbeats.
    """
    names = [f"c{number}-1" for number in range(STEADY_CONSUMERS)]
    members = {
        name: RecordedInstance(InstanceConfig(name, name[:2], Mode.AT_LEAST_ONCE, window=10), "g")
        for name in names
    }
    reads = [
        f'{{"event": "read", "instance": "{name}", "partition": 0, "offset": ' for name in names
    ]
    written = 0
    with path.open("w", encoding="utf-8") as file:
        file.write(json.dumps(header(Setting(members=members))) + "\n")
        for name in names:
            file.write(json.dumps(started(name, {})) + "\n")
            written += 1
        offset, beat = 0, 0
        while written < events:
            who, position = beat % STEADY_CONSUMERS, 10 * (beat // STEADY_CONSUMERS)
            name, stamp_ms, address = names[who], 10_000 * beat + 10_000, f"c{who}/g/t{who}/0"
            lines = []
            if not position:
                value = f'"value": "ClaimingPartition/1/1/{name}/{address}"'
                record = f'{value}, "headers": {{"marshal-version": "1"}}}}\n'
            else:
                lines.append(
                    f'{{"event": "processed", "instance": "{name}", "topic": "t{who}", '
                    f'"topic_partition": 0, "from": {position - 10}, "to": {position}}}\n'
                )
                seen = offset - STEADY_CONSUMERS
                record = (
                    f'"value": "Heartbeat/1/1/{name}/{address}/{position}", "headers": '
                    f'{{"marshal-epoch": "{who}", "marshal-seen": "{seen}", '
                    f'"marshal-clock": "{10_000 * seen + 10_000}", "marshal-start": "0"}}}}\n'
                )
            lines.append(f'{{"event": "sent", "instance": "{name}", "partition": 0, {record}')
            lines.append(
                f'{{"event": "appended", "partition": 0, "offset": {offset}, '
                f'"timestamp_ms": {stamp_ms}, "timestamp_type": 2, {record}'
            )
            lines += [f"{each}{offset}}}\n" for each in reads]
            file.write("".join(lines))
            written += len(lines)
            offset, beat = offset + 1, beat + 1
    return written


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
    parser.add_argument("--events", type=int, nargs="*", default=SIZES)
    parser.add_argument("--steady", type=int, nargs="*", default=(), metavar="EVENTS")
    Report.add_option(parser)
    asked = parser.parse_args(arguments)
    report = Report(asked.figures)
    with Scratch("desk") as desk:
        path = desk / "run.jsonl"
        for mode in Mode:
            for events in asked.events:
                write(path, mode, events)
                what = f"a run {mode.name.lower().replace('_', ' ')}"
                if not measure(report, path, f"{mode.value.lower()}_{events}", events, what):
                    return 1
        for events in asked.steady:
            count = write_steady(path, events)
            if not measure(report, path, f"steady_{events}", count, "a run of heartbeats alone"):
                return 1
    return 0


def measure(report: Report, path: Path, name: str, events: int, what: str) -> bool:
    """Report how fast a run is judged; whether it is explained."""
    spawned = multiprocessing.get_context("spawn")
    if path.stat().st_size >= COMPILED_FROM_BYTES:
        with spawned.Pool(1) as pool:
            pool.apply(judge, (path,))
    with spawned.Pool(1) as pool:
        seconds, megabytes, unexplained = pool.apply(judge, (path,))
    if unexplained:
        print(unexplained)
        return False
    report.add(
        f"validate.{name}",
        "events/s",
        Better.HIGHER,
        events / seconds,
        f"{what} of {events:,} events, CPU time",
        {PEER: events / json_alone(path)},
        TARGET,
        note=f"{megabytes:.0f} MB",
    )
    return True


if __name__ == "__main__":
    sys.exit(main())
