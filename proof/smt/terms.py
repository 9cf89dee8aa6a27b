"""Numbers and truth values as formulas. Each is made once: equal ones are the same object.

Solvers build terms slowly, and a proof makes the same ones on every path. So formulas are made
here and given to a solver when it is first asked about them. A `Valuation` computes with
Python's own numbers what one is. This room knows no solver and no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from fractions import Fraction
from typing import Any, Final, TypeAlias

from attrs import define, field

Value: TypeAlias = int | bool | Fraction


class Undecided(Exception):
    """A solver does not know."""


class Sort(Enum):
    """What values a term has."""

    TRUTH = "truth"
    INTEGER = "integer"
    REAL = "real"


class Term:
    """A number or a truth value. Operators make further terms; nobody asks it for its truth."""

    __slots__ = ("args", "bank", "op", "sort")

    op: str
    """A name of OPERATORS; `symbol`, whose argument is its name; or `value`, of a plain value."""

    def __init__(self, bank: Terms, op: str, args: tuple[Any, ...], sort: Sort) -> None:
        self.bank, self.op, self.args, self.sort = bank, op, args, sort

    def __bool__(self) -> bool:
        raise TypeError(f"{self} is a formula: ask an explorer")

    def __repr__(self) -> str:
        if self.op in ("symbol", "value"):
            return str(self.args[0])
        return f"{self.op}({', '.join(map(repr, self.args))})"

    def __eq__(self, other: object) -> Any:
        return self.bank.equal(self, self.bank.term(other))

    def __ne__(self, other: object) -> Any:
        return self.bank.Not(self.bank.equal(self, self.bank.term(other)))

    def __lt__(self, other: Any) -> Term:
        return self.bank.less(self, self.bank.term(other))

    def __gt__(self, other: Any) -> Term:
        return self.bank.less(self.bank.term(other), self)

    def __le__(self, other: Any) -> Term:
        return self.bank.Not(self > other)

    def __ge__(self, other: Any) -> Term:
        return self.bank.Not(self < other)

    def __add__(self, other: Any) -> Term:
        return self.bank.arithmetic("add", self, self.bank.term(other))

    def __sub__(self, other: Any) -> Term:
        return self.bank.arithmetic("subtract", self, self.bank.term(other))

    def __rsub__(self, other: Any) -> Term:
        return self.bank.arithmetic("subtract", self.bank.term(other), self)

    def __mul__(self, other: Any) -> Term:
        return self.bank.arithmetic("multiply", self, self.bank.term(other))

    def __floordiv__(self, other: Any) -> Term:
        # By what is 0 or below, Python and solvers differ.
        if self.sort is not Sort.INTEGER or not isinstance(other, int) or other <= 0:
            raise TypeError(f"{self} // {other}: only integers are divided, by a number above 0")
        return self.bank.arithmetic("divide", self, self.bank.term(other))

    __radd__, __rmul__ = __add__, __mul__
    __hash__ = object.__hash__


OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    "not": lambda one: not one,
    "and": lambda *of: all(of),
    "or": lambda *of: any(of),
    "equal": lambda one, other: one == other,
    "less": lambda one, other: one < other,
    "if": lambda condition, yes, otherwise: yes if condition else otherwise,
    "add": lambda one, other: one + other,
    "subtract": lambda one, other: one - other,
    "multiply": lambda one, other: one * other,
    "divide": lambda one, other: one // other,
}
"""What each is, in Python's own numbers."""


@define(eq=False)
class Terms:
    """Makes terms, each once. Names of its methods are those of solvers' Python interfaces."""

    symbols: list[Term] = field(factory=list)
    """All that stand for any value of their sort."""
    true: Term = field(init=False)
    false: Term = field(init=False)
    _known: dict[tuple[Any, ...], Term] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        self.true = self._made("value", (True,), Sort.TRUTH)
        self.false = self._made("value", (False,), Sort.TRUTH)

    def _made(self, op: str, args: tuple[Any, ...], sort: Sort) -> Term:
        # By identity: terms live as long as this table, and `==` of two makes a third.
        key = (op, *map(id, args)) if op in OPERATORS else (op, sort, *args)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = Term(self, op, args, sort)
            if op == "symbol":
                self.symbols.append(found)
        return found

    def term(self, of: Any) -> Term:
        """A term, or the one of a plain value."""
        if isinstance(of, Term):
            return of
        if isinstance(of, bool):
            return self.true if of else self.false
        if isinstance(of, int):
            return self._made("value", (of,), Sort.INTEGER)
        raise TypeError(f"{of!r} is no term")

    def Int(self, name: str) -> Term:  # noqa: N802
        """Any integer."""
        return self._made("symbol", (name,), Sort.INTEGER)

    def Real(self, name: str) -> Term:  # noqa: N802
        """Any real number."""
        return self._made("symbol", (name,), Sort.REAL)

    def Bool(self, name: str) -> Term:  # noqa: N802
        """True or false."""
        return self._made("symbol", (name,), Sort.TRUTH)

    def BoolVal(self, value: bool) -> Term:  # noqa: N802
        """This one."""
        return self.true if value else self.false

    def Not(self, of: Any) -> Term:  # noqa: N802
        """It is not true."""
        of = self.term(of)
        if of.op == "value":
            return self.false if of.args[0] else self.true
        return of.args[0] if of.op == "not" else self._made("not", (of,), Sort.TRUTH)

    def And(self, *of: Any) -> Term:  # noqa: N802
        """All are true."""
        return self._joined("and", of, self.true, self.false)

    def Or(self, *of: Any) -> Term:  # noqa: N802
        """One is true, or more."""
        return self._joined("or", of, self.false, self.true)

    def Implies(self, one: Any, other: Any) -> Term:  # noqa: N802
        """Where the first is true, the second is."""
        return self.Or(self.Not(one), other)

    def _joined(self, op: str, of: tuple[Any, ...], nothing: Term, decides: Term) -> Term:
        left: dict[int, Term] = {}
        for each in of:
            found = self.term(each)
            if found is decides:
                return decides
            if found is not nothing:
                left[id(found)] = found
        for each in left.values():
            if each.op == "not" and id(each.args[0]) in left:
                return decides
        if len(left) < 2:
            return next(iter(left.values()), nothing)
        return self._made(op, tuple(left.values()), Sort.TRUTH)

    def If(self, condition: Any, yes: Any, otherwise: Any) -> Term:  # noqa: N802
        """One of two numbers, or of two truth values."""
        return self._chosen(*map(self.term, (condition, yes, otherwise)))

    def _chosen(self, condition: Term, yes: Term, otherwise: Term) -> Term:
        if condition.op == "value":
            return yes if condition.args[0] else otherwise
        if yes is otherwise:
            return yes
        if yes.sort is Sort.TRUTH:
            return self.And(self.Or(self.Not(condition), yes), self.Or(condition, otherwise))
        sort = Sort.REAL if Sort.REAL in (yes.sort, otherwise.sort) else Sort.INTEGER
        return self._made("if", (condition, yes, otherwise), sort)

    def equal(self, one: Term, other: Term) -> Term:
        """They are the same."""
        if one is other:
            return self.true
        if (one.sort is Sort.TRUTH) is not (other.sort is Sort.TRUTH):
            raise TypeError(f"{one} == {other}: a number beside a truth value")
        if one.sort is Sort.TRUTH:
            if one.op == "value":
                one, other = other, one
            if other.op == "value":
                return one if other.args[0] else self.Not(one)
        return self._compared("equal", *((one, other) if id(one) < id(other) else (other, one)))

    def less(self, one: Term, other: Term) -> Term:
        """The first is below the second."""
        if Sort.TRUTH in (one.sort, other.sort):
            raise TypeError(f"{one} < {other}: a truth value is no number")
        return self.false if one is other else self._compared("less", one, other)

    def _compared(self, op: str, one: Term, other: Term) -> Term:
        if one.op == other.op == "value":
            return self.BoolVal(OPERATORS[op](one.args[0], other.args[0]))
        for chosen, left in ((one, True), (other, False)):
            beside = other if left else one
            if chosen.op == "if" and beside.op == "value" and "value" in _ops(chosen):
                condition, yes, otherwise = chosen.args
                pairs = ((each, beside) if left else (beside, each) for each in (yes, otherwise))
                return self.If(condition, *(self._compared(op, *pair) for pair in pairs))
        return self._made(op, (one, other), Sort.TRUTH)

    def arithmetic(self, op: str, one: Term, other: Term) -> Term:
        """A sum, a difference, a product or a quotient."""
        if Sort.TRUTH in (one.sort, other.sort):
            raise TypeError(f"{op}({one}, {other}): a truth value is no number")
        if one.op == other.op == "value":
            return self.term(OPERATORS[op](one.args[0], other.args[0]))
        sort = Sort.REAL if Sort.REAL in (one.sort, other.sort) else Sort.INTEGER
        return self._made(op, (one, other), sort)


def _ops(of: Term) -> tuple[str, str]:
    return of.args[1].op, of.args[2].op


@define(eq=False)
class Valuation:
    """What terms are, where symbols have these values."""

    of_symbol: Callable[[Term], Value]
    _known: dict[int, Value] = field(factory=dict)

    def value(self, of: Term) -> Value:
        """Of any term."""
        found = self._known.get(id(of))
        if found is not None:
            return found
        op, args = of.op, of.args
        made: Any
        if op == "value":
            return args[0]  # type: ignore[no-any-return]
        if op == "symbol":
            made = self.of_symbol(of)
        elif op == "and":
            made = all(self.value(each) for each in args)
        elif op == "or":
            made = any(self.value(each) for each in args)
        elif op == "if":
            made = self.value(args[1] if self.value(args[0]) else args[2])
        else:
            made = OPERATORS[op](*[self.value(each) for each in args])
        self._known[id(of)] = made
        return made  # type: ignore[no-any-return]
