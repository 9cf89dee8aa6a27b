"""Which mutants there are of a module: by mutmut's operators, and by two of ours.

mutmut changes what an expression says, but not which way a bare `if headers.present:` goes, and it
drops no statement. In a reducer the first is a guard, in a machine the second is an effect. It also
leaves decorated functions alone, and with them every property of a class.

This room knows libcst. It does not know how a mutant is run.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeGuard

import attrs
import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider
from mutmut.mutation import mutators
from mutmut.mutation.file_mutation import (
    NEVER_MUTATE_FUNCTION_NAMES,
    Mutation,
    MutationVisitor,
    deep_replace,
)
from mutmut.mutation.pragma_handling import IgnoredCode


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


OPERATORS: mutators.OPERATORS_TYPE = [
    *mutators.mutation_operators,
    (cst.If, turned_round),
    (cst.While, turned_round),
    (cst.CompIf, turned_round),
    (cst.Expr, left_out),
]


@attrs.frozen(eq=False)
class Made:
    """A mutant of a function, not written out yet."""

    function: str
    """Its name within the module, as in `Claim.paused`."""
    first_line: int
    """Of the function: its first decorator's, if it has one."""
    statement: range
    """Lines of the statement that is changed, without the statements inside it."""
    lines: range
    """Lines of the function's body."""
    in_body: bool
    """Otherwise an argument's default is changed."""
    module: cst.Module
    original: cst.FunctionDef
    mutation: Mutation

    def module_text(self) -> str:
        """The whole module with the mutant in it."""
        changed = self.mutation
        mutated = deep_replace(self.module, changed.original_node, changed.mutated_node)
        assert isinstance(mutated, cst.Module)
        return mutated.code

    def texts(self) -> tuple[list[str], list[str]]:
        """The lines of the function, as written and as the mutant has them, from `def` on."""
        changed = self.mutation
        bare, was = _bare(self.module, self.original)
        mutated = deep_replace(bare, changed.original_node, changed.mutated_node)
        assert isinstance(mutated, cst.FunctionDef)
        return [*was], self.module.code_for_node(mutated).splitlines()


@functools.cache
def _bare(module: cst.Module, function: cst.FunctionDef) -> tuple[cst.FunctionDef, Sequence[str]]:
    """It from `def` on, and its lines: dozens of mutants are made of one function."""
    bare = function.with_changes(decorators=(), leading_lines=())
    return bare, module.code_for_node(bare).splitlines()


class _Visitor(MutationVisitor):
    """mutmut's, which goes into decorated functions, too: no mutant is defined beside another."""

    def __init__(self) -> None:
        super().__init__(OPERATORS, IgnoredCode(set(), set(), set()))
        self._types: set[cst.CSTNode] = set()
        """First arguments of casts."""

    def _skip_node_and_children(self, node: cst.CSTNode) -> bool:
        if _is_never(node) or node in self._types:
            return True
        if _is_cast(node):
            self._types.add(node.args[0])
        if isinstance(node, cst.FunctionDef) and node not in self._enum_creation_hooks:
            return node.name.value in NEVER_MUTATE_FUNCTION_NAMES
        return super()._skip_node_and_children(node)


def _is_never(node: cst.CSTNode) -> bool:
    """`assert_never(x)`: mypy knows that nothing comes there."""
    call = node.value if isinstance(node, cst.Expr) else None
    return (
        isinstance(call, cst.Call)
        and isinstance(call.func, cst.Name)
        and call.func.value == "assert_never"
    )


def _does_nothing(case: cst.MatchCase) -> bool:
    """A case that is never reached, or in which nothing happens: without it all is the same."""
    statements = [
        statement
        for line in case.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for statement in line.body
    ]
    return len(case.body.body) == len(statements) and all(
        isinstance(each, cst.Pass) or _is_never(each) for each in statements
    )


def _is_cast(node: cst.CSTNode) -> TypeGuard[cst.Call]:
    """`cast("int", x)`: the type is for mypy alone."""
    return (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "cast"
    )


def _is_the_same(mutation: Mutation) -> bool:
    """Only the type of a cast was changed, or a case left out in which nothing happens."""
    was, becomes = mutation.original_node, mutation.mutated_node
    if _is_cast(was) and _is_cast(becomes):
        return len(becomes.args) == 2 and was.args[1].deep_equals(becomes.args[1])
    if not isinstance(was, cst.Match) or not isinstance(becomes, cst.Match):
        return False
    left_out = [case for case in was.cases if case not in becomes.cases]
    return len(left_out) == 1 and _does_nothing(left_out[0])


def mutants(path: Path) -> Iterator[Made]:
    """Every mutant of every function and method of a module, in the order of the text."""
    source = path.read_text(encoding="utf-8")
    wrapper = MetadataWrapper(cst.parse_module(source))
    visitor = _Visitor()
    wrapper.visit(visitor)
    names = dict(_functions(wrapper.module.body))
    places = wrapper.resolve(PositionProvider)
    own_lines = _own_lines(ast.parse(source))
    for mutation in visitor.mutations:
        function = mutation.contained_by_top_level_function
        if _is_the_same(mutation):
            continue
        if isinstance(function, cst.FunctionDef) and function in names:
            body, node = places[function.body], places.get(mutation.original_node)
            lines = range(body.start.line, body.end.line + 1)
            line = node.start.line if node is not None else body.start.line
            begins = places[function.decorators[0] if function.decorators else function]
            first_line, in_body = begins.start.line, line >= body.start.line
            statement = own_lines.get(line, lines) if node is not None and in_body else lines
            yield Made(
                *(names[function], first_line, statement, lines, in_body),
                *(wrapper.module, function, mutation),
            )


def _functions(
    body: Iterable[cst.CSTNode], inside: str = ""
) -> Iterator[tuple[cst.FunctionDef, str]]:
    for node in body:
        if isinstance(node, cst.FunctionDef):
            yield node, inside + node.name.value
        elif isinstance(node, cst.ClassDef) and not inside:
            yield from _functions(node.body.body, f"{node.name.value}.")


def _own_lines(tree: ast.Module) -> dict[int, range]:
    """By line: the lines of the innermost statement there, without the statements inside it."""
    found: dict[int, range] = {}
    for node in ast.walk(tree):  # outer statements come before inner ones
        if isinstance(node, ast.stmt):
            end = node.end_lineno or node.lineno
            if isinstance(node, ast.Match):
                own_end = node.cases[0].pattern.lineno - 1
            else:
                body = getattr(node, "body", None)
                own_end = body[0].lineno - 1 if body else end
            own = range(node.lineno, max(own_end, node.lineno) + 1)
            found.update(dict.fromkeys(range(node.lineno, end + 1), own))
    return found
