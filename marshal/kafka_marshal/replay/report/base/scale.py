"""What a large report shows instead of every claim: totals, heat maps, worst claims.

Plain values like those of `data`, of which this module uses claims and severities. It knows neither
tables nor HTML, nor how much of it fits on a page (`details`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from kafka_marshal.replay.report.base.data import ClaimId, ClaimTimeline, RuleSetName, Severity

COLUMNS: Final = 72
"""The number of columns of a heat map."""


@frozen
class FindingTotal:
    """The number of findings of one code in one log."""

    log: str
    rules: RuleSetName | None
    code: str
    severity: Severity
    property: str | None
    findings: int


@frozen
class HeatRow:
    """The number of findings that began in each column of time."""

    name: str
    """A code, or a group."""
    severity: Severity
    """For a group, its worst severity."""
    counts: Mapping[int, int]
    """By column (0 to `COLUMNS` - 1), the number of findings; columns without any are missing."""

    @property
    def total(self) -> int:
        """The sum of all columns."""
        return sum(self.counts.values())


@frozen
class Heat:
    """The findings of one log over time."""

    log: str
    from_ms: int
    step_ms: int
    """The duration of a column."""
    codes: tuple[HeatRow, ...]
    """The worst first."""
    groups: tuple[HeatRow, ...]
    """Errors and warnings by group, the groups with the most first."""
    groups_left_out: int = 0
    """The number of further groups with findings."""


@frozen
class ClaimCounts:
    """The counts of one claim. With two rule sets, tenures, takeovers and time are the maximum."""

    claim: ClaimId
    records: int
    errors: int
    warnings: int
    findings: int
    tenures: int
    takeovers: int
    unowned_ms: int
    """Time without an owner after the first tenure, to the end of the log."""


@frozen
class ClaimFinding:
    """A finding about a claim, without its records."""

    rules: RuleSetName | None
    code: str
    severity: Severity
    offset: int | None
    at_ms: int | None
    sentence: str


@frozen
class ClaimDetail:
    """The details of one claim."""

    timeline: ClaimTimeline
    findings: tuple[ClaimFinding, ...] = ()
    tenures_only: bool = False
    """Whether it has no marks, heartbeats and pauses."""
    cut: bool = False
    """Whether it has more tenures, marks or findings than these, which are the first ones."""


@frozen
class LogCounts:
    """The counts of one log."""

    claims: int
    divergences: int
    parting: int
    """The number of claims on which the rule sets disagree."""


@frozen
class Scale:
    """A replay that is too large to draw."""

    totals: tuple[FindingTotal, ...] = ()
    heats: tuple[Heat, ...] = ()
    """Logs with the most records first; if there are many logs, only some have one."""
    claims: tuple[ClaimCounts, ...] = ()
    """The worst first: by errors, takeovers or unowned time, whichever ranks a claim highest."""
    details: Mapping[int, ClaimDetail] = field(factory=dict)
    """By index in `claims`, the details, in order of `claims`."""
    logs: Mapping[str, LogCounts] = field(factory=dict)
