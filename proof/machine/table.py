"""The machine's part of the proof: jobs, and what came of them as a table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kafka_marshal.machines.consumer.consumer import Forbidden
from proof import table
from proof.inputs import cases
from proof.jobs import Job
from proof.machine.actions import ACTIONS, READ, START
from proof.machine.inputs import doings, readings
from proof.machine.instance import does, follows, reads, starts, two_act, unites
from proof.machine.invariant import LOG, OWNER, PROMISE, TENURE
from proof.machine.prove import Outcome, Prover, append
from proof.smt.solver import smt
from proof.symbols import Escaped

Task: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]
"""What proves something, and of which case."""

PROPERTIES: Final = (
    "Mutex",
    "ProcessesWhatItWasGranted",
    "GrantsAreUnited",
    "PassedOnce",
    "GrantsAreApart",
    "NoneSkipped",
    "KeepsWhatItReached",
    "ProcessedOnceATenure",
    "ReprocessingBound",
    "ReleaseRepeatsNothing",
)
"""What follows, and the lemmas between. The first two with PassedOnce are AtMostOnce."""
LEMMAS: Final = ("EpochHasOneOwner", "OneStep", "EachPrefixIsOne", "EachPrefixStaysOne")
"""Of any two prefixes of a log, and of one step: what others may do to what is looked at."""
NAMES: Final = (*PROPERTIES, *LEMMAS, *LOG, *TENURE, *OWNER, *PROMISE)
LATE_ONLY: Final = {Forbidden.CLAIM_UNKNOWN.value, Forbidden.POSITION_UNKNOWN.value}
"""Why only a reader that began in the middle is refused."""


def names() -> Sequence[str]:
    """All that is proved."""
    return NAMES


def tasks() -> list[Task]:
    """The long ones first."""
    return [
        *((append, (case,)) for case in sorted(cases(), key=lambda each: -len(each.known))),
        *((does, (case,)) for case in doings()),
        *((reads, (case,)) for case in readings()),
        *((each, ()) for each in (starts, two_act, follows, unites)),
    ]


def jobs(names: Sequence[str]) -> list[Job]:
    """All of them: each property rests on the whole invariant."""
    return [
        Job(each[0].__name__, partial(_job, number=number), str(*each[1]))
        for number, each in enumerate(tasks())
    ]


def _job(solver: str, number: int) -> Outcome:
    return run(tasks()[number], solver)


def run(
    task: Task,
    solver: str = "z3",
    without: frozenset[str] = frozenset(),
    until: frozenset[str] = frozenset(),
) -> Outcome:
    """Do one. Raises Escaped if nothing is left of its case."""
    prove, of = task
    prover = Prover(smt(solver), Outcome(prove.__name__), without, until)
    began_s = time.perf_counter()
    prove(prover, *of)
    prover.outcome.seconds = time.perf_counter() - began_s
    if not prover.outcome.paths.total():
        raise Escaped(f"{prove.__name__} {of}: nothing is left of it under what is assumed")
    return prover.outcome


def show(done: list[Outcome], names: Sequence[str], solver: str, *, whole: bool) -> int:
    """Print a table; returns how much is broken, or never reached."""
    paths = sum((each.paths for each in done), Counter[str]())
    examined = sum((each.examined for each in done), Counter[str]())
    rows = []
    for job in dict.fromkeys(each.job for each in done):
        of = [each for each in done if each.job == job]
        asked, seconds = sum(each.asked for each in of), sum(each.seconds for each in of)
        rows.append(table.Row(f"({job})", sum(each.paths.total() for each in of), asked, seconds))
    rows += [table.Row(name, examined[name]) for name in names]
    table.show("any number of clients", sorted(rows, key=lambda row: row.asked is None), solver)
    repeated = sum(each.repeated for each in done)
    stepped = sum(paths[each] for each in (*ACTIONS, READ))
    reached = set().union(*(each.reached for each in done))
    print(f"{repeated:,} of {stepped:,} paths of the machine taken again by plain Python")
    for action in (*ACTIONS, READ, START):
        print(f"  {action}: {', '.join(sorted(how for what, how in reached if what == action))}")
    broken = {each.property: each for outcome in reversed(done) for each in outcome.broken}
    for one in broken.values():
        print("\n" + one.story())
    missed = {each.value for each in Forbidden} - LATE_ONLY - {how for _, how in reached}
    missed |= {each for each in ACTIONS if (each, "happens") not in reached}
    missed = missed if whole else set()
    missed |= {name for name in names if not examined[name]}
    if missed:
        print(f"never reached: {', '.join(sorted(missed))}")
    return len(broken) + len(missed)
