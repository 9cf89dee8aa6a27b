"""Marshal promises that runs with symbols miss no input, whatever is assumed between them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from kafka_marshal import Heartbeat
from proof.inputs import Case, Inputs
from proof.smt import z3_solver
from proof.smt.solver import smt
from proof.smt.terms import Term, Undecided, Valuation
from proof.symbols import Diverged, Escaped, Explorer, Id, NotDecided, Truth, formula_of

Z3 = smt("z3")


def some_questions(api: Any, chance: random.Random) -> list[Term]:
    """A few that decide each other, fully or in part."""
    a, b, p, q = api.Int("a"), api.Int("b"), api.Bool("p"), api.Bool("q")
    found = [p, q, a < b, a == b, b < 0, a + b > 0]
    for _ in range(6):
        some = [
            each if chance.random() < 0.6 else api.Not(each) for each in chance.sample(found, 3)
        ]
        found.append(chance.choice([api.And, api.Or])(*some))
    return found


def inputs_of(api: Any) -> Iterator[Valuation]:
    """Every choice of a few values."""
    symbols = [api.Int("a"), api.Int("b"), api.Bool("p"), api.Bool("q")]
    few = (-1, 0, 1), (-1, 0, 1), (False, True), (False, True)
    for values in itertools.product(*few):
        yield Valuation(dict(zip(symbols, values, strict=True)).__getitem__)


def answers(solver: Any, of: list[Term]) -> tuple[bool, ...]:
    return tuple(bool(Truth(solver, each)) for each in of)


def wanted(of: list[Term], valuation: Valuation) -> tuple[Any, ...]:
    return tuple(valuation.value(each) for each in of)


@pytest.mark.parametrize("name", ["z3", "cvc5"])
def test_every_input_is_on_a_path_also_of_code_within_what_is_assumed_for_a_while(
    name: str,
) -> None:
    for seed in range(40):
        solver, chance = smt(name), random.Random(seed)
        questions = some_questions(solver.api, chance)
        always, *for_a_while = chance.sample(questions, 3)
        outer, inner = chance.choices(questions, k=4), chance.choices(questions, k=4)
        explorer, found = Explorer(solver), set()
        explorer.assume(always)
        for one in explorer.explore(lambda: answers(solver, outer)):  # noqa: B023
            for number, each in enumerate(for_a_while):
                with explorer.within():
                    explorer.assume(each)
                    for other in explorer.explore(lambda: answers(solver, inner)):  # noqa: B023
                        assert tuple(map(explorer.value, [*outer, *inner])) == one + other
                        assert explorer.value(always)
                        assert explorer.value(each)
                        found.add((number, one + other))
            assert tuple(map(explorer.value, outer)) == one
        possible = {
            (number, wanted([*outer, *inner], valuation))
            for valuation in inputs_of(solver.api)
            for number, each in enumerate(for_a_while)
            if valuation.value(always) and valuation.value(each)
        }
        assert possible <= found


def test_what_was_assumed_for_a_while_decides_nothing_afterwards() -> None:
    p, explorer = Z3.api.Bool("p"), Explorer(Z3)
    for assumed in (p, Z3.api.Not(p)):
        with explorer.within():
            explorer.assume(assumed)
            assert list(explorer.explore(lambda: bool(Truth(Z3, p)))) == [assumed is p]
    assert sorted(explorer.explore(lambda: bool(Truth(Z3, p)))) == [False, True]


def test_where_nothing_is_possible_there_is_no_path() -> None:
    p, explorer = Z3.api.Bool("p"), Explorer(Z3)
    explorer.assume(p)
    with explorer.within():
        explorer.assume(Z3.api.Not(p))
        assert not explorer.feasible
        assert not list(explorer.explore(lambda: True))
    assert explorer.feasible


def test_merged_paths_are_the_code_for_every_input() -> None:
    for seed in range(40):
        chance = random.Random(seed)
        questions = some_questions(Z3.api, chance)
        one, other, third = chance.choices(questions, k=3)

        def code() -> Any:
            if Truth(Z3, one):  # noqa: B023
                return Truth(Z3, other) if Truth(Z3, third) else True  # noqa: B023
            return not Truth(Z3, other)  # noqa: B023

        merged = formula_of(Z3, code)
        for valuation in inputs_of(Z3.api):
            first, second, last = wanted([one, other, third], valuation)
            assert valuation.value(merged) is ((second or not last) if first else not second)


def test_code_that_is_merged_depends_on_nothing_but_its_input() -> None:
    turn = itertools.count()
    p = [Z3.api.Bool(f"p{number}") for number in range(9)]
    with pytest.raises(Diverged):
        formula_of(Z3, lambda: Truth(Z3, p[next(turn)]) and Truth(Z3, p[next(turn)]))


def asks_nobody(*_: Any) -> Any:
    raise Undecided


def test_what_z3_does_not_know_is_not_taken_for_impossible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3_solver, "_check", lambda *_: 0)
    with pytest.raises(Undecided):
        Z3.session().model()


def test_what_cvc5_does_not_know_is_not_taken_for_impossible() -> None:
    solver = smt("cvc5")
    session: Any = solver.session()
    session._solver.setOption("rlimit", "1")
    a, b, c = map(solver.api.Int, "abc")
    with pytest.raises(Undecided):
        session.model(a + b < c, a + c < b, b + c < a, a + b + c > 5)


def test_a_question_that_is_not_decided_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    p, explorer = Z3.api.Bool("p"), Explorer(Z3)
    assert explorer.feasible
    monkeypatch.setattr(type(explorer._session), "model", asks_nobody)
    with pytest.raises(NotDecided):
        list(explorer.explore(lambda: bool(Truth(Z3, p))))


def test_no_code_meets_what_escapes() -> None:
    def meets_all() -> object:
        try:
            return {Id(Z3, Z3.api.Int("i"))}
        except Exception:
            return None

    with pytest.raises(Escaped):
        list(Explorer(Z3).explore(meets_all))


def test_no_two_symbols_have_one_name() -> None:
    inputs = Inputs(Z3, Case(Heartbeat, frozenset()))
    with pytest.raises(ValueError, match="there is a symbol position already"):
        inputs.number("position")


def test_a_run_that_is_left_early_leaves_nothing_behind() -> None:
    p, q, explorer = Z3.api.Bool("p"), Z3.api.Bool("q"), Explorer(Z3)
    both = [p, q]
    for _ in range(2):
        first = next(iter(explorer.explore(lambda: answers(Z3, both))))
        assert len(set(explorer.explore(lambda: answers(Z3, both)))) == 4
        assert first in set(explorer.explore(lambda: answers(Z3, both)))


def test_code_that_asks_less_the_second_time_is_noticed() -> None:
    p, q = Z3.api.Bool("p"), Z3.api.Bool("q")
    asked = iter([[p, q], [p]])
    with pytest.raises(Diverged, match="fewer questions"):
        list(Explorer(Z3).explore(lambda: answers(Z3, next(asked))))


def test_nobody_is_asked_where_nobody_explores() -> None:
    with pytest.raises(Escaped, match="where nobody explores"):
        bool(Truth(Z3, Z3.api.Bool("p")))


def test_values_that_do_not_answer_the_question_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    p, explorer = Z3.api.Bool("p"), Explorer(Z3)
    never = Valuation(lambda _: False)
    monkeypatch.setattr(type(explorer._session), "model", lambda *_: never)
    with pytest.raises(Escaped, match="z3 and Python differ"):
        list(explorer.explore(lambda: bool(Truth(Z3, p))))
