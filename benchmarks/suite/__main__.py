"""Everything that must stay fast, beside its peers, in one run: `make bench`.

`ARGS="client ranges.slow"` runs some of it, by the name of a benchmark or of a part. `--quick`
tries everything on the smallest scale. Each figure is printed as it comes. A ratio is how many
times better ours is than its peer. It is compared with the median of the last five stored ones of
the same scale (`benchmarks/suite/ratios.json`, which `--update` appends to). A part with a ratio
that fell is run a second time, and what did not fall there is listed, and is no fall.

A page with plots, `build/bench/index.html`, shows ours beside the peers, targets, what fell, and
the history of each ratio. Figures of a machine that did other work are rough, and the page says so.

Exit code 0: nothing fell by more than 15 % in both runs. 1: a ratio did, or is missing. 2: a part
failed; what the others gave is on the page and compared. With `--update` only a failure is an
error.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
from benchmarks.suite import ratios
from benchmarks.suite.figures import chosen, machine, say
from benchmarks.suite.page import LOAD_MAX, page
from benchmarks.suite.parts import DEFAULT, PARTS, QUICK, Part, Ran, run

FOLDER: Final = Path("build") / "bench"


def _git(*words: str) -> str:
    ran = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def begun(scale: str) -> ratios.Run:
    """A run without its ratios: when it began and where."""
    now = datetime.datetime.now(datetime.UTC)
    commit = _git("rev-parse", "--short", "HEAD") or "unknown"
    if _git("status", "--porcelain"):
        commit += "+"
    load = round(os.getloadavg()[0], 2)
    return ratios.Run(f"{now:%Y-%m-%d %H:%M}", commit, scale, machine(), load, {})


def bench(
    parts: Sequence[Part], now: ratios.Run, folder: Path, stored_in: Path, *, update: bool = False
) -> int:
    """Run parts, compare, and write the page; the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    ran = [_run(part, now.scale, folder) for part in parts]
    now = attrs.evolve(now, parts=_ratios(ran))
    stored = ratios.read(stored_in)
    found = ratios.compared(stored, now, [part.name for part in PARTS])
    shown = folder / "index.html"
    # Also before the second runs: nothing that was measured is lost if those are interrupted.
    shown.write_text(page(now, ran, found, stored), encoding="utf-8")
    names = {change.name for change in found.fell}
    fell = [part for part in parts if names & now.parts.get(part.name, {}).keys()]
    again = [_run(part, now.scale, folder / "again") for part in fell]
    found = ratios.confirmed(found, _ratios(again))
    shown.write_text(page(now, ran, found, stored), encoding="utf-8")
    say("", *found.lines())
    failed = [each.part for each in ran if each.failure]
    if failed:
        say(f"FAILED     {', '.join(failed)}: what they printed is in {folder}/")
    if update:
        well = {part: each for part, each in now.parts.items() if part not in failed}
        ratios.store(attrs.evolve(now, parts=well), stored_in)
        say(f"{len(well)} parts are stored in {stored_in}")
    say(f"{sum(each.seconds for each in (*ran, *again)):.0f} s; the page is {shown}")
    if failed:
        return 2
    return 0 if update or found.ok else 1


def _run(part: Part, scale: str, folder: Path) -> Ran:
    folder.mkdir(exist_ok=True)
    say(f"\n== {part.name}")
    ran = run(part, scale, folder)
    ended = f"FAILED: {ran.failure}" if ran.failure else "ok"
    say(f"== {part.name}: {ran.seconds:.0f} s, {ended}")
    return ran


def _ratios(ran: Sequence[Ran]) -> dict[str, ratios.Ratios]:
    return {**ratios.of_figures({each.part: each.figures for each in ran})}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was named, or all; the exit code."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help="benchmarks, or their parts; all")
    parser.add_argument("--quick", action="store_true", help="a few seconds each, to try it")
    parser.add_argument("--update", action="store_true", help="store the ratios of this run")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"for the page; {FOLDER}")
    parser.add_argument("--stored", type=Path, default=ratios.STORED, help="the stored ratios")
    parser.add_argument("--list", action="store_true", help="print the parts")
    asked = parser.parse_args(arguments)
    known = {part.name: part for part in PARTS}
    try:
        names = chosen(asked.parts, list(known))
    except LookupError as error:
        parser.error(str(error))
    if asked.list:
        say(*names)
        return 0
    now = begun(QUICK if asked.quick else DEFAULT)
    words = ", ".join(f"{key} {value}" for key, value in now.machine.items())
    say(f"{now.date}, {now.commit}, scale {now.scale}; {words}; load {now.load}")
    if now.load > LOAD_MAX:
        say("other work goes on: figures of this run are rough")
    parts = [known[name] for name in names]
    return bench(parts, now, asked.folder, asked.stored, update=asked.update)


if __name__ == "__main__":
    sys.exit(main())
