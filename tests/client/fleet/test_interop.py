"""An original and ours at one topic of a real broker. What is promised: tests/machines/interop.

Here is only what a broker can show: that bare records get through to our consumer, and that ours
lie in the topic as the original reads them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer

from kafka_marshal import FENCED, ClaimKey, World
from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.codec import coordinating_partition, decode, encode
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Heartbeat,
    Message,
    Offset,
    Partition,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.testing import Broker
from tests.client.crew import INTERVAL_S, Stage, until
from tests.machines.interop.originals import READS_NO_GROUPS, as_it_reads

STALE_S = 2 * INTERVAL_S
PLACES = 4


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


class Bare:
    """An instance of the original with one partition: values without headers, and no key."""

    def __init__(self, stage: Stage, topic: str, client: str = "o") -> None:
        self._stage, self._topic, self._client = stage, topic, client
        self._place = coordinating_partition(topic, PLACES)
        quiet = {"log_level": "0"}  # it is there longer than the broker
        self._producer = Producer({"bootstrap.servers": stage.bootstrap, "acks": "all", **quiet})

    def claims(self) -> None:
        self._append(ClaimingPartition(*self._by()))

    def beats(self, offset: int) -> None:
        self._append(Heartbeat(*self._by(), Offset(offset)))

    def releases(self, offset: int) -> None:
        self._append(ReleasingPartition(*self._by(), Offset(offset)))

    @contextmanager
    def alive(self, offset: int) -> Iterator[list[int]]:
        """It beats four times an interval, until the end of the block; a list of its beats."""
        beats: list[int] = []
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(INTERVAL_S / 4):
                self.beats(offset)
                beats.append(offset)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield beats
        finally:
            ended.set()
            thread.join(30)

    def _by(self) -> tuple[int, int, str, str, str, str, Partition]:
        instance, group = f"{self._client}-1", self._stage.group
        return (1, int(time.time()), instance, self._client, group, self._topic, Partition(0))

    def _append(self, message: Message) -> None:
        self._producer.produce(self._stage.coordination, encode(message), partition=self._place)
        assert self._producer.flush(30) == 0


def log_of(stage: Stage, topic: str) -> list[RawRecord]:
    """All that lies where the topic is coordinated."""
    place = coordinating_partition(topic, PLACES)
    tail = CoordinationReader(settings_of(stage.bootstrap), stage.coordination)
    try:
        end = tail.extents()[place].high
        return [raw for raws in tail.records({place: 0}, {place: end}) for raw in raws]
    finally:
        tail.close()


def test_ours_stays_out_while_an_original_lives_and_goes_on_where_it_was(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=100)
    theirs = Bare(stage, topic)
    theirs.claims()
    with theirs.alive(40) as beats:
        for claiming in (Claiming(), Claiming(fair_share=False)):
            with stage.worker("ours", topic, claiming=claiming) as ours:
                after = len(beats) + 1.5 * STALE_S / (INTERVAL_S / 4)
                until(lambda after=after: len(beats) >= after)  # type: ignore[misc]
                assert not ours.consumer.claims
                assert not ours.got
    with stage.worker("ours", topic) as ours:
        until(lambda: len(ours.got) == 60)
        assert ours.got == list(range(40, 100))
        theirs.beats(70)  # it was asleep, and is refused
        stage.produce(topic, 1, range(100, 120))
        until(lambda: ours.got[-1] == 119)
        assert ours.got == list(range(40, 120))


def test_an_originals_release_hands_over_at_once_and_ours_hands_back(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=100)
    theirs = Bare(stage, topic)
    theirs.claims()
    theirs.beats(10)
    with stage.worker("ours", topic, heartbeat_interval_s=60) as ours:
        theirs.releases(30)
        until(lambda: len(ours.got) == 70)
        assert ours.got == list(range(30, 100))
    theirs.claims()
    theirs.beats(100)

    world, raws = World(FENCED), log_of(stage, topic)
    key = ClaimKey(stage.group, topic, 0)
    said = [world.apply(raw.decoded()).verdict for raw in raws]
    assert said[-2:] == [Accepted.CLAIMED, Accepted.REFRESHED]
    assert world.claim(key).owner_client == "o"
    assert world.claim(key).position == 100


def test_what_ours_wrote_lies_there_as_the_original_reads_it(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=50)
    for semantics in ("at_least_once", "at_most_once"):
        with stage.worker("ours", topic, semantics=semantics) as ours:
            until(lambda ours=ours: ours.consumer.claims)  # type: ignore[misc]
            stage.produce(topic, 1, range(50, 60))
            until(lambda ours=ours: len(ours.got) >= 10)  # type: ignore[misc]
    raws = log_of(stage, topic)
    messages = [decode(raw.value) for raw in raws]
    assert {type(message).__name__ for message in messages} == {
        "ClaimingPartition",
        "Heartbeat",
        "ClaimingMessages",
        "ReleasingPartition",
    }
    for raw, message in zip(raws, messages, strict=True):
        assert raw.value is not None
        assert READS_NO_GROUPS.read(raw.value) == as_it_reads(message)
        assert raw.headers
