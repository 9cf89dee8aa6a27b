"""Sorts any number of rows in bounded memory.

Rows that exceed the limit are stored in files, each sorted, which are merged when the rows are
read. This module does not know the meaning of rows.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from attrs import field, frozen

from kafka_marshal.errors import naming
from kafka_marshal.scratch import Scratch

ROWS_AT_ONCE: Final = 8192
"""The most rows of a batch."""
BATCH_BYTES: Final = 1 << 20
"""The most bytes of a batch in a file, unless one row has more."""
FILES_AT_ONCE: Final = 64
"""The most files that are merged at once; each needs the memory of one batch."""
Key: TypeAlias = tuple[tuple[bool, Any], ...]
"""The sort key of a row: nulls first."""


class SpillFolder:
    """A temporary folder, made when the first file is. A context manager that removes it."""

    def __init__(self) -> None:
        self._kept = ExitStack()
        self._path: Path | None = None
        self._files = itertools.count()

    def file(self) -> Path:
        """A file that does not exist yet."""
        if self._path is None:
            self._path = self._kept.enter_context(Scratch("rows"))
        return self._path / str(next(self._files))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.close()


@frozen
class SortedRun:
    """Rows in order, not all of them in memory."""

    first: Key
    batches: Callable[[], Iterator[pa.RecordBatch]] = field(eq=False)


class Sorter:
    """Sorts rows of one schema; equal ones stay in their order."""

    def __init__(self, schema: pa.Schema, order: Sequence[str], folder: SpillFolder) -> None:
        self.order = order
        self.rows = 0
        self.bytes_held = 0
        """How much of it is in memory."""
        self.schema = schema
        self._folder = folder
        self._held: list[pa.RecordBatch] = []
        self._runs: list[SortedRun] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Add some rows."""
        self.rows += batch.num_rows
        self.bytes_held += batch.nbytes
        self._held.append(batch)

    @property
    def spilled(self) -> bool:
        """Whether some of the rows are in files."""
        return bool(self._runs)

    def spill(self) -> None:
        """Move all rows that are in memory to a file.

        Raises:
            OSError: it cannot be written.
        """
        if self._held:
            self._runs.append(self._written(in_batches(self.held())))

    def held(self) -> pa.Table:
        """Return the rows in memory, sorted, and forget them."""
        rows = pa.Table.from_batches(self._held, self.schema).combine_chunks()
        self._held, self.bytes_held = [], 0
        return sorted_rows(rows, self.order)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, sorted, and forget them. Files are read in the meantime."""
        if not self._runs:
            yield from in_batches(self.held())
            return
        self.spill()
        runs, self._runs = self._runs, []
        while len(runs) > FILES_AT_ONCE:
            parts = (runs[n : n + FILES_AT_ONCE] for n in range(0, len(runs), FILES_AT_ONCE))
            runs = [self._written(merged(part, self.order)) for part in parts]
        yield from merged(runs, self.order)

    def _written(self, batches: Iterator[pa.RecordBatch]) -> SortedRun:
        path = self._folder.file()
        first: Key = ()

        def with_first() -> Iterator[pa.RecordBatch]:
            nonlocal first
            for batch in batches:
                first = first or _key(batch, 0, self.order)
                yield batch

        write_stream(path, self.schema, with_first())
        return SortedRun(first, lambda: read_stream(path))


def write_stream(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write a file for `read_stream`.

    Raises:
        OSError: it cannot be written.
    """
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with (
        naming(path),
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, schema, options=options) as stream,
    ):
        for batch in batches:
            stream.write_batch(batch)


def read_stream(path: Path) -> Iterator[pa.RecordBatch]:
    """Read a file once: it is removed when it is open."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        path.unlink()
        yield from stream


def sorted_rows(rows: pa.Table, order: Sequence[str]) -> pa.Table:
    """Sort rows, nulls first; equal ones stay as they were."""
    if rows.num_rows < 2:
        return rows
    parting = [name for name in order if not _is_one(rows[name])] or [order[-1]]
    keys = [(name, "ascending") for name in parting]
    return rows.take(pc.sort_indices(rows, sort_keys=keys, null_placement="at_start"))


def _is_one(cells: pa.ChunkedArray) -> bool:
    """Whether all are equal: comparing by such a column takes time without effect."""
    if cells.null_count:
        return bool(cells.null_count == len(cells))
    return bool(pc.all(pc.equal(cells, cells[0])).as_py())


def in_batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Cut a table into batches that are small enough to hold many of."""
    if rows.num_rows:
        size = rows.num_rows * BATCH_BYTES // max(rows.nbytes, 1)
        yield from rows.to_batches(max_chunksize=max(1, min(size, ROWS_AT_ONCE)))


def merged(runs: Iterable[SortedRun], order: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Merge runs; equal rows stay in the order of the runs. One batch of a run is in memory.

    A run is not opened before its first row is next.
    """
    closed = dict(enumerate(runs))
    open_: dict[int, _Head] = {}
    while closed or open_:
        # No row that is still in a file is before `bound`, or equal to it and before run `at`.
        ends = ((head.last, number) for number, head in open_.items())
        bound, at = min(ends, default=None) or min(
            (run.first, number) for number, run in closed.items()
        )
        due = [number for number, run in closed.items() if run.first <= bound]
        if due:
            heads = {number: _Head(closed.pop(number), order) for number in due}
            open_ |= {number: head for number, head in heads.items() if head.goes_on()}
            continue
        parts = [
            part
            for number, head in sorted(open_.items())
            if (part := head.until(bound, through=number <= at)).num_rows
        ]
        open_ = {number: head for number, head in open_.items() if head.goes_on()}
        if len(parts) == 1:
            yield parts[0]
        else:
            rows = sorted_rows(pa.Table.from_batches(parts).combine_chunks(), order)
            yield from in_batches(rows)


class _Head:
    """The next rows of a run."""

    def __init__(self, run: SortedRun, order: Sequence[str]) -> None:
        self._batches = run.batches()
        self._order = order
        self._batch = pa.RecordBatch.from_pylist([])
        self.last: Key = ()
        """Of the rows in memory."""

    def goes_on(self) -> bool:
        """Read more if no row is in memory; return whether there is one then."""
        while not self._batch.num_rows:
            batch = next(self._batches, None)
            if batch is None:
                return False
            self._batch = batch
            if batch.num_rows:
                self.last = _key(batch, batch.num_rows - 1, self._order)
        return True

    def until(self, bound: Key, *, through: bool) -> pa.RecordBatch:
        """Take the rows in memory that are before a key, and with `through` those that equal it."""
        cut = (bisect_right if through else bisect_left)(
            range(self._batch.num_rows), bound, key=lambda row: _key(self._batch, row, self._order)
        )
        taken, self._batch = self._batch.slice(0, cut), self._batch.slice(cut)
        return taken


def first_of(rows: pa.Table, order: Sequence[str]) -> Key:
    """The key of the first row; empty if there is none."""
    return _key(rows, 0, order) if rows.num_rows else ()


def last_of(rows: pa.Table, order: Sequence[str]) -> Key:
    """The key of the last row; empty if there is none."""
    return _key(rows, rows.num_rows - 1, order) if rows.num_rows else ()


def _key(batch: pa.RecordBatch | pa.Table, row: int, order: Sequence[str]) -> Key:
    cells = (batch.column(name)[row].as_py() for name in order)
    return tuple((cell is not None, cell) for cell in cells)
