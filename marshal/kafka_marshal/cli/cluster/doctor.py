"""`marshal doctor`: checks whether a cluster meets the protocol's needs."""

from __future__ import annotations

import json as json_text
import sys
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import typer
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    TOPICS,
    Bootstrap,
    Keys,
    LogsInterval,
    Options,
    PauseMax,
    Properties,
    ProtocolOption,
    connection,
    console,
    errors,
    fleet_rules,
    keyring_of,
    needs,
    one_sentence,
    refuse_options_of_claims,
)
from kafka_marshal.errors import MarshalError

if TYPE_CHECKING:
    from kafka_marshal.admin.doctor.doctor import Examination

_COLOURS: Final = {"error": "bold red", "warning": "yellow", "note": "cyan", "unchecked": "magenta"}
_RECORDS: Final = 20_000


def doctor(
    *,
    bootstrap: Bootstrap = None,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            show_default="__marshal, or __marshal_groups with --groups",
            help="The coordination topic, or the log of groups.",
        ),
    ] = None,
    heartbeat_interval: LogsInterval = None,
    pause_max: PauseMax = PAUSE_MAX_S,
    records: Annotated[
        int, typer.Option(min=0, help="The number of newest records to read from each partition.")
    ] = _RECORDS,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Compare the brokers' clocks: create a topic, append to it, delete it.",
        ),
    ] = False,
    groups: Annotated[
        bool,
        typer.Option(
            "--groups",
            help="Check the log of groups with a controller instead. It reads no records.",
        ),
    ] = False,
    keys: Keys = None,
    json: Annotated[bool, typer.Option("--json", help="JSON on standard output.")] = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Check whether a cluster meets the protocol's needs; print the risk and remedy of a problem.

    It checks the coordination topic's settings, replicas, leaders and permissions. It also checks
    its newest records: their partitions, who stamped them, and whether time steps back. It changes
    nothing, except with --probe. Permissions are those of the user in these settings.

    Exits 0 if all is well, 1 if it found an error or a warning, 2 if it could not run.
    """
    if groups:
        refuse_options_of_claims(
            {
                "--heartbeat-interval": heartbeat_interval is not None,
                "--pause-max": pause_max != PAUSE_MAX_S,
                "--records": records != _RECORDS,
                "--probe": probe,
                "--keys": keys is not None,
            },
            "--groups",
        )
    rules = fleet_rules(heartbeat_interval, pause_max)
    with needs("kafka"):
        from kafka_marshal.admin.doctor.doctor import LOUD, examine
        from kafka_marshal.admin.doctor.groups_log import examine_groups
    if topic is None:
        topic = TOPICS[ProtocolOption.groups if groups else ProtocolOption.claims]
    with one_sentence(MarshalError), errors.status(f"examining {topic}"):
        settings = attrs.evolve(
            connection(bootstrap, properties, options), keyring=keyring_of(keys)
        )
        examined = (
            examine_groups(settings, topic)
            if groups
            else examine(
                settings,
                topic,
                rules,
                records_max=records,
                probe=probe,
                interval_given=heartbeat_interval is not None,
            )
        )
    if json:
        values = attrs.asdict(examined, value_serializer=_plain)
        sys.stdout.write(json_text.dumps(values, indent=2) + "\n")
    else:
        _print(examined)
    loud = any(one.severity in LOUD for one in examined.findings)
    raise typer.Exit(FOUND_SOMETHING if loud else FINE)


def _plain(_: object, __: object, value: object) -> object:
    return getattr(value, "value", value)


def _print(examined: Examination) -> None:
    console.print(
        f"{examined.topic}: {examined.partitions} partitions, copies of each: {examined.copies}, "
        f"brokers: {examined.brokers}, newest records read: {examined.records:,}",
        markup=False,
        soft_wrap=True,
    )
    for one in examined.findings:
        word = one.severity.value
        console.print(
            Text.assemble((f"{word}: ", _COLOURS[word]), (one.found, "bold")), soft_wrap=True
        )
        console.print(Text(f"  endangers: {one.endangers}"), soft_wrap=True)
        console.print(Text(f"  do: {one.do}"), soft_wrap=True)
    if examined.fine:
        console.print(Text("fine: " + ", ".join(examined.fine), "green"), soft_wrap=True)
