"""What a replay of `__marshal_groups` came to, in numbers and for its page."""

from __future__ import annotations

from typing import Any, Final, Self

import attrs
from attrs import frozen

from kafka_marshal.replay.groups.whatif import WhatIfStrategy
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.groups.rows import FinalGroupRow
from kafka_marshal.replay.model.groups.tables import CONTROLLERSHIPS, GROUP_STATES, REBALANCES
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.model.tables import FINDINGS
from kafka_marshal.replay.report import GroupsData
from kafka_marshal.replay.report.base import data as page
from kafka_marshal.replay.report_data.convert import finding_of
from kafka_marshal.replay.report_data.small import FINDINGS_MAX, logs_of, title_of
from kafka_marshal.replay.report_data.summary import Json, ReplaySummary

GROUPS_MAX: Final = 1_000
ROWS_MAX: Final = 300
"""Rebalances and controllerships that the page lists, at most."""


@frozen(kw_only=True)
class GroupsSummary(ReplaySummary):
    """What a replay of groups came to."""

    groups: tuple[FinalGroupRow, ...]
    """The first `GROUPS_MAX`; the table has all."""
    what_if: tuple[WhatIfStrategy, ...] | None = None
    """What another strategy makes of each group's rebalances, if that was asked."""

    @classmethod
    def of(cls, basic: ReplaySummary, **more: Any) -> Self:
        """What every summary says, and what is said of groups."""
        return cls(**(attrs.asdict(basic, recurse=False) | more))

    @property
    def judged(self) -> str:
        """How many groups were."""
        return times(self.rows[GROUP_STATES.name], "group")

    def _fields(self) -> Json:
        what_if = None if self.what_if is None else [each.json() for each in self.what_if]
        of_groups: Json = {"groups": [attrs.asdict(group) for group in self.groups]}
        return (
            {"protocol": self.protocol}
            | self._head()
            | self._counts()
            | of_groups
            | self._tail()
            | {"what_if": what_if}
        )


def groups_data(fold: FoldedLog, summary: GroupsSummary) -> GroupsData:
    """What the page says of groups."""
    return GroupsData(
        groups=summary.groups,
        controllers=fold.first(CONTROLLERSHIPS, ROWS_MAX),
        rebalances=fold.first(REBALANCES, ROWS_MAX),
        groups_all=summary.rows[GROUP_STATES.name],
        controllers_all=summary.rows[CONTROLLERSHIPS.name],
        rebalances_all=summary.rows[REBALANCES.name],
        what_if=[each.sentence for each in summary.what_if or ()],
    )


def page_data(
    fold: FoldedLog,
    summary: GroupsSummary,
    topic: str | None,
    what_to_do: dict[str, str],
) -> page.ReportData:
    """What the page says as every page does."""
    rows = fold.first(FINDINGS, FINDINGS_MAX, worst=True)
    longest_ms = max((row.session_timeout_ms for row in summary.groups), default=0)
    return page.ReportData(
        title=title_of(summary.sources, summary.logs, topic),
        sources=summary.sources,
        rules=(),
        # Findings nearer to each other than a session timeout may have one cause.
        heartbeat_interval_s=longest_ms / 2000,
        from_ms=summary.from_ms,
        to_ms=summary.to_ms,
        counts=page.Counts(
            records=summary.records,
            malformed=summary.rows["malformed"],
            claims=0,
            groups=summary.rows[GROUP_STATES.name],
            senders=0,
            findings=summary.rows[FINDINGS.name],
            divergences=0,
        ),
        logs=tuple(logs_of(summary)),
        caveats=summary.caveats,
        findings=tuple(finding_of(row, what_to_do[row.code]) for row in rows),
    )
