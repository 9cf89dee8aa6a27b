"""Marshal promises that a machine does what the specification's consumer does, step by step.

Every distinct step of an instance that TLC goes through in these models is driven through the
machine. So is every question that it can be asked, in every state in which it is up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs
import pytest
from tools.runs import passed

from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.models import Model
from model_tests.edges import consumer_edges, driven
from model_tests.edges.consumer_edges import Deed, Deeds, Row
from model_tests.edges.driven import Driven
from model_tests.explorer import __main__, configuration
from model_tests.explorer.claims import mistakes
from model_tests.mutants.hand_made import HandMade

MODELS = {
    "MCFull_AloTwinsAgain": False,
    "MCSuffix_GapsAdmin": False,
    "MCFull_AmoJoinsPaused": True,
}
"""Small ones that together give every reason against; and whether readers are exported.
`make model-full` takes all."""

OF_THE_NIGHT = {"MCSuffix_Joins": True}
"""No mutant needs it."""


def test_edges_are_exported_of_models_of_marshal_alone() -> None:
    chosen = [model for model in models.read() if consumer_edges.of_marshal(model)]
    assert {model.module.stem for model in chosen} >= {"MCFenced", "MCFull", "MCSuffix"}
    for model in chosen:
        missing = {"HeartbeatIntervalMs", "PauseMaxMs"} - set(
            configuration.read(model.cfg).assigned
        )
        assert not missing, f"{model.name} is no model of Marshal.tla: its cfg has no {missing}"


@pytest.mark.night  # As `make model-full` is, which goes on.
@pytest.mark.tlc
def test_a_model_that_tlc_cannot_run_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that passed is not run again, and one that did not is."""
    monkeypatch.setattr(passed, "kept_in", lambda: tmp_path)
    broken, fine = map(consumer_edges.find, ("MCFairShare_OneComes", "MCFull_AloTwinsAgain"))
    table = attrs.evolve(__main__.INSTANCES, has=lambda _: True)
    [wrong] = __main__.show(table, (broken, fine), 1, False)
    assert wrong.startswith("MCFairShare_OneComes: TLC did not finish")
    line = f"{fine.name:42}{fine.edges:11,}"
    assert [each[:53] for each in capsys.readouterr().out.splitlines() if "MC" in each] == [line]

    run_again: list[Model] = []

    def each(_: object, chosen: Sequence[Model], *__: object) -> tuple[()]:
        run_again.extend(chosen)
        return ()

    monkeypatch.setattr(__main__, "each", each)
    assert __main__.show(table, (broken, fine), 1, False) == []
    assert run_again == [broken]
    [again] = [each for each in capsys.readouterr().out.splitlines() if "MC" in each]
    assert again.startswith(line)
    assert again.endswith("unchanged")
    run_again.clear()
    assert __main__.show(table, (fine,), 1, True) == []
    assert run_again == [fine]


def test_a_row_that_imports_what_was_not_hashed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would notice that it changed."""
    monkeypatch.setattr(passed, "kept_in", lambda: tmp_path)
    model = consumer_edges.find("MCFull_AloTwinsAgain")
    row = Driven(model.name, 1, 1, 0, "")

    def shows(imports: str) -> bool:
        monkeypatch.setattr(__main__, "each", lambda *_: [(model, row, {imports})])
        assert __main__.show(__main__.INSTANCES, (model,), 1, True) == []
        return any(tmp_path.iterdir())

    assert not shows("tools/lazy.py")
    assert shows("model_tests/edges/driven.py")


@pytest.fixture(scope="session")
def deeds(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> list[Deeds]:
    folder = tmp_path_factory.mktemp("deeds")
    chosen = MODELS | (OF_THE_NIGHT if pytestconfig.getoption("all") else {})
    return [
        consumer_edges.export(consumer_edges.find(name), folder, readers=exported, short=True)
        for name, exported in chosen.items()
    ]


@pytest.mark.tlc
def test_the_machine_takes_every_step_as_the_specification_does(
    deeds: list[Deeds],
    share: Callable[[Sequence[Row]], Sequence[Row]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    deeds = [attrs.evolve(each, rows=[*share(each.rows)]) for each in deeds]
    parted = [parting for each in deeds for parting in driven.partings(each)]
    assert parted == [], f"{len(parted)} rows, the first: {parted[0]}"
    with capsys.disabled():
        print()
        for each in deeds:
            print(f"  {each.name}: {len(each.rows):,} rows from {each.edges:,} edges, as in Python")


@pytest.mark.tlc
def test_every_deed_is_among_them(deeds: list[Deeds]) -> None:
    done = {row.deed for each in deeds for row in each.rows}
    assert done == set(Deed) - {Deed.GIVE_UP}, "GiveUp is in MCFaults: make model-full"


@pytest.mark.tlc
def test_every_reason_against_is_given(deeds: list[Deeds]) -> None:
    assert driven.reasons(deeds) == set(Forbidden)


ELSEWHERE = {"CertifiesAlways", "NeverSetAtZero", "NeverSetAsFarAsKnown"}
"""An owner without the position is in larger models; `test_equal_graphs` has this mistake. A start
policy is in `MCFenced_AloStart` and `MCSuffix_AloStartLate`, whose broken variants TLC runs."""


@pytest.mark.tlc
@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in mistakes.MACHINES if mutant.name not in ELSEWHERE],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_of_the_machine_takes_another_step(mutant: HandMade, deeds: list[Deeds]) -> None:
    with mutant.made():
        assert any(driven.differs(each) for each in deeds)


OF_MEASURED_TIME = {
    *("WinsWithoutPause", "WinsAfterPauseRead", "WinsOverRequests", "WinsAtTwoIntervals"),
}
"""These need silence; the models whose time is measured are in `test_equal_graphs`."""


@pytest.mark.tlc
@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in mistakes.READERS if mutant.name not in OF_MEASURED_TIME],
    ids=lambda mutant: mutant.name,
)
def test_a_mutant_of_the_reader_knows_something_else(mutant: HandMade, deeds: list[Deeds]) -> None:
    with mutant.made():
        assert any(driven.differs(each) for each in deeds)
