"""What is asked of a log that was folded: the rows of its tables, whichever engine holds them.

A summary, a page and a comparison ask only what is here, so they are made alike of what Spark holds
(`spark_fold`) and of what this process holds (`local_fold`). Answers are small, but for `each` and
`write`, which stream.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, Self, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from kafka_marshal.replay.model.rows import Row, Table
from kafka_marshal.replay.model.tables import TENURES

ROWS_PER_FILE: Final = 2_000_000
PROOF_COLUMN: Final = "records"
"""Of findings, what takes most room."""
CLAIM: Final = ("log", "coordinating_partition", "group", "topic", "topic_partition")
"""Columns that name a claim."""
ClaimName: TypeAlias = tuple[object, ...]
"""Log, coordinating partition, group, topic, partition."""
MEASURES: Final = ("errors", "takeovers", "unowned_ms")
"""By what a claim stands out; after each, by `warnings` and by its name."""


@frozen
class Spans:
    """Logs, and how time within them is cut into the columns of a heat."""

    columns: int
    logs: Sequence[tuple[str, int, int]]
    """Name, where its time begins, and how long a column of it is, in ms."""


@frozen
class Parted:
    """Where two folds of one log name other owners; a claim counts under each rule set apart."""

    claims: int
    """Claims with another history of owners."""
    gone: int
    """Tenures that began before, and not after."""
    new: int
    owners_differ: int
    """Claims with another owner, or none, in the end."""
    first: Sequence[tuple[Row, Row | None, Row | None]]
    """Of the claims that part first: its name with `rules` and the `offset` of the record that
    parted it, and the tenures that last there, before and after."""


class Fold(Protocol):
    """A log that was folded. `first`, `each` and `collect` give rows in their table's order."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Rows per table."""

    @property
    def findings_counted(self) -> list[Row]:
        """How many findings there are of each log, rule set, code and severity, as `count`.

        In this order, or what is equally frequent would be told in another order by each engine.
        """

    def collect(self, *wanted: Table) -> dict[str, list[Row]]:
        """Whole tables, by name: for summaries."""

    def collect_claims(
        self, wanted: Sequence[Table], names: Collection[ClaimName]
    ) -> dict[str, list[Row]]:
        """The rows about these claims, by table, without proofs: for what one page can draw."""

    def first(self, table: Table, limit: int, *, worst: bool = False) -> list[Row]:
        """The first rows; of findings, if `worst`, every severity's before the next."""

    def first_of_claims(self, table: Table, names: Collection[ClaimName], limit: int) -> list[Row]:
        """Of each of these claims, under each rule set, the first rows: findings worst first."""

    def each(self, table: Table) -> Iterator[Row]:
        """The rows of one table, one by one."""

    def write(self, table: Table, folder: Path, extra: Sequence[Row] = ()) -> None:
        """The table as Parquet, sorted, in as few files as its size asks for.

        `extra` are rows that are about whole logs, so the fold does not have them.
        """

    def divergences_of_logs(self) -> list[Row]:
        """Of every log that has some: `log`, `divergences`, and `parting`, how many claims."""

    def findings_over_time(self, spans: Spans) -> tuple[list[Row], list[Row]]:
        """Findings by `code`, and errors and warnings by `group`, counted over time.

        Of each log and severity, as `count` in the column `at`; those that have a time.
        """

    def claims_counted(self, ends_ms: Mapping[str, int], limit: int | None) -> list[Row]:
        """A row for every claim, named as in `CLAIM`, with what is counted of it.

        `records`, `tenures`, `takeovers`, `marks`, `unowned_ms` up to the end of its log, `errors`,
        `warnings`, `findings`. With a limit only so many by each of `MEASURES`.
        """

    def parted_from(self, after: Self, limit: int, *, same_rules: bool) -> Parted:
        """Compare with another fold of the same log by the same engine.

        With other rules, rows of the one are compared with rows of the other whatever `rules` says.
        `limit`: of how many claims to tell where they part.
        """


COUNTED: Final = ("log", "rules", "code", "severity")
"""By what findings are counted."""


def in_order(counted: list[Row]) -> list[Row]:
    """Of findings that were counted."""
    return sorted(counted, key=lambda row: tuple(str(row[name] or "") for name in COUNTED))


def write_nothing(table: Table, folder: Path) -> None:
    """A table without rows."""
    (folder / table.name).mkdir()
    nothing = pa.schema(list(table.arrow_type)).empty_table()
    pq.write_table(nothing, folder / table.name / "part-00000.parquet")


def order_in_claim(table: Table) -> str:
    """By which column the rows of one claim are in order."""
    return "from_offset" if table is TENURES else "offset"
