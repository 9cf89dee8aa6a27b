"""`run`: one replay, from SOURCE arguments to a folder of tables and a page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from kafka_marshal.authentication import AuthenticityChecks, Keyring
from kafka_marshal.core.state import FENCED
from kafka_marshal.replay.engines.engine import (
    Engine,
    EngineChoice,
    EngineName,
    choose,
    run_fold,
    started,
)
from kafka_marshal.replay.engines.incremental import IncrementalRun, OpenLog, open_log, run_resumed
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.exports.files import NO_EXPORTS, Exports
from kafka_marshal.replay.exports.output import placed, refuse_existing
from kafka_marshal.replay.findings.records.authenticity import finding_of
from kafka_marshal.replay.findings.records.inputs import log_findings
from kafka_marshal.replay.findings.records.senders import clock_findings, merged
from kafka_marshal.replay.fold.options import judging_of
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.model.folded_log import CountedFindings, FoldedLog, all_counted
from kafka_marshal.replay.model.internal import ClockStatistics, GroupCountsRow, PartitionRow
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import (
    FINDINGS,
    GROUPS,
    PARTITIONS,
    PUBLISHED,
    SENDERS,
    TENURES,
    Rows,
)
from kafka_marshal.replay.report import render
from kafka_marshal.replay.report_data.small import report_data
from kafka_marshal.replay.report_data.summary import Summary, count_findings
from kafka_marshal.replay.report_data.whatif import Change, compared
from kafka_marshal.replay.sources import Chunk, FoundSources, find
from kafka_marshal.version import package_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    sources: Sequence[str],
    *,
    out: Path,
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
    checkpoint: Path | None = None,
    keyring: Keyring | None = None,
    engine: str = EngineName.auto,
    spark: SparkSession | None = None,
    on_engine: Callable[[EngineChoice], None] | None = None,
    on_progress: Callable[[str], None] | None = None,
    on_tasks: Callable[[int, int], None] | None = None,
) -> Summary:
    """Replay recorded logs and write what happened into the new folder `out`.

    Args:
        sources: dumps of any format that is known: files, folders, globs; see `sources`.
        out: the folder to make; it must not exist.
        heartbeat_interval_s: the interval of groups whose records do not say theirs, 60 s if it is
            None. If it is given, records that say another one are an error.
        force_interval: judge all groups by it, whatever their records say.
        rules: `fenced`, `original`, or `both`.
        pause_max_s: a longer pause is cut to this (fenced rules).
        coordination_partitions: partition count of the coordination topic, to find topics that
            lie on the wrong partition; None: not judged.
        one_log: take everything for one log, instead of each capture for one.
        source_format: the sources' format, one of `sources.FORMATS`; None: each is looked at.
        topic: take records of this topic alone, where a format names topics.
        named: what the sources are called in the summary, where that is not what they are: a
            live topic was put into files that do not stay.
        exports: files that the findings go to besides, for other tools.
        what_if: another setting to replay the same log under, and to compare with.
        checkpoint: the folder of one open log: what earlier runs folded is not read again, and
        `out` covers all of them. The sources are one log then. All executors see the folder.
        keyring: verifies every record of the sources, in this process and beside the fold: what is
            not authentic is a finding.
        engine: `local` folds in this process, `spark` on Spark; the tables are the same. `auto`:
            on Spark if the input is large (`engines.LOCAL_RECORDS_MAX`) or a session is given.
        spark: a session to use; None: a local one, stopped at the end, if Spark is the engine.
        on_engine: called with the engine that was chosen, and why.
        on_progress: called with a few words on what happens next.
        on_tasks: called now and then with the number of tasks that are done, and of all tasks (of
            Spark's present stages, then from another thread).

    Raises:
        UnreadableSource: a source is missing, empty or damaged; names the file and the place.
        OutputExists: `out` is there already; it is left whole.
        InvalidOption: an option's value makes no sense.
        CheckpointRefused: `checkpoint` cannot be gone on with.
        JavaNotFoundError: there is no Java for Spark, if that is the engine.
        ReplayError: anything else that kept it from running. In every case `out` is not made. The
            checkpoint is as it was, unless only the last step failed, the move of what is written
            to `out`: then the same run again makes the same `out`.
    """
    progress = on_progress or (lambda _: None)
    out = Path(out)
    judging = judging_of(
        rules,
        heartbeat_interval_s,
        pause_max_s,
        coordination_partitions,
        force_interval=force_interval,
    )
    refuse_existing(out)
    exports.check(out)
    otherwise = None if what_if is None else what_if.of(judging)
    _check_places(sources, out, checkpoint)
    if checkpoint is not None and otherwise is not None:
        raise InvalidOption(
            "--what-if needs the whole log, and with --checkpoint only what is new is read: leave "
            "one of them out"
        )
    found = find(
        [str(source) for source in sources],
        one_log=one_log or checkpoint is not None,
        source_format=source_format,
        topic=topic,
    )
    choice = choose(engine, found.chunks, session=spark is not None)
    if on_engine is not None:
        on_engine(choice)
    with (
        _taken(checkpoint, judging, topic) as log,
        placed(out) as folder,
        started(choice, spark, progress, on_tasks) as running,
        _folded(running, found.chunks, judging, log, progress) as (fold, went, commit),
    ):
        counted = fold.collect(PARTITIONS, SENDERS, GROUPS)
        clocks, of_logs = _of_logs(counted, judging)
        if keyring is not None:
            progress("verifying records")
        unauthentic = [] if keyring is None else _unauthentic(found.chunks, keyring)
        of_logs += unauthentic
        progress("writing tables")
        for table in PUBLISHED:
            fold.write(table, folder, of_logs if table is FINDINGS else ())
        summary = _summary(
            fold,
            found,
            named or sources,
            out,
            judging,
            counted,
            clocks,
            of_logs,
            went,
            keyring,
        )
        if otherwise is not None:
            progress("replaying once more, under the other setting")
            with run_fold(running, found.chunks, otherwise, progress) as other:
                also = other.collect(PARTITIONS, SENDERS, GROUPS)
                _, also_of_logs = _of_logs(also, otherwise)
                also_of_logs += unauthentic
                changed = compared((fold, judging, of_logs), (other, otherwise, also_of_logs))
            summary = attrs.evolve(summary, what_if=changed)
        progress("writing the report")
        (folder / "summary.json").write_text(summary.json(), encoding="utf-8")
        html = render(report_data(fold, summary, of_logs, topic))
        (folder / "report.html").write_text(html, encoding="utf-8")
        findings = itertools.chain(of_logs, fold.each(FINDINGS) if exports.any else ())
        tenures = fold.each(TENURES) if exports.perfetto is not None else ()
        with exports.written(findings, summary.logs, summary.rules, summary.version, tenures):
            pass
        # The next run goes on from here. What is killed before it changed nothing; what is killed
        # after it has no `out` yet, and makes the same one when it is run again.
        commit()
    return summary


@contextmanager
def _taken(
    folder: Path | None, judging: JudgingOptions, topic: str | None
) -> Iterator[OpenLog | None]:
    """The checkpoint, if there is one, held while the run lasts."""
    if folder is None:
        yield None
    else:
        with open_log(folder, _options(judging, topic)) as log:
            yield log


@contextmanager
def _folded(
    engine: Engine,
    chunks: tuple[Chunk, ...],
    judging: JudgingOptions,
    log: OpenLog | None,
    on_progress: Callable[[str], None],
) -> Iterator[tuple[FoldedLog, IncrementalRun | None, Callable[[], None]]]:
    """The whole account, and what puts it aside."""
    if log is None:
        with run_fold(engine, chunks, judging, on_progress) as fold:
            yield fold, None, lambda: None
    else:
        with run_resumed(engine, chunks, judging, log, on_progress) as resumed:
            yield resumed


def _options(judging: JudgingOptions, topic: str | None) -> dict[str, object]:
    """What a checkpoint must have been made with."""
    return {
        "rules": [rule_set.value for rule_set in judging.rule_sets],
        "heartbeat_interval_ms": judging.heartbeat_interval_ms,
        "force_interval": judging.forced,
        "pause_max_ms": judging.pause_max_ms,
        "coordination_partitions": judging.coordination_partitions,
        "topic": topic,
    }


def _check_places(sources: Sequence[str], out: Path, checkpoint: Path | None) -> None:
    """What is written does not lie in what is read."""
    written = {"--out": out} if checkpoint is None else {"--out": out, "--checkpoint": checkpoint}
    for option, path in written.items():
        for source in map(Path, sources):
            if source.is_dir() and path.resolve().is_relative_to(source.resolve()):
                raise InvalidOption(
                    f"{option} {path} lies within the source {source}: put it elsewhere"
                )
    if checkpoint is not None:
        inside, outside = checkpoint.resolve(), out.resolve()
        if inside.is_relative_to(outside) or outside.is_relative_to(inside):
            raise InvalidOption(f"--checkpoint {checkpoint} and --out {out} lie in each other")


def _of_logs(
    collected: Rows, judging: JudgingOptions
) -> tuple[list[ClockStatistics], list[FindingRow]]:
    """Senders' clocks, and the findings that only whole logs show."""
    clocks = merged(collected[SENDERS])
    return clocks, [
        *log_findings(collected[PARTITIONS]),
        *clock_findings(clocks, judging.heartbeat_interval_ms, collected[GROUPS]),
    ]


def _unauthentic(chunks: Sequence[Chunk], keyring: Keyring) -> list[FindingRow]:
    """The findings about records that are not authentic; keys do not leave this process."""
    checks: dict[str, AuthenticityChecks] = {}
    for number, chunk in enumerate(chunks):
        for batch in read_chunk(number, chunk):
            for log, raw in records_of(batch):
                if log not in checks:
                    checks[log] = AuthenticityChecks(keyring)
                checks[log].check(raw)
    return [finding_of(log, one) for log, of_log in sorted(checks.items()) for one in of_log]


def _summary(
    fold: FoldedLog,
    found: FoundSources,
    sources: Sequence[str],
    out: Path,
    judging: JudgingOptions,
    collected: Rows,
    clocks: list[ClockStatistics],
    of_logs: list[FindingRow],
    went: IncrementalRun | None,
    keyring: Keyring | None,
) -> Summary:
    partitions = collected[PARTITIONS]
    counted = all_counted(fold, of_logs)
    rows = {table.name: fold.counts[table.name] for table in PUBLISHED}
    rows[FINDINGS.name] += len(of_logs)
    return Summary(
        out=out,
        sources=tuple(str(source) for source in sources),
        logs=found.logs,
        left_out=found.left_out,
        rules=tuple(rule_set.value for rule_set in judging.rule_sets),
        heartbeat_intervals_s=_intervals_s(collected[GROUPS], judging),
        from_ms=min((row.from_ms for row in partitions), default=None),
        to_ms=max((row.to_ms for row in partitions), default=None),
        records=sum(row.records for row in partitions),
        rows=rows,
        findings=count_findings(counted),
        groups=tuple(collected[GROUPS]),
        senders=tuple(clocks),
        partitions=tuple(partitions),
        caveats=(
            *_caveats(partitions, found, counted),
            *(_of_run(went, verified=keyring is not None) if went else ()),
        ),
        version=package_version(),
        checkpoint=None
        if went is None
        else {"run": went.run, "folded": went.folded, "skipped": went.skipped},
    )


def _intervals_s(groups: list[GroupCountsRow], judging: JudgingOptions) -> tuple[float, ...]:
    """The heartbeat intervals by which groups were judged when the log ended, the longest last."""
    found = {row.heartbeat_interval_ms for row in groups}
    return tuple(ms / 1000 for ms in sorted(found or {judging.heartbeat_interval_ms}))


def _of_run(went: IncrementalRun, *, verified: bool) -> Iterator[str]:
    """What limits belief in a run that went on from another."""
    if went.skipped:
        partitions = ", ".join(str(head.partition) for head in went.heads if head.skipped)
        yield (
            f"{times(went.skipped, 'record')} of the input lie below the offset where the "
            f"checkpoint goes on (coordinating partition {partitions}): earlier runs folded those "
            f"offsets, so they were passed over, and only the last of a partition was compared."
        )
    if went.run > 1:
        yield "The tables cover all runs of the checkpoint, not of this one's sources alone."
    if went.run > 1 and verified:
        yield "Keys verified this run's sources alone, not those of earlier runs."


def _caveats(
    partitions: list[PartitionRow], found: FoundSources, counted: list[CountedFindings]
) -> list[str]:
    """What limits how far the tables may be believed."""
    caveats = [
        f"{one.format} ({times(one.files, 'file')}): {one.sentence}" for one in found.limitations
    ]
    codes = {row.code for row in counted}
    if "create_time" in codes:
        caveats.append(
            "Some records carry CreateTime, their producers' clocks, so staleness was judged by "
            "those; see create_time."
        )
    unstated = sum(row.type_not_stated for row in partitions)
    if unstated:
        caveats.append(
            f"{times(unstated, 'record')} do not say whether the broker or the producer stamped "
            f"them: senders' clocks were not judged by those."
        )
    if "head_missing" in codes:
        caveats.append(
            "Some logs do not begin at offset 0, so earlier owners are not known; head_missing "
            "says how many claims became certain, and from where on."
        )
    if "interval_mismatch" in codes:
        logs = sorted({row.log for row in counted if row.code == "interval_mismatch"})
        caveats.append(
            f"The heartbeat interval does not fit {', '.join(logs)}: what is stale there was "
            f"judged by the wrong limit."
        )
    empty = [each for each in found.left_out if each.endswith(": empty")]
    if empty:
        caveats.append(f"{times(len(empty), 'file')} in the sources' folders were empty.")
    return caveats
