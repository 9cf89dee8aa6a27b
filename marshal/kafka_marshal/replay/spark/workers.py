"""Functions over Arrow batches that run in Spark's Python workers: what all of them need.

A worker outlives a task. Around every task Spark does two things that grow with all that was ever
imported. It looks for garbage among it, and lists anew every archive on Python's path, once for
each folder within it. Together that is some 300 ms of work, ten times what folding a small
coordinating partition takes. So what is imported is no garbage, and archives are listed once.
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
"""In a worker's first tasks everything is imported, and compiled code loaded."""
_tasks = itertools.count()

OverBatches: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def mapped(rows: DataFrame, how: OverBatches, schema: pa.Schema) -> DataFrame:
    """`rows.mapInArrow`, in workers that are settled."""

    def work(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        return how(batches)

    return rows.mapInArrow(work, spark_schema(schema))


def settle() -> None:
    """Keep what is there by now for good, and take archives for what they were at first."""
    if next(_tasks) < _TASKS_TO_IMPORT:
        gc.freeze()
    zipimport.zipimporter.invalidate_caches = _as_it_was  # type: ignore[method-assign]


def _as_it_was(self: zipimport.zipimporter) -> None:
    """What an archive held when it was first looked into, it holds."""
