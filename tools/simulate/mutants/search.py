"""How soon simulated runs find a mutant of the client. It does not know which mutants there are.

Each run is a process of its own, so that a mutant that hangs, or takes all memory, ends one run.
"""

from __future__ import annotations

import resource
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import frozen
from model_tests.mutants.children import in_child, limited
from tools.simulate.groups import runs as groups
from tools.simulate.groups.runs import GroupsReport
from tools.simulate.mutants.worlds import GROUPS, GROUPS_WORLDS, groups_setting, setting
from tools.simulate.runs import Report, simulate

HANGS_S = 90.0
"""A run that takes that much CPU time hangs; most take a second."""


@frozen
class Search:
    """What came of one mutant."""

    mutant: str
    where: str
    runs: int
    simulated_s: float
    cpu_s: float
    found: str
    """What was wrong; nothing, if nothing was."""
    world: str = ""
    """The world that was run; nothing, where all were in turn."""


@frozen
class Run:
    """What came of one run."""

    simulated_s: float
    cpu_s: float
    found: str


def simulated_in(world: str, seed: int) -> Report | GroupsReport:
    """What comes of a seed in this world."""
    if world in (GROUPS, *GROUPS_WORLDS):
        return groups.simulate(seed, groups_setting(seed, world))
    return simulate(seed, setting(seed, world))


def run(seed: int, put_in: Callable[[pytest.MonkeyPatch], None], world: str = "") -> Run:
    """One run with a mutant. An error that escapes from it is found, and so is a run that hangs.

    Raises:
        LookupError: the mutant cannot be put in.
    """

    def simulated() -> Run | str:
        limited(HANGS_S)
        with pytest.MonkeyPatch.context() as patch:
            try:
                put_in(patch)
            except Exception as error:
                return f"it cannot be put in: {type(error).__name__}: {error}"
            try:
                report = simulated_in(world, seed)
            except BaseException as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{Path(at.filename).name}: {at.name}"
                return Run(0.0, 0.0, f"error: {type(error).__name__}: {error} ({where})")
        return Run(report.simulated_s, report.cpu_s, "".join(report.violations[:1]))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        ran: Run | str = in_child(simulated)
    except (RuntimeError, EOFError):
        cpu_s = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before.ru_utime
        return Run(
            0.0, cpu_s, f"hangs: the process of the run ended after {cpu_s:.0f} s of CPU time"
        )
    if isinstance(ran, str):
        raise LookupError(ran)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Run(ran.simulated_s, after.ru_utime - before.ru_utime, ran.found)


def searched(
    mutant: str,
    where: str,
    put_in: Callable[[pytest.MonkeyPatch], None],
    first: int,
    longest_s: float,
    world: str = "",
) -> Search:
    """Run seeds from the first on until something is wrong, or `longest_s` of CPU time is over."""
    began_s, seed, simulated_s, cpu_s, found = time.monotonic(), first, 0.0, 0.0, ""
    while not found and cpu_s < longest_s and time.monotonic() - began_s < 20 * longest_s:
        ran = run(seed, put_in, world)
        simulated_s, cpu_s, found = simulated_s + ran.simulated_s, cpu_s + ran.cpu_s, ran.found
        seed += 1
    return Search(mutant, where, seed - first, round(simulated_s), round(cpu_s, 1), found, world)
