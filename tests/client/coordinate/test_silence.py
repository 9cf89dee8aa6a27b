"""Marshal promises that an owner that hears nothing of itself begins nothing others may take."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.message import Message
from kafka_marshal.core.messages import Heartbeat
from kafka_marshal.errors import BrokerFailed
from tests.client.doubles import LOG, WITHIN_S, Kafka, until

FAST: dict[str, Any] = {"heartbeat_interval_s": 60.0, "heartbeat_every_s": 0.05}


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=100)
    return kafka


def falls_silent(kafka: Kafka, consumer: Consumer) -> None:
    """Nothing is read back for longer than two intervals."""
    [claim] = consumer.claims
    kafka.hold_log()

    def after_a_while() -> bool:
        kafka.clock.ahead_s += 1  # a heartbeat that was on its way may still be read back
        return claim.silent

    until(after_a_while)


def is_heard_again(kafka: Kafka, consumer: Consumer) -> None:
    [claim] = consumer.claims
    kafka.flow()
    until(lambda: not claim.silent)


def test_nothing_is_given_out_while_no_heartbeat_is_read_back(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    with kafka.consumer(**FAST) as consumer:
        consumer.add_topic("orders")
        seen = [message.offset for message in consumer.consume(3, WITHIN_S)]
        falls_silent(kafka, consumer)
        assert consumer.poll(0.2) is None
        assert "silent: no heartbeat of orders/0 was read back for 120 s" in caplog.text
        is_heard_again(kafka, consumer)
        while len(seen) < 100:
            seen += [message.offset for message in consumer.consume(1000, WITHIN_S)]
        assert seen == list(range(100))


def test_nothing_is_given_out_of_a_claim_that_says_that_it_is_silent(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the chunk was, until the engine had come to it."""
    said: list[bool] = []
    pause = Fetcher.pause

    def paused(fetcher: Fetcher, one: FetchedPartition) -> None:
        said.append(one.claim.silent)
        pause(fetcher, one)

    monkeypatch.setattr(Fetcher, "pause", paused)
    with kafka.consumer(**FAST) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
        falls_silent(kafka, consumer)
        assert said == [False]


def test_a_loop_in_the_middle_of_a_chunk_waits(kafka: Kafka) -> None:
    flowing = threading.Event()

    def flows(consumer: Consumer) -> None:
        until(lambda: consumer.delivery.in_flight is None)  # the loop is through with its chunk
        flowing.set()
        kafka.flow()

    seen = []
    with kafka.consumer(**FAST) as consumer:
        consumer.add_topic("orders")
        for message in consumer:
            seen.append(message.offset)
            assert len(seen) <= 6 or flowing.is_set()
            if len(seen) == 6:
                falls_silent(kafka, consumer)
                threading.Thread(target=flows, args=(consumer,)).start()
            if len(seen) == 100:
                consumer.stop()
    assert seen == list(range(100))


def test_workers_begin_nothing_of_it(kafka: Kafka) -> None:
    begun: list[int] = []
    silent, go_on = threading.Event(), threading.Event()

    def handle(message: Message) -> None:
        begun.append(message.offset)
        if message.offset == 5:
            falls_silent(kafka, consumer)
            silent.set()
        elif message.offset == 6:
            assert go_on.is_set()
        elif message.offset == 99:
            consumer.stop()

    with kafka.consumer(**FAST) as consumer:
        consumer.add_topic("orders")
        running = threading.Thread(target=lambda: consumer.run(handle, workers=2, retries=0))
        running.start()
        assert silent.wait(WITHIN_S)
        beats = len(kafka.said(Heartbeat))
        until(lambda: len(kafka.said(Heartbeat)) > beats + 5)  # it tries for a while
        assert begun == [*range(6)]
        go_on.set()
        kafka.flow()
        running.join(WITHIN_S)
        assert begun == [*range(100)]


def test_tasks_of_an_event_loop_go_on_when_it_is_heard_again(kafka: Kafka) -> None:
    """More waits than tasks may have before them, and no task ends that could begin the next."""
    kafka.produce("orders", 400)
    begun: list[int] = []

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1", **FAST
        ) as consumer:
            await consumer.add_topic("orders")

            async def handle(message: Message) -> None:
                begun.append(message.offset)
                if message.offset == 5:
                    assert consumer._made is not None
                    falls_silent(kafka, consumer._made)
                elif message.offset == 499:
                    consumer.stop()

            async def flows() -> None:
                while 5 not in begun:
                    await asyncio.sleep(0.002)
                beats = len(kafka.said(Heartbeat))
                while len(kafka.said(Heartbeat)) <= beats + 5:
                    await asyncio.sleep(0.002)
                assert begun == [*range(6)]
                kafka.flow()

            flowing = asyncio.create_task(flows())
            await asyncio.wait_for(consumer.run(handle, concurrency=2), WITHIN_S)
            await flowing

    asyncio.run(main())
    assert begun == [*range(500)]


def test_what_the_application_paused_stays_paused(kafka: Kafka) -> None:
    with kafka.consumer(**FAST) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
        consumer.pause("orders")
        falls_silent(kafka, consumer)
        is_heard_again(kafka, consumer)
        assert consumer.poll(0.2) is None
        falls_silent(kafka, consumer)
        consumer.resume("orders")
        assert consumer.poll(0.2) is None
        is_heard_again(kafka, consumer)
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert message.offset == 1


def test_at_most_once_what_was_granted_is_processed(kafka: Kafka) -> None:
    with kafka.consumer(semantics="at_most_once", batch=100, **FAST) as consumer:
        consumer.add_topic("orders")
        first = consumer.consume(1, WITHIN_S)
        kafka.hold_log()
        kafka.clock.ahead_s += 121
        rest = consumer.consume(1000, WITHIN_S)
        assert [one.offset for one in (*first, *rest)] == [*range(100)]


# --- the coordination topic is gone ---------------------------------------------------------------


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
def test_without_the_coordination_topic_a_consumer_stops(kafka: Kafka, semantics: str) -> None:
    with kafka.consumer(semantics=semantics, metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
        kafka.missing = LOG.__eq__
        until(lambda: consumer._coordinator.failure)
        with pytest.raises(BrokerFailed, match="coordination topic __marshal is gone, and"):
            consumer.poll(WITHIN_S)


def test_a_broker_that_does_not_know_the_topic_for_a_moment_ends_nothing(kafka: Kafka) -> None:
    asked: list[str] = []

    def missing(topic: str) -> bool:
        asked.append(topic)
        return asked.count(LOG) == 1

    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        kafka.missing = lambda topic: topic == LOG and missing(topic)
        until(lambda: asked.count(LOG) > 3)
        assert consumer.poll(WITHIN_S) is not None
