"""The reducer's and the kernel's part of the proof, as jobs and as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

from kafka_marshal import Accepted, Refused
from proof import table
from proof.inputs import Case, cases
from proof.jobs import Job
from proof.kernel.inputs import KernelCase, kernel_cases
from proof.kernel.prove import KERNEL_IS_REDUCER, prove_kernel
from proof.properties import PROVED
from proof.prove import Result, prove
from proof.smt.solver import smt

NEVER: Final = {Accepted.OVERWRITTEN.value, Accepted.IGNORED.value}
"""Verdicts of the original's rules."""
NAMES: Final = (*(each.name for each in PROVED), KERNEL_IS_REDUCER)
"""All that is proved, as the table has it."""


def names() -> Sequence[str]:
    """All that is proved."""
    return NAMES


def _proved(solver: str, case: Case, only: frozenset[str]) -> Result:
    if isinstance(case, KernelCase):
        return prove_kernel(case, smt(solver))
    return prove(case, smt(solver), [each for each in PROVED if each.name in only])


def jobs(names: Sequence[str]) -> list[Job]:
    """What proves these properties, the longest first."""
    of_steps: list[Case] = cases() if set(names) - {KERNEL_IS_REDUCER} else []
    of_kernel: list[Case] = list(kernel_cases()) if KERNEL_IS_REDUCER in names else []
    return [
        Job(kind, partial(_proved, case=case, only=frozenset(names)), str(case))
        for kind, found in (("reducer", of_steps), ("kernel", of_kernel))
        for case in sorted(found, key=lambda each: -len(each.known))
    ]


def show(results: list[Result], names: Sequence[str], solver: str, *, whole: bool) -> int:
    """Print the table; returns how much is refuted, and how many verdicts are never reached."""
    of_reducer = [each for each in results if not isinstance(each.case, KernelCase)]
    asked = sum((each.asked for each in results), Counter[str]())
    examined = sum((each.examined for each in results), Counter[str]())

    def seconds(name: str) -> float:
        return sum(each.seconds[name] for each in results)

    steps = sum(each.paths for each in of_reducer)
    rows = [table.Row("(step)", steps, None, seconds("step"))] if of_reducer else []
    rows += [table.Row(name, examined[name], asked[name], seconds(name)) for name in names]
    table.show("a step of the reducer", rows, solver)
    repeated, paths = (sum(getattr(each, of) for each in results) for of in ("repeated", "paths"))
    pairs = {(each.case.message.__name__, name) for each in of_reducer for name in each.reached}
    print(
        f"{len(results)} cases; {repeated:,} of {paths:,} paths taken again by plain Python; "
        f"{len(pairs)} pairs of message and verdict"
    )
    refuted = {one.property: one for each in reversed(results) for one in each.refuted}
    for one in refuted.values():
        print("\n" + one.story())
    reached = {name for result in of_reducer for name in result.reached}
    missed = {each.value for each in (*Accepted, *Refused)} - NEVER - reached
    missed = missed if whole and of_reducer else set()
    if missed:
        print(f"no path ends in {', '.join(sorted(missed))}")
    return len(refuted) + len(missed) + sum(not examined[name] for name in names)
