"""Mistakes in what ships of ranges: each is refuted, or proved to do the same.

Generated ones are made by the operators of `make mutants`; hand-made ones are those of the model
tests.
"""

from __future__ import annotations

import functools
import itertools
import types
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from model_tests.mutants import operators
from model_tests.ranges.mutants import MUTANTS

from kafka_marshal.core.ranges import claiming_range, reducer, state
from proof.ranges import others
from proof.ranges.inputs import RangesCase, records, requests
from proof.ranges.prove import SHIPPED, STEPS_NOW, Broken, Modules, differs, prove_ranges
from proof.smt.solver import Smt, smt
from proof.symbols import Diverged, Escaped

MODULES: Final = (claiming_range, reducer, state)
NOT_ASKED: Final = ("Ranges.low",)
"""Functions that no step asks."""


@functools.cache
def generated() -> tuple[tuple[ModuleType, operators.Made], ...]:
    """Those that the operators make, in the order of the files."""
    return tuple(
        (module, each)
        for module in MODULES
        for each in operators.mutants(Path(str(module.__file__)))
        if each.function not in NOT_ASKED
    )


@contextmanager
def made(module: ModuleType, text: str) -> Iterator[Modules]:
    """Meanwhile a step goes by this text of a module."""
    mutated = types.ModuleType(f"mutated_{module.__name__.rpartition('.')[2]}")
    exec(compile(text, mutated.__name__, "exec"), mutated.__dict__)  # noqa: S102  # our own text
    if module is state:
        before, begun = dict(others.counts), vars(state.Ranges)["has_begun"]
        others.counts.update({name: vars(mutated.Ranges)[name] for name in before})
        setattr(state.Ranges, "has_begun", vars(mutated.Ranges)["has_begun"])  # noqa: B010
        try:
            yield SHIPPED
        finally:
            others.counts.update(before)
            setattr(state.Ranges, "has_begun", begun)  # noqa: B010
    elif module is reducer:
        yield Modules(claiming_range, mutated)
    else:
        shipped = STEPS_NOW.claiming_range
        STEPS_NOW.claiming_range = mutated.claiming_range
        try:
            yield Modules(mutated, reducer)
        finally:
            STEPS_NOW.claiming_range = shipped


def likely_first() -> list[RangesCase]:
    """Small cases with something to see before large ones."""
    found = [*requests(), *records()]
    return sorted(found, key=lambda each: (not each.begun, not each.known, each.size or 2))


def refuted(solver: str, modules: Modules, among: Iterable[RangesCase]) -> Broken | str | None:
    """The first step that breaks a property, or how the code escapes; None if it does neither."""
    escaped, smt_ = None, smt(solver)
    for case in among:
        try:
            result = prove_ranges(case, smt_, modules=modules)
        except (Escaped, Diverged) as error:
            escaped = str(error)
            continue
        if result.broken:
            return result.broken[0]
    return escaped


def judge(number: int, solver: str = "z3") -> Broken | str | None:
    """Refute a generated mistake; None where it does what ships."""
    module, mutant = generated()[number]
    with made(module, mutant.module_text()) as modules:
        if module is state:  # what ships would go by it, too
            return refuted(solver, modules, likely_first()) or ""
        smt_ = smt(solver)
        differing = (each for each in likely_first() if may_differ(each, smt_, modules))
        first = next(differing, None)
        if first is None:
            return None
        return refuted(solver, modules, itertools.chain([first], differing)) or ""


def may_differ(case: RangesCase, solver: Smt, modules: Modules) -> bool:
    """It does or says something else, or it cannot be followed."""
    try:
        return differs(case, solver, modules)
    except (Escaped, Diverged):
        return True


def judge_by_hand(number: int, solver: str = "z3") -> Broken | str | None:
    """Refute one of the model tests."""
    with MUTANTS[number].mistake.made():
        return refuted(solver, SHIPPED, likely_first())
