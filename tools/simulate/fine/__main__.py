"""Leaves out one lock of the client at a time, and prints what small worlds find then.

    python -m tools.simulate.fine                           the table of all locks
    python -m tools.simulate.fine --only fetcher            those of some modules
    python -m tools.simulate.fine --clean 100               every lock is there: what is wrong then?
    python -m tools.simulate.fine --world closing --seed 7  one run again, with every lock

Threads are interrupted between two bytecodes. Exit code 1: something was found where every lock is
there, or nothing was found without a lock, and nobody has explained why.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from attrs import frozen
from tools.simulate.fine import small
from tools.simulate.fine.crowd import crowd
from tools.simulate.fine.locks import Site, sites
from tools.simulate.fine.world import ROOMS, FineWorld

from kafka_marshal.testing.in_memory import Interruptions

RUN_S: Final = 120.0
"""After how long a run counts as hanging, in seconds."""
WORLDS: Final[dict[str, Callable[[FineWorld], list[str]]]] = {
    "observing": small.observing,
    "recording": small.recording,
    "closing": small.closing,
    "failing": small.failing,
    "appending": small.appending,
    "producing": small.producing,
    "subscribing": small.subscribing,
    "crowd": partial(crowd, semantics="at_least_once"),
    "crowd_amo": partial(crowd, semantics="at_most_once"),
}
"""The small worlds, by their names; that which takes the least time first."""
EVERY: Final = {"crowd": (1_000.0, 200.0), "crowd_amo": (1_000.0, 200.0)}
"""Bytecodes between two interruptions, in turn; 30 in other worlds, which are small."""
EXPLAINED: Final = {
    "self._arrived = threads.condition(self._lock)": "every wait ends after 0.05 s",
    "self._emptied = threads.condition(self._lock)": "every wait ends after 1 s",
    "self._more = threads.condition(self._lock)": "every wait ends after 0.1 s",
    "self._less = threads.condition(self._lock)": "every wait ends after 0.1 s",
    "self._busy = settings.environment.threads.condition(self._lock)": "a wait ends after 0.5 s",
    "self._room = self._environment.threads.condition(self._lock)": "a wait ends after 0.05 s",
    "self._room = threads.semaphore(READ_AHEAD)": "it bounds memory: what is read and not folded",
    "self._room = settings.environment.threads.semaphore(_BATCHES_MAX)": "it bounds memory, too",
}
"""Why nothing goes wrong without it, but that it takes longer, by the line that makes it."""


@frozen
class Hunt:
    """What came of leaving out one lock."""

    site: Site
    world: str
    """Where something was found; empty if nothing was."""
    runs: int
    seconds: float
    found: tuple[str, ...]

    @property
    def explained(self) -> bool:
        """Whether something was found, or cannot be."""
        return bool(self.found) or self.site.text in EXPLAINED

    def line(self) -> str:
        """One line of the table."""
        what = self.found[0] if self.found else f"nothing: {EXPLAINED.get(self.site.text, '?')}"
        return (
            f"{self.site!s:26}{self.site.kind:11}{self.world or '-':12}{self.runs:5}"
            f"{self.seconds:7.1f} s  {what[:90]}"
        )


def run(name: str, seed: int, without: Site | None = None) -> tuple[FineWorld, list[str]]:
    """Run a world once; it, and what was wrong."""
    every = EVERY.get(name, (30.0,))
    world = FineWorld(seed, without, Interruptions(every[seed % len(every)], rooms=ROOMS))
    return world, WORLDS[name](world)


def hunt(site: Site, rounds: int, first: int = 0) -> Hunt:
    """Leave it out in every world, by one seed after the other, until something is wrong."""
    began_s = time.monotonic()
    runs = 0
    for seed, name in itertools.product(range(first, first + rounds), WORLDS):
        runs += 1
        _, found = run(name, seed, site)
        if found:
            return Hunt(site, name, runs, time.monotonic() - began_s, tuple(found))
    return Hunt(site, "", runs, time.monotonic() - began_s, ())


def clean(seed: int) -> list[str]:
    """What is wrong in any world where every lock is there."""
    return [
        f"--world {name} --seed {seed}: {each}" for name in WORLDS for each in run(name, seed)[1]
    ]


def _each(do: Callable[..., Any], of: list[Any], jobs: int) -> Iterator[Any]:
    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=10) as pool:
        pending = [pool.apply_async(do, (each,)) for each in of]
        for each in pending:
            yield each.get(RUN_S * len(WORLDS))


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="a part of the modules' names")
    parser.add_argument("--rounds", type=int, default=60, help="runs of each world, at most")
    parser.add_argument("--clean", type=int, default=0, help="runs of each world with every lock")
    parser.add_argument("--world", choices=WORLDS)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    if given.world:
        world, found = run(given.world, given.seed)
        print("\n".join([*found, world.digest]))
        return 1 if found else 0
    if given.clean:
        seeds = [*range(given.seed, given.seed + given.clean)]
        wrong = [str(line) for lines in _each(clean, seeds, given.jobs) for line in lines]
        print("\n".join(wrong))
        print(f"{given.clean * len(WORLDS)} runs with every lock: {len(wrong)} findings")
        return 1 if wrong else 0
    chosen = [site for site in sites() if given.only in site.module]
    print(f"{'made at':26}{'what':11}{'found in':12}{'runs':>5}{'':9}  what was wrong")
    hunts: list[Hunt] = []
    for each in _each(partial(hunt, rounds=given.rounds, first=given.seed), chosen, given.jobs):
        hunts.append(each)
        print(each.line(), flush=True)
    without = sum(bool(each.found) for each in hunts)
    explained = sum(each.explained for each in hunts) - without
    print(f"{len(hunts)} left out: {without} found, {explained} explained")
    return 0 if all(each.explained for each in hunts) else 1


if __name__ == "__main__":
    sys.exit(main())
