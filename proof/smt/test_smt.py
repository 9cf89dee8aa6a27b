"""Marshal promises that a formula means to a solver what it means to Python."""

from __future__ import annotations

import random
from typing import Any

import pytest

from proof.smt.solver import Smt, smt
from proof.smt.terms import Valuation

VALUES = (-3, -1, 0, 1, 2, 2**63)


class Plain:
    """What makes formulas, in Python's own numbers: symbols have values."""

    true, false = True, False
    And, Or = staticmethod(lambda *of: all(of)), staticmethod(lambda *of: any(of))
    Not = staticmethod(lambda of: not of)
    If = staticmethod(lambda condition, yes, otherwise: yes if condition else otherwise)
    term = staticmethod(lambda of: of)

    def __init__(self, values: dict[str, Any]) -> None:
        self.Int = self.Real = self.Bool = values.__getitem__


def number(of: Any, chance: random.Random, depth: int) -> Any:
    """Some number, of three symbols and a few values."""
    if depth == 0 or chance.random() < 0.2:
        constant = of.term(chance.choice(VALUES))
        return chance.choice([of.Int("a"), of.Int("b"), of.Real("r"), constant])
    one, other = number(of, chance, depth - 1), number(of, chance, depth - 1)
    return chance.choice(
        [
            *(one + other, one - other, 2 - one, one * 3, of.Int("a") // 2),
            of.If(truth(of, chance, depth - 1), one, other),
        ]
    )


def truth(of: Any, chance: random.Random, depth: int) -> Any:
    """Some truth value."""
    if depth == 0:
        one = chance.choice([of.Bool("p"), of.Bool("q"), of.true])
        return one if chance.random() < 0.5 else of.Not(one)
    some = [truth(of, chance, depth - 1) for _ in range(3)]
    one, other = number(of, chance, depth - 1), number(of, chance, depth - 1)
    return chance.choice(
        [
            *(of.And(*some), of.Or(*some), of.Not(some[0]), of.If(*some), some[0] == some[1]),
            *(one == other, one != other, one < other, one > other, one <= other, one >= other),
        ]
    )


def valued(chance: random.Random) -> dict[str, Any]:
    """A value for each symbol."""
    values: dict[str, Any] = {name: chance.choice(VALUES) for name in "abr"}
    return values | {name: chance.random() < 0.5 for name in "pq"}


@pytest.mark.parametrize("name", ["z3", "cvc5"])
def test_a_formula_means_to_the_solver_what_it_means_to_python(name: str) -> None:
    solver = smt(name)
    for seed in range(150):
        values = valued(random.Random(seed))
        formula = truth(solver.api, random.Random(-seed), 3)
        of_python = truth(Plain(values), random.Random(-seed), 3)
        known = {symbol: values[symbol.args[0]] for symbol in solver.api.symbols}
        assert Valuation(known.__getitem__).value(formula) is of_python
        session = solver.session()
        for symbol, value in known.items():
            session.add(symbol == value)
        found = session.model(formula), session.model(solver.api.Not(formula))
        assert [each is not None for each in found] == [of_python, not of_python], formula


@pytest.mark.parametrize("name", ["z3", "cvc5"])
def test_a_model_makes_true_what_was_asked(name: str) -> None:
    solver, found = smt(name), 0
    for seed in range(100):
        formula, session = truth(solver.api, random.Random(seed), 3), solver.session()
        model = session.model(formula)
        if model is not None:
            assert model.value(formula) is True
            found += 1
    assert found > 25


def made(solver: Smt) -> list[Any]:
    """The same formulas, each time anew."""
    api = solver.api
    a, p, q = api.Int("a"), api.Bool("p"), api.Bool("q")
    return [api.And(p, q, p), a + 1 < 3, api.Or(api.Not(p), a == 0), api.If(p, a, 0) >= a]


def test_equal_formulas_are_one() -> None:
    solver = smt("z3")
    assert all(one is other for one, other in zip(made(solver), made(solver), strict=True))


def test_what_needs_no_solver_is_decided_as_it_is_made() -> None:
    api = smt("z3").api
    a, p = api.Int("a"), api.Bool("p")
    assert api.And(p, api.Not(p)) is api.false
    assert api.Or(p, api.Not(p)) is api.true
    assert (a < a) is api.false
    assert (api.If(p, 1, 0) == 1) is p
    assert api.Not(a < 3) is (a >= 3)


def test_a_formula_is_no_answer() -> None:
    with pytest.raises(TypeError, match="ask an explorer"):
        bool(smt("z3").api.Int("a") < 3)


def test_a_truth_value_is_no_number() -> None:
    api = smt("z3").api
    for wrong in (lambda: api.Bool("p") < 1, lambda: api.Bool("p") == 1, lambda: api.Bool("p") + 1):
        with pytest.raises(TypeError):
            wrong()
