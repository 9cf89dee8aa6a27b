"""What is run in parallel: jobs of every part, and what came of each.

A job that escapes, or that the solver does not decide, proves nothing: it is counted apart.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol, TypeAlias

from attrs import frozen

from proof.symbols import Diverged, Escaped, NotDecided

Run: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""Calls a function with each argument, and gives what it returns in any order."""


@contextmanager
def processes(number: int) -> Iterator[Run]:
    """Run jobs in this many processes; one is this process itself.

    A process that has other threads must not fork: the lock that one of them holds stays locked in
    the child. So a test asks for one.
    """
    if number == 1:
        yield map
        return
    with multiprocessing.get_context("fork").Pool(number) as pool:
        yield pool.imap_unordered


@frozen
class Job:
    """One case of a part."""

    kind: str
    """Jobs of one kind run the same code: `--cases` takes a number of each."""
    run: Callable[[str], Any]
    """By the solver of this name. What it returns is the part's own."""
    name: str = ""


@frozen
class Failed:
    """A job of which nothing is proved."""

    job: str
    why: str
    message: str


class Part(Protocol):
    """A part of the proof: a module."""

    __name__: str

    def names(self) -> Sequence[str]:
        """All that it proves."""

    def jobs(self, names: Sequence[str], /) -> list[Job]:
        """What proves these properties, the longest first."""

    def show(self, results: list[Any], names: Sequence[str], solver: str, /, *, whole: bool) -> int:
        """Print what came of it; returns how much is refuted, or is never reached by the whole."""


def smallest(jobs: Sequence[Job], cases: int | None) -> list[Job]:
    """At most `cases` of each kind, from the end; all if None."""
    taken, left = Counter[str](), []
    for each in reversed(jobs):
        taken[each.kind] += 1
        if cases is None or taken[each.kind] <= cases:
            left.append(each)
    return left[::-1]


def run_all(run: Run, jobs: Sequence[Job], solver: str) -> Iterable[tuple[int, Any]]:
    """Each job's number, with what came of it, as they end. Progress is on the error output."""
    began_s = time.monotonic()
    todo = enumerate(jobs)
    for done, found in enumerate(run(partial(_run, solver=solver), todo), 1):
        yield found
        if done % 20 == 0 or done == len(jobs):
            past_s = time.monotonic() - began_s
            print(f"{done} of {len(jobs)} jobs, {past_s:.0f} s", file=sys.stderr)


def _run(numbered: tuple[int, Job], solver: str) -> tuple[int, Any]:
    number, job = numbered
    try:
        return number, job.run(solver)
    except NotDecided as error:
        return number, Failed(f"{job.kind} {job.name}", "not decided", str(error))
    except (Escaped, Diverged) as error:
        return number, Failed(f"{job.kind} {job.name}", "escaped", str(error))


def show_failed(failed: Sequence[Failed]) -> None:
    """Print how many jobs proved nothing, and why."""
    counts = Counter(each.why for each in failed)
    print("\n" + ", ".join(f"{counts[why]} jobs {why}" for why in ("escaped", "not decided")))
    for each in failed:
        print(f"  {each.job}: {each.why}: {each.message[:200]}")
