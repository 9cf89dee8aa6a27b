"""Mutants of the client's runtime, put in one at a time: how soon a simulated run finds each.

    python -m tools.simulate.mutants                    those that nothing has found yet
    python -m tools.simulate.mutants --again            all of them
    python -m tools.simulate.mutants --kind groups      of one kind: once, hand, generated, groups
    python -m tools.simulate.mutants --only pause       those with this in their names
    python -m tools.simulate.mutants --world alone      in one world, whose runs are counted alone

Mistakes that were made once (tests/client/fleet/test_mutants.py), some by hand, a sample of
generated ones, and some of groups with a controller, in a world of their own. Results go into
results.json, and from there into docs/reference/simulated-mutants.md. Exit code 1: one was not
found, and explained.toml does not say why.
"""

from __future__ import annotations

import argparse
import inspect
import json
import multiprocessing
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
import pytest
from attrs import frozen
from tests.client.fleet import test_mutants
from tools.simulate.mutants.by_hand import BY_HAND
from tools.simulate.mutants.edits import Edit, Generated, generated
from tools.simulate.mutants.of_groups import OF_GROUPS
from tools.simulate.mutants.search import Search, searched
from tools.simulate.mutants.worlds import GROUPS, GROUPS_WORLDS, WORLDS

HERE: Final = Path(__file__).parent
RESULTS: Final = HERE / "results.json"
EXPLAINED: Final = HERE / "explained.toml"
REACHED: Final = HERE.parent / "reached.json"
SEED: Final = 13
"""Of the sample of generated mutants, and of the first run."""
GENERATED: Final = 36

KINDS: Final = ("once", "hand", "generated", "groups")
"""Made once by us, thought of by hand, made by operators; and of groups, by hand."""


@frozen
class Mutant:
    """One of those that are looked for."""

    kind: str
    """One of `KINDS`."""
    name: str
    where: str
    put_in: Callable[[pytest.MonkeyPatch], None]


@frozen
class Result:
    """What came of one search."""

    kind: str
    search: Search
    commit: str
    """The newest commit of what was run."""


def mutants(kind: str = "") -> dict[str, Mutant]:
    """All of them, by name, or all of a kind; it takes seconds to generate some."""
    edits: list[tuple[str, Edit | Generated]] = [("hand", one) for one in BY_HAND]
    edits += [("groups", one) for one in OF_GROUPS]
    if kind in ("", "generated"):
        kept = {one.search.mutant for one in results().values() if one.kind == "generated"}
        edits += [("generated", one) for one in generated(SEED, GENERATED, reached(), kept)]
    found = [
        Mutant("once", name, " ".join((each.__doc__ or "").split()), each)
        for name, each in inspect.getmembers(test_mutants, inspect.isfunction)
        if [*inspect.signature(each).parameters] == ["patch"]
        and each.__module__ == test_mutants.__name__
    ]
    for its, one in edits:
        module = one.path.removesuffix(".py").replace("/", ".").removeprefix("client.")
        found.append(Mutant(its, f"{one.function}: {one.name}", module, one.put_in))
    return {f"{one.where} {one.name}": one for one in found if kind in ("", one.kind)}


def reached() -> dict[str, frozenset[int]]:
    """The lines of the client that simulated runs reach, by path within the package."""
    lines = json.loads(REACHED.read_text(encoding="utf-8"))["lines"]
    return {path: frozenset(each) for path, each in lines.items()}


def results(path: Path = RESULTS) -> dict[str, Result]:
    """What was written down, by the names of `mutants`."""
    if not path.exists():
        return {}
    told = json.loads(path.read_text(encoding="utf-8"))
    rows = [Result(row.pop("kind"), commit=row.pop("commit"), search=Search(**row)) for row in told]
    return {f"{one.search.where} {one.search.mutant}": one for one in rows}


def explained(path: Path = EXPLAINED) -> dict[str, str]:
    """Why a mutant is not found, by its name."""
    rows = tomllib.loads(path.read_text(encoding="utf-8")).get("mutant", [])
    return {row["name"]: row["why"] for row in rows}


def save(found: dict[str, Result], path: Path = RESULTS) -> None:
    """Write them down, one a line."""
    rows = [
        json.dumps({"kind": one.kind, "commit": one.commit, **attrs.asdict(one.search)})
        for _, one in sorted(found.items())
    ]
    path.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


def _searched(asked: tuple[str, int, float, str]) -> tuple[str, Search]:
    name, first, longest_s, world = asked
    one = _ALL[name]
    return name, searched(one.name, one.where, one.put_in, first, longest_s, world)


_ALL: Final[dict[str, Mutant]] = {}
"""What the processes know that search."""


def main(arguments: list[str] | None = None) -> int:
    """Search; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.simulate.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="mutants with this in their names")
    parser.add_argument("--kind", choices=KINDS, default="", help="those of one kind")
    parser.add_argument(
        "--world",
        choices=(*WORLDS, *GROUPS_WORLDS),
        default="",
        help="in this world; else in all, of clients or of groups",
    )
    parser.add_argument("--again", action="store_true", help="also those that were found before")
    parser.add_argument("--seconds", type=float, default=600.0, help="CPU time for each, at most")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--seed", type=int, default=SEED, help="of the first run")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the file of the results")
    asked = parser.parse_args(arguments)
    _ALL.update(mutants(asked.kind))
    known = results(asked.results)
    if not asked.kind:  # what is no mutant any more
        known = {name: one for name, one in known.items() if name in _ALL}
    names = [
        name
        for name in _ALL
        if asked.only in name and (asked.again or name not in known or not known[name].search.found)
    ]
    if asked.only and not any(asked.only in name for name in _ALL):
        parser.error(f"--only {asked.only}: no mutant has this in its name")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    why, missed = explained(), 0
    with multiprocessing.get_context("fork").Pool(asked.jobs, maxtasksperchild=1) as pool:
        todo = [
            (
                name,
                asked.seed,
                asked.seconds,
                asked.world or (GROUPS if _ALL[name].kind == GROUPS else ""),
            )
            for name in names
        ]
        for name, search in pool.imap_unordered(_searched, todo):
            known[name] = Result(_ALL[name].kind, search, commit)
            save(known, asked.results)
            missed += not search.found and search.mutant not in why
            told = search.found or f"NOTHING: {why.get(search.mutant, 'and nobody knows why')}"
            print(
                f"{search.mutant[:70]:70} {search.runs:4} {search.cpu_s:7.1f} s  {told[:100]}",
                flush=True,
            )
    total = sum(not one.search.found for one in known.values())
    print(f"{len(known)} mutants, {len(known) - total} found, {missed} missed without a reason")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
