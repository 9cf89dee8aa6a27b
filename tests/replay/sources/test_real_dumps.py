"""A live broker's records, dumped by the tools of the trade: all are what a capture of them says.

The dumps are made by the broker's own classes, and by copying its files. (`kcat` is no part of the
project; `tests/data/dumps/kcat.json` was written by a real one, and is in `test_formats`.)
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import attrs
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.replay.fold.reading import read_chunk, records_of
from kafka_marshal.replay.sources import find
from kafka_marshal.testing.broker import Broker
from tests.client.appender import Appender

TOPIC = "__marshal-of-dumps"
Settings: TypeAlias = dict[str, str | int | float | bool]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEADERS: list[tuple[str, str | bytes | None]] = [
    ("marshal-epoch", b"5"),
    ("marshal-seen", None),
    ("x", b"a,b:c"),
    ("x", b""),
]


@pytest.fixture(scope="module")
def capture(kafka_broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a client of Kafka reads, as JSON lines. Partition 0 holds text, 1 bytes besides."""
    settings: Settings = {"bootstrap.servers": kafka_broker.bootstrap}
    stamped = {"message.timestamp.type": "LogAppendTime"}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, 2, 1, config=stamped)])[TOPIC].result(30)
    for codec in CODECS:
        producer = Appender(kafka_broker.bootstrap, compression_type=codec, linger_ms=50)
        for partition in (0, 1):
            for number in range(50):
                value = f"Heartbeat/1/1700000000/i{number % 3}/c/g/events/{number % 4}/{number}"
                key = f"key: {number} payload: " if number % 7 == 0 else None
                headers = HEADERS if number % 5 == 0 else []
                producer.produce(TOPIC, value.encode(), key, partition, headers=headers)
            producer.produce(TOPIC, None, partition=partition)
            producer.produce(TOPIC, b"", partition=partition)
            producer.produce(TOPIC, "é\t- payload: x".encode(), "é", partition)
        producer.produce(TOPIC, b"caf\xe9\n\x00", b"\xff", 1)
        producer.append_all()
    path = tmp_path_factory.mktemp("capture") / "capture.jsonl"
    path.write_text("".join(f"{line}\n" for line in _consumed(settings)), encoding="utf-8")
    return path


def _consumed(settings: Settings) -> Sequence[str]:
    consumer = Consumer({**settings, "group.id": "dumps", "enable.partition.eof": False})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in (0, 1)])
    count = len(CODECS) * (53 + 54)
    lines = []
    for message in consumer.consume(count, 30):
        assert message.error() is None
        stamp, time = message.timestamp()
        value = message.value()
        fields = {
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp_ms": time,
            "timestamp_type": stamp,
            "value": None if value is None else value.decode("utf-8", "surrogateescape"),
            "headers": [
                [name, told.decode() if isinstance(told, bytes) else told]
                for name, told in _pairs(message)
            ],
        }
        lines.append(json.dumps(fields))
    consumer.close()
    assert len(lines) == count
    return lines


def _pairs(message: Message) -> list[tuple[str, str | bytes | None]]:
    headers = message.headers()
    return list(headers.items()) if isinstance(headers, dict) else list(headers or [])


def captured(path: Path, *partitions: int) -> list[RawRecord]:
    return sorted(
        (raw for raw in read_capture(path) if raw.partition in partitions),
        key=lambda raw: (raw.partition, raw.offset),
    )


def read(path: Path, *partitions: int) -> list[RawRecord]:
    found = [
        raw
        for number, chunk in enumerate(find([str(path)]).chunks)
        for batch in read_chunk(number, chunk)
        for _, raw in records_of(batch)
    ]
    return sorted(
        (raw for raw in found if raw.partition in partitions),
        key=lambda raw: (raw.partition, raw.offset),
    )


def test_copied_segments_are_what_a_client_read(
    kafka_broker: Broker, capture: Path, tmp_path: Path
) -> None:
    for partition in (0, 1):
        name = f"{TOPIC}-{partition}"
        shutil.copytree(kafka_broker.data / name, tmp_path / "copy" / name)
    assert read(tmp_path / "copy", 0, 1) == captured(capture, 0, 1)
    codecs = set()
    data = (tmp_path / "copy" / f"{TOPIC}-1" / "00000000000000000000.log").read_bytes()
    at = 0
    while at < len(data):
        codecs.add(data[at + 22] & 7)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    assert codecs == {0, 1, 2, 3, 4}


def test_what_dump_log_prints_is_what_a_client_read_but_for_headers(
    kafka_broker: Broker, capture: Path, tmp_path: Path
) -> None:
    segment = kafka_broker.data / f"{TOPIC}-0" / "00000000000000000000.log"
    printed = kafka_broker.tool(
        "kafka.tools.DumpLogSegments", "--print-data-log", "--files", str(segment)
    )
    (tmp_path / "dump.txt").write_text(printed, encoding="utf-8")
    wanted = [attrs.evolve(raw, headers=()) for raw in captured(capture, 0)]
    assert read(tmp_path / "dump.txt", 0) == wanted
    assert any("EPOCHS ARE LOST" in one.sentence for one in find([str(tmp_path)]).limitations)


def test_what_the_console_consumer_prints_is_what_a_client_read(
    kafka_broker: Broker, capture: Path, tmp_path: Path
) -> None:
    wanted = captured(capture, 0)
    options = [
        f"--property=print.{name}=true"
        for name in ("timestamp", "partition", "offset", "headers", "key")
    ]
    printed = kafka_broker.tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", kafka_broker.bootstrap, "--topic", TOPIC, "--partition", "0"),
        *("--offset", "earliest", "--max-messages", str(len(wanted)), *options),
    )
    (tmp_path / "printed.txt").write_text(printed, encoding="utf-8")
    found = read(tmp_path / "printed.txt", 0)
    # A comma within a value of a header: "x:a,b:c" reads as two headers, x and b.
    shown = (("marshal-epoch", b"5"), ("marshal-seen", None), ("x", b"a"), ("b", b"c"), ("x", b""))
    assert found == [attrs.evolve(raw, headers=shown) if raw.headers else raw for raw in wanted]
