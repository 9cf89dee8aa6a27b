"""Runs of groups by their seeds: what is reported of one, its digest, and a table of many."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from attrs import define, field, frozen
from tools.simulate.faults.fault import Happening
from tools.simulate.groups.checkers import CHECKERS, GroupsJudged, violations
from tools.simulate.groups.faults import FAULTS
from tools.simulate.groups.history import GroupsHistory
from tools.simulate.groups.limits import drawn
from tools.simulate.groups.setting import GroupsSetting
from tools.simulate.groups.world import GroupsWorld
from tools.simulate.runs import of_seeds, with_fewer_faults

SHOWN: Final = 10
"""How many violations of a run are printed."""


@frozen
class GroupsReport:
    """What is kept of one run."""

    seed: int
    setting: GroupsSetting
    plan: tuple[Happening, ...]
    digest: str
    """Changes with any record of the log, its time, and with what was handed to whom."""
    violations: tuple[str, ...]
    simulated_s: float
    cpu_s: float
    events: int
    handed_out: int
    processes: int
    switched: int
    faults: Counter[str]
    answers: Counter[str]
    met: Counter[str]
    """Limits that were met, by what applications heard, and logs have."""
    did: Counter[str]
    """What records of the log did, by the names of the specification."""
    story: tuple[str, ...]
    """Faults, callbacks and ends, in their order."""


def simulate(
    seed: int, setting: GroupsSetting | None = None, plan: tuple[Happening, ...] | None = None
) -> GroupsReport:
    """Run one world of groups, and judge it."""
    began_s = time.process_time()
    random.seed(seed)
    world = GroupsWorld(seed, setting or GroupsSetting(), plan)
    history = world.run()
    judged = GroupsJudged(history)
    wrong = violations(judged)
    return GroupsReport(
        seed,
        world.setting,
        world.plan or (),
        digest(history),
        tuple(wrong),
        history.simulated_s,
        time.process_time() - began_s,
        len(history.events),
        len(history.handed_out),
        history.processes,
        history.switched,
        Counter(name for _, name, _ in history.faults),
        history.answers,
        history.met,
        Counter(one.step.outcome.verdict.value for one in judged.folded),
        tuple(_story(world)),
    )


def digest(history: GroupsHistory) -> str:
    """Of everything that anybody else can see."""
    seen = (
        history.log,
        sorted(history.appended_s.items()),
        history.handed_out,
        history.told,
        history.calls,
    )
    return hashlib.sha256(repr(seen).encode()).hexdigest()


def _story(world: GroupsWorld) -> Iterator[str]:
    history, began_s = world.history, world.began_s
    lines = [(at_s, f"FAULT  {name}: {what}") for at_s, name, what in history.faults]
    lines += [
        (one.at_s - began_s, f"{one.process}  {one.kind} {one.place} {one.tenure}")
        for one in history.told
    ]
    lines += [(at_s - began_s, f"{who}  {what}") for at_s, who, what in history.calls]
    lines += [(at_s - began_s, f"{who}  ended: {what}") for at_s, who, what in history.ended]
    for at_s, line in sorted(lines, key=lambda one: one[0]):
        yield f"{at_s:8.3f}  {line}"


def shrunk(report: GroupsReport, tries: int = 100) -> GroupsReport:
    """The same seed with as few faults as still give a violation by the same checker."""

    def repeat(best: GroupsReport, plan: tuple[Happening, ...], _: bool) -> GroupsReport:
        return simulate(best.seed, best.setting, plan)

    return with_fewer_faults(report, repeat, tries)


@define
class GroupsTotal:
    """The sum of many runs."""

    runs: int = 0
    simulated_s: float = 0.0
    cpu_s: float = 0.0
    events: int = 0
    handed_out: int = 0
    processes: int = 0
    switched: int = 0
    faults: Counter[str] = field(factory=Counter)
    answers: Counter[str] = field(factory=Counter)
    met: Counter[str] = field(factory=Counter)
    did: Counter[str] = field(factory=Counter)
    failed: list[int] = field(factory=list)

    def add(self, report: GroupsReport) -> None:
        """Count one more run."""
        self.runs += 1
        for each in ("simulated_s", "cpu_s", "events", "handed_out", "processes", "switched"):
            setattr(self, each, getattr(self, each) + getattr(report, each))
        for each in ("faults", "answers", "met", "did"):
            getattr(self, each).update(getattr(report, each))
        if report.violations:
            self.failed.append(report.seed)


def table(total: GroupsTotal, took_s: float) -> str:
    """Everything that is known of the runs."""
    seconds = max(total.simulated_s, 1e-9)
    return "\n".join(
        [
            f"{total.runs} runs of groups, {seconds / 3600:.2f} simulated hours in {took_s:.0f} s: "
            f"{seconds / took_s:.0f} x real time, {seconds / total.cpu_s:.0f} x on one core",
            f"{total.processes} processes; in a simulated second {total.events / seconds:.1f} "
            f"events, {total.handed_out / seconds:.1f} messages, "
            f"{total.switched / seconds:.0f} switches",
            "",
            f"{'fault':16}times",
            *(f"{name:16}{total.faults[name]}" for name in FAULTS),
            "",
            f"{'what events did':32}times",
            *(f"{name:32}{times}" for name, times in sorted(total.did.items())),
            "",
            f"{'what was answered':56}times",
            *(f"{name:56}{times}" for name, times in sorted(total.answers.items())),
            "",
            f"{'limits that were met':32}times",
            *(f"{name:32}{times}" for name, times in sorted(total.met.items())),
            "",
            f"checkers: {', '.join(CHECKERS)}",
        ]
    )


def story(report: GroupsReport) -> str:
    """One run, so that somebody can follow it."""
    return "\n".join(
        [
            f"seed {report.seed}, groups, {report.simulated_s:.0f} s, digest {report.digest[:16]}",
            *report.story,
            *(f"WRONG  {each}" for each in report.violations[:SHOWN]),
            *([f"... {len(report.violations)} in all"] if len(report.violations) > SHOWN else []),
        ]
    )


def run_of(seed: int, base: GroupsSetting, given: Collection[str] = ()) -> GroupsReport:
    """The run of a seed, in the world that it has: every second one has limits that are near."""
    return simulate(seed, drawn(seed, base, given) if seed % 2 else base)


def many(
    first: int, hours: float, jobs: int, base: GroupsSetting, given: Collection[str] = ()
) -> Iterator[GroupsReport]:
    """Runs from this seed on, until this many hours are simulated; `given` numbers stay."""
    run = partial(run_of, base=base, given=given)
    return of_seeds(run, first, hours, jobs, base.simulated_s)
