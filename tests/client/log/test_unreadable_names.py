"""Marshal promises that a header whose name is no UTF-8 ends no reader, and hides no other header.

Brokers take such a record from anybody. Kafka's client for Python raises a SystemError for it, and
leaves a pair of which one half is missing: who unpacks that ends with a segmentation fault.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition, cimpl

import kafka_marshal
from kafka_marshal.capture import UNREADABLE_NAME
from kafka_marshal.client.message import Message, headers_of_all
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.crew import Stage

_TOPIC, _PARTITION, _VALUE, _MSGFLAGS, _HEADER, _COPY = 1, 3, 4, 7, 9, 2
"""The tags of `rd_kafka_producev`."""


def append(bootstrap: str, topic: str, value: bytes, *headers: tuple[bytes, bytes]) -> None:
    """As a client in another language does it: names of headers are bytes of any kind."""
    kafka = ctypes.CDLL(cimpl.__file__)
    for name in ("rd_kafka_conf_new", "rd_kafka_new"):
        getattr(kafka, name).restype = ctypes.c_void_p
    conf, why = ctypes.c_void_p(kafka.rd_kafka_conf_new()), ctypes.create_string_buffer(500)
    kafka.rd_kafka_conf_set(conf, b"bootstrap.servers", bootstrap.encode(), why, len(why))
    producer = ctypes.c_void_p(kafka.rd_kafka_new(0, conf, why, len(why)))
    size = ctypes.c_ssize_t
    pairs = [part for name, told in headers for part in (_HEADER, name, told, size(len(told)))]
    said = (_TOPIC, topic.encode(), _PARTITION, ctypes.c_int32(0))
    held = (_VALUE, value, size(len(value)), _MSGFLAGS, _COPY)
    assert kafka.rd_kafka_producev(producer, *said, *held, *pairs, 0) == 0, why.value
    assert kafka.rd_kafka_flush(producer, 30_000) == 0
    kafka.rd_kafka_destroy(producer)


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def test_one_record_of_anybody_stops_neither_the_fleet_nor_its_administrators(
    stage: Stage,
) -> None:
    """It lay in the log until its retention had passed, and every start read it again."""
    topic, dead = stage.topic(1, 1), stage.topic(1, 0)
    odd = (b"caf\xe9", b"1")
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic, 0)
        assert consumer.poll(60) is not None
        for offset in (5, 6):  # a run of heartbeats, which readers make shorter
            beat = b"Heartbeat/1/1700000004/beef/c2/%s/events/0/%d" % (
                stage.group.encode(),
                offset,
            )
            append(stage.bootstrap, stage.coordination, beat, odd, (b"marshal-epoch", b"7"), odd)
        consumer.commit()
    where = ("--bootstrap", stage.bootstrap, "--topic", stage.coordination)
    for command in (("ls", stage.group), ("doctor",), ("watch", "--until-end")):
        ran = marshal(*command, *where)
        assert ran.returncode in (0, 1), (command, ran)
        assert "Traceback" not in ran.stderr

    class Ends(Observer):
        def dead_lettered(self, *_: object) -> None:
            consumer.stop()

    append(stage.bootstrap, topic, b"poison", odd, (b"trace", b"2"))
    with stage.consumer("w2", observers=[Ends()]) as consumer:
        consumer.add_topic(topic, 0)

        def refuse(message: Message) -> None:
            assert [*message.headers] == [(UNREADABLE_NAME, b"1"), ("trace", b"2")]
            raise ValueError("no")

        assert consumer.run(refuse, retries=0, dead_letter_topic=dead).dead == 1
    letters = marshal("redrive", dead, "--bootstrap", stage.bootstrap, "--group", f"r-{dead}")
    assert letters.returncode == 0, letters


def test_a_batch_with_such_a_record_in_its_middle_has_the_headers_of_all(stage: Stage) -> None:
    topic = stage.topic(1, 0)
    append(stage.bootstrap, topic, b"first", (b"a", b"1"))
    append(stage.bootstrap, topic, b"odd", (b"caf\xe9", b"2"), (b"b", b"3"))
    append(stage.bootstrap, topic, b"none")
    consumer = Consumer({"bootstrap.servers": stage.bootstrap, "group.id": stage.group})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(3, 60)
    assert len(messages) == 3
    expected = [[("a", b"1")], [(UNREADABLE_NAME, b"2"), ("b", b"3")], []]
    assert headers_of_all(messages) == expected
    assert headers_of_all(messages) == expected, "also when they are asked for again"
    consumer.close()


def test_headers_are_asked_for_in_one_place() -> None:
    """Any other `headers()` of what Kafka's client gave would be the next one to fall over."""
    root = Path(kafka_marshal.__file__).parent
    asks = re.compile(r"\b(message|fetched|raw|it|one)\.headers\(\)")
    assert [
        str(file.relative_to(root)) for file in root.rglob("*.py") if asks.search(file.read_text())
    ] == []
