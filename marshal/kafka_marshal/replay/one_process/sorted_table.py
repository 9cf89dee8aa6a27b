"""A sorted table, read batch by batch: in memory if it is small, otherwise in a file.

This module does not know the meaning of rows, nor how they were sorted (`sorting`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from kafka_marshal.replay.one_process.sorting import (
    SortedRun,
    Sorter,
    SpillFolder,
    first_of,
    in_batches,
    merged,
)
from kafka_marshal.replay.places import parquet_writer

ROWS_AT_ONCE: Final = 4096
"""The most rows of a batch."""
ROW_GROUP_BYTES: Final = 32 << 20
"""How many bytes of rows a row group of a file gets, at least, unless the table ends."""


@frozen
class SortedTable:
    """The rows of one table, in order."""

    num_rows: int
    _kept: pa.Table | Path
    """The rows, or a file with them, which exists as long as its folder."""

    @classmethod
    def of(cls, sorter: Sorter, folder: SpillFolder) -> SortedTable:
        """Store the rows of a sorter; in a file of the folder if they did not fit into memory.

        Raises:
            OSError: they cannot be written.
        """
        rows = sorter.rows
        if not sorter.spilled:
            return cls(rows, sorter.held())
        path = folder.file()
        with parquet_writer(path, sorter.schema) as file:
            for group in row_groups(sorter.batches()):
                file.write_table(group)
        return cls(rows, path)

    def batches(self, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield all rows, with these columns in this order; None: all columns."""
        if isinstance(self._kept, pa.Table):
            rows = self._kept if columns is None else self._kept.select(columns)
            yield from rows.to_batches(ROWS_AT_ONCE)
            return
        with pq.ParquetFile(self._kept) as file:
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns):
                yield batch if columns is None else batch.select(columns)

    def with_rows(self, more: pa.Table, order: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield all rows, merged with more sorted rows; among equal ones, the table's come first.

        >>> few = SortedTable(2, pa.table({"a": [1, 3]}))
        >>> [a for batch in few.with_rows(pa.table({"a": [2]}), ["a"]) for a in batch["a"].tolist()]
        [1, 2, 3]
        """
        runs = (
            SortedRun((), self.batches),
            SortedRun(first_of(more, order), lambda: in_batches(more)),
        )
        return merged(runs, order)


def row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches to the size of a Parquet row group."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
