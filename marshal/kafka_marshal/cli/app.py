"""The commands."""

from __future__ import annotations

import typer

from kafka_marshal.cli.broker import broker
from kafka_marshal.cli.doctor import doctor
from kafka_marshal.cli.init import init
from kafka_marshal.cli.ls import groups, ls
from kafka_marshal.cli.pausing import pause, release, resume
from kafka_marshal.cli.positions import set_position
from kafka_marshal.cli.receipts import receipts
from kafka_marshal.cli.replay import replay
from kafka_marshal.cli.shrink import shrink
from kafka_marshal.cli.trace import trace
from kafka_marshal.cli.validate import validate
from kafka_marshal.cli.verify import verify
from kafka_marshal.cli.watch import watch

app = typer.Typer(
    name="marshal",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command()(replay)
app.command()(shrink)
app.command()(trace)
app.command()(validate)
app.command()(verify)
app.command()(watch)
app.command()(broker)
app.command()(init)
app.command()(doctor)
app.command()(ls)
app.command()(groups)
app.command()(set_position)
app.command()(pause)
app.command()(resume)
app.command()(release)
app.command()(receipts)


@app.callback()
def marshal() -> None:
    """Verify, replay and trace the coordination of Kafka consumers through a log.

    Exit codes: 0 fine, 1 found something, 2 could not run.
    """
