"""A replay that resumes where the last one ended: one growing log, folded run by run.

The folder holds the final rows of every run, and the latest state of every coordinating partition.
A replay's output consists of both: the rows of all runs, and the rows of each state if the log ends
now. `Checkpoint`'s manifest lists the files that belong together, and replacing it is the commit. A
folder that lacks one of them is refused. A run only writes into its own folder, which has a unique
name. So a Spark task that survives its driver does no harm. The engine of a run is not recorded:
the next one may use another.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import TimestampType
from kafka_marshal.replay.engines.engine import Engine
from kafka_marshal.replay.errors import ReplayError, SourcesOverlap
from kafka_marshal.replay.fold.jobs import placed_records, row_schema
from kafka_marshal.replay.fold.judging import Judging, Placed
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, read_chunk
from kafka_marshal.replay.model.chunk_items import SingleRecord
from kafka_marshal.replay.model.folded_log import FoldedLog
from kafka_marshal.replay.model.tables import Rows
from kafka_marshal.replay.places import reason_of, remove_tree
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.sources.columns import padded
from kafka_marshal.replay.state.checkpoint import Checkpoint
from kafka_marshal.replay.state.partition_state import (
    PartitionState,
    StateHead,
    read_head,
    take_up,
)
from kafka_marshal.replay.state.saved_rows import ROWS, RowFiles, committed_rows, row_files

STATES: Final = "states"
SUFFIX: Final = ".state"
_SKIPPED: Final = -2
"""The `input_order` of a row that only counts the chunk's records that were folded before."""


@frozen
class IncrementalRun:
    """The effect of one run on a checkpoint."""

    run: int
    """The how many-th it is."""
    heads: tuple[StateHead, ...]
    """Of the coordinating partitions that its input held."""

    @property
    def folded(self) -> int:
        """Records that no run had folded before."""
        return sum(head.folded for head in self.heads)

    @property
    def skipped(self) -> int:
        """Records below the offset at which the run resumed."""
        return sum(head.skipped for head in self.heads)


class OpenLog:
    """A checkpoint folder of replays, held by this process."""

    def __init__(self, folder: Path, checkpoint: Checkpoint) -> None:
        known = checkpoint.known()
        self._checkpoint = checkpoint
        self._committing = False
        self.folder = folder.resolve()
        self.rows = committed_rows(folder, known.beside) if known else {}
        """The rows files of all runs that were committed, by the run's folder, the first first."""
        self.states: dict[int, Path] = {
            partition: self.folder / file
            for partition, file in (known.states if known else {}).items()
        }
        """The state of every coordinating partition."""
        self.heads = {partition: read_head(path) for partition, path in self.states.items()}
        self.sweep()

    def begun(self) -> Path:
        """A folder for a run, which counts for nothing before `commit`."""
        folder = self.folder / f"run-{len(self.rows) + 1:05}-{uuid.uuid4().hex[:8]}"
        (folder / STATES).mkdir(parents=True)
        return folder

    def commit(self, run: Path, files: RowFiles) -> None:
        """Commit a run with its rows files: the next run resumes from here."""
        rows, states = {**self.rows, run.name: files}, states_of(run)
        for partition, path in states.items():
            self._checkpoint.adopt(partition, str(path.relative_to(self.folder)))
        self._committing = True  # if it breaks, only the file knows what counts
        self._checkpoint.commit({"runs": list(rows), "rows": rows})
        self._committing = False
        self.rows, self.states = rows, {**self.states, **states}

    def sweep(self) -> None:
        """Remove files of no commit: those of failed runs, and replaced states.

        Only call this when nothing is computed from them any more.
        """
        if self._committing:
            return
        for run in self.folder.glob("run-*"):
            if run.name not in self.rows:
                remove_tree(run)
                continue
            for path in (run / STATES).glob("*"):
                if path not in self.states.values():
                    path.unlink(missing_ok=True)


def states_of(run: Path) -> dict[int, Path]:
    """The states that a run has saved."""
    return {int(path.stem): path for path in (run / STATES).glob(f"*{SUFFIX}")}


@contextmanager
def open_log(folder: Path, options: Mapping[str, Any]) -> Iterator[OpenLog]:
    """Open a folder, or create it.

    Raises:
        CheckpointRefused: it was made with other options or by another version, it is damaged,
            or another process holds it.
    """
    with closing(Checkpoint(folder, {"command": "replay", **options})) as checkpoint:
        try:
            yield OpenLog(folder, checkpoint)
        except OSError as error:
            place = error.filename or folder
            raise ReplayError(f"{place}: cannot write there: {reason_of(error)}") from None


class _Reader:
    """Reads chunks from the end of earlier runs on."""

    def __init__(self, chunks: tuple[Chunk, ...], next_offsets: Mapping[int, int]) -> None:
        self._chunks = chunks
        self._next_offsets = dict(next_offsets)

    def new(self, number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The records that no run has folded."""
        for batch in read_chunk(number, chunk):
            below, _ = self._below(batch)
            yield batch.filter(pa.array(~below)) if below.any() else batch

    def chunk(self, number: int) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """The new records of a chunk, and the rows that report the others."""
        new, rest = [], []
        log = ""
        skipped: dict[int, int] = {}
        for batch in read_chunk(number, self._chunks[number]):
            below, again = self._below(batch)
            if not below.any():
                new.append(batch)
                continue
            log = batch.column("log")[0].as_py()
            passed = batch.column("partition").to_numpy()[below & ~again]
            for partition, count in zip(*np.unique(passed, return_counts=True), strict=True):
                skipped[int(partition)] = skipped.get(int(partition), 0) + int(count)
            if again.any():
                rest.append(batch.filter(pa.array(again)))
            if not below.all():
                new.append(batch.filter(pa.array(~below)))
        if skipped:
            rest.append(_counts(log, skipped))
        return new, rest

    def _below(self, batch: pa.RecordBatch) -> tuple[Any, Any]:
        """Which records were folded before, and which of them are the last that were."""
        partitions = batch.column("partition").to_numpy()
        offsets = batch.column("offset").to_numpy()
        next_offsets = np.zeros(len(offsets), np.int64)
        for partition in np.unique(partitions):
            next_offsets[partitions == partition] = self._next_offsets.get(int(partition), 0)
        return offsets < next_offsets, offsets == next_offsets - 1


def _counts(log: str, skipped: Mapping[int, int]) -> pa.RecordBatch:
    """Rows that sort before all records of their partition."""
    columns = {
        "log": pa.array([log] * len(skipped)),
        "partition": pa.array(list(skipped), pa.int64()),
        "offset": pa.array([-1] * len(skipped), pa.int64()),
        "input_order": pa.array([_SKIPPED] * len(skipped), pa.int64()),
        "timestamp_ms": pa.array([0] * len(skipped), pa.int64()),
        "timestamp_type": pa.array([TimestampType.NOT_STATED.value] * len(skipped)),
        "value": pa.array([str(count).encode() for count in skipped.values()], pa.binary()),
    }
    return padded(pa.RecordBatch.from_pydict(columns), ARROW_SCHEMA)


@frozen
class _NewRecords:
    """Folds the new records of one run onto the states of earlier ones: a `Job`."""

    chunks: tuple[Chunk, ...]
    judging: Judging
    states: Mapping[int, Path]
    next_offsets: Mapping[int, int]
    folder: Path
    """The folder for saved states."""
    collapsing: bool

    def read(self, number: int) -> Iterator[pa.RecordBatch]:
        """As `Job`."""
        new, rest = _Reader(self.chunks, self.next_offsets).chunk(number)
        if not self.collapsing:
            for each in rest:
                yield padded(each, row_schema(self))
            yield from new
            return
        for each in rest:
            yield padded(each, row_schema(self))
        if new and self.judging.collapse is not None:
            yield from self.judging.collapse.rows_of(number, new)

    def fold(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Rows]:
        """As `Job`; states are saved."""
        items_of, taker = self._taking()
        standing: PartitionState | None = None
        take: Callable[[Any], None]
        begins_at = 0
        for batch in batches:
            orders = batch.column("input_order").to_pylist()
            for (log, partition, item), order in zip(items_of(batch), orders, strict=True):
                if standing is None or standing.partition != partition:
                    if standing is not None:
                        yield standing.put_aside(self._path(standing.partition))
                    standing = self._standing(log, partition)
                    take = taker(standing.place_fold)
                    begins_at = standing.next_offset
                if order == _SKIPPED:
                    standing.skipped += int(item.raw.value)
                elif isinstance(item, SingleRecord) and item.raw.offset < begins_at:
                    standing.again(item.raw)
                elif self.collapsing:
                    standing.take(item, take)
                else:
                    standing.feed(item.raw)
                if standing.place_fold.is_full:
                    yield standing.place_fold.drain()
            if standing is not None:
                yield standing.place_fold.drain()
        if standing is not None:
            yield standing.put_aside(self._path(standing.partition))

    def _taking(
        self,
    ) -> tuple[Callable[[pa.RecordBatch], Placed], Callable[[Any], Callable[[Any], None]]]:
        """The functions that decode rows of a collapsed log, and that fold them."""
        if not self.collapsing or self.judging.collapse is None:
            return _singles, attrgetter("feed")
        reader = _Reader(self.chunks, self.next_offsets)
        return self.judging.collapse.taking(self.chunks, reader.new, by_row=True)

    def _path(self, partition: int) -> Path:
        return self.folder / f"{partition}{SUFFIX}"

    def _standing(self, log: str, partition: int) -> PartitionState:
        path = self.states.get(partition)
        return PartitionState.of(log, partition, self.judging) if path is None else take_up(path)


def _singles(batch: pa.RecordBatch) -> Iterator[tuple[str, int, Any]]:
    for log, partition, raw in placed_records(batch):
        yield log, partition, SingleRecord(raw, raw.timestamp_ms)


@contextmanager
def run_resumed(
    engine: Engine,
    chunks: tuple[Chunk, ...],
    judging: Judging,
    log: OpenLog,
    on_progress: Callable[[str], None],
) -> Iterator[tuple[FoldedLog, IncrementalRun, Callable[[], None]]]:
    """Fold new records onto earlier states; yield the whole account, the run, and its commit.

    Raises:
        UnreadableSource: a line or a row is no record.
        ReplayError: the engine failed for another reason.
        CheckpointRefused: a state or an earlier run's rows are damaged.
    """
    next_offsets = {partition: head.next_offset for partition, head in log.heads.items()}
    run = log.begun()
    collapsing = judging.collapse is not None and engine.collapses(chunks)
    job = _NewRecords(chunks, judging, log.states, next_offsets, run / STATES, collapsing)
    on_progress(f"reading {len(chunks)} chunks, folding what is new")
    try:
        try:
            engine.fold_into(job, run / ROWS)
        except SourcesOverlap:
            on_progress("the sources overlap: reading them again, record by record")
            remove_tree(run)
            run = log.begun()
            job = attrs.evolve(job, folder=run / STATES, collapsing=False)
            engine.fold_into(job, run / ROWS)
        states = states_of(run)
        heads = tuple(read_head(path) for _, path in sorted(states.items()))
        on_progress("telling how everything stands")
        written = row_files(run)
        files = [
            log.folder / name / ROWS / file
            for name, of_run in {**log.rows, run.name: written}.items()
            for file in of_run
        ]
        standing = [*{**log.states, **states}.values()]
        with engine.fold_of(files, standing, judging.tables) as fold:
            yield fold, IncrementalRun(len(log.rows) + 1, heads), lambda: log.commit(run, written)
    finally:
        log.sweep()
