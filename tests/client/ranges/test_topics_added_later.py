"""Marshal promises that a topic is shared as the log has it, whenever it is added."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_marshal import Consumer
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler


def consumer(kafka: InMemoryKafka, client_id: str, **more: Any) -> Consumer:
    return Consumer(
        settings=kafka.settings(),
        group_id="g",
        client_id=client_id,
        heartbeat_interval_s=5.0,
        **more,
    )


def polled(of: Consumer, count: int) -> list[tuple[str, int]]:
    found = []
    for _ in range(count):
        message = of.poll(timeout_s=5.0)
        if message is None:
            break
        found.append((message.topic, message.offset))
        of.ack(message)
    return found


@pytest.fixture
def kafka() -> InMemoryKafka:
    """All topics have their claims in one partition of the log."""
    kafka = InMemoryKafka(1, Scheduler(1))
    kafka.create("orders", messages=20)
    kafka.create("invoices", messages=20)
    return kafka


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_a_topic_is_shared_from_where_it_was_though_its_log_was_read_before(
    kafka: InMemoryKafka, semantics: str
) -> None:
    with consumer(kafka, "c1", semantics=semantics) as first:
        first.add_topic("orders", share="ranges")
        assert polled(first, 12) == [("orders", at) for at in range(12)]
        first.stop()
    with consumer(kafka, "c2", semantics=semantics) as second:
        second.add_topic("invoices")
        assert len(polled(second, 20)) == 20
        second.add_topic("orders", share="ranges")
        assert polled(second, 20) == [("orders", at) for at in range(12, 20)]


def test_a_topic_that_is_shared_again_goes_on(kafka: InMemoryKafka) -> None:
    with consumer(kafka, "c1") as one:
        one.add_topic("orders", share="ranges")
        assert polled(one, 5) == [("orders", at) for at in range(5)]
        one.remove_topic("orders")
        assert polled(one, 1) == []
        one.add_topic("orders", share="ranges")
        assert polled(one, 20) == [("orders", at) for at in range(5, 20)]


def test_a_claim_of_another_is_not_taken_though_its_log_was_read_for_a_shared_topic(
    kafka: InMemoryKafka,
) -> None:
    with consumer(kafka, "c1") as owner, consumer(kafka, "c2") as other:
        owner.add_topic("invoices", 0)
        assert len(polled(owner, 20)) == 20
        other.add_topic("orders", share="ranges")
        assert len(polled(other, 20)) == 20
        other.add_topic("invoices", 0)
        kafka.produce("invoices", 5)
        assert polled(other, 5) == []
        assert polled(owner, 5) == [("invoices", at) for at in range(20, 25)]
