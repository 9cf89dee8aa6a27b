import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import CAPTURES, marshal

NAMES = sorted(path.stem for path in CAPTURES.glob("*.jsonl") if ".trace" not in path.name)


@pytest.mark.parametrize("name", NAMES)
def test_the_command_prints_the_originals_own_states(name: str) -> None:
    lines = (CAPTURES / f"{name}.trace.jsonl").read_text(encoding="utf-8").splitlines()
    expected = [json.loads(line) for line in lines]
    interval = str(expected[0]["hb_interval"])
    capture = CAPTURES / f"{name}.jsonl"
    ran = marshal("trace", capture, "--rules", "original", "--heartbeat-interval", interval)
    assert ran.returncode == 0, ran.stderr
    rows = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["state"] for row in rows] == [row.get("state") for row in expected]


def test_the_default_rules_are_fenced() -> None:
    capture = CAPTURES / "d3_late_heartbeat_theft.jsonl"
    ran = marshal("trace", capture, "--heartbeat-interval", "4")
    rows = {row["offset"]: row for row in map(json.loads, ran.stdout.splitlines())}
    assert rows[82]["guard"] == rows[176]["guard"] == "not_owner"
    assert set(rows[82]["state"]) >= {"owner_instance", "epoch", "paused_until_ms"}


def test_a_malformed_record_is_found(tmp_path: Path) -> None:
    capture = tmp_path / "c.jsonl"
    capture.write_text('{"partition": 0, "offset": 0, "timestamp_ms": 1, "value": "x"}\n')
    ran = marshal("trace", capture, "--heartbeat-interval", "4")
    assert ran.returncode == 1
    assert json.loads(ran.stdout)["guard"] == "length"


@pytest.mark.parametrize(
    ("rules", "count", "exits", "guard"),
    [
        *[("fenced", "4", 0, "no_range_tenure"), ("original", "4", 0, "type")],
        *[("fenced", "x", 1, "n"), ("original", "x", 1, "type")],
    ],
)
def test_a_request_for_a_range_is_no_damage(
    tmp_path: Path, rules: str, count: str, exits: int, guard: str
) -> None:
    """Under the original's rules neither, which do not know it."""
    capture = tmp_path / "c.jsonl"
    value = f"ClaimingRange/1/1/i/c/g/t/0/{count}"
    line = {"partition": 0, "offset": 0, "timestamp_ms": 1, "value": value}
    capture.write_text(json.dumps(line), encoding="utf-8")
    ran = marshal("trace", capture, "--rules", rules)
    assert (ran.returncode, json.loads(ran.stdout)["guard"]) == (exits, guard)


def test_exactly_twice_the_interval_is_not_stale_however_it_is_written(tmp_path: Path) -> None:
    capture = tmp_path / "c.jsonl"
    values = ["ClaimingPartition/1/1/a1/a/g/t/0", *["ClaimingPartition/1/1/b1/b/g/t/0"] * 2]
    rows = [
        {"partition": 0, "offset": offset, "timestamp_ms": at_ms, "value": value}
        for offset, (at_ms, value) in enumerate(zip((0, 2002, 2003), values, strict=True))
    ]
    capture.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    ran = marshal("trace", capture, "--heartbeat-interval", "1.001")
    guards = [json.loads(line)["guard"] for line in ran.stdout.splitlines()]
    assert guards == [None, "live_owner", None]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.jsonl", "--heartbeat-interval", "4"], "nowhere.jsonl: No such file"),
        ([CAPTURES, "--heartbeat-interval", "4"], "Is a directory"),
        ([CAPTURES / "a_clean.jsonl", "--force-interval"], "--heartbeat-interval"),
        (
            [CAPTURES / "a_clean.jsonl", "--heartbeat-interval", "0"],
            "like 90s, 10m or 1h30m, not '0'",
        ),
        ([CAPTURES / "a_clean.jsonl", "--heartbeat-interval", "nan"], "not 'nan'"),
        ([CAPTURES / "a_clean.jsonl", "--heartbeat-interval", "4", "--rules", "x"], "--rules"),
        ([CAPTURES / "a_clean.events.json", "--heartbeat-interval", "4"], "events.json:1: not a"),
    ],
)
def test_what_cannot_run_says_why_and_exits_2(arguments: list[str], complaint: str) -> None:
    ran = marshal("trace", *arguments)
    assert ran.returncode == 2
    assert complaint in ran.stderr
    assert "Traceback" not in ran.stderr
    assert ran.stdout == ""


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    capture = CAPTURES / "a_clean.jsonl"
    command = [sys.executable, "-m", "kafka_marshal.cli", "trace", str(capture)]
    with subprocess.Popen(
        [*command, "--heartbeat-interval", "4"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""


def test_trace_needs_neither_spark_nor_the_model_checker() -> None:
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, kafka_marshal.cli.logs.trace; print(*sys.modules, sep='\\n')",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert not {"pyspark", "pandas", "pyarrow", "kafka_marshal.modelcheck"} & set(loaded)


def saying(folder: Path, interval_ms: int) -> Path:
    """A takeover after 3 s of silence, in a log that says its heartbeat interval."""
    capture = folder / "said.jsonl"
    rows = [
        {
            "partition": 0,
            "offset": offset,
            "timestamp_ms": at_ms,
            "value": f"ClaimingPartition/1/1/{who}1/{who}/g/t/0",
            "headers": {"marshal-interval": str(interval_ms)},
        }
        for offset, (who, at_ms) in enumerate((("a", 1_000), ("b", 4_000)))
    ]
    capture.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return capture


def test_the_interval_is_the_one_that_the_log_says(tmp_path: Path) -> None:
    guards = []
    for interval_ms in (1_000, 20_000):
        ran = marshal("trace", saying(tmp_path, interval_ms))
        guards.append([json.loads(line)["guard"] for line in ran.stdout.splitlines()])
    assert guards == [[None, None], [None, "live_owner"]]


@pytest.mark.parametrize("command", ["trace", "replay", "shrink"])
def test_another_interval_than_the_log_says_has_to_be_forced(tmp_path: Path, command: str) -> None:
    capture, out = saying(tmp_path, 1_000), tmp_path / "out"
    given: dict[str, tuple[str | Path, ...]] = {
        "trace": (capture,),
        "replay": (capture, "--out", out, "--json"),
        "shrink": ("interval_mismatch", "--from", capture, "--out", out),
    }
    asked = (command, *given[command], "--heartbeat-interval", "20")
    ran = marshal(*asked)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "marshal: --heartbeat-interval: group g says 1s in the log (client a), not 20s; leave the "
        "option out, or judge by it with --force-interval\n"
    )
    assert not out.exists()
    forced = marshal(*asked, "--force-interval")
    assert "--heartbeat-interval" not in forced.stderr
    if command == "trace":
        assert '"guard": "live_owner"' in forced.stdout
    if command == "replay":
        assert json.loads(forced.stdout)["heartbeat_interval_s"] == 20
        codes = [one["code"] for one in json.loads(forced.stdout)["findings"]]
        assert "interval_mismatch" in codes
