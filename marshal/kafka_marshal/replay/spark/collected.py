"""A folded log whose rows are so few that this process takes them over from Spark.

Whatever is asked of Spark is a job, and planning a job costs more than looking at so few rows here.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen
from pyspark.sql import DataFrame

from kafka_marshal.replay.model.folded_log import FoldedLog, OwnershipDifference
from kafka_marshal.replay.model.tables import TableSet
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.spark.spark_errors import plain_errors
from kafka_marshal.replay.spark.spark_fold import OnSpark, SparkFoldedLog

COLLECTED_ROWS_MAX: Final = 100_000
"""Rows of all tables that this process takes over, at most."""


@frozen
class CollectedFoldedLog(LocalFoldedLog):
    """As `Fold`."""

    on_spark: SparkFoldedLog
    """The same rows, for a comparison with a fold that has too many to be taken over."""

    def parted_from(self, after: OnSpark, limit: int, *, same_rules: bool) -> OwnershipDifference:
        """As `Fold`."""
        if isinstance(after, CollectedFoldedLog):
            return super().parted_from(after, limit, same_rules=same_rules)
        return self.on_spark.parted_from(after, limit, same_rules=same_rules)


def nearest(rows: DataFrame, fold: SparkFoldedLog, tables: TableSet) -> FoldedLog:
    """The fold of these rows where they are, or here if they are few."""
    if sum(fold.counts.values()) > COLLECTED_ROWS_MAX:
        return fold
    gathered = GatheredRows(tables)
    with plain_errors():
        lines = rows.toArrow()
    for batch in lines.to_batches():
        gathered.add_lines(batch)
    return CollectedFoldedLog(LocalFoldedLog.of(gathered).tables, fold)
