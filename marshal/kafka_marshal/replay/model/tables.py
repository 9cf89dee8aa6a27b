"""The tables of a replay: which row is whose, by what they are sorted, and rows of many of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final

from kafka_marshal.replay.model.internal import (
    GroupCountsRow,
    LaneRow,
    MarkRow,
    PartitionRow,
    RangeRow,
    SenderRow,
)
from kafka_marshal.replay.model.published import (
    DivergenceRow,
    FinalClaimRow,
    FindingRow,
    MalformedRow,
    RefusalRow,
    TenureRow,
)
from kafka_marshal.replay.model.rows import Row, RowT, Table

_LOG_ORDER: Final = ("log", "rules", "coordinating_partition")
_CLAIM_ORDER: Final = (*_LOG_ORDER, "group", "topic", "topic_partition")

CLAIMS: Final = Table("claims", FinalClaimRow, _CLAIM_ORDER)
TENURES: Final = Table("tenures", TenureRow, (*_CLAIM_ORDER, "from_offset"))
REFUSALS: Final = Table("refusals", RefusalRow, (*_LOG_ORDER, "offset"))
FINDINGS: Final = Table(
    "findings",
    FindingRow,
    (
        "log",
        "code",
        "rules",
        "coordinating_partition",
        "group",
        "topic",
        "topic_partition",
        "offset",
        "instance",
    ),
)
DIVERGENCES: Final = Table("divergences", DivergenceRow, (*_CLAIM_ORDER, "offset"))
MALFORMED: Final = Table("malformed", MalformedRow, ("log", "coordinating_partition", "offset"))

PUBLISHED: Final[tuple[Table[Any], ...]] = (
    CLAIMS,
    TENURES,
    REFUSALS,
    FINDINGS,
    DIVERGENCES,
    MALFORMED,
)
"""The tables that a replay writes."""

GROUPS: Final = Table("groups", GroupCountsRow, _LOG_ORDER)
SENDERS: Final = Table("senders", SenderRow, ("log", "coordinating_partition"))
PARTITIONS: Final = Table("partitions", PartitionRow, ("log", "coordinating_partition"))
MARKS: Final = Table("marks", MarkRow, (*_CLAIM_ORDER, "offset"))
LANES: Final = Table("lanes", LaneRow, _CLAIM_ORDER)
RANGES: Final = Table("ranges", RangeRow, (*_CLAIM_ORDER, "offset", "start"))
INTERNAL: Final[tuple[Table[Any], ...]] = (GROUPS, SENDERS, PARTITIONS, MARKS, LANES, RANGES)
"""What the fold says besides: for `summary.json` and the report, never written as a table."""

FOLDED: Final = (*PUBLISHED, *INTERNAL)
BY_NAME: Final[Mapping[str, Table[Any]]] = {table.name: table for table in FOLDED}
_BY_ROW: Final[Mapping[type[Row], Table[Any]]] = {table.row: table for table in FOLDED}


class Rows:
    """Rows by table; a table without rows is empty."""

    by_name: ClassVar[Mapping[str, Table[Any]]] = BY_NAME
    by_row: ClassVar[Mapping[type[Row], Table[Any]]] = _BY_ROW

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[str, list[Any]] = defaultdict(list)
        self._count = 0
        self.extend(rows)

    def add(self, row: Row) -> None:
        """One more."""
        self._rows[self.by_row[type(row)].name].append(row)
        self._count += 1

    def extend(self, rows: Iterable[Row]) -> None:
        """Some more."""
        for row in rows:
            self.add(row)

    def __getitem__(self, table: Table[RowT]) -> list[RowT]:
        return self._rows.get(table.name, [])

    def tables(self) -> Iterator[tuple[Table[Any], list[Any]]]:
        """The tables that have rows, and their rows."""
        return ((self.by_name[name], rows) for name, rows in self._rows.items())

    def __iter__(self) -> Iterator[Row]:
        return (row for rows in self._rows.values() for row in rows)

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and self._rows == other._rows

    __hash__ = None  # type: ignore[assignment]
