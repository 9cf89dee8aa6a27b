"""Logs that Spark takes for larger than they are, so that a few records go where many would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_marshal.replay.spark import collected, pipeline


@contextmanager
def as_a_large_log(collected_rows_max: int = -1) -> Iterator[None]:
    """Spark folds by queries, and keeps the rows if there are more than these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "ONE_TASK_RECORDS_MAX", -1)
        patch.setattr(pipeline, "ONE_PROCESS_BYTES_MAX", -1)
        patch.setattr(collected, "COLLECTED_ROWS_MAX", collected_rows_max)
        yield
