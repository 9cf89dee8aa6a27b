"""The `summary.json` of a replay of `__marshal_groups`, in numbers."""

from __future__ import annotations

from typing import Any, Self

import attrs
from attrs import frozen

from kafka_marshal.replay.groups.whatif import WhatIfStrategy
from kafka_marshal.replay.model.groups.rows import FinalGroupRow
from kafka_marshal.replay.model.groups.tables import GROUP_STATES
from kafka_marshal.replay.model.phrasing import times
from kafka_marshal.replay.report_data.summary import Json, ReplaySummary


@frozen(kw_only=True)
class GroupsSummary(ReplaySummary):
    """The result of a replay of groups."""

    groups: tuple[FinalGroupRow, ...]
    """Every group in its state at the end of the log."""
    what_if: tuple[WhatIfStrategy, ...] | None = None
    """The result of another strategy for each group's rebalances, if requested."""

    @classmethod
    def of(cls, basic: ReplaySummary, **more: Any) -> Self:
        """Made from the common fields of all summaries, and the fields of this one."""
        return cls(**(attrs.asdict(basic, recurse=False) | more))

    @property
    def judged(self) -> str:
        """The number of groups, in words."""
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
