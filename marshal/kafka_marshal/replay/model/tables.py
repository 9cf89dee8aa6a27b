"""The tables of a replay of claims: the row type of each, and its sort order.

Other protocols have other tables. All use `Rows` and `TableSet`, and share the tables of findings,
of malformed records and of partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from attrs import field, frozen

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
from kafka_marshal.replay.model.rows import Row, RowT, Table, arrow_rows


@frozen
class TableSet:
    """The tables that a log is folded into. Each has its own row class.

    `FINDINGS`, `MALFORMED` and `PARTITIONS` are among them.
    """

    published: tuple[Table[Any], ...]
    """The tables that a replay writes."""
    internal: tuple[Table[Any], ...]
    """Further tables of the fold: for `summary.json` and the report, never written."""
    by_name: Mapping[str, Table[Any]] = field(init=False)
    """All tables."""
    by_row: Mapping[type[Row], Table[Any]] = field(init=False)
    schema: pa.Schema = field(init=False)
    """The schema of a line: one row of one table, in the column of that table's name."""

    @by_name.default
    def _by_name(self) -> Mapping[str, Table[Any]]:
        return {table.name: table for table in (*self.published, *self.internal)}

    @by_row.default
    def _by_row(self) -> Mapping[type[Row], Table[Any]]:
        return {table.row: table for table in self.by_name.values()}

    @schema.default
    def _schema(self) -> pa.Schema:
        return pa.schema([(table.name, table.arrow_type) for table in self.by_name.values()])

    def __iter__(self) -> Iterator[Table[Any]]:
        return iter(self.by_name.values())


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
"""Further tables of the fold: for `summary.json` and the report, never written."""

OF_CLAIMS: Final = TableSet(PUBLISHED, INTERNAL)
"""All tables of a replay of claims."""


class Rows:
    """Rows by table; a table without rows is empty. Some rows may be made as whole columns."""

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self._rows: dict[type[Row], list[Any]] = defaultdict(list)
        self._columns: list[tuple[Table[Any], pa.StructArray]] = []
        self._count = 0
        self.extend(rows)

    def add(self, row: Row) -> None:
        """Add one row."""
        self._rows[type(row)].append(row)
        self._count += 1

    def extend(self, rows: Iterable[Row]) -> None:
        """Add several rows."""
        for row in rows:
            self.add(row)

    def add_columns(self, table: Table[Any], columns: pa.StructArray) -> None:
        """Add rows of a table in the form that `arrow_rows` returns."""
        self._columns.append((table, columns))
        self._count += len(columns)

    def __getitem__(self, table: Table[RowT]) -> list[RowT]:
        return [*self._rows.get(table.row, []), *self._of_columns(table)]

    def _of_columns(self, table: Table[RowT]) -> Iterator[RowT]:
        for of, columns in self._columns:
            if of is table:
                yield from table.rows(columns.to_pylist())

    def tables(self, of: TableSet) -> Iterator[tuple[Table[Any], list[Any]]]:
        """The tables that have rows, and their rows."""
        made = {table.row: table for table, _ in self._columns}
        for row in {**self._rows, **made}:
            yield of.by_row[row], self[of.by_row[row]]

    def stored(self, of: TableSet) -> Iterator[tuple[Table[Any], pa.StructArray]]:
        """The same as Arrow arrays; a table may occur more than once."""
        for row, rows in self._rows.items():
            yield of.by_row[row], arrow_rows(of.by_row[row], rows)
        yield from self._columns

    def __iter__(self) -> Iterator[Row]:
        yield from (row for rows in self._rows.values() for row in rows)
        for table, columns in self._columns:
            yield from table.rows(columns.to_pylist())

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and [*self] == [*other]

    __hash__ = None  # type: ignore[assignment]
