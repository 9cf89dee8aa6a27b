"""Runs the shipped consumers in a simulated world, by seeds, and says what went wrong.

    python -m tools.simulate --hours 10              ten simulated hours, in two processes
    python -m tools.simulate --share                 processes share a topic by ranges
    python -m tools.simulate --groups                controllers of groups, and their members
    python -m tools.simulate --one 4711              one run again, with its story
    python -m tools.simulate --one 4711 --shrink     the same with as few faults as it takes

Exit code 1: a run broke a promise; its seed is printed.
"""

from __future__ import annotations

import argparse
import gc
import os
import secrets
import sys
import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

import attrs
from tools.simulate.checkers import CHECKERS
from tools.simulate.faults import FAULTS
from tools.simulate.groups import runs as groups
from tools.simulate.groups.setting import GroupsSetting
from tools.simulate.runs import Report, Total, of_seeds, run_of, shrunk
from tools.simulate.setting import SHARED, Setting

NUMBERS: Final = (
    "simulated_s",
    "fault_every_s",
    "heartbeat_interval_s",
    "messages_per_s",
    "clients",
    "partitions",
)
"""Options of a world; by default it is the reference world."""

OF_GROUPS: Final = (
    "simulated_s",
    "fault_every_s",
    "messages_per_s",
    "partitions",
    "controllers",
    "members",
    "session_timeout_s",
)
"""Options of a world of groups, with `--groups`."""

SHARING: Final = ("topics", "shared", "faults", "window")
"""What is different in a world in which processes share."""


def many(first: int, hours: float, jobs: int, base: Setting) -> Iterator[Report]:
    """Runs from this seed on, until this many hours are simulated."""
    gc.collect()
    gc.freeze()  # what is there now stays, so no run has to look through it
    return of_seeds(partial(run_of, base=base), first, hours, jobs, base.simulated_s)


def table(total: Total, took_s: float) -> str:
    """Everything that is known of the runs."""
    hours, seconds = total.simulated_s / 3600, max(total.simulated_s, 1e-9)
    rows = [
        f"{total.runs} runs, {hours:.2f} simulated hours in {took_s:.0f} s: "
        f"{total.simulated_s / took_s:.0f} x real time, "
        f"{total.simulated_s / total.cpu_s:.0f} x on one core",
        f"{total.processes} processes; in a simulated second {total.records / seconds:.1f} "
        f"records of the log, {total.given / seconds:.1f} messages, "
        f"{total.switched / seconds:.0f} switches",
        "",
        f"{'fault':16}times",
        *(f"{name:16}{total.faults[name]}" for name in FAULTS),
        "",
        f"{'way':16}times",
        *(f"{name:16}{count}" for name, count in sorted(total.ways.items())),
        "",
        f"{'what records did':32}times",
        *(f"{name:32}{count}" for name, count in sorted(total.verdicts.items())),
        "",
        f"pairs of faults within two intervals: {len(total.overlaps)}",
        f"checkers: {', '.join(CHECKERS)}",
    ]
    return "\n".join(rows)


def story(report: Report) -> str:
    """One run, so that somebody can follow it."""
    return "\n".join(
        [
            f"seed {report.seed}, {report.setting.semantics}, {report.simulated_s:.0f} s, digest "
            f"{report.digest[:16]}",
            *report.story,
            *(f"WRONG  {each}" for each in report.violations[:10]),
            *([f"... {len(report.violations)} in all"] if len(report.violations) > 10 else []),
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    """Simulate; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.simulate", description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="simulated hours, in all")
    parser.add_argument("--seed", type=int, help="the first seed; a random one by default")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--one", type=int, metavar="SEED", help="run this seed alone")
    parser.add_argument("--shrink", action="store_true", help="of `--one`: with fewer faults")
    parser.add_argument("--share", action="store_true", help="processes share a topic by ranges")
    parser.add_argument("--groups", action="store_true", help="groups with controllers")
    defaults = attrs.asdict(GroupsSetting()) | attrs.asdict(Setting(), recurse=False)
    for name in dict.fromkeys(NUMBERS + OF_GROUPS):
        number = type(defaults[name])
        parser.add_argument(f"--{name.replace('_', '-')}", type=number, help=f"{defaults[name]:g}")
    asked = parser.parse_args(arguments)
    given = {name: one for name in NUMBERS + OF_GROUPS if (one := getattr(asked, name)) is not None}
    for name in given.keys() - set(OF_GROUPS if asked.groups else NUMBERS):
        where = "without" if asked.groups else "with"
        parser.error(f"--{name.replace('_', '-')} goes {where} --groups")
    if asked.groups:
        return _groups(asked, GroupsSetting(**given), given)
    base = Setting(**given)
    if asked.share:
        base = attrs.evolve(base, **{each: getattr(SHARED, each) for each in SHARING})
    if asked.one is not None:
        report = run_of(asked.one, base)
        if asked.shrink and report.violations:
            report = shrunk(report)
        print(story(report))
        return 1 if report.violations else 0
    first = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    print(f"from seed {first} on")
    total, began_s = Total(), time.monotonic()
    for report in many(first, asked.hours, asked.jobs, base):
        total.add(report)
        if report.violations:
            print(story(report), flush=True)
    print(table(total, time.monotonic() - began_s))
    return _outcome([one.seed for one in total.failed])


def _groups(asked: argparse.Namespace, base: GroupsSetting, given: Collection[str]) -> int:
    """The same for groups."""
    if asked.one is not None:
        report = groups.run_of(asked.one, base, given)
        if asked.shrink and report.violations:
            report = groups.shrunk(report)
        print(groups.story(report))
        return 1 if report.violations else 0
    first = secrets.randbelow(10**9) if asked.seed is None else asked.seed
    print(f"from seed {first} on")
    total, began_s = groups.GroupsTotal(), time.monotonic()
    for report in groups.many(first, asked.hours, asked.jobs, base, given):
        total.add(report)
        if report.violations:
            print(groups.story(report), flush=True)
    print(groups.table(total, time.monotonic() - began_s))
    return _outcome(total.failed)


def _outcome(failed: list[int]) -> int:
    if failed:
        print(f"{len(failed)} runs broke a promise: seeds {', '.join(map(str, failed))}")
        return 1
    print("nothing broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
