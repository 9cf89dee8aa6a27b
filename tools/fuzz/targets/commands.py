"""The command's arguments, and the files of settings that it reads.

Commands that start something or speak to a cluster are asked only what they refuse without one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

from tests.replay.sources.readers import GIVEN
from tools.fuzz.oracle import Finding, refused_by
from tools.fuzz.target import Target
from typer.testing import CliRunner

from kafka_marshal.capture import capture_line
from kafka_marshal.cli.app import app
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.errors import InvalidOption

_STARTS_SOMETHING = ("broker", "verify", "--bootstrap", "--engine", "--tlc", "-F", "-X")
LINES = (
    "replay log.jsonl --out out --heartbeat-interval 4s --rules both",
    "replay log.jsonl --format kcat --topic t --out out --one-log --coordination-partitions 64",
    "trace log.jsonl --heartbeat-interval 10s --force-interval",
    "validate log.jsonl --heartbeat-interval 2.5s",
    "shrink orders --from log.jsonl",
    "set-position g t:0 5",
    "pause g 10m",
    "ls",
    "groups --version",
    "watch",
    "init --partitions 3",
    "receipts g",
    "--help",
)


def lines() -> Iterator[bytes]:
    """Commands as they are typed, an argument a line."""
    for line in LINES:
        yield line.replace(" ", "\n").encode()


def check_arguments(data: bytes, desk: Path) -> None:
    """Any arguments end with a documented exit code, and never with a traceback."""
    words = [part.decode("utf-8", "surrogateescape") for part in data.split(b"\n")]
    if any(set(word) & set("/~\0") or ".." in word for word in words):
        return
    if any(word.startswith(_STARTS_SOMETHING) or "--boot" in word for word in words):
        return
    log = "".join(f"{capture_line(raw)}\n" for raw in GIVEN)
    (desk / "log.jsonl").write_text(log, encoding="utf-8")
    empty = {"MARSHAL_BOOTSTRAP": "", "MARSHAL_CONFIG": os.devnull, "NO_COLOR": "1"}
    with chdir(desk):
        result = CliRunner().invoke(app, words, env=empty)
    if result.exception is not None and not isinstance(result.exception, SystemExit | OSError):
        raise result.exception
    if result.exit_code not in (0, 1, 2):
        raise Finding("exit code", f"{result.exit_code} of {words!r:.200}")
    if "Traceback" in result.output:
        raise Finding("traceback", result.output[-300:])


def settings() -> Iterator[bytes]:
    """Files of settings."""
    yield b"bootstrap.servers=a:9092\n# a comment\nsasl.password = secret-word\n! another\n\n"
    yield b"bootstrap.servers=a:9092,b:9092\nsecurity.protocol=SASL_SSL\nacks=all\n"
    yield b"bootstrap.servers=a:9092\nnot a setting secret-word\n"


def check_settings(data: bytes, desk: Path) -> None:
    """Settings are read or refused, and no error or print shows a value."""
    path = desk / "config.properties"
    path.write_bytes(data)
    with refused_by(InvalidOption):
        try:
            found = settings_of(None, path)
        except InvalidOption as error:
            if "secret-word" in str(error):
                raise Finding("secret", str(error)) from None
            raise
        if "secret-word" in repr(found) and "secret-word" not in "".join(found.values):
            raise Finding("secret", repr(found))


TARGETS = (
    Target(
        name="arguments",
        rooms=("kafka_marshal.cli",),
        seeds=lines,
        check=check_arguments,
        words=(
            *(b"--out", b"--rules", b"--heartbeat-interval", b"--pause-max", b"--what-if", b"both"),
            *(b"9" * 400 + b"d", b"0s", b"-1s", b"1h30m", b"--topic", b"log.jsonl", b"--format"),
            *(b"--coordination-partitions", b"--help", b"t:0", b"g", b"orders", b"--"),
        ),
        size_max=2048,
    ),
    Target(
        name="settings",
        rooms=("kafka_marshal.client.connect.settings",),
        seeds=settings,
        check=check_settings,
        size_max=4096,
    ),
)
