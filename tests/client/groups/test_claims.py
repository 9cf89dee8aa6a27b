"""Marshal promises that controllers share the log by claims, and remember where to read from."""

from __future__ import annotations

import queue
import threading

from confluent_kafka import Producer

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.groups.claims import Claims
from kafka_marshal.client.groups.event_log import (
    PARTITIONS,
    EventLog,
    PartitionBegun,
    Reached,
    Read,
    ensure_groups_topic,
    starts_of,
)
from kafka_marshal.core.groups.events import ControllerStarted, EventRecord, MemberLeft
from kafka_marshal.testing import Broker
from tests.client.crew import until
from tests.client.hands import new_name


def test_a_claims_position_is_where_the_next_reader_begins(kafka_broker: Broker) -> None:
    topic, coordination = new_name("groups"), new_name("marshal")
    settings = settings_of(kafka_broker.bootstrap)
    ClusterClient(settings).create_topic(topic, 2, 1, {})
    won, lost = queue.SimpleQueue[int](), queue.SimpleQueue[int]()

    def claims(name: str) -> Claims:
        return Claims(settings, name, topic, coordination, won.put, lost.put)

    first = claims("c1")
    assert {won.get(timeout=30), won.get(timeout=30)} == {0, 1}
    assert first.positions(lambda: False) == {0: 0, 1: 0}
    first.move(1, 7)
    first.move(1, 3)  # never back
    until(lambda: first.positions(lambda: False)[1] == 7)
    first.close(10)
    assert {lost.get(timeout=30), lost.get(timeout=30)} == {0, 1}
    first.move(1, 9)  # the claim is not ours any more
    second = claims("c2")
    assert second.positions(lambda: False) == {0: 0, 1: 7}
    second.close(10)
    assert second.positions(lambda: True) == {}


def test_events_that_are_sent_together_fit_a_log_that_takes_little(kafka_broker: Broker) -> None:
    """A broker refuses a batch that is too large, and each of its events would end the epoch."""
    topic, settings = new_name("groups"), settings_of(kafka_broker.bootstrap)
    cluster = ClusterClient(settings)
    cluster.create_topic(topic, PARTITIONS, 1, {"max.message.bytes": "5000"})
    takes = ensure_groups_topic(cluster, topic)
    assert takes.batch_bytes_max == 5_000
    partitions = [(topic, number) for number in range(PARTITIONS)]
    until(lambda: len(cluster.extents(partitions)) == PARTITIONS)  # its leader knows it by then
    failed: list[object] = []
    log = EventLog(settings, topic, lambda _: None, failed.append, takes.batch_bytes_max)
    left = MemberLeft("m", "x" * (takes.event_bytes_max - 200))
    for number in range(30):
        log.append(EventRecord(3, -1, -1, left, "g", 1, number), failed.append)
    log.close()  # waits for outcomes
    assert failed == []


def test_only_the_claims_position_is_a_place_to_begin_in_the_middle() -> None:
    extents = {number: Watermarks(low, 9) for number, low in enumerate((0, 0, 4, 4, 4, 4))}
    starts = starts_of(extents, {1: 5, 2: 4, 3: 3, 5: 10})
    assert starts == [
        PartitionBegun(0, 0, at_position=True),
        PartitionBegun(1, 5, at_position=True),
        PartitionBegun(2, 4, at_position=True),
        PartitionBegun(3, 4, at_position=False),
        PartitionBegun(4, 4, at_position=False),
        PartitionBegun(5, 4, at_position=False),
    ]


def test_the_log_is_read_with_its_gaps_and_with_what_is_no_event(kafka_broker: Broker) -> None:
    topic, settings = new_name("groups"), settings_of(kafka_broker.bootstrap)
    ensure_groups_topic(ClusterClient(settings), topic)
    failed: list[BaseException] = []
    log = EventLog(settings, topic, lambda _: None, failed.append)
    found = queue.SimpleQueue[Read]()
    started = EventRecord(3, -1, -1, ControllerStarted(-1, 5, "h", 1))

    def give(read: list[Read]) -> None:
        for each in read:
            found.put(each)
        log.taken()

    def expect(*wanted: Read) -> None:
        for each in wanted:
            while isinstance(read := found.get(timeout=30), PartitionBegun) and read.partition != 3:
                pass
            assert read == each

    positions: dict[int, int] = {}
    unknown = threading.Event()
    log.append(started, lambda _: unknown.set())
    log.read(lambda: positions, give)
    expect(PartitionBegun(3, 0, at_position=True))
    read = found.get(timeout=30)
    while isinstance(read, PartitionBegun):
        read = found.get(timeout=30)
    assert isinstance(read, EventRecord)
    assert (read.offset, read.event) == (0, started.event)

    producer = Producer({"bootstrap.servers": settings.bootstrap, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"{}", partition=3)
    producer.commit_transaction()  # leaves a mark at offset 2, which nobody is given
    expect(Reached(3, 2, "malformed event: it is absent"), Reached(3, 3))
    log.append(started, lambda _: unknown.set())
    again = found.get(timeout=30)
    assert isinstance(again, EventRecord)
    assert again.offset == 3
    assert not unknown.is_set()
    assert not failed
    log.close()
