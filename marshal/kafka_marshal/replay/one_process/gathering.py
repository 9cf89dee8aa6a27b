"""Reads all chunks of a job and folds them, one coordinating partition after the other.

It does not know whose process this is: the command's, or a worker of Spark that has a small log to
itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from kafka_marshal.replay.fold.jobs import Job
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.one_process.local_fold import GatheredRows
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.state.partition_state import take_up

FED_RECORDS_MAX: Final = 5_000
"""Records to fold as they are, at most: loading the kernel takes 0.7 s, compiling it once 4 s."""
_ROWS_AT_ONCE: Final = 8192


def worth_collapsing(chunks: Sequence[Chunk]) -> bool:
    """Whether the chunks hold enough records for the compiled kernel to pay off."""
    return sum(chunk.records for chunk in chunks) > FED_RECORDS_MAX


def folded(job: Job, report: Callable[[int, int], None] = lambda done, of: None) -> Iterator[Rows]:
    """The rows of all tables.

    `report` is called with the numbers of chunks that are read, and of all; then with those of
    coordinating partitions that are folded, and of all.

    Raises:
        UnreadableSource: something is no record.
        SourcesOverlap: chunks do not follow each other, so nothing may be collapsed.
    """
    together: dict[tuple[str, int], list[pa.RecordBatch]] = defaultdict(list)
    for number in range(len(job.chunks)):
        for batch in job.read(number):
            for log_partition, rows in _by_log_partition(batch):
                together[log_partition].append(rows)
        report(number + 1, len(job.chunks))
    count = len(together)

    def in_order() -> Iterator[pa.RecordBatch]:
        for done, log_partition in enumerate(sorted(together)):
            yield from _in_order(together.pop(log_partition))
            report(done + 1, count)

    yield from job.fold(in_order())


def gathered_of(folders: Sequence[Path], states: Sequence[Path]) -> GatheredRows:
    """The rows in such folders as `Engine.fold_into` fills, and what states say if logs end there.

    Raises:
        CheckpointRefused: a state is damaged.
    """
    gathered = GatheredRows()
    for folder in folders:
        for path in sorted(folder.glob("*.parquet")):
            gathered.add_file(path)
    for path in states:
        gathered.add(take_up(path).ended())
    return gathered


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
