"""`marshal shrink`: finds the smallest part of a log that still shows a finding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafka_marshal.cli import FINE
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    CoordinationPartitions,
    ForceInterval,
    LogsInterval,
    OneLog,
    PauseMax,
    ReplayRules,
    console,
    errors,
    needs,
    one_sentence,
)


def shrink(
    finding: Annotated[
        str,
        typer.Argument(
            metavar="FINDING",
            show_default=False,
            help="CODE or CODE@OFFSET, as a replay prints it: late_heartbeat_stole@82.",
        ),
    ],
    sources: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="SOURCE",
            show_default=False,
            help="A dump of the coordination topic, as for replay; repeat for several.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(show_default=False, help="The folder to create; it must not exist."),
    ],
    heartbeat_interval: LogsInterval = None,
    force_interval: ForceInterval = False,
    rules: Annotated[
        ReplayRules, typer.Option(help="The rule set to judge by.")
    ] = ReplayRules.both,
    pause_max: PauseMax = PAUSE_MAX_S,
    coordination_partitions: CoordinationPartitions = None,
    one_log: OneLog = False,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--format", show_default=False, help="The format of the sources, as for replay."
        ),
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="For a dump that names topics, use only the records of this one.",
        ),
    ] = None,
) -> None:
    """Find the smallest part of a log that still shows a finding.

    Writes a capture of the remaining records, with their offsets and times, and a test that replays
    it. If all of them are about one claim, it also writes the story as text, ITF JSON and a
    sequence diagram. Needs no Spark. Exits 2 if the log has no such finding.
    """
    with needs("replay"):
        from kafka_marshal.capture import UnreadableSource
        from kafka_marshal.replay.errors import ReplayError
        from kafka_marshal.replay.exports.output import refuse_existing
        from kafka_marshal.replay.options import judging_of
        from kafka_marshal.replay.shrink.shrinking import WantedFinding, parts_of
        from kafka_marshal.replay.shrink.shrinking import shrink as smallest
        from kafka_marshal.replay.shrink.slices import written
        from kafka_marshal.replay.sources import find
    with (
        one_sentence(UnreadableSource, ReplayError),
        errors.status("reading") as status,
    ):
        wanted = WantedFinding.parsed(finding)
        judging = judging_of(
            rules.value,
            heartbeat_interval,
            pause_max,
            coordination_partitions,
            force_interval=force_interval,
        )
        refuse_existing(out)
        found = find(sources, one_log=one_log, source_format=source_format, topic=topic)
        parts = parts_of(found, status.update)
        shrunk = smallest(parts, wanted, judging, status.update)
        paths = written(shrunk, out)
    console.print(shrunk.finding.sentence, markup=False, soft_wrap=True)
    console.print(
        f"{len(shrunk.part.records):,} of {shrunk.records_before:,} records are needed for it "
        f"({shrunk.judged:,} parts were judged).",
        markup=False,
    )
    for path in paths:
        console.print(str(path), markup=False, soft_wrap=True)
    raise typer.Exit(FINE)
