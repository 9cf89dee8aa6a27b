"""Prints what is proved of late readers, what each part of the relation is for, and mistakes.

`python -m proof` calls it. This room proves nothing.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing.pool import Pool
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
from proof.late import mutants
from proof.late.consequences import PROVED
from proof.late.inputs import LateCase, late_cases
from proof.late.lemmas import LemmaResult, lemmas, prove_lemma
from proof.late.promise import HONEST, PROMISE
from proof.late.prove import OF_THE_LOG, LateResult, prove_late
from proof.late.relation import EXACT, RELATION
from proof.symbols import smt

NEVER: Final = {Accepted.OVERWRITTEN.value, Accepted.IGNORED.value}
"""Verdicts of the original's rules."""
SMALLEST_FIRST: Final = (
    ReleaseGroup,
    ClaimingMessages,
    Heartbeat,
    ClaimingPartition,
    ReleasingPartition,
)
"""Where what is left out is looked for."""
ALL: Final = "SuffixExact"


def chosen(only: str) -> list[str]:
    """What has this in its name; `SuffixExact` has all that is exact."""
    return [name for name in PROVED if only in name or (only == ALL and name in EXACT)]


def _proved(case: LateCase | str, solver: str, names: Sequence[str]) -> LateResult | LemmaResult:
    if isinstance(case, LateCase):
        return prove_late(case, smt(solver), names=names)
    name, _, knows = case.partition(" ")
    by_name = {each.name: each for _, each in lemmas()}
    return prove_lemma(name, by_name[knows], smt(solver))


def show(pool: Pool, solver: str, only: str) -> int:
    """Prove, and print a row for each case; returns the exit code."""
    names = chosen(only)
    if not names:
        return 0
    jobs: list[LateCase | str] = list(late_cases())
    jobs += [f"{name} {knows.name}" for name, knows in lemmas()]
    began_s, results = time.monotonic(), []
    job = partial(_proved, solver=solver, names=names)
    for result in pool.imap_unordered(job, jobs):
        results.append(result)
        past_s = time.monotonic() - began_s
        print(f"{len(results)} of {len(jobs)} late readers, {past_s:.0f} s", file=sys.stderr)
    late = [each for each in results if isinstance(each, LateResult)]
    rests = [each for each in results if isinstance(each, LemmaResult)]
    print(f"\n{ALL + ' of a reader of':28} {'paths':>8} {'questions':>10} {'seconds':>8}  solver")
    for each in sorted(late, key=lambda each: -each.paths):
        name = f"{each.case.message.__name__}, {each.case.knows.value}"
        print(f"{name:34} {each.paths:6,} {each.questions:6,} {each.seconds:8.1f}  {solver}")
    for rest in rests:
        print(f"{rest.name:34} {rest.paths:6,} {'':6} {rest.seconds:8.1f}  {solver}")
    paths, repeated = sum(each.paths for each in late), sum(each.repeated for each in late)
    reached = {name for each in late for name in each.reached}
    print(
        f"{len(names)} properties of {len(late)} cases; "
        f"{repeated:,} of {paths:,} paths taken again by plain Python; "
        f"{len(reached)} verdicts of a reader, {time.monotonic() - began_s:.0f} s"
    )
    first = {one.property: one for each in late for one in each.refuted}
    for one in first.values():
        print("\n" + one.story())
    for story in (story for rest in rests for story in rest.refuted[:1]):
        print("\n" + story)
    missed = {each.value for each in (*Accepted, *Refused)} | {"unknown"}
    missed -= NEVER | reached
    if missed:
        print(f"no reader ends in {', '.join(sorted(missed))}")
    return 1 if first or missed or any(rest.refuted for rest in rests) else 0


def show_mutants(pool: Pool, only: str) -> int:
    """Refute every mistake, and print three stories; returns the exit code."""
    names = [each.name for each in mutants.MISTAKES if only in each.name]
    survived, stories = [], 0
    for name, breaks, story in pool.imap_unordered(mutants.judge, names):
        print(f"{name:100}  {breaks or 'survives'}", flush=True)
        survived += [] if breaks else [name]
        stories += bool(story)
        if story and stories <= 3:
            print(story)
    print(f"{len(names) - len(survived)} of {len(names)} mistakes of late readers refuted")
    return 1 if survived else 0


def fails_without(name: str, solver: str = "z3") -> tuple[str, str]:
    """What is refuted where this part is not assumed; nothing if all else holds."""
    names = [each for each in PROVED if each != name]
    for case in sorted(late_cases(), key=lambda each: SMALLEST_FIRST.index(each.message)):
        result = prove_late(case, smt(solver), names=names, without=(name,), until_refuted=True)
        if result.refuted:
            return name, f"{result.refuted[0].property} after a {case.message.__name__}"
    return name, ""


def show_needed(pool: Pool, only: str) -> int:
    """Leave out each part of the relation, the promise and the hypotheses, and print what fails."""
    parts = [each for each in (*RELATION, *PROMISE, *HONEST, OF_THE_LOG) if only in each]
    idle = []
    for name, fails in pool.imap_unordered(fails_without, parts):
        print(f"without {name:28} {fails or 'nothing else fails'}", flush=True)
        idle += [] if fails or name in EXACT else [name]
    print(f"{len(parts) - len(idle)} of {len(parts)} parts are needed, or are the property itself")
    return 1 if idle else 0
