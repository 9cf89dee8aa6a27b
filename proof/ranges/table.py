"""The ranges' part of the proof: jobs, and what came of them as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial

from attrs import define, field

from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeRefused, Unmet
from proof import table
from proof.jobs import Job
from proof.ranges.inputs import RangesCase, records, requests
from proof.ranges.prove import NAMES, RangesResult, prove_ranges
from proof.smt.solver import smt

REQUESTS, RECORDS = "a ClaimingRange", "an old message"


@define
class Batch:
    """Results of cases that one solver was asked of."""

    kind: str
    results: list[RangesResult] = field(factory=list)


def names() -> Sequence[str]:
    """All that is proved."""
    return NAMES


def _proved(solver: str, kind: str, cases: Sequence[RangesCase], only: frozenset[str]) -> Batch:
    smt_ = smt(solver)
    return Batch(kind, [prove_ranges(each, smt_, names=only) for each in cases])


def jobs(names: Sequence[str]) -> list[Job]:
    """What proves these properties, the longest first. Cases of old messages are short."""
    of_requests = [(REQUESTS, [each]) for each in requests()]
    of_records = [
        (RECORDS, [each for each in records() if (each.message, each.begun) == kind])
        for kind in dict.fromkeys((each.message, each.begun) for each in records())
    ]
    return [
        Job(kind, partial(_proved, kind=kind, cases=of, only=frozenset(names)), str(of[0]))
        for kind, of in (*of_requests, *of_records)
    ]


def show(done: list[Batch], names: Sequence[str], solver: str, *, whole: bool) -> int:
    """Print a table; returns how much is broken, or never reached."""
    results = [each for batch in done for each in batch.results]
    examined = sum((each.examined for each in results), Counter[str]())
    rows = []
    for kind in (REQUESTS, RECORDS):
        of = [each for batch in done if batch.kind == kind for each in batch.results]
        asked, seconds = sum(each.asked for each in of), sum(each.seconds for each in of)
        rows.append(table.Row(f"({kind})", sum(each.paths for each in of), asked, seconds))
    rows += [table.Row(name, examined[name]) for name in names]
    table.show("ranges, any number of them", rows, solver)
    repeated, paths = sum(each.repeated for each in results), sum(each.paths for each in results)
    print(f"{len(results)} cases; {repeated:,} of {paths:,} paths taken again by plain Python")
    broken = {one.property: one for each in reversed(results) for one in each.broken}
    for one in broken.values():
        print("\n" + one.story())
    reached = set[str]().union(*(each.reached for each in results))
    every = {each.value for kind in (RangeAccepted, RangeRefused, Unmet) for each in kind}
    missed = every - reached if whole else set[str]()
    missed |= {name for name in names if not examined[name]}
    if missed:
        print(f"never reached: {', '.join(sorted(missed))}")
    return len(broken) + len(missed)
