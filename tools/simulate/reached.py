"""What simulated runs reach: branches of the client, actions, verdicts, pairs of faults.

    python -m tools.simulate.reached               60 runs; prints what none of them reached

The lines that were reached go into reached.json, from which mutants are sampled.
"""

from __future__ import annotations

import argparse
import itertools
import json
import linecache
import multiprocessing
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

import attrs
from attrs import define, field, frozen
from coverage import Coverage, CoverageData
from tools.simulate.faults import FAULTS
from tools.simulate.mutants.worlds import setting
from tools.simulate.runs import simulate

from kafka_marshal import client
from kafka_marshal.core.claims.verdicts import Accepted, Refused

CLIENT: Final = Path(client.__file__).parent
PACKAGE: Final = CLIENT.parent
REACHED: Final = Path(__file__).parent / "reached.json"
ACTIONS: Final = (
    "StartReading",
    "SendClaimingPartition",
    "SendHeartbeat",
    "SendReleasingPartition",
    "SendClaimingMessages",
    "SendReleaseGroup",
    "GiveUp",
    "Append",
    "Read",
    "Process",
    "Gone",
    "Crash",
)
"""What a recorded instance does, by the names of the specification (`validator.action_of`);
Process stands for ProcessGrant, too."""
Arc = tuple[int, int]


@frozen
class Ran:
    """What one run reached."""

    arcs: dict[str, list[Arc]]
    actions: Counter[str]
    verdicts: Counter[str]
    pairs: Counter[tuple[str, str]]


@define
class Reached:
    """What many runs reached: in how many of them."""

    runs: int = 0
    arcs: Counter[tuple[str, Arc]] = field(factory=Counter)
    actions: Counter[str] = field(factory=Counter)
    verdicts: Counter[str] = field(factory=Counter)
    pairs: Counter[tuple[str, str]] = field(factory=Counter)

    def add(self, ran: Ran) -> None:
        """Count one more."""
        self.runs += 1
        self.arcs.update((path, arc) for path, arcs in ran.arcs.items() for arc in arcs)
        self.actions.update(ran.actions.keys())
        self.verdicts.update(ran.verdicts.keys())
        self.pairs.update(ran.pairs.keys())


def run(simulated_s: float | None, seed: int) -> Ran:
    """One run, watched. It takes five times as long as one that is not."""
    world = setting(seed)
    if simulated_s is not None:
        world = attrs.evolve(world, simulated_s=simulated_s)
    cov = _coverage()
    cov.start()
    try:
        report = simulate(seed, world)
    finally:
        cov.stop()
    data = cov.get_data()
    return Ran(
        {path: data.arcs(path) or [] for path in data.measured_files()},
        report.actions,
        report.verdicts,
        report.overlaps,
    )


def _coverage() -> Coverage:
    include = [f"{CLIENT}/*"]
    return Coverage(
        branch=True, concurrency="greenlet", include=include, data_file=None, config_file=False
    )


@frozen
class Missed:
    """A branch of which one way was never gone, or that was never reached."""

    path: str
    line: int
    exits: int
    taken: int

    def row(self) -> str:
        """On one line."""
        text = linecache.getline(str(PACKAGE / self.path), self.line).strip()
        return f"{self.path}:{self.line:<5}{self.taken} of {self.exits}  {text}"


def branches(reached: Reached) -> tuple[int, int, list[Missed]]:
    """How many ways out of branches there are, how many were gone, and which were not."""
    cov = _coverage()
    data: CoverageData = cov.get_data()
    by_path: dict[str, list[Arc]] = {}
    for file, arc in reached.arcs:
        by_path.setdefault(file, []).append(arc)
    data.add_arcs(by_path)
    data.touch_files([str(path) for path in CLIENT.rglob("*.py")])
    exits = taken = 0
    missed = []
    for path in sorted(CLIENT.rglob("*.py")):
        for line, (of, gone) in sorted(cov.branch_stats(str(path)).items()):
            exits, taken = exits + of, taken + gone
            if gone < of:
                missed.append(Missed(path.relative_to(PACKAGE).as_posix(), line, of, gone))
    return exits, taken, missed


def table(reached: Reached) -> str:
    """What was reached in how many runs, and what in none."""
    exits, taken, missed = branches(reached)
    verdicts = [str(each) for kind in (Accepted, Refused) for each in kind]
    pairs = [*itertools.combinations_with_replacement(sorted(FAULTS), 2)]
    never = [f"{one} and {other}" for one, other in pairs if not reached.pairs[one, other]]
    return "\n".join(
        [
            f"{reached.runs} runs",
            "",
            f"{'action':32}runs",
            *(f"{name:32}{reached.actions[name]}" for name in ACTIONS),
            "",
            f"{'what records did':32}runs",
            *(f"{name:32}{reached.verdicts[name]}" for name in verdicts),
            "",
            f"pairs of faults: {len(pairs) - len(never)} of {len(pairs)}; never:",
            *(f"    {pair}" for pair in never),
            "",
            f"ways out of branches of the client: {taken} of {exits}, {taken / exits:.1%}; never:",
            *(one.row() for one in missed),
        ]
    )


def save(reached: Reached, path: Path) -> None:
    """Write down which lines were reached."""
    lines: dict[str, set[int]] = {}
    for each in sorted(CLIENT.rglob("*.py")):
        lines[each.relative_to(PACKAGE).as_posix()] = set()
    for file, arc in reached.arcs:
        inside = Path(file).relative_to(PACKAGE).as_posix()
        lines[inside].update(abs(line) for line in arc if line > 0)
    rows = [f"{json.dumps(name)}: {json.dumps(sorted(of))}" for name, of in lines.items()]
    text = f'{{"runs": {reached.runs}, "lines": {{\n' + ",\n".join(rows) + "\n}}\n"
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.simulate.reached",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0, help="the first")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--simulated-s", type=float, help="of each run; as its world has it")
    parser.add_argument("--save", action="store_true", help="write reached.json")
    asked = parser.parse_args(arguments)
    reached = Reached()
    with multiprocessing.get_context("fork").Pool(asked.jobs, maxtasksperchild=10) as pool:
        seeds = range(asked.seed, asked.seed + asked.runs)
        for ran in pool.imap_unordered(partial(run, asked.simulated_s), seeds):
            reached.add(ran)
    print(table(reached))
    if asked.save:
        save(reached, REACHED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
