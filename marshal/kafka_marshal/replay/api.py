"""`run`: one replay, from SOURCE arguments to a folder of tables and a page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_marshal.authentication import Keyring
from kafka_marshal.core.state import FENCED
from kafka_marshal.replay.engines.engine import (
    Engine,
    EngineChoice,
    EngineName,
    choose,
    run_fold,
    started,
    writer,
)
from kafka_marshal.replay.engines.incremental import IncrementalRun, OpenLog, open_log, run_resumed
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.exports.files import NO_EXPORTS, Exports, PlacedFiles
from kafka_marshal.replay.exports.output import placed, refuse_existing
from kafka_marshal.replay.fold.judging import Judging
from kafka_marshal.replay.groups.groups_fold import GroupsJudging
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.tables import FINDINGS
from kafka_marshal.replay.options import (
    SparkMaster,
    TableFormat,
    check_partitions,
    judging_of,
)
from kafka_marshal.replay.places import UriPath, place_of
from kafka_marshal.replay.protocols.claims import ClaimsProtocol
from kafka_marshal.replay.protocols.groups import GroupsProtocol
from kafka_marshal.replay.protocols.known import check_protocol
from kafka_marshal.replay.protocols.log_protocol import LogProtocol, RunFacts, SummaryT
from kafka_marshal.replay.report_data.groups_summary import GroupsSummary
from kafka_marshal.replay.report_data.summary import Summary
from kafka_marshal.replay.report_data.whatif import Change
from kafka_marshal.replay.sources import Chunk, find
from kafka_marshal.replay.state.checkpoint import check_apart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    sources: Sequence[str],
    *,
    out: Path | str,
    heartbeat_interval_s: float | None = None,
    force_interval: bool = False,
    rules: str = "fenced",
    pause_max_s: float = FENCED.pause_max_ms / 1000,
    coordination_partitions: int | None = None,
    one_log: bool = False,
    source_format: str | None = None,
    topic: str | None = None,
    named: Sequence[str] | None = None,
    exports: Exports = NO_EXPORTS,
    what_if: Change | None = None,
    checkpoint: Path | str | None = None,
    keyring: Keyring | None = None,
    engine: str = EngineName.auto,
    table_format: str = TableFormat.parquet,
    spark: SparkSession | SparkMaster | None = None,
    on_engine: Callable[[EngineChoice], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_tasks: Callable[[int, int], None] | None = None,
) -> Summary:
    """Replay recorded logs of claims and write the results into the new folder `out`.

    Args:
        sources: dumps of any known format: files, folders, globs; see `sources`. They may be
            URIs (`places`), and so may `out` and `checkpoint`.
        out: the folder to create; it must not exist.
        heartbeat_interval_s: the interval of groups whose records state none; None: 60 s. If it
            is given, records that state another one are an error.
        force_interval: use it for all groups, whatever their records state.
        rules: `fenced`, `original`, or `both`.
        pause_max_s: a longer pause is cut to this (fenced rules).
        coordination_partitions: partition count of the coordination topic, to find topics that
            are on the wrong partition; None: not checked.
        one_log: treat all sources as one log, instead of each capture as one.
        source_format: the sources' format, one of `sources.FORMATS`; None: detect it.
        topic: only read records of this topic, if a format names topics.
        named: the names of the sources in the summary, if they differ from `sources`: a live
            topic was copied to temporary files.
        exports: further files for the findings, for other tools.
        what_if: other settings under which to replay the same log, for a comparison.
        checkpoint: the folder of one growing log: records that earlier runs folded are not read
            again, and `out` covers all runs. The sources must be one log. All executors must see
            the folder.
        keyring: verifies every record of the sources, in this process and independently of the
            fold: a record that is not authentic is a finding.
        table_format: `parquet`, or `delta` or `iceberg`: these need a Spark that is named or
            given, with their packages.
        engine: `local` folds on this machine, `spark` on Spark; the tables are the same. `auto`:
            on Spark if `spark` is given, or if the disk has too little space (`engines.choose`).
        spark: a session to use, or the master for a new one, which is stopped at the end; None: a
            local one, if Spark is the engine. All executors must see sources and outputs under
            the same paths.
        on_engine: called with the chosen engine, and the reason.
        on_progress: called with a short description of the next step.
        on_tasks: called periodically with the number of finished tasks, and of all tasks (of
            Spark's current stages, then from another thread).

    Raises:
        UnreadableSource: a source is missing, empty or damaged; names the file and the place.
        OutputExists: `out` exists already; it is not changed.
        InvalidOption: an option has an invalid value.
        CheckpointRefused: `checkpoint` cannot be resumed from.
        JavaNotFoundError: there is no Java for Spark, if that is the engine.
        ReplayError: another reason prevented the replay. In every case `out` is not created. The
            checkpoint is unchanged, unless only the last step failed, moving the output to `out`:
            then the same run again makes the same `out`.
    """
    judging = judging_of(
        rules,
        heartbeat_interval_s,
        pause_max_s,
        coordination_partitions,
        force_interval=force_interval,
    )
    otherwise = None if what_if is None else what_if.of(judging)
    return replayed(
        ClaimsProtocol(judging, otherwise, keyring),
        sources,
        out=out,
        one_log=one_log,
        source_format=source_format,
        topic=topic,
        named=named,
        exports=exports,
        checkpoint=checkpoint,
        engine=engine,
        table_format=table_format,
        spark=spark,
        on_engine=on_engine,
        on_progress=on_progress,
        on_tasks=on_tasks,
    )


def run_groups(
    sources: Sequence[str],
    *,
    out: Path | str,
    strategy: str | None = None,
    certain_from: Mapping[int, int] | None = None,
    coordination_partitions: int | None = None,
    one_log: bool = False,
    source_format: str | None = None,
    topic: str | None = None,
    named: Sequence[str] | None = None,
    exports: Exports = NO_EXPORTS,
    checkpoint: Path | str | None = None,
    engine: str = EngineName.auto,
    table_format: str = TableFormat.parquet,
    spark: SparkSession | SparkMaster | None = None,
    on_engine: Callable[[EngineChoice], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_tasks: Callable[[int, int], None] | None = None,
) -> GroupsSummary:
    """Replay recorded logs of groups with a controller, `__marshal_groups`; see `run`.

    `strategy` computes how many moves another strategy would have saved. `certain_from` is for logs
    without their head: by partition, the position of the controllers' claim, at which there is an
    accepted snapshot. Without it, such a partition is never certain. `coordination_partitions` is
    the log's number of partitions, to find groups whose events are on the wrong one.

    Raises:
        InvalidOption: there is no such strategy, or the number of partitions is invalid.
    """
    check_partitions(coordination_partitions)
    judging = GroupsJudging(
        certain_from=certain_from or {}, coordination_partitions=coordination_partitions
    )
    return replayed(
        GroupsProtocol(judging, strategy),
        sources,
        out=out,
        one_log=one_log,
        source_format=source_format,
        topic=topic,
        named=named,
        exports=exports,
        checkpoint=checkpoint,
        engine=engine,
        table_format=table_format,
        spark=spark,
        on_engine=on_engine,
        on_progress=on_progress,
        on_tasks=on_tasks,
    )


def replayed(
    log_protocol: LogProtocol[SummaryT],
    sources: Sequence[str],
    *,
    out: Path | str,
    one_log: bool = False,
    source_format: str | None = None,
    topic: str | None = None,
    named: Sequence[str] | None = None,
    exports: Exports = NO_EXPORTS,
    checkpoint: Path | str | None = None,
    engine: str = EngineName.auto,
    table_format: str = TableFormat.parquet,
    spark: SparkSession | SparkMaster | None = None,
    on_engine: Callable[[EngineChoice], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_tasks: Callable[[int, int], None] | None = None,
) -> SummaryT:
    """Replay recorded logs of any protocol; arguments and errors are those of `run`.

    Raises:
        InvalidOption: the log is not of this protocol, but clearly of another.
    """
    progress = on_progress or (lambda _: None)
    as_tables = TableFormat.parsed(table_format)
    out, judging = place_of(out, "--out"), log_protocol.judging
    if checkpoint is not None:
        checkpoint = place_of(checkpoint, "--checkpoint")
        if isinstance(checkpoint, UriPath) and checkpoint.parts[0] == "hdfs:":
            raise InvalidOption(
                f"--checkpoint {checkpoint}: HDFS replaces no file; give a folder that all "
                "executors see, or s3a://BUCKET/KEY"
            )
    if checkpoint is not None and log_protocol.compares:
        raise InvalidOption(
            "--what-if needs the whole log, and with --checkpoint only what is new is read: leave "
            "one of them out"
        )
    refuse_existing(out)
    exports.check(out, checkpoint)
    _check_places(sources, out, checkpoint)
    found = find(
        [str(source) for source in sources],
        one_log=one_log or checkpoint is not None,
        source_format=source_format,
        topic=topic,
        keys=judging.keys,
    )
    log_protocol.check_sources(found)
    choice = choose(engine, found.chunks, spark, table_format=as_tables)
    if on_engine is not None:
        on_engine(choice)
    with (
        _taken(checkpoint, judging, topic) as log,
        PlacedFiles() as exported,
        placed(out, there=as_tables is not TableFormat.parquet) as folder,
        started(choice, spark, progress, on_tasks) as running,
        _folded(running, found.chunks, judging, log, progress) as (fold, went, commit),
    ):
        check_protocol(log_protocol, fold)
        account = log_protocol.account(fold, found.chunks, progress)
        of_logs = account.of_logs
        progress("writing tables")
        write = writer(running, as_tables)
        for table in judging.tables.published:
            write(fold, table, folder, of_logs if table is FINDINGS else ())
        facts = RunFacts(found, named or sources, out, topic, went)
        again = partial(run_fold, running, found.chunks, on_progress=progress)
        summary, html = account.reported(facts, again, progress)
        (folder / "report.html").write_text(html, encoding="utf-8")
        (folder / "summary.json").write_text(summary.json(), encoding="utf-8")
        findings = itertools.chain(of_logs, fold.each(FINDINGS) if exports.any else ())
        drawn = log_protocol.spans if exports.perfetto is not None else ()
        with exports.written(
            findings,
            summary.logs,
            summary.rules,
            summary.version,
            (row for table in drawn for row in fold.each(table)),
            log_protocol.catalogue,
            {(row.log, row.coordinating_partition): row.to_ms for row in summary.partitions},
            summary.not_looked_at,
            exported,
        ):
            pass
        # The next run resumes from here. A process killed before this has changed nothing. One
        # killed after it has no `out` yet, and the same run again makes the same one.
        commit()
    return summary


@contextmanager
def _taken(folder: Path | None, judging: Judging, topic: str | None) -> Iterator[OpenLog | None]:
    """The checkpoint, if there is one, held during the run."""
    if folder is None:
        yield None
    else:
        with open_log(folder, {**judging.options, "topic": topic}) as log:
            yield log


@contextmanager
def _folded(
    engine: Engine,
    chunks: tuple[Chunk, ...],
    judging: Judging,
    log: OpenLog | None,
    on_progress: Callable[[str], None],
) -> Iterator[tuple[FoldedLog, IncrementalRun | None, Callable[[], None]]]:
    """The whole account, and the function that saves it."""
    if log is None:
        with run_fold(engine, chunks, judging, on_progress) as fold:
            yield fold, None, lambda: None
    else:
        with run_resumed(engine, chunks, judging, log, on_progress) as resumed:
            yield resumed


def _check_places(sources: Sequence[str], out: Path, checkpoint: Path | None) -> None:
    """Check that no output is within the sources."""
    written = {"--out": out} if checkpoint is None else {"--out": out, "--checkpoint": checkpoint}
    for option, path in written.items():
        for source in map(place_of, sources):
            if path.resolve().is_relative_to(source.resolve()) and source.is_dir():
                raise InvalidOption(
                    f"{option} {path} lies within the source {source}: put it elsewhere"
                )
    if checkpoint is not None:
        check_apart(checkpoint, out)
