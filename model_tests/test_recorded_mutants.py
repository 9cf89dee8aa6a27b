"""A machine with a mistake is found out by the recorded run of it."""

from __future__ import annotations

import pytest
from tools.runs.by_day import one_of_each

from kafka_marshal.machines.consumer import consumer as machine
from model_tests.mutants import recorded, walked
from model_tests.mutants.hand_made import HandMade, Killer, having

NEEDS_A_WALK = {
    # An owner that knows all but the position: a simulated fleet never has one.
    "CertifiesWithoutPosition",
    # A reading that is wrong and leads to nothing that is sent or processed is no event.
    "OwnClocks",
}

BY_THE_VALIDATOR = having(Killer.VALIDATOR, walked.MUTANTS)


def test_the_validator_judges_every_broken_machine_that_a_run_can_show() -> None:
    of_machines = {mutant.name for mutant in walked.MUTANTS if mutant.module is machine}
    assert {mutant.name for mutant in BY_THE_VALIDATOR} == of_machines - NEEDS_A_WALK


@pytest.mark.parametrize(
    "mutant",
    one_of_each(BY_THE_VALIDATOR, lambda mutant: mutant.killers(Killer.VALIDATOR)),
    ids=lambda mutant: mutant.name,
)
def test_no_behaviour_explains_what_a_broken_machine_does(mutant: HandMade) -> None:
    found = list(recorded.unexplained_under(mutant))
    assert all(each.guard is not None for each in found)
    assert {each.protects for each in found} == set(mutant.killers(Killer.VALIDATOR))
