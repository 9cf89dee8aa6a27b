"""Folds the largest coordinating partition of a log while its chunks are still being read.

A coordinating partition is folded by one process. If it has most of a log, the others would wait
for that one at the end. So a thread folds the chunks read so far, in their order, and the processes
share the remaining ones. This module does not know how or where chunks are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from queue import SimpleQueue
from threading import Thread
from typing import Final

import pyarrow as pa

from kafka_marshal.replay.engines.stretches import Stretch
from kafka_marshal.replay.fold.jobs import Job
from kafka_marshal.replay.one_process.gathering import Place
from kafka_marshal.replay.one_process.local_fold import GatheredRows

CHUNKS_MIN: Final = 2
"""The number of chunks that must be known before a coordinating partition is chosen."""


class _Abandoned(Exception):
    """The rows must be folded later, in another order."""


class FoldingAhead:
    """Receives the rows of each chunk, in any order. A context manager that ends its thread."""

    def __init__(self, job: Job, processes: int) -> None:
        self._job, self._processes = job, processes
        self._read: dict[int, Mapping[Place, Stretch]] = {}
        """Chunks that wait for earlier ones."""
        self._taken = self._next = 0
        self._rows_of: Counter[Place] = Counter()
        self._last: Stretch | None = None
        self._queue: SimpleQueue[Stretch | None] = SimpleQueue()
        self._is_chosen = self._is_abandoned = False
        self._thread: Thread | None = None
        self._error: BaseException | None = None
        self.rows = GatheredRows(job.judging.tables)
        self.place: Place | None = None
        """The partition that is folded; None while none has most of the rows, or if its chunks are
        not in order."""

    def __enter__(self) -> FoldingAhead:
        self.rows.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._end(abandoned=True)
        self.rows.__exit__(*error)

    def take(self, number: int, found: Mapping[Place, Stretch]) -> None:
        """Add the rows of a chunk."""
        self._read[number] = found
        self._taken += 1
        for place, stretch in found.items():
            self._rows_of[place] += stretch.rows
        if not self._is_chosen and self._taken >= CHUNKS_MIN:
            place, most = self._rows_of.most_common(1)[0]
            if most * self._processes > self._rows_of.total():
                self._is_chosen, self.place = True, place
                self._thread = Thread(target=self._fold, daemon=True)
                self._thread.start()
        while self.place is not None and self._next in self._read:
            next_stretch = self._read.pop(self._next).get(self.place)
            self._next += 1
            if next_stretch is not None:
                self._follow(next_stretch)

    def _follow(self, stretch: Stretch) -> None:
        if self._last is not None and stretch.first <= self._last.last:
            self._end(abandoned=True)
            self.place = None
            return
        self._last = stretch
        self._queue.put(stretch)

    def finish(self) -> GatheredRows:
        """The rows of `place`, after all chunks were read and added.

        Raises the errors of its fold.
        """
        self._end(abandoned=False)
        if self._error is not None:
            raise self._error
        return self.rows

    def _end(self, *, abandoned: bool) -> None:
        if self._thread is not None:
            self._is_abandoned = abandoned
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _fold(self) -> None:
        try:
            for drained in self._job.fold(self._batches()):
                self.rows.add(drained)
        except _Abandoned:
            return
        except BaseException as error:  # `finish` raises it
            self._error = error

    def _batches(self) -> Iterator[pa.RecordBatch]:
        while (stretch := self._queue.get()) is not None:
            for batch in stretch.batches():
                if self._is_abandoned:
                    raise _Abandoned
                yield batch
        if self._is_abandoned:
            raise _Abandoned
