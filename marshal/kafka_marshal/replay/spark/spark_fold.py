"""A folded log whose rows are in Spark's storage, and queries on them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
from attrs import frozen
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from kafka_marshal.replay.findings.catalogue import ERROR, WARNING
from kafka_marshal.replay.model.folded_log import (
    CLAIM,
    COUNTED,
    MEASURES,
    PROOF_COLUMN,
    ROWS_PER_FILE,
    ClaimName,
    CountedClaim,
    CountedFindings,
    DivergencesOfLog,
    FindingsAt,
    HeatSpans,
    Held,
    OwnershipDifference,
    Parting,
    in_order,
    order_in_claim,
    write_nothing,
)
from kafka_marshal.replay.model.rows import RowT, Table, arrow_rows
from kafka_marshal.replay.model.tables import (
    CLAIMS,
    DIVERGENCES,
    FINDINGS,
    LANES,
    TENURES,
    Rows,
)
from kafka_marshal.replay.places import UriPath
from kafka_marshal.replay.spark.spark_errors import plain_errors
from kafka_marshal.replay.spark.stored import write_parquet

ROWS_PER_TASK: Final = 250_000
"""Rows of tables for one task to look at: a task costs more than that."""
_CLAIM_TYPES: Final = (pa.string(), pa.int64(), pa.string(), pa.string(), pa.int64())
_LABEL: Final = "under"
"""The column with the rule set; a dash if the rules themselves are changed."""
_NAME: Final = (*CLAIM, _LABEL)
_Stored: TypeAlias = dict[str, Any]
"""A row in the form that Spark returns."""


class OnSpark(Protocol):
    """A fold that can provide its rows on Spark."""

    @property
    def on_spark(self) -> SparkFoldedLog:
        """Its rows on Spark."""


@frozen
class SparkFoldedLog:
    """As `Fold`."""

    spark: SparkSession
    rows: DataFrame
    """Of all tables, in so few partitions that asking them shuffles nothing it need not."""
    counts: Mapping[str, int]
    """Rows per table."""

    @classmethod
    def of(cls, rows: DataFrame, counts: Mapping[str, int]) -> SparkFoldedLog:
        """Rows that are stored or cheap to read, and how many each table has."""
        tasks = max(1, -(-sum(counts.values()) // ROWS_PER_TASK))
        return cls(rows.sparkSession, rows.coalesce(tasks), counts)

    @property
    def on_spark(self) -> SparkFoldedLog:
        """The rows, to be compared with another fold."""
        return self

    @cached_property
    def findings_counted(self) -> list[CountedFindings]:
        """As `Fold`."""
        if not self.counts[FINDINGS.name]:
            return []
        counted = _collected(self.table(FINDINGS).groupBy(*COUNTED).count())
        return in_order(CountedFindings(**row) for row in counted)

    def table(self, table: Table[Any]) -> DataFrame:
        """One table."""
        return self.rows.where(sf.col(table.name).isNotNull()).select(f"{table.name}.*")

    def table_with(self, table: Table[RowT], extra: Sequence[RowT]) -> DataFrame:
        """One table, and some rows that the fold does not have."""
        rows = self.table(table)
        if extra:
            more = pa.Table.from_struct_array(arrow_rows(table, extra))
            rows = rows.unionByName(self.spark.createDataFrame(more, table.spark_schema))
        return rows

    def collect(self, *wanted: Table[Any]) -> Rows:
        """As `Fold`."""
        return self._collect(self.rows, wanted)

    def collect_claims(self, wanted: Sequence[Table[Any]], names: Collection[ClaimName]) -> Rows:
        """As `Fold`."""
        if not any(self.counts[table.name] for table in wanted):
            return Rows()
        named = self.rows.select(
            *(
                sf.col(table.name).dropFields(PROOF_COLUMN).alias(table.name)
                if table is FINDINGS
                else sf.col(table.name)
                for table in wanted
            ),
            *(
                sf.coalesce(*(sf.col(f"{table.name}.{name}") for table in wanted)).alias(name)
                for name in CLAIM
            ),
        )
        return self._collect(self._of_claims(named, names), wanted)

    def _of_claims(self, rows: DataFrame, names: Collection[ClaimName]) -> DataFrame:
        """Those of the rows that are about these claims."""
        columns = zip(*sorted(names, key=str), strict=True)
        chosen = self.spark.createDataFrame(
            pa.table([*map(pa.array, columns, _CLAIM_TYPES)], names=[*CLAIM])
        )
        return rows.join(sf.broadcast(chosen), list(CLAIM), "left_semi")

    def _collect(self, rows: DataFrame, wanted: Sequence[Table[Any]]) -> Rows:
        """One job, whatever the number of tables."""
        columns = [sf.col(table.name) for table in wanted]
        some = functools.reduce(operator.or_, (column.isNotNull() for column in columns))
        found: dict[str, list[_Stored]] = {table.name: [] for table in wanted}
        for line in rows.where(some).select(*columns).toArrow().to_pylist():
            for name, row in line.items():
                if row is not None:
                    found[name].append(row)
        for table in wanted:
            found[table.name].sort(key=functools.partial(_sorting, order=table.order))
        return Rows(row for table in wanted for row in table.rows(found[table.name]))

    def first(self, table: Table[RowT], limit: int, *, worst: bool = False) -> list[RowT]:
        """As `Fold`."""
        if not self.counts[table.name]:
            return []
        before = (_severity(),) if worst else ()
        rows = self.table(table).orderBy(*before, *table.order).limit(limit)
        return table.rows(_collected(rows))

    def first_of_claims(
        self, table: Table[RowT], names: Collection[ClaimName], limit: int
    ) -> list[RowT]:
        """As `Fold`."""
        before = (_severity(),) if table is FINDINGS else ()
        order = (*before, sf.col(order_in_claim(table)))
        ordered = Window.partitionBy(*CLAIM, "rules").orderBy(*order)
        rows = (
            self._of_claims(self.table(table), names)
            .withColumn("_rank", sf.row_number().over(ordered))
            .where(sf.col("_rank") <= limit)
        )
        if table is FINDINGS:
            rows = rows.drop(PROOF_COLUMN)
        found = sorted(rows.toArrow().to_pylist(), key=operator.itemgetter("_rank"))
        for row in found:
            del row["_rank"]
        return table.rows(found)

    def each(self, table: Table[RowT]) -> Iterator[RowT]:
        """As `Fold`: the driver never holds all of them."""
        for row in self.table(table).orderBy(*table.order).toLocalIterator():
            yield table.row(**row.asDict(recursive=True))

    def write(self, table: Table[RowT], folder: Path, extra: Sequence[RowT] = ()) -> None:
        """As `Fold`."""
        rows = self.table_with(table, extra)
        count = self.counts[table.name] + len(extra)
        if not count:  # Spark takes its time to write nothing
            write_nothing(table, folder)
            return
        files = max(1, -(-count // ROWS_PER_FILE))
        rows = rows.coalesce(1) if files == 1 else rows.repartitionByRange(files, *table.order)
        rows = rows.sortWithinPartitions(*table.order)
        if isinstance(folder, UriPath):
            write_parquet(rows, folder / table.name, pa.schema(list(table.arrow_type)))
            return
        with plain_errors():
            rows.write.parquet(str(folder / table.name))
        for marker in (folder / table.name).glob("_*"):
            marker.unlink()

    def divergences_of_logs(self) -> list[DivergencesOfLog]:
        """As `Fold`."""
        if not self.counts[DIVERGENCES.name]:
            return []
        counted = (
            self.table(DIVERGENCES)
            .groupBy("log")
            .agg(sf.count("*").alias("divergences"), sf.countDistinct(*CLAIM).alias("parting"))
        )
        return [DivergencesOfLog(**row) for row in _collected(counted)]

    def findings_over_time(self, spans: HeatSpans) -> tuple[list[FindingsAt], list[FindingsAt]]:
        """As `Fold`."""
        if not self.counts[FINDINGS.name]:
            return [], []
        scales = self.spark.createDataFrame(
            list(spans.logs), "log: string, begin_ms: bigint, step_ms: bigint"
        )
        column = sf.floor((sf.col("timestamp_ms") - sf.col("begin_ms")) / sf.col("step_ms"))
        last = sf.lit(spans.columns - 1)
        findings = (
            self.table(FINDINGS)
            .where(sf.col("timestamp_ms").isNotNull())
            .join(sf.broadcast(scales), "log")
            .withColumn("at", sf.least(sf.greatest(column, sf.lit(0)), last))
        )
        serious = sf.col("group").isNotNull() & sf.col("severity").isin(ERROR, WARNING)
        by_code, by_group = (
            [
                FindingsAt(**row)
                for row in _collected(
                    some.groupBy("log", sf.col(name).alias("name"), "severity", "at").count()
                )
            ]
            for some, name in ((findings, "code"), (findings.where(serious), "group"))
        )
        return by_code, by_group

    def claims_counted(self, ends_ms: Mapping[str, int], limit: int | None) -> list[CountedClaim]:
        """As `Fold`."""
        counted = self._claims_counted(ends_ms)
        if limit is None:
            return [CountedClaim(**row) for row in _collected(counted)]
        counted = counted.persist()
        try:
            found: dict[tuple[object, ...], CountedClaim] = {}
            for measure in MEASURES:
                order = sf.desc(measure), sf.desc("warnings"), *map(sf.col, CLAIM)
                for row in _collected(counted.orderBy(*order).limit(limit)):
                    found[tuple(row[column] for column in CLAIM)] = CountedClaim(**row)
            return list(found.values())
        finally:
            counted.unpersist()

    def _claims_counted(self, ends_ms: Mapping[str, int]) -> DataFrame:
        ends = sf.create_map(*(sf.lit(value) for end in ends_ms.items() for value in end))
        free_ms = ends[sf.col("log")] - sf.col("free_since_ms")
        free_ms = sf.greatest(free_ms, sf.lit(0).cast("bigint"))
        claims = (
            self.table(LANES)
            .withColumn("unowned_ms", sf.col("unowned_ms") + free_ms)
            .groupBy(*CLAIM)
            .agg(
                *(
                    sf.max(each).alias(each)
                    for each in ("records", "tenures", "takeovers", "unowned_ms")
                ),
                sf.sum("marks").alias("marks"),
            )
        )
        if not self.counts[FINDINGS.name]:
            nothing = sf.lit(0).cast("bigint")
            return claims.withColumns(dict.fromkeys(("errors", "warnings", "findings"), nothing))
        severity = sf.col("severity")
        findings = (
            self.table(FINDINGS)
            .where(sf.col("topic").isNotNull() & sf.col("topic_partition").isNotNull())
            .groupBy(*CLAIM)
            .agg(
                sf.sum((severity == ERROR).cast("bigint")).alias("errors"),
                sf.sum((severity == WARNING).cast("bigint")).alias("warnings"),
                sf.count("*").alias("findings"),
            )
        )
        return claims.join(findings, list(CLAIM), "left").na.fill(0)

    def parted_from(self, after: OnSpark, limit: int, *, same_rules: bool) -> OwnershipDifference:
        """As `Fold`."""
        label = sf.col("rules") if same_rules else sf.lit("-")
        folds = self, after.on_spark
        edges = [_edges(fold, label) for fold in folds]
        parted = (
            edges[0]
            .withColumn("side", sf.lit(1))
            .unionByName(edges[1].withColumn("side", sf.lit(2)))
            .groupBy(*_NAME, "offset", "owner", "began")
            .agg(sf.sum("side").alias("side"))
            .where("side != 3")
        )
        of_claims = parted.groupBy(*_NAME).agg(
            sf.min("offset").alias("offset"),
            sf.sum(sf.expr("int(began and side = 1)")).alias("gone"),
            sf.sum(sf.expr("int(began and side = 2)")).alias("new"),
        )
        of_claims = of_claims.cache()
        with plain_errors():
            try:
                total = of_claims.agg(
                    sf.count("*").alias("claims"),
                    sf.sum("gone").alias("gone"),
                    sf.sum("new").alias("new"),
                ).collect()[0]
                first = _collected(of_claims.orderBy("log", "offset", *_NAME).limit(limit))
                return OwnershipDifference(
                    total["claims"],
                    total["gone"] or 0,
                    total["new"] or 0,
                    _owners_differ(folds, label),
                    _lasting(folds, first, label),
                )
            finally:
                of_claims.unpersist()


def _severity() -> Column:
    """The severity as a number to sort findings by, the worst first."""
    severity = sf.col("severity")
    return sf.when(severity == ERROR, 0).when(severity == WARNING, 1).otherwise(2)


def _collected(rows: DataFrame) -> list[_Stored]:
    return [row.asDict(recursive=True) for row in rows.collect()]


def _sorting(row: _Stored, order: Sequence[str]) -> tuple[tuple[bool, Any], ...]:
    """Nulls first, as Spark sorts."""
    return tuple((row[name] is not None, row[name]) for name in order)


def _edges(fold: SparkFoldedLog, label: Column) -> DataFrame:
    """The changes of ownership: a line for every beginning and end of a tenure."""
    tenures = fold.table(TENURES)
    name = [*(sf.col(column) for column in CLAIM), label.alias(_LABEL)]
    owner = sf.col("owner_instance").alias("owner")
    begins = tenures.select(
        *name, sf.col("from_offset").alias("offset"), owner, sf.lit(True).alias("began")
    )
    ends = tenures.where("to_offset is not null").select(
        *name, sf.col("to_offset").alias("offset"), owner, sf.lit(False).alias("began")
    )
    return begins.unionByName(ends)


def _lasting(
    folds: tuple[SparkFoldedLog, SparkFoldedLog], first: list[_Stored], label: Column
) -> list[Parting]:
    """The owners after the record at which each of these claims differs, before and after."""
    if not first:
        return []
    tenures: list[dict[tuple[object, ...], Held]] = []
    chosen = folds[0].spark.createDataFrame(
        [tuple(row[column] for column in (*_NAME, "offset")) for row in first],
        "log string, coordinating_partition bigint, group string, topic string, "
        f"topic_partition bigint, {_LABEL} string, offset bigint",
    )
    for fold in folds:
        held = (
            fold.table(TENURES)
            .withColumn(_LABEL, label)
            .join(sf.broadcast(chosen), list(_NAME))
            .where("from_offset <= offset and (to_offset is null or to_offset > offset)")
            .select(*_NAME, "owner_instance", "owner_client", "from_offset")
        )
        tenures.append(
            {
                tuple(row[c] for c in _NAME): Held(
                    row["owner_instance"], row["owner_client"], row["from_offset"]
                )
                for row in _collected(held)
            }
        )
    facts = []
    for row in first:
        name = tuple(row[column] for column in _NAME)
        rules = row[_LABEL]
        before, after = (of.get(name) for of in tenures)
        facts.append(
            Parting.of(name[:-1], row["offset"], None if rules == "-" else rules, before, after)
        )
    return facts


def _owners_differ(folds: tuple[SparkFoldedLog, SparkFoldedLog], label: Column) -> int:
    before, after = (
        fold.table(CLAIMS)
        .withColumn(_LABEL, label)
        .select(*_NAME, sf.col("owner_instance").alias(owner))
        for fold, owner in zip(folds, ("old", "new"), strict=True)
    )
    return before.join(after, list(_NAME)).where("not (old <=> new)").count()
