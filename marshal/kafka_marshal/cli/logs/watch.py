"""`marshal watch`: a live topic in; what goes wrong, as it happens, out."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    Bootstrap,
    ForceInterval,
    Keys,
    LogsInterval,
    Options,
    PauseMax,
    Properties,
    ReplayRules,
    Stop,
    Topic,
    connection,
    console,
    errors,
    fail,
    keyring_of,
    needs,
    one_sentence,
    seconds,
)
from kafka_marshal.cli.durations import at
from kafka_marshal.cli.logs.replay import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_marshal.replay.live.live_findings import LiveEvent
    from kafka_marshal.replay.live.watch_context import WatchOptions, WatchResult

CHECKPOINT_EVERY_S: Final = 10.0


def watch(
    *,
    heartbeat_interval: LogsInterval = None,
    force_interval: ForceInterval = False,
    bootstrap: Bootstrap = None,
    topic: Topic = "__marshal",
    rules: Annotated[ReplayRules, typer.Option(help="Which protocol judges.")] = ReplayRules.fenced,
    pause_max: PauseMax = PAUSE_MAX_S,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default=False, help="Where a later start goes on from; made if new."
        ),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=seconds("--checkpoint-every"),
            show_default="10s",
            help="How often it is written, without --spark.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="JSON lines into a file; with --checkpoint each exactly once.",
        ),
    ] = None,
    to_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", show_default=False, help="The same into a Kafka topic, at least once."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT", show_default=False, help="Metrics for Prometheus, at /metrics."
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="JSON lines on standard output, not sentences.")
    ] = False,
    until_end: Annotated[
        bool, typer.Option("--until-end", help="Stop where the topic ended at the start.")
    ] = False,
    keys: Keys = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Fold on Spark, each coordinating partition by a task.")
    ] = False,
    trigger: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=seconds("--trigger"),
            show_default="5s",
            help="With --spark: how often what is new is read, reported and written.",
        ),
    ] = None,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Watch a live coordination topic: every finding as soon as the log shows it.

    Ctrl-C ends it, and with --checkpoint a later start goes on exactly there. Exits 1 if it
    reported an error or a warning.
    """
    _check_engine(spark, until_end, checkpoint_every, trigger)
    if topic == "__marshal_groups":
        fail("a watch follows claims; marshal replay --protocol groups reads that topic")
    if to_topic == topic:
        fail("--to-topic must not be the topic that is watched")
    with needs("replay"):
        from kafka_marshal.replay import ReplayError
        from kafka_marshal.replay.options import judging_of
    with needs("kafka"):
        from kafka_marshal.replay.live.metrics import Metrics
        from kafka_marshal.replay.live.sinks import Lines
        from kafka_marshal.replay.live.watch_context import WatchOptions
    sentence = partial(_sentence, with_rules=rules is ReplayRules.both)
    shown = Lines(_json if json else sentence, sys.stdout.flush)
    stop = Stop()
    with one_sentence(ReplayError):
        counted = None if metrics is None else Metrics()
        if counted is not None and metrics is not None:
            counted.serve(metrics)
        watched = _engine(spark, trigger)(
            WatchOptions(
                settings=connection(bootstrap, properties, options),
                topic=topic,
                judging=judging_of(
                    rules.value,
                    heartbeat_interval,
                    pause_max,
                    None,
                    force_interval=force_interval,
                ),
                checkpoint=checkpoint,
                checkpoint_every_s=checkpoint_every or CHECKPOINT_EVERY_S,
                out=out,
                to_topic=to_topic,
                until_end=until_end,
                sinks=(shown,),
                metrics=counted,
                keyring=keyring_of(keys),
                on_note=lambda sentence: errors.print(f"Note: {sentence}"),
            ),
            stop,
        )
    errors.print(f"{watched.records:,} records, {watched.loud:,} errors and warnings")
    raise typer.Exit(FOUND_SOMETHING if watched.loud else FINE)


def _check_engine(
    spark: bool, until_end: bool, checkpoint_every: float | None, trigger: float | None
) -> None:
    """Stop if an option makes no sense with or without --spark."""
    if spark and checkpoint_every is not None:
        fail(
            "--checkpoint-every makes no sense with --spark: every batch is committed, and "
            "--trigger says how often there is one"
        )
    if trigger is not None and not spark:
        fail("--trigger makes no sense without --spark: every record is reported as it comes")
    if trigger is not None and until_end:
        fail("--trigger makes no sense with --until-end: each batch follows the one before")


def _engine(spark: bool, trigger: float | None) -> Callable[[WatchOptions, Stop], WatchResult]:
    """What folds."""
    if not spark:
        from kafka_marshal.replay.live.watch import watch as watch_live

        return watch_live
    with needs("replay"):
        from kafka_marshal.replay.live.on_spark import TRIGGER_S, watch_on_spark
    return partial(watch_on_spark, trigger_s=trigger or TRIGGER_S)


def _json(event: LiveEvent) -> None:
    sys.stdout.write(event.json() + "\n")


def _sentence(event: LiveEvent, with_rules: bool) -> None:
    """One line; tenures end all the time and are not shown, nor is the end of what was shown."""
    from kafka_marshal.replay.model.published import MalformedRow, TenureRow

    row = event.row
    if isinstance(row, TenureRow) or event.state == "over":
        return
    if isinstance(row, MalformedRow):
        code = "malformed_record"
        words = (
            f"The record at offset {row.offset} of coordinating partition "
            f"{row.coordinating_partition} holds no message: {row.reason}."
        )
    else:
        code, words = row.code, row.sentence
    console.print(
        Text.assemble(
            ("" if row.timestamp_ms is None else f"{at(row.timestamp_ms)} ", "dim"),
            (f"{event.severity:<7} ", COLOURS[event.severity]),
            (f"{code}: ", "bold"),
            (f"({row.rules}) " if with_rules and row.rules else "", "dim"),
            words,
        ),
        soft_wrap=True,
    )
