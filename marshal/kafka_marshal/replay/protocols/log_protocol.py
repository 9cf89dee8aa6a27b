"""The interface of a protocol: claims implement it, groups do, and a third one would.

An engine only needs its `judging`; the rest turns a folded log into a summary and a page. This
module knows no protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from attrs import frozen

from kafka_marshal.replay.engines.incremental import IncrementalRun
from kafka_marshal.replay.findings.catalogue import FindingKind
from kafka_marshal.replay.fold.judging import Judging
from kafka_marshal.replay.model.folded_log import FoldedLog, all_counted
from kafka_marshal.replay.model.internal import PartitionRow
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import FINDINGS
from kafka_marshal.replay.report_data.summary import ReplaySummary, count_findings
from kafka_marshal.replay.sources import Chunk, FoundSources
from kafka_marshal.version import package_version

Again: TypeAlias = Callable[[Judging], AbstractContextManager[FoldedLog]]
"""Folds the same log under another setting, or another protocol."""
Progress: TypeAlias = Callable[[str], None]


@frozen
class RunFacts:
    """Facts about a replay after the log is folded."""

    found: FoundSources
    sources: Sequence[str]
    """The names of the sources."""
    out: Path
    topic: str | None
    """The topic that `--topic` chose."""
    went: IncrementalRun | None
    """What this run added, if it resumed."""


SummaryT = TypeVar("SummaryT", bound=ReplaySummary, covariant=True)


class Account(Protocol[SummaryT]):
    """A protocol's results for a folded log."""

    @property
    def of_logs(self) -> Sequence[FindingRow]:
        """The findings that only whole logs show; the fold does not have them."""

    def reported(
        self, facts: RunFacts, again: Again, on_progress: Progress
    ) -> tuple[SummaryT, str]:
        """The content of `summary.json`, and the text of `report.html`."""


class LogProtocol(Protocol[SummaryT]):
    """A protocol with the settings of one replay."""

    @property
    def name(self) -> str:
        """The protocol's name, the value of `--protocol`."""

    @property
    def judging(self) -> Judging:
        """The part that an engine needs."""

    @property
    def catalogue(self) -> Mapping[str, FindingKind]:
        """Every code that its findings have, in the order in which they are listed."""

    @property
    def spans(self) -> Sequence[Table[Any]]:
        """The tables whose rows a trace for Perfetto draws."""

    @property
    def compares(self) -> bool:
        """Whether `--what-if` was given: the report compares the log under other settings."""

    def check_sources(self, found: FoundSources) -> None:
        """Refuse sources that lack what this protocol needs.

        Raises:
            UnreadableSource: sources lack it.
        """

    def account(
        self, fold: FoldedLog, chunks: Sequence[Chunk], on_progress: Progress
    ) -> Account[SummaryT]:
        """The account of a folded log; `chunks` are those that were read."""


def basics(
    protocol: LogProtocol[SummaryT],
    fold: FoldedLog,
    partitions: Sequence[PartitionRow],
    of_logs: Sequence[FindingRow],
    facts: RunFacts,
) -> ReplaySummary:
    """The common part of every summary, without caveats; `partitions` are that table's rows."""
    rows = {table.name: fold.counts[table.name] for table in protocol.judging.tables.published}
    rows[FINDINGS.name] += len(of_logs)
    went = facts.went
    return ReplaySummary(
        protocol=protocol.name,
        out=facts.out,
        sources=tuple(str(source) for source in facts.sources),
        logs=facts.found.logs,
        left_out=facts.found.left_out,
        from_ms=min((row.from_ms for row in partitions), default=None),
        to_ms=max((row.to_ms for row in partitions), default=None),
        records=sum(row.records for row in partitions),
        rows=rows,
        findings=count_findings(all_counted(fold, of_logs), protocol.catalogue),
        partitions=tuple(partitions),
        caveats=(),
        version=package_version(),
        checkpoint=None
        if went is None
        else {"run": went.run, "folded": went.folded, "skipped": went.skipped},
    )


NEEDS_PARTITIONS: Final = "needs --coordination-partitions"
NO_EVENT: Final = "no record of the log could be read"


def unreadable(summary: ReplaySummary, log: str) -> bool:
    """Whether no record of the log is one of the protocol."""
    return all(row.malformed == row.records for row in summary.partitions if row.log == log)


# --- caveats that do not depend on a protocol -----------------------------------------------------


def of_formats(found: FoundSources) -> list[str]:
    """Sentences about what the sources cannot prove."""
    return [
        f"{one.format} ({times(one.files, 'file')}): {one.sentence}" for one in found.limitations
    ]


def of_empty_files(found: FoundSources) -> list[str]:
    """That files were empty."""
    empty = [each for each in found.left_out if each.endswith(": empty")]
    return [f"{times(len(empty), 'file')} in the sources' folders were empty."] if empty else []


def of_run(went: IncrementalRun | None, *, verified: bool = False) -> Iterator[str]:
    """Yield the limits of what a resumed run proves."""
    if went is None:
        return
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
