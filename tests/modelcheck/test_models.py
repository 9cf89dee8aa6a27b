import re
from pathlib import Path

import pytest

from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.models import ModelKind
from kafka_marshal.modelcheck.tlc.output import TlcOutcome, TlcResult, Trace

GOOD = """
[[model]]
name = "Clock_Day"
kind = "safety"
about = "A day has four hours."
expect = "ok"
states = 4
edges = 4
depth = 4
in = ["test"]

[[model]]
name = "Clock_Early"
cfg = "Clock_Day.cfg"
kind = "broken"
about = "A day of three hours."
expect = "invariant"
violates = "Early"
length = 4
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models.toml").write_text(GOOD)
    bounds = tmp_path / "models" / "Clock"
    bounds.mkdir(parents=True)
    for name in ("Clock.tla", "Clock_Day.cfg"):
        (bounds / name).touch()
    return tmp_path


def test_the_list_is_read_in_its_order(folder: Path) -> None:
    day, early = models.read(folder)
    assert (day.name, day.kind, day.expect, day.tags) == (
        "Clock_Day",
        ModelKind.SAFETY,
        TlcOutcome.OK,
        ("test",),
    )
    bounds = folder / "models" / "Clock"
    assert (day.module, day.cfg) == (bounds / "Clock.tla", bounds / "Clock_Day.cfg")
    assert (early.must_fail, early.violates, early.length) == (True, "Early", 4)
    assert models.find("Clock_Early", (day, early)) is early


def test_tlc_looks_in_every_folder_that_holds_a_module(folder: Path) -> None:
    for room in ("claims", "traces"):
        (folder / room).mkdir()
    (folder / "claims" / "Claim.tla").touch()
    assert models.libraries(folder) == (folder / "claims", folder / "models" / "Clock")
    (folder / "Lists.tla").touch()
    assert models.libraries(folder)[0] == folder


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('violates = "Early"', "", "Clock_Early: expect = invariant and violates = None"),
        ('expect = "ok"', 'expect = "ok"\nviolates = "X"', "Clock_Day: expect = ok and violates"),
        ('expect = "ok"', 'expect = "deadlock"', "Clock_Day: expects a deadlock"),
        ('expect = "ok"', 'expect = "fine"', "Clock_Day: 'fine' is not a valid TlcOutcome"),
        ('kind = "safety"', 'kind = "other"', "Clock_Day: 'other' is not a valid ModelKind"),
        ("states = 4", "state = 4", "Clock_Day: unknown keys: state"),
        ('expect = "ok"', "", "Clock_Day: missing keys: expect"),
        ('"Clock_Day"', '"Clock_Gone"', r"Clock_Gone: Clock_Gone\.cfg is not there"),
        ('"Clock_Early"', '"Clock_Day"', "Clock_Day is there twice"),
        ("states = 4", "states = ", "Invalid value"),
    ],
)
def test_a_list_that_contradicts_itself_is_refused_by_name(
    folder: Path, old: str, new: str, says: str
) -> None:
    (folder / "models.toml").write_text(GOOD.replace(old, new))
    with pytest.raises(ModelCheckError, match=says):
        models.read(folder)


def test_a_cfg_is_named_after_its_module(folder: Path) -> None:
    named = 'name = "Clock_Day"'
    (folder / "models.toml").write_text(GOOD.replace(named, f'{named}\ncfg = "Watch.cfg"'))
    (folder / "models" / "Clock" / "Watch.cfg").touch()
    with pytest.raises(ModelCheckError, match=r"Watch\.cfg does not start with its module's"):
        models.read(folder)


def test_a_missing_list_and_an_unknown_model_are_errors(folder: Path) -> None:
    with pytest.raises(ModelCheckError, match="no model 'Nope' in spec"):
        models.find("Nope", models.read(folder))
    (folder / "models.toml").unlink()
    with pytest.raises(ModelCheckError, match=re.escape("models.toml")):
        models.read(folder)


def found(outcome: TlcOutcome, violated: str | None = None, trace: int = 0) -> TlcResult:
    states: list[object] = [None] * trace
    counterexample = Trace(tuple(states)) if trace else None  # type: ignore[arg-type]
    return TlcResult(outcome, violated, counterexample, states=4, edges=4, depth=4, seconds=0.0)


def test_a_result_is_compared_in_words(folder: Path) -> None:
    day, early = models.read(folder)
    assert day.differences(found(TlcOutcome.OK)) == []
    assert day.differences(found(TlcOutcome.DEADLOCK)) == ["must give ok, gave deadlock"]
    assert early.differences(found(TlcOutcome.INVARIANT, "Early", trace=4)) == []
    assert early.differences(found(TlcOutcome.INVARIANT, "Fine", trace=4)) == [
        "must give invariant Early, gave invariant Fine"
    ]
    assert early.differences(found(TlcOutcome.OK)) == ["must give invariant Early, gave ok"]
    assert early.differences(found(TlcOutcome.INVARIANT, "Early", trace=5)) == [
        "length: recorded 4, now 5"
    ]
    (folder / "models.toml").write_text(GOOD.replace("states = 4", "states = 5000"))
    day, _ = models.read(folder)
    assert day.differences(found(TlcOutcome.OK)) == ["states: recorded 5,000, now 4"]


def test_with_several_workers_depth_is_not_compared(folder: Path) -> None:
    text = GOOD.replace("depth = 4", "depth = 3\nworkers = 2", 1)
    (folder / "models.toml").write_text(text)
    day, _ = models.read(folder)
    assert day.differences(found(TlcOutcome.OK)) == []


def test_our_own_list_is_in_order() -> None:
    known = models.read()
    assert {model.kind for model in known} >= {ModelKind.SAFETY, ModelKind.FAULT, ModelKind.BROKEN}
    assert all(re.match(r"(\([a-i]\) )?[A-Z].*\.$", model.about) for model in known)
