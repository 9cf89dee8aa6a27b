"""cvc5 by its own interface."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import cvc5  # type: ignore[import-untyped]
from attrs import define, field
from cvc5 import Kind

from proof.smt.terms import Sort, Term, Terms, Undecided, Valuation, Value

_KINDS: Final = {
    "not": Kind.NOT, "and": Kind.AND, "or": Kind.OR, "equal": Kind.EQUAL, "less": Kind.LT,
    "if": Kind.ITE, "add": Kind.ADD, "subtract": Kind.SUB, "multiply": Kind.MULT,
    "divide": Kind.INTS_DIVISION,
}  # fmt: skip


@define(eq=False)
class Context:
    """Its terms of ours."""

    terms: Terms
    manager: Any = field(factory=cvc5.TermManager)
    _made: dict[Term, Any] = field(factory=dict)

    def own(self, of: Term) -> Any:
        """Its term."""
        found = self._made.get(of)
        if found is None:
            found = self._made[of] = self._own(of)
        return found

    def _own(self, of: Term) -> Any:
        manager = self.manager
        if of.op == "symbol":
            sorts = {
                Sort.TRUTH: manager.getBooleanSort,
                Sort.INTEGER: manager.getIntegerSort,
                Sort.REAL: manager.getRealSort,
            }
            return manager.mkConst(sorts[of.sort](), of.args[0])
        if of.op == "value":
            if of.sort is Sort.TRUTH:
                return manager.mkBoolean(of.args[0])
            return manager.mkInteger(str(of.args[0]))
        args = [self.own(each) for each in of.args]
        if any(each.sort is Sort.REAL for each in of.args):  # Integers beside reals become reals.
            args = [
                manager.mkTerm(Kind.TO_REAL, own) if each.sort is Sort.INTEGER else own
                for each, own in zip(of.args, args, strict=True)
            ]
        return manager.mkTerm(_KINDS[of.op], *args)


@define(eq=False)
class Cvc5Session:
    """One solver at work."""

    of: Context
    _solver: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._solver = cvc5.Solver(self.of.manager)
        for name, value in (("incremental", "true"), ("produce-models", "true")):
            self._solver.setOption(name, value)
        self._solver.setLogic("QF_LIRA")

    def add(self, condition: Term) -> None:
        """Assume it, until the last `push` is undone."""
        self._solver.assertFormula(self.of.own(condition))

    def push(self) -> None:
        """Remember what is assumed."""
        self._solver.push()

    def pop(self) -> None:
        """Forget what was assumed since."""
        self._solver.pop()

    def model(self, *conditions: Term) -> Valuation | None:
        """Values of which all that is assumed is true, and these conditions; None if none are.

        Raises Undecided.
        """
        answer = self._solver.checkSatAssuming(*[self.of.own(each) for each in conditions])
        if answer.isUnsat():
            return None
        if not answer.isSat():
            raise Undecided(f"cvc5 does not know: {answer}")
        # A model of cvc5 is one until its solver is asked anew.
        values = {each: self._value(each) for each in self.of.terms.symbols}
        return Valuation(lambda symbol: values.get(symbol, _ANY[symbol.sort]))

    def _value(self, symbol: Term) -> Value:
        found = self._solver.getValue(self.of.own(symbol))
        if symbol.sort is Sort.TRUTH:
            return bool(found.getBooleanValue())
        if symbol.sort is Sort.INTEGER:
            return int(found.getIntegerValue())
        return Fraction(found.getRealValue())


_ANY: Final[dict[Sort, Value]] = {Sort.TRUTH: False, Sort.INTEGER: 0, Sort.REAL: 0}
"""Of a symbol that was made later."""
