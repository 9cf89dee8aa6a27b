"""Folds new records onto the state of a coordinating partition: an executor's part of a watch.

A task reads the state from a file of the checkpoint's folder and writes the new one to another. It
also writes its reports to a file there, in order, and returns the names to the driver. No two tasks
write to one file, and a file only counts when the driver commits it. This module does not know how
the topic is read, nor where the reports go.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import attrs
import pyarrow as pa
from attrs import field, frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.claims.world import OutOfOrder
from kafka_marshal.replay.errors import ReplayError
from kafka_marshal.replay.fold.judging import LiveJudging
from kafka_marshal.replay.live.live_findings import LiveEvent, LiveFold, appended_ms
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.rows import arrow_type_of
from kafka_marshal.replay.sources.columns import records_of
from kafka_marshal.replay.state.checkpoint import replace_whole, thawed_each
from kafka_marshal.replay.state.partition_state import PartitionState, take_up


def taken_up(
    path: Path | None, log_partition: LogPartition, judging: LiveJudging
) -> PartitionState:
    """The state in a file of the checkpoint; a new one if there is no file.

    Raises:
        CheckpointRefused: the file is damaged.
    """
    if path is None:
        return PartitionState(
            log_partition.coordinating_partition, LiveFold(log_partition, judging)
        )
    return take_up(path)


def events_of(state: PartitionState, raw: RawRecord) -> list[LiveEvent]:
    """The events of the next record.

    Raises:
        ReplayError: it is not the next one; the message names the partition.
    """
    try:
        events = live_fold(state).fold(raw)
    except OutOfOrder as error:
        raise ReplayError(f"partition {raw.partition}: {error}") from None
    state.fed(raw)
    return events


def live_fold(state: PartitionState) -> LiveFold:
    """The account of a watched partition."""
    assert isinstance(state.place_fold, LiveFold)
    return state.place_fold


def pickled(state: PartitionState) -> bytes:
    """A state with drained rows, in the form of its file."""
    held, rows = state.pickled()
    assert not rows, "rows that were not drained would be lost"
    return held


def put_aside(state: PartitionState, path: Path) -> None:
    """Write a state with drained rows.

    Raises:
        OSError: it cannot be written.
    """
    replace_whole(path, pickled(state))


@frozen
class FoldedPartition:
    """The result of a task for one coordinating partition."""

    partition: int
    records: int
    gauges: tuple[int, ...] = field(converter=tuple[int, ...])
    """As `LiveAccount`."""
    events: str | None
    """The file of its reports; None: there are none."""
    file: str
    """The file of its state."""
    next_offset: int
    highest_ms: int
    """The highest timestamp of the records, in unix ms."""

    def as_they_stand(self) -> tuple[int, ...]:
        """The gauges, in the form that `WatchContext.read` expects."""
        return self.gauges


FOLDED_SCHEMA: Final = pa.schema(list(arrow_type_of(FoldedPartition)))


@frozen
class BatchFold:
    """The arguments of every task of one batch."""

    folder: Path
    """The checkpoint's folder."""
    topic: str
    judging: LiveJudging
    states: Mapping[int, str]
    names: Mapping[int, str]
    """By partition, the prefix of its file names."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn records, sorted by offset in each partition, into rows of `FOLDED_SCHEMA`."""
        going: _PartitionInBatch | None = None
        for batch in batches:
            for _, raw in records_of(batch):
                if going is None or going.partition != raw.partition:
                    if going is not None:
                        yield _batch(going.put_aside())
                    going = _PartitionInBatch(self, raw.partition)
                going.take(raw)
        if going is not None:
            yield _batch(going.put_aside())


def _batch(folded: FoldedPartition) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([attrs.asdict(folded)], schema=FOLDED_SCHEMA)


class _PartitionInBatch:
    """One coordinating partition while its batch is folded."""

    def __init__(self, folding: BatchFold, partition: int) -> None:
        self.partition = partition
        self._folder = folding.folder
        self._name = f"{folding.names[partition]}-{uuid.uuid4().hex[:12]}"
        file = folding.states.get(partition)
        self._state = taken_up(
            None if file is None else folding.folder / file,
            LogPartition(folding.topic, partition),
            folding.judging,
        )
        self._highest_ms = 0
        self._events: IO[bytes] | None = None

    def take(self, raw: RawRecord) -> None:
        if raw.offset < self._state.next_offset:
            return  # the state knows it
        events = events_of(self._state, raw)
        self._highest_ms = max(self._highest_ms, raw.timestamp_ms)
        if events and self._events is None:
            self._events = (self._folder / f"{self._name}.events").open("wb")
        for one in events:
            assert self._events is not None
            pickle.dump((one.state, one.row, appended_ms(raw)), self._events, protocol=5)

    def put_aside(self) -> FoldedPartition:
        if self._events is not None:
            self._events.close()
        put_aside(self._state, self._folder / self._name)
        return FoldedPartition(
            self.partition,
            self._state.folded,
            live_fold(self._state).account.gauges(),
            None if self._events is None else Path(self._events.name).name,
            self._name,
            self._state.next_offset,
            self._highest_ms,
        )


def events_in(path: Path) -> Iterator[tuple[LiveEvent, int | None]]:
    """Yield the events that a task wrote, each with the append time of its record.

    Raises:
        CheckpointRefused: the file is damaged.
    """
    with path.open("rb") as file:
        for state, row, appended in thawed_each(file, str(path)):
            yield LiveEvent(state, row), appended
