"""Mistakes made in the reducer: each is refuted by a property, with the step that breaks it.

Hand-made ones are those of `make mutants`. Generated ones are made of `fenced` by its operators:
each is refuted, or proved to do what the shipped reducer does; else the exit code is 1. Those of
ranges and of the kernel's steps are made and judged the same way.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from attrs import frozen
from model_tests.mutants import operators
from model_tests.mutants import reducer as hand_made
from model_tests.mutants.generated import survivors
from model_tests.mutants.hand_made import HandMade, Killer
from model_tests.ranges import mutants as of_ranges

from kafka_marshal.core.claims import fenced
from kafka_marshal.kernel import steps
from proof.inputs import Case, cases
from proof.jobs import Job
from proof.kernel.inputs import kernel_cases
from proof.kernel.prove import prove_kernel
from proof.late import mutants as late
from proof.machine import mutants as machine
from proof.properties import PROVED, Proved
from proof.prove import differs, prove, reducer_now
from proof.ranges import mutants as ranges
from proof.ranges.prove import Broken
from proof.smt.solver import smt
from proof.symbols import Escaped

KERNEL: Final = "kernel"
RANGES: Final = "ranges"
APART: Final = (KERNEL, RANGES)
"""Mistakes that are many, and of code that changes rarely: judged only where they are asked for."""
LETS_PASS: Final = ("first_wrong", "rules_fit")
"""Functions of the kernel of which is asked what may be assumed."""
ESCAPES: Final = "it makes or reads what no proxy follows"
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


@functools.cache
def generated(module: types.ModuleType = fenced) -> tuple[operators.Made, ...]:
    """Those of a module that the operators make, in the order of the file."""
    return tuple(operators.mutants(Path(str(module.__file__))))


def _refuted(
    name: str, solver: str, of: Sequence[Proved] = PROVED, among: Iterable[Case] | None = None
) -> Judged | None:
    """By the first of these properties that a step breaks; None if none does."""
    escaped: Escaped | None = None
    for case in _likely_first() if among is None else among:
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
        # Where it does what ships, what is proved of that holds of it.
        differing = (each for each in _likely_first(mutant.function) if _may_differ(each, solver))
        first = next(differing, None)
        if first is None:
            return Judged(name, EQUIVALENT)
        found = _refuted(name, solver, among=itertools.chain([first], differing))
        return found or Judged(name, ALLOWED, explained=False)


def _may_differ(case: Case, solver: str) -> bool:
    try:
        return differs(case, smt(solver))
    except Escaped:  # what is no number equals none
        return True


def proved_survivors() -> list[str]:
    """The names of those that `survivors.toml` says are proved equivalent."""
    found = [each.change for each in survivors() if each.proved]
    return [f"{each.function.rpartition('.')[2]}: {each.was} => {each.becomes}" for each in found]


@functools.cache
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
            return Judged(name, f"{ESCAPES}: {error}")
        if refuted:
            return Judged(name, refuted[0].property, refuted[0].story())
    return Judged(name, EQUIVALENT)


def kernel_of(text: str) -> types.ModuleType:
    """A module of this text of `kernel.steps`, not to be compiled."""
    module = types.ModuleType("mutated_steps")
    plain = text.replace("numba.njit(cache=True, nogil=True)", "lambda function: function")
    exec(compile(plain, "mutated_steps", "exec"), module.__dict__)  # noqa: S102  # as above
    return module


def _likely_first(function: str = "") -> list[Case]:
    """Those of a transition before others."""
    of = function.replace("_", "")
    return sorted(cases(), key=lambda each: (each.message.__name__.lower() != of, -len(each.known)))


def jobs() -> list[Job]:
    """All mistakes; of the kernel's each name begins with `kernel`, of ranges with `ranges`."""
    found = [Job("by hand", partial(_by_name, each.name), each.name) for each in by_hand()]
    found += [Job("by hand", partial(judge_machine, name), name) for name in machine.REFUTED]
    found += [Job("by hand", partial(judge_late, each.name), each.name) for each in late.MISTAKES]
    found += [
        Job("generated", partial(judge_generated, number), _name(each))
        for number, each in enumerate(generated())
    ]
    found += [
        Job(RANGES, partial(judge_ranges, number), f"{RANGES}: {each.mistake.name}")
        for number, each in enumerate(of_ranges.MUTANTS)
    ]
    found += [
        Job(RANGES, partial(judge_generated_ranges, number), f"{RANGES}: {_name(each)}")
        for number, (_, each) in enumerate(ranges.generated())
    ]
    return found + [
        Job(KERNEL, partial(judge_kernel, number), f"{KERNEL}: {_name(each)}")
        for number, each in enumerate(generated(steps))
        if each.function not in LETS_PASS
    ]


def show(judged: Sequence[Judged], *, whole: bool) -> int:
    """Count them, and print three stories; returns how many are not explained."""
    for one in [each for each in judged if each.story][:3]:
        print(one.story)
    equivalent = {each.name for each in judged if each.verdict == EQUIVALENT}
    missing = [each for each in proved_survivors() if whole and each not in equivalent]
    for survivor in missing:
        print(f"{survivor}: survivors.toml says that it is proved equivalent")
    counts = Counter(
        each.verdict
        if each.verdict in (EQUIVALENT, ALLOWED)
        else "escape"
        if each.verdict.startswith(ESCAPES)
        else "refuted"
        for each in judged
    )
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))
    return len(missing) + sum(not each.explained for each in judged)


def judge_machine(name: str, solver: str = "z3") -> Judged:
    """Refute a mistake in the machine."""
    mutant = next(each for each in machine.concerned() if each.name == name)
    broken = machine.refute(mutant, solver)
    if broken is None:
        return Judged(name, ALLOWED, explained=False)
    return Judged(name, broken.property, broken.story())


def judge_late(name: str, solver: str = "z3") -> Judged:
    """Refute a mistake of a late reader."""
    _, breaks, story = late.judge(name, solver)
    return Judged(name, breaks or ALLOWED, story, explained=bool(breaks))


def judge_ranges(number: int, solver: str = "z3") -> Judged:
    """Refute a hand-made mistake in ranges."""
    mutant = of_ranges.MUTANTS[number]
    found = ranges.judge_by_hand(number, solver)
    return _of_ranges(mutant.mistake.name, found, explained=not mutant.breaks)


def judge_generated_ranges(number: int, solver: str = "z3") -> Judged:
    """Prove a mutant of ranges equivalent, or refute it."""
    name, found = _name(ranges.generated()[number][1]), ranges.judge(number, solver)
    if found is None:
        return Judged(name, EQUIVALENT)
    return _of_ranges(name, found, explained=False)


def _of_ranges(name: str, found: Broken | str | None, *, explained: bool) -> Judged:
    if isinstance(found, Broken):
        return Judged(name, found.property, found.story())
    return Judged(name, f"{ESCAPES}: {found}") if found else Judged(name, ALLOWED, "", explained)


def _by_name(name: str, solver: str = "z3") -> Judged:
    return judge_by_hand(next(each for each in by_hand() if each.name == name), solver)
