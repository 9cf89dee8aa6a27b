"""Marshal promises that who shares reads why nothing comes, and of ranges in words of ranges."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from kafka_marshal import Consumer, PrometheusObserver
from kafka_marshal.client.message import Claim
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from tests.client.doubles import WITHIN_S, Kafka, until
from tests.client.ranges.test_topics_added_later import consumer, polled

SEMANTICS = pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
WAITS = (
    "orders/0: client older owns it and does not share it; this consumer waits until that one "
    "releases it, or is silent for two heartbeat intervals"
)
GOES_ON = "orders/0: nobody else owns it any more, so this consumer waits no longer"


@pytest.fixture
def kafka() -> InMemoryKafka:
    kafka = InMemoryKafka(1, Scheduler(1))
    kafka.create("orders", messages=20)
    return kafka


@pytest.fixture
def logs(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "kafka_marshal")
    return caplog


def of_waiting(logs: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.getMessage()
        for record in logs.records
        if vars(record)["event"] == "awaits_owner" and record.levelno == logging.INFO
    ]


@SEMANTICS
@pytest.mark.parametrize("released", [True, False])
def test_who_waits_beside_an_older_owner_says_so_once_and_once_when_it_goes_on(
    kafka: InMemoryKafka, logs: pytest.LogCaptureFixture, semantics: str, released: bool
) -> None:
    registry = CollectorRegistry()

    def waits() -> float | None:
        labels = {"group": "g", "topic": "orders", "partition": "0"}
        return registry.get_sample_value("marshal_consumer_awaits_owner", labels)

    with consumer(kafka, "older", semantics=semantics) as older:
        older.add_topic("orders")
        assert len(polled(older, 20)) == 20
        observers = [PrometheusObserver(registry)]
        with consumer(kafka, "c1", semantics=semantics, observers=observers) as sharing:
            sharing.add_topic("orders", share="ranges")
            for _ in range(8):  # for some intervals
                assert sharing.poll(timeout_s=5.0) is None
            assert of_waiting(logs) == [WAITS]
            assert waits() == 1
            older.close(release=released)
            kafka.produce("orders", 100)
            assert sharing.poll(timeout_s=60.0) is not None
            assert of_waiting(logs) == [WAITS, GOES_ON]
            assert waits() == 0


def test_who_waits_and_leaves_waits_no_longer(
    kafka: InMemoryKafka, logs: pytest.LogCaptureFixture
) -> None:
    with consumer(kafka, "older") as older, consumer(kafka, "c1") as sharing:
        older.add_topic("orders")
        assert len(polled(older, 20)) == 20
        sharing.add_topic("orders", share="ranges")
        assert sharing.poll(timeout_s=5.0) is None
        sharing.remove_topic("orders")
        assert len(of_waiting(logs)) == 2
        assert sharing.poll(timeout_s=5.0) is None
    assert len(of_waiting(logs)) == 2


def test_nobody_waits_for_those_who_share_or_have_released(
    kafka: InMemoryKafka, logs: pytest.LogCaptureFixture
) -> None:
    with consumer(kafka, "older") as older:
        older.add_topic("orders")
        assert len(polled(older, 5)) == 5
    with consumer(kafka, "c1") as first, consumer(kafka, "c2") as second:
        first.add_topic("orders", share="ranges")
        assert first.poll(timeout_s=10.0) is not None
        kafka.produce("orders", 100)
        second.add_topic("orders", share="ranges")
        assert second.poll(timeout_s=10.0) is not None
    assert of_waiting(logs) == []


def silent_for_a_while(kafka: Kafka, sharing: Consumer) -> Claim:
    """Nothing is read back for longer than two intervals, and then it is."""
    message = sharing.poll(WITHIN_S)
    assert message is not None
    kafka.hold_log()

    def after_a_while() -> bool:
        kafka.clock.ahead_s += 1
        return message.claim.silent

    until(after_a_while)
    kafka.flow()
    until(lambda: not message.claim.silent)
    return message.claim


def test_ranges_are_called_ranges_and_what_is_late_is_written_once_for_all(
    logs: pytest.LogCaptureFixture,
) -> None:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=100)
    fast: dict[str, Any] = {"heartbeat_interval_s": 60.0, "heartbeat_every_s": 0.05}
    with kafka.consumer(**fast) as sharing:
        sharing.add_topic("orders", share="ranges")
        claim = silent_for_a_while(kafka, sharing)
        until(lambda: len(sharing.claims) >= 2)
        assert claim.range is not None
    late = [record for record in logs.records if vars(record)["event"] == "late"]
    again = [record for record in logs.records if vars(record)["event"] == "heard_again"]
    assert len(late) == len(again) == 1
    text = late[0].getMessage()
    assert text.startswith("orders/0 (range ")
    assert "what was sent did not come back in the log" in text
    assert text.endswith(
        "Others that share the partition take the ranges of one that is silent for two intervals"
    )
    assert "epoch" not in logs.text
    assert "range" in vars(late[0])
    assert "epoch" not in vars(late[0])


def test_a_message_of_a_range_names_its_range(kafka: InMemoryKafka) -> None:
    with consumer(kafka, "c1") as sharing:
        sharing.add_topic("orders", share="ranges")
        message = cast("Any", sharing.poll(timeout_s=5.0))
        assert repr(message) == f"Message(orders/0 offset 0, range {message.range.id})"
