"""Marshal promises that an administrator is the specification's, step by step.

Every distinct step that TLC sees an administrator take in these models is driven through the
machine. So is every question it can be asked, in every state that it is ever in. The answer to the
operator is part of the state.
"""

from __future__ import annotations

import pytest

from kafka_marshal.core.claims.pause_work import NO_WORK
from kafka_marshal.machines.admin.operation import AdminForbidden, Phase, Reason
from kafka_marshal.machines.consumer.consumer import Forbidden
from model_tests.edges import admin_edges
from model_tests.edges.admin_edges import Exported
from model_tests.explorer.admins import mistakes
from model_tests.explorer.substitutions import Replaced

MODELS = ("MCSetPosition_OneAfterOther", "MCSetPosition_LossyOfOne")
"""Small ones; `python -m model_tests.edges.admin_edges` goes through all."""


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[Exported]:
    folder = tmp_path_factory.mktemp("admin")
    return [
        admin_edges.export(model, folder)
        for model in admin_edges.must_hold()
        if model.name in MODELS
    ]


@pytest.mark.tlc
def test_the_machine_takes_every_step_as_the_specification_does(
    exported: list[Exported], capsys: pytest.CaptureFixture[str]
) -> None:
    parted = [parting for each in exported for parting in admin_edges.partings(each)]
    assert parted == [], f"{len(parted)} rows, the first: {parted[0]}"
    with capsys.disabled():
        print()
        for each in exported:
            print(f"  {admin_edges.counts(each)}, all as in Python")


@pytest.mark.tlc
def test_every_action_phase_and_reason_is_among_them(exported: list[Exported]) -> None:
    steps = [step for each in exported for step in each.steps]
    assert {step.action for step in steps} == {
        *("Begin", "Read", "CallOff", "StopWaiting"),
        *(set(admin_edges.SENDING) - {"HeartbeatTarget"}),
    }
    assert {step.after.phase for step in steps} == set(Phase)
    told = {getattr(step.after.result, "reason", None) for step in steps}
    assert told == {None, *Reason} - {Reason.CALLED_OFF}, "to call it off needs no other rule"
    assert any(step.after.warned != NO_WORK for step in steps)


@pytest.mark.tlc
def test_every_reason_of_an_administrator_against_is_given(exported: list[Exported]) -> None:
    said = {answer for each in exported for row in each.answers for answer in row.said.values()}
    assert said >= set(AdminForbidden)
    assert said >= {None, Forbidden.NOT_OWNER, Forbidden.RESIGNED, Forbidden.AWAITS_READ_BACK}


MISTAKES = (*mistakes.ADMINISTRATORS, *mistakes.SLIPS)


@pytest.mark.tlc
@pytest.mark.parametrize("name", sorted({mistake.name for mistake in MISTAKES}))
def test_a_mutant_of_the_machine_takes_another_step(exported: list[Exported], name: str) -> None:
    mutant = Replaced(tuple(each for each in MISTAKES if each.name == name))
    with mutant.made():
        assert any(next(admin_edges.partings(each), None) for each in exported)
