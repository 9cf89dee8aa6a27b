"""z3 by its C interface: its Python one asks about the sort of everything, several times."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import z3  # type: ignore[import-untyped]
from attrs import define, field

from proof.smt.terms import Sort, Term, Undecided, Valuation, Value

_POINTER: Final = ctypes.c_void_p
_LIBRARY: Final = ctypes.CDLL(str(min((Path(z3.__file__).parent / "lib").glob("libz3.*"))))
_MANY: Final = ("and", "or", "add", "subtract", "multiply")
"""Operators whose arguments are an array."""
_NAMES: Final = {
    "not": "not", "and": "and", "or": "or", "equal": "eq", "less": "lt", "if": "ite",
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "real": "int2real",
}  # fmt: skip
"""Of Z3_mk_..., by operator."""


def _function(name: str, *arguments: Any, returns: Any = _POINTER) -> Any:
    """Of the library; the first argument is the context."""
    found = getattr(_LIBRARY, f"Z3_{name}")
    found.argtypes, found.restype = [_POINTER, *arguments], returns
    return found


_UINT: Final = ctypes.c_uint
_inc_ref: Final = _function("inc_ref", _POINTER, returns=None)
_mk: Final = {
    op: _function(f"mk_{name}", *([_UINT, _POINTER] if op in _MANY else [_POINTER] * arity))
    for op, name in _NAMES.items()
    for arity in ({"not": 1, "real": 1, "if": 3}.get(op, 2),)
}
_error_code: Final = _function("get_error_code", returns=ctypes.c_int)
_error_message: Final = _function("get_error_msg", ctypes.c_int, returns=ctypes.c_char_p)
_numeral: Final = _function("mk_numeral", ctypes.c_char_p, _POINTER)
_symbol: Final = _function("mk_string_symbol", ctypes.c_char_p)
_constant: Final = _function("mk_const", _POINTER, _POINTER)
_assert: Final = _function("solver_assert", _POINTER, _POINTER, returns=None)
_push: Final = _function("solver_push", _POINTER, returns=None)
_pop: Final = _function("solver_pop", _POINTER, _UINT, returns=None)
_check: Final = _function(
    "solver_check_assumptions", _POINTER, _UINT, _POINTER, returns=ctypes.c_int
)
_solver_dec_ref: Final = _function("solver_dec_ref", _POINTER, returns=None)
_reason: Final = _function("solver_get_reason_unknown", _POINTER, returns=ctypes.c_char_p)
_model: Final = _function("solver_get_model", _POINTER)
_model_inc_ref: Final = _function("model_inc_ref", _POINTER, returns=None)
_model_dec_ref: Final = _function("model_dec_ref", _POINTER, returns=None)
_eval: Final = _function(
    "model_eval", _POINTER, _POINTER, ctypes.c_bool, _POINTER, returns=ctypes.c_bool
)
_truth_of: Final = _function("get_bool_value", _POINTER, returns=ctypes.c_int)
_text_of: Final = _function("get_numeral_string", _POINTER, returns=ctypes.c_char_p)


class Z3Failed(Exception):
    """z3 refuses a call: our own code is wrong."""


@define(eq=False)
class Context:
    """Its terms of ours. They live as long as this does."""

    pointer: Any = field(init=False)
    _sorts: dict[Sort, Any] = field(init=False)
    _made: dict[Term, int] = field(factory=dict)
    _delete: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        config = _function("mk_config")
        config.argtypes = []
        settings = config()
        self.pointer = _function("mk_context_rc")(settings)
        self._delete = _function("del_context", returns=None)  # at exit globals are gone
        _function("del_config", returns=None)(settings)
        _function("set_error_handler", _POINTER, returns=None)(self.pointer, None)
        names = {Sort.TRUTH: "bool", Sort.INTEGER: "int", Sort.REAL: "real"}
        self._sorts = {
            sort: _function(f"mk_{name}_sort")(self.pointer) for sort, name in names.items()
        }
        for each in self._sorts.values():
            _inc_ref(self.pointer, each)

    def __del__(self) -> None:
        # Python may collect what is made in it later: that finds no pointer.
        here, self.pointer = self.pointer, None
        self._delete(here)

    def fine(self) -> None:
        """Raises Z3Failed if the last call failed."""
        code = _error_code(self.pointer)
        if code:
            raise Z3Failed(_error_message(self.pointer, code).decode())

    def own(self, of: Term) -> int:
        """Its term."""
        found = self._made.get(of)
        if found is None:
            found = self._own(of)
            self.fine()
            _inc_ref(self.pointer, found)
            self._made[of] = found
        return found

    def _own(self, of: Term) -> int:
        here = self.pointer
        if of.op == "symbol":
            name = _symbol(here, of.args[0].encode())
            return int(_constant(here, name, self._sorts[of.sort]))
        if of.op == "value" and of.sort is Sort.TRUTH:
            return int(_function("mk_true" if of.args[0] else "mk_false")(here))
        if of.op == "value":
            return int(_numeral(here, str(of.args[0]).encode(), self._sorts[of.sort]))
        args = self._same_sort(of.args)
        if of.op in _MANY:
            return int(_mk[of.op](here, len(args), array(args)))
        return int(_mk[of.op](here, *args))

    def _same_sort(self, args: Sequence[Term]) -> list[int]:
        """Integers beside reals become reals."""
        found = [self.own(each) for each in args]
        if any(each.sort is Sort.REAL for each in args):
            for at, each in enumerate(args):
                if each.sort is Sort.INTEGER:
                    found[at] = int(_mk["real"](self.pointer, found[at]))
                    _inc_ref(self.pointer, found[at])
        return found


def array(of: Sequence[int]) -> Any:
    """For a function that takes many."""
    return (_POINTER * len(of))(*of)


@define(eq=False)
class Z3Session:
    """One solver at work."""

    of: Context
    _solver: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._solver = _function("mk_simple_solver")(self.of.pointer)
        _function("solver_inc_ref", _POINTER, returns=None)(self.of.pointer, self._solver)

    def __del__(self) -> None:
        if self.of.pointer is not None:
            _solver_dec_ref(self.of.pointer, self._solver)

    def add(self, condition: Term) -> None:
        """Assume it, until the last `push` is undone."""
        _assert(self.of.pointer, self._solver, self.of.own(condition))
        self.of.fine()

    def push(self) -> None:
        """Remember what is assumed."""
        _push(self.of.pointer, self._solver)
        self.of.fine()

    def pop(self) -> None:
        """Forget what was assumed since."""
        _pop(self.of.pointer, self._solver, 1)
        self.of.fine()

    def model(self, *conditions: Term) -> Valuation | None:
        """Values of which all that is assumed is true, and these conditions; None if none are.

        Raises Undecided.
        """
        here, asked = self.of.pointer, array([self.of.own(each) for each in conditions])
        answer = _check(here, self._solver, len(conditions), asked)
        self.of.fine()
        if answer < 0:
            return None
        if answer == 0:
            raise Undecided(f"z3 does not know: {_reason(here, self._solver).decode()}")
        return Valuation(_Model(self.of, _model(here, self._solver)).value)


@define(eq=False)
class _Model:
    of: Context
    pointer: Any

    def __attrs_post_init__(self) -> None:
        _model_inc_ref(self.of.pointer, self.pointer)

    def __del__(self) -> None:
        if self.of.pointer is not None:
            _model_dec_ref(self.of.pointer, self.pointer)

    def value(self, symbol: Term) -> Value:
        here, found = self.of.pointer, _POINTER()
        _eval(here, self.pointer, self.of.own(symbol), True, ctypes.byref(found))
        self.of.fine()
        if symbol.sort is Sort.TRUTH:
            return bool(_truth_of(here, found) > 0)
        _inc_ref(here, found)
        text = _text_of(here, found).decode()
        self.of.fine()
        return int(text) if symbol.sort is Sort.INTEGER else Fraction(text)
