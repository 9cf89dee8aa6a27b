"""mutmut, with two ways more to mutate: a condition turned round, a call left out.

mutmut changes what an expression says, but not which way a bare `if headers.present:` goes, and it
drops no statement. In a reducer the first is a guard, in a machine the second is an effect.

A script, run in the folder that `generated` makes: `python operators.py run`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import libcst as cst


def turned_round(node: cst.If | cst.While | cst.CompIf) -> Iterable[cst.CSTNode]:
    """`if x:` becomes `if not (x):`. What is negated already mutmut turns round itself."""
    test = node.test
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return
    inner = test.with_changes(
        lpar=[cst.LeftParen(), *test.lpar], rpar=[*test.rpar, cst.RightParen()]
    )
    yield node.with_changes(test=cst.UnaryOperation(operator=cst.Not(), expression=inner))


def left_out(node: cst.Expr) -> Iterable[cst.CSTNode]:
    """A call whose value nobody uses is not made."""
    if isinstance(node.value, cst.Call):
        yield cst.Pass()


OPERATORS = [
    (cst.If, turned_round),
    (cst.While, turned_round),
    (cst.CompIf, turned_round),
    (cst.Expr, left_out),
]


def main() -> None:
    """Run mutmut's own command line."""
    from mutmut.__main__ import cli  # reads the configuration of the folder, so not before
    from mutmut.mutation import mutators

    cast("list[Any]", mutators.mutation_operators).extend(OPERATORS)
    cli()


if __name__ == "__main__":
    main()
