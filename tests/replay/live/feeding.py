"""Captures appended to a real topic, as somebody's last night."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.testing import Broker
from tests.client.appender import Appender

CAPTURES = sorted(
    path
    for path in (Path(__file__).parents[2] / "data" / "captures" / "original").glob("*.jsonl")
    if not path.name.endswith(".trace.jsonl")
)
INTERVAL_S = 4.0
"""Too short for some of the captures, so there is much to find."""


def many_nights(copies: int, partitions: int) -> Iterator[RawRecord]:
    """All captures, each with groups of its own, dealt out to the partitions."""
    places = itertools.cycle(range(partitions))
    for copy in range(copies):
        for path in CAPTURES:
            place = next(places)
            for raw in read_capture(path):
                value = raw.value and renamed(raw.value, f"{path.stem}-{copy}")
                yield attrs.evolve(raw, partition=place, value=value)


def renamed(value: bytes, group: str) -> bytes:
    """The record as another group would have written it."""
    fields = value.split(b"/")
    if len(fields) > 5:
        fields[5] = group.encode()
    return b"/".join(fields)


def make_topic(broker: Broker, name: str, partitions: int = 1, **settings: str) -> None:
    """A topic that keeps everything, however old."""
    config = {"retention.ms": "-1"} | {key.replace("_", "."): v for key, v in settings.items()}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic(name, partitions, config=config)
    admin.create_topics([topic])[name].result(30)


def append(broker: Broker, topic: str, records: Sequence[RawRecord]) -> None:
    """Append them with their own times."""
    producer = Appender(broker.bootstrap, linger_ms=5)
    for raw in records:
        while True:
            try:
                producer.produce(
                    topic,
                    raw.value,
                    raw.key,
                    partition=raw.partition,
                    timestamp=raw.timestamp_ms,
                    headers=list(raw.headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
    producer.append_all()
