"""`marshal watch`: folds a live topic, and reports what goes wrong as it happens."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    TOPICS,
    Bootstrap,
    CertainFrom,
    CoordinationTopic,
    ForceInterval,
    Keys,
    LogsInterval,
    Options,
    PauseMax,
    Properties,
    ProtocolOption,
    ReplayRules,
    Stop,
    connection,
    console,
    errors,
    fail,
    keyring_of,
    needs,
    one_sentence,
    path_of,
    refuse_options_of_claims,
    seconds,
)
from kafka_marshal.cli.durations import at
from kafka_marshal.cli.logs.owners import OwnersTable, rebalance_sentence
from kafka_marshal.cli.logs.replay import COLOURS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kafka_marshal.replay.live.live_findings import LiveEvent
    from kafka_marshal.replay.live.watch_context import WatchOptions, WatchResult

CHECKPOINT_EVERY_S: Final = 10.0


def watch(
    *,
    protocol: Annotated[
        ProtocolOption | None,
        typer.Option(
            show_default="groups for __marshal_groups, claims for any other topic",
            help="The protocol of the topic: claims, or groups with a controller.",
        ),
    ] = None,
    heartbeat_interval: LogsInterval = None,
    force_interval: ForceInterval = False,
    bootstrap: Bootstrap = None,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            show_default="__marshal, or __marshal_groups",
            help="The topic to watch.",
        ),
    ] = None,
    certain_from: CertainFrom = None,
    coordination_topic: CoordinationTopic = "__marshal",
    rules: Annotated[
        ReplayRules, typer.Option(help="The rule set to judge by.")
    ] = ReplayRules.fenced,
    pause_max: PauseMax = PAUSE_MAX_S,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=path_of("--checkpoint"),
            show_default=False,
            help="The folder from which a later start resumes; created if missing.",
        ),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=seconds("--checkpoint-every"),
            show_default="10s",
            help="How often the checkpoint is written, without --spark.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Write JSON lines to a file; with --checkpoint exactly once.",
        ),
    ] = None,
    to_topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            show_default=False,
            help="Write JSON lines to a Kafka topic, at least once.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            show_default=False,
            help="Serve metrics for Prometheus, at /metrics.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON lines instead of sentences.")
    ] = False,
    owners: Annotated[
        bool,
        typer.Option(
            "--owners",
            help="For groups: show the owners below the findings. If standard output is not a "
            "terminal, print them once, at the end.",
        ),
    ] = False,
    until_end: Annotated[
        bool,
        typer.Option("--until-end", help="Stop where the topic ended when the command started."),
    ] = False,
    keys: Keys = None,
    spark: Annotated[
        bool, typer.Option("--spark", help="Fold on Spark, one task per coordinating partition.")
    ] = False,
    trigger: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=seconds("--trigger"),
            show_default="5s",
            help="With --spark: how often new records are read, reported and committed.",
        ),
    ] = None,
    properties: Properties = None,
    options: Options = None,
) -> None:
    """Watch the log of claims or of groups, and report every finding as soon as the log shows it.

    Stop it with Ctrl-C; with --checkpoint a later start resumes exactly there. Exits 1 if it
    reported an error or a warning.
    """
    _check_engine(spark, until_end, checkpoint_every, trigger)
    if protocol is None:
        of_groups = topic == TOPICS[ProtocolOption.groups]
        protocol = ProtocolOption.groups if of_groups else ProtocolOption.claims
    of_groups = protocol is ProtocolOption.groups
    topic = TOPICS[protocol] if topic is None else topic
    if not topic:
        fail("--topic must be the name of a topic")
    if of_groups:
        refuse_options_of_claims(
            {
                "--heartbeat-interval": heartbeat_interval is not None,
                "--force-interval": force_interval,
                "--rules": rules is not ReplayRules.fenced,
                "--pause-max": pause_max != PAUSE_MAX_S,
                "--keys": keys is not None,
            }
        )
        if spark:
            fail("--spark is for claims: leave it out, and this process folds all groups")
    elif certain_from:
        fail("--certain-from is for groups: add --protocol groups")
    if owners and not of_groups:
        fail("--owners is for groups; marshal ls shows who owns claims")
    if owners and json:
        fail("--owners cannot be combined with --json, whose lines report when a tenure ends")
    if to_topic == topic:
        fail("--to-topic must not be the watched topic")
    with needs("replay"):
        from kafka_marshal.replay import ReplayError
        from kafka_marshal.replay.fold.judging import LiveJudging
        from kafka_marshal.replay.groups.groups_fold import GroupsJudging
        from kafka_marshal.replay.options import judging_of
        from kafka_marshal.replay.protocols.groups import certain_from_of
    with needs("kafka"):
        from kafka_marshal.replay.live.certainty import certain_from as claimed
        from kafka_marshal.replay.live.metrics import Metrics
        from kafka_marshal.replay.live.sinks import Lines
        from kafka_marshal.replay.live.watch_context import WatchOptions
    sentence = partial(_sentence, with_rules=rules is ReplayRules.both)
    shown = Lines(_json if json else sentence, sys.stdout.flush)
    stop = Stop()

    def note(sentence: str) -> None:
        errors.print(f"Note: {sentence}")

    with one_sentence(ReplayError), OwnersTable() if owners else nullcontext() as table:
        settings = connection(bootstrap, properties, options)
        judging: LiveJudging
        if of_groups:
            begins: Mapping[int, int] = certain_from_of(certain_from or [])
            if certain_from is None:
                begins = claimed(settings, topic, coordination_topic, note)
            judging = GroupsJudging(certain_from=begins)
        else:
            judging = judging_of(
                rules.value, heartbeat_interval, pause_max, None, force_interval=force_interval
            )
        counted = None if metrics is None else Metrics(judging.gauges)
        if counted is not None and metrics is not None:
            counted.serve(metrics)
        watched = _engine(spark, trigger)(
            WatchOptions(
                settings=settings,
                topic=topic,
                judging=judging,
                checkpoint=checkpoint,
                checkpoint_every_s=checkpoint_every or CHECKPOINT_EVERY_S,
                out=out,
                to_topic=to_topic,
                until_end=until_end,
                sinks=(shown,),
                metrics=counted,
                keyring=None if of_groups else keyring_of(keys),
                on_accounts=None if table is None else table.show,
                on_note=note,
            ),
            stop,
        )
    errors.print(f"{watched.records:,} records, {watched.loud:,} errors and warnings")
    raise typer.Exit(FOUND_SOMETHING if watched.loud else FINE)


def _check_engine(
    spark: bool, until_end: bool, checkpoint_every: float | None, trigger: float | None
) -> None:
    """Stop if an option has an invalid value with or without --spark."""
    if spark and checkpoint_every is not None:
        fail(
            "--checkpoint-every cannot be combined with --spark, which commits every "
            "batch; --trigger sets how often"
        )
    if trigger is not None and not spark:
        fail("--trigger needs --spark: otherwise every record is reported as it arrives")
    if trigger is not None and until_end:
        fail(
            "--trigger cannot be combined with --until-end: batches then follow each other "
            "without a pause"
        )


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
    from kafka_marshal.replay.model.groups.rows import RebalanceRow
    from kafka_marshal.replay.model.published import FindingRow, MalformedRow

    row = event.row
    rules: str | None = None
    if event.state == "over" or not isinstance(row, FindingRow | MalformedRow | RebalanceRow):
        return
    if isinstance(row, RebalanceRow):
        code, words = "rebalance", rebalance_sentence(row)
    elif isinstance(row, MalformedRow):
        code = "malformed_record"
        words = (
            f"The record at offset {row.offset} of coordinating partition "
            f"{row.coordinating_partition} holds no message: {row.reason}."
        )
    else:
        code, words, rules = row.code, row.sentence, row.rules
    console.print(
        Text.assemble(
            ("" if row.timestamp_ms is None else f"{at(row.timestamp_ms)} ", "dim"),
            (f"{event.severity:<7} ", COLOURS[event.severity]),
            (f"{code}: ", "bold"),
            (f"({rules}) " if with_rules and rules else "", "dim"),
            words,
        ),
        soft_wrap=True,
    )
