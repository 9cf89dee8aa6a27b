"""Walks over mutants: that each is noticed, and by which property.

A search of this room has the troubles that the property is about in every walk, so that it is short
enough to be repeated. `found.py` keeps what each search found, for tests that take no time. After a
change of the machines or the walks run `make walks ARGS=--mutants`, which writes it anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import attrs

from kafka_marshal.core.claims.invariants import Property
from model_tests.mutants import reducer, walked
from model_tests.mutants.hand_made import HandMade, Killer
from model_tests.walks.machine import Trouble
from model_tests.walks.moves import Move, Setting
from model_tests.walks.properties import Broken
from model_tests.walks.search import search
from model_tests.walks.strangers import TYPES

WALKS_MAX: Final = 3_000
"""A mutant that as many walks do not notice is not noticed."""

SEED: Final = 1
"""So that a search finds the same again, as long as what is drawn stays the same."""

_LATE: Final = (Trouble.LATE, Trouble.PAUSE, Trouble.STEP_BACK, Trouble.DISORDER)
TROUBLES: Final[Mapping[Property, tuple[Trouble, ...]]] = {
    Property.SUFFIX_EXACT: _LATE,
    Property.SUFFIX_LOWER_BOUND: _LATE,
    Property.SET_POSITION_STICKS: (Trouble.PAUSE, Trouble.DISORDER),
    Property.PAUSE_HOLDS: (Trouble.PAUSE,),
    Property.HEADERS_OUTRANK: (Trouble.STRANGER,),
}
"""What every walk of a search has to have; nothing for the others."""

OF_THE_REDUCER: Final[Mapping[str, tuple[Property, ...]]] = {
    "NoSuperseded": (Property.FENCED,),
    "NoMaximum": (Property.MONOTONE_POSITION,),
    "WinKeepsEpoch": (Property.MONOTONE_EPOCH,),
    "WinMoves": (Property.WIN_KEEPS_POSITION,),
    "PauseIgnored": (Property.PAUSE_HOLDS,),
    "RefusedRefreshes": (Property.REFUSED_CHANGES_NOTHING,),
    "NobodyRefused": (Property.SET_POSITION_STICKS, Property.RELEASED_BY_WINNER),
    "StaleAtTwiceTheInterval": (Property.FRESH_OWNER_KEPT,),
    "AnyRestart": (Property.HEADERS_OUTRANK,),
}
"""Mutants of the reducer that single steps show, by what walks notice them too: so that every
property of a walk has been seen to fail. (PredecessorStaysOut took more than 5,000 walks; a test
has that one typed by hand.)"""


@attrs.frozen
class Found:
    """A walk that a search found, as Python that can be read again."""

    mutant: str
    breaks: Property
    walks: int
    """How many walks it took."""
    setting: Setting
    moves: tuple[Move, ...]


def mutants() -> Iterator[tuple[HandMade, Property]]:
    """Every mutant that walks must notice, and each property by which they must."""
    for mutant in walked.MUTANTS:
        for prop in mutant.killers(Killer.WALK):
            yield mutant, prop
    for mutant in reducer.MUTANTS:
        for prop in OF_THE_REDUCER.get(mutant.name, ()):
            yield mutant, prop


def noticed(mutant: HandMade, prop: Property) -> tuple[Broken | None, int]:
    """Whether walks notice the mutant by this property, and after how many."""
    with mutant.made():
        return search(WALKS_MAX, only=frozenset({prop}), sure=TROUBLES.get(prop, ()), shrink=False)


def broken_under(mutant: HandMade) -> set[Property]:
    """The properties by which walks must notice the mutant, and do."""
    return {prop for prop in mutant.killers(Killer.WALK) if noticed(mutant, prop)[0] is not None}


def written(found: Iterable[Found]) -> str:
    """The text of `found.py`."""
    lines = [
        '"""Walks that show mutants, as `make walks ARGS=--mutants` found and wrote them."""',
        "",
        "from kafka_marshal.machines.consumer.effects import Send",
        "from kafka_marshal.core.claims.invariants import Property",
        "from kafka_marshal.core.messages import (",
        *(
            f"    {name},"
            for name in sorted(
                ("Headers", "Offset", "Partition", *(kind.__name__ for kind in TYPES))
            )
        ),
        ")",
        "from model_tests.walks.moves import Move, Setting",
        "from model_tests.walks.mutated import Found",
        "",
        "FOUND: tuple[Found, ...] = (",
    ]
    for each in found:
        lines += [
            "    Found(",
            f"        {each.mutant!r},",
            f"        Property.{each.breaks.name},",
            f"        {each.walks},",
            f"        {each.setting!r},",
            "        (",
            *(f"            {move!r}," for move in each.moves),
            "        ),",
            "    ),",
        ]
    return "\n".join([*lines, ")", ""])
