"""A topic as a Spark stream: one task per coordinating partition, in offset order.

This module knows Spark's data sources and the reader of a topic. It does not know what a record
means, nor how it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Final, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.replay.model.rows import spark_schema
from kafka_marshal.replay.sources.columns import ARROW_SCHEMA, batch_of, cells_of
from kafka_marshal.replay.spark.workers import settle

WATCHED: Final = "marshal_watched"
"""The name of the data source that `source` returns."""


class OffsetRange(InputPartition):
    """`[begin, end)` of one partition."""

    def __init__(self, number: int, begin: int, end: int) -> None:
        super().__init__(number)
        self.number, self.begin, self.end = number, begin, end


class TopicReader(DataSourceStreamReader):
    """A Spark reader whose offset is the next offset by partition; Spark's checkpoint stores it.

    Args:
        starting: where a new stream begins.
        ends: the offsets at which it stops.
        most: the most offsets of one partition to read at once. Only for a stream without a
            checkpoint: Spark does not report the start of a resumed one before it reads.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        starting: Literal["earliest", "latest"] | Mapping[int, int] = "earliest",
        *,
        ends: Mapping[int, int] | None = None,
        most: int | None = None,
        made: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda batch: batch,
    ) -> None:
        self._settings, self._topic, self._starting = settings, topic, starting
        self._ends, self._most, self._made = ends, most, made
        self._reached: dict[str, int] = {}
        self._tail: CoordinationReader | None = None

    def _extents(self) -> dict[int, tuple[int, int]]:
        if self._tail is None:
            self._tail = CoordinationReader(self._settings, self._topic)
        extents = self._tail.extents()
        return {number: (one.low, one.high) for number, one in sorted(extents.items())}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Where a new stream begins."""
        starting = self._starting
        if isinstance(starting, str):
            chosen = 1 if starting == "latest" else 0
            return {str(number): one[chosen] for number, one in self._extents().items()}
        return {str(number): offset for number, offset in sorted(starting.items())}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        """The end of the next batch. Spark may call this again before it reads."""
        if self._most is not None and not self._reached:
            self._reached = self.initialOffset()  # Spark asks for the end first
        try:
            extents = self._extents()
        except BrokerFailed:
            if not self._reached:
                raise
            return dict(self._reached)  # it may be away for a while
        latest = {}
        for number, (_, high) in extents.items():
            end = high if self._ends is None else min(high, self._ends.get(number, high))
            reached = self._reached.get(str(number))
            if reached is not None:
                end = max(end, reached)
                if self._most is not None:
                    end = min(end, reached + self._most)
            latest[str(number)] = end
        return latest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One task for each partition with new records."""
        self._reached = dict(end)
        return [
            OffsetRange(int(number), start.get(number, 0), stop)
            for number, stop in end.items()
            if start.get(number, 0) < stop
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range."""
        assert isinstance(partition, OffsetRange)
        settle()
        number = partition.number
        with closing(CoordinationReader(self._settings, self._topic)) as tail:
            for raws in tail.records({number: partition.begin}, {number: partition.end}):
                if raws:
                    rows = [cells_of(raw) for raw in raws]
                    yield self._made(batch_of(self._topic, raws[0].offset, rows))

    def commit(self, end: dict[str, int]) -> None:
        """Does nothing: Spark's checkpoint stores the offsets."""

    def stop(self) -> None:
        """Close the connection to the cluster."""
        if self._tail is not None:
            self._tail.close()


def source(
    settings: Settings,
    topic: str,
    starts: Mapping[int, int],
    ends: Mapping[int, int] | None,
    most: int,
) -> type[DataSource]:
    """The data source of the topic's records, from `starts` on, to register and read as `WATCHED`.

    It holds its settings itself, since Spark shows options in its plans.
    """

    class Watched(DataSource):
        @classmethod
        def name(cls) -> str:
            return WATCHED

        def schema(self) -> str:
            # Arrow and Spark write a type in different ways.
            return spark_schema(ARROW_SCHEMA).replace(": ", " ")

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
            return TopicReader(settings, topic, starts, ends=ends, most=most)

    return Watched
