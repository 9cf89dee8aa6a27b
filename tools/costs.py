"""What each test costs in CPU time, and which are the dearest: a plugin of pytest.

A test's cost is what its process and all that this one started have spent, brokers and JVMs too. It
counts from the end of the test before it. So a fixture's start is a cost of the
test that first takes it, and what a broker does in the background is one of the test that runs
then. Unlike seconds, CPU time is much the same on a busy machine.

It does not know which test is worth its cost. `CPU_S_MAX` is what a folder may cost: the summary
marks a folder that costs more, and no run fails of it.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import pytest
from attrs import define, field, frozen

ROOT: Final = Path(__file__).parent.parent
TABLE: Final = ROOT / "build" / "test-costs.tsv"
PRINTED_FROM_S: Final = 120.0
"""CPU seconds of the least run that prints a summary: others are of some tests alone."""
DEAREST: Final = 20
LOOK_FROM_S: Final = 2.0
"""Seconds between two looks at other processes; one takes two to four thousandths of a second."""
COLLECTION: Final = "collection"
"""Name of what a process costs before its first test."""

CPU_S_MAX: Final[Mapping[str, float]] = {
    "model_tests": 37,
    "model_tests/edges": 38,
    "model_tests/graphs": 53,
    "model_tests/groups": 9,
    "model_tests/mutants": 20,
    "model_tests/participant": 16,
    "model_tests/ranges": 24,
    "model_tests/transitions": 45,
    "tests/broker": 30,
    "tests/cli": 79,
    "tests/docs": 34,
    "tests/modelcheck": 62,
    "tests/replay": 400,
    "tests/upgrade": 30,
    "tests/validate": 54,
}
"""What the tests of a folder may cost by day, in CPU seconds, where TLC's rows are not kept.

They were measured on a busy machine, where the same work takes up to half as much again.
"""

Pid: TypeAlias = tuple[int, int]
"""A process: its number, and when it started. Numbers come again."""


@frozen
class Process:
    """A process, at a look."""

    parent: int
    started: int
    cpu_s: float
    """User and system time of it and its reaped children, in seconds."""


def processes() -> dict[int, Process]:
    """Those that run, by pid."""
    tick = os.sysconf("SC_CLK_TCK")
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # with paths a look would take thrice as long
        if not name.isdigit():
            continue
        try:
            file = os.open(f"/proc/{name}/stat", os.O_RDONLY)
        except OSError:
            continue  # ended since
        try:
            stat = os.read(file, 4096)
        except OSError:
            continue
        finally:
            os.close(file)
        words = stat.rpartition(b")")[2].split(None, 20)
        spent_ticks = sum(map(int, words[11:15]))
        found[int(name)] = Process(int(words[1]), int(words[19]), spent_ticks / tick)
    return found


def descendants(
    root: int, known: Iterable[Pid], running: Mapping[int, Process]
) -> dict[Pid, Process]:
    """Of `running` what `root` started, and what is known of old although it is an orphan now."""
    children = defaultdict(list)
    for pid, process in running.items():
        children[process.parent].append(pid)
    found: dict[Pid, Process] = {}
    waiting = [*children[root]]
    waiting += [pid for pid, started in known if pid in running and running[pid].started == started]
    while waiting:
        pid = waiting.pop()
        if (key := (pid, running[pid].started)) not in found:
            found[key] = running[pid]
            waiting += children[pid]
    return found


def spent(before: Mapping[Pid, Process], now: Mapping[Pid, Process], root: int) -> float:
    """CPU seconds of descendants between two looks, without what is in the time of `root`.

    Of a child that ended, its parent's time has all. What was counted of it before is taken off,
    unless it was an orphan: then nobody's time has the rest.
    """
    cost = sum(now[key].cpu_s - (before[key].cpu_s if key in before else 0.0) for key in now)
    pids = {root, *(pid for pid, _ in before)}
    return cost - sum(
        before[key].cpu_s for key in before.keys() - now.keys() if before[key].parent in pids
    )


@define
class Meter:
    """CPU time of this process and its descendants since it was last read."""

    _own_s: float = 0.0
    _reaped_s: float = 0.0
    """Of children that ended, and were waited for."""
    _known: dict[Pid, Process] = field(factory=dict)
    _looked: float = 0.0

    def read(self) -> float:
        """CPU seconds since the last call; the first time since the process started.

        When a child has ended it looks at once: what was counted of it before is in its time again.
        """
        times = os.times()
        own_s, reaped_s = sum(times[:2]), sum(times[2:4])
        cost, has_reaped = (
            own_s - self._own_s + reaped_s - self._reaped_s,
            reaped_s > self._reaped_s,
        )
        self._own_s, self._reaped_s = own_s, reaped_s
        if has_reaped or time.monotonic() - self._looked >= LOOK_FROM_S:
            before, root = self._known, os.getpid()
            self._known = descendants(root, before, processes())
            cost += spent(before, self._known, root)
            self._looked = time.monotonic()
        return max(0.0, cost)


@define(eq=False)  # pytest keeps plugins in a set
class Measured:
    """Hooks of the process that runs tests: each report of an end has what its test cost."""

    _meter: Meter = field(factory=Meter)
    _collection_s: float | None = None

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """What was spent so far is of no test."""
        self._collection_s = self._meter.read()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Write the cost where xdist carries it to the process that prints."""
        report = yield
        if call.when == "teardown":
            report.user_properties.append(("cpu_s", self._meter.read()))
            if self._collection_s is not None:
                report.user_properties.append((COLLECTION, self._collection_s))
                self._collection_s = None
        return report


@define(eq=False)  # pytest keeps plugins in a set
class Summary:
    """Hooks of the process that prints."""

    table: Path | None
    """Where the costs go in any case; None: to `TABLE`, if the run is long enough."""
    costs: dict[str, float] = field(factory=lambda: defaultdict(float))
    """CPU seconds by the id of a test."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test cost."""
        if report.when == "teardown":
            found = dict(report.user_properties)
            self.costs[report.nodeid] += float(str(found.get("cpu_s", 0.0)))
            self.costs[COLLECTION] += float(str(found.get(COLLECTION, 0.0)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the table, and print the dearest tests and the sums of folders."""
        long = sum(self.costs.values()) >= PRINTED_FROM_S
        if table := self.table or (TABLE if long else None):
            table.parent.mkdir(parents=True, exist_ok=True)
            rows = sorted(self.costs.items(), key=lambda row: -row[1])
            table.write_text("".join(f"{s:.2f}\t{test}\n" for test, s in rows), encoding="utf-8")
            if long:
                terminalreporter.section("CPU seconds, with all that tests start")
                for line in summary(self.costs, CPU_S_MAX):
                    terminalreporter.write_line(line)
                terminalreporter.write_line(f"all: {table}")


def folder_of(nodeid: str) -> str:
    """The two outermost folders of a test's file, or what there is of them.

    >>> folder_of("tests/replay/local/test_one.py::test_a")
    'tests/replay'
    >>> folder_of("model_tests/test_walks.py::test_a"), folder_of("collection")
    ('model_tests', 'collection')
    """
    path = Path(nodeid.partition("::")[0])
    return "/".join(path.parts[:-1][:2]) or str(path)


def summary(costs: Mapping[str, float], most: Mapping[str, float]) -> list[str]:
    """The dearest tests, then all folders, the dearest first; CPU seconds before the name.

    >>> summary({"a/b/test_c.py::test_d": 2.0, "a/b/test_c.py::test_e": 1.5}, {"a/b": 3.0})
    ['    2.0  a/b/test_c.py::test_d', '    1.5  a/b/test_c.py::test_e', '    3.5  a/b  ABOVE 3']
    """
    folders: dict[str, float] = defaultdict(float)
    for nodeid, cpu_s in costs.items():
        folders[folder_of(nodeid)] += cpu_s
    lines = [
        f"{cpu_s:7.1f}  {nodeid}"
        for nodeid, cpu_s in sorted(costs.items(), key=lambda row: -row[1])[:DEAREST]
        if nodeid != COLLECTION
    ]
    for folder, cpu_s in sorted(folders.items(), key=lambda row: -row[1]):
        above = f"  ABOVE {most[folder]:.0f}" if cpu_s > most.get(folder, cpu_s) else ""
        lines.append(f"{cpu_s:7.1f}  {folder}{above}")
    return lines


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--costs FILE`."""
    parser.addoption("--costs", type=Path, metavar="FILE", help="write what each test costs")


def pytest_configure(config: pytest.Config) -> None:
    """Measure where tests run, print where a user looks; without xdist both."""
    if not Path("/proc/self/stat").exists():
        return  # not on macOS
    worker, spread = hasattr(config, "workerinput"), config.getoption("dist", "no") != "no"
    if worker or not spread:
        config.pluginmanager.register(Measured(), "costs-measured")
    if not worker:
        config.pluginmanager.register(Summary(config.getoption("costs")), "costs-summary")
