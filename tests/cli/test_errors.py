"""A user's mistake is one sentence that names the option or the file, and exit code 2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kafka_marshal.cli.app import app
from kafka_marshal.testing import Broker
from tests.cli.run import CAPTURES, marshal
from tests.replay.live.feeding import make_topic

CAPTURE = str(CAPTURES / "d3_late_heartbeat_theft.jsonl")
RUN = str(Path(__file__).parent.parent / "data" / "runs" / "grants_itself.jsonl")
AT = ("--bootstrap", "127.0.0.1:1")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "file").write_text("garbage\n")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("trace", "missing", "--heartbeat-interval", "4"), "missing: No such file or directory"),
        (("trace", "folder", "--heartbeat-interval", "4"), "folder: Is a directory"),
        (("trace", "empty.jsonl", "--heartbeat-interval", "4"), "empty.jsonl: the source is empty"),
        (
            ("trace", CAPTURE, "--heartbeat-interval", "nan"),
            "--heartbeat-interval must be a duration like 90s, 10m or 1h30m, not 'nan'",
        ),
        (
            ("validate", "folder"),
            "folder is no recorded run: it holds no log.jsonl, and there is no --bootstrap",
        ),
        (
            ("validate", "file", *AT),
            "file is not a folder: --bootstrap needs the folder of a recorded run",
        ),
        (
            ("validate", CAPTURE),
            f"{CAPTURE} is a log alone, and records of group g.d3 come before it states its "
            "heartbeat interval: --heartbeat-interval DURATION is needed",
        ),
        (
            ("validate", RUN, "--heartbeat-interval", "4"),
            f"{RUN} is a recorded run and states its heartbeat interval: "
            "leave out --heartbeat-interval",
        ),
        (("validate", RUN, "--slice", "folder"), "--slice folder is a folder"),
        (("validate", RUN, "--slice", "no/s"), "--slice no/s: there is no folder no"),
        (("validate", RUN, "--trace-out", "file"), "--trace-out file is not a folder"),
        (("verify", "M", "--trace-out", "file"), "--trace-out file is not a folder"),
        (("broker", "--folder", "file"), "--folder file is not a folder"),
        (("broker", "--messages", "5"), "--messages needs --topic"),
        (
            ("broker", "--topic", "orders:0"),
            "--topic 'orders:0' must be written TOPIC or TOPIC:PARTITIONS",
        ),
        (("broker", "--folder", "file/x"), "--folder file/x: file is not a folder"),
        (
            ("init", *AT, "--pause-max", "inf"),
            "--pause-max must be a duration like 90s, 10m or 1h30m, not 'inf'",
        ),
        (
            ("trace", "file", "--heartbeat-interval", "9" * 400 + "d"),
            "--heartbeat-interval must be a duration like 90s, 10m or 1h30m, not '"
            + "9" * 400
            + "d'",
        ),
        (("init", *AT, "-F", "folder"), "-F folder: Is a directory"),
        (
            ("init",),
            "no cluster given: use --bootstrap HOST:PORT or MARSHAL_BOOTSTRAP, or set "
            "bootstrap.servers in -F or in the configuration file",
        ),
        (
            ("groups", *AT, "--last", "soon"),
            "--last must be a duration like 90s, 10m or 1h30m, not 'soon'",
        ),
        (
            ("pause", "g", *AT, "--for", "30h"),
            "--for 30h: the longest pause is 1d; every reader shortens a longer one to that",
        ),
        (
            ("release", "g", "t", *AT, "--hold", "30h"),
            "--hold 30h: the longest pause is 1d; every reader shortens a longer one to that",
        ),
        (
            ("set-position", "g", "t=5", *AT, "--pause", "30h"),
            "--pause 30h: the longest pause is 1d; every reader shortens a longer one to that",
        ),
        (
            ("set-position", "g", "=5", *AT),
            "'=5' must be written TOPIC=WHERE or TOPIC:PARTITION=WHERE, where WHERE is an offset, "
            "+N, -N, earliest, latest, or a time like 2026-01-31T22:00",
        ),
        (
            ("watch", "--heartbeat-interval", "4", *AT, "--checkpoint-every", "0"),
            "--checkpoint-every must be a duration like 90s, 10m or 1h30m, not '0'",
        ),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_said_in_one_sentence(
    here: Path, arguments: tuple[str, ...], said: str
) -> None:
    ran = marshal(*arguments, cwd=here)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", f"marshal: {said}\n")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("replay", "", "--out", "new"), "SOURCE"),
        (("replay", CAPTURE, "", "--out", "new"), "SOURCE"),
        (("replay", CAPTURE, "--out", ""), "--out"),
        (("replay", CAPTURE, "--out", "new", "--checkpoint", ""), "--checkpoint"),
        (("shrink", "late_heartbeat_stole", "--from", "", "--out", "new"), "SOURCE"),
        (("trace", ""), "FILE"),
        (("validate", ""), "RUN"),
        (("validate", RUN, "--trace-out", ""), "--trace-out"),
        (("verify", "M", "--trace-out", ""), "--trace-out"),
        (("watch", *AT, "--checkpoint", ""), "--checkpoint"),
        (("broker", "--folder", ""), "--folder"),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, tuple) else "",
)
def test_an_empty_path_is_refused(
    arguments: tuple[str, ...], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a variable of a script that is not set, and not the current folder."""
    (tmp_path / "log.jsonl").write_bytes(Path(CAPTURE).read_bytes())
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, arguments)
    said = f"marshal: {named} is empty: give a path; . is the current folder\n"
    assert (ran.exit_code, ran.stdout, ran.stderr) == (2, "", said)
    assert [path.name for path in tmp_path.iterdir()] == ["log.jsonl"]


def test_a_port_that_is_taken_is_said_before_kafka_fails_at_length() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = marshal("broker", "--port", port)
    assert (ran.returncode, ran.stderr) == (2, f"marshal: --port {port}: Address already in use\n")


OUT_OF_MEMORY = """
import pyarrow
from kafka_marshal import cli, replay

def run(*_, **__):
    raise pyarrow.lib.ArrowMemoryError("malloc of size 64 failed")

replay.run = run
cli.main()
"""


def test_a_lack_of_memory_is_said_in_one_sentence(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    command = [sys.executable, "-c", OUT_OF_MEMORY, "replay", str(CAPTURE), "--out", out]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    said = "marshal: cannot go on: there is not enough memory (malloc of size 64 failed)\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", said)


@pytest.mark.parametrize("argument", ["verify", "--version"])
def test_whoever_stops_reading_is_not_told_that_something_was_found(argument: str) -> None:
    """1 would mean that; whether something was found, nobody knows now."""
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as nowhere:
        command = [sys.executable, "-m", "kafka_marshal.cli", argument]
        ran = subprocess.run(command, stdout=nowhere, stderr=subprocess.PIPE, check=False)
    assert (ran.returncode, ran.stderr) == (2, b"")


TRACE = ("trace", CAPTURE, "--heartbeat-interval", "4")
MISTAKE = ("trace", "missing", "--heartbeat-interval", "4")


@pytest.mark.parametrize(
    ("arguments", "redirected", "code", "said"),
    [
        (MISTAKE, "2>/dev/full", 2, ""),
        (MISTAKE, "2>&-", 2, ""),
        (TRACE, ">/dev/full", 2, "marshal: cannot go on: No space left on device\n"),
        (TRACE, ">/dev/full 2>&1", 2, ""),
        (TRACE, "<&- >&-", 0, ""),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_where_nothing_can_be_printed_the_exit_code_stays_true(
    arguments: tuple[str, ...], redirected: str, code: int, said: str
) -> None:
    """1 would mean that something was found. A stream that the caller closed may be left alone."""
    shell = ("sh", "-c", f'exec "$@" {redirected}', "sh")
    command = [*shell, sys.executable, "-m", "kafka_marshal.cli", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", said)


def test_the_command_says_its_version() -> None:
    ran = marshal("--version")
    assert (ran.returncode, ran.stdout) == (0, f"kafka-marshal {version('kafka-marshal')}\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("redrive", *AT, "gr\udcff"),
        ("watch", "--bootstrap", "gr\udcff"),
        ("controller", *AT, "--client-id", "gr\udcff"),
        ("group", "delete", "g", "gr\udcff"),
    ],
    ids=lambda given: given[0],
)
def test_what_is_no_text_is_refused_before_a_client_of_kafka_gets_it(
    arguments: tuple[str, ...],
) -> None:
    """As a topic's name it ended the process by a segmentation fault."""
    ran = marshal(*arguments)
    assert ran.returncode == 2
    assert ran.stderr.startswith("marshal: 'gr\\udcff' is not UTF-8 text (")


@pytest.mark.parametrize(
    "arguments", [("ls", "-X", "group.id="), ("redrive", "empty-group", "--group", "")], ids=str
)
def test_an_empty_group_id_is_refused_before_a_client_of_kafka_gets_it(
    kafka_broker: Broker, arguments: tuple[str, ...]
) -> None:
    """It aborted the process."""
    if arguments[0] == "redrive":
        make_topic(kafka_broker, arguments[1])
    ran = marshal(*arguments, "--bootstrap", kafka_broker.bootstrap)
    assert (ran.returncode, ran.stderr) == (2, "marshal: group.id must not be empty\n")


def test_files_and_groups_that_claim_may_be_called_anything() -> None:
    ran = marshal("validate", "gr\udcff")
    assert (ran.returncode, ran.stderr) == (2, "marshal: gr\\xff: No such file or directory\n")
    assert "is not UTF-8 text" not in marshal("ls", *AT, "gr\udcff").stderr


def test_a_watch_of_a_topic_without_a_name_is_refused() -> None:
    """As where a variable of a script is empty: it would watch another topic."""
    ran = CliRunner().invoke(app, ["watch", "--bootstrap", "127.0.0.1:1", "--topic", ""])
    assert (ran.exit_code, ran.stderr) == (2, "marshal: --topic must be the name of a topic\n")
