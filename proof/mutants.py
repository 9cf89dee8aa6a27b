"""Mistakes made in the reducer: each is refuted by a property, with the step that breaks it.

Hand-made ones are those of `make mutants`. Generated ones are made of `fenced` by its operators:
each is refuted, or proved to do what the shipped reducer does; else the exit code is 1. Those of
the kernel's steps are made the same way: each does what the reducer does, or is refuted.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Final

from attrs import frozen
from model_tests.mutants import operators
from model_tests.mutants import reducer as hand_made
from model_tests.mutants.generated import survivors
from model_tests.mutants.hand_made import HandMade, Killer

from kafka_marshal.core.claims import fenced
from kafka_marshal.kernel import steps
from proof.inputs import Case, cases
from proof.kernel import kernel_cases, prove_kernel
from proof.machine import mutants as machine
from proof.properties import PROVED, Proved
from proof.prove import differs, prove, reducer_now
from proof.symbols import Escaped, smt

KERNEL: Final = "kernel"
LETS_PASS: Final = ("first_wrong", "rules_fit")
"""Functions of the kernel of which is asked what may be assumed."""
ESCAPES: Final = "it makes what is no number, id or truth value"
EQUIVALENT: Final = "proved equivalent"
ALLOWED: Final = "differs, and no property forbids it"


@frozen
class Judged:
    """What came of one mistake."""

    name: str
    verdict: str
    """The property that it breaks, or that none is broken."""
    story: str = ""
    explained: bool = True
    """False where a property had to forbid it, and none did."""


def by_hand() -> list[HandMade]:
    """The hand-made ones of the fenced rules."""
    return [each for each in hand_made.MUTANTS if each.module is fenced]


def generated(module: types.ModuleType = fenced) -> list[operators.Made]:
    """Those of a module that the operators make, in the order of the file."""
    return list(operators.mutants(Path(str(module.__file__))))


def _refuted(name: str, solver: str, of: Sequence[Proved] = PROVED) -> Judged | None:
    """By the first of these properties that a step breaks; None if none does."""
    escaped: Escaped | None = None
    for case in _likely_first():
        try:
            result = prove(case, smt(solver), of, until_refuted=True)
        except Escaped as error:
            escaped = error
            continue
        if result.refuted:
            first = result.refuted[0]
            return Judged(name, first.property, first.story())
    return None if escaped is None else Judged(name, f"{ESCAPES}: {escaped}")


def judge_by_hand(mutant: HandMade, solver: str = "z3") -> Judged:
    """Refute it."""
    expected = [each for each in PROVED if each.name in mutant.killers(Killer.STEP)]
    with mutant.made():
        found = (expected and _refuted(mutant.name, solver, expected)) or _refuted(
            mutant.name, solver
        )
    return found or Judged(mutant.name, ALLOWED, explained=not mutant.killed_by)


@contextmanager
def made(text: str) -> Iterator[types.ModuleType]:
    """Meanwhile the reducer goes by this text of `fenced`."""
    module = types.ModuleType("mutated")
    exec(compile(text, "mutated", "exec"), module.__dict__)  # noqa: S102  # our own text, changed
    reducer_now.fenced, shipped = module, reducer_now.fenced
    try:
        yield module
    finally:
        reducer_now.fenced = shipped


def judge_generated(number: int, solver: str = "z3") -> Judged:
    """Prove it equivalent, or refute it."""
    mutant = generated()[number]
    name = _name(mutant)
    with made(mutant.module_text()):
        try:
            if not any(differs(case, smt(solver)) for case in _likely_first()):
                return Judged(name, EQUIVALENT)
        except Escaped:
            pass  # what is no number equals none
        return _refuted(name, solver) or Judged(name, ALLOWED, explained=False)


def proved_survivors() -> list[str]:
    """The names of those that `survivors.toml` says are proved equivalent."""
    found = [each.change for each in survivors() if each.proved]
    return [f"{each.function.rpartition('.')[2]}: {each.was} => {each.becomes}" for each in found]


def _name(mutant: operators.Made) -> str:
    was, becomes = mutant.texts()
    removed, added = (
        [line.strip() for line in of if line not in other]
        for of, other in ((was, becomes), (becomes, was))
    )
    return f"{mutant.function}: {' '.join(removed)} => {' '.join(added)}"


def judge_kernel(number: int, solver: str = "z3") -> Judged:
    """Prove that a mutant of the kernel's steps is the reducer, or refute it."""
    mutant = generated(steps)[number]
    name, module = _name(mutant), kernel_of(mutant.module_text())
    for case in sorted(kernel_cases(), key=lambda each: len(each.known)):
        try:
            refuted = prove_kernel(case, smt(solver), module).refuted
        except Escaped as error:  # it reads what decides nothing
            return Judged(name, str(error))
        if refuted:
            return Judged(name, refuted[0].property, refuted[0].story())
    return Judged(name, EQUIVALENT)


def kernel_of(text: str) -> types.ModuleType:
    """A module of this text of `kernel.steps`, not to be compiled."""
    module = types.ModuleType("mutated_steps")
    plain = text.replace("numba.njit(cache=True, nogil=True)", "lambda function: function")
    exec(compile(plain, "mutated_steps", "exec"), module.__dict__)  # noqa: S102  # as above
    return module


def _likely_first() -> list[Case]:
    return sorted(cases(), key=lambda each: -len(each.known))


def show(pool: Pool, only: str) -> int:
    """Judge all of them, and print a table and three stories; returns the exit code."""
    hand = [each.name for each in by_hand() if only in each.name]
    numbers = range(len(generated())) if not only else range(0)
    jobs = [partial(_by_name, name) for name in hand]
    jobs += [partial(judge_generated, number) for number in numbers]
    if only == KERNEL:
        jobs += [
            partial(judge_kernel, number)
            for number, each in enumerate(generated(steps))
            if each.function not in LETS_PASS
        ]
    hand += [each.name for each in machine.concerned() if only in each.name]
    jobs += [partial(judge_machine, each) for each in machine.REFUTED if only in each]
    judged, stories = [], 0
    for one in pool.imap_unordered(_run, jobs):
        judged.append(one)
        print(f"{one.name[:100]:100}  {one.verdict}", flush=True)
        if one.story and one.name in hand and stories < 3:
            stories += 1
            print(one.story)
    equivalent = {each.name for each in judged if each.verdict == EQUIVALENT}
    for survivor in proved_survivors() if numbers else ():
        if survivor not in equivalent:
            print(f"{survivor}: survivors.toml says that it is proved equivalent")
            judged.append(Judged(survivor, ALLOWED, explained=False))
    counts = Counter(
        each.verdict if each.verdict in (EQUIVALENT, ALLOWED) else "refuted" for each in judged
    )
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))
    return 0 if all(each.explained for each in judged) else 1


def judge_machine(name: str) -> Judged:
    """Refute a mistake in the machine."""
    broken = machine.refute(next(each for each in machine.concerned() if each.name == name))
    if broken is None:
        return Judged(name, ALLOWED, explained=False)
    return Judged(name, broken.property, broken.story())


def _by_name(name: str) -> Judged:
    return judge_by_hand(next(each for each in by_hand() if each.name == name))


def _run(job: partial[Judged]) -> Judged:
    return job()
