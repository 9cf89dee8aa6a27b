"""`marshal replay`: recorded logs in; tables, a summary and a page out."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    HeartbeatInterval,
    ReplayRules,
    check_interval,
    console,
    errors,
    fail,
    one_sentence,
)

if TYPE_CHECKING:
    from kafka_marshal.replay import Summary

SEVERITIES = ("error", "warning", "info")
COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


def replay(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE...",
            show_default=False,
            help="JSONL captures, and Parquet in the schema of Spark's Kafka source: "
            "files, folders, globs.",
        ),
    ],
    heartbeat_interval: HeartbeatInterval,
    out: Annotated[
        Path,
        typer.Option(show_default=False, help="The folder to make; it must not exist."),
    ],
    rules: Annotated[ReplayRules, typer.Option(help="Which protocol judges.")] = ReplayRules.fenced,
    pause_max: Annotated[
        float, typer.Option(metavar="SECONDS", help="A longer pause is cut to this.")
    ] = 86_400,
    coordination_partitions: Annotated[
        int | None,
        typer.Option(help="Partition count of the coordination topic, to find misplaced records."),
    ] = None,
    one_log: Annotated[
        bool, typer.Option("--one-log", help="Take all sources for one log.")
    ] = False,
) -> None:
    """Replay recorded logs on Spark: who owned what, and what went wrong.

    Writes Parquet tables, summary.json and report.html. Exits 1 if there is an error or a warning
    among the findings.
    """
    check_interval(heartbeat_interval)
    try:
        from kafka_marshal.replay import JavaNotFoundError, ReplayError, UnreadableSource, run
    except ModuleNotFoundError as error:
        fail(f"a replay needs {error.name}; install it with: pip install 'kafka-marshal[replay]'")
    # py4j reports what an interrupt broke to the root logger; the user knows of the interrupt.
    logging.getLogger().addHandler(logging.NullHandler())
    with (
        one_sentence(UnreadableSource, ReplayError, JavaNotFoundError),
        errors.status("reading") as status,
    ):
        summary = run(
            sources,
            out=out,
            heartbeat_interval_s=heartbeat_interval,
            rules=rules.value,
            pause_max_s=pause_max,
            coordination_partitions=coordination_partitions,
            one_log=one_log,
            on_progress=status.update,
        )
    _show(summary)
    raise typer.Exit(FOUND_SOMETHING if summary.found_something else FINE)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _show(summary: Summary) -> None:
    """The findings as a table, and where everything is."""
    console.print(
        f"{_counted(summary.records, 'record')} of {_counted(len(summary.logs), 'log')}, "
        f"{_counted(summary.rows['claims'] // len(summary.rules), 'claim')} judged, "
        f"{_counted(summary.rows['malformed'], 'malformed record')}",
        markup=False,
    )
    for caveat in summary.caveats:
        console.print(f"Note: {caveat}", markup=False)
    table = Table(box=None, pad_edge=False)
    for column in ("finding", "rules", "severity"):
        table.add_column(column)
    table.add_column("count", justify="right")
    table.add_column("logs", overflow="fold")
    for count in sorted(
        summary.findings, key=lambda c: (SEVERITIES.index(c.severity), c.code, c.rules or "")
    ):
        table.add_row(
            count.code,
            count.rules or "-",
            Text(count.severity, style=COLOURS[count.severity]),
            str(count.findings),
            Text(", ".join(count.logs)),
        )
    console.print(table if summary.findings else "Nothing to report.")
    console.print(f"{summary.report}", markup=False, soft_wrap=True)
