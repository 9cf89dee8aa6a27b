"""What a job needs from a protocol: how it folds one partition, and into which tables.

A protocol together with its settings is a `Judging`: claims have one (`partition_fold`), groups
have one, and a third is a class with these members. Engines, jobs and shuffles know no more of a
protocol than what is here. What a whole replay needs besides is in `replay.protocols`.
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
"""Log, coordinating partition, and what is folded there next."""
Read: TypeAlias = Callable[[int, Chunk], Iterator[pa.RecordBatch]]
"""What reads a chunk, given its number."""


class PlaceFold(Protocol):
    """The account of one coordinating partition of one log."""

    def feed(self, raw: RawRecord) -> None:
        """The next record, in offset order."""

    def settle(self) -> None:
        """The input is over, but not the log: the account is put aside, and more may follow."""

    def forked(self, raw: RawRecord) -> None:
        """The input holds another record where one was folded that an earlier run put aside."""

    def close(self) -> None:
        """The log is over."""

    @property
    def is_full(self) -> bool:
        """Whether rows should be drained before the next record: many wait."""

    def drain(self) -> Rows:
        """The rows since the last time."""


class LiveAccount(PlaceFold, Protocol):
    """An account that a watch keeps: it says at once what began."""

    def begun(self) -> Iterator[FindingRow]:
        """The findings that began by the last record, as they stand now; asked again, none."""

    @property
    def waiting(self) -> int:
        """How many rows wait to be drained."""

    def gauges(self) -> tuple[int, ...]:
        """The numbers that `LiveJudging.gauges` names, as they stand now."""


class Collapse(Protocol):
    """How many records of a chunk become few rows, before they are shuffled."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows: at least `log`, `partition`, `offset` and `input_order`."""

    def read(self, number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
        """The rows of one chunk.

        Raises:
            UnreadableSource: what is read is no record.
        """

    def rows_of(self, number: int, batches: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that some records of one chunk become."""

    def taking(
        self, chunks: tuple[Chunk, ...], read: Read = read_chunk, *, by_row: bool = False
    ) -> tuple[Callable[[pa.RecordBatch], Placed], Callable[[Any], Callable[[Any], None]]]:
        """What the rows of a batch are, and what gives them to the account of a place.

        `read` reads a chunk again, for records that must be looked at one by one. `by_row`: each
        row is one item. What takes a row raises SourcesOverlap where chunks do not follow each
        other.
        """


class Judging(Protocol):
    """A protocol with its settings. It pickles, and equal ones fold a log to equal rows.

    Accounts pickle too, if `--checkpoint` is to put them aside.
    """

    @property
    def options(self) -> Mapping[str, object]:
        """The settings, as JSON: a checkpoint that was made with others is refused."""

    @property
    def tables(self) -> TableSet:
        """What the rows of an account are."""

    @property
    def keys(self) -> bool:
        """Records are read with their keys."""

    @property
    def collapse(self) -> Collapse | None:
        """How a long log is made small; None: every record is folded by itself."""

    def begin(self, place: LogPartition) -> PlaceFold:
        """A new account."""


class LiveJudging(Judging, Protocol):
    """A protocol that a watch can follow."""

    @property
    def coordination_partitions(self) -> int | None:
        """Partition count of the topic; None: what lies on the wrong one is not found."""

    @property
    def gauges(self) -> Mapping[str, str]:
        """What is counted of a partition as it stands: names of metrics, and what each means."""

    @property
    def log_clock(self) -> Rules | None:
        """By which rules the log's clock decides who is stale; None: it decides nothing."""

    @property
    def outlives_gaps(self) -> bool:
        """An account goes on where retention has overtaken it; else it begins anew there."""

    def without_head(self, partition: int) -> str:
        """What is not known of a partition whose head is missing, as a clause."""

    def of_topic(self, partitions: int) -> Self:
        """The same for a topic with that many partitions, unless the number was given before."""

    def begin(self, place: LogPartition) -> LiveAccount:
        """As `Judging`."""
