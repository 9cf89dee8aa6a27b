"""A mutant that is an edit of the text of one function. The function stays the same object.

Those that are generated are made by the operators of `model_tests.mutants`; which of them are
searched for a seed chooses, among statements that simulated runs reach.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import libcst as cst
import pytest
from attrs import frozen
from model_tests.mutants.children import functions_of, mutate
from model_tests.mutants.generated import PACKAGE, change_of
from model_tests.mutants.operators import Made, mutants

ROOMS: Final = ("coordinate", "fetch", "process", "api", "connect")
"""Of the client: its runtime. What only observes it changes nothing that a run would show."""


@frozen
class Edit:
    """Within one function a text that occurs there once becomes another one."""

    path: str
    """Within the package."""
    function: str
    was: str
    becomes: str

    in_body: Final = True

    @property
    def name(self) -> str:
        """What it changes, on one line."""
        was, becomes = (" ".join(text.split()) for text in (self.was, self.becomes))
        return f"{was} → {becomes or '(nothing)'}"

    @property
    def first_line(self) -> int:
        """Of the function: its first decorator's, if it has one."""
        return self._lines()[0]

    def module_text(self) -> str:
        """The whole module with the mutant in it.

        Raises:
            LookupError: the text does not occur in that function, or more than once.
        """
        begin, end = self._lines()
        lines = _text(self.path).splitlines(keepends=True)
        body = "".join(lines[begin - 1 : end])
        if body.count(self.was) != 1:
            raise LookupError(f"{self.function} has {self.was!r} {body.count(self.was)} times")
        return "".join([*lines[: begin - 1], body.replace(self.was, self.becomes), *lines[end:]])

    def _lines(self) -> tuple[int, int]:
        inside: Any = ast.parse(_text(self.path))
        for name in self.function.split("."):
            inside = next(each for each in inside.body if getattr(each, "name", None) == name)
        return min(
            [inside.lineno, *(one.lineno for one in inside.decorator_list)]
        ), inside.end_lineno

    def put_in(self, _: pytest.MonkeyPatch) -> None:
        """Have it, in this process, until that ends."""
        _put_in(self, self.path)


@frozen
class Generated:
    """A mutant that an operator made."""

    path: str
    made: Made

    @property
    def function(self) -> str:
        """Its name within the module."""
        return self.made.function

    @property
    def full_name(self) -> str:
        """Its function, and what it changes."""
        return f"{self.function}: {self.name}"

    @property
    def name(self) -> str:
        """What it changes, on one line."""
        change = change_of(self.function, *self.made.texts())
        was, becomes = (" ".join(text.split()) for text in (change.was, change.becomes))
        return f"{was} → {becomes or '(nothing)'}"

    def put_in(self, _: pytest.MonkeyPatch) -> None:
        """Have it, in this process, until that ends."""
        _put_in(self.made, self.path)


@cache
def _text(path: str) -> str:
    return (PACKAGE / path).read_text(encoding="utf-8")


def _put_in(made: Any, path: str) -> None:
    file = str(PACKAGE / path)
    functions = functions_of({file})
    mutate(made, file, functions.get((file, made.function, made.first_line), ()))


def runtime() -> Iterator[Path]:
    """The modules of the client's runtime."""
    for room in ROOMS:
        yield from sorted((PACKAGE / "client" / room).glob("*.py"))


def generated(
    seed: int,
    count: int,
    reached: Mapping[str, frozenset[int]],
    kept: Collection[str] = frozenset(),
) -> list[Generated]:
    """A sample of mutants of the runtime, of statements that runs reach (by path in the package).

    Those that are `kept`, by their names, stay in it for as long as the runtime has their text, so
    a change of the runtime changes little of the sample. Texts are left as they are: nothing goes
    by what a message says.
    """
    functions = {name.partition(":")[0] for name in kept}
    again, others = [], []
    for path in runtime():
        inside = path.relative_to(PACKAGE).as_posix()
        for made in mutants(path):
            if not made.in_body or not _matters(made):
                continue
            one = Generated(inside, made)
            if one.function in functions and one.full_name in kept:  # to name one takes a while
                again.append(one)
            elif reached.get(inside, frozenset()).intersection(made.statement):
                others.append(one)
    return again + Random(seed).sample(others, max(0, count - len(again)))


def _matters(made: Made) -> bool:
    text = isinstance(
        made.mutation.original_node, cst.SimpleString | cst.FormattedString | cst.ConcatenatedString
    )
    return not text
