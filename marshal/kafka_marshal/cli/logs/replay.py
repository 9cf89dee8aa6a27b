"""`marshal replay`: reads recorded logs; writes tables, a summary and a page."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from kafka_marshal.cli import FINE, FOUND_SOMETHING
from kafka_marshal.cli.common import (
    PAUSE_MAX_S,
    TOPICS,
    Bootstrap,
    CertainFrom,
    CoordinationPartitions,
    CoordinationTopic,
    ForceInterval,
    Keys,
    LogsInterval,
    OneLog,
    Options,
    PauseMax,
    Properties,
    ProtocolOption,
    ReplayRules,
    connection,
    console,
    errors,
    fail,
    keyring_of,
    needs,
    one_sentence,
    refuse_options_of_claims,
)
from kafka_marshal.errors import InvalidOption
from kafka_marshal.scratch import Scratch

if TYPE_CHECKING:
    from kafka_marshal.replay import ReplaySummary, WhatIf
    from kafka_marshal.replay.engines.engine import EngineChoice

SEVERITIES = ("error", "warning", "info")
COLOURS = {"error": "red", "warning": "yellow", "info": "dim"}


class EngineOption(StrEnum):
    """What folds."""

    auto = "auto"
    local = "local"
    spark = "spark"


def replay(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SOURCE",
            show_default=False,
            help="Dumps of the coordination topic: captures, kcat -J, console consumer, "
            "kafka-dump-log, segments, Connect sinks, Spark's Parquet; files, folders, globs, "
            "s3a://BUCKET/KEY. "
            "A live topic: kafka://HOST:PORT/TOPIC.",
        ),
    ] = None,
    *,
    protocol: Annotated[
        ProtocolOption,
        typer.Option(
            help="The protocol of the log: claims, or groups with a controller (__marshal_groups)."
        ),
    ] = ProtocolOption.claims,
    heartbeat_interval: LogsInterval = None,
    force_interval: ForceInterval = False,
    out: Annotated[
        str,
        typer.Option(
            metavar="FOLDER|URI",
            show_default=False,
            help="The folder to create; it must not exist.",
        ),
    ],
    rules: Annotated[
        ReplayRules, typer.Option(help="The rule set to judge by.")
    ] = ReplayRules.fenced,
    pause_max: PauseMax = PAUSE_MAX_S,
    coordination_partitions: CoordinationPartitions = None,
    certain_from: CertainFrom = None,
    coordination_topic: CoordinationTopic = "__marshal",
    one_log: OneLog = False,
    source_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            show_default=False,
            help="The format of the sources: capture, kcat, console, dump-log, segment, "
            "connect or parquet. By default the format of each file is detected.",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    topic: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC",
            show_default="with --bootstrap __marshal or __marshal_groups; for a dump all topics",
            help="The coordination topic. For a dump that names topics, only the records of "
            "this one.",
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="OFFSET|TIME",
            show_default="the beginning",
            help="The start in a live topic; a time without a zone is UTC.",
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="OFFSET|TIME",
            show_default="the current end",
            help="The end, exclusive.",
        ),
    ] = None,
    properties: Properties = None,
    options: Options = None,
    sarif: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Also write the findings as SARIF 2.1.0."
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Also write the findings as JUnit XML."
        ),
    ] = None,
    perfetto: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            show_default=False,
            help="Also write tenures and findings as a trace for ui.perfetto.dev, compressed "
            "if it ends with .gz.",
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE,...",
            show_default=False,
            help="Also replay under another setting, and print the differences: "
            "heartbeat_interval=30s, rules=original, pause_max=1h. For groups: "
            "strategy=NAME.",
        ),
    ] = None,
    keys: Keys = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|URI",
            show_default=False,
            help="Resume where the last run with this folder ended, and report on all its "
            "runs. The sources are then one log.",
        ),
    ] = None,
    engine: Annotated[
        EngineOption,
        typer.Option(
            help="The engine: processes of this machine, or Spark; the tables are the same. "
            "auto: Spark, if the temporary folder has less free space than 128 bytes per "
            "record."
        ),
    ] = EngineOption.auto,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            show_default=False,
            help="Fold on this Spark: spark://HOST:PORT, yarn, k8s://URL or local[N]. All its "
            "executors must see sources and outputs under the same paths or URIs.",
        ),
    ] = None,
    spark_conf: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            show_default=False,
            help="A setting of that Spark, like spark.executor.memory=4g; repeat.",
        ),
    ] = None,
    table_format: Annotated[
        str,
        typer.Option(
            metavar="FORMAT",
            help="The format of the tables: parquet; or delta or iceberg, written by the Spark "
            "of --master with packages from --spark-conf.",
        ),
    ] = "parquet",
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only errors; use the exit code.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print only summary.json.")] = False,
) -> None:
    """Replay recorded logs: who owned what, and what went wrong.

    Writes Parquet tables, summary.json and report.html. Exits 1 if the findings contain an error or
    a warning.
    """
    try:
        from kafka_marshal.replay.own_process import prepare

        prepare()
        from kafka_marshal.replay import (
            Change,
            Exports,
            GroupsSummary,
            JavaNotFoundError,
            ReplayError,
            SparkMaster,
            Summary,
            UnreadableSource,
            run,
            run_groups,
        )
        from kafka_marshal.replay.exports.output import refuse_existing
        from kafka_marshal.replay.places import place_of
        from kafka_marshal.replay.protocols.groups import certain_from_of, strategy_of
    except ModuleNotFoundError as error:
        fail(f"a replay needs {error.name}; install it with: pip install 'kafka-marshal[replay]'")
    # py4j reports what an interrupt broke to the root logger; the user knows of the interrupt.
    logging.getLogger().addHandler(logging.NullHandler())
    with (
        one_sentence(UnreadableSource, ReplayError, JavaNotFoundError),
        _progress(quiet=quiet or as_json) as bar,
        ExitStack() as scratch,
    ):
        task = bar.add_task("reading", total=None)

        def next_step(words: str) -> None:
            bar.reset(task, description=words, total=None)

        def tasks(done: int, of: int) -> None:
            bar.update(task, completed=done, total=of)

        chosen: list[EngineChoice] = []
        if spark_conf and master is None:
            fail("--spark-conf needs --master")
        spark = None if master is None else SparkMaster.parsed(master, spark_conf or ())
        strategy = change = None
        begins: dict[int, int] = {}
        if protocol is ProtocolOption.groups:
            refuse_options_of_claims(
                {
                    "--heartbeat-interval": heartbeat_interval is not None,
                    "--force-interval": force_interval,
                    "--rules": rules is not ReplayRules.fenced,
                    "--pause-max": pause_max != PAUSE_MAX_S,
                    "--keys": keys is not None,
                }
            )
            strategy = strategy_of(what_if or [])
            begins = certain_from_of(certain_from or [])
        elif certain_from:
            fail("--certain-from is for groups: add --protocol groups")
        elif what_if:
            change = Change.parsed(what_if)
        default_topic = topic or TOPICS[protocol]
        if bootstrap is not None:
            sources = [*(sources or ()), f"kafka://{bootstrap}/{default_topic}"]
        if not sources:
            try:
                where = connection(None, properties, options).bootstrap
            except InvalidOption as error:
                fail(f"a replay needs a SOURCE, and {error}")
            sources = [f"kafka://{where}/{default_topic}"]
        live = [source for source in sources if source.startswith("kafka://")]
        if not live and (begin or end or properties or options):
            fail("--from, --to, -F and -X apply to a live topic, and no SOURCE is one")
        if live:
            refuse_existing(place_of(out, "--out"))  # before minutes of reading
        if protocol is ProtocolOption.groups and certain_from is None and end is None:
            for source in live:  # before its end is looked up, so the snapshot lies before that
                begins |= _claimed(source, coordination_topic, properties, options)
        dumped = [
            _dumped(source, TOPICS[protocol], scratch, begin, end, properties, options, next_step)
            if source in live
            else source
            for source in sources
        ]
        exports = Exports(sarif, junit, perfetto)
        on_tasks = tasks if bar.live.is_started else None
        summary: Summary | GroupsSummary
        if protocol is ProtocolOption.groups:
            summary = run_groups(
                dumped,
                named=sources,
                out=out,
                strategy=strategy,
                certain_from=begins,
                coordination_partitions=coordination_partitions,
                one_log=one_log,
                source_format=source_format,
                topic=topic,
                exports=exports,
                checkpoint=checkpoint,
                engine=engine.value,
                table_format=table_format,
                spark=spark,
                on_engine=chosen.append,
                on_progress=next_step,
                on_tasks=on_tasks,
            )
        else:
            summary = run(
                dumped,
                named=sources,
                out=out,
                heartbeat_interval_s=heartbeat_interval,
                force_interval=force_interval,
                rules=rules.value,
                pause_max_s=pause_max,
                coordination_partitions=coordination_partitions,
                one_log=one_log,
                source_format=source_format,
                topic=topic,
                exports=exports,
                what_if=change,
                checkpoint=checkpoint,
                keyring=keyring_of(keys),
                engine=engine.value,
                table_format=table_format,
                spark=spark,
                on_engine=chosen.append,
                on_progress=next_step,
                on_tasks=on_tasks,
            )
    if as_json:
        typer.echo(summary.json(), nl=False)
    elif not quiet:
        console.print(*map(str, chosen), markup=False, soft_wrap=True)
        _show(summary)
        if isinstance(summary, GroupsSummary):
            for each in summary.what_if or ():
                console.print(each.sentence, markup=False, soft_wrap=True)
        elif summary.what_if is not None:
            show_difference(summary.what_if)
    raise typer.Exit(FOUND_SOMETHING if summary.found_something else FINE)


def _progress(*, quiet: bool) -> Progress:
    """A bar on standard error, if somebody looks at it; it is gone when the work is done."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=quiet or not errors.is_terminal,
    )


def _dumped(
    source: str,
    default_topic: str,
    scratch: ExitStack,
    begin: str | None,
    end: str | None,
    properties: Path | None,
    options: list[str] | None,
    on_progress: Callable[[str], None],
) -> str:
    """The live topic as a folder of files, which live as long as `scratch`."""
    with needs("kafka"):
        from kafka_marshal.replay.live.dump import RequestedRange, dump, of_address
    where, topic = of_address(source, default_topic)
    settings = connection(where, properties, options)
    folder = scratch.enter_context(Scratch("dump"))
    return str(dump(settings, topic, folder, RequestedRange(begin, end), on_progress))


def _claimed(
    source: str, coordination_topic: str, properties: Path | None, options: list[str] | None
) -> Mapping[int, int]:
    """From where on a live log of groups is certain, as its controllers' claims say."""
    with needs("kafka"):
        from kafka_marshal.replay.live.certainty import certain_from
        from kafka_marshal.replay.live.dump import of_address
    where, topic = of_address(source, TOPICS[ProtocolOption.groups])
    settings = connection(where, properties, options)
    return certain_from(
        settings, topic, coordination_topic, lambda sentence: errors.print(f"Note: {sentence}")
    )


def show_difference(what_if: WhatIf) -> None:
    """What `--what-if` came to."""
    settings = (
        f"{key} {_setting(what_if.before[key])} -> {_setting(value)}"
        for key, value in what_if.after.items()
        if what_if.before[key] != value
    )
    console.print(f"\nWhat if {', '.join(settings) or 'nothing changed'}:", markup=False)
    table = Table(box=None, pad_edge=False)
    for column in ("finding", "rules"):
        table.add_column(column)
    for column in ("before", "after"):
        table.add_column(column, justify="right")
    for count in what_if.findings:
        style = "" if count.before == count.after else "bold"
        numbers = str(count.before), str(count.after)
        table.add_row(count.code, count.rules or "-", *numbers, style=style)
    console.print(table if what_if.findings else "No findings before or after.")
    console.print(
        f"{_counted(what_if.tenures_before, 'tenure')} before, {what_if.tenures_after:,} after: "
        f"{what_if.tenures_gone:,} gone, {what_if.tenures_new:,} new; "
        f"{_counted(what_if.claims_differ, 'claim')} with other owners on the way, "
        f"{what_if.owners_differ:,} in the end.",
        markup=False,
    )
    for row in what_if.divergences:
        console.print(
            f"  {row.log}: {row.topic}/{row.topic_partition} of group {row.group} "
            f"from offset {row.offset} of partition {row.coordinating_partition}: "
            f"{_owner(row.before_owner_instance, row.before_owner_client)} -> "
            f"{_owner(row.after_owner_instance, row.after_owner_client)}",
            markup=False,
            soft_wrap=True,
        )
    more = what_if.claims_differ - len(what_if.divergences)
    if more > 0:
        console.print(f"  and {_counted(more, 'more claim')}")


def _setting(value: object) -> str:
    if value is None:
        return "the log's"
    return "+".join(map(str, value)) if isinstance(value, list) else f"{value:g} s"


def _owner(instance: str | None, client: str | None) -> str:
    return "nobody" if instance is None else f"{client} ({instance})"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _show_worst(summary: ReplaySummary) -> None:
    """What the worst findings say, in the words of the page."""
    from kafka_marshal.replay.report_data.worst import worst

    loud = sum(count.findings for count in summary.findings if count.severity != "info")
    shown = worst(summary.out, codes=[count.code for count in summary.findings])
    more = "" if len(shown) == loud else f", of {loud:,}"
    console.print(f"\nThe worst{more}:", markup=False)
    for row in shown:
        under = f" ({row.rules} rules)" if row.rules and len(summary.rules) > 1 else ""
        console.print(
            Text.assemble(
                (f"  {row.severity} ", COLOURS[row.severity]),
                (f"{row.code}{under}: ", "bold"),
                row.sentence,
            ),
            soft_wrap=True,
        )
    console.print()


def _show(summary: ReplaySummary) -> None:
    """The findings as a table, and where everything is."""
    console.print(
        f"{_counted(summary.records, 'record')} of {_counted(len(summary.logs), 'log')}, "
        f"{summary.judged} judged, "
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
    if summary.found_something:
        _show_worst(summary)
    console.print(f"{summary.report}", markup=False, soft_wrap=True)
