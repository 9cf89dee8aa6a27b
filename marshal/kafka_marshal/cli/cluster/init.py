"""`marshal init`: creates the coordination topic with the required settings."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    Bootstrap,
    HeartbeatIntervalOr60,
    Options,
    PauseMax,
    Properties,
    Topic,
    connection,
    console,
    duration,
    fleet_rules,
    needs,
    one_sentence,
)
from kafka_marshal.errors import MarshalError


def init(
    *,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="10",
            help="The number of partitions; it must never change afterwards.",
        ),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="3, or all brokers",
            help="The number of replicas of each partition.",
        ),
    ] = None,
    retention: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="7d",
            help="The retention time of records: like 36h, or `for-ever`.",
        ),
    ] = None,
    heartbeat_interval: HeartbeatIntervalOr60 = 60.0,
    pause_max: PauseMax = PAUSE_MAX_S,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Create the coordination topic, or print how the settings of an existing one differ.

    The topic has message.timestamp.type=LogAppendTime, cleanup.policy=delete, no unclean leader
    election, and three replicas of which two must be in sync (fewer on fewer brokers). Its
    retention exceeds what a reader from the log's beginning needs: the longest pause, twice the
    heartbeat interval, and a minute for a broker's clock that steps back. Beyond that, retention
    determines how long the log remembers the position of a claim without an owner.

    An existing topic is never changed. Exits 1 if it differs.
    """
    rules = fleet_rules(heartbeat_interval, pause_max)
    with needs("kafka"):
        from kafka_marshal.client.connect.admin_client import ClusterClient
        from kafka_marshal.client.connect.coordination_topic import FOR_EVER, TopicSpec
        from kafka_marshal.client.connect.coordination_topic import init as make
    kept_ms = None
    if retention == "for-ever":
        kept_ms = FOR_EVER
    elif retention is not None:
        kept_ms = duration(retention, "--retention")
    with one_sentence(MarshalError):
        made = make(
            ClusterClient(connection(bootstrap, properties, options)),
            TopicSpec(topic, partitions, replication, kept_ms, rules),
        )
    done = "created" if made.created else "exists"
    console.print(
        f"{made.topic} {done}: {made.partitions} partitions, copies of each: {made.copies}",
        markup=False,
    )
    for name, value in made.settings.items():
        console.print(Text(f"  {name}={value}", "dim"), soft_wrap=True)
    for one in made.differences:
        console.print(
            Text.assemble(
                ("differs: ", "bold yellow"),
                (f"{one.what} is {one.is_now}, not {one.wanted}", "bold"),
                f": {one.because}",
            ),
            soft_wrap=True,
        )
    if made.differences:
        console.print("Nothing was changed.")
    raise typer.Exit(FOUND_SOMETHING if made.differences else FINE)
