"""Proves the shipped reducer, kernel and machine, for any log and number of clients: `make prove`.

    python -m proof                       z3, a table of every property
    python -m proof --solver cvc5         the same, by another solver
    python -m proof --only AtMostOnce     properties with this in their names
    python -m proof --mutants             mistakes in the reducer: each is refuted, with a story
    python -m proof --mutants --only kernel  mistakes in the kernel's steps
    python -m proof --needed              what fails without each part of the late readers' relation
    python -m proof --only Mutex          of the machine, with any number of clients

The shipped `step` runs with symbols. `is None`, `match` and a message's class are enumerated. Each
path is taken again by plain Python with the solver's values. Exit code 1: something is refuted, and
a step that breaks it is printed; or a verdict is never reached.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from functools import partial

from kafka_marshal import Accepted, Refused
from proof import mutants
from proof.inputs import Case, cases
from proof.kernel import KERNEL_IS_REDUCER, KernelCase, kernel_cases, prove_kernel
from proof.late import table as late_readers
from proof.machine import table as machine
from proof.properties import PROVED
from proof.prove import Result, prove
from proof.symbols import smt

NEVER = {Accepted.OVERWRITTEN.value, Accepted.IGNORED.value}
"""Verdicts of the original's rules."""


NAMES = (*(each.name for each in PROVED), KERNEL_IS_REDUCER)
"""All that is proved, as the table has it."""


def _proved(case: Case, solver: str, only: str) -> Result:
    if isinstance(case, KernelCase):
        return prove_kernel(case, smt(solver))
    return prove(case, smt(solver), [each for each in PROVED if only in each.name])


def show(results: list[Result], solver: str) -> None:
    """Print the table."""
    paths = sum(each.paths for each in results)
    of_reducer = [each for each in results if not isinstance(each.case, KernelCase)]
    asked = sum((each.asked for each in results), Counter[str]())
    examined = sum((each.examined for each in results), Counter[str]())
    seconds = {
        name: sum(each.seconds[name] for each in results) for name in ("step", *_names(results))
    }
    print(f"{'property':28} {'paths':>8} {'questions':>10} {'seconds':>8}  solver")
    steps = sum(each.paths for each in of_reducer)
    print(f"{'(step)':28} {steps:8,} {'':10} {seconds['step']:8.1f}  {solver}")
    for name in _names(results):
        count, questions = examined[name], asked[name]
        print(f"{name:28} {count:8,} {questions:10,} {seconds[name]:8.1f}  {solver}")
    repeated = sum(each.repeated for each in results)
    pairs = {(each.case.message.__name__, name) for each in of_reducer for name in each.reached}
    print(
        f"{len(results)} cases; {repeated:,} of {paths:,} paths taken again by plain Python; "
        f"{len(pairs)} pairs of message and verdict"
    )


def _names(results: list[Result]) -> list[str]:
    return [name for name in NAMES if any(name in one.seconds for one in results)]


def main(arguments: list[str] | None = None) -> int:
    """Prove; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m proof",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--solver", choices=("z3", "cvc5"), default="z3")
    parser.add_argument("--only", default="", help="properties with this in their names")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--cases", type=int, help="only this many cases, the smallest")
    parser.add_argument("--mutants", action="store_true", help="refute mistakes instead")
    parser.add_argument("--needed", action="store_true", help="leave out parts instead")
    asked = parser.parse_args(arguments)
    of_steps = any(asked.only in each.name for each in PROVED)
    of_kernel = asked.only in KERNEL_IS_REDUCER
    of_machine = any(asked.only in name for name in machine.NAMES)
    chosen = of_steps or of_kernel or of_machine or late_readers.chosen(asked.only)
    if not (chosen or asked.mutants or asked.needed):
        parser.error(f"--only {asked.only}: no property has this in its name")
    with multiprocessing.get_context("fork").Pool(asked.jobs) as pool:
        if asked.mutants:
            return mutants.show(pool, asked.only) | late_readers.show_mutants(pool, asked.only)
        if asked.needed:
            return late_readers.show_needed(pool, asked.only)
        began_s, results = time.monotonic(), []
        of_cases = cases() if of_steps else []
        all_cases = sorted(of_cases, key=lambda each: len(each.known))[: asked.cases][::-1]
        if of_kernel:
            all_cases += sorted(kernel_cases(), key=lambda each: len(each.known))[: asked.cases]
        job = partial(_proved, solver=asked.solver, only=asked.only)
        for result in pool.imap_unordered(
            job, sorted(all_cases, key=lambda each: -len(each.known))
        ):
            results.append(result)
            past_s = time.monotonic() - began_s
            print(f"{len(results)} of {len(all_cases)} cases, {past_s:.0f} s", file=sys.stderr)
        show(results, asked.solver)
        wrong = 0
        if asked.cases is None:
            wrong += late_readers.show(pool, asked.solver, asked.only)
            wrong += machine.show(pool, asked.solver, asked.only) if of_machine else 0
    refuted = [each for result in results for each in result.refuted]
    first = {each.property: each for each in reversed(refuted)}
    for each in first.values():
        print("\n" + each.story())
    of_reducer = [each for each in results if not isinstance(each.case, KernelCase)]
    reached = {name for result in of_reducer for name in result.reached}
    missed = {each.value for each in (*Accepted, *Refused)} - NEVER - reached
    missed = missed if asked.cases is None and of_steps else set()
    if missed:
        print(f"no path ends in {', '.join(sorted(missed))}")
    print("refuted" if first or wrong else "all of it holds", end="")
    print(f", after {time.monotonic() - began_s:.0f} s")
    return 1 if first or missed or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
