"""Marshal promises that a large run is judged as a small one is, only faster."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from kafka_marshal.validate import compiled, read_run, validate, validator
from kafka_marshal.validate.reading import FileEvents
from kafka_marshal.validate.validator import Judgement
from tests.validate.compiled import runs
from tests.validate.compiled.runs import judge_all, taken_for_the_other_kind
from tests.validate.compiled.steps import compare_steps
from tests.validate.samples import BUSY, rows, write


def test_both_judges_say_the_same_of_runs_and_of_mutants() -> None:
    """The kernel as plain Python, in a process of its own: to compile it takes longer."""
    done = subprocess.run(
        [sys.executable, "-m", runs.__name__, "0", "1", "150", "1", "8"],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONWARNINGS": "ignore"},
        check=True,
        capture_output=True,
        text=True,
    )
    steps, figures = map(json.loads, done.stdout.splitlines())
    assert min(sum(each[kind] for each in steps) for kind in steps[0]) > 100
    assert figures["compiled"] > 0.9 * figures["events"] > 5_000
    assert figures["unexplained"] > 30


@pytest.mark.night
def test_both_judges_say_the_same_of_many_runs(tmp_path: Path) -> None:
    with runs.as_in_a_long_run():
        figures = judge_all(tmp_path, range(1, 25), 2_000, 3)
    assert taken_for_the_other_kind() == []
    for seed in range(400):
        compare_steps(seed, 500)
    assert figures["compiled"] > 0.9 * figures["events"]


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file is large; the paths that the compiled judge was given."""
    given: list[Path] = []

    def judge(found: FileEvents, starts: object) -> Judgement:
        given.append(found.path)
        return Judgement(None, 7)

    monkeypatch.setattr(validator, "COMPILED_FROM_BYTES", 0)
    monkeypatch.setattr(compiled, "validate_file", judge)
    return given


def test_a_large_file_is_judged_compiled(tmp_path: Path, of_any_size: list[Path]) -> None:
    path = write(tmp_path / "run.jsonl", rows(0, 50))
    assert validate(read_run(path)).events == 7
    assert of_any_size == [path]


def test_what_the_compiled_judge_cannot_take_is_judged_all_the_same(
    tmp_path: Path, of_any_size: list[Path]
) -> None:
    lines = rows(0, 50)
    run = read_run(write(tmp_path / "run.jsonl", lines))
    assert validate(attrs.evolve(run, events=list(run.events))).events == 50
    path = write(tmp_path / "copies.jsonl", rows(0, 50, attrs.evolve(BUSY, idempotent=False)))
    assert validate(read_run(path)).events == 50
    setting, *made = json.loads(json.dumps(lines))
    for group in ("g/h", "\u00e9", "\ud800"):
        named = [{**each, "group_id": group} for each in setting["instances"]]
        path = write(tmp_path / "named.jsonl", [{**lines[0], "instances": named}, *made])
        assert validate(read_run(path)).unexplained is not None
    for member in setting["instances"]:
        member["window"] = 2**60
    assert validate(read_run(write(tmp_path / "wide.jsonl", [setting, *made]))).events == 50
    shares = {"event": "shares", "instance": "c0-0", "topic": "t0", "topic_partition": 0}
    shared = [*lines[:2], {**shares, "view": 0, "start": 0, "known": True}, *lines[2:]]
    assert validate(read_run(write(tmp_path / "shared.jsonl", shared))).unexplained is not None
    assert of_any_size == []


def test_without_numba_a_large_file_is_judged_by_python(
    tmp_path: Path, of_any_size: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kafka_marshal.validate.compiled", None)
    monkeypatch.delattr("kafka_marshal.validate.compiled", raising=False)
    assert validate(read_run(write(tmp_path / "run.jsonl", rows(0, 50)))).events == 50
    assert of_any_size == []
