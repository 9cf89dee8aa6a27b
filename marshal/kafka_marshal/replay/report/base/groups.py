"""The content of the page of groups as plain values, by the conventions of `data`."""

from __future__ import annotations

from attrs import frozen

from kafka_marshal.replay.model.groups.rows import (
    ControllershipRow,
    FinalGroupRow,
    GroupMarkRow,
    PartitionTenureRow,
    RebalanceRow,
)
from kafka_marshal.replay.report.base.data import Finding, ReportLog


@frozen
class InsteadMoves:
    """The moves of one group under another strategy."""

    log: str
    group: str
    strategy: str
    """The strategy of its last target."""
    instead: str
    rebalances: int
    moves: int
    """Counted like `moves_instead`, so it may differ from the moves in the table `rebalances`."""
    moves_instead: int
    largest_share: int
    """The most partitions of one member at any time."""
    largest_share_instead: int


@frozen
class GroupsReportData:
    """The content of the page."""

    title: str
    """The topic and its cluster if known, else the files."""
    sources: tuple[str, ...]
    from_ms: int | None
    """Time of the first record of all logs; None if there is no record."""
    to_ms: int | None
    records: int
    malformed: int
    refused: int
    """The number of refused events, and of refused positions of commits."""
    logs: tuple[ReportLog, ...] = ()
    caveats: tuple[str, ...] = ()
    """Sentences about the limits of the page's content."""
    groups: tuple[FinalGroupRow, ...] = ()
    """The worst first: by number of findings, then of rebalances."""
    drawn: tuple[FinalGroupRow, ...] = ()
    """The groups with a timeline."""
    tenures: tuple[PartitionTenureRow, ...] = ()
    """The tenures of drawn groups."""
    marks: tuple[GroupMarkRow, ...] = ()
    """The marks of drawn groups."""
    rebalances: tuple[RebalanceRow, ...] = ()
    """At most some hundreds, by group and offset."""
    controllerships: tuple[ControllershipRow, ...] = ()
    """At most some hundreds."""
    findings: tuple[Finding, ...] = ()
    """At most some hundreds, the worst first."""
    findings_count: int = 0
    """The number of all findings."""
    state_not_known: bool = False
    """Whether a partition's log lacks its head, or has events that this version cannot judge."""
    instead: tuple[InsteadMoves, ...] = ()
    """The moves of other strategies, if requested."""
