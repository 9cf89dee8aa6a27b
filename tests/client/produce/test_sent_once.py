"""A record that one thread sends in memory is not sent by the thread that polls as well."""

from __future__ import annotations

import sys
import threading
from types import FrameType

from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory.producer import InMemoryProducer
from tests.client.doubles import Kafka

BEAT = b"Heartbeat/1/1700000000/i1/c1/g/events/3/500"


def test_a_record_is_appended_once_where_another_thread_polls_while_it_is_sent() -> None:
    kafka = Kafka()
    producer = kafka.settings().environment.appender({"linger.ms": "0"})
    outcomes = []

    def poll_meanwhile(frame: FrameType, *_: object) -> None:
        if frame.f_code is InMemoryProducer._append.__code__:
            polling = threading.Thread(target=producer.poll, args=(0,))
            polling.start()
            polling.join()

    before = sys.gettrace()
    sys.settrace(poll_meanwhile)
    try:
        producer.produce(
            COORDINATION_TOPIC, BEAT, partition=0, on_delivery=lambda *of: outcomes.append(of)
        )
    finally:
        sys.settrace(before)
    producer.poll(0)
    assert kafka.topics[COORDINATION_TOPIC][0].high == 1
    ((error, message),) = outcomes
    assert error is None
    assert message.offset() == 0
