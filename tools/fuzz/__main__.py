"""Hostile input, by coverage, for a while: `make fuzz ARGS="--seconds 600 --target capture"`.

Each target is an entry of the package: the decoder, the kernel, every format of a replay, files of
state, recorded runs, a whole replay with its page, the command. Inputs that go a new way through
the code are changed again. The corpora in tests/data/fuzz come first; `--save` adds to them what
found new ways. The seed gives the same inputs in the same order; how many there are is a matter of
time, unless `--inputs` says it.

Prints a table, and each finding with the file that holds its input; `--input FILE` plays it again.
Exit code 1 if something was found.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.fuzz.engine import checked
from tools.fuzz.supervisor import Outcome, fuzz, name_of, save
from tools.fuzz.targets.every import EVERY

HEAD = f"{'target':16}{'inputs':>10}{'inputs/s':>10}{'corpus':>8}{'arcs':>8}{'new':>6}{'found':>7}"


def line(outcome: Outcome) -> str:
    """One line of the table."""
    counts = outcome.counts
    rate = counts.inputs / counts.seconds if counts.seconds else 0
    return (
        f"{outcome.target:16}{counts.inputs:10,}{rate:10,.0f}{counts.corpus:8,}{counts.arcs:8,}"
        f"{counts.arcs - counts.arcs_before:6,}{len(outcome.findings):7,}"
    )


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="for all targets together")
    parser.add_argument("--inputs", type=int, help="for each target, instead of a time")
    parser.add_argument("--target", nargs="*", choices=sorted(EVERY), help="some of them; all")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--jobs", type=int, default=2, help="targets at once")
    parser.add_argument("--save", action="store_true", help="keep what found new ways")
    parser.add_argument("--input", type=Path, help="play this file on the one target")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    options = parser.parse_args()
    names = options.target or list(EVERY)
    if options.input is not None:
        finding = checked(EVERY[names[0]], options.input.read_bytes(), options.folder)
        print(finding or "nothing was found")
        return 1 if finding else 0
    print(f"fuzz: --seed {options.seed}, in {options.folder}\n{HEAD}", flush=True)
    for name in names:
        shutil.rmtree(options.folder / name, ignore_errors=True)
    seconds = options.seconds * options.jobs / len(names)

    def one(name: str) -> Outcome:
        outcome = fuzz(name, options.folder / name, options.seed, seconds, options.inputs)
        print(line(outcome), flush=True)
        return outcome

    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(one, names))
    found = 0
    for outcome in outcomes:
        for finding, data in outcome.findings:
            found += 1
            path = options.folder / outcome.target / name_of(data)
            path.write_bytes(data)
            print(f"FOUND by {outcome.target}: {finding}\n  {path} ({len(data):,} bytes)")
        if options.save:
            print(f"{outcome.target}: {save(outcome.target, options.folder / outcome.target)} kept")
    inputs = sum(outcome.counts.inputs for outcome in outcomes)
    told = f"{found} findings" if found else "nothing was found"
    print(f"fuzz: --seed {options.seed}: {inputs:,} inputs, {len(names)} targets: {told}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
