"""Arrays of 64-bit integers, as code that numba compiles has them, with symbols in them.

What does not fit in 64 bits raises. An array has one element or one row, whatever its index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from attrs import define, field

from kafka_marshal.kernel.steps import NONE
from proof.smt.solver import Smt
from proof.symbols import Escaped, Id, Number, Truth, formula_of

LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1
_READ_AT_MOST: Final = 100


class Overflows(Exception):
    """A number does not fit in 64 bits."""


class Endless(Exception):
    """A loop over one claim goes round and round."""


class Int64(Number):
    """An integer of 64 bits: an operation whose result does not fit raises."""

    __slots__ = ()

    def _with(self, other: object, of: Any, kind: Any) -> Any:
        if isinstance(other, Truth):  # numba: an int of a truth value
            other = Int64(self.smt, self.smt.api.If(other.formula, 1, 0))
        found = super()._with(other, of, kind)
        if not isinstance(found, Number):
            return found
        return fits(Int64(self.smt, found.formula))

    def __or__(self, other: Any) -> Any:
        other = other.formula if isinstance(other, Truth) else bool(other)
        api = self.smt.api
        if not Truth(self.smt, api.Or(self.formula == 0, self.formula == 1)):
            raise Escaped(f"{self!r} | {other!r}")
        return Int64(self.smt, api.If(api.Or(self.formula == 1, other), 1, 0))

    __hash__ = Number.__hash__


def fits(number: Number) -> Number:
    """The same number. Raises Overflows on a path where it takes more than 64 bits."""
    api = number.smt.api
    if not Truth(number.smt, api.And(number.formula >= LEAST, number.formula <= MOST)):
        raise Overflows(f"{number!r} takes more than 64 bits")
    return number


class Name(Id):
    """An id of which it is asked whether it is empty; the kernel's code of that is 0."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return bool(Truth(self.smt, self.formula != 0))

    def __eq__(self, other: object) -> Any:
        if other == "":
            return Truth(self.smt, self.formula == 0)
        return super().__eq__(other)

    __hash__ = Id.__hash__


class Column:
    """An array of one element, whatever its index. Of one record it is read a few times."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._read = 0

    def __getitem__(self, at: Any) -> Any:
        self._read += 1
        if self._read > _READ_AT_MOST:
            raise Endless
        return self.value

    def __setitem__(self, at: Any, value: Any) -> None:
        self.value = value


class Row(Column):
    """An array of one row, whatever its index; its second index is a number."""

    def __getitem__(self, at: Any) -> Any:
        return self.value[at[1]] if isinstance(at, tuple) else tuple(self.value)

    def __setitem__(self, at: Any, value: Any) -> None:
        if value is None:
            raise TypeError("None is no number")
        if isinstance(at, tuple):
            self.value[at[1]] = plain(value)
        else:
            self.value[:] = value


class _NumPy:
    """What `fold` takes of numpy. Its integers are symbols already."""

    @staticmethod
    def int64(value: Any) -> Any:
        """The same."""
        return value


@contextmanager
def uncompiled(module: Any, merged: Mapping[str, Merged] | None = None) -> Iterator[Any]:
    """Meanwhile its functions are the plain Python that numba was given, some of them merged."""
    before = dict(vars(module))
    functions = {name: each.py_func for name, each in before.items() if hasattr(each, "py_func")}
    vars(module).update(functions, np=_NumPy)
    for name, each in (merged or {}).items():
        each.right = getattr(module, name)
        setattr(module, name, each)
    try:
        yield module
    finally:
        vars(module).update(before)


def plain(value: Any) -> Any:
    """As an array of numbers has it."""
    if value is None:
        return NONE
    if isinstance(value, Truth):
        return Int64(value.smt, value.smt.api.If(value.formula, 1, 0))
    if isinstance(value, Int64):
        return value
    return Int64(value.smt, value.formula) if isinstance(value, Number | Id) else int(value)


@define
class Merged:
    """A function without effect, whose paths are one formula for each value that it may have."""

    smt: Smt
    values: tuple[int, ...] = ()
    """What it may return; a truth value if nothing is given."""
    right: Callable[..., Any] = field(init=False)
    _known: dict[tuple[Any, ...], tuple[Any, ...]] = field(factory=dict)

    def __call__(self, *of: Any) -> Any:
        """What it returns; on a path of its own for each value."""
        key = tuple(map(_identity, of))
        if key not in self._known:  # and hold what has this id
            formulas = [formula_of(self.smt, partial(self._is, of, value)) for value in self.values]
            formulas = formulas or [formula_of(self.smt, partial(self.right, *of))]
            self._known[key] = (of, [_identity(each, held=True) for each in of], *formulas)
        _, _, *formulas = self._known[key]
        if not self.values:
            return Truth(self.smt, formulas[0])
        for value, formula in zip(self.values, formulas, strict=True):
            if Truth(self.smt, formula):
                return value
        return self.right(*of)

    def _is(self, of: tuple[Any, ...], value: int) -> Any:
        return self.right(*of) == value


def _identity(value: Any, *, held: bool = False) -> Any:
    """Equal where the same symbols are in it; or those symbols, so that they are held."""
    if isinstance(value, Column):
        row = value.value if isinstance(value.value, list) else [value.value]
        return tuple(_identity(each, held=held) for each in row)
    symbol = value.formula if isinstance(value, Number | Truth) else value
    return symbol if held or isinstance(symbol, int) else id(symbol)
