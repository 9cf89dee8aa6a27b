"""Proves the shipped reducer, kernel and machine, for any log and number of clients: `make prove`.

    python -m proof                       z3, a table of every property
    python -m proof --solver cvc5         the same, by another solver
    python -m proof --only AtMostOnce     properties with this in their names
    python -m proof --cases 2             two of each kind of case, the smallest
    python -m proof --mutants             mistakes in what ships: each is refuted, with a story
    python -m proof --mutants --only kernel  mistakes in the kernel's steps; or of `ranges`
    python -m proof --needed              what fails without each part of the late readers' relation

The shipped `step` runs with symbols. `is None`, `match` and a message's class are enumerated. Each
path is taken again by plain Python with the solver's values. Exit code 1: something is refuted, and
a step that breaks it is printed; a verdict is never reached; or a job proved nothing. Exit code 2:
nothing has such a name.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from proof import mutants, reducer
from proof.jobs import Failed, Job, Part, Run, processes, run_all, show_failed, smallest
from proof.late import table as late_readers
from proof.late.relation import EXACT
from proof.machine import table as machine
from proof.ranges import table as ranges

PARTS: Final[tuple[Part, ...]] = (late_readers, machine, ranges, reducer)
"""Those with the longest jobs first."""


def _show_parts(run: Run, names: dict[str, list[str]], asked: argparse.Namespace) -> int:
    """Prove, and print the tables; returns how much is wrong."""
    chosen = {each: names[each.__name__] for each in PARTS if names[each.__name__]}
    jobs = [
        (part, job) for part, of in chosen.items() for job in smallest(part.jobs(of), asked.cases)
    ]
    results: dict[Any, list[Any]] = {each: [] for each in PARTS}
    failed = []
    for number, found in run_all(run, [job for _, job in jobs], asked.solver):
        if isinstance(found, Failed):
            failed.append(found)
        else:
            results[jobs[number][0]].append(found)
    wrong = len(failed)
    for part in reversed(PARTS):
        if part in chosen:
            whole = asked.cases is None and not failed
            wrong += part.show(results[part], chosen[part], asked.solver, whole=whole)
    show_failed(failed)
    return wrong


def _show_mutants(run: Run, jobs: Sequence[Job], asked: argparse.Namespace) -> int:
    """Judge mistakes, and print a line for each; returns how many are not explained."""
    judged, failed = [], []
    for number, found in run_all(run, jobs, asked.solver):
        if isinstance(found, Failed):
            failed.append(found)
            continue
        judged.append(found)
        print(f"{jobs[number].name[:100]:100}  {found.verdict}", flush=True)
    show_failed(failed)
    return mutants.show(judged, whole=not asked.only and asked.cases is None) + len(failed)


def _show_needed(run: Run, jobs: Sequence[Job], asked: argparse.Namespace) -> int:
    """Leave out each part, and print what fails; returns how many are not needed."""
    idle, failed = 0, []
    for _, found in run_all(run, jobs, asked.solver):
        if isinstance(found, Failed):
            failed.append(found)
            continue
        name, fails = found
        print(f"without {name:28} {fails or 'nothing else fails'}", flush=True)
        idle += not fails and name not in EXACT
    show_failed(failed)
    needed = len(jobs) - len(failed) - idle
    print(f"{needed} of {len(jobs)} parts are needed, or are the property itself")
    return idle + len(failed)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: give 1 or more")
    return int(text)


def main(arguments: list[str] | None = None) -> int:
    """Prove; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--solver", choices=("z3", "cvc5"), default="z3")
    parser.add_argument("--only", default="", help="those with this in their names")
    parser.add_argument("--jobs", type=_positive, default=2, help="processes")
    parser.add_argument("--cases", type=_positive, help="at most this many of each kind")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--mutants", action="store_true", help="refute mistakes instead")
    what.add_argument("--needed", action="store_true", help="leave out parts instead")
    asked = parser.parse_args(arguments)

    def check(found: Sequence[object], what: str, names: Sequence[str]) -> None:
        if not found:
            parser.error(f"--only {asked.only}: no {what} has this in its name, but {_few(names)}")

    began_s = time.monotonic()
    if asked.mutants:
        every = mutants.jobs()
        jobs = [each for each in every if asked.only in each.name]
        jobs = jobs if asked.only else [each for each in jobs if each.kind not in mutants.APART]
        check(
            jobs,
            "mistake",
            [each.name for each in every if each.kind == "by hand"] + [*mutants.APART],
        )
        show = partial(_show_mutants, jobs=smallest(jobs, asked.cases), asked=asked)
    elif asked.needed:
        parts = [each for each in late_readers.PARTS if asked.only in each]
        check(parts, "part of the late readers' relation", late_readers.PARTS)
        jobs = [Job("part", partial(late_readers.fails_without, each), each) for each in parts]
        show = partial(_show_needed, jobs=smallest(jobs, asked.cases), asked=asked)
    else:
        names = {
            part.__name__: [each for each in part.names() if asked.only in each] for part in PARTS
        }
        check(
            [each for of in names.values() for each in of],
            "property",
            [each for part in PARTS for each in part.names()],
        )
        show = partial(_show_parts, names=names, asked=asked)
    with processes(asked.jobs) as run:
        wrong = show(run)
    whole = "what was asked" if asked.only or asked.cases else "it"
    print(f"{'not all' if wrong else 'all'} of {whole} holds", end="")
    print(f", after {time.monotonic() - began_s:.0f} s")
    return 1 if wrong else 0


def _few(names: Sequence[str]) -> str:
    return ", ".join(sorted(set(names)))


if __name__ == "__main__":
    sys.exit(main())
