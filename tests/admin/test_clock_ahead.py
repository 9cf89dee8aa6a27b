"""A broker's clock that was ahead for a while: what it delays, who says so, what helps."""

from __future__ import annotations

import datetime as dt
import re
import time

import attrs
import pytest
from confluent_kafka import Producer

from kafka_marshal import FENCED
from kafka_marshal.admin.clock_ahead import ahead
from kafka_marshal.admin.view import View
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.codec import coordinating_partition, encode, encode_headers
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Heartbeat,
    Message,
    Offset,
    Partition,
)
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.live.watch import watch
from kafka_marshal.replay.live.watch_context import WatchOptions
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.crew import until
from tests.client.hands import new_name

HOUR_MS = 3_600_000
PLACES = 4


class Stamped:
    """A log whose stamps are chosen: it takes the producer's time for its own."""

    def __init__(self, broker: Broker) -> None:
        self.bootstrap = broker.bootstrap
        self.highest_ms = 0
        self.topic, self.data = new_name("marshal"), new_name("events")
        cluster = ClusterClient(settings_of(broker.bootstrap))
        cluster.create_topic(self.topic, PLACES, 1, {"message.timestamp.type": "CreateTime"})
        cluster.create_topic(self.data, 1, 1, {})
        self._producer = Producer({"bootstrap.servers": broker.bootstrap})
        self._producer.produce(self.data, b"x", partition=0)
        self._producer.flush(30)

    @property
    def options(self) -> tuple[str, ...]:
        return ("--bootstrap", self.bootstrap, "--topic", self.topic)

    def append(self, message: Message, headers: Headers, at_ms: int) -> None:
        self._producer.produce(
            self.topic,
            encode(message),
            partition=coordinating_partition(message.topic, PLACES),
            headers=list(encode_headers(headers)),
            timestamp=at_ms,
        )
        assert self._producer.flush(30) == 0

    def asks(self, who: str, at_ms: int) -> None:
        message = ClaimingPartition(1, 0, f"{who}i", who, "g", self.data, Partition(0))
        self.append(message, Headers(present=True), at_ms)

    def beats(self, who: str, epoch: int, at_ms: int) -> None:
        message = Heartbeat(1, 0, f"{who}i", who, "g", self.data, Partition(0), Offset(0))
        self.append(message, Headers(present=True, epoch=epoch), at_ms)

    def owner(self) -> str | None:
        with View(settings_of(self.bootstrap), self.topic) as view:
            [row] = view.read().rows(time.time_ns() // 1_000_000)
        return row.owner_client


@pytest.fixture
def stamped(kafka_broker: Broker) -> Stamped:
    """An owner that won an hour before its clock was set right, and died; nobody can replace it."""
    stamped = Stamped(kafka_broker)
    now_ms = time.time_ns() // 1_000_000
    stamped.highest_ms = now_ms + HOUR_MS
    stamped.asks("dead", stamped.highest_ms)
    stamped.beats("dead", 0, stamped.highest_ms)
    stamped.asks("next", now_ms)
    assert stamped.owner() == "dead"
    return stamped


def test_it_is_told_by_everything_that_looks(stamped: Stamped) -> None:
    at = dt.datetime.fromtimestamp((stamped.highest_ms + 120_000) / 1000, dt.UTC)
    listed = marshal("ls", *stamped.options).stdout.splitlines()[1]
    warned = marshal("doctor", *stamped.options).stdout
    notes: list[str] = []
    watch(
        WatchOptions(
            settings=settings_of(stamped.bootstrap),
            topic=stamped.topic,
            judging=JudgingOptions((RuleSet.FENCED,), 60_000.0),
            until_end=True,
            on_note=notes.append,
        ),
        lambda: False,
    )
    [note] = notes
    for said in (listed, warned, note):
        assert re.search(r"the log's clock is \d+ min ahead of this machine's", said)
        assert f"replaced only at {at:%Y-%m-%d %H:%M:%S} UTC by its broker's clock" in said
    assert "do: let all keep time together (NTP); free the claims of who is dead" in warned


def test_what_helps_is_to_release_the_claims_of_who_is_dead(stamped: Stamped) -> None:
    stamped.asks("next", time.time_ns() // 1_000_000)
    assert stamped.owner() == "dead"
    assert marshal("release", "g", stamped.data, *stamped.options).returncode == 0
    assert stamped.owner() is None
    with Consumer(
        stamped.bootstrap,
        group_id="g",
        client_id="next",
        heartbeat_interval_s=1.0,
        coordination_topic=stamped.topic,
    ) as consumer:
        consumer.add_topic(stamped.data)
        until(lambda: consumer.claims)
        message = consumer.poll(20)
        assert message is not None
    assert stamped.owner() is None


def test_a_pause_that_ends_before_that_time_does_not_hold(stamped: Stamped) -> None:
    ran = marshal("pause", "g", "--for", "10m", *stamped.options)
    until = dt.datetime.fromtimestamp(stamped.highest_ms / 1000, dt.UTC)
    assert ran.returncode == 1
    assert (
        f"but {stamped.data}:0 is free, and anybody may claim: a broker's clock was ahead, and "
        f"their clock is at {until:%Y-%m-%d %H:%M:%S} UTC; a pause that ends after that holds"
    ) in ran.stdout
    stamped.asks("next", time.time_ns() // 1_000_000)
    assert stamped.owner() == "next"


def test_a_pause_that_ends_after_that_time_holds_and_is_said_to(stamped: Stamped) -> None:
    ran = marshal("pause", "g", "--for", "2h", *stamped.options)
    assert ran.returncode == 0
    assert "g is paused until" in ran.stdout
    assert "free" not in ran.stdout
    stamped.asks("next", time.time_ns() // 1_000_000)
    assert stamped.owner() is None


def test_an_hour_is_said_in_minutes_and_less_than_an_interval_not_at_all() -> None:
    rules = attrs.evolve(FENCED, heartbeat_interval_ms=10_000)
    assert ahead([], 0, rules) is None
    assert ahead([10_000], 0, rules) is None
    for stamp_ms, much, at in (
        (11_000, "11 s", "1970-01-01 00:00:31"),
        (HOUR_MS, "60 min", "1970-01-01 01:00:20"),
    ):
        said = ahead([5, stamp_ms], 0, rules)
        assert said == (
            f"the log's clock is {much} ahead of this machine's, so a dead owner is replaced only "
            f"at {at} UTC by its broker's clock"
        )
