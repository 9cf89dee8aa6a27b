"""Marshal promises that what it sends together fits a topic that takes little.

A broker refuses a batch above `max.message.bytes` with all its records, however small each is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_marshal.admin.redrive import DeadLetterTopic
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.log_writer import LogWriter, NotAppended
from kafka_marshal.client.connect.settings import (
    SHARED_TOPIC_BYTES_MIN,
    TOPIC_BYTES_MIN,
    Settings,
    settings_of,
)
from kafka_marshal.client.process.handling import DeadLetters
from kafka_marshal.client.produce.producer import Producer, ProducerRecord
from kafka_marshal.core.messages import Headers, Heartbeat, Offset, Partition
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.state import LIMITS, OFFSET_MAX, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.state import Claim
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.replay.live.sinks import ToTopic
from kafka_marshal.testing import Broker
from tests.client.hands import new_name

TOGETHER = 200
NOW_MS = 1_700_000_000_000


@pytest.fixture
def settings(kafka_broker: Broker) -> Settings:
    return settings_of(kafka_broker.bootstrap)


@pytest.fixture
def topic(settings: Settings) -> str:
    """It takes as little as `marshal doctor` allows."""
    return new_topic(settings, TOPIC_BYTES_MIN)


def new_topic(settings: Settings, bytes_max: int) -> str:
    name = new_name("little")
    ClusterClient(settings).create_topic(name, 1, 1, {"max.message.bytes": str(bytes_max)})
    return name


def test_heartbeats_of_many_claims(settings: Settings, topic: str) -> None:
    with LogWriter(settings, topic) as log:
        sent = [
            log.append(
                Partition(0),
                Heartbeat(1, 0, "i" * 36, "c", "g", "orders", Partition(number), Offset(number)),
                Headers(present=True, epoch=number, seen=number),
            )
            for number in range(TOGETHER)
        ]
        assert [one.result(30).offset for one in sent] == [*range(TOGETHER)]


def test_a_heartbeat_with_the_most_ranges(settings: Settings) -> None:
    """512 instances share a claim, and each has the one range that the limits leave it."""
    count, high = LIMITS.intervals_max, OFFSET_MAX - 20_000_000
    names = [f"{number:036x}" for number in range(count)]
    at = [high + number * LIMITS.range_messages_max for number in range(count + 1)]
    opened = [OpenRange(*each) for each in zip(at, at, at[1:], names, strict=False)]
    alive = [SignOfLife(name, NOW_MS) for name in names]
    claim = Claim(names[0], "c" * 255, high, Offset(high), NOW_MS, NOW_MS, True)
    checkpoint = FoldedState(claim, Ranges(2**40, at[-1], tuple(opened), (), tuple(alive), NOW_MS))
    beat = Heartbeat(1, 0, names[0], "c" * 255, "g" * 255, "t" * 249, Partition(0), Offset(high))
    sent = SendRecord(beat, Headers(present=True, epoch=high, seen=high), checkpoint=checkpoint)
    with LogWriter(settings, new_topic(settings, SHARED_TOPIC_BYTES_MIN)) as log:
        assert log.append_of_ranges(Partition(0), sent).result(30).offset == 0
    with LogWriter(settings, new_topic(settings, 49_000)) as log, pytest.raises(NotAppended):
        log.append_of_ranges(Partition(0), sent).result(30)


def test_letters_that_are_put_aside_and_come_back(settings: Settings, topic: str) -> None:
    aside = DeadLetters(settings, topic)
    failed: Any = SimpleNamespace(
        topic=topic, partition=0, value=b"x" * 2_500, key=b"k", headers=[], deliveries=None
    )

    def puts(offset: int) -> None:
        message: Any = SimpleNamespace(**{**vars(failed), "offset": offset})
        aside.put(message, ValueError("no"), 1)

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(puts, range(16)))
    letters = DeadLetterTopic(settings, topic, new_name("redrives"))
    assert letters.redrive().appended == 16


def test_findings_of_a_watch(settings: Settings, topic: str) -> None:
    finding: Any = SimpleNamespace(row=SimpleNamespace(code="c"), json=lambda: "x" * 500)
    with closing(ToTopic(settings, topic)) as told:
        for _ in range(60):
            told.emit(finding)
        told.settle()


def test_a_producer_that_sends_larger_batches_is_told_what_to_do(
    settings: Settings, topic: str
) -> None:
    records = [ProducerRecord(topic, b"x" * 500, partition=0) for _ in range(60)]
    too_large = pytest.raises(NotAppended, match=r"max\.message\.bytes.*a lower batch\.size")
    with Producer(settings=settings) as producer, too_large:
        producer.send(*records).result(30)
    smaller = {**settings.values, "batch.size": str(TOPIC_BYTES_MIN)}
    with Producer(settings=smaller) as producer:
        assert len(producer.send(*records).result(30)) == 60
