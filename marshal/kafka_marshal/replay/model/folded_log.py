"""The interface of a folded log: the rows of its tables, whichever engine holds them.

A summary, a page and a comparison ask only what is here, so they are made alike of what Spark holds
(`spark_fold`) and of what this process holds (`local_fold`). Answers are small, but for `each` and
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
"""Of findings, what takes most room."""
CLAIM: Final = ("log", "coordinating_partition", "group", "topic", "topic_partition")
"""Columns that name a claim."""
ClaimName: TypeAlias = tuple[str, int, str, str, int]
"""Log, coordinating partition, group, topic, partition."""
MEASURES: Final = ("errors", "takeovers", "unowned_ms")
"""By what a claim stands out; after each, by `warnings` and by its name."""


@frozen
class HeatSpans:
    """Logs, and how time within them is cut into the columns of a heat."""

    columns: int
    logs: Sequence[tuple[str, int, int]]
    """Name, where its time begins, and how long a column of it is, in ms."""


@frozen
class CountedFindings:
    """How many findings of one code and severity there are of a log, under one rule set."""

    log: str
    rules: str | None
    """None for a fact of the log."""
    code: str
    severity: str
    count: int = 1


@frozen
class FindingsAt:
    """How many findings of one severity lie in one column of a heat."""

    log: str
    name: str
    """Their code, or their group."""
    severity: str
    at: int
    """Which column, from 0."""
    count: int


@frozen
class DivergencesOfLog:
    """How often the two rule sets part in one log."""

    log: str
    divergences: int
    parting: int
    """Claims about which they part."""


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
    """What is counted of a claim; of two rule sets the larger numbers, and the marks of both."""

    records: int
    tenures: int
    takeovers: int
    marks: int
    unowned_ms: int
    """Up to the end of its log."""
    errors: int
    warnings: int
    findings: int


@frozen
class Held:
    """Who owned a claim at some offset."""

    owner_instance: str
    owner_client: str
    since_offset: int


@frozen
class Parting(_OfClaim):
    """Where two folds first name other owners of a claim, and who owns after that record."""

    offset: int
    """Of the record that parted them."""
    rules: str | None
    """None where the rules are what is changed."""
    before_owner_instance: str | None
    """None: nobody owns; so in all that follow."""
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
        """From who held the claim before and after the change."""
        nobody = (None, None, None)
        held = (nobody if each is None else attrs.astuple(each) for each in (before, after))
        return cls(*name, offset, rules, *itertools.chain.from_iterable(held))


@frozen
class OwnershipDifference:
    """Where two folds of one log name other owners; a claim counts under each rule set apart."""

    claims: int
    """Claims with another history of owners."""
    gone: int
    """Tenures that began before, and not after."""
    new: int
    owners_differ: int
    """Claims with another owner, or none, in the end."""
    first: Sequence[Parting]
    """Of the claims that part first."""


class FoldedLog(Protocol):
    """A log that was folded. `first`, `each` and `collect` give rows in their table's order."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows per table."""

    @property
    def findings_counted(self) -> list[CountedFindings]:
        """How many findings there are of each log, rule set, code and severity.

        They are in this order, so that every engine lists equally frequent ones in the same order.
        """

    def collect(self, *wanted: Table[Any]) -> Rows:
        """Whole tables: for summaries."""

    def collect_claims(self, wanted: Sequence[Table[Any]], names: Collection[ClaimName]) -> Rows:
        """The rows about these claims, without proofs: for what one page can draw."""

    def first(self, table: Table[RowT], limit: int, *, worst: bool = False) -> list[RowT]:
        """The first rows; of findings, if `worst`, every severity's before the next."""

    def first_of_claims(
        self, table: Table[RowT], names: Collection[ClaimName], limit: int
    ) -> list[RowT]:
        """Of each of these claims, under each rule set, the first rows: findings worst first."""

    def each(self, table: Table[RowT]) -> Iterator[RowT]:
        """The rows of one table, one by one."""

    def write(self, table: Table[RowT], folder: Path, extra: Sequence[RowT] = ()) -> None:
        """The table as Parquet, sorted, in as few files as its size asks for.

        `extra` are rows that are about whole logs, so the fold does not have them.
        """

    def divergences_of_logs(self) -> list[DivergencesOfLog]:
        """Of every log that has some."""

    def findings_over_time(self, spans: HeatSpans) -> tuple[list[FindingsAt], list[FindingsAt]]:
        """Those that have a time: findings by code, and errors and warnings by group."""

    def claims_counted(self, ends_ms: Mapping[str, int], limit: int | None) -> list[CountedClaim]:
        """Every claim, or the first `limit` by each of `MEASURES`.

        `ends_ms` says when each log ends.
        """

    def parted_from(self, after: Self, limit: int, *, same_rules: bool) -> OwnershipDifference:
        """Compare with another fold of the same log by the same engine.

        With other rules, rows of the one are compared with rows of the other whatever `rules` says.
        `limit`: of how many claims to tell where they part.
        """


COUNTED: Final = ("log", "rules", "code", "severity")
"""By what findings are counted."""


def in_order(counted: Iterable[CountedFindings]) -> list[CountedFindings]:
    """Of findings that were counted."""
    return sorted(counted, key=lambda one: (one.log, one.rules or "", one.code, one.severity))


def all_counted(fold: FoldedLog, of_logs: Iterable[FindingRow]) -> list[CountedFindings]:
    """How many findings there are, those among them that only whole logs show."""
    found = (CountedFindings(row.log, row.rules, row.code, row.severity) for row in of_logs)
    return [*fold.findings_counted, *found]


def write_nothing(table: Table[Any], folder: Path) -> None:
    """A table without rows."""
    (folder / table.name).mkdir()
    nothing = pa.schema(list(table.arrow_type)).empty_table()
    with parquet_writer(folder / table.name / "part-00000.parquet", nothing.schema) as file:
        file.write_table(nothing)


def order_in_claim(table: Table[Any]) -> str:
    """By which column the rows of one claim are in order."""
    return "from_offset" if table is TENURES else "offset"
