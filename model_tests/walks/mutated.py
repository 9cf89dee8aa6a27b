"""Walks over mutants: that each is noticed, and by which property.

A search of this room has the troubles that the property is about in every walk, so that it is short
enough to be repeated. `found.json` keeps what each search found, for tests that take no time. After
a change of the machines or the walks run `make walks ARGS=--mutants`, which writes it anew.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
from tests.triples import MESSAGES, given

from kafka_marshal import Headers
from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.machines.consumer.effects import Send
from model_tests.mutants import reducer, walked
from model_tests.mutants.hand_made import HandMade, Killer
from model_tests.walks.machine import Trouble
from model_tests.walks.moves import Move, Setting
from model_tests.walks.properties import Broken
from model_tests.walks.search import search

PATH: Final = Path(__file__).with_name("found.json")

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
    """A walk that a search found."""

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


# --- the file -------------------------------------------------------------------------------------


def written(found: Iterable[Found]) -> str:
    """The text of `found.json`: what has its default value is left out, and each move is a line."""
    return "[\n" + ",\n".join(map(_written, found)) + "\n]\n"


def _written(found: Found) -> str:
    head = {
        "mutant": found.mutant,
        "breaks": found.breaks.value,
        "walks": found.walks,
        "setting": given(found.setting),
    }
    moves = ",\n".join(f"  {json.dumps(_move_given(move))}" for move in found.moves)
    return f'{json.dumps(head)[:-1]}, "moves": [\n{moves}\n]}}'


def _move_given(move: Move) -> dict[str, Any]:
    row = given(move, ("sent",))
    if move.sent is not None:
        message, headers = move.sent.message, move.sent.headers
        kind = type(message).__name__
        row["sent"] = {"type": kind, "message": given(message), "headers": given(headers)}
    return row


@functools.cache
def read(path: Path = PATH) -> tuple[Found, ...]:
    """Every walk in the file."""
    return tuple(map(_read, json.loads(path.read_text(encoding="utf-8"))))


def _read(row: dict[str, Any]) -> Found:
    setting: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in row["setting"].items()
    }
    moves = tuple(map(_move_read, row["moves"]))
    return Found(row["mutant"], Property(row["breaks"]), row["walks"], Setting(**setting), moves)


def _move_read(row: dict[str, Any]) -> Move:
    if "sent" not in row:
        return Move(**row)
    sent = row["sent"]
    message = MESSAGES[sent["type"]](**sent["message"])
    return Move(**{**row, "sent": Send(message, Headers(**sent["headers"]))})
