from collections.abc import Mapping
from pathlib import Path

import pytest
from tools.runs.by_day import sampled

from kafka_marshal import cache
from kafka_marshal.modelcheck import edges
from kafka_marshal.modelcheck.errors import ModelCheckError
from kafka_marshal.modelcheck.tlc import tlc
from kafka_marshal.modelcheck.tlc.values import Value, function, record

pytestmark = [pytest.mark.tlc, pytest.mark.usefixtures("short_runs")]


@pytest.fixture
def cfg(clock: Path) -> Path:
    path = clock.with_suffix(".cfg")
    path.write_text("SPECIFICATION Spec\nACTION_CONSTRAINT Edge\n")
    return path


@pytest.mark.parametrize("workers", sampled([2, 1], 2))
def test_every_distinct_transition_is_exported_once(
    clock: Path, cfg: Path, tmp_path: Path, workers: int
) -> None:
    export = edges.export(clock, cfg, tmp_path / "rows", workers=workers)
    rows = list(export.read())
    assert export.calls == export.result.edges == 4
    assert export.rows == len(rows) == len(set(rows)) == 4
    assert (0, (), record(hour=1)) in rows
    assert {path.name for path in tmp_path.iterdir()} >= {"rows"}
    assert not list(tmp_path.glob("rows.calls"))


def test_equal_rows_of_many_transitions_are_one_row(clock: Path, cfg: Path, tmp_path: Path) -> None:
    clock.write_text(
        clock.read_text().replace(
            "Export(<<hour, log, [hour |-> hour']>>)", 'Export(<<hour > 1, {"b", "a"}>>)'
        )
    )
    export = edges.export(clock, cfg, tmp_path / "rows")
    assert (export.calls, export.rows) == (4, 2)
    assert set(export.read()) == {(True, frozenset({"a", "b"})), (False, frozenset({"a", "b"}))}


@pytest.mark.parametrize("workers", sampled([2, 1], 2))
def test_a_model_learns_whether_it_asks_about_a_value_for_the_first_time(
    clock: Path, cfg: Path, tmp_path: Path, workers: int
) -> None:
    asked = clock.read_text().replace("Edge == ", "Edge == FirstTime({hour > 1, FALSE}) => ")
    clock.write_text(asked)
    export = edges.export(clock, cfg, tmp_path / "rows", workers=workers)
    assert (export.calls, export.rows) == (2, 2)
    assert export.result.edges == 4, "whether a row is written decides nothing"


VALUES: Mapping[str, Value] = {
    "[a |-> 0, b |-> {1}]": record(a=0, b=frozenset({1})),
    "<<>>": (),
    r'"a\tb"': "a\tb",
    "[i \\in {5} |-> 1]": function({5: 1}),
}


def test_any_value_can_be_exported(clock: Path, cfg: Path, tmp_path: Path) -> None:
    every = " /\\ ".join(f"Export({value})" for value in VALUES)
    text = clock.read_text().replace("Export(<<hour, log, [hour |-> hour']>>)", every)
    clock.write_text(text)
    export = edges.export(clock, cfg, tmp_path / "rows")
    assert export.rows == len(VALUES)
    assert set(export.read()) == {*VALUES.values()}


def test_a_model_that_exports_nothing_is_an_error(clock: Path, cfg: Path, tmp_path: Path) -> None:
    cfg.write_text("SPECIFICATION Spec\n")
    with pytest.raises(ModelCheckError, match="ACTION_CONSTRAINT"):
        edges.export(clock, cfg, tmp_path / "rows")


def test_without_the_exporter_its_operators_are_true(clock: Path, cfg: Path) -> None:
    text = clock.read_text().replace("Edge == ", "Edge == FirstTime({hour > 1, FALSE}) /\\ ")
    clock.write_text(text)
    assert tlc.run(clock, cfg).states == 4


def test_an_exporter_that_does_not_compile_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    edges.exporter()
    monkeypatch.setattr(edges, "SOURCE", tmp_path / "Export.java")
    edges.SOURCE.write_text("class Export { int x = nothing; }")
    before = set(cache.folder().rglob("*"))
    with pytest.raises(ModelCheckError, match="nothing cannot be resolved"):
        edges.exporter()
    assert before == set(cache.folder().rglob("*"))
