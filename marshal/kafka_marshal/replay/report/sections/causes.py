"""Groups the findings by cause, and lists the worst groups.

A consumer that stalls loses all its claims within seconds, and each claim has findings of its own,
under each rule set. The page shows them as one incident. The log does not record causes; the
findings of one cause share their group and time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final, TypeAlias

from attrs import frozen

from kafka_marshal.replay.report.base.data import FENCED, ORIGINAL, Finding, ReportData, Severity
from kafka_marshal.replay.report.sections.timeline import _FindingMark

Group: TypeAlias = tuple[str, str | None]
"""A log and a consumer group in it; None for a finding about no group."""

_SEVERITIES: Final = list(Severity)
_NEVER: Final = float("inf")


@frozen
class Cause:
    """Findings that are shown as one incident."""

    severity: Severity
    """The worst severity of its findings."""
    group: Group
    from_ms: int | None
    """The time of the first of them; None if none has a time."""
    to_ms: int | None
    marks: tuple[_FindingMark, ...]
    """Worst first; those of one code and rule set are adjacent."""

    def by_code(self) -> Iterator[tuple[_FindingMark, ...]]:
        """Yield the findings by code and rule set, the worst first."""
        for _, alike in groupby(self.marks, key=lambda p: (p.finding.rules, p.finding.code)):
            yield tuple(alike)


def causes(data: ReportData) -> list[Cause]:
    """The findings grouped by cause, and numbered in that order.

    Errors and warnings about claims of one group belong together while the next one follows within
    two heartbeat intervals, after which a silent owner is stale. Those about a whole group or log
    belong together if they have one code. Findings of severity `info` are grouped by code, at any
    time.

    The order: severity, then the worst group first, then time.
    """
    near_ms = 2000 * data.heartbeat_interval_s
    together: dict[tuple[Group, str | None, bool], list[_FindingMark]] = defaultdict(list)
    for finding in data.findings:
        mark = _FindingMark(0, finding)
        is_event = finding.severity is not Severity.INFO and mark.at_ms is not None
        code = None if is_event and finding.topic is not None else finding.code
        together[(finding.log, finding.group), code, is_event].append(mark)
    found = [
        _cause(group, alike)
        for (group, _, is_event), marks in together.items()
        for alike in (_near(marks, near_ms) if is_event else [marks])
    ]
    ranks = worst_groups(data)

    def order(cause: Cause) -> tuple[object, ...]:
        begun = _NEVER if cause.from_ms is None else cause.from_ms
        log, group = cause.group
        first = cause.marks[0].finding
        severity = _SEVERITIES.index(cause.severity)
        return (severity, ranks[cause.group], log, group or "", begun, first.code)

    numbered, number = [], 0
    for cause in sorted(found, key=order):
        marks = tuple(
            _FindingMark(number + n, mark.finding) for n, mark in enumerate(cause.marks, start=1)
        )
        number += len(marks)
        numbered.append(
            Cause(cause.severity, cause.group, cause.from_ms, cause.to_ms, marks),
        )
    return numbered


def worst_groups(data: ReportData) -> Mapping[Group, tuple[int, int]]:
    """The negative numbers of errors and warnings by group, so that the worst group sorts first.

    In a large replay, the counts of all listed claims are used, since the page may omit findings.
    """
    counts: Counter[tuple[Group, Severity]] = Counter()
    for finding in data.findings:
        if data.scale is None or finding.topic is None:
            counts[(finding.log, finding.group), finding.severity] += 1
    for counted in data.scale.claims if data.scale is not None else ():
        group = (counted.claim.log, counted.claim.group)
        counts[group, Severity.ERROR] += counted.errors
        counts[group, Severity.WARNING] += counted.warnings
    groups = {group for group, _ in counts}
    ranks = {
        group: (-counts[group, Severity.ERROR], -counts[group, Severity.WARNING])
        for group in groups
    }
    return defaultdict(lambda: (0, 0), ranks)


def _near(marks: Iterable[_FindingMark], near_ms: float) -> Iterator[list[_FindingMark]]:
    """Yield groups of marks in which each follows the one before within `near_ms`."""
    alike: list[_FindingMark] = []
    for mark in sorted(marks, key=lambda p: p.at_ms or 0):
        if alike and (mark.at_ms or 0) - (alike[-1].at_ms or 0) > near_ms:
            yield alike
            alike = []
        alike.append(mark)
    yield alike


def _cause(group: Group, marks: Iterable[_FindingMark]) -> Cause:
    ordered = tuple(sorted(marks, key=_order))
    times = [mark.at_ms for mark in ordered if mark.at_ms is not None]
    severity = min((p.finding.severity for p in ordered), key=_SEVERITIES.index)
    begun, ended = min(times, default=None), max(times, default=None)
    return Cause(severity, group, begun, ended, ordered)


def _order(mark: _FindingMark) -> tuple[object, ...]:
    finding: Finding = mark.finding
    known = finding.rules in (ORIGINAL, FENCED)
    return (
        _SEVERITIES.index(finding.severity),
        ("", ORIGINAL, FENCED).index(finding.rules or "") if known else 0,
        finding.rules is not None,
        finding.rules or "",
        finding.code,
        finding.topic or "",
        -1 if finding.topic_partition is None else finding.topic_partition,
        finding.coordinating_partition or 0,
        -1 if mark.offset is None else mark.offset,
    )
