"""What the commands share: options, and how an error becomes one sentence and exit code 2."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NoReturn

import attrs
import typer
from rich.console import Console

from kafka_marshal.cli import COULD_NOT_RUN
from kafka_marshal.core.state import FENCED, ORIGINAL, Rules, milliseconds
from kafka_marshal.runtime.errors import MarshalError

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)


class RulesChoice(StrEnum):
    """One rule set."""

    fenced = "fenced"
    original = "original"


class ReplayRules(StrEnum):
    """One rule set, or both over the same log."""

    fenced = "fenced"
    original = "original"
    both = "both"


HeartbeatInterval = Annotated[
    float,
    typer.Option(
        "--heartbeat-interval",
        metavar="SECONDS",
        show_default=False,
        help="The fleet's heartbeat interval; an owner is stale after more than twice this.",
    ),
]

PauseMax = Annotated[float, typer.Option(metavar="SECONDS", help="A longer pause is cut to this.")]
CoordinationPartitions = Annotated[
    int | None,
    typer.Option(help="Partition count of the coordination topic, to find misplaced records."),
]
OneLog = Annotated[bool, typer.Option("--one-log", help="Take all sources for one log.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...", show_default=False, help="The cluster; one of its brokers will do."
    ),
]
Topic = Annotated[str, typer.Option(metavar="TOPIC", help="The coordination topic.")]
Properties = Annotated[
    Path | None,
    typer.Option(
        "-F",
        metavar="FILE",
        show_default=False,
        help="Settings of librdkafka, a line each: sasl.password=...",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", show_default=False, help="One such setting; repeat."),
]


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Say what to install when a module is missing that comes with an extra of the package."""
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"this needs {error.name}; install it with: pip install 'kafka-marshal[{extra}]'")


@contextmanager
def one_sentence(*kinds: type[Exception]) -> Iterator[None]:
    """Turn an error that the user can mend into one sentence and exit code 2."""
    try:
        yield
    except MarshalError as error:
        fail(str(error))
    except kinds as error:
        fail(str(error))


def fail(sentence: str) -> NoReturn:
    """Say what is wrong, and stop with exit code 2."""
    errors.print(f"marshal: {sentence}")
    raise typer.Exit(COULD_NOT_RUN)


def check_interval(seconds: float) -> None:
    """Stop unless it is a length of time."""
    if not (seconds > 0 and math.isfinite(seconds)):
        fail(f"--heartbeat-interval must be a number of seconds greater than 0, not {seconds:g}")


def rules_with(choice: RulesChoice, heartbeat_interval_s: float) -> Rules:
    """The chosen rule set at this interval."""
    check_interval(heartbeat_interval_s)
    rules = FENCED if choice is RulesChoice.fenced else ORIGINAL
    return attrs.evolve(rules, heartbeat_interval_ms=milliseconds(heartbeat_interval_s))
