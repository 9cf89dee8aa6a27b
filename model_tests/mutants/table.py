"""The table of mutants: where each is, what it does, what kills it.

This room runs the killers of hand-made mutants and lays out rows. How mutants are made, and how a
killer judges, is in the other rooms. A new registry is a line in `HAND_MADE`, a new killer one in
`KILLERS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
from tests import machine_samples as machines
from tests import triples

from kafka_marshal.core.claims.invariants import Property
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import ModelKind
from model_tests.mutants import judges, recorded, reducer, walked
from model_tests.mutants.generated import Mutant, Survivor, in_words, unexplained
from model_tests.mutants.hand_made import HandMade, Killer
from model_tests.walks import mutated

SCORE_MIN = 0.95
"""Of the mutants that are generated of a room, as many must be killed."""

HAND_MADE: dict[str, tuple[HandMade, ...]] = {
    "reducer": reducer.MUTANTS,
    "machines": (*walked.MUTANTS, *walked.HARMLESS),
}
"""Every registry, by the word in the first column."""

KILLERS: dict[Killer, Callable[[HandMade], set[Property]]] = {
    Killer.STEP: lambda mutant: judges.broken_under(mutant, triples.read()),
    Killer.WALK: mutated.broken_under,
    Killer.VALIDATOR: recorded.broken_under,
}
"""What each killer says that a mutant breaks."""


@attrs.frozen
class Row:
    """One line of the table."""

    where: str
    mutant: str
    about: str
    killed_by: str


def of_the_specification() -> list[Row]:
    """The models in which a rule is left out; `make spec` runs them."""
    return [
        Row("specification", model.name, model.about.rstrip("."), f"{model.violates} (TLC)")
        for model in models.read()
        if model.kind is ModelKind.BROKEN
    ]


def of_hand_made(where: str, mutants: Iterable[HandMade]) -> tuple[list[Row], list[str]]:
    """A row a mutant, and a sentence about each that a property should have noticed.

    Where no property forbids a mistake, the row says so: it differs from the right ones in the
    answers that TLC exported, and in nothing else here.
    """
    rows: list[Row] = []
    wrong: list[str] = []
    for mutant in mutants:
        by = [
            f"{prop.value} ({killer.value})"
            for killer in Killer
            for prop in _named(mutant, killer, wrong)
        ]
        if where == "reducer" and judges.disagrees(mutant, triples.read()):
            by.append("Step (triples)")
        if where == "machines":
            rows_of = sorted(judges.differs(mutant, machines.read()))
            by += [f"{name} (TLC's rows)" for name in rows_of]
        if by and not mutant.killed_by:
            by.insert(0, "no property")
        if not by:
            wrong.append(f"{mutant.name}: nothing kills it")
        rows.append(Row(where, mutant.name, mutant.about, ", ".join(by) or "NOTHING"))
    return rows, wrong


def _named(mutant: HandMade, killer: Killer, wrong: list[str]) -> list[Property]:
    """The properties by which a killer must notice, and does; of others a sentence in `wrong`."""
    must = mutant.killers(killer)
    if not must:
        return []
    broken = KILLERS[killer](mutant)
    wrong += [f"{mutant.name}: {prop.value} does not notice" for prop in must if prop not in broken]
    return [prop for prop in must if prop in broken]


def of_generated(
    mutants: Sequence[Mutant], listed: Sequence[Survivor]
) -> tuple[list[str], list[str]]:
    """Lines about generated mutants, by module and by room, and a sentence about each fault."""
    wrong = unexplained(mutants, listed)
    lines = [f"{'':24}{'mutants':>8}{'killed':>8}{'equivalent':>12}{'score':>8}{'seconds':>9}"]
    modules = sorted({mutant.change.module for mutant in mutants})
    rooms = sorted({mutant.change.room for mutant in mutants})
    for name in [*modules, *rooms]:
        made = [mutant for mutant in mutants if mutant.change.is_in(name)]
        killed = sum(mutant.killed for mutant in made)
        same = sum(survivor.change.is_in(name) for survivor in listed)
        score = killed / len(made)
        seconds = sum(mutant.seconds for mutant in made)
        lines.append(f"{name:24}{len(made):8}{killed:8}{same:12}{score:8.1%}{seconds:9.0f}")
        if name in rooms and score < SCORE_MIN:
            wrong.append(f"{name}: {score:.1%} of the generated are killed, not {SCORE_MIN:.0%}")
    lines += ["", "Equivalent, so nothing can kill them:"]
    lines += [f"  {in_words(each.change)}\n      {each.equivalent}" for each in listed]
    return lines, wrong


def laid_out(rows: Sequence[Row]) -> list[str]:
    """The rows under their heads, each column as wide as it must be."""
    heads = Row("where", "mutant", "what is wrong", "killed by")
    cells = [attrs.astuple(row) for row in (heads, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(3)]
    return [
        "  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[3]])
        for row in cells
    ]
