"""Reads all chunks of a job and folds them, one coordinating partition after the other.

It does not know whose process this is: the command's, or a worker of Spark that has a small log to
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from kafka_marshal.replay.fold.jobs import Job, row_schema
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.one_process.local_fold import GatheredRows
from kafka_marshal.replay.one_process.sorting import Sorter, SpillFolder
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.state.partition_state import take_up

FED_RECORDS_MAX: Final = 5_000
"""Records to fold as they are, at most: loading the kernel takes 0.7 s, compiling it once 4 s."""
READ_BYTES_MAX: Final = 256 << 20
"""Bytes of what was read that wait in memory for their turn, at most."""


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
    with SpillFolder() as folder:
        read = Sorter(row_schema(job), ("log", "partition", "offset", "input_order"), folder)
        places: set[tuple[str, int]] = set()
        for number in range(len(job.chunks)):
            for batch in job.read(number):
                places |= _places(batch)
                read.add(batch)
                if read.bytes_held > READ_BYTES_MAX:
                    read.spill()
            report(number + 1, len(job.chunks))

        def in_order() -> Iterator[pa.RecordBatch]:
            begun: set[tuple[str, int]] = set()
            for batch in read.batches():
                begun |= _places(batch)
                report(len(begun) - 1, len(places))
                yield batch
            report(len(places), len(places))

        yield from job.fold(in_order())


def _places(batch: pa.RecordBatch) -> set[tuple[str, int]]:
    """The logs and coordinating partitions of some rows."""
    place = ["log", "partition"]
    distinct = pa.Table.from_batches([batch.select(place)]).group_by(place).aggregate([])
    return set(zip(*(distinct.column(name).to_pylist() for name in place), strict=True))


def gather(gathered: GatheredRows, folders: Sequence[Path], states: Sequence[Path]) -> None:
    """Add the rows in such folders as `Engine.fold_into` fills, and what states say if logs end.

    Raises:
        CheckpointRefused: a state is damaged.
    """
    for folder in folders:
        for path in sorted(folder.glob("*.parquet")):
            gathered.add_file(path)
    for path in states:
        gathered.add(take_up(path).ended())
