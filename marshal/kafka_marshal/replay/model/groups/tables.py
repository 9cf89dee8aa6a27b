"""The tables of a replay of `__marshal_groups`: the row type of each, and its sort order.

Findings and malformed records use the same tables as a replay of claims.
"""

from __future__ import annotations

from typing import Any, Final

from kafka_marshal.replay.model.groups.rows import (
    ControllershipRow,
    FinalGroupRow,
    GroupMarkRow,
    PartitionTenureRow,
    RebalanceRow,
    RefusedEventRow,
    TargetRow,
)
from kafka_marshal.replay.model.rows import Table
from kafka_marshal.replay.model.tables import FINDINGS, MALFORMED, PARTITIONS, TableSet

_LOG_ORDER: Final = ("log", "coordinating_partition")
_GROUP_ORDER: Final = (*_LOG_ORDER, "group")

GROUP_STATES: Final = Table("group_states", FinalGroupRow, _GROUP_ORDER)
PARTITION_TENURES: Final = Table(
    "partition_tenures",
    PartitionTenureRow,
    (*_GROUP_ORDER, "topic", "topic_partition", "from_offset"),
)
REBALANCES: Final = Table("rebalances", RebalanceRow, (*_GROUP_ORDER, "offset"))
CONTROLLERSHIPS: Final = Table("controllerships", ControllershipRow, (*_LOG_ORDER, "from_offset"))
REFUSED_EVENTS: Final = Table(
    "refused_events", RefusedEventRow, (*_LOG_ORDER, "offset", "topic", "topic_partition")
)

GROUPS_PUBLISHED: Final[tuple[Table[Any], ...]] = (
    GROUP_STATES,
    PARTITION_TENURES,
    REBALANCES,
    CONTROLLERSHIPS,
    REFUSED_EVENTS,
    FINDINGS,
    MALFORMED,
)
"""The tables that a replay of `__marshal_groups` writes."""

TARGETS: Final = Table("targets", TargetRow, (*_GROUP_ORDER, "offset"))
GROUP_MARKS: Final = Table("group_marks", GroupMarkRow, (*_GROUP_ORDER, "offset"))
GROUPS_INTERNAL: Final[tuple[Table[Any], ...]] = (TARGETS, GROUP_MARKS, PARTITIONS)
"""Further tables of the fold: for `summary.json`, the report and `--what-if`."""

OF_GROUPS: Final = TableSet(GROUPS_PUBLISHED, GROUPS_INTERNAL)
"""All tables of a replay of `__marshal_groups`."""
