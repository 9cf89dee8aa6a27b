"""Folds a log in several processes: each reads chunks, and folds coordinating partitions.

The rows of a chunk are stored in a file, sorted; each partition is a range of batches there. The
process that folds the partition merges its ranges, and writes the tables' rows. So only names and
numbers are pickled, and no process holds more than its current work. A partition that has most of
the log is folded while the chunks are read (`folding_ahead`).
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from attrs import frozen

from kafka_marshal.errors import naming
from kafka_marshal.replay.engines.folding_ahead import FoldingAhead
from kafka_marshal.replay.engines.stretches import Stretch
from kafka_marshal.replay.engines.workers import Workers, forks
from kafka_marshal.replay.fold.jobs import Job, row_schema
from kafka_marshal.replay.one_process.gathering import (
    ROW_ORDER,
    Place,
    by_place,
    collecting_seldom,
    read_rows,
)
from kafka_marshal.replay.one_process.local_fold import GatheredRows
from kafka_marshal.replay.one_process.sorting import (
    SortedRun,
    SpillFolder,
    first_of,
    last_of,
    merged,
)
from kafka_marshal.replay.sources import Chunk

RECORDS_PER_PROCESS: Final = 1_000_000
"""The number of records that justifies another process. Starting it takes a second, and copied
pages of memory another second of processor time for a million records."""
_FEW: Final = 8
"""Records for each row of a chunk from which on its file is not packed. Such rows are runs, of 8
bytes a record: to pack and unpack them took longer than the fold's own reading."""


def processes_for(chunks: Sequence[Chunk]) -> int:
    """The number of processes for these chunks: one per core, if there is enough work."""
    records = sum(chunk.records for chunk in chunks)
    return max(1, min(_cores(), len(chunks), records // RECORDS_PER_PROCESS))


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@frozen
class ReadAndFold:
    """The work of each process; it pickles."""

    job: Job
    read_folder: Path
    folder: Path
    """The folder for the tables' rows."""

    def read(self, number: int) -> Mapping[Place, Stretch]:
        """Read a chunk into a file."""
        path = self.read_folder / f"read-{number:05}"
        found: dict[Place, Stretch] = {}
        with SpillFolder() as folder:
            rows, _ = read_rows(self.job, [number], folder)
            few = rows.rows * _FEW <= self.job.chunks[number].records
            options = pa.ipc.IpcWriteOptions(compression=None if few else "lz4")
            with (
                naming(path),
                pa.OSFile(str(path), "wb") as file,
                pa.ipc.new_file(file, rows.schema, options=options) as writer,
            ):
                pieces = (piece for batch in rows.batches() for piece in by_place(batch))
                for at, (place, batch) in enumerate(pieces):
                    writer.write_batch(batch)
                    of = found.get(place)
                    found[place] = Stretch(
                        path,
                        of.begin if of else at,
                        at + 1,
                        batch.num_rows + (of.rows if of else 0),
                        of.first if of else first_of(batch, ROW_ORDER),
                        last_of(batch, ROW_ORDER),
                    )
        return found

    def fold(self, number: int, stretches: Sequence[Stretch]) -> None:
        """Fold a coordinating partition, the `number`-th of all, into a file of tables' rows."""
        with GatheredRows(self.job.judging.tables) as gathered, collecting_seldom():
            runs = [SortedRun(each.first, each.batches) for each in stretches]
            for drained in self.job.fold(merged(runs, ROW_ORDER)):
                gathered.add(drained)
            gathered.write_streams(self.folder / name_of(number))


def name_of(number: int) -> str:
    """The name of files with the rows of the `number`-th coordinating partition."""
    return f"{number:05}"


def fold_by_partition(
    job: Job, gathered: GatheredRows, processes: int, report: Callable[[int, int], None]
) -> None:
    """Fold a job, and gather the rows; `report` as in `gathering.folded`.

    Raises:
        UnreadableSource: something is no record.
        SourcesOverlap: chunks do not follow each other, so nothing may be collapsed.
        ReplayError: a process has ended.
    """
    with SpillFolder() as scratch:
        read_folder, folder, temporary = (scratch.file() for _ in range(3))
        for each in (read_folder, folder, temporary):
            each.mkdir()
        work = ReadAndFold(job, read_folder, folder)
        if forked := forks():
            _load(job)
        with (
            collecting_seldom(),
            FoldingAhead(job, processes) as ahead,
            Workers(work, processes, temporary, forked=forked) as workers,
        ):
            chunks = len(job.chunks)
            each_chunk = [(number,) for number in range(chunks)]
            stretches: dict[Place, list[Stretch]] = defaultdict(list)
            for found in workers.run(
                "read", each_chunk, partial(_report, report, chunks), ahead.take
            ):
                for place, stretch in found.items():
                    stretches[place].append(stretch)
            # A number for each, so that rows stay in the order of places; the largest first.
            numbers = {place: number for number, place in enumerate(sorted(stretches))}
            places = [
                (numbers[place], of) for place, of in stretches.items() if place != ahead.place
            ]
            places.sort(key=lambda each: -sum(stretch.rows for stretch in each[1]))
            workers.run("fold", places, partial(_report, report, len(places)))
            if ahead.place is not None:
                ahead.finish().write_streams(folder / name_of(numbers[ahead.place]))
        gathered.add_streams(folder)


def _load(job: Job) -> None:
    """Load modules before forking, once for all copies.

    If a job collapses runs, that takes a third of a second.
    """
    if row_schema(job) and job.collapsing:
        from kafka_marshal.kernel.entries import longest_entry

        longest_entry(memoryview(bytes(4)))


def _report(report: Callable[[int, int], None], of: int, done: int) -> None:
    report(done, of)
