"""Many workers for one consumer, on a real broker."""

from __future__ import annotations

import threading
import time

import pytest

from kafka_marshal.client.api.consumer import HandlerFailed, Message
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.testing import Broker
from tests.client.appender import Appender
from tests.client.crew import Stage

COUNT = 400


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def test_workers_handle_every_message_in_the_order_of_its_key_while_others_go_on(
    stage: Stage,
) -> None:
    topic = stage.topic(partitions=2, messages=0)
    with Appender(stage.bootstrap) as appender:
        for number in range(COUNT):
            name = number % 20
            appender.produce(topic, b"%d" % number, b"%d" % name, partition=name % 2)
    lock, handled = threading.Lock(), dict[bytes, list[int]]()
    at_once, most = 0, 0
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)

        def handle(message: Message) -> None:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            time.sleep(0.002)
            with lock:
                at_once -= 1
                handled.setdefault(message.key or b"", []).append(int(message.value or b""))
                if sum(map(len, handled.values())) == COUNT:
                    consumer.stop()

        counted = consumer.run(handle, workers=8, order="key")
    assert counted.handled == COUNT
    assert most > 4
    for key, numbers in handled.items():
        assert numbers == list(range(int(key), COUNT, 20))
    with stage.consumer("w1") as again:  # all of it is done
        again.add_topic(topic)
        assert again.poll(2) is None


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise AttributeError("it was made without arguments")


def test_what_fails_is_tried_again_and_then_put_aside(stage: Stage) -> None:
    """Whatever it fails of: what a handler says may be no UTF-8, or nothing that can be asked."""
    topic, dead = stage.topic(partitions=1, messages=20), stage.topic(partitions=1, messages=0)
    tried: list[int] = []
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)

        def handle(message: Message) -> None:
            number = int(message.value or b"")
            tried.append(number)
            if number == 7:
                raise RuntimeError("no caf\udce9")
            if number == 9 and tried.count(9) < 3:
                raise Unspeakable
            if number == 19:
                consumer.stop()

        counted = consumer.run(handle, retries=2, backoff_s=0.01, dead_letter_topic=dead)
    assert (tried.count(7), tried.count(9), tried.count(8)) == (3, 3, 1)
    assert (counted.dead, counted.retried, counted.handled) == (1, 4, 20)
    with stage.consumer("w2") as other:
        other.add_topic(dead)
        aside = other.poll(15)
    assert aside is not None
    assert aside.value == b"7"
    assert ("marshal-dead-offset", b"7") in aside.headers
    assert ("marshal-dead-error", rb"RuntimeError: no caf\udce9") in aside.headers


def test_what_fails_for_good_ends_the_run_where_it_cannot_be_put_aside(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=5)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)

        def handle(message: Message) -> None:
            if message.offset == 3:
                raise RuntimeError("no")

        with pytest.raises(HandlerFailed, match=r"offset 3, .*failed 1 times"):
            consumer.run(handle, retries=0)
    with stage.consumer("w1") as again:  # it was not done
        again.add_topic(topic)
        first = again.poll(10)
        assert first is not None
        assert first.offset == 3

        def fail(_: Message) -> None:
            raise RuntimeError("no" * 500)

    with stage.consumer("w1", settings={"message.max.bytes": "1000"}) as small:
        small.add_topic(topic)
        with pytest.raises(BrokerFailed, match=r"dead: Message\(.* offset 3, .*size too large"):
            small.run(fail, retries=0, dead_letter_topic="dead")
