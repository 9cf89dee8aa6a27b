"""Lists of any length, of which two elements are looked at.

A claim may have any number of ranges. The shipped code looks at a whole list in few ways: it goes
through it element by element, takes the lowest interval of the pool, and counts. So two elements
are enough: an arbitrary one, and the one that may be granted. Of the others only their number
counts, which is any, and another one after each effect. Meanwhile `Ranges.intervals` and
`Ranges.open_of` count them, too.

That nothing else depends on a list is no part of the proof. Two tests hold it: one reads the
shipped text, and one takes elements out of long lists and compares what becomes of them.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from attrs import define

from kafka_marshal.core.ranges.state import Ranges
from proof.machine.logic import choose
from proof.symbols import Number, Truth

TOLD: Final = 0
ASKED: Final = 1
"""What was silent is taken: nothing changes the others any more."""


class Counted(tuple[Any, ...]):
    """Elements that are looked at, and how many others there are."""

    others: Any

    @property
    def number(self) -> Any:
        """How many there are in all."""
        return builtins.len(self) + self.others


@define(eq=False)
class Others:
    """How many there are that are not looked at: before what is silent is taken, and after it."""

    intervals: Sequence[Any]
    """Open ranges and intervals of the pool."""
    open_of: Sequence[Any]
    """Open ranges of the sender."""
    at: int = TOLD


def length(of: Any) -> Any:
    """`len`, which counts others, too."""
    return of.number if isinstance(of, Counted) else builtins.len(of)


def truth(of: Any) -> Any:
    """`bool`, of what may have others."""
    return of.number > 0 if isinstance(of, Counted) else builtins.bool(of)


def lower(*of: Any) -> Any:
    """`min`, of two without a fork."""
    return _one(builtins.min, of, lambda one, other: other < one)


def higher(*of: Any) -> Any:
    """`max`, of two without a fork."""
    return _one(builtins.max, of, lambda one, other: other > one)


def _one(plain: Any, of: tuple[Any, ...], second: Any) -> Any:
    if builtins.len(of) != 2 or not any(isinstance(each, Number) for each in of):
        return plain(*of)
    chosen = second(*of)
    return choose(chosen, of[1], of[0]) if isinstance(chosen, Truth) else plain(*of)


counts: Final[dict[str, Any]] = {name: vars(Ranges)[name] for name in ("intervals", "open_of")}
"""As they ship, or as a mutant has them."""


@contextmanager
def counting(others: Others, *modules: Any) -> Iterator[None]:
    """Meanwhile code of these modules counts others, too. The first has the effects."""
    reaped = modules[0].reaped

    def then_asked(*of: Any) -> Any:
        found = reaped(*of)
        others.at = ASKED
        return found

    def all_of(ranges: Ranges, instance: str) -> Counted:
        found = Counted(counts["open_of"](ranges, instance))
        found.others = others.open_of[others.at]
        return found

    whole = property(lambda ranges: counts["intervals"].fget(ranges) + others.intervals[others.at])
    instead: dict[str, Any] = {"len": length, "bool": truth, "min": lower, "max": higher}
    before = [(Ranges, name, vars(Ranges)[name]) for name in counts]
    absent = [(each, name) for each in modules for name in instead if name not in vars(each)]
    try:
        setattr(Ranges, "intervals", whole)  # noqa: B010  # to mypy it is no attribute
        setattr(Ranges, "open_of", all_of)  # noqa: B010
        for each, name in absent:
            setattr(each, name, instead[name])
        modules[0].reaped = then_asked
        yield
    finally:
        modules[0].reaped = reaped
        for of, name, right in before:
            setattr(of, name, right)
        for each, name in absent:
            delattr(each, name)
