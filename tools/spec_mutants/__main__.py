"""`make spec-mutants`: put one mistake at a time into the specification, and see which model fails.

Prints a line for each mutant as its search ends. Exit code 1 if one survives without a listed
reason, or one with a reason is killed. Also 1 if another model or property kills than is written
down. 2 if a run could not be judged. With `--update` it writes down what it found, and the page
`docs/reference/spec-mutants.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from attrs import asdict, frozen
from tools.spec_mutants.mutants import Mutant, MutantError, check, read

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.output import TlcOutcome
from kafka_marshal.scratch import Scratch

RESULTS: Final = Path(__file__).with_name("results.json")
PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "spec-mutants.md"

TEXT: Final = """\
# Mutants of the specification

<!-- Printed by `make spec-mutants ARGS=--update`; do not edit. -->

`make spec-mutants` puts one mistake at a time into the text of the specification and runs models
until one fails. `tools/spec_mutants/mutants.toml` lists the mistakes: a module, a text that occurs
in it exactly once, and what stands there instead. The models of each are tried in order, the
cheapest likely killer first. Seconds are of one machine: all runs until one failed.
The notes of the specification say [what each
taught](../../spec/NOTES.md#what-the-mutants-taught).

{killed} of {all} are killed, {survive} survive with a reason.

## Killed

| mutant | module | what it breaks | model | property | seconds |
|---|---|---|---|---|---:|
{rows}

## Survivors

Each of these passes every model that is tried, for the reason given.

| mutant | module | what it breaks | why nothing notices |
|---|---|---|---|
{survivors}
"""


@frozen
class Found:
    """What came of one mutant."""

    name: str
    model: str | None = None
    """The model that failed; None if it survived."""
    violated: str | None = None
    """The property that it broke."""
    seconds: float = 0.0
    """Of all runs until one failed."""
    error: str | None = None
    """Why a run could not be judged."""

    def line(self) -> str:
        """One line of the table."""
        by = f"{self.model}: {self.violated}" if self.model else "SURVIVES"
        return f"{self.name:34} {self.seconds:6.1f} s  {self.error or by}"


def search(mutant: Mutant, spec: Path) -> Found:
    """Run its models until one fails."""
    began = time.monotonic()

    def took() -> float:
        return round(time.monotonic() - began, 1)

    with Scratch("spec-mutant") as desk:
        folder = mutant.made(spec, desk)
        known = models.read(folder)
        for name in mutant.models:
            try:
                result = models.find(name, known).run()
            except ModelCheckError as error:
                return Found(mutant.name, seconds=took(), error=f"ERROR {name}: {error}")
            if result.outcome is not TlcOutcome.OK:
                violated = result.violated or str(result.outcome)
                return Found(mutant.name, name, violated, took())
    return Found(mutant.name, seconds=took())


def search_all(mutants: Sequence[Mutant], jobs: int) -> Iterator[Found]:
    """Search for what kills each, some at a time; yield as they end."""
    spec = models.spec_folder()
    with ThreadPoolExecutor(jobs) as pool:
        begun = [pool.submit(search, mutant, spec) for mutant in mutants]
        try:
            for ended in as_completed(begun):
                yield ended.result()
        finally:
            for each in begun:
                each.cancel()
            tlc.kill_all()


def wrong(mutant: Mutant, found: Found, before: Found | None) -> str | None:
    """What is not as it must be, in words; None if all is."""
    if found.error:
        return found.error
    if found.model is None:
        return None if mutant.survives else "survives, and no reason is listed"
    if mutant.survives:
        return f"is listed as a survivor, and {found.model} kills it by {found.violated}"
    if before is None:
        return "is not written down yet: make spec-mutants ARGS=--update"
    if (before.model, before.violated) != (found.model, found.violated):
        return f"was killed by {before.model} with {before.violated}"
    return None


def results(path: Path = RESULTS) -> dict[str, Found]:
    """What is written down, by mutant."""
    if not path.is_file():
        return {}
    return {row["name"]: Found(**row) for row in json.loads(path.read_text(encoding="utf-8"))}


def page(mutants: Sequence[Mutant], found: Mapping[str, Found]) -> str:
    """The page as it is to be."""
    killed = [m for m in mutants if not m.survives and m.name in found]
    survivors = [m for m in mutants if m.survives]
    rows = (
        f"| `{m.name}` | {m.module} | {m.breaks} | `{found[m.name].model}` "
        f"| {found[m.name].violated} | {found[m.name].seconds:.0f} |"
        for m in killed
    )
    return TEXT.format(
        all=len(mutants),
        killed=len(killed),
        survive=len(survivors),
        rows="\n".join(rows),
        survivors="\n".join(
            f"| `{m.name}` | {m.module} | {m.breaks} | {m.survives} |" for m in survivors
        ),
    )


def write(mutants: Sequence[Mutant], found: Mapping[str, Found]) -> None:
    """Write down what was found, in the list's order, and the page."""
    rows = [asdict(found[m.name]) for m in mutants if m.name in found]
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(mutants, found), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Search for all, or those that are named; the exit code."""
    parser = argparse.ArgumentParser(prog="make spec-mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MUTANT", help="some of them; all")
    parser.add_argument("--update", action="store_true", help="write down what is found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="runs at a time")
    asked = parser.parse_args(arguments)
    try:
        mutants = read()
        check(mutants)
    except (MutantError, ModelCheckError) as error:
        print(f"spec-mutants: {error}", file=sys.stderr)
        return 2
    by_name = {mutant.name: mutant for mutant in mutants}
    if unknown := set(asked.names) - set(by_name):
        parser.error(f"no such mutant: {', '.join(sorted(unknown))}")
    chosen = [by_name[name] for name in asked.names] or list(mutants)
    before, failed, stopped = results(), 0, 0
    after = {name: row for name, row in before.items() if name in by_name}
    for found in search_all(chosen, asked.jobs):
        mutant = by_name[found.name]
        sentence = wrong(mutant, found, found if asked.update else before.get(found.name))
        failed += bool(sentence)
        stopped += bool(found.error)
        print(found.line() + (f"  WRONG: {sentence}" if sentence else ""), flush=True)
        if not sentence:
            after[found.name] = found
    if asked.update:
        write(mutants, after)
    print(f"{len(chosen)} mutants, {failed} not as they must be")
    return 2 if stopped else 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
