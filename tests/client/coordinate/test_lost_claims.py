"""Marshal promises that nothing is begun of a claim that is lost, paused or given up.

Loops, polls, workers and tasks ask the same question, each before it begins a message.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Literal

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer, Message
from kafka_marshal.client.api.delivery import DeliveryMode
from kafka_marshal.client.process.handling import AHEAD, Handling
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler
from tests.client.doubles import WITHIN_S, Kafka, until


def events(messages: int, partitions: int = 1) -> Kafka:
    """A cluster with messages in the first partition."""
    kafka = Kafka()
    kafka.create("events", partitions)
    kafka.produce("events", messages)
    return kafka


def is_lost(kafka: Kafka, consumer: Consumer) -> None:
    kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 0))
    kafka.says(ClaimingPartition(1, 0, "i9", "c9", "g", "events", Partition(0)))
    until(lambda: not consumer.claims)


def is_paused(kafka: Kafka, consumer: Consumer) -> None:
    consumer.pause("events")


def is_stopped(kafka: Kafka, consumer: Consumer) -> None:
    consumer.stop()


def is_released(kafka: Kafka, consumer: Consumer) -> None:
    consumer.release("events", 0)


ENDS: Final = (is_lost, is_paused, is_stopped, is_released)


def fed(consumer: Consumer, messages: int) -> Handling:
    """What workers share, with this many messages; no worker has begun one."""
    consumer.add_topic("events")
    handling = consumer.handling("none", 0, 0.1, None)
    until(lambda: consumer._fetcher._buffers.ready)
    in_flight = consumer.delivery.take(WITHIN_S, DeliveryMode.LIST, messages)
    consumer.delivery.pop()
    assert in_flight is not None
    handling.feed(in_flight)
    assert handling.waiting == messages
    return handling


def begins_nothing(ends: Callable[[Kafka, Consumer], None]) -> None:
    kafka = events(3)
    with kafka.consumer() as consumer:
        handling = fed(consumer, 3)
        first = handling.begin()
        assert first is not None
        ends(kafka, consumer)
        assert handling.begin() is None
        handling.finish(first)
        handling.done(first)
        if ends is is_paused:
            consumer.resume("events")
            again = handling.begin()
            assert again is not None
            assert again.message.offset == 1
            handling.finish(again)
        consumer.redeliver(handling)


@pytest.mark.parametrize("ends", ENDS, ids=lambda each: each.__name__)
def test_workers_begin_nothing_of_what_waits_once_its_claim(
    ends: Callable[[Kafka, Consumer], None],
) -> None:
    """They began what they had, until the thread that feeds them looked."""
    begins_nothing(ends)


def passes_over_what_is_paused(handled: list[tuple[int, int]]) -> None:
    """While the first partition is paused only the second is handled; in the end all of both is."""
    second = handled.index((1, 0))
    assert handled[:second] == [(0, 0)]
    assert handled[second : second + 5] == [(1, number) for number in range(5)]
    assert handled[second + 5 :] == [(0, number) for number in range(1, 2 * AHEAD)]


def test_workers_that_have_much_of_a_paused_partition_get_more_of_the_others() -> None:
    kafka = events(2 * AHEAD, partitions=2)
    handled: list[tuple[int, int]] = []

    with kafka.consumer() as consumer:

        def handler(message: Message) -> None:
            handled.append((message.partition, message.offset))
            if handled == [(0, 0)]:
                consumer.pause("events", 0)
                kafka.produce("events", 5, partition=1)

        consumer.add_topic("events")
        thread = threading.Thread(target=lambda: consumer.run(handler, workers=1))
        thread.start()
        until(lambda: (1, 4) in handled)
        consumer.resume("events")
        until(lambda: len(handled) == 2 * AHEAD + 5)
        consumer.stop()
        thread.join(WITHIN_S)
    passes_over_what_is_paused(handled)


def test_tasks_that_have_much_of_a_paused_partition_get_more_of_the_others() -> None:
    kafka = events(2 * AHEAD, partitions=2)
    handled: list[tuple[int, int]] = []

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:

            async def handler(message: Message) -> None:
                handled.append((message.partition, message.offset))
                if handled == [(0, 0)]:
                    await consumer.pause("events", 0)
                    kafka.produce("events", 5, partition=1)

            await consumer.add_topic("events")
            running = asyncio.create_task(consumer.run(handler, concurrency=1))
            while (1, 4) not in handled:
                await asyncio.sleep(0.002)
            await consumer.resume("events")
            while len(handled) < 2 * AHEAD + 5:
                await asyncio.sleep(0.002)
            consumer.stop()
            await running

    asyncio.run(asyncio.wait_for(main(), WITHIN_S))
    passes_over_what_is_paused(handled)


def has_the_rest(kafka: Kafka, done: int) -> None:
    """The claim is given up with what was done of it, and another consumer gets what was not."""
    until(lambda: kafka.said(ReleasingPartition))
    assert [each.offset for each in kafka.said(ReleasingPartition)] == [done]
    with kafka.consumer("c2") as another:
        another.add_topic("events")
        message = another.poll(WITHIN_S)
        assert message is not None
        assert message.offset == done


def is_removed(kafka: Kafka, consumer: Consumer) -> None:
    consumer.remove_topic("events")


@pytest.mark.parametrize("order", ["partition", "key", "none"])
@pytest.mark.parametrize("gives_up", [is_released, is_removed])
def test_what_workers_have_not_begun_of_a_claim_that_is_given_up_keeps_nobody_waiting(
    gives_up: Callable[[Kafka, Consumer], None], order: Literal["partition", "key", "none"]
) -> None:
    """It was waited for until the run ended, since nobody was to begin it any more."""
    kafka = events(5)
    begun, goes_on, handled = threading.Event(), threading.Event(), list[int]()

    def handler(message: Message) -> None:
        handled.append(message.offset)
        if message.offset == 1:
            begun.set()
            assert goes_on.wait(WITHIN_S)

    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        thread = threading.Thread(target=lambda: consumer.run(handler, workers=1, order=order))
        thread.start()
        assert begun.wait(WITHIN_S)
        gives_up(kafka, consumer)
        assert not kafka.said(ReleasingPartition)
        goes_on.set()
        has_the_rest(kafka, done=2)
        consumer.stop()
        thread.join(WITHIN_S)
    assert handled == [0, 1]


def test_what_tasks_have_not_begun_of_a_claim_that_is_given_up_keeps_nobody_waiting() -> None:
    kafka = events(5)
    handled = list[int]()

    async def main() -> None:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def handler(message: Message) -> None:
            handled.append(message.offset)
            if message.offset == 1:
                begun.set()
                await goes_on.wait()

        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:
            await consumer.add_topic("events")
            running = asyncio.create_task(consumer.run(handler))
            await begun.wait()
            await consumer.release("events", 0)
            goes_on.set()
            await asyncio.to_thread(has_the_rest, kafka, done=2)
            consumer.stop()
            await running

    asyncio.run(asyncio.wait_for(main(), WITHIN_S))
    assert handled == [0, 1]


def test_a_claim_that_a_copy_of_our_own_request_wins_anew_is_lost_before() -> None:
    """Nobody knows then who owned it in between."""
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", messages=5)
    told: list[tuple[str, int]] = []
    with Consumer(
        settings=kafka.settings(),
        group_id="g",
        client_id="c1",
        on_claimed=lambda claim: told.append(("claimed", claim.epoch)),
        on_lost=lambda claim, reason: told.append((reason.value, claim.epoch)),
    ) as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        request = kafka.topics[COORDINATION_TOPIC][0].records[0]
        assert request is not None
        kafka.broker_clock.wall_s += 1000.0  # the claim is stale
        kafka.append(COORDINATION_TOPIC, 0, request.value, request.headers)
        scheduler.sleep(5.0)
        again = consumer.poll(10.0)
        assert again is not None
        assert (again.offset, again.claim.epoch) == (0, 2)
        assert told == [("claimed", 0), ("uncertain", 0), ("claimed", 2)]
