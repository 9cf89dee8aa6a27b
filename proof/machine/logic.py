"""And, or, not and if, of truth values that may be symbols: a formula, where Python would ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proof.smt.solver import Smt
from proof.symbols import Explorer, Number, Truth


def _solver(of: tuple[Any, ...]) -> Smt | None:
    return next((each.smt for each in of if isinstance(each, Truth | Number)), None)


def _term(value: Any) -> Any:
    return value.formula if isinstance(value, Truth | Number) else value


def every(*of: Any) -> Any:
    """All of them are true."""
    left = [each for each in of if each is not True]
    if not left or any(each is False for each in left):
        return not left
    solver = _solver(tuple(left))
    if solver is None:
        return all(left)
    return Truth(solver, solver.api.And(*map(_term, left))) if left[1:] else left[0]


def some(*of: Any) -> Any:
    """At least one is true."""
    left = [each for each in of if each is not False]
    if not left or any(each is True for each in left):
        return bool(left)
    solver = _solver(tuple(left))
    if solver is None:
        return any(left)
    return Truth(solver, solver.api.Or(*map(_term, left))) if left[1:] else left[0]


def no(truth: Any) -> Any:
    """It is not true."""
    return Truth(truth.smt, truth.smt.api.Not(truth.formula)) if _solver((truth,)) else not truth


def implies(*of: Any) -> Any:
    """Where all but the last are true, the last is."""
    return some(*(no(each) for each in of[:-1]), of[-1])


def choose(condition: Any, yes: Any, otherwise: Any) -> Any:
    """One of two truth values, or of two numbers."""
    solver = _solver((condition,))
    if solver is None:
        return yes if condition else otherwise
    if yes is otherwise:
        return yes
    if isinstance(yes, bool | Truth):
        return some(every(condition, yes), every(no(condition), otherwise))
    return Number(solver, solver.api.If(condition.formula, _term(yes), _term(otherwise)))


def assume(explorer: Explorer, truth: Any) -> None:
    """Look only at what this is true of."""
    if isinstance(truth, bool):
        truth = explorer.smt.api.BoolVal(truth)
    explorer.assume(truth.formula if isinstance(truth, Truth) else truth)


def false_of(explorer: Explorer, goals: Mapping[str, Any]) -> Iterator[str]:
    """Yield the name of each that may be false on this path; meanwhile it is assumed to be."""
    wanted = {name: goal for name, goal in goals.items() if goal is not True}
    with explorer.within():
        assume(explorer, no(every(*wanted.values())))
        if not explorer.feasible:
            return
    for name, goal in wanted.items():
        with explorer.within():
            assume(explorer, no(goal))
            if explorer.feasible:
                yield name
