"""Looking for a walk that breaks a promise: how many, how long, and by which chance.

Hypothesis walks and shrinks; what it found is then shortened move by move. The same seed is the
same search; without one Hypothesis derandomizes, and every run is the same. This room does not know
what is looked for.
"""

from __future__ import annotations

import hypothesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kafka_marshal.core.claims.invariants import Property
from model_tests.walks.machine import Trouble, Walk
from model_tests.walks.properties import WALKED, Broken
from model_tests.walks.telling import shortened

STEPS = 50
"""Rules that fire in one walk; some are several moves."""


def search(
    walks: int,
    only: frozenset[Property] = WALKED,
    guards: bool = False,
    seed: int | None = None,
    steps: int = STEPS,
    sure: tuple[Trouble, ...] = (),
    shrink: bool = True,
    reached: set[str] | None = None,
) -> tuple[Broken | None, int]:
    """Walk until something is broken or there were enough walks; what, and how many it took.

    Without `shrink` only the shortening of `telling` is left, which is quick and good enough. What
    Hypothesis has to say of how to replay it (`@reproduce_failure`) is in the exception's
    notes.
    """

    class Search(Walk):
        def teardown(self) -> None:
            if reached is not None and hasattr(self, "simulation"):
                reached.update(self.simulation.reached())

    Search.only, Search.guards, Search.sure = only, guards, sure
    if seed is not None:
        hypothesis.seed(seed)(Search)
    how = settings(
        max_examples=walks,
        stateful_step_count=steps,
        derandomize=seed is None,
        database=None,
        deadline=None,
        print_blob=True,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(Search, settings=how)
    except Broken as problem:
        less = shortened(problem, only, guards)
        if less is not problem:
            for note in getattr(problem, "__notes__", ()):
                less.add_note(note)
        return less, Search.broken_at or Search.taken
    return None, Search.taken
