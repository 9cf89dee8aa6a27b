"""Marshal promises that each rule of groups is needed: without it, some event does otherwise."""

from __future__ import annotations

from itertools import product

import pytest
from tests.core.groups.group_story import tell
from tests.core.groups.walking import Walk
from tests.test_golden import GOLDEN

from kafka_marshal.core.groups.invariants import STATE_CHECKS, STEP_CHECKS, GroupProperty
from model_tests.groups.edges import sample
from model_tests.groups.mutants import MUTANTS, OfGroups

TOPICS = GOLDEN / "groups" / "topics.txt"
SEEDS, RECORDS = 12, 200


def noticed_by(mutant: OfGroups) -> set[object]:
    """The properties that notice, over walks until all have that must."""
    must, found = {*mutant.breaks}, set[object]()
    with mutant.mistake.made():
        for seed, honest in product(range(SEEDS), (False, True)):
            if must <= found:
                break
            for broken in Walk(seed, honest=honest).steps(RECORDS):
                found |= broken
                if must <= found:
                    break
    return found


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake.name)
def test_a_mutant_of_groups_is_noticed_by_whom_it_names(mutant: OfGroups) -> None:
    assert {*mutant.breaks} <= noticed_by(mutant)


IN_NO_MODEL = {"CameBack"}
"""None of the models' steps shows it: a topic that went and came back. The story of topics does."""


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in MUTANTS if mutant.mistake.name not in IN_NO_MODEL],
    ids=lambda mutant: mutant.mistake.name,
)
def test_a_mutant_of_groups_parts_from_the_specification(mutant: OfGroups) -> None:
    rows = sample()
    with mutant.mistake.made():
        assert any(row.taken() != row.said for row in rows)


def test_what_no_model_reaches_parts_from_a_story() -> None:
    [mutant] = [mutant for mutant in MUTANTS if mutant.mistake.name in IN_NO_MODEL]
    with mutant.mistake.made():
        assert tell(TOPICS).text != TOPICS.read_text(encoding="utf-8")


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.mistake.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_every_property_notices_a_mutant() -> None:
    """But two: no event can name another group, and what is assigned follows from the others."""
    noticing = {each for mutant in MUTANTS for each in mutant.breaks}
    beyond = {GroupProperty.GROUPS_APART, GroupProperty.NOTHING_UNASSIGNED}
    assert noticing >= {*STATE_CHECKS, *STEP_CHECKS} - beyond
