"""For notebooks: `spark.read.format("marshal")`, and replays of DataFrames.

spark.dataSource.register(MarshalDataSource)
spark.read.format("marshal").load("last-night/*.jsonl.gz").show()
spark.readStream.format("marshal").options(bootstrap="localhost:9092", topic="__marshal").load()
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

from kafka_marshal.replay.api import run
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.fold.reading import read_chunk
from kafka_marshal.replay.model.decoded import SPARK_SCHEMA, decoded
from kafka_marshal.replay.report_data.summary import Summary
from kafka_marshal.replay.sources import Chunk, find
from kafka_marshal.scratch import Scratch

_OPTIONS: Final = frozenset({"path", "format", "topic", "one_log"})
_LIVE: Final = frozenset({"bootstrap", "topic", "starting"})


class MarshalDataSource(DataSource):
    """Decoded records of a coordination topic.

    Batch options: `path` (a file, folder or glob, as `marshal replay` takes them; several as a JSON
    list), `format`, `topic`, `one_log`. Stream options: `bootstrap`, `topic` (`__marshal`),
    `starting` (`earliest`, or `latest`), and any setting of librdkafka as `kafka.NAME`.

    Columns: `kafka_marshal.replay.model.decoded.SCHEMA`.
    """

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "marshal"

    def schema(self) -> str:
        """The columns, in Spark SQL."""
        return SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read files.

        Raises:
            InvalidOption: an option is missing or unknown.
            UnreadableSource: a source is missing, empty or damaged.
        """
        _check(self.options, _OPTIONS)
        path = self.options.get("path")
        if path is None:
            raise InvalidOption("option 'path' is missing: load(PATH)")
        paths = json.loads(path) if path.startswith("[") else [path]
        found = find(
            paths,
            one_log=str(self.options.get("one_log", "false")).lower() == "true",
            source_format=self.options.get("format"),
            topic=self.options.get("topic"),
        )
        return _FilesReader(found.chunks)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read a live broker.

        Raises:
            InvalidOption: an option is missing or unknown.
            BrokerFailed: the cluster cannot be reached.
        """
        return _topic_reader(dict(self.options))


def _check(options: dict[str, str], known: frozenset[str]) -> None:
    for name in options:
        if name not in known and not name.startswith("kafka."):
            raise InvalidOption(
                f"option {name!r} is unknown here; known: {', '.join(sorted(known))}"
            )


class _ChunkPartition(InputPartition):
    def __init__(self, number: int, chunk: Chunk) -> None:
        super().__init__(number)
        self.number = number
        self.chunk = chunk


class _FilesReader(DataSourceReader):
    def __init__(self, chunks: tuple[Chunk, ...]) -> None:
        self._chunks = chunks

    def partitions(self) -> list[InputPartition]:
        return [_ChunkPartition(number, chunk) for number, chunk in enumerate(self._chunks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _ChunkPartition)
        for batch in read_chunk(partition.number, partition.chunk):
            yield decoded(batch)


def _topic_reader(options: dict[str, str]) -> DataSourceStreamReader:
    _check(options, _LIVE)
    if "bootstrap" not in options:
        raise InvalidOption("option 'bootstrap' is missing: a stream is read from a broker")
    starting = options.get("starting", "earliest")
    if starting not in ("earliest", "latest"):
        raise InvalidOption(f"option 'starting' is not earliest or latest: {starting}")
    # Reading files needs no Kafka client.
    from kafka_marshal.client.connect.settings import Settings
    from kafka_marshal.replay.live.stream import TopicReader

    given = {
        name.removeprefix("kafka."): value
        for name, value in options.items()
        if name.startswith("kafka.")
    }
    return TopicReader(
        Settings({"bootstrap.servers": options["bootstrap"], **given}),
        options.get("topic", "__marshal"),
        "latest" if starting == "latest" else "earliest",
        made=decoded,
    )


_NEEDED: Final = {
    "value": (BinaryType, StringType),
    "partition": (IntegerType, LongType),
    "offset": (LongType, IntegerType),
    "timestamp": (),
    "timestampType": (IntegerType, LongType),
}
_TAKEN: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "value", "headers")


def run_frame(records: DataFrame, *, out: Path, **options: Any) -> Summary:
    """Replay a DataFrame in the schema of Spark's Kafka source, from the official connector.

    It is first written to a folder of the session as Parquet, because a replay may read a record
    twice. Set `.option("includeHeaders", "true")` for the connector: without headers no epoch is
    known.

    Args:
        records: at least `value, partition, offset, timestamp, timestampType`.
        out: the folder to create; it must not exist.
        options: as for `run`.

    Raises:
        InvalidOption: a column is missing or has a wrong type; and the errors of `run`.
    """
    for name, kinds in _NEEDED.items():
        if name not in records.columns:
            raise InvalidOption(f"the DataFrame has no column {name!r}")
        kind = records.schema[name].dataType
        if kinds and not isinstance(kind, kinds):
            raise InvalidOption(f"column {name!r} is {kind.simpleString()}")
    with Scratch("frame") as desk:
        folder = desk / "frame.parquet"
        taken = [name for name in _TAKEN if name in records.columns]
        # Sorted, so that chunks follow each other and runs of heartbeats are adjacent.
        records.select(*taken).sort("partition", "offset").write.parquet(str(folder))
        return run([str(folder)], out=out, spark=records.sparkSession, **options)
