"""The commands: where each is, and an app of all of them or of the one that is asked for.

To import all takes longer than to import any one, and so does to look at their parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from kafka_marshal.cli import FINE
from kafka_marshal.cli.common import Commands
from kafka_marshal.version import package_version

RECORDED = "Recorded logs and runs"
LIVE = "A live cluster"
CONTROLLED = "Groups with a controller"
SPECIFIED = "The specification"
TRIES = "For tries"

_COMMANDS: Final = {
    RECORDED: ("logs.replay", "logs.shrink", "logs.trace", "logs.validate"),
    LIVE: (
        "logs.watch",
        "cluster.init",
        "cluster.doctor",
        "cluster.ls",
        "cluster.ls:groups",
        "cluster.positions:set_position",
        "cluster.pause",
        "cluster.pause:resume",
        "cluster.pause:release",
        "cluster.receipts",
        "cluster.redrive",
    ),
    CONTROLLED: ("groups.controller",),
    SPECIFIED: ("logs.verify",),
    TRIES: ("cluster.broker",),
}
"""Modules below `kafka_marshal.cli`, with the function if it has another name."""


def app_of(arguments: Sequence[str] = ()) -> Commands:
    """The command that these arguments begin with; if they begin with none, all of them."""
    of_name = {
        place.rpartition(":")[2].rpartition(".")[2].replace("_", "-"): (panel, place)
        for panel, places in _COMMANDS.items()
        for place in places
    }
    asked = arguments[0] if arguments else None
    app = Commands(
        name="marshal",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
    )
    app.callback()(marshal)
    for panel, place in [of_name[asked]] if asked in of_name else of_name.values():
        module, _, name = place.partition(":")
        found = import_module(f"kafka_marshal.cli.{module}")
        function = getattr(found, name or module.rpartition(".")[2])
        app.command(rich_help_panel=panel)(function)
    if asked not in of_name:
        from kafka_marshal.cli.groups.group import group

        app.add_typer(
            group,
            name="group",
            rich_help_panel=CONTROLLED,
            help="List, describe, create, delete and rewind groups that have a controller.",
        )
    return app


def __getattr__(name: str) -> Any:
    """`app` has all commands."""
    if name == "app":
        return app_of()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kafka-marshal {package_version()}")
        raise typer.Exit(FINE)


def marshal(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Verify, replay and trace the coordination of Kafka consumers through a log.

    Exit codes: 0 nothing found, 1 found something, 2 could not run, or was interrupted by Ctrl-C or
    SIGTERM.
    """
