"""Late readers as a part of the proof: jobs, tables, and what each part of the relation is for.

This room proves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from kafka_marshal import (
    Accepted,
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
)
from proof import table
from proof.jobs import Job
from proof.late.consequences import PROVED
from proof.late.inputs import Knows, LateCase, late_cases
from proof.late.lemmas import LemmaResult, lemmas, prove_lemma
from proof.late.promise import HONEST, PROMISE
from proof.late.prove import OF_THE_LOG, LateResult, prove_late
from proof.late.relation import EXACT, RELATION
from proof.reducer import NEVER
from proof.smt.solver import smt

SMALLEST_FIRST: Final = (
    ReleaseGroup,
    ClaimingMessages,
    Heartbeat,
    ClaimingPartition,
    ReleasingPartition,
)
"""Where what is left out is looked for."""
ALL: Final = "SuffixExact"
PARTS: Final = (*RELATION, *PROMISE, *HONEST, OF_THE_LOG)
"""What is assumed: each is needed, or is the property itself."""


def names() -> Sequence[str]:
    """All that is proved; `SuffixExact` is all that is exact."""
    return (ALL, *PROVED)


def chosen(only: Sequence[str]) -> list[str]:
    """The properties that these names stand for."""
    return [name for name in PROVED if name in only or (ALL in only and name in EXACT)]


def _late(solver: str, case: LateCase, names: Sequence[str]) -> LateResult:
    return prove_late(case, smt(solver), names=names)


def _lemma(solver: str, name: str, knows: Knows) -> LemmaResult:
    return prove_lemma(name, knows, smt(solver))


def jobs(only: Sequence[str]) -> list[Job]:
    """What proves these properties, the longest first."""
    late = [
        Job(
            "late reader",
            partial(_late, case=case, names=chosen(only)),
            f"{case.message.__name__}, {case.knows.value}",
        )
        for case in late_cases()
    ]
    return late + [
        Job(name, partial(_lemma, name=name, knows=knows), knows.value) for name, knows in lemmas()
    ]


def show(
    results: list[LateResult | LemmaResult], only: Sequence[str], solver: str, *, whole: bool
) -> int:
    """Print a row for each case; returns how much is refuted or never reached."""
    late = [each for each in results if isinstance(each, LateResult)]
    rests = [each for each in results if isinstance(each, LemmaResult)]
    rows = [
        table.Row(
            f"{each.case.message.__name__}, {each.case.knows.value}",
            *(each.paths, each.questions, each.seconds),
        )
        for each in sorted(late, key=lambda each: -each.paths)
    ]
    rows += [table.Row(each.name, each.paths, None, each.seconds) for each in rests]
    table.show(f"{ALL} of a reader of", rows, solver)
    paths, repeated = sum(each.paths for each in late), sum(each.repeated for each in late)
    reached = {name for each in late for name in each.reached}
    print(
        f"{len(chosen(only))} properties of {len(late)} cases; "
        f"{repeated:,} of {paths:,} paths taken again by plain Python; "
        f"{len(reached)} verdicts of a reader"
    )
    stories = {one.property: one.story() for each in late for one in each.refuted}
    stories |= {rest.name: story for rest in rests for story in rest.refuted[:1]}
    for story in stories.values():
        print("\n" + story)
    missed = {each.value for each in (*Accepted, *Refused)} | {"unknown"}
    missed = missed - NEVER - reached if whole else set()
    if missed:
        print(f"no reader ends in {', '.join(sorted(missed))}")
    idle = {each.name for each in rests} if whole else set()
    idle -= {each.name for each in rests if each.reached}
    idle |= set() if paths else set(chosen(only))
    if idle:
        print(f"never reached: {', '.join(sorted(idle))}")
    return len(stories) + len(missed) + len(idle)


def fails_without(name: str, solver: str = "z3") -> tuple[str, str]:
    """What is refuted where this part is not assumed; nothing if all else holds."""
    left = [each for each in PROVED if each != name]
    for case in sorted(late_cases(), key=lambda each: SMALLEST_FIRST.index(each.message)):
        result = prove_late(case, smt(solver), names=left, without=(name,), until_refuted=True)
        if result.refuted:
            return name, f"{result.refuted[0].property} after a {case.message.__name__}"
    return name, ""
