"""The heartbeat interval of each consumer is in the log."""

from __future__ import annotations

import pytest

from kafka_marshal.codec import decode, decode_headers
from kafka_marshal.core.messages import ClaimingPartition, Heartbeat
from kafka_marshal.runtime.consumer import Consumer
from kafka_marshal.runtime.errors import MarshalError
from tests.runtime.doubles import Kafka, until


def intervals_in(kafka: Kafka) -> set[tuple[type[object], int | None]]:
    """What claims and heartbeats in the log say of their sender's interval."""
    decoded = [(decode(one.value), decode_headers(one.headers)) for one in kafka.records()]
    return {
        (type(message), headers.interval_ms)
        for message, headers in decoded
        if isinstance(message, ClaimingPartition | Heartbeat)
    }


def take(consumer: Consumer, number: int) -> list[int]:
    found: list[int] = []
    while len(found) < number and (message := consumer.poll(5.0)) is not None:
        found.append(message.offset)
        consumer.commit(message)
    return found


def test_claims_and_heartbeats_say_the_interval_of_their_sender() -> None:
    kafka = Kafka()
    kafka.create("events", messages=1)
    with kafka.consumer(heartbeat_interval_s=4.25) as consumer:
        consumer.add_topic("events")
        assert take(consumer, 1) == [0]
        until(lambda: kafka.said(Heartbeat))
    assert intervals_in(kafka) == {(ClaimingPartition, 4250), (Heartbeat, 4250)}


def test_an_interval_that_is_not_whole_milliseconds_is_refused() -> None:
    """The log could not say it, so nobody could tell that another one differs."""
    says = r"heartbeat_interval_s is a whole number of milliseconds, not 4\.0005"
    with pytest.raises(MarshalError, match=says), Kafka().consumer(heartbeat_interval_s=4.0005):
        pass
