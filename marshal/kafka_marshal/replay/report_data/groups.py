"""Selects the content of the page of groups from the tables.

A page shows some hundreds of findings, rebalances and controllers, and draws the tenures that fit,
group by group. The tables hold the rest, and a caveat says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE
from kafka_marshal.replay.groups.whatif import WhatIfStrategy
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.groups.rows import FinalGroupRow, PartitionTenureRow
from kafka_marshal.replay.model.groups.tables import (
    CONTROLLERSHIPS,
    GROUP_MARKS,
    GROUP_STATES,
    PARTITION_TENURES,
    REBALANCES,
    REFUSED_EVENTS,
)
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS, MALFORMED, PARTITIONS
from kafka_marshal.replay.report.base import data as page
from kafka_marshal.replay.report.base.groups import GroupsReportData, InsteadMoves
from kafka_marshal.replay.report_data.convert import finding_of, logs_of

GROUPS_MAX: Final = 300
TENURES_MAX: Final = 10_000
REBALANCES_MAX: Final = 500
CONTROLLERS_MAX: Final = 300
FINDINGS_MAX: Final = 300


def groups_report_data(
    fold: FoldedLog,
    title: str,
    sources: Sequence[str],
    *,
    of_logs: Sequence[FindingRow] = (),
    caveats: Sequence[str] = (),
    instead: Sequence[WhatIfStrategy] = (),
) -> GroupsReportData:
    """The content of the page of groups.

    `of_logs` are findings that only whole logs show, `instead` the moves of other strategies.
    """
    partitions = fold.first(PARTITIONS, fold.counts[PARTITIONS.name])
    findings = [*of_logs, *fold.first(FINDINGS, FINDINGS_MAX, worst=True)]
    groups = _worst_first(fold.first(GROUP_STATES, GROUPS_MAX), findings)
    tenures, whole = _drawn(fold)
    drawn = [row for row in groups if _key(row) in whole]
    return GroupsReportData(
        title=title,
        sources=tuple(sources),
        from_ms=min((row.from_ms for row in partitions), default=None),
        to_ms=max((row.to_ms for row in partitions), default=None),
        records=sum(row.records for row in partitions),
        malformed=fold.counts[MALFORMED.name],
        refused=fold.counts[REFUSED_EVENTS.name],
        logs=tuple(logs_of(partitions, sorted({row.log for row in partitions}))),
        caveats=(*caveats, *_left_out(fold, len(drawn))),
        groups=tuple(groups),
        drawn=tuple(drawn),
        tenures=tuple(tenures),
        marks=tuple(row for row in fold.first(GROUP_MARKS, TENURES_MAX) if _key(row) in whole),
        rebalances=tuple(fold.first(REBALANCES, REBALANCES_MAX)),
        controllerships=tuple(fold.first(CONTROLLERSHIPS, CONTROLLERS_MAX)),
        findings=tuple(finding_of(row, GROUP_CATALOGUE) for row in findings),
        findings_count=fold.counts[FINDINGS.name] + len(of_logs),
        state_not_known=any(one.code == "state_not_known" for one in fold.findings_counted),
        instead=tuple(map(_instead, instead)),
    )


def _key(row: object) -> tuple[str, int, str]:
    return (row.log, row.coordinating_partition, row.group)  # type: ignore[attr-defined]


def _worst_first(
    groups: Iterable[FinalGroupRow], findings: Iterable[FindingRow]
) -> list[FinalGroupRow]:
    """Groups with the most errors and warnings first, then those with the most rebalances."""
    counts = Counter(
        (row.log, row.group) for row in findings if row.severity != page.Severity.INFO.value
    )
    return sorted(groups, key=lambda row: (-counts[row.log, row.group], -row.rebalances, _key(row)))


def _drawn(fold: FoldedLog) -> tuple[list[PartitionTenureRow], set[tuple[str, int, str]]]:
    """The tenures that are drawn, and the groups whose tenures are complete."""
    tenures = fold.first(PARTITION_TENURES, TENURES_MAX)
    whole = {_key(row) for row in tenures}
    if fold.counts[PARTITION_TENURES.name] > len(tenures) and tenures:
        whole.discard(_key(tenures[-1]))
    return [row for row in tenures if _key(row) in whole], whole


def _left_out(fold: FoldedLog, drawn: int) -> Iterable[str]:
    """Sentences about what the page does not show."""
    groups = fold.counts[GROUP_STATES.name]
    if fold.counts[PARTITION_TENURES.name] > TENURES_MAX:
        yield f"{drawn:,} of {groups:,} groups are drawn; the tables hold the tenures of all."
    for table, most in (
        (GROUP_STATES, GROUPS_MAX),
        (REBALANCES, REBALANCES_MAX),
        (CONTROLLERSHIPS, CONTROLLERS_MAX),
        (FINDINGS, FINDINGS_MAX),
    ):
        count = fold.counts[table.name]
        if count > most:
            yield f"The page shows {most:,} of {count:,} rows of the table {table.name}."


def _instead(answer: WhatIfStrategy) -> InsteadMoves:
    moves, moves_instead = answer.moves
    share, share_instead = answer.largest_share
    return InsteadMoves(
        log=answer.log,
        group=answer.group,
        strategy=answer.strategy,
        instead=answer.instead,
        rebalances=len(answer.rebalances),
        moves=moves,
        moves_instead=moves_instead,
        largest_share=share,
        largest_share_instead=share_instead,
    )
