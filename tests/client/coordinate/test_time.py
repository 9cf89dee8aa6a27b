"""The client's timers go by a steady clock; its wall clock is only what it stamps records with."""

from __future__ import annotations

import threading

import pytest

from kafka_marshal.core.messages import ClaimingPartition, Headers, Heartbeat, Partition
from tests.client.doubles import Kafka, until

HOUR_S = 3_600
BROKER_BEGAN_MS = 1_900_000_000_000


@pytest.fixture
def kafka() -> Kafka:
    """The broker's clock runs as the machine's does, and nobody sets it."""
    kafka = Kafka()
    kafka.create("orders", messages=10)
    kafka.broker_ms = lambda: BROKER_BEGAN_MS + int(1000 * kafka.clock.monotonic())
    return kafka


@pytest.mark.parametrize("set_s", [-HOUR_S, HOUR_S])
def test_a_machine_whose_date_is_set_goes_on_with_its_heartbeats(kafka: Kafka, set_s: int) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        kafka.clock.wall_s += set_s
        beats = len(kafka.said(Heartbeat))
        kafka.clock.ahead_s += 61
        until(lambda: len(kafka.said(Heartbeat)) > beats)
        assert [claim.lost for claim in consumer.claims] == [None]


@pytest.mark.parametrize("set_s", [-HOUR_S, 0, HOUR_S])
def test_a_dead_owner_is_replaced_in_time_whatever_date_the_survivor_has(
    kafka: Kafka, set_s: int
) -> None:
    dead = (1, 0, "dead-1", "dead", "g", "orders", Partition(0))
    kafka.says(ClaimingPartition(*dead), Headers(True))
    kafka.clock.wall_s = set_s
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        while not consumer.claims:
            assert kafka.clock.ahead_s < HOUR_S / 2
            kafka.clock.ahead_s += 10
            threading.Event().wait(0.05)  # in which it reads what there is


def test_what_is_sent_is_stamped_with_the_date_at_that_moment(kafka: Kafka) -> None:
    """An original in the group judges by it."""
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        kafka.clock.wall_s -= HOUR_S
        before_s, beats = kafka.clock.unix_ms() // 1000, len(kafka.said(Heartbeat))
        kafka.clock.ahead_s += 61
        until(lambda: len(kafka.said(Heartbeat)) > beats)
        sent_s = kafka.said(Heartbeat)[-1].unix_s
    assert before_s + 61 <= sent_s <= kafka.clock.unix_ms() // 1000
