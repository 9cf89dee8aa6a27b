"""Lengths of time are written the same way in every command."""

from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from kafka_marshal.cli.app import app
from tests.cli.run import CAPTURES, marshal

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


@pytest.mark.parametrize("written", ["4s", "4000ms", "4.0", "0m4s"])
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
