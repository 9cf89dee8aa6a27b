"""Mistakes of the client that were made once, put back one at a time: how soon a run finds each.

    python -m tools.simulate.mistakes                 the table of all
    python -m tools.simulate.mistakes --only pause    those with this in their names

Each is a patch that tests/client/fleet/test_mutants.py keeps beside a story that notices it. Exit
code 1: nothing was found, and nobody has explained why.
"""

from __future__ import annotations

import argparse
import inspect
import multiprocessing
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import pytest
from attrs import frozen
from tests.client.fleet import test_mutants
from tools.simulate.runs import settings, simulate
from tools.simulate.setting import SMALL

EXPLAINED: Final[dict[str, str]] = {}
"""Why a mistake breaks no promise that a checker knows."""


@frozen
class Search:
    """What came of one mistake."""

    mistake: str
    runs: int
    seconds: float
    found: str
    """What was wrong; nothing, if nothing was."""


def mistakes() -> dict[str, Callable[[pytest.MonkeyPatch], None]]:
    """All of them, by their names."""
    found = inspect.getmembers(test_mutants, inspect.isfunction)
    return {
        name: each
        for name, each in found
        if [*inspect.signature(each).parameters] == ["patch"]
        and each.__module__ == test_mutants.__name__
    }


def searched(name: str, runs: int) -> Search:
    """Run with this mistake until something is wrong."""
    began_s, found, number = time.monotonic(), "", 0
    with pytest.MonkeyPatch.context() as patch:
        mistakes()[name](patch)
        for number in range(runs):
            report = simulate(number, settings(number, SMALL))
            if report.violations:
                found = report.violations[0]
                break
    return Search(name, number + 1, time.monotonic() - began_s, found)


def main(arguments: list[str] | None = None) -> int:
    """Search; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.simulate.mistakes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="mistakes with this in their names")
    parser.add_argument("--runs", type=int, default=200, help="after how many to give up")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    asked = parser.parse_args(arguments)
    names = [name for name in mistakes() if asked.only in name]
    print(f"{'mistake':40} {'runs':>5} {'seconds':>8}  what is wrong")
    missed = False
    with multiprocessing.get_context("fork").Pool(asked.jobs, maxtasksperchild=1) as pool:
        for one in pool.imap_unordered(partial(searched, runs=asked.runs), names):
            missed |= not one.found and one.mistake not in EXPLAINED
            wrong = one.found or f"nothing: {EXPLAINED.get(one.mistake, 'nobody knows why')}"
            print(f"{one.mistake:40} {one.runs:5} {one.seconds:8.1f}  {wrong[:120]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
