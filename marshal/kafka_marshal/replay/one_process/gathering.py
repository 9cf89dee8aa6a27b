"""Reads all chunks of a job, and folds one coordinating partition after another.

It does not know the process: that of the command, or a Spark worker with a small log.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from kafka_marshal.replay.fold.jobs import Job, row_schema
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.one_process.local_fold import GatheredRows
from kafka_marshal.replay.one_process.sorting import Sorter, SpillFolder
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.state.partition_state import take_up
from kafka_marshal.replay.state.saved_rows import saved_batches

FED_RECORDS_MAX: Final = 5_000
"""The most records to fold one by one: loading the kernel takes 0.7 s, compiling it once 4 s."""
ROW_ORDER: Final = ("log", "partition", "offset", "input_order")
"""The order in which the rows of a job are folded."""
Place: TypeAlias = tuple[str, int]
"""A log and one of its coordinating partitions."""
_SELDOM: Final = (100_000, 20, 100_000)
READ_BYTES_MAX: Final = 256 << 20
"""The most bytes of rows that wait in memory."""


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
    with SpillFolder() as folder, collecting_seldom():
        read, places = read_rows(job, range(len(job.chunks)), folder, report)

        def in_order() -> Iterator[pa.RecordBatch]:
            begun: set[Place] = set()
            for batch in read.batches():
                begun.update(place for place, _ in by_place(batch))
                report(len(begun) - 1, len(places))
                yield batch
            report(len(places), len(places))

        yield from job.fold(in_order())


def read_rows(
    job: Job,
    numbers: Sequence[int],
    folder: SpillFolder,
    report: Callable[[int, int], None] = lambda done, of: None,
) -> tuple[Sorter, set[Place]]:
    """The rows of some chunks of a job, in order, and the places that they are of.

    Raises:
        UnreadableSource: something is no record.
    """
    rows, places = Sorter(row_schema(job), ROW_ORDER, folder), set[Place]()
    for done, number in enumerate(numbers, start=1):
        for batch in job.read(number):
            places.update(place for place, _ in _counted(batch))
            rows.add(batch)
            if rows.bytes_held > READ_BYTES_MAX:
                rows.spill()
        report(done, len(numbers))
    return rows, places


def by_place(batch: pa.RecordBatch) -> Iterator[tuple[Place, pa.RecordBatch]]:
    """Yield a sorted batch, cut where a log or a coordinating partition ends."""
    begin = 0
    for place, count in _counted(batch):
        yield place, batch.slice(begin, count)
        begin += count


def _counted(batch: pa.RecordBatch) -> Iterator[tuple[Place, int]]:
    """Yield the places in order, each with its number of rows."""
    of = ["log", "partition"]
    table = pa.Table.from_batches([batch.select(of)]).group_by(of, use_threads=False)
    for row in table.aggregate([([], "count_all")]).to_pylist():
        yield (row["log"], row["partition"]), row["count_all"]


@contextmanager
def collecting_seldom(for_ever: bool = False) -> Iterator[None]:
    """Within the block, only collect garbage among young objects, and seldom.

    A fold makes many objects and keeps them until it is closed. Then they are freed without a
    collector. Examining them took a fifth of the time for a log of many claims. With `for_ever`,
    all objects made in the block are examined periodically, but never those from before. A nested
    block does nothing, since counting frozen objects takes some milliseconds.
    """
    before, meanwhile = gc.get_threshold(), (50_000, 20, 100) if for_ever else _SELDOM
    if before == meanwhile:
        yield
        return
    frozen = gc.get_freeze_count()
    gc.set_threshold(*meanwhile)
    gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:  # what a program froze itself stays so
            gc.unfreeze()


def gather(gathered: GatheredRows, files: Sequence[Path], states: Sequence[Path]) -> None:
    """Add the rows in files of `Engine.fold_into`, and the rows of states if their logs end.

    Raises:
        CheckpointRefused: a file or a state is damaged.
    """
    for path in files:
        for lines in saved_batches(path):
            gathered.add_lines(lines)
    for path in states:
        gathered.add(take_up(path).ended())
