"""Walks over mutants: that each is noticed, and by which property.

A search of this room has the troubles that the property is about in every walk, so that it is short
enough to be repeated. `found.py` keeps what each search found; whoever changes the machines or the
walks runs `make walks ARGS=--mutants` and reviews it as a diff.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafka_marshal.core.invariants import Property
from model_tests.mutants.hand_made import HandMade, Killer
from model_tests.walks.machine import Trouble
from model_tests.walks.properties import Broken
from model_tests.walks.search import search

WALKS_MAX: Final = 3_000
"""A mutant that as many walks do not notice is not noticed."""

FOUND: Final = Path(__file__).parent / "found.py"

_LATE: Final = (Trouble.LATE, Trouble.PAUSE, Trouble.STEP_BACK, Trouble.DISORDER)
TROUBLES: Final[Mapping[Property, tuple[Trouble, ...]]] = {
    Property.SUFFIX_EXACT: _LATE,
    Property.SUFFIX_LOWER_BOUND: _LATE,
}
"""What every walk of a search has to have; nothing for the others."""


def noticed(mutant: HandMade, prop: Property) -> tuple[Broken | None, int]:
    """Whether walks notice the mutant by this property, and after how many."""
    with mutant.made():
        return search(WALKS_MAX, only=frozenset({prop}), sure=TROUBLES.get(prop, ()), shrink=False)


def broken_under(mutant: HandMade) -> set[Property]:
    """The properties by which walks must notice the mutant, and do."""
    return {prop for prop in mutant.killers(Killer.WALK) if noticed(mutant, prop)[0] is not None}
