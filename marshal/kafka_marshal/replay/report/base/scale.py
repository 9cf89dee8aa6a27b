"""What a large report shows instead of every claim: totals, heat maps, worst claims.

Plain values like those of `data`, of which this room needs claims and severities. It knows neither
tables nor HTML, nor how much of it a page can hold (`details`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from kafka_marshal.replay.report.base.data import ClaimId, ClaimTimeline, RuleSetName, Severity

COLUMNS: Final = 72
"""Columns of a heat."""


@frozen
class FindingTotal:
    """How often one code was found in one log, all of them."""

    log: str
    rules: RuleSetName | None
    code: str
    severity: Severity
    property: str | None
    findings: int


@frozen
class HeatRow:
    """How many findings began in each column of time."""

    name: str
    """A code, or a group."""
    severity: Severity
    """Of a group the worst that it has."""
    counts: Mapping[int, int]
    """Column (0 to `COLUMNS` - 1) to findings; a column without any is not in it."""

    @property
    def total(self) -> int:
        """Of all columns."""
        return sum(self.counts.values())


@frozen
class Heat:
    """The findings of one log over its time."""

    log: str
    from_ms: int
    step_ms: int
    """How long a column is."""
    codes: tuple[HeatRow, ...]
    """The worst first."""
    groups: tuple[HeatRow, ...]
    """Errors and warnings by group, the groups with most of them first."""
    groups_left_out: int = 0
    """Groups with findings beyond those."""


@frozen
class ClaimCounts:
    """One claim in numbers. Of two rule sets tenures, takeovers and time are the larger number."""

    claim: ClaimId
    records: int
    errors: int
    warnings: int
    findings: int
    tenures: int
    takeovers: int
    unowned_ms: int
    """Time in which nobody owned it after somebody first had, to the end of the log."""


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
    """What can be looked at of one claim."""

    timeline: ClaimTimeline
    findings: tuple[ClaimFinding, ...] = ()
    tenures_only: bool = False
    """Marks, heartbeats and pauses were not fetched."""
    cut: bool = False
    """It has more tenures, marks or findings than these, which are the first ones."""


@frozen
class LogCounts:
    """What one log holds."""

    claims: int
    divergences: int
    parting: int
    """Claims on which the rule sets part."""


@frozen
class Scale:
    """A replay of more than a page can draw."""

    totals: tuple[FindingTotal, ...] = ()
    heats: tuple[Heat, ...] = ()
    """Logs with most records first; not every log of many has one."""
    claims: tuple[ClaimCounts, ...] = ()
    """The worst first: by whichever of errors, takeovers and time unowned ranks a claim highest."""
    details: Mapping[int, ClaimDetail] = field(factory=dict)
    """Index in `claims` to what is known of it; the order is that of `claims`."""
    logs: Mapping[str, LogCounts] = field(factory=dict)
