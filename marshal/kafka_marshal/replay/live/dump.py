"""Copies a range of a live topic to files, in the schema of Spark's Kafka source.

A batch replay then reads it like any dump, so the replayed input can be kept and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.places import parquet_writer
from kafka_marshal.replay.sources.columns import HEADERS, headers_array

TOPIC: Final = "__marshal"
ROWS_PER_GROUP: Final = 100_000
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
_TYPES: Final = {TimestampType.CREATE_TIME: 0, TimestampType.LOG_APPEND_TIME: 1}


@frozen
class RequestedRange:
    """The range to read, by the options: `[begin, end)`, each an offset or a time."""

    begin: str | None = None
    end: str | None = None


def of_address(source: str, default_topic: str = TOPIC) -> tuple[str, str]:
    """Parse `kafka://HOST:PORT,HOST:PORT/TOPIC` into bootstrap servers and topic.

    >>> of_address("kafka://one:9092,two:9092/claims")
    ('one:9092,two:9092', 'claims')

    Raises:
        InvalidOption: there is no host, or something follows the topic.
    """
    address = urlsplit(source)
    topic = address.path.strip("/") or default_topic
    if address.scheme != "kafka" or not address.netloc or "/" in topic or address.query:
        raise InvalidOption(f"{source}: a topic is written kafka://HOST:PORT/TOPIC")
    return address.netloc, topic


def dump(
    settings: Settings,
    topic: str,
    folder: Path,
    within: RequestedRange | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the current content of `topic` to `folder/TOPIC.parquet/`, one file per partition.

    The end offset is looked up once; later records are not read.

    Raises:
        BrokerFailed: the cluster cannot be reached or refused.
        InvalidOption: `within` is invalid.
        OSError: a file cannot be written; it is named.
    """
    within = within or RequestedRange()
    target = folder / f"{topic}.parquet"
    target.mkdir()
    with closing(CoordinationReader(settings, topic)) as tail, ExitStack() as opened:
        extents = tail.extents()
        starts = {number: extent.low for number, extent in extents.items()}
        ends = {number: extent.high for number, extent in extents.items()}
        if within.begin is not None:
            starts = tail.offsets_at(within.begin, "--from", extents)
        if within.end is not None:
            ends = tail.offsets_at(within.end, "--to", extents)
        writers = {
            number: opened.enter_context(
                parquet_writer(target / f"partition-{number}.parquet", SCHEMA)
            )
            for number in tail.partitions
        }
        read, total = 0, sum(max(0, ends[n] - starts[n]) for n in starts)
        kept: dict[int, list[RawRecord]] = {number: [] for number in tail.partitions}
        for batch in tail.records(starts, ends):
            for raw in batch:
                kept[raw.partition].append(raw)
            read += len(batch)
            on_progress(f"reading {topic}: {read:,} of at most {total:,} records")
            for number in {raw.partition for raw in batch}:
                if len(kept[number]) >= ROWS_PER_GROUP:
                    writers[number].write_table(_table(topic, kept[number]))
                    kept[number].clear()
        for number, rest in kept.items():
            if rest:
                writers[number].write_table(_table(topic, rest))
    if not read:
        raise InvalidOption(f"{settings.bootstrap}: topic {topic} holds no record in that range")
    return target


def _table(topic: str, records: Sequence[RawRecord]) -> pa.Table:
    return pa.Table.from_arrays(
        [
            pa.array([raw.key for raw in records], pa.binary()),
            pa.array([raw.value for raw in records], pa.binary()),
            pa.array([topic] * len(records), pa.string()),
            pa.array([raw.partition for raw in records], pa.int32()),
            pa.array([raw.offset for raw in records], pa.int64()),
            pa.array([raw.timestamp_ms for raw in records], pa.timestamp("ms", "UTC")),
            pa.array([_TYPES.get(raw.timestamp_type) for raw in records], pa.int32()),
            headers_array(raw.headers for raw in records),
        ],
        schema=SCHEMA,
    )
