"""The head of a topic is gone before it was consumed: its claims go on with what there is."""

from __future__ import annotations

import pytest

from kafka_marshal.core.messages import ClaimingMessages, Heartbeat
from kafka_marshal.runtime.consumer import Consumer
from tests.runtime.doubles import Kafka, until

LOW, HIGH = 100, 120


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", messages=10)
    return kafka


def trim(kafka: Kafka) -> None:
    """More messages come, and retention removes all but the last of them."""
    with kafka.changed:
        kafka.produce("orders", HIGH - 10)
        kafka.topics["orders"][0].low = LOW


def offsets(consumer: Consumer, count: int) -> list[int]:
    """Of the next messages, which are not done yet."""
    found: list[int] = []

    def came() -> bool:
        message = consumer.poll(0.05)
        found.extend([] if message is None else [message.offset])
        return len(found) >= count

    until(came)
    return found


def told(kafka: Kafka) -> int:
    """How far the log knows the claim to be."""
    offsets: list[int] = [beat.offset for beat in kafka.said(Heartbeat)]
    return max(offsets)


def test_at_least_once_it_goes_on_behind_what_is_gone_and_tells_the_log(kafka: Kafka) -> None:
    """The log had not heard of the window before, so none of what is gone was in the next one."""
    with kafka.consumer(window=10) as consumer:
        consumer.add_topic("orders")
        assert offsets(consumer, 10) == list(range(10))
        kafka.hold_log()
        consumer.commit()
        until(lambda: told(kafka) == 10)
        trim(kafka)
        until(lambda: told(kafka) == LOW)
        kafka.flow()
        assert offsets(consumer, 10) == list(range(LOW, LOW + 10))
        consumer.commit()
        assert offsets(consumer, 10) == list(range(LOW + 10, HIGH))


def test_at_most_once_it_goes_on_behind_what_is_gone(kafka: Kafka) -> None:
    trim(kafka)
    with kafka.consumer(semantics="at_most_once", batch=10) as consumer:
        consumer.add_topic("orders")
        for begin in (LOW, LOW + 10):
            assert offsets(consumer, 10) == list(range(begin, begin + 10))
            consumer.commit()
    asked = [request.offset for request in kafka.said(ClaimingMessages)]
    assert asked == [LOW, LOW + 10, HIGH]
