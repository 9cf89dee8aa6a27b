"""Ranges of a shared partition on a real broker, which refuses to fetch beyond the end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.fetch.shared_partition import SharedPartition
from kafka_marshal.client.fetch.split_fetch import offset_of
from kafka_marshal.client.message import Claim
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.testing import Broker
from tests.client.doubles import WITHIN_S, until

NAMES: Final = count()


class Shared:
    """A topic of one partition on a real broker, and a fetcher of ranges of it."""

    def __init__(self, broker: Broker) -> None:
        self.topic = f"shared-{next(NAMES)}"
        at = {"bootstrap.servers": broker.bootstrap}
        self.admin = AdminClient({**at, "log_level": 0})
        self.admin.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result(30)
        self.producer = Producer({**at, "linger.ms": 0, "transactional.id": self.topic})
        self.producer.init_transactions(30)
        self.notes: list[str] = []
        self.failures: list[BaseException] = []
        self.gone: list[tuple[int, int, Watermarks]] = []
        self.ends: list[int] = []
        self.received: dict[str, Any] = {}
        settings = Settings({**at, "statistics.interval.ms": "200"})
        self.fetcher = Fetcher(
            ClusterMetadata(settings),
            "g",
            "c1",
            ahead=False,
            on_fetched=lambda *_: None,
            on_gone=lambda claim, first, extent: self.gone.append((claim.epoch, first, extent)),
            on_error=self.notes.append,
            on_failure=self.failures.append,
            on_statistics=lambda text: self.received.update(json.loads(text)),
            on_end=lambda topic, partition, high: self.ends.append(high),
        )
        self.fetcher.share()
        self.refused: list[SharedPartition] = []
        """A partition for each fetch that was refused."""
        refuse = self.fetcher._ranges.refused

        def refused(one: SharedPartition) -> None:
            self.refused.append(one)
            refuse(one)

        self.fetcher._ranges.refused = refused  # type: ignore[method-assign, assignment]

    def append(self, messages: int, *, commit: bool = True) -> None:
        """Append them in one transaction, whose marker takes one more offset."""
        self.producer.begin_transaction()
        for _ in range(messages):
            self.producer.produce(self.topic, b"x" * 100, partition=0)
        if commit:
            self.producer.commit_transaction(30)
        else:
            self.producer.flush(30)
            self.producer.abort_transaction(30)

    def append_all(self) -> None:
        """Append ten times nine messages, and a marker after each nine."""
        for _ in range(10):
            self.append(9)

    def open(self, begin: int, end: int) -> FetchedPartition:
        key = ClaimKey("g", self.topic, 0)
        one = self.fetcher.open(Claim(key, self.topic, 0, begin, begin), begin, end)
        self.fetcher.allow(one, range(begin, end))
        return one

    def taken(self, end: int) -> list[int]:
        """Offsets handed over until a chunk ends there."""
        found: list[int] = []
        while True:
            chunk = self.fetcher.take(1_000, WITHIN_S)
            assert chunk is not None, found
            found += map(offset_of, chunk.messages)
            if chunk.end == end:
                return found

    def next(self) -> int:
        """The offset of the next message, which is handed over alone."""
        while True:
            chunk = self.fetcher.take(1, WITHIN_S)
            assert chunk is not None
            if chunk.messages:
                return offset_of(chunk.messages[0])

    def messages_fetched(self) -> int:
        """How many messages Kafka's client got, by its next statistics."""
        self.received.clear()
        until(lambda: self.received)
        return int(self.received["topics"][self.topic]["partitions"]["0"]["rxmsgs"])


@contextmanager
def shared(broker: Broker) -> Iterator[Shared]:
    made = Shared(broker)
    try:
        yield made
        assert made.failures == []
    finally:
        made.fetcher.close(REAL.deadline(WITHIN_S))


def test_ranges_are_fetched_lowest_first_and_little_beside_them(kafka_broker: Broker) -> None:
    """By itself the client fetches all 20,000 messages."""
    with shared(kafka_broker) as of:
        for _ in range(40):
            of.append(499)  # and a marker
        of.open(9_000, 9_600)
        of.open(3_000, 3_600)
        of.open(15_000, 15_600)
        of.fetcher.start()
        got = [of.taken(end) for end in (3_600, 9_600, 15_600)]
        assert got == [
            [offset for offset in range(begin, begin + 600) if offset % 500 != 499]
            for begin in (3_000, 9_000, 15_000)
        ]
        assert of.messages_fetched() < 6_000
        assert of.notes == []


def test_a_range_that_was_claimed_before_its_messages_gets_them_at_once(
    kafka_broker: Broker,
) -> None:
    with shared(kafka_broker) as of:
        of.append(9)
        of.open(10, 30)
        of.open(5_000, 5_010)
        of.fetcher.start()
        until(lambda: of.ends)
        waited_s = []
        for offset in range(10, 30, 2):
            of.append(1)
            began = time.monotonic()
            assert of.next() == offset
            waited_s.append(time.monotonic() - began)
        assert min(waited_s) < 0.1  # one by one, and no error was waited for
        for _ in range(10):
            of.append(499)
        assert of.taken(5_010)[-10:] == [*range(5_000, 5_010)]
        assert of.notes == []
        assert of.refused == []


def test_aborted_messages_at_the_end_of_a_range_end_it(kafka_broker: Broker) -> None:
    with shared(kafka_broker) as of:
        of.append(5)  # 0 to 4, and its marker is 5
        of.append(4, commit=False)  # 6 to 9, and its marker is 10
        of.open(0, 8)
        of.open(8, 13)
        of.fetcher.start()
        assert of.taken(8) == [*range(5)]
        of.append(2)
        assert of.taken(13) == [11, 12]


def test_messages_that_retention_took_are_passed_over(kafka_broker: Broker) -> None:
    with shared(kafka_broker) as of:
        of.append(99)
        of.admin.delete_records([TopicPartition(of.topic, 0, 50)])
        until(lambda: of.fetcher._cluster.extents([(of.topic, 0)])[of.topic, 0].low == 50)
        of.open(0, 20)
        of.open(40, 60)
        of.fetcher.start()
        assert of.taken(20) == []
        assert of.taken(60) == [*range(50, 60)]
        assert of.gone == [(0, 0, Watermarks(20, 100)), (40, 40, Watermarks(50, 100))]


@pytest.mark.parametrize("cut", [0, 30])
def test_a_cut_while_messages_arrive_agrees_with_what_was_taken(
    kafka_broker: Broker, cut: int
) -> None:
    with shared(kafka_broker) as of:
        one = of.open(0, 200)
        of.fetcher.start()
        appending = threading.Thread(target=of.append_all)
        appending.start()
        found = [of.next()]
        reached = max(of.fetcher.cut(one, cut), cut)
        appending.join()
        of.open(98, 99)
        found += of.taken(99)
        assert found[:-1] == [offset for offset in range(reached) if offset % 10 != 9]
