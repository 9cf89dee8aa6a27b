"""Marshal promises to write a line when trouble begins and one when it is over, and why it lost."""

from __future__ import annotations

import logging

import pytest
from attrs import asdict
from confluent_kafka import KafkaError
from prometheus_client import CollectorRegistry

from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.metrics import PrometheusObserver
from kafka_marshal.core.messages import (
    Headers,
    Heartbeat,
    Offset,
    Partition,
    ReleasingPartition,
)
from kafka_marshal.machines.consumer.effects import Lost, ReleaseReason
from tests.client.doubles import LANDS, LOST, Kafka, until


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=2, messages=10)
    return kafka


@pytest.mark.parametrize(
    ("semantics", "waits"),
    [("at_least_once", "they are claimed in some 86,"), ("at_most_once", "they are never claimed")],
)
def test_a_log_without_its_head_is_named_where_a_consumer_waits_for_it(
    kafka: Kafka, caplog: pytest.LogCaptureFixture, semantics: str, waits: str
) -> None:
    """It waited for a day, or for ever, and no line gave the reason."""
    kafka.says(Heartbeat(1, 0, "i", "c", "other", "orders", Partition(0), Offset(0)))
    kafka.topics["__marshal"][0].low = 1
    kafka.says(Heartbeat(1, 0, "i", "c", "other", "orders", Partition(0), Offset(0)))
    with kafka.consumer(semantics=semantics) as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer._coordinator._health_monitor._unknown_since_ms is not None)
        kafka.clock.ahead_s += 90
        consumer._coordinator.call(lambda: None)
        assert "head of the log" not in caplog.text
        kafka.clock.ahead_s += 60
        until(lambda: "head of the log is gone" in caplog.text)
        assert "so nobody knows who owned orders/0" in caplog.text
        assert waits in caplog.text
        kafka.clock.ahead_s += 600
        consumer._coordinator.call(lambda: None)
        assert caplog.text.count("head of the log") == 1
        assert not consumer.claims


def test_brokers_that_are_away_give_a_line_when_it_begins_and_one_when_it_is_over(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    tried = 0

    def appends(said: object) -> object:
        nonlocal tried
        tried += 1
        kafka.says_aside(KafkaError(KafkaError._TRANSPORT, f"b{tried}: Connection refused"))
        kafka.says_aside(KafkaError(KafkaError._ALL_BROKERS_DOWN, f"{tried}/3 brokers are down"))
        return LOST

    def lines() -> list[str]:
        events = ("unknown", "known_again", "cluster")
        return [one.getMessage() for one in caplog.records if vars(one).get("event") in events]

    with kafka.consumer(heartbeat_interval_s=60, heartbeat_every_s=0.1) as consumer:
        consumer.add_topic("orders")
        until(lambda: len(consumer.claims) == 2)
        kafka.appends = appends  # type: ignore[assignment]
        until(lambda: tried >= 20)
        kafka.appends = lambda _: LANDS
        until(lambda: "arrives again" in caplog.text)
        kafka.clock.ahead_s += 31
        until(lambda: "over, logged" in caplog.text)
    away, unknown, known, over = lines()
    assert away.endswith("b1: Connection refused")
    assert unknown.startswith("Heartbeat of orders/")
    assert known.startswith("what is appended about topic orders arrives again, after ")
    assert over.startswith("over, logged ")
    assert over.endswith(away)


def test_it_is_said_why_a_claim_was_released(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka_marshal")
    lost: list[tuple[Lost, ReleaseReason | None]] = []

    def on_lost(claim: Claim, reason: Lost) -> None:
        lost.append((reason, claim.released))

    metrics = PrometheusObserver(registry := CollectorRegistry())

    def count(cause: str) -> float | None:
        labels = {"group": "g", "topic": "orders", "reason": "released", "cause": cause}
        return registry.get_sample_value("marshal_consumer_claims_lost_total", labels)

    options = {"heartbeat_interval_s": 1.0, "on_lost": on_lost, "observers": [metrics]}
    with kafka.consumer("c1", **options) as first:
        first.add_topic("orders")
        until(lambda: len(first.claims) == 2)
        with kafka.consumer("c2", heartbeat_interval_s=1.0) as second:
            second.add_topic("orders")
            until(lambda: lost)
            assert lost.pop() == (Lost.RELEASED, ReleaseReason.SHARED)
            until(lambda: second.claims)
        until(lambda: len(first.claims) == 2)
        told = [one for one in kafka.said(Heartbeat) if one.client_id == "c1"][-1]
        [epoch] = [one.epoch for one in first.claims if one.partition == told.partition]
        kafka.says(ReleasingPartition(**asdict(told)), Headers(True, epoch=epoch))
        until(lambda: lost)
        assert lost.pop() == (Lost.RELEASED, ReleaseReason.BY_OTHERS)
        until(lambda: len(first.claims) == 2)
    assert lost == [(Lost.RELEASED, ReleaseReason.STOPPED)] * 2
    assert (count("shared"), count("by_others"), count("stopped")) == (1, 1, 2)
    of_first = [one for one in map(vars, caplog.records) if one.get("client_id") == "c1"]
    causes = [one["cause"] for one in of_first if one["event"] == "lost"]
    assert causes == ["shared", "by_others", "stopped", "stopped"]
