"""Claims and readers whose every field is a symbol, absence included.

A field that may be None is asked whether it is when it is read, so `is None` needs no cases. What
is certain is a set of six truth values. This room knows no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import attrs
from attrs import frozen

from kafka_marshal import Claim
from kafka_marshal.core.claims import fenced, suffix_reader
from kafka_marshal.core.claims.suffix_reader import NOTHING, Field, Reader
from kafka_marshal.machines.consumer import consumer
from proof.machine.ranges import a_range
from proof.smt.solver import Smt
from proof.symbols import (
    Escaped,
    Explorer,
    Formula,
    Id,
    Number,
    Truth,
    _Tree,
    current,
    exploring,
    merging,
)


@frozen(eq=False)
class Maybe:
    """A field that may be None."""

    present: Truth
    value: Any


class Flags:
    """What is certain, as six truth values. It follows `in`, `&` and `|`, and refuses the rest."""

    def __init__(self, solver: Smt, formulas: Mapping[Field, Formula]) -> None:
        self.smt, self.formulas = solver, formulas

    def has(self, item: Field) -> Truth:
        """All of these are certain."""
        return Truth(self.smt, self.smt.api.And(*(self.formulas[each] for each in item)))

    def __contains__(self, item: Field) -> bool:
        return bool(self.has(item))

    def of(self, other: Any) -> Mapping[Field, Formula]:
        """Another set, as formulas."""
        if isinstance(other, Flags):
            return other.formulas
        if not isinstance(other, Field):
            raise Escaped(f"what is certain beside {other!r}")
        return {each: self.smt.api.BoolVal(each in other) for each in Field}

    def __and__(self, other: Any) -> Flags:
        no = self.smt.api.BoolVal(False)
        return self._with(other, {False: lambda _: no, True: lambda mine: mine}, self.smt.api.And)

    def __or__(self, other: Any) -> Flags:
        yes = self.smt.api.BoolVal(True)
        return self._with(other, {False: lambda mine: mine, True: lambda _: yes}, self.smt.api.Or)

    def _with(self, other: Any, of_one: Any, of_both: Any) -> Flags:
        if isinstance(other, Field):
            made = {each: of_one[each in other](mine) for each, mine in self.formulas.items()}
        else:
            others = self.of(other)
            made = {each: of_both(mine, others[each]) for each, mine in self.formulas.items()}
        return Flags(self.smt, made)

    __rand__, __ror__ = __and__, __or__

    def _refuse(self, *_: object) -> Any:
        raise Escaped("what is certain is looked at as a whole")

    __eq__ = __ne__ = __hash__ = __bool__ = __iter__ = __invert__ = __xor__ = _refuse


def _read(name: str) -> property:
    def read(self: Any) -> Any:
        found = self.__dict__[name]
        if not isinstance(found, Maybe):
            return found
        found = found.value if found.present else None
        if exploring() and not merging():
            self.__dict__[name] = found  # On this path it is so from now on.
        return found

    return property(read)


class SymbolicClaim(Claim):
    """A claim whose fields are asked whether they are None when they are read."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class SymbolicReader(Reader):
    """A reader, likewise."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


for _of in (SymbolicClaim, SymbolicReader):
    for _each in attrs.fields(_of):
        setattr(_of, _each.name, _read(_each.name))

LAZY: Final = (SymbolicClaim, SymbolicReader)


def copied(one: Any) -> Any:
    """The same, for one path: what is read of it on a path is remembered in it."""
    fields = {
        name: copied(each) if isinstance(each, LAZY) else each
        for name, each in one.__dict__.items()
    }
    return type(one)(**fields)


_MERGED: Final = (
    (fenced, "clock_advanced"),
    (fenced, "is_stale"),
    (fenced, "restart_takeover"),
    (suffix_reader, "_certain_after"),
    (suffix_reader, "_certain_if_set"),
    (suffix_reader, "_certifies"),
    (suffix_reader, "_definite_win"),
    (suffix_reader, "_setting_decided"),
    (suffix_reader, "_highest"),
    (suffix_reader, "_says_what_it_saw"),
)
"""Functions without effect that are merged into one formula each, as those of `prove.merged`."""


def merged_value(solver: Smt, run: Callable[[], Any]) -> Any:
    """What code returns: its paths, merged into one number or truth value."""
    tree, made = _Tree(), []
    while True:
        tree.depth = 0
        with current(tree):
            result = run()
        path = [at if answer else solver.api.Not(at) for at, answer in tree.answers]
        made.append((path, result))
        while tree.answers and not tree.answers[-1][1]:
            tree.answers.pop()
        if not tree.answers:
            break
        tree.answers[-1] = (tree.answers[-1][0], False)
    if any(result is None for _, result in made):
        raise Escaped("None is merged")
    if any(isinstance(result, Field | Flags) for _, result in made):
        return _merged_flags(solver, made)
    truths = all(isinstance(result, bool | Truth) for _, result in made)
    formulas = [(path, getattr(result, "formula", result)) for path, result in made]
    api = solver.api
    if truths:
        return Truth(solver, api.Or(*(api.And(*path, is_) for path, is_ in formulas)))
    if len(formulas) == 1:
        return made[0][1]
    value = formulas[-1][1]
    for path, each in reversed(formulas[:-1]):
        value = api.If(api.And(*path), each, value)
    return Number(solver, value)


def _merged_flags(solver: Smt, made: list[tuple[list[Formula], Any]]) -> Any:
    if len(made) == 1:
        return made[0][1]
    api, found = solver.api, {}
    for each in Field:
        cases = []
        for path, result in made:
            if isinstance(result, Field):
                cases += [api.And(*path, api.BoolVal(True))] if each in result else []
            else:
                cases.append(api.And(*path, result.formulas[each]))
        found[each] = api.Or(*cases)
    return Flags(solver, found)


def _extreme(solver: Smt, right: Callable[..., Any], better: Callable[[Any, Any], Any]) -> Any:
    def of(*values: Any) -> Any:
        values = tuple(values[0]) if len(values) == 1 else values
        if not any(isinstance(each, Number) for each in values):
            return right(values)
        best = values[0]
        for each in values[1:]:
            if not isinstance(each, int | Number):
                raise TypeError("a number beside None")
            first, second = (getattr(of, "formula", of) for of in (best, each))
            if isinstance(first, int) and isinstance(second, int):
                best = right(first, second)
                continue
            best = Number(solver, solver.api.If(better(second, first), second, first))
        return best

    return of


@contextmanager
def followed(solver: Smt) -> Iterator[None]:
    """Meanwhile `attrs.evolve` reads only what it must, and `max` is one number."""
    evolve = attrs.evolve

    def lazily(one: Any, **changes: Any) -> Any:
        if not isinstance(one, LAZY):
            return evolve(one, **changes)
        if not changes.keys() <= one.__dict__.keys():
            raise TypeError(f"no such field: {changes}")
        return type(one)(**{**one.__dict__, **changes})

    def once(right: Callable[..., Any]) -> Callable[..., Any]:
        known: dict[tuple[int, ...], tuple[tuple[Any, ...], Any]] = {}

        def ask(*of: Any) -> Any:
            if not exploring():
                return right(*of)
            key = tuple(map(id, of))
            if key not in known:  # and hold what has this id
                known[key] = of, merged_value(solver, lambda: right(*of))
            return known[key][1]

        return ask

    greatest = _extreme(solver, max, lambda new, old: new > old)
    least = _extreme(solver, min, lambda new, old: new < old)
    changes: list[tuple[Any, str, Any]] = [(attrs, "evolve", lazily), (consumer, "range", a_range)]
    for module in (fenced, suffix_reader, consumer):
        changes += [(module, "max", greatest), (module, "min", least)]
    changes += [(module, name, once(getattr(module, name))) for module, name in _MERGED]
    before = [(module, name, module.__dict__.get(name)) for module, name, _ in changes]
    for module, name, instead in changes:
        setattr(module, name, instead)
    try:
        yield
    finally:
        for module, name, right in before:
            if right is None:
                delattr(module, name)
            else:
                setattr(module, name, right)


def valued(found: Any, explorer: Explorer) -> Any:
    """Values in a model of all that is assumed."""
    match found:
        case Maybe():
            return valued(found.value, explorer) if explorer.value(found.present.formula) else None
        case SymbolicClaim() | SymbolicReader():
            fields = {name: valued(each, explorer) for name, each in found.__dict__.items()}
            return (Claim if isinstance(found, Claim) else Reader)(**fields)
        case Claim() | Reader():
            names = [each.name for each in attrs.fields(type(found))]
            return type(found)(**{name: valued(getattr(found, name), explorer) for name in names})
        case Flags():
            known = NOTHING
            for each, formula in found.formulas.items():
                known |= each if explorer.value(formula) else NOTHING
            return known
        case Id():
            return f"id{explorer.value(found.formula)}"
        case Number() | Truth():
            return explorer.value(found.formula)
        case _:
            return found
