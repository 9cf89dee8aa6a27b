"""`make walks`: walk for some minutes, or a number of walks; print the seed that repeats them.

Every other round also compares the machines' answers (`refusals`). What is found is printed as a
story, a test to paste and a counterexample, which is also written to `build/walks/`. Exit code 1
then.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from pathlib import Path

from kafka_marshal.counterexample import write
from model_tests.walks import mutated
from model_tests.walks.mutated import Found, noticed
from model_tests.walks.properties import Broken
from model_tests.walks.search import search
from model_tests.walks.telling import counterexample, told

ROUND = 500
"""Walks that one seed stands for."""
OUT = Path("build") / "walks"


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="make walks", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--walks", type=int, help="so many instead")
    parser.add_argument("--seed", type=int, help="the first round's; the next one's is one more")
    parser.add_argument(
        "--mutants", action="store_true", help="find every mutant, write found.json"
    )
    asked = parser.parse_args()
    return find_mutants() if asked.mutants else go(asked.minutes, asked.walks, asked.seed)


def go(minutes: float, walks: int | None, seed: int | None) -> int:
    """Round after round, each with the next seed. An odd seed compares answers, too."""
    seed = secrets.randbelow(10**9) if seed is None else seed
    began, done = time.monotonic(), 0
    while done < walks if walks is not None else time.monotonic() < began + 60 * minutes:
        size = ROUND if walks is None else min(ROUND, walks - done)
        problem, taken = search(size, guards=bool(seed % 2), seed=seed)
        if problem is not None:
            report(problem, seed, size)
            return 1
        done += size
        print(
            f"seed {seed}: {size} walks ({taken} begun), nothing broken; {done} in all", flush=True
        )
        seed += 1
    return 0


def report(problem: Broken, seed: int, size: int) -> None:
    """All that there is to say, and how to see it again."""
    print(told(problem))
    print("\n".join(getattr(problem, "__notes__", ())))
    if problem.simulation is not None and problem.simulation.histories[problem.claim].steps:
        for path in write(OUT, problem.name, counterexample(problem, f"seed {seed}")):
            print(path)
    print(f"\nAgain: make walks ARGS='--seed {seed} --walks {size}'")


def find_mutants() -> int:
    """A line a mutant; what was found is written."""
    found, missed = [], 0
    for mutant, prop in mutated.mutants():
        began = time.monotonic()
        problem, walks = noticed(mutant, prop)
        seconds = f"{time.monotonic() - began:.0f} s"
        if problem is None or problem.simulation is None:
            missed += 1
            print(f"{mutant.name:28}{prop.value:24}NOT NOTICED by {walks} walks, {seconds}")
            continue
        simulation = problem.simulation
        moves = tuple(simulation.moves)
        found.append(Found(mutant.name, prop, walks, simulation.setting, moves))
        line = f"{mutant.name:28}{prop.value:24}{walks:5} walks, then {len(moves)} moves, {seconds}"
        print(line, flush=True)
    mutated.PATH.write_text(mutated.written(found), encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
