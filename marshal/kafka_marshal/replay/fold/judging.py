"""What a job needs from a protocol: how it folds one partition, and into which tables.

A `Judging` is a protocol with its settings. Claims have one (`partition_fold`), and so have groups;
a third protocol would be a class with these members. Engines, jobs and shuffles use no more of a
protocol than this interface. A whole replay also needs `replay.protocols`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias

import pyarrow as pa

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.state import Rules
from kafka_marshal.replay.fold.reading import read_chunk
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import Rows, TableSet
from kafka_marshal.replay.sources import Chunk

Placed: TypeAlias = Iterator[tuple[str, int, Any]]
"""Log, coordinating partition, and the next item to fold there."""
Read: TypeAlias = Callable[[int, Chunk], Iterator[pa.RecordBatch]]
"""Reads a chunk, given its number."""


class PlaceFold(Protocol):
    """The account of one coordinating partition of one log."""

    def feed(self, raw: RawRecord) -> None:
        """Fold the next record, in offset order."""

    def settle(self) -> None:
        """The input ends, but not the log: the account is saved, and more may follow."""

    def forked(self, raw: RawRecord) -> None:
        """The input has a different record where an earlier run folded one."""

    def close(self) -> None:
        """The log ends."""

    @property
    def is_full(self) -> bool:
        """Whether to drain rows before the next record, because many wait."""

    def drain(self) -> Rows:
        """The rows since the last call."""


class LiveAccount(PlaceFold, Protocol):
    """The account of a watch, which reports findings when they begin."""

    def begun(self) -> Iterator[FindingRow]:
        """Yield the findings that began since the last call, in their current state."""

    @property
    def waiting(self) -> int:
        """The number of rows that wait to be drained."""

    def gauges(self) -> tuple[int, ...]:
        """The current values of the numbers that `LiveJudging.gauges` names."""


class Collapse(Protocol):
    """Turns many records of a chunk into few rows, before they are shuffled."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows: at least `log`, `partition`, `offset` and `input_order`."""

    def read(self, number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one chunk.

        Raises:
            UnreadableSource: the chunk contains something that is no record.
        """

    def rows_of(self, number: int, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows for some records of one chunk."""

    def taking(
        self, chunks: tuple[Chunk, ...], read: Read = read_chunk, *, by_row: bool = False
    ) -> tuple[Callable[[pa.RecordBatch], Placed], Callable[[Any], Callable[[Any], None]]]:
        """Returns two functions: one decodes a batch, one passes items to a partition's account.

        `read` reads a chunk again, for records that must be folded one by one. `by_row`: each row
        is one item. The second function's result raises SourcesOverlap if chunks do not follow each
        other.
        """


class Judging(Protocol):
    """A protocol with its settings. It pickles, and equal ones fold a log to equal rows.

    Accounts must pickle too, if `--checkpoint` shall save them.
    """

    @property
    def options(self) -> Mapping[str, object]:
        """The settings, as JSON: a checkpoint made with other settings is refused."""

    @property
    def tables(self) -> TableSet:
        """The tables of an account's rows."""

    @property
    def keys(self) -> bool:
        """Whether records are read with their keys."""

    @property
    def collapse(self) -> Collapse | None:
        """How a long log is compacted; None: every record is folded by itself."""

    def begin(self, place: LogPartition) -> PlaceFold:
        """Make a new account."""


class LiveJudging(Judging, Protocol):
    """A protocol that a watch can follow."""

    @property
    def coordination_partitions(self) -> int | None:
        """The partition count of the topic; None: records on the wrong partition are not found."""

    @property
    def gauges(self) -> Mapping[str, str]:
        """The numbers that describe a partition's state: names of metrics, with their meaning."""

    @property
    def log_clock(self) -> Rules | None:
        """The rules by which the log's clock decides which owners are stale; None: it does not."""

    @property
    def outlives_gaps(self) -> bool:
        """Whether an account continues after records lost to retention; else a new one begins."""

    def without_head(self, partition: int) -> str:
        """What is unknown of a partition without its head, as a clause."""

    def of_topic(self, partitions: int) -> Self:
        """The same for a topic with that many partitions, unless the number was given before."""

    def begin(self, place: LogPartition) -> LiveAccount:
        """As `Judging`."""
