"""The consumer in an event loop, on a real broker."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import HandlerFailed, Message
from kafka_marshal.errors import BrokerFailed, InvalidOption
from kafka_marshal.testing import Broker
from tests.client.crew import INTERVAL_S, Stage
from tests.client.notes import Notes


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def consumer_of(stage: Stage, client_id: str, **options: Any) -> AsyncConsumer:
    given: dict[str, Any] = {"heartbeat_interval_s": INTERVAL_S, **options}
    return AsyncConsumer(
        stage.bootstrap,
        group_id=stage.group,
        client_id=client_id,
        coordination_topic=stage.coordination,
        **given,
    )


def number_of(message: Message) -> int:
    assert message.value is not None
    return int(message.value)


def test_a_loop_gets_every_message_once_and_the_event_loop_does_not_wait(stage: Stage) -> None:
    topic = stage.topic(partitions=3, messages=3_000)

    async def main() -> list[int]:
        got: list[int] = []
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.001)
                ticks += 1

        ticking = asyncio.create_task(tick())
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(topic)
            before = ticks
            async for message in consumer:
                assert got or ticks > before, "while nothing was claimed"
                got.append(number_of(message))
                if len(got) == 3_000:
                    await asyncio.sleep(0.3)
                    assert len(consumer.claims) == 3
                    consumer.stop()
        ticking.cancel()
        return got

    assert sorted(asyncio.run(main())) == list(range(3_000))


def test_a_loop_that_is_cancelled_loses_nothing_and_repeats_nothing(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=10)
    got: list[int] = []

    async def take(consumer: AsyncConsumer, until: int) -> None:
        async for message in consumer:
            got.append(number_of(message))
            if message.offset == until:
                consumer.stop()

    async def main() -> None:
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(topic)
            taking = asyncio.create_task(take(consumer, -1))
            while len(got) < 10:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # it waits for more now
            taking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await taking
            await asyncio.to_thread(stage.produce, topic, 1, range(10, 20))
            await take(consumer, 19)

    asyncio.run(main())
    assert got == list(range(20))


def test_handlers_run_at_once_and_in_the_order_of_their_partition(stage: Stage) -> None:
    topic = stage.topic(partitions=4, messages=400)
    got: dict[int, list[int]] = {}
    at_once = most = 0

    async def main() -> int:
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(topic)

            async def handle(message: Message) -> None:
                nonlocal at_once, most
                at_once += 1
                most = max(most, at_once)
                await asyncio.sleep(0.005)
                at_once -= 1
                got.setdefault(message.partition, []).append(message.offset)
                if sum(map(len, got.values())) == 400:
                    consumer.stop()

            return (await consumer.run(handle, concurrency=50)).handled

    assert asyncio.run(main()) == 400
    assert 2 <= most <= 4
    assert got == {partition: list(range(100)) for partition in range(4)}
    with stage.consumer("w1") as again:  # all of it is done
        again.add_topic(topic)
        assert again.poll(2) is None


def test_no_more_is_taken_than_the_handlers_can_have(stage: Stage) -> None:
    topic, notes = stage.topic(partitions=2, messages=4_000), Notes()
    begun = 0

    async def main() -> None:
        async with consumer_of(stage, "w1", observers=[notes]) as consumer:
            await consumer.add_topic(topic)

            async def handle(message: Message) -> None:
                nonlocal begun
                begun += 1
                await asyncio.sleep(60)

            running = asyncio.create_task(consumer.run(handle, concurrency=20, order="none"))
            while begun < 20:
                await asyncio.sleep(0.01)
            await asyncio.sleep(1)  # if it took more, it would now
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(main())
    assert begun == 20
    assert 20 <= sum(messages for _, messages in notes.of("handed_over")) <= 2_000


def test_what_is_in_hand_when_it_is_cancelled_is_processed_again(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=30)
    begun: list[int] = []
    cancelled: list[int] = []

    async def main() -> None:
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(topic)

            async def handle(message: Message) -> None:
                begun.append(message.offset)
                if message.offset == 10:
                    try:
                        await asyncio.sleep(60)
                    finally:
                        cancelled.append(message.offset)

            running = asyncio.create_task(consumer.run(handle, order="none", concurrency=4))
            while len(begun) < 30:
                await asyncio.sleep(0.01)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert cancelled == [10]

    asyncio.run(main())
    with stage.consumer("w2") as other:
        other.add_topic(topic)
        first = other.poll(10)
        assert first is not None
        assert first.offset == 10


def test_what_fails_is_tried_again_and_put_aside_or_ends_the_run(stage: Stage) -> None:
    topic, dead = stage.topic(partitions=1, messages=20), stage.topic(partitions=1, messages=0)

    async def main() -> None:
        options: dict[str, Any] = {"retries": 1, "backoff_s": 0.01}
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(topic)

            async def handle(message: Message) -> None:
                if number_of(message) == 7:
                    raise RuntimeError("no")
                if message.offset == 19:
                    consumer.stop()

            counted = await consumer.run(handle, dead_letter_topic=dead, **options)
            assert (counted.handled, counted.retried, counted.dead) == (20, 1, 1)
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(dead)
            with pytest.raises(HandlerFailed, match=r"offset 0, .*failed 2 times"):
                await consumer.run(handle, **options)

    asyncio.run(main())


def test_an_event_loop_has_batches_and_polls(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=20)
    amo = {"semantics": "at_most_once", "batch": 8}

    async def main() -> list[int]:
        got: list[int] = []
        async with consumer_of(stage, "w1", **amo) as consumer:
            await consumer.add_topic(topic)
            async for batch in consumer.batches(5.0):
                assert len(batch.messages) <= 8
                got += map(number_of, batch.messages)
                if len(got) == 20:
                    break
            with pytest.raises(InvalidOption, match="at_least_once"):
                await consumer.run(asyncio.sleep)  # type: ignore[arg-type]
        await asyncio.to_thread(stage.produce, topic, 1, range(20, 30))
        async with consumer_of(stage, "w1") as consumer:
            await consumer.add_topic(topic)
            message = await consumer.poll(10)
            assert message is not None
            assert number_of(message) == 20
            consumer.ack()
            await consumer.seek(topic, 0, 25)
            message = await consumer.poll(10)
            assert message is not None
            assert number_of(message) == 25
        return got

    assert asyncio.run(main()) == list(range(20))


def test_nothing_of_it_is_left_when_it_is_closed_and_errors_are_those_of_the_consumer(
    stage: Stage,
) -> None:
    before = set(threading.enumerate())

    async def main() -> None:
        async with consumer_of(stage, "w1") as consumer:
            with pytest.raises(BrokerFailed, match="there is no topic nowhere"):
                await consumer.add_topic("nowhere")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(aiter(consumer)), 0.2)
        with pytest.raises(InvalidOption, match="client_id must be a name without"):
            await consumer_of(stage, "a/b").__aenter__()
        with pytest.raises(InvalidOption, match="async with"):
            consumer_of(stage, "w2").stop()

    asyncio.run(main())
    deadline = time.monotonic() + 5
    while left := set(threading.enumerate()) - before:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
