"""Symbols that Python code computes with, and the paths that it takes with them.

The shipped code runs with proxies of integers, reals, truth values and ids. Where it asks whether a
comparison is true, an `Explorer` asks the solver which answers are possible, and the code runs once
for each. So a finite number of runs stands for every input. What a proxy cannot do faithfully it
refuses: `Escaped`. This room knows no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from attrs import define, field

from proof.smt.solver import Session, Smt
from proof.smt.terms import Term, Undecided, Valuation, Value

Formula: TypeAlias = Term
"""A truth value."""


class Escaped(BaseException):
    """The code did something with a symbol that no proxy follows: nothing would be proved.

    No `except Exception` of that code meets it.
    """


class NotDecided(Escaped):
    """The solver does not know: nothing is proved."""


class Diverged(BaseException):
    """The code took another path with the same answers: it depends on more than its input."""


@define
class _Branch:
    """An answer on the current path."""

    condition: Formula
    answer: bool
    other: Valuation | None
    """Values for which the other answer is right; None where there are none, or it was taken."""
    facts: dict[int, bool] = field(factory=dict)
    """What was known before it."""


@define(eq=False)
class Explorer:
    """Runs code once for each path that is feasible under what is assumed."""

    smt: Smt
    checks: int = 0
    """How often the solver was asked."""
    paths: int = 0
    """How many runs there were."""
    _session: Session = field(init=False)
    _model: Valuation | None = None
    """Values of which all is true that is assumed now; None if none are known."""
    _facts: dict[int, bool] = field(factory=dict)
    """Which terms are true, and which are not, by what is assumed now."""
    _trail: list[_Branch] = field(factory=list)
    _depth: int = 0

    def __attrs_post_init__(self) -> None:
        self._session = self.smt.session()

    def assume(self, condition: Formula) -> None:
        """Look only at what this is true of, from now on."""
        self._session.add(condition)
        self._facts = _with_fact(self._facts, condition, answer=True)
        if self._model is not None and not self._model.value(condition):
            self._model = None

    @contextmanager
    def within(self) -> Iterator[None]:
        """Forget at the end what is assumed in here."""
        model, facts = self._model, self._facts
        self._session.push()
        try:
            yield
        finally:
            self._session.pop()
            self._model, self._facts = model, facts

    @property
    def feasible(self) -> bool:
        """Whether anything is true of all that is assumed."""
        if self._model is None:
            self._model = self._asked()
        return self._model is not None

    def value(self, term: Term) -> Value:
        """What a term is in a model of all that is assumed: an int, a bool or a Fraction."""
        assert self.feasible
        assert self._model is not None
        return self._model.value(term)

    def _asked(self, *conditions: Formula) -> Valuation | None:
        self.checks += 1
        try:
            model = self._session.model(*conditions)
        except Undecided as error:
            raise NotDecided(str(error)) from error
        if model is not None and not all(model.value(each) for each in conditions):
            raise Escaped(f"{self.smt.name} and Python differ about {conditions}")
        return model

    def explore(self, run: Callable[[], Any]) -> Iterator[Any]:
        """What the code returns on each path; meanwhile the path's conditions are assumed."""
        outer, self._trail, outer_depth = self._trail, [], self._depth
        model, facts = self._model, self._facts
        trail = self._trail
        try:
            if not self.feasible:
                return
            while True:
                self._depth, self._trail = 0, trail
                with current(self):
                    result = run()
                if self._depth != len(trail):
                    raise Diverged("fewer questions than before")
                self.paths += 1
                yield result
                self._trail = trail
                while trail and trail[-1].other is None:
                    self._back(trail.pop())
                if not trail:
                    return
                last = trail[-1]
                self._back(last)
                self._take(last, not last.answer, last.other)
        finally:
            for _ in trail:
                self._session.pop()
            self._trail, self._depth, self._model, self._facts = outer, outer_depth, model, facts

    def _take(self, branch: _Branch, answer: bool, model: Valuation | None) -> None:
        self._session.push()
        self._session.add(branch.condition if answer else self.smt.api.Not(branch.condition))
        branch.answer, branch.other, self._model = answer, None, model
        branch.facts, self._facts = self._facts, _with_fact(self._facts, branch.condition, answer)

    def _back(self, branch: _Branch) -> None:
        self._session.pop()
        self._facts = branch.facts

    def branch(self, condition: Formula) -> bool:
        """The answer on this path: each that is possible, one run after the other."""
        if condition.op == "value":
            return bool(condition.args[0])
        if self._depth < len(self._trail):
            found = self._trail[self._depth]
            if found.condition is not condition:
                raise Diverged(f"{condition} instead of {found.condition}")
            self._depth += 1
            return found.answer
        answer, other = self._answers(condition)
        made = _Branch(condition, answer, None)
        self._take(made, answer, self._model)
        made.other = other
        self._trail.append(made)
        self._depth += 1
        return answer

    def _answers(self, condition: Formula) -> tuple[bool, Valuation | None]:
        """An answer that is possible, and a model of the other one, if that is, too."""
        known = _fact(self._facts, condition)
        if known is not None:
            return known, None
        answer = bool(self.value(condition))
        return answer, self._asked(self.smt.api.Not(condition) if answer else condition)


def _with_fact(facts: dict[int, bool], condition: Formula, answer: bool) -> dict[int, bool]:
    """The same with this one, and with what follows from it at once."""
    found = dict(facts)
    _add_fact(found, condition, answer)
    return found


def _add_fact(facts: dict[int, bool], condition: Formula, answer: bool) -> None:
    if condition.op == "not":
        condition, answer = condition.args[0], not answer
    facts[id(condition)] = answer
    if condition.op == ("and" if answer else "or"):
        for each in condition.args:
            _add_fact(facts, each, answer)


def _fact(facts: dict[int, bool], condition: Formula) -> bool | None:
    """Whether it is true, by what is known of its parts; None where that does not decide it."""
    found = facts.get(id(condition))
    if found is not None or condition.op not in ("not", "and", "or"):
        return found
    parts = [_fact(facts, each) for each in condition.args]
    if condition.op == "not":
        return None if parts[0] is None else not parts[0]
    decides = condition.op == "or"
    if decides in parts:
        return decides
    return None if None in parts else not decides


_explorers: Final[list[Any]] = []
"""Who answers what code asks; the last one."""


@contextmanager
def current(explorer: Any) -> Iterator[None]:
    """Code that runs meanwhile asks this one."""
    _explorers.append(explorer)
    try:
        yield
    finally:
        _explorers.pop()


def exploring() -> bool:
    """Whether code runs for an explorer, and so may ask it."""
    return bool(_explorers)


def merging() -> bool:
    """Whether code runs without a solver, to be merged into one formula."""
    return exploring() and isinstance(_explorers[-1], _Tree)


@define
class _Tree:
    """Answers both ways to every question, without a solver."""

    answers: list[tuple[Formula, bool]] = field(factory=list)
    depth: int = 0

    def branch(self, condition: Formula) -> bool:
        """True first, then False; the same to the same question."""
        for before, answer in self.answers[: self.depth]:
            if before is condition:
                return answer
        if self.depth == len(self.answers):
            self.answers.append((condition, True))
        if self.answers[self.depth][0] is not condition:
            raise Diverged(f"{condition} instead of {self.answers[self.depth][0]}")
        self.depth += 1
        return self.answers[self.depth - 1][1]


def formula_of(solver: Smt, run: Callable[[], Any]) -> Formula:
    """When code returns something true: its paths, merged into one formula."""
    api, tree, cases = solver.api, _Tree(), []
    while True:
        tree.depth = 0
        with current(tree):
            result = run()
            holds = result.formula if isinstance(result, Truth) else api.BoolVal(bool(result))
        if holds is not api.false:
            path = [at if answer else api.Not(at) for at, answer in tree.answers]
            cases.append(api.And(*path, holds))
        while tree.answers and not tree.answers[-1][1]:
            tree.answers.pop()
        if not tree.answers:
            return api.Or(*cases)
        tree.answers[-1] = (tree.answers[-1][0], False)


class _Symbol:
    """A proxy. It follows what its class says, and refuses the rest."""

    __slots__ = ("formula", "smt")

    def __init__(self, solver: Smt, formula: Any) -> None:
        self.smt, self.formula = solver, formula

    def __repr__(self) -> str:
        return f"<{self.formula}>"

    def __hash__(self) -> int:
        raise Escaped(f"{self!r} is hashed: whether two are equal would not be asked")

    def _refuse(self, *_: object) -> Any:
        raise Escaped(f"{self!r} becomes a plain number or text")

    __int__ = __float__ = __len__ = __index__ = __str__ = __format__ = _refuse


class Truth(_Symbol):
    """A truth value; who asks for it goes on one path of two."""

    __slots__ = ()

    def __bool__(self) -> bool:
        if not _explorers:
            raise Escaped(f"{self!r} is asked for where nobody explores")
        return bool(_explorers[-1].branch(self.formula))

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        if not isinstance(other, bool | Truth):
            raise Escaped(f"{self!r} == {other!r}")
        return Truth(self.smt, self.formula == _formula(other))

    __hash__ = _Symbol.__hash__


class Id(_Symbol):
    """An id, of which only equality is asked."""

    __slots__ = ()

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        if not isinstance(other, Id):
            raise Escaped(f"{self!r} == {other!r}")
        return Truth(self.smt, self.formula == other.formula)

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        if not isinstance(other, Id):
            raise Escaped(f"{self!r} != {other!r}")
        return Truth(self.smt, self.formula != other.formula)

    def __bool__(self) -> bool:
        raise Escaped(f"{self!r} is asked for its truth")

    __hash__ = _Symbol.__hash__


class Number(_Symbol):
    """An integer or a real, with what Python has of both exactly."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return bool(self != 0)

    def _with(self, other: object, of: Callable[[Term, Term], Any], kind: Any) -> Any:
        if other is None:
            raise TypeError("a number beside None")  # as Python does
        if isinstance(other, bool) or not isinstance(other, int | Number):
            raise Escaped(f"{self!r} beside {other!r}")
        return kind(self.smt, of(self.formula, _formula(other)))

    def __eq__(self, other: object) -> Any:
        return False if other is None else self._with(other, lambda a, b: a == b, Truth)

    def __ne__(self, other: object) -> Any:
        return True if other is None else self._with(other, lambda a, b: a != b, Truth)

    def __lt__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a < b, Truth)

    def __le__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a <= b, Truth)

    def __gt__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a > b, Truth)

    def __ge__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a >= b, Truth)

    def __add__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a + b, Number)

    def __sub__(self, other: object) -> Any:
        return self._with(other, lambda a, b: a - b, Number)

    def __rsub__(self, other: object) -> Any:
        return self._with(other, lambda a, b: b - a, Number)

    def __mul__(self, other: object) -> Any:
        if not isinstance(other, int):
            raise Escaped(f"{self!r} * {other!r}: only linear arithmetic is decided")
        return self._with(other, lambda a, b: a * b, Number)

    def __floordiv__(self, other: object) -> Any:
        if not isinstance(other, int) or other <= 0:
            raise Escaped(f"{self!r} // {other!r}: only a division by a number above 0 is exact")
        return self._with(other, lambda a, b: a // b, Number)

    __radd__, __rmul__ = __add__, __mul__
    __hash__ = _Symbol.__hash__


def _formula(value: Any) -> Any:
    return value.formula if isinstance(value, _Symbol) else value
