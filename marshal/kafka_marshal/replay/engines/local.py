"""The fold on this machine, without Spark and Java.

Chunks are read, and their rows are gathered by coordinating partition. The same account as on Spark
folds each. For a long log, several processes do both (`by_partition`), else this one. The rows stay
here, in memory or in files. A small log is fed record by record, because loading the compiled
kernel takes longer. `pipeline` runs the same job on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from kafka_marshal.replay.engines.by_partition import fold_by_partition, processes_for
from kafka_marshal.replay.fold.jobs import Job
from kafka_marshal.replay.model.tables import TableSet
from kafka_marshal.replay.one_process.gathering import folded, gather, worth_collapsing
from kafka_marshal.replay.one_process.local_fold import GatheredRows, LocalFoldedLog
from kafka_marshal.replay.sources import Chunk


@frozen
class LocalEngine:
    """As `Engine`."""

    on_tasks: Callable[[int, int], None] | None = None
    """Called with the numbers of chunks that are read, and of all; then with those of coordinating
    partitions that are folded, and of all."""

    def collapses(self, chunks: Sequence[Chunk]) -> bool:
        """As `Engine`."""
        return worth_collapsing(chunks)

    @contextmanager
    def fold(self, job: Job) -> Iterator[LocalFoldedLog]:
        """As `Engine`."""
        with self._gathered(job) as gathered:
            yield LocalFoldedLog.of(gathered)

    def fold_into(self, job: Job, folder: Path) -> None:
        """As `Engine`."""
        with self._gathered(job) as gathered:
            folder.mkdir(parents=True)
            gathered.write(folder / "part-00000.parquet")

    @contextmanager
    def fold_of(
        self, files: Sequence[Path], states: Sequence[Path], tables: TableSet
    ) -> Iterator[LocalFoldedLog]:
        """As `Engine`."""
        with GatheredRows(tables) as gathered:
            gather(gathered, files, states)
            yield LocalFoldedLog.of(gathered)

    @contextmanager
    def _gathered(self, job: Job) -> Iterator[GatheredRows]:
        with GatheredRows(job.judging.tables) as gathered:
            processes = processes_for(job.chunks)
            if processes > 1:
                fold_by_partition(job, gathered, processes, self._report)
            else:
                for drained in folded(job, self._report):
                    gathered.add(drained)
            yield gathered

    def _report(self, done: int, of: int) -> None:
        if self.on_tasks is not None:
            self.on_tasks(done, of)
