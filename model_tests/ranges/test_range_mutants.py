"""Marshal promises that each rule of ranges is needed: without it, some log comes out otherwise."""

from __future__ import annotations

from itertools import product

import pytest
from tests.core.ranges.walking import walk
from tools.runs.by_day import one_of_each

from kafka_marshal.core.ranges.invariants import STEP_CHECKS, RangesProperty
from model_tests.ranges.mutants import MUTANTS, OfRanges

SEEDS, RECORDS = 12, 250


def noticed_by(mutant: OfRanges) -> set[object]:
    """Who notices, over walks until all have that must."""
    must, found = {*mutant.breaks, "brute force"}, set[object]()
    with mutant.mistake.made():
        for seed, window, honest in product(range(SEEDS), (0, 12), (True, False)):
            if must <= found:
                break
            for broken in walk(seed, window, honest=honest).steps(RECORDS):
                found |= broken
                if must <= found:
                    break
    return found


# By day one for each property, or properties, that must notice; by night each.
@pytest.mark.parametrize(
    "mutant",
    one_of_each(MUTANTS, lambda mutant: mutant.breaks),
    ids=lambda mutant: mutant.mistake.name,
)
def test_a_mutant_of_ranges_is_noticed_by_whom_it_names(mutant: OfRanges) -> None:
    assert {*mutant.breaks, "brute force"} <= noticed_by(mutant)


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.mistake.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


def test_every_property_of_a_step_notices_a_mutant() -> None:
    """But VersionsAgree: a step of ranges has no way to change a claim."""
    noticing = {each for mutant in MUTANTS for each in mutant.breaks}
    assert noticing >= set(STEP_CHECKS) - {RangesProperty.VERSIONS_AGREE}
