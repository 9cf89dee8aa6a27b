"""Marshal promises that a participant does what the specification's participant does.

Every situation of a participant that TLC finds in these worlds is put to the machine. So is every
question that it can be asked, what each action sends and remembers, and every record it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from kafka_marshal import Claim
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.machines.ranges import participant as machine
from kafka_marshal.machines.ranges.participant import (
    ANCHOR,
    Participant,
    ParticipantConfig,
    ParticipantForbidden,
)
from model_tests.mutants.hand_made import HandMade
from model_tests.participant import edges as participant_edges
from model_tests.participant.edges import Row, differs, parting
from model_tests.participant.mutants import MUTANTS

WORLDS: dict[str, dict[str, int | str]] = {
    "MCParticipant_AmoStart": {"LogMax": 4, "SentMax": 4},
    "MCParticipant_AmoAdmin": {},
    "MCParticipant_AloTwo": {"SentMax": 2},
}
"""Smaller than the models are. Together they give every reason against and show every mutant."""

OF_THE_NIGHT: dict[str, dict[str, int | str]] = {
    "MCParticipant_AmoOne": {"LogMax": 4, "SentMax": 3, "Does": "WithLeaving"},
    "MCParticipant_AloOne": {"LogMax": 4, "SentMax": 3, "Does": "WithLeaving"},
    "MCParticipant_AmoLeaves": {"LogMax": 6, "SentMax": 2},
    "MCParticipant_AloOther": {"LogMax": 3, "SentMax": 2, "Steps": "FewSteps"},
}
"""No mutant needs one of these."""


@pytest.fixture(scope="session")
def rows(
    pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Row]]:
    folder = tmp_path_factory.mktemp("participants")
    worlds = WORLDS | (OF_THE_NIGHT if pytestconfig.getoption("all") else {})
    return {
        name: participant_edges.exported(name, folder, **bounds) for name, bounds in worlds.items()
    }


@pytest.mark.tlc
def test_a_participant_takes_every_step_as_the_specification_does(
    rows: dict[str, list[Row]],
    share: Callable[[Sequence[Row]], Sequence[Row]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = {name: [*share(each)] for name, each in rows.items()}
    parted = [row for each in rows.values() for row in each if differs(row)]
    assert parted == [], f"{len(parted)} rows, the first: {parting(parted[0])}"
    with capsys.disabled():
        print()
        for name, each in rows.items():
            print(f"  {name}: {len(each):,} situations and records, all as in Python")


ELSEWHERE = {ParticipantForbidden.WINDOW_DIFFERS}
OF_ANOTHER_WINDOW = {"SharesUnderAnyWindow"}
"""All participants of these worlds have one window; `test_another_window_is_not_shared` has two."""


@pytest.mark.tlc
def test_every_reason_against_is_given(rows: dict[str, list[Row]]) -> None:
    given = participant_edges.reasons([row for each in rows.values() for row in each])
    assert set(ParticipantForbidden) - ELSEWHERE - {*given} == set()


@pytest.mark.tlc
@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in MUTANTS if mutant.name not in OF_ANOTHER_WINDOW],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_of_a_participant_takes_another_step(
    mutant: HandMade, rows: dict[str, list[Row]]
) -> None:
    with mutant.made():
        assert any(differs(row) for each in rows.values() for row in each)


def another_window_is_shared() -> bool:
    """Somebody shares the claim under another window, and this participant takes part."""
    ranges = Ranges(window=100, frontier=0)
    claim = Claim(ANCHOR, ANCHOR, 0, last_heartbeat_ms=1, clock_ms=1, position_set=True)
    participant = Participant(claim, ranges, view=1)
    me = ParticipantConfig("i1", "c1", window=50)
    against = machine.may_claim_anchor(me, participant)
    return (
        machine.may_ask_range(me, participant, 1) is None
        or machine.may_beat_anchor(me, participant) is None
        or against is not ParticipantForbidden.WINDOW_DIFFERS
    )


def test_another_window_is_not_shared() -> None:
    assert not another_window_is_shared()
    for mutant in MUTANTS:
        if mutant.name in OF_ANOTHER_WINDOW:
            with mutant.made():
                assert another_window_is_shared(), mutant.name


def test_every_mutant_has_a_name_of_its_own() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
