"""Functions over Arrow batches that run in Spark's Python workers: what all of them need.

A worker survives its task. Around every task Spark does two things whose cost grows with all
imported modules. It collects garbage among them, and lists every archive on Python's path again,
once for each folder within it. Together that takes some 300 ms, ten times as long as folding a
small coordinating partition. So imported objects are excluded from garbage collection, and archives
are listed once.
"""

from __future__ import annotations

import gc
import itertools
import zipimport
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from kafka_marshal.replay.model.rows import spark_schema

_TASKS_TO_IMPORT: Final = 8
"""In a worker's first tasks all modules are imported, and compiled code is loaded."""
_tasks = itertools.count()

OverBatches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def mapped(rows: DataFrame, how: OverBatches, schema: pa.Schema) -> DataFrame:
    """`rows.mapInArrow`, in workers that are settled."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        return how(batches)

    return rows.mapInArrow(work, spark_schema(schema))


def settle() -> None:
    """Exclude current objects from garbage collection, and assume that archives are constant."""
    if next(_tasks) < _TASKS_TO_IMPORT:
        gc.freeze()
    zipimport.zipimporter.invalidate_caches = _as_it_was  # type: ignore[method-assign]


def _as_it_was(self: zipimport.zipimporter) -> None:
    """Keep an archive's first listing."""
