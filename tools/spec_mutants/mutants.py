"""Mutants of the specification: plain data, and how one is made.

`mutants.toml` lists them: a module of `spec/`, a text that occurs in it exactly once, and what
stands there instead. Models are tried in order, the cheapest likely killer first. This room does
not run TLC.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import Any, Final

from attrs import Factory, field, fields, frozen

from kafka_marshal.modelcheck import models

LIST: Final = Path(__file__).with_name("mutants.toml")


class MutantError(Exception):
    """The list contradicts itself or the specification; the message names the mutant."""


def _tuple(names: Any) -> tuple[str, ...]:
    return tuple(names)


def _pairs(texts: Any) -> tuple[tuple[str, str], ...]:
    return tuple((old, new) for old, new in texts)


@frozen
class Mutant:
    """One table of `mutants.toml`, its keys by the same names."""

    name: str
    module: str
    """The module's name, without `.tla`."""
    old: str
    """Occurs in the module exactly once."""
    new: str
    breaks: str
    """What is wrong in it, in one sentence."""
    models: tuple[str, ...] = field(converter=_tuple, default=Factory(tuple))
    """Tried in this order until one fails."""
    also: tuple[tuple[str, str], ...] = field(converter=_pairs, default=Factory(tuple))
    """Further texts of the module and what stands there instead."""
    survives: str | None = None
    """Why no model kills it, where none does."""

    def made(self, spec: Path, desk: Path) -> Path:
        """Copy the specification into `desk` with this mistake in it; return the copy.

        Raises MutantError if the text does not occur exactly once.
        """
        folder = desk / "spec"
        shutil.copytree(spec, folder, ignore=shutil.ignore_patterns("traces"))
        path = path_of(folder, self)
        path.write_text(replaced(path.read_text(encoding="utf-8"), self), encoding="utf-8")
        return folder


def path_of(spec: Path, mutant: Mutant) -> Path:
    """The file of a mutant's module; raises MutantError if there is none."""
    found = list(spec.rglob(f"{mutant.module}.tla"))
    if len(found) != 1:
        raise MutantError(f"{mutant.name}: there is no module {mutant.module} in {spec}")
    return found[0]


def replaced(text: str, mutant: Mutant) -> str:
    """The module's text with the mistake; raises MutantError unless its text occurs once."""
    for old, new in ((mutant.old, mutant.new), *mutant.also):
        if (times := text.count(old)) != 1:
            raise MutantError(
                f"{mutant.name}: {mutant.module} holds {old!r} {times} times, and once is needed"
            )
        text = text.replace(old, new)
    return text


def read(path: Path = LIST) -> tuple[Mutant, ...]:
    """All mutants in the file's order; raises MutantError for a table that is not one."""
    known = {each.name for each in fields(Mutant)}
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    found: list[Mutant] = []
    for table in tables:
        name = table.get("name", "a mutant without a name")
        if unknown := sorted(set(table) - known):
            raise MutantError(f"{name}: unknown keys: {', '.join(unknown)}")
        if missing := sorted({"name", "module", "old", "new", "breaks"} - set(table)):
            raise MutantError(f"{name}: missing keys: {', '.join(missing)}")
        if name in (each.name for each in found):
            raise MutantError(f"{name} is there twice")
        found.append(Mutant(**table))
    return tuple(found)


def check(mutants: tuple[Mutant, ...], spec: Path | None = None) -> None:
    """Raise MutantError for the first that cannot be made or names a model that must fail."""
    spec = spec or models.spec_folder()
    known = {model.name: model for model in models.read(spec)}
    for mutant in mutants:
        replaced(path_of(spec, mutant).read_text(encoding="utf-8"), mutant)
        if not mutant.models:
            raise MutantError(f"{mutant.name}: no model is tried")
        for name in mutant.models:
            if name not in known or known[name].must_fail:
                raise MutantError(f"{mutant.name}: {name} is no model that must hold")
