"""Marshal promises that an administrator is the specification's, step by step.

Every distinct step that TLC sees an administrator take in these models is driven through the
machine, and so is every question it can be asked, in every state that it is ever in. What the
operator is told is part of the state.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest

from kafka_marshal import ClaimKey, Record
from kafka_marshal.client import admin
from kafka_marshal.client.consumer import (
    Consumer,
    Forbidden,
    Me,
    acts,
    after_release,
    releasing_partition_sent,
)
from kafka_marshal.client.effects import Send
from kafka_marshal.client.operation import (
    AdminForbidden,
    Operation,
    Phase,
    Reason,
    consumer_of,
    remembering,
)
from kafka_marshal.core import work as core_work
from kafka_marshal.core.work import NO_WORK, Work
from model_tests import admin_edges
from model_tests.admin_edges import Exported

MODELS = ("MCSetPosition_OneAfterOther", "MCSetPosition_Lossy")
"""Small ones; `python -m model_tests.admin_edges` goes through all."""


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


# --- mutants --------------------------------------------------------------------------------------


def one_is_enough(me: Me, operation: Operation) -> bool:
    owned = [acts(me, consumer_of(operation, key)) for key in operation.targets]
    return any(owned)


def sent_is_set(me: Me, work: Work, key: ClaimKey) -> bool:
    return work.by == me.instance_id and key in work.claimed


def nothing_lands_late(me: Me, consumer: Consumer) -> bool:
    return False


def everything_may_land(me: Me, consumer: Consumer) -> bool:
    return consumer.resigned is not None


def stays_confident(me: Me, operation: Operation) -> bool:
    return False


def never_mind(work: Work) -> Work:
    return NO_WORK


def takes_its_time(me: Me, consumer: Consumer) -> bool:
    return False


def sets_wherever(me: Me, operation: Operation, key: ClaimKey) -> Send:
    return releasing_partition_sent(me, consumer_of(operation, key), key)


def forgets_what_it_waits_for(me: Me, operation: Operation, key: ClaimKey) -> Operation:
    resigned = after_release(me, consumer_of(operation, key))
    return attrs.evolve(remembering(operation, key, resigned), phase=Phase.SETTING)


def every_release_sets(record: Record) -> bool:
    return True


MUTANTS: list[tuple[object, str, Callable[..., object]]] = [
    (admin, "all_owned", one_is_enough),
    (admin, "is_set", sent_is_set),
    (admin, "write_may_land", nothing_lands_late),
    (admin, "write_may_land", everything_may_land),
    (admin, "paused_by_another", stays_confident),
    (admin, "warning", never_mind),
    (admin, "is_taken", takes_its_time),
    (admin, "target_set", sets_wherever),
    (admin, "after_setting_position", forgets_what_it_waits_for),
    (core_work, "says_it_sets", every_release_sets),
]


@pytest.mark.tlc
@pytest.mark.parametrize(
    ("module", "name", "mutant"), MUTANTS, ids=lambda part: getattr(part, "__name__", str(part))
)
def test_a_mutant_of_the_machine_takes_another_step(
    exported: list[Exported],
    monkeypatch: pytest.MonkeyPatch,
    module: object,
    name: str,
    mutant: Callable[..., object],
) -> None:
    monkeypatch.setattr(module, name, mutant)
    assert any(next(admin_edges.partings(each), None) for each in exported)
