"""Shared by all commands: options, signals, and errors as one sentence with exit code 2."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, Final, NoReturn, TypeVar

import attrs
import typer
from rich.console import Console
from typer.core import TyperCommand

from kafka_marshal.authentication import Keyring
from kafka_marshal.cli import COULD_NOT_RUN, interrupted
from kafka_marshal.cli.durations import duration_text, milliseconds_of
from kafka_marshal.client.connect.settings import Settings, settings_of
from kafka_marshal.core.state import FENCED, ORIGINAL, Rules, milliseconds
from kafka_marshal.core.validators import is_text
from kafka_marshal.errors import MarshalError, empty_path


class Output(Console):
    """A console whose reader may close the pipe.

    It then ends with exit code 2, since 1 means that something was found.
    """

    def on_broken_pipe(self) -> None:
        """The reader has closed the pipe."""
        try:
            super().on_broken_pipe()
        except SystemExit:
            raise SystemExit(COULD_NOT_RUN) from None


console = Output(highlight=False)
errors = Output(stderr=True, highlight=False, markup=False, soft_wrap=True)


def for_tables() -> Console:
    """The console for tables; output that is piped has no line wrapping."""
    return console if console.is_terminal else Output(width=1000, highlight=False)


F = TypeVar("F", bound=Callable[..., Any])
ANY_BYTES: Final = frozenset({"group", "sources"})
"""Arguments that need not be text: the log of claims may hold any group, and files any name."""


class TextCommand(TyperCommand):
    """A command that refuses arguments that are not UTF-8, except names of files and of groups.

    Python passes bytes that are not UTF-8 as lone surrogates. A Kafka client that receives one in a
    name crashes the process with a segmentation fault (confluent-kafka 2.16).
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command, unless an argument is not text."""
        for name, value in ctx.params.items():
            for each in value if isinstance(value, list | tuple) else (value,):
                if name not in ANY_BYTES and isinstance(each, str) and not is_text(each):
                    fail(f"{each!r} is not UTF-8 text ({name})")
        return super().invoke(ctx)


class Commands(typer.Typer):
    """A Typer app whose commands are `TextCommand`s."""

    def command(self, name: str | None = None, **how: Any) -> Callable[[F], F]:
        """Add a command."""
        return super().command(name, **{"cls": TextCommand, **how})


class RulesChoice(StrEnum):
    """One rule set."""

    fenced = "fenced"
    original = "original"


class ReplayRules(StrEnum):
    """One rule set, or both over the same log."""

    fenced = "fenced"
    original = "original"
    both = "both"


CertainFrom = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PARTITION:OFFSET",
        show_default="for a live topic the position of its controllers' claims",
        help="For groups whose log lost its head: the position of the controllers' claim, as "
        "marshal ls __marshal_controllers shows it. An accepted snapshot begins there. "
        "Repeat for several partitions.",
    ),
]
CoordinationTopic = Annotated[
    str,
    typer.Option(
        metavar="TOPIC", help="For groups: the topic in which their controllers claim partitions."
    ),
]


class ProtocolOption(StrEnum):
    """The protocol of a log."""

    claims = "claims"
    groups = "groups"


TOPICS: Final = {ProtocolOption.claims: "__marshal", ProtocolOption.groups: "__marshal_groups"}
"""The coordination topic, where it is not named."""


def refuse_options_of_claims(given: dict[str, bool], groups: str = "--protocol groups") -> None:
    """Stop the command if an option was given that does not apply to `groups`, the other option."""
    for option, is_given in given.items():
        if is_given:
            fail(f"{option} is for claims, not for {groups}")


def duration(text: str, option: str, *, longest_ms: float = math.inf) -> int:
    """Parse an option's duration into milliseconds.

    Stops the command if it is not a duration, or longer than the longest pause.
    """
    found = milliseconds_of(text)
    if not found:
        fail(f"{option} must be a duration like 90s, 10m or 1h30m, not {text!r}")
    if found > longest_ms:
        fail(
            f"{option} {text}: the longest pause is {duration_text(longest_ms)}; "
            "every reader shortens a longer one to that"
        )
    return found


def seconds(option: str) -> Callable[[str | float], float]:
    """A parser for an option that holds a duration; a number alone is in seconds."""
    return lambda given: duration(str(given), option) / 1000


def path_of(option: str) -> Callable[[str | Path], Path]:
    """A parser for an option that holds a path: an empty one would be the current folder."""

    def parsed(given: str | Path) -> Path:
        if given == "":
            fail(str(empty_path(option)))
        return Path(given)

    return parsed


def _interval(show_default: str) -> Any:
    return typer.Option(
        "--heartbeat-interval",
        metavar="DURATION",
        parser=seconds("--heartbeat-interval"),
        show_default=show_default,
        help="The fleet's heartbeat interval, like 60s; an owner is stale after more than twice "
        "this.",
    )


HeartbeatIntervalOr60 = Annotated[float, _interval("60s")]
LogsInterval = Annotated[float | None, _interval("the interval in the log, else 60s")]
"""None: each group is judged by the interval in its log, if there is one."""
ForceInterval = Annotated[
    bool,
    typer.Option(
        "--force-interval",
        help="Judge every group by --heartbeat-interval, even if the log states another interval.",
    ),
]
PauseMax = Annotated[
    float,
    typer.Option(
        "--pause-max",
        metavar="DURATION",
        parser=seconds("--pause-max"),
        show_default="1d",
        help="The fleet's maximum pause; every reader shortens a longer one to this.",
    ),
]
PAUSE_MAX_S: Final = FENCED.pause_max_ms / 1000
CoordinationPartitions = Annotated[
    int | None,
    typer.Option(help="The number of partitions of the log's topic, to find misplaced records."),
]
OneLog = Annotated[bool, typer.Option("--one-log", help="Treat all sources as one log.")]
Bootstrap = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT,...",
        show_default="MARSHAL_BOOTSTRAP",
        help="The cluster; one of its brokers is enough.",
    ),
]
LiveBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,...",
        show_default=False,
        help="Read the log from this cluster.",
    ),
]
Topic = Annotated[str, typer.Option(metavar="TOPIC", help="The coordination topic.")]
Properties = Annotated[
    Path | None,
    typer.Option(
        "-F",
        metavar="FILE",
        show_default="the configuration file",
        help="A file with librdkafka settings, one per line: sasl.password=...",
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "-X",
        metavar="KEY=VALUE",
        show_default=False,
        help="One librdkafka setting; repeat for several.",
    ),
]


Keys = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        metavar="FILE",
        show_default="MARSHAL_KEYS_FILE",
        help="Verify records with the keys in this file, and report those that are not authentic.",
    ),
]


def keyring_of(keys: Path | None) -> Keyring | None:
    """The keys in a file, or those that the environment names or contains.

    Raises:
        InvalidOption: see `Keyring.from_file`.
    """
    return Keyring.from_environment(os.environ) if keys is None else Keyring.from_file(keys)


def connection(
    bootstrap: str | None, properties: Path | None, options: list[str] | None
) -> Settings:
    """Connection settings: from the options, then the environment and the configuration file.

    Raises:
        InvalidOption: see `settings_of`.
    """
    return settings_of(bootstrap, properties, options or (), os.environ)


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Print what to install if a module is missing that an extra of the package provides."""
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"this needs {error.name}; install it with: pip install 'kafka-marshal[{extra}]'")


@contextmanager
def one_sentence(*kinds: type[Exception]) -> Iterator[None]:
    """Turn an error that the user can fix into one sentence and exit code 2."""
    try:
        yield
    except MarshalError as error:
        fail(str(error))
    except kinds as error:
        fail(said_by(error))


def said_by(error: Exception) -> str:
    """An error as a sentence for the user; an error of the system with its file and reason.

    >>> said_by(FileNotFoundError(2, "No such file or directory", "x/y"))
    'x/y: No such file or directory'
    """
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def fail(sentence: str) -> NoReturn:
    """Print what is wrong, and stop with exit code 2."""
    errors.print(f"marshal: {sentence}")
    raise typer.Exit(COULD_NOT_RUN)


def check_new_file(option: str, path: Path | None) -> None:
    """Stop if the file exists or cannot be written, before the work whose result it would hold."""
    if path is not None and path.is_dir():
        fail(f"{option} {path} is a folder")
    if path is not None and not path.parent.is_dir():
        fail(f"{option} {path}: there is no folder {path.parent}")
    if path is not None and os.path.lexists(path):
        fail(f"{option} {path}: exists already; give another {option}, or remove it first")


def check_folder(option: str, path: Path | None) -> None:
    """Stop unless the path can be a folder."""
    if path is not None and path.exists() and not path.is_dir():
        fail(f"{option} {path} is not a folder")
    for parent in path.parents if path is not None else ():
        if parent.exists() and not parent.is_dir():
            fail(f"{option} {path}: {parent} is not a folder")


def rules_with(choice: RulesChoice, heartbeat_interval_s: float | None) -> Rules:
    """The chosen rule set at this interval (None: the default)."""
    rules = FENCED if choice is RulesChoice.fenced else ORIGINAL
    if heartbeat_interval_s is None:
        return rules
    return attrs.evolve(rules, heartbeat_interval_ms=milliseconds(heartbeat_interval_s))


def fleet_rules(
    heartbeat_interval_s: float | None = None,
    pause_max_s: float = PAUSE_MAX_S,
) -> Rules:
    """The fenced rules with a fleet's interval (None: the default) and longest pause."""
    rules = rules_with(RulesChoice.fenced, heartbeat_interval_s)
    return attrs.evolve(rules, pause_max_ms=round(milliseconds(pause_max_s)))


@contextmanager
def until_interrupted() -> Iterator[None]:
    """End the block at Ctrl-C or SIGTERM, even within a request; the command then ends well."""
    with suppress(KeyboardInterrupt):
        yield


class Stop:
    """Whether to stop: true after the first Ctrl-C or SIGTERM. A second one ends the command.

    It installs its signal handlers when it is created.
    """

    def __init__(self, *, first: str = "", second: str = "", waits: bool = True) -> None:
        """Take the sentences to print at the first and at the second signal.

        Without `waits` the second one ends the process without waiting for its threads.
        """
        self._asked, self._waits = False, waits
        self._first, self._second = first, second
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ask)

    def __call__(self) -> bool:
        """Whether a stop was requested."""
        return self._asked

    def _ask(self, number: int, frame: FrameType | None) -> None:
        sentence = self._second if self._asked else self._first
        try:
            if sentence:
                errors.print(f"marshal: {sentence}")
            if self._asked and not self._waits:
                errors.print("marshal: interrupted")
        finally:
            if self._asked and not self._waits:
                os._exit(COULD_NOT_RUN)
        if self._asked:
            interrupted(number, frame)
        self._asked = True
