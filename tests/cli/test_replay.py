"""`marshal replay` as a user has it. A run on Spark takes seconds, so few are."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.run import CAPTURES, marshal

THEFT = CAPTURES / "d3_late_heartbeat_theft.jsonl"


def replay(*arguments: str | Path, interval: str = "4") -> tuple[int, str, str]:
    ran = marshal("replay", *arguments, "--heartbeat-interval", interval)
    assert "Traceback" not in ran.stderr
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.spark
def test_both_thefts_are_found_under_the_original_rules_and_none_under_the_fenced(
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    files = ("--sarif", tmp_path / "f.sarif", "--junit", tmp_path / "f.xml")
    on_spark = ("--rules", "both", "--engine", "spark")
    code, printed, complaint = replay(THEFT, *on_spark, "--out", out, *files)
    assert code == 1, complaint
    assert complaint.strip() == ""
    assert printed.startswith("Folded on Spark: --engine spark.")
    assert f"{out}/report.html" in printed
    assert "late_heartbeat_stole" in printed
    assert "\nThe worst, of " in printed
    assert "\n  error late_heartbeat_stole (original rules): c1 (instance " in printed
    assert {path.name for path in out.iterdir()} >= {
        *("claims", "tenures", "refusals", "findings", "divergences", "malformed"),
        *("summary.json", "report.html"),
    }
    assert '"late_heartbeat_stole"' in (tmp_path / "f.sarif").read_text()
    assert 'name="late_heartbeat_stole"' in (tmp_path / "f.xml").read_text()
    import pandas as pd

    findings = pd.read_parquet(out / "findings")
    stole = findings[findings["code"] == "late_heartbeat_stole"]
    assert list(stole["offset"]) == [82, 176]
    assert set(stole["rules"]) == {"original"}
    assert json.loads((out / "summary.json").read_text())["rules"] == ["fenced", "original"]


def test_as_json_it_prints_the_summary_and_nothing_else(tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    code, printed, complaint = replay(THEFT, "--json", "--checkpoint", checkpoint, "--out", out)
    assert (code, complaint) == (1, "")
    assert printed == (out / "summary.json").read_text()
    assert json.loads(printed)["checkpoint"] == {"run": 1, "folded": 236, "skipped": 0}
    code, printed, complaint = replay(
        THEFT, "--quiet", "--rules", "both", "--checkpoint", checkpoint, "--out", tmp_path / "two"
    )
    assert (code, printed) == (2, "")
    assert "was made with rules" in complaint


def test_an_output_that_exists_is_left_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "mine").write_text("precious")
    code, printed, complaint = replay(THEFT, "--out", out)
    assert code == 2
    assert str(out) in complaint
    assert printed == ""
    assert (out / "mine").read_text() == "precious"


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (("--sarif", "mine"), "give another --sarif"),
        (("--junit", "mine"), "give another --junit"),
        (("--what-if", "interval=30s"), "--what-if takes heartbeat_interval"),
        (("--rules", "both", "--what-if", "rules=fenced"), "leave out --rules both"),
    ],
)
def test_an_option_that_cannot_be_is_told_before_anything_is_read(
    tmp_path: Path, option: tuple[str, ...], complaint: str
) -> None:
    (tmp_path / "mine").write_text("precious")
    given = [str(tmp_path / word) if word == "mine" else word for word in option]
    code, printed, told = replay(THEFT, "--out", tmp_path / "out", *given)
    assert (code, printed) == (2, "")
    assert complaint in told
    assert [path.read_text() for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("source", "interval", "named"),
    [
        ("nowhere.jsonl", "4", "nowhere.jsonl"),
        ("nowhere/*.jsonl", "4", "nowhere/*.jsonl"),
        (str(THEFT), "0", "--heartbeat-interval"),
        (str(THEFT), "-1", "--heartbeat-interval"),
        (str(THEFT), "inf", "--heartbeat-interval"),
    ],
)
def test_what_cannot_run_says_why_and_leaves_nothing(
    tmp_path: Path, source: str, interval: str, named: str
) -> None:
    out = tmp_path / "out"
    code, printed, complaint = replay(source, "--out", out, interval=interval)
    assert code == 2
    assert named in complaint
    assert printed == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "engine", ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.night])]
)
def test_an_unreadable_line_is_named_and_nothing_is_left(tmp_path: Path, engine: str) -> None:
    lines = THEFT.read_text(encoding="utf-8").splitlines()
    capture = tmp_path / "c.jsonl"
    capture.write_text("\n".join([*lines[:3], "{", *lines[3:]]), encoding="utf-8")
    out = tmp_path / "out"
    code, _, complaint = replay(capture, "--engine", engine, "--out", out)
    assert code == 2
    assert f"{capture}:4: not a JSON object" in complaint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl"]


def test_what_could_not_be_judged_is_not_counted_as_judged(tmp_path: Path) -> None:
    cut, garbage = tmp_path / "cut.jsonl", tmp_path / "garbage.jsonl"
    lines = THEFT.read_text(encoding="utf-8").splitlines(keepends=True)
    cut.write_text("".join(lines[99:]), encoding="utf-8")
    _, printed, _ = replay(cut, "--out", tmp_path / "1")
    assert "137 records of 1 log, 0 of 8 claims judged, 0 malformed records" in printed
    page = (tmp_path / "1/report.html").read_text(encoding="utf-8")
    assert "Under the fenced rules nothing could be judged." in page
    record = json.loads(lines[0]) | {"value": "nonsense"}
    garbage.write_text(json.dumps(record), encoding="utf-8")
    _, printed, _ = replay(garbage, "--out", tmp_path / "2")
    assert "1 record of 1 log, 0 claims judged, 1 malformed record" in printed
    page = (tmp_path / "2/report.html").read_text(encoding="utf-8")
    assert "No record is about a claim, so nothing could be judged." in page


@pytest.mark.spark
def test_an_interrupt_leaves_nothing_and_exits_2(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafka_marshal.cli", "replay", str(THEFT)]
    with subprocess.Popen(
        [
            *command,
            "--engine",
            "spark",
            "--heartbeat-interval",
            "4",
            "--out",
            str(tmp_path / "out"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        deadline = time.monotonic() + 60
        while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.1)  # until it has begun to write
        os.killpg(running.pid, signal.SIGINT)
        printed, complaint = running.communicate(timeout=60)
    assert (running.returncode, printed) == (2, ""), complaint
    assert complaint.splitlines()[-1] == "marshal: interrupted"
    assert "Traceback" not in complaint
    assert list(tmp_path.iterdir()) == []


def test_an_output_within_a_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_bytes(THEFT.read_bytes())
    code, _, complaint = replay(tmp_path, "--out", tmp_path / "out")
    assert code == 2
    assert "within the source" in complaint
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]


def test_nothing_is_left_where_it_was_started_but_what_was_asked_for(tmp_path: Path) -> None:
    capture = CAPTURES / "a_clean.jsonl"
    ran = marshal("replay", capture, "--heartbeat-interval", "4", "--out", "out", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
