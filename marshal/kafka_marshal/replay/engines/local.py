"""The fold in this process: without Spark, and without Java.

Chunks are read one after the other, what they hold is brought together by coordinating partition,
and each is folded by the same account, whose rows stay here as Arrow. A small log is fed record by
record, because the compiled kernel takes longer to load than this few records take. What Spark does
with the same job is in `pipeline`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from attrs import frozen

from kafka_marshal.replay.engines.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.fold.jobs import Job
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.state.partition_state import take_up

FED_RECORDS_MAX: Final = 5_000
"""Records to fold as they are, at most: loading the kernel takes 0.7 s, compiling it once 4 s."""
_ROWS_AT_ONCE: Final = 8192


@frozen
class LocalEngine:
    """As `Engine`."""

    on_tasks: Callable[[int, int], None] | None = None
    """Called with the numbers of chunks that are read, and of all; then with those of coordinating
    partitions that are folded, and of all."""

    def collapses(self, chunks: Sequence[Chunk]) -> bool:
        """As `Engine`."""
        return sum(chunk.records for chunk in chunks) > FED_RECORDS_MAX

    @contextmanager
    def fold(self, job: Job) -> Iterator[LocalFoldedLog]:
        """As `Engine`."""
        yield LocalFoldedLog.of(self._gathered(job))

    def fold_into(self, job: Job, folder: Path) -> None:
        """As `Engine`."""
        gathered = self._gathered(job)
        folder.mkdir(parents=True)
        gathered.write(folder / "part-00000.parquet")

    @contextmanager
    def fold_of(self, folders: Sequence[Path], states: Sequence[Path]) -> Iterator[LocalFoldedLog]:
        """As `Engine`."""
        gathered = GatheredRows()
        for folder in folders:
            for path in sorted(folder.glob("*.parquet")):
                gathered.add_file(path)
        for path in states:
            gathered.add(take_up(path).ended())
        yield LocalFoldedLog.of(gathered)

    def _gathered(self, job: Job) -> GatheredRows:
        gathered = GatheredRows()
        for drained in self._folded(job):
            gathered.add(drained)
        return gathered

    def _folded(self, job: Job) -> Iterator[Rows]:
        together: dict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
        for number in range(len(job.chunks)):
            for batch in job.read(number):
                for log_partition, rows in _by_log_partition(batch):
                    together[log_partition].append(rows)
            self._report(number + 1, len(job.chunks))
        count = len(together)

        def in_order() -> Iterator[pa.RecordBatch]:
            for done, log_partition in enumerate(sorted(together)):
                yield from _in_order(together.pop(log_partition))
                self._report(done + 1, count)

        yield from job.fold(in_order())

    def _report(self, done: int, of: int) -> None:
        if self.on_tasks is not None:
            self.on_tasks(done, of)


def _by_log_partition(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """The rows of a batch, which is of one log, by coordinating partition, in their order."""
    if not batch.num_rows:
        return
    log = batch.column("log")[0].as_py()
    partitions = batch.column("partition").to_numpy()
    known, counts = np.unique(partitions, return_counts=True)
    if len(known) == 1:
        yield (log, int(known[0])), batch
        return
    order = np.argsort(partitions, kind="stable")
    for partition, rows in zip(known, np.split(order, counts.cumsum()[:-1]), strict=True):
        yield (log, int(partition)), batch.take(pa.array(rows))


def _in_order(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One coordinating partition, sorted by offset; at one offset as in the input."""
    whole = pa.concat_batches(batches)
    offsets, input_order = (whole.column(name).to_numpy() for name in ("offset", "input_order"))
    order = np.lexsort((input_order, offsets))
    for begin in range(0, len(order), _ROWS_AT_ONCE):
        yield whole.take(pa.array(order[begin : begin + _ROWS_AT_ONCE]))
