"""A solver that is asked about terms: z3 or cvc5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import frozen

from proof.smt import cvc5_solver, z3_solver
from proof.smt.terms import Term, Terms, Valuation


class Session(Protocol):
    """What is assumed, and questions about it."""

    def add(self, condition: Term) -> None:
        """Assume it, until the last `push` is undone."""

    def push(self) -> None:
        """Remember what is assumed."""

    def pop(self) -> None:
        """Forget what was assumed since."""

    def model(self, *conditions: Term) -> Valuation | None:
        """Values of which all that is assumed is true, and these conditions; None if none are.

        Raises Undecided.
        """


@frozen(eq=False)
class Smt:
    """A solver, and what makes terms for it."""

    name: str
    api: Terms
    _sessions: Callable[[], Session]

    def session(self) -> Session:
        """A solver that assumes nothing."""
        return self._sessions()

    def __reduce__(self) -> tuple[Callable[[str], Smt], tuple[str]]:
        return smt, (self.name,)


def smt(name: str) -> Smt:
    """The solver of this name: `z3` or `cvc5`."""
    terms = Terms()
    if name == "z3":
        z3 = z3_solver.Context()
        return Smt(name, terms, lambda: z3_solver.Z3Session(z3))
    cvc5 = cvc5_solver.Context(terms)
    return Smt(name, terms, lambda: cvc5_solver.Cvc5Session(cvc5))
