from pathlib import Path

import pytest

from kafka_marshal.counterexample import itf
from kafka_marshal.modelcheck import models
from tests.cli.run import marshal


@pytest.mark.tlc
def test_a_fault_of_the_original_is_told_as_a_story() -> None:
    ran = marshal("verify", "MCOriginal_a_LateHeartbeat")
    assert ran.returncode == 1, ran.stderr
    assert "Fenced is broken" in ran.stdout
    assert "overwritten" in ran.stdout.lower()
    assert "This model is expected to fail" in ran.stdout


@pytest.mark.tlc
def test_a_counterexample_is_written_as_text_as_a_trace_and_as_a_page(tmp_path: Path) -> None:
    ran = marshal("verify", "MCOriginal_h_ClockAhead", "--trace-out", tmp_path / "new")
    assert ran.returncode == 1, ran.stderr
    text, trace, page = (
        (tmp_path / "new" / f"MCOriginal_h_ClockAhead.{ending}").read_text(encoding="utf-8")
        for ending in ("txt", "itf.json", "html")
    )
    assert text in ran.stdout
    assert itf.loads(trace).violated is not None
    assert page.startswith("<!doctype html>")


@pytest.mark.tlc
def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    ran = marshal("verify", "MCOriginal_h_ClockAhead", "--trace-out", taken)
    assert ran.returncode == 2
    assert "taken" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_counterexample_of_no_model_cannot_be_written(tmp_path: Path) -> None:
    ran = marshal("verify", "--trace-out", tmp_path)
    assert ran.returncode == 2
    assert "--trace-out" in ran.stderr


@pytest.mark.tlc
def test_a_model_of_the_fenced_rules_holds() -> None:
    smallest = min(
        (model for model in models.read() if not model.must_fail),
        key=lambda model: model.states or 0,
    )
    ran = marshal("verify", smallest.name)
    assert ran.returncode == 0, ran.stderr
    assert "holds" in ran.stdout
    assert f"{smallest.states:,} distinct states" in ran.stdout


def test_without_a_name_every_model_is_listed() -> None:
    ran = marshal("verify")
    assert ran.returncode == 0
    for model in models.read():
        assert model.name in ran.stdout


def test_an_unknown_model_is_named() -> None:
    ran = marshal("verify", "MCNothing")
    assert ran.returncode == 2
    assert "MCNothing" in ran.stderr
    assert "Traceback" not in ran.stderr
