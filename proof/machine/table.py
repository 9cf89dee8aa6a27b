"""All jobs of the machine's proof, in parallel, and what came of them as a table."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.pool import Pool
from typing import Any, Final, TypeAlias

from kafka_marshal.machines.consumer.consumer import Forbidden
from proof.inputs import cases
from proof.machine.actions import ACTIONS, APPEND, READ, START
from proof.machine.inputs import doings, readings
from proof.machine.instance import does, follows, reads, starts, two_act, unites
from proof.machine.invariant import LOG, OWNER, PROMISE, TENURE
from proof.machine.prove import Outcome, Prover, append
from proof.symbols import smt

Job: TypeAlias = tuple[Callable[..., None], tuple[Any, ...]]

PROPERTIES: Final = (
    "Mutex",
    "ProcessesWhatItWasGranted",
    "GrantsAreUnited",
    "PassedOnce",
    "NoneSkipped",
    "KeepsWhatItReached",
    "ProcessedOnceATenure",
    "ReprocessingBound",
    "ReleaseRepeatsNothing",
)
"""What follows, and the lemmas between. The first two with PassedOnce are AtMostOnce."""
LEMMAS: Final = ("EpochHasOneOwner", "OneStep", "EachPrefixIsOne")
"""Of any two prefixes of a log, and of one step: what others may do to what is looked at."""
NAMES: Final = (*PROPERTIES, *LEMMAS, *LOG, *TENURE, *OWNER, *PROMISE)
LATE_ONLY: Final = {Forbidden.CLAIM_UNKNOWN.value, Forbidden.POSITION_UNKNOWN.value}
"""Why only a reader that began in the middle is refused."""


def jobs() -> list[Job]:
    """The long ones first."""
    return [
        *((append, (case,)) for case in sorted(cases(), key=lambda each: -len(each.known))),
        *((does, (case,)) for case in doings()),
        *((reads, (case,)) for case in readings()),
        *((each, ()) for each in (starts, two_act, follows, unites)),
    ]


def run(
    job: Job,
    solver: str = "z3",
    without: frozenset[str] = frozenset(),
    until: frozenset[str] = frozenset(),
) -> Outcome:
    """Do one job."""
    prove, of = job
    prover = Prover(smt(solver), Outcome(prove.__name__), without, until)
    began_s = time.perf_counter()
    prove(prover, *of)
    prover.outcome.seconds = time.perf_counter() - began_s
    return prover.outcome


def outcomes(pool: Pool, solver: str) -> Iterator[Outcome]:
    """Of every job, with progress on the error output."""
    todo, began_s = jobs(), time.monotonic()
    for number, outcome in enumerate(pool.imap_unordered(partial(run, solver=solver), todo), 1):
        yield outcome
        if number % 10 == 0 or number == len(todo):
            past_s = time.monotonic() - began_s
            print(f"{number} of {len(todo)} jobs of the machine, {past_s:.0f} s", file=sys.stderr)


def show(pool: Pool, solver: str, only: str = "") -> int:
    """Prove all of it, and print a table; returns how much of it is broken or never reached."""
    done = list(outcomes(pool, solver))
    paths = sum((each.paths for each in done), Counter[str]())
    examined = sum((each.examined for each in done), Counter[str]())
    seconds = Counter[str]()
    asked = Counter[str]()
    for each in done:
        seconds[each.job] += each.seconds  # type: ignore[assignment]
        asked[each.job] += each.asked
    print(f"\n{'any number of clients':28} {'paths':>8} {'questions':>10} {'seconds':>8}  solver")
    for name, actions in {
        "append": (APPEND,),
        "does": tuple(ACTIONS),
        "reads": (READ,),
        "starts": (START,),
        "two_act": ("(two act)",),
        "follows": ("(follows)",),
        "unites": ("(union)",),
    }.items():
        count = sum(paths[each] for each in actions)
        print(f"({name:26}) {count:7,} {asked[name]:10,} {seconds[name]:8.1f}  {solver}")
    for name in NAMES:
        if only in name:
            print(f"{name:28} {examined[name]:8,} {'':10} {'':8}  {solver}")
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
    if missed:
        print(f"never reached: {', '.join(sorted(missed))}")
    return len(broken) + len(missed)
