"""`marshal redrive`: sends dead letters back to the topics that they came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    Bootstrap,
    Options,
    Properties,
    connection,
    errors,
    for_tables,
    needs,
    one_sentence,
)
from kafka_marshal.errors import MarshalError

if TYPE_CHECKING:
    from kafka_marshal.admin.redrive import Letter


def redrive(
    dead_letter_topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="The dead-letter topic.")
    ],
    *,
    bootstrap: Bootstrap = None,
    most: Annotated[
        int | None,
        typer.Option("--max", metavar="N", min=1, help="Redrive at most N letters."),
    ] = None,
    group: Annotated[
        str,
        typer.Option(
            metavar="GROUP",
            help="The group whose committed offsets record what was redriven before.",
        ),
    ] = "marshal-redrive",
    from_beginning: Annotated[
        bool,
        typer.Option("--from-beginning", help="Include letters that were redriven before."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the letters, but append nothing.")
    ] = False,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Append dead letters to the topic and partition that they came from.

    Each letter is appended to its partition, with its key, value and own headers. The marshal-dead-
    headers are removed; marshal-redrives counts how often it was redriven. The letters stay in the
    dead-letter topic. Committed offsets record what was redriven, so the next run continues after
    it. A run that is killed may append up to 1,000 letters twice.

    Letters whose headers do not name their origin, or whose partition is gone, are listed and
    skipped.

    Exits 1 if there are such letters, 0 if not, 2 if it could not run.
    """
    with needs("kafka"):
        from kafka_marshal.admin.redrive import DeadLetterTopic
    with one_sentence(MarshalError):
        letters = DeadLetterTopic(
            connection(bootstrap, properties, options), dead_letter_topic, group
        )
        if from_beginning:
            letters.from_the_beginning()
        if dry_run:
            found = [(letter, letters.why_not(letter)) for letter in letters.letters(most)]
            _print(found)
            raise typer.Exit(FOUND_SOMETHING if any(why for _, why in found) else FINE)
        with errors.status(f"redriving {dead_letter_topic}"):
            redriven = letters.redrive(most)
    if redriven.passed_over:
        _print(list(redriven.passed_over))
    for_tables().print(
        f"redriven: {redriven.appended:,} of {dead_letter_topic}; "
        f"passed over: {len(redriven.passed_over):,}"
    )
    raise typer.Exit(FOUND_SOMETHING if redriven.passed_over else FINE)


def _print(found: list[tuple[Letter, str | None]] | list[tuple[Letter, str]]) -> None:
    shown = for_tables()
    if not found:
        shown.print("no letter is left to redrive")
        return
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    for name in ("LETTER", "TO", "WAS AT"):
        table.add_column(name, no_wrap=True)
    table.add_column("REDRIVES", justify="right")
    table.add_column("IT FAILED OF", overflow="fold")
    for letter, why in found:
        to = "?" if letter.to_topic is None else f"{letter.to_topic}:{letter.to_partition}"
        table.add_row(
            Text(f"{letter.partition}:{letter.offset}"),
            Text(to),
            "?" if letter.from_offset < 0 else str(letter.from_offset),
            str(letter.redrives - 1),
            Text(letter.error if why is None else f"passed over: {why}"),
        )
    shown.print(table)
