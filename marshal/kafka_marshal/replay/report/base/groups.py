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
    """What another strategy would have moved in one group."""

    log: str
    group: str
    strategy: str
    """That of its last target."""
    instead: str
    rebalances: int
    moves: int
    """Counted like `moves_instead`, so it may differ from the moves of the table `rebalances`."""
    moves_instead: int
    largest_share: int
    """The most partitions that one member ever had."""
    largest_share_instead: int


@frozen
class GroupsReportData:
    """Everything the page says."""

    title: str
    """The topic and its cluster as far as they are known, else the files."""
    sources: tuple[str, ...]
    from_ms: int | None
    """Time of the first record of all logs; None when there is no record."""
    to_ms: int | None
    records: int
    malformed: int
    refused: int
    """Events and positions of commits that were refused."""
    logs: tuple[ReportLog, ...] = ()
    caveats: tuple[str, ...] = ()
    """Sentences that limit what the page may be read to say."""
    groups: tuple[FinalGroupRow, ...] = ()
    """The worst first: those with most findings, then with most rebalances."""
    drawn: tuple[FinalGroupRow, ...] = ()
    """Those of `groups` that have a timeline."""
    tenures: tuple[PartitionTenureRow, ...] = ()
    """Of the groups that are drawn."""
    marks: tuple[GroupMarkRow, ...] = ()
    """Of the groups that are drawn."""
    rebalances: tuple[RebalanceRow, ...] = ()
    """Keep it to some hundreds, by group and offset."""
    controllerships: tuple[ControllershipRow, ...] = ()
    """Keep it to some hundreds."""
    findings: tuple[Finding, ...] = ()
    """Keep it to some hundreds, the worst first."""
    findings_count: int = 0
    """All of them."""
    instead: tuple[InsteadMoves, ...] = ()
    """Of other strategies, where it was asked."""
