"""A replay that is too large to draw: counts, and details of selected claims.

The engine counts (`folded_log`). This module holds the counts of some thousands of claims, and the
rows of the worst ones. `report.details` decides how many of them fit on a page.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.model import tables
from kafka_marshal.replay.model.folded_log import (
    MEASURES,
    ClaimName,
    CountedClaim,
    FoldedLog,
    HeatSpans,
    all_counted,
)
from kafka_marshal.replay.model.published import ClaimRow, FindingRow
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.report.base import scale as page
from kafka_marshal.replay.report.base.data import ClaimTimeline, Severity
from kafka_marshal.replay.report_data.convert import (
    LANE_MAX,
    claim_id,
    lane_of,
    name_of,
)
from kafka_marshal.replay.report_data.summary import Summary

INDEX_MAX: Final = 20_000
"""The most claims to list with their counts."""
WHOLE_MAX: Final = 400
"""The most claims with all rows of a lane."""
ROWS_MAX: Final = 200_000
"""The most rows of tenures and marks to fetch, and then of tenures alone."""
BRIEF_MAX: Final = 200
"""The most tenures of a lane to fetch if only tenures are fetched."""
FINDINGS_MAX: Final = 50
"""The most findings of one claim to fetch, the worst first."""
HEATS_MAX: Final = 6
HEAT_GROUPS_MAX: Final = 20
SEVERITIES: Final = tuple(Severity)


def scale(fold: FoldedLog, summary: Summary, log_findings: Sequence[FindingRow]) -> page.Scale:
    """The content of the page that only a large replay has."""
    totals = tuple(_totals(fold, log_findings))
    counts = _counts(fold, summary)
    return page.Scale(
        totals=totals,
        heats=tuple(_heats(fold, summary, log_findings)),
        claims=tuple(counted for _, counted, _ in counts),
        details=_details(fold, summary.rules, counts),
        logs=_logs(fold, summary),
    )


def _totals(fold: FoldedLog, log_findings: Sequence[FindingRow]) -> Iterator[page.FindingTotal]:
    for row in all_counted(fold, log_findings):
        yield page.FindingTotal(
            row.log,
            row.rules,
            row.code,
            Severity(row.severity),
            CATALOGUE[row.code].property,
            row.count,
        )


def _logs(fold: FoldedLog, summary: Summary) -> dict[str, page.LogCounts]:
    claims: dict[str, int] = defaultdict(int)
    for group in summary.groups:
        claims[group.log] += group.claims
    parting = {
        counted.log: (counted.divergences, counted.parting)
        for counted in fold.divergences_of_logs()
    }
    return {
        log: page.LogCounts(count // len(summary.rules), *parting.get(log, (0, 0)))
        for log, count in claims.items()
        if count
    }


def _heats(
    fold: FoldedLog, summary: Summary, log_findings: Sequence[FindingRow]
) -> Iterator[page.Heat]:
    """Yield heat maps of the logs with the most records.

    Each has rows of findings by code, and of errors and warnings by group.
    """
    spans: dict[str, tuple[int, int]] = {}
    records: dict[str, int] = defaultdict(int)
    for row in summary.partitions:
        begin, end = spans.get(row.log, (row.from_ms, row.to_ms))
        spans[row.log] = (min(begin, row.from_ms), max(end, row.to_ms))
        records[row.log] += row.records
    chosen = sorted(spans, key=lambda log: (-records[log], log))[:HEATS_MAX]
    steps = {log: (spans[log][1] - spans[log][0]) // page.COLUMNS + 1 for log in chosen}
    if not chosen:
        return
    by_code: dict[str, _Rows] = defaultdict(_Rows)
    by_group: dict[str, _Rows] = defaultdict(_Rows)
    cut = HeatSpans(page.COLUMNS, [(log, spans[log][0], steps[log]) for log in chosen])
    for rows, counted in zip((by_code, by_group), fold.findings_over_time(cut), strict=True):
        for cell in counted:
            rows[cell.log].add(cell.name, cell.severity, cell.at, cell.count)
    for finding in log_findings:
        log, at_ms = finding.log, finding.timestamp_ms
        if log in steps and at_ms is not None:
            at = min(max((at_ms - spans[log][0]) // steps[log], 0), page.COLUMNS - 1)
            by_code[log].add(finding.code, finding.severity, at, 1)
    for log in chosen:
        groups = by_group[log].by_total()
        yield page.Heat(
            log,
            spans[log][0],
            steps[log],
            by_code[log].by_severity(),
            groups[:HEAT_GROUPS_MAX],
            max(0, len(groups) - HEAT_GROUPS_MAX),
        )


class _Rows:
    """The rows of a heat map, while they are counted."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._worst: dict[str, int] = {}

    def add(self, name: str, severity: str, at: int, count: int) -> None:
        self._counts[name][at] += count
        rank = SEVERITIES.index(Severity(severity))
        self._worst[name] = min(rank, self._worst.get(name, rank))

    def _rows(self) -> list[page.HeatRow]:
        return [
            page.HeatRow(name, SEVERITIES[self._worst[name]], dict(sorted(counts.items())))
            for name, counts in self._counts.items()
        ]

    def by_severity(self) -> tuple[page.HeatRow, ...]:
        order = list(CATALOGUE)
        rows = self._rows()
        rows.sort(key=lambda row: (SEVERITIES.index(row.severity), order.index(row.name)))
        return tuple(rows)

    def by_total(self) -> tuple[page.HeatRow, ...]:
        return tuple(sorted(self._rows(), key=lambda row: (-row.total, row.name)))


_Counted = tuple[ClaimName, page.ClaimCounts, int]
"""A claim's name, its counts, and the number of rows of its lanes."""


def _counts(fold: FoldedLog, summary: Summary) -> list[_Counted]:
    """The worst claims, at most `INDEX_MAX`, by the measure that ranks each highest."""
    ends_ms: dict[str, int] = {}
    for row in summary.partitions:
        ends_ms[row.log] = max(row.to_ms, ends_ms.get(row.log, row.to_ms))
    some = fold.counts["claims"] // len(summary.rules) > INDEX_MAX
    limit = INDEX_MAX // len(MEASURES) if some else None
    found = fold.claims_counted(ends_ms, limit)
    found.sort(key=lambda row: tuple(map(str, name_of(row))))
    best = [len(found)] * len(found)
    by_errors = [0] * len(found)
    for measure in MEASURES:
        order = sorted(
            range(len(found)), key=lambda n: (-getattr(found[n], measure), -found[n].warnings, n)
        )
        for rank, n in enumerate(order):
            by_errors[n] = rank if measure == "errors" else by_errors[n]
            if getattr(found[n], measure) or (measure == "errors" and found[n].warnings):
                best[n] = min(best[n], rank)
    ranked = [found[n] for n in sorted(range(len(found)), key=lambda n: (best[n], by_errors[n]))]
    return [(name_of(row), _of_claim(row), row.tenures + row.marks) for row in ranked]


def _of_claim(row: CountedClaim) -> page.ClaimCounts:
    return page.ClaimCounts(
        claim_id(name_of(row)),
        row.records,
        row.errors,
        row.warnings,
        row.findings,
        row.tenures,
        row.takeovers,
        row.unowned_ms,
    )


def _details(
    fold: FoldedLog, rules: Sequence[str], counts: Sequence[_Counted]
) -> dict[int, page.ClaimDetail]:
    """The first claims with all rows, the next with tenures only, within the limits."""
    whole, brief, rows = 0, 0, 0
    for _, _, of_lanes in counts[:WHOLE_MAX]:
        rows += min(of_lanes, 2 * len(rules) * LANE_MAX)
        if rows > ROWS_MAX and whole:
            break
        whole += 1
    rows = 0
    for _, counted, _ in counts[whole:]:
        rows += len(rules) * min(counted.tenures, BRIEF_MAX)
        if rows > ROWS_MAX:
            break
        brief += 1
    found = [
        *_fetched(fold, rules, counts[:whole], LANE_MAX),
        *_fetched(fold, rules, counts[whole : whole + brief], BRIEF_MAX, tenures_only=True),
    ]
    return dict(enumerate(found))


def _fetched(
    fold: FoldedLog,
    rules: Sequence[str],
    counts: Sequence[_Counted],
    lane_max: int,
    tenures_only: bool = False,
) -> Iterable[page.ClaimDetail]:
    if not counts:
        return
    wanted = [
        _Wanted(tables.TENURES, lane_max, max(each.tenures for _, each, _ in counts)),
        _Wanted(tables.FINDINGS, FINDINGS_MAX, max(each.findings for _, each, _ in counts)),
    ]
    if not tenures_only:
        most = max(of_lanes - each.tenures for _, each, of_lanes in counts)
        wanted += [_Wanted(tables.MARKS, lane_max, most), _Wanted(tables.LANES, 1, 1)]
    of_lanes, findings = _rows_of_claims(fold, [name for name, _, _ in counts], wanted)
    for name, counted, _ in counts:
        drawn = tuple(lane_of(rule_set, of_lanes[name, rule_set]) for rule_set in rules)
        shown = tuple(sorted(map(_finding, findings[name]), key=_worst_finding_first))
        cut = (
            len(shown) < counted.findings
            or max(len(lane.tenures) for lane in drawn) < counted.tenures
            or any(len(lane.marks) == lane_max for lane in drawn)
        )
        yield page.ClaimDetail(
            ClaimTimeline(counted.claim, drawn, counted.records), shown, tenures_only, cut
        )


@frozen
class _Wanted:
    """A table's rows about one claim: `limit` to fetch, and the `most` that one claim has."""

    table: Table[Any]
    limit: int
    most: int


def _rows_of_claims(
    fold: FoldedLog, names: Sequence[ClaimName], wanted: Sequence[_Wanted]
) -> tuple[Mapping[tuple[ClaimName, str], Rows], Mapping[ClaimName, list[FindingRow]]]:
    """The rows by claim and rule set, and the findings by claim.

    Tables that need no cutting are fetched in one job, the others one by one.
    """
    whole = [each.table for each in wanted if each.most <= each.limit]
    found = fold.collect_claims(whole, names)
    for each in wanted:
        if each.most > each.limit:
            found.extend(fold.first_of_claims(each.table, names, each.limit))
    of_lanes: dict[tuple[ClaimName, str], Rows] = defaultdict(Rows)
    findings: dict[ClaimName, list[FindingRow]] = defaultdict(list)
    for row in found:
        if isinstance(row, FindingRow):
            findings[name_of(row)].append(row)
        else:
            assert isinstance(row, ClaimRow)
            of_lanes[name_of(row), row.rules].add(row)
    return of_lanes, findings


def _worst_finding_first(finding: page.ClaimFinding) -> tuple[int, int]:
    return (SEVERITIES.index(finding.severity), -1 if finding.offset is None else finding.offset)


def _finding(row: FindingRow) -> page.ClaimFinding:
    return page.ClaimFinding(
        row.rules, row.code, Severity(row.severity), row.offset, row.timestamp_ms, row.sentence
    )
