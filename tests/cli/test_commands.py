"""What all commands share: how lengths of time are written, how they begin and how they end."""

from __future__ import annotations

import subprocess
import sys
from typing import get_args, get_type_hints

import pytest
import typer
from tools.runs.by_day import sampled

from kafka_marshal.cli.app import app, app_of
from tests.cli.run import CAPTURES, marshal

COMMANDS = app_of().registered_commands
CAPTURE = CAPTURES / "d3_late_heartbeat_theft.jsonl"


def test_no_option_takes_a_number_without_a_unit() -> None:
    callbacks = [command.callback for command in app.registered_commands if command.callback]
    numbers = {
        (callback.__name__, name): option.parser
        for callback in callbacks
        for name, hint in get_type_hints(callback, include_extras=True).items()
        for option in getattr(hint, "__metadata__", ())
        if float in (hint.__origin__, *get_args(hint.__origin__))
    }
    assert ("watch", "heartbeat_interval") in numbers
    assert [name for name, parser in numbers.items() if parser is None] == []


@pytest.mark.parametrize("written", sampled(["4000ms", "4s", "4.0", "0m4s"], 4))
def test_an_interval_is_the_same_in_any_unit(written: str) -> None:
    plain, other = (
        marshal("trace", CAPTURE, "--heartbeat-interval", interval) for interval in ("4", written)
    )
    assert (plain.returncode, other.returncode) == (0, 0), other.stderr
    assert plain.stdout == other.stdout != ""


def test_help_shows_a_default_with_its_unit() -> None:
    shown = marshal("ls", "--help").stdout
    assert "--heartbeat-interval" in shown
    assert "[default: (the interval in the log," in shown
    assert "else 60s)]" in shown
    assert "60.0" not in shown


def test_a_command_that_is_asked_for_is_the_one_of_that_name() -> None:
    names = [typer.main.get_command_name(of.callback.__name__) for of in COMMANDS if of.callback]
    assert len(set(names)) == len(COMMANDS)
    for name, of_all in zip(names, COMMANDS, strict=True):
        [alone] = app_of([name, "--help"]).registered_commands
        assert (alone.callback, alone.rich_help_panel) == (of_all.callback, of_all.rich_help_panel)


REPLAY = """
import gc, sys
from kafka_marshal.cli import main
sys.argv = ["marshal", "replay", "--version"]
try:
    main()
except SystemExit:
    names = {f"kafka_marshal.cli.logs.{name}" for name in ("replay", "watch")} & {*sys.modules}
    print(names, "kafka_marshal.validate" in sys.modules, gc.get_freeze_count() > 0)
"""


def test_a_command_imports_no_other_and_its_end_looks_for_no_garbage() -> None:
    said = subprocess.run(
        [sys.executable, "-c", REPLAY], capture_output=True, text=True, check=True
    )
    assert said.stdout == "{'kafka_marshal.cli.logs.replay'} False True\n"
