from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.runs.by_day import sampled

from kafka_marshal.counterexample import itf
from tests.cli.run import CAPTURES, marshal

RUNS = CAPTURES.parent.parent / "runs"
GOOD, BROKEN = RUNS / "two_consumers.jsonl", RUNS / "grants_itself.jsonl"


def test_a_run_that_is_explained_is_fine() -> None:
    ran = marshal("validate", GOOD)
    assert ran.returncode == 0, ran.stderr
    assert "300 events explained" in ran.stdout


def test_a_run_that_is_not_is_told_up_to_the_event_with_its_guard(tmp_path: Path) -> None:
    ran = marshal("validate", BROKEN, "--trace-out", tmp_path / "new", "--slice", tmp_path / "s")
    assert ran.returncode == 1, ran.stderr
    assert f"{BROKEN}:41: ProcessGrant by c1-1" in ran.stdout
    assert "NotGranted forbids it (R4, AtMostOnce)" in ran.stdout
    trace = (tmp_path / "new" / "grants_itself.itf.json").read_text(encoding="utf-8")
    assert itf.loads(trace).violated == "AtMostOnce"
    again = marshal("validate", tmp_path / "s")
    assert again.returncode == 1
    assert "NotGranted forbids it (R4, AtMostOnce)" in again.stdout


def test_a_slice_never_takes_the_place_of_another_file(tmp_path: Path) -> None:
    """The recording itself was lost in this way."""
    run = Path(shutil.copy(BROKEN, tmp_path / "run.jsonl"))
    ran = marshal("validate", run, "--slice", run)
    said = f"marshal: --slice {run}: exists already; give another --slice, or remove it first\n"
    assert (ran.returncode, ran.stderr) == (2, said)
    assert run.read_bytes() == BROKEN.read_bytes()


def test_a_slice_is_no_part_of_the_run_that_it_is_of(tmp_path: Path) -> None:
    """Its instances would be in two files, so the folder could not be read any more."""
    (tmp_path / "log.jsonl").touch()
    ran = marshal("validate", ".", "--slice", tmp_path / "s.jsonl", cwd=tmp_path)
    said = f"marshal: --slice {tmp_path / 's.jsonl'} lies within the run: put it elsewhere\n"
    assert (ran.returncode, ran.stderr) == (2, said)


@pytest.mark.parametrize(("option", "name"), [("--slice", "s"), ("--trace-out", "s/run.txt")])
def test_what_cannot_be_written_is_named_and_leaves_no_part(
    tmp_path: Path, option: str, name: str
) -> None:
    run = Path(shutil.copy(BROKEN, tmp_path / "run.jsonl"))
    command = ["sh", "-c", 'ulimit -f 0 && exec "$@"', "sh", sys.executable]
    command += ["-m", "kafka_marshal.cli", "validate", str(run), option, str(tmp_path / "s")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    said = f"marshal: {tmp_path / name}: File too large\n"
    assert (ran.returncode, ran.stderr) == (2, said)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [run]


@pytest.mark.tlc
@pytest.mark.parametrize(("run", "code"), sampled([(BROKEN, 1), (GOOD, 0)], 2))
def test_tlc_says_the_same(run: Path, code: int) -> None:
    ran = marshal("validate", run, "--tlc")
    assert ran.returncode == code, ran.stderr
    assert "TLC agrees" in ran.stdout


def test_a_log_of_the_original_is_of_strangers() -> None:
    ran = marshal("validate", CAPTURES / "d_zombie.jsonl", "--heartbeat-interval", "4")
    assert ran.returncode == 0, ran.stderr
    assert "233 carry no headers" in ran.stdout


def test_a_log_alone_that_nobody_can_have_written_is_told(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in GOOD.read_text().splitlines()[1:]]
    log = [line for line in lines if line["event"] == "appended"]
    late = next(line for line in reversed(log) if line["value"].startswith("Heartbeat"))
    late["headers"]["marshal-clock"] = "1"
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in log))
    ran = marshal("validate", path, "--heartbeat-interval", "60")
    assert ran.returncode == 1, ran.stderr
    assert "NotWhatItSends forbids it (Fenced)" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("nowhere.jsonl",), "nowhere.jsonl"),
        ((CAPTURES / "a_clean.jsonl",), "--heartbeat-interval"),
        ((CAPTURES / "a_clean.jsonl", "--tlc", "--heartbeat-interval", "4"), "--tlc"),
        ((CAPTURES / "a_clean.trace.jsonl", "--heartbeat-interval", "4"), ":1: a row of a trace"),
        ((GOOD, "--heartbeat-interval", "4"), "states its"),
    ],
)
def test_what_cannot_be_validated_is_one_sentence(
    arguments: tuple[str | Path, ...], why: str
) -> None:
    ran = marshal("validate", *arguments)
    assert ran.returncode == 2
    assert why in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_run_from_a_pipe_is_refused_in_one_sentence() -> None:
    """Its first 8,192 bytes were lost without a word."""
    with BROKEN.open("rb") as run, subprocess.Popen(["cat"], stdin=run, stdout=-1) as cat:
        command = [sys.executable, "-m", "kafka_marshal.cli", "validate", "/dev/stdin"]
        ran = subprocess.run(command, stdin=cat.stdout, capture_output=True, text=True, check=False)
    said = "/dev/stdin: it is a pipe, and would be read more than once: write it to a file"
    assert (ran.returncode, ran.stderr) == (2, f"marshal: {said}\n")
