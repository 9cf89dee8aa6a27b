"""The commands."""

from __future__ import annotations

from typing import Annotated

import typer

from kafka_marshal.cli import FINE
from kafka_marshal.cli.cluster.broker import broker
from kafka_marshal.cli.cluster.doctor import doctor
from kafka_marshal.cli.cluster.init import init
from kafka_marshal.cli.cluster.ls import groups, ls
from kafka_marshal.cli.cluster.pause import pause, release, resume
from kafka_marshal.cli.cluster.positions import set_position
from kafka_marshal.cli.cluster.receipts import receipts
from kafka_marshal.cli.cluster.redrive import redrive
from kafka_marshal.cli.common import Commands
from kafka_marshal.cli.groups.controller import controller
from kafka_marshal.cli.groups.group import group
from kafka_marshal.cli.logs.replay import replay
from kafka_marshal.cli.logs.shrink import shrink
from kafka_marshal.cli.logs.trace import trace
from kafka_marshal.cli.logs.validate import validate
from kafka_marshal.cli.logs.verify import verify
from kafka_marshal.cli.logs.watch import watch
from kafka_marshal.version import package_version

RECORDED = "Recorded logs and runs"
LIVE = "A live cluster"
CONTROLLED = "Groups with a controller"
SPECIFIED = "The specification"
TRIES = "For tries"

app = Commands(
    name="marshal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
for panel, commands in {
    RECORDED: (replay, shrink, trace, validate),
    LIVE: (
        watch,
        init,
        doctor,
        ls,
        groups,
        set_position,
        pause,
        resume,
        release,
        receipts,
        redrive,
    ),
    CONTROLLED: (controller,),
    SPECIFIED: (verify,),
    TRIES: (broker,),
}.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(
    group,
    name="group",
    rich_help_panel=CONTROLLED,
    help="List, describe, create, delete and rewind groups that have a controller.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kafka-marshal {package_version()}")
        raise typer.Exit(FINE)


@app.callback()
def marshal(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Verify, replay and trace the coordination of Kafka consumers through a log.

    Exit codes: 0 nothing found, 1 found something, 2 could not run.
    """
