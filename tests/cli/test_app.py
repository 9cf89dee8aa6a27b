"""Which commands there are, and what is imported for the one that is asked for."""

from __future__ import annotations

import subprocess
import sys

import typer

from kafka_marshal.cli.app import app_of

COMMANDS = app_of().registered_commands


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
