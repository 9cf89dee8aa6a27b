"""`marshal trace`: prints one line per record. It needs neither Java nor Spark."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from kafka_marshal.capture import UnreadableSource, read_capture
from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    ForceInterval,
    LogsInterval,
    RulesChoice,
    fail,
    one_sentence,
    path_of,
    rules_with,
)
from kafka_marshal.core.group_intervals import OtherInterval
from kafka_marshal.errors import OR_FORCE, contradicted
from kafka_marshal.range_codec import is_claiming_range
from kafka_marshal.trace import trace as rows_of


def trace(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", parser=path_of("FILE"), help="A JSONL capture.", show_default=False
        ),
    ],
    heartbeat_interval: LogsInterval = None,
    force_interval: ForceInterval = False,
    rules: Annotated[
        RulesChoice, typer.Option(help="The rule set to judge by.")
    ] = RulesChoice.fenced,
) -> None:
    """Print one JSON object per record: its verdict, and the state of the claim afterwards.

    Needs neither Java nor Spark. Rows are in input order; every coordinating partition is folded in
    offset order. Exits 1 if a record was malformed. A ClaimingRange under the original's rules does
    not count as malformed, because the original ignores it.
    """
    if force_interval and heartbeat_interval is None:
        fail("--force-interval needs --heartbeat-interval")
    judging = rules_with(rules, heartbeat_interval)
    with one_sentence(UnreadableSource):
        try:
            records = list(read_capture(file))
            rows = rows_of(
                records,
                judging,
                given=heartbeat_interval is not None,
                forced=force_interval,
            )
        except OtherInterval as error:
            raise contradicted(error, OR_FORCE) from None
    try:
        for row in rows:
            sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`head`) has seen enough; keep the interpreter from complaining at its exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    malformed = any(
        row["verdict"] == "malformed" and not is_claiming_range(raw.value)
        for raw, row in zip(records, rows, strict=True)
    )
    raise typer.Exit(FOUND_SOMETHING if malformed else FINE)
