"""The interface of a folded log: the rows of its tables, whichever engine holds them.

A summary, a page and a comparison use only this interface. So they are the same whether Spark holds
the rows (`spark_fold`) or this process does (`local_fold`). Answers are small, except `each` and
`write`, which stream.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeAlias

import attrs
import pyarrow as pa
from attrs import frozen

from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import RowT, Table
from kafka_marshal.replay.model.tables import TENURES, Rows
from kafka_marshal.replay.places import parquet_writer

ROWS_PER_FILE: Final = 2_000_000
PROOF_COLUMN: Final = "records"
"""The largest column of findings."""
CLAIM: Final = ("log", "coordinating_partition", "group", "topic", "topic_partition")
"""The columns that identify a claim."""
ClaimName: TypeAlias = tuple[str, int, str, str, int]
"""Log, coordinating partition, group, topic, partition."""
MEASURES: Final = ("errors", "takeovers", "unowned_ms")
"""The measures by which claims are ranked; ties are broken by `warnings`, then by name."""


@frozen
class HeatSpans:
    """Logs, and how the time of each is divided into the columns of a heat map."""

    columns: int
    logs: Sequence[tuple[str, int, int]]
    """Name, start time in ms, and width of a column in ms."""


@frozen
class CountedFindings:
    """The number of findings of one code and severity in a log, under one rule set."""

    log: str
    rules: str | None
    """None for a fact that does not depend on the rules."""
    code: str
    severity: str
    count: int = 1


@frozen
class FindingsAt:
    """The number of findings of one severity in one column of a heat map."""

    log: str
    name: str
    """Their code, or their group."""
    severity: str
    at: int
    """The index of the column, from 0."""
    count: int


@frozen
class DivergencesOfLog:
    """How often the two rule sets disagree in one log."""

    log: str
    divergences: int
    parting: int
    """The number of claims on which they disagree."""


@frozen
class _OfClaim:
    """The columns of `CLAIM`."""

    log: str
    coordinating_partition: int
    group: str
    topic: str
    topic_partition: int


@frozen
class CountedClaim(_OfClaim):
    """The counts of a claim; with two rule sets, the larger numbers and the marks of both."""

    records: int
    tenures: int
    takeovers: int
    marks: int
    unowned_ms: int
    """Milliseconds without an owner, up to the end of its log."""
    errors: int
    warnings: int
    findings: int


@frozen
class Held:
    """The owner of a claim at some offset."""

    owner_instance: str
    owner_client: str
    since_offset: int


@frozen
class Parting(_OfClaim):
    """Where two folds first name different owners of a claim, and the owners after that record."""

    offset: int
    """The offset of the record at which they differ."""
    rules: str | None
    """None if the rules themselves are what differs."""
    before_owner_instance: str | None
    """None: no owner; the same in all fields below."""
    before_owner_client: str | None
    before_since_offset: int | None
    after_owner_instance: str | None
    after_owner_client: str | None
    after_since_offset: int | None

    @classmethod
    def of(
        cls,
        name: ClaimName,
        offset: int,
        rules: str | None,
        before: Held | None,
        after: Held | None,
    ) -> Self:
        """Made from the holders of the claim before and after the change."""
        nobody = (None, None, None)
        held = (nobody if each is None else attrs.astuple(each) for each in (before, after))
        return cls(*name, offset, rules, *itertools.chain.from_iterable(held))


@frozen
class OwnershipDifference:
    """Where two folds of one log name different owners; a claim counts once per rule set."""

    claims: int
    """The number of claims with a different history of owners."""
    gone: int
    """The number of tenures that exist only before the change."""
    new: int
    owners_differ: int
    """The number of claims with a different owner, or none, at the end."""
    first: Sequence[Parting]
    """The claims that differ first."""


class FoldedLog(Protocol):
    """A log that was folded. `first`, `each` and `collect` give rows in their table's order."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows per table."""

    @property
    def findings_counted(self) -> list[CountedFindings]:
        """The number of findings of each log, rule set, code and severity, in this order.

        Every engine therefore lists equally frequent ones in the same order.
        """

    def collect(self, *wanted: Table[Any]) -> Rows:
        """Whole tables: for summaries."""

    def collect_claims(self, wanted: Sequence[Table[Any]], names: Collection[ClaimName]) -> Rows:
        """The rows of these claims, without proofs: as many as one page can draw."""

    def first(self, table: Table[RowT], limit: int, *, worst: bool = False) -> list[RowT]:
        """The first rows; with `worst`, findings are ordered by severity first."""

    def first_of_claims(
        self, table: Table[RowT], names: Collection[ClaimName], limit: int
    ) -> list[RowT]:
        """For each of these claims and each rule set, the first rows: findings worst first."""

    def each(self, table: Table[RowT]) -> Iterator[RowT]:
        """The rows of one table, one by one."""

    def write(self, table: Table[RowT], folder: Path, extra: Sequence[RowT] = ()) -> None:
        """Write the table as Parquet, sorted, in as few files as its size allows.

        `extra` are rows about whole logs, which the fold does not have.
        """

    def divergences_of_logs(self) -> list[DivergencesOfLog]:
        """One value for every log with divergences."""

    def findings_over_time(self, spans: HeatSpans) -> tuple[list[FindingsAt], list[FindingsAt]]:
        """The findings with a time: by code, and errors and warnings by group."""

    def claims_counted(self, ends_ms: Mapping[str, int], limit: int | None) -> list[CountedClaim]:
        """The counts of every claim, or of the first `limit` by each of `MEASURES`.

        `ends_ms` holds the end time of each log.
        """

    def parted_from(self, after: Self, limit: int, *, same_rules: bool) -> OwnershipDifference:
        """Compare with another fold of the same log by the same engine.

        If the rules differ, rows are compared whatever their `rules` column contains. `limit` is
        the number of claims for which `first` shows where they differ.
        """


COUNTED: Final = ("log", "rules", "code", "severity")
"""The columns by which findings are counted."""


def in_order(counted: Iterable[CountedFindings]) -> list[CountedFindings]:
    """Counted findings, sorted."""
    return sorted(counted, key=lambda one: (one.log, one.rules or "", one.code, one.severity))


def all_counted(fold: FoldedLog, of_logs: Iterable[FindingRow]) -> list[CountedFindings]:
    """The number of findings, including those that only whole logs show."""
    found = (CountedFindings(row.log, row.rules, row.code, row.severity) for row in of_logs)
    return [*fold.findings_counted, *found]


def write_nothing(table: Table[Any], folder: Path) -> None:
    """Write a table without rows."""
    (folder / table.name).mkdir()
    nothing = pa.schema(list(table.arrow_type)).empty_table()
    with parquet_writer(folder / table.name / "part-00000.parquet", nothing.schema) as file:
        file.write_table(nothing)


def order_in_claim(table: Table[Any]) -> str:
    """The column by which the rows of one claim are sorted."""
    return "from_offset" if table is TENURES else "offset"
