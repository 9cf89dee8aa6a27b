"""What a record costs on a standalone Spark of this machine, with one executor and with two.

    python -m benchmarks.cluster.cost --records 1000000 8000000

Each executor has one core, and its Python has no packages. The processor time of executors and of
the driver is that of all their processes, Java and Python, looked at twice a second. What grows
with the records is the difference of the two sizes, for each record. Processor time hardly depends
on what else the machine does, and wall time does: the load is printed beside it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from attrs import field, frozen
from benchmarks import logs
from tests.replay.spark.standalone import standalone

from kafka_marshal.scratch import Scratch

REPLAYING: Final = """
import sys
from pathlib import Path
from kafka_marshal.replay import SparkMaster, run

log, out, url = sys.argv[1:]
run([log], out=Path(out), spark=SparkMaster.parsed(url, ["spark.executor.memory=640m"]))
"""
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_EVERY_S: Final = 0.5


@frozen
class CpuTime:
    """Processor time of all processes of some sessions, as far as it was seen."""

    sessions: Collection[int]
    by_process: dict[int, float] = field(factory=dict)

    @property
    def seconds(self) -> float:
        """Of all of them together."""
        return sum(self.by_process.values())

    def look(self) -> None:
        """See how much each process has taken by now."""
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) in self.sessions:
                taken = (int(fields[11]) + int(fields[12])) / _TICKS
                self.by_process[int(status.parent.name)] = taken


@contextmanager
def looking(*times: CpuTime) -> Iterator[None]:
    """Look again and again while the block lasts."""
    ended = Event()

    def look() -> None:
        while not ended.wait(_EVERY_S):
            for each in times:
                each.look()

    thread = Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@frozen
class Measured:
    """One replay."""

    records: int
    executors: int
    wall_s: float
    executors_s: float
    driver_s: float
    load: float

    def __str__(self) -> str:
        return (
            f"| {self.records:,} | {self.executors} | {self.wall_s:.1f} | {self.executors_s:.1f} "
            f"| {self.driver_s:.1f} | {self.load:.1f} |"
        )


def measured(log: Path, records: int, executors: int, folder: Path) -> Measured:
    """Replay a log at a master with this number of executors."""
    folder.mkdir()
    with standalone(folder / "cluster", workers=executors) as cluster:
        command = [sys.executable, "-c", REPLAYING, str(log), str(folder / "out"), cluster.url]
        begin = time.monotonic()
        with subprocess.Popen(
            command,
            env={**os.environ, "PYSPARK_PYTHON": str(cluster.python)},
            start_new_session=True,
        ) as driver:
            on_executors = CpuTime({worker.pid for worker in cluster.workers})
            on_executors.look()
            before_s = on_executors.seconds
            on_driver = CpuTime({driver.pid})
            with looking(on_executors, on_driver):
                code = driver.wait()
        if code:
            raise SystemExit(f"the replay ended with exit code {code}")
        wall_s = time.monotonic() - begin
    executors_s = on_executors.seconds - before_s
    load = os.getloadavg()[0]
    return Measured(records, executors, wall_s, executors_s, on_driver.seconds, load)


def main() -> int:
    """Print a table, and what a record costs with one executor and with two. Returns 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, nargs=2, default=[1_000_000, 8_000_000])
    sizes = parser.parse_args().records
    print("| records | executors | wall s | CPU s of executors | CPU s of the driver | load |")
    print("|---|---|---|---|---|---|")
    with Scratch("bench-cluster") as folder:
        for size in sizes:
            logs.write(folder / f"{size}.parquet", size)
        for executors in (1, 2):
            few, many = (
                measured(folder / f"{size}.parquet", size, executors, folder / f"{executors}.{at}")
                for at, size in enumerate(sizes)
            )
            print(few, many, sep="\n", flush=True)
            more = many.records - few.records
            each_us = 1e6 * (many.executors_s - few.executors_s) / more
            driver_us = 1e6 * (many.driver_s - few.driver_s) / more
            print(
                f"{executors} executors: {each_us:.2f} us a record more, the driver "
                f"{driver_us:.2f}",
                file=sys.stderr,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
