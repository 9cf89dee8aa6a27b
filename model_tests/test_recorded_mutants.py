"""A machine with a mistake is found out by the recorded run of it."""

from __future__ import annotations

import pytest

from kafka_marshal.client import consumer as machine
from kafka_marshal.core.invariants import Property
from model_tests.mutants import recorded, walked
from model_tests.mutants.hand_made import HandMade

NEEDS_A_WALK = {
    # An owner that knows all but the position: a simulated fleet never has one.
    "CertifiesWithoutPosition",
    # A reading that is wrong and leads to nothing that is sent or processed is no event.
    "OwnClocks",
}

OF_MACHINES = [
    mutant
    for mutant in walked.MUTANTS
    if mutant.module is machine and mutant.name not in NEEDS_A_WALK
]


@pytest.mark.parametrize("mutant", OF_MACHINES, ids=lambda mutant: mutant.name)
def test_no_behaviour_explains_what_a_broken_machine_does(mutant: HandMade) -> None:
    found = next(recorded.unexplained_under(mutant), None)
    assert found is not None
    assert found.guard is not None


def test_processing_what_was_only_asked_for_is_told_as_what_it_breaks() -> None:
    [mutant] = [each for each in OF_MACHINES if each.name == "GrantNotAwaited"]
    assert recorded.broken_under(mutant) == {Property.AT_MOST_ONCE}
