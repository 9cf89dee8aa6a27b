"""What a call that ended early would have given, or had not done, is given by the next one."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from typing import Literal

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer, HandlerFailed, Message
from kafka_marshal.client.api.delivery import DeliveryMode
from kafka_marshal.client.process.handling import Handling, HandlingCounts
from kafka_marshal.client.process.pool import WorkerPool
from kafka_marshal.client.process.work_queues import StartedMessage
from kafka_marshal.core.messages import ReleasingPartition
from kafka_marshal.errors import InvalidOption
from kafka_marshal.testing.in_memory import InMemoryKafka, ScheduledEventLoop, Scheduler
from tests.client.doubles import WITHIN_S, Kafka, until


async def offsets_of(consumer: AsyncConsumer, way: str) -> list[int]:
    if way == "poll":
        message = await consumer.poll(3.0)
        return [] if message is None else [message.offset]
    return [message.offset for message in await consumer.consume(10, 3.0)]


@pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("way", ["poll", "consume"])
def test_nothing_is_lost_by_a_call_that_was_cancelled(
    way: str, semantics: Literal["at_least_once", "at_most_once"]
) -> None:
    """Its thread went on, and what it took counted as done when more was asked for."""
    kafka = Kafka()
    kafka.create("events")

    async def main() -> list[int]:
        async with AsyncConsumer(
            settings=kafka.settings(),
            group_id="g",
            client_id="c1",
            semantics=semantics,
        ) as consumer:
            await consumer.add_topic("events")
            while not consumer.claims:
                await asyncio.sleep(0.002)
            asking = asyncio.create_task(offsets_of(consumer, way))
            await asyncio.sleep(0)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            kafka.produce("events", 3)
            found: list[int] = []
            while len(found) < 3 and (more := await offsets_of(consumer, way)):
                found += more
            return found

    assert asyncio.run(main()) == [0, 1, 2]


def test_a_consumer_whose_connecting_was_cancelled_is_closed() -> None:
    """It went on for ever with its threads and connections, and nobody could close it."""
    kafka = Kafka()
    kafka.create("events")
    before = {*threading.enumerate()}

    async def main() -> None:
        consumer = AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c1")
        entering = asyncio.create_task(consumer.__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering

    asyncio.run(main())
    until(lambda: {*threading.enumerate()} <= before)


def test_a_run_ends_well_when_it_is_closed_while_it_waits_for_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It raised a RuntimeError if a handler ended in the same step of the event loop."""
    kafka = Kafka()
    kafka.create("events")

    async def main() -> HandlingCounts:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:

            async def closed_meanwhile(*_: object) -> bool:
                await consumer.close()
                return True

            monkeypatch.setattr("kafka_marshal.client.api.aio._Tasks.hungry", closed_meanwhile)
            return await consumer.run(lambda _: asyncio.sleep(0))

    assert asyncio.run(main()) == HandlingCounts()


def test_a_consumer_is_connected_once() -> None:
    """A second one took the claims of the first, and nobody closed that."""
    kafka = Kafka()
    kafka.create("events")
    before = {*threading.enumerate()}
    refused = pytest.raises(InvalidOption, match="connected before: make another")

    async def main() -> None:
        consumer = AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c1")
        async with consumer:
            with refused:
                await consumer.__aenter__()
        with refused:
            await consumer.__aenter__()

    asyncio.run(main())
    until(lambda: {*threading.enumerate()} <= before)


@pytest.mark.parametrize("window", [3, 1000])
def test_what_a_run_that_was_cancelled_had_not_done_is_given_to_the_next(window: int) -> None:
    """It was given to nobody before the consumer was closed, and the position stood still."""
    kafka = Kafka()
    kafka.create("events", partitions=2, messages=10)
    got: list[tuple[int, int]] = []
    again: list[tuple[int, int]] = []

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1", window=window
        ) as consumer:
            await consumer.add_topic("events")
            stuck = asyncio.Event()

            async def gets_stuck(message: Message) -> None:
                if (message.partition, message.offset) == (0, 2):
                    stuck.set()
                    await asyncio.sleep(100)
                got.append((message.partition, message.offset))

            async def handles(message: Message) -> None:
                again.append((message.partition, message.offset))
                if {*got, *again} == {(p, n) for p in range(2) for n in range(10)}:
                    consumer.stop()

            running = asyncio.create_task(consumer.run(gets_stuck))
            await stuck.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.wait_for(consumer.run(handles), 10.0)

    asyncio.run(main())
    assert [offset for partition, offset in again if partition == 0] == [*range(2, 10)]
    assert {each.offset for each in kafka.said(ReleasingPartition)} == {10}


@pytest.mark.parametrize("after_s", [0.0, 0.01])
def test_what_a_run_that_was_cancelled_twice_had_not_done_is_given_to_the_next(
    after_s: float,
) -> None:
    """Nobody was given what it had in hand before the consumer was closed."""
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", messages=3)
    handled: list[int] = []

    async def cleans_up(_: Message) -> None:
        for wait_s in (100.0, 5.0, 5.0):  # a cancellation ends each of the first two
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(wait_s)
        raise ValueError

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:
            await consumer.add_topic("events")

            async def handles(message: Message) -> None:
                handled.append(message.offset)
                if message.offset == 2:
                    consumer.stop()

            running = asyncio.create_task(consumer.run(cleans_up))
            await asyncio.sleep(5.0)
            for _ in range(2):
                running.cancel()
                await asyncio.sleep(after_s)
            with pytest.raises(asyncio.CancelledError):
                await running
            await asyncio.wait_for(consumer.run(handles), 60.0)

    ScheduledEventLoop(scheduler).run_until_complete(main())
    scheduler.close()
    assert handled == [0, 1, 2]


@pytest.mark.parametrize("steps", range(6))
def test_a_run_that_is_cancelled_ends(steps: int) -> None:
    """`asyncio.wait_for` of Python 3.11 forgets a cancellation that comes when its wait is over."""
    kafka = Kafka()
    kafka.create("events")

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:
            await consumer.add_topic("events")
            running = asyncio.create_task(consumer.run(asyncio.sleep))  # type: ignore[arg-type]
            for _ in range(steps):  # of the event loop
                await asyncio.sleep(0)
            assert running.cancel()
            await asyncio.wait([running], timeout=WITHIN_S)
            assert running.cancelled()

    asyncio.run(main())


def test_what_a_run_that_failed_had_not_done_is_given_to_the_next() -> None:
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        again = runs_and_fails_at(consumer, 4)
        assert again == [0, 1, 2, 3]
        message = consumer.poll(5.0)
        assert message is not None
        assert message.offset == 4
        assert runs_and_fails_at(consumer, 6) == [5]
        consumer.ack()
        assert runs_and_fails_at(consumer, 9) == [6, 7, 8]
    assert [each.offset for each in kafka.said(ReleasingPartition)] == [9]


def test_a_message_that_fails_ends_the_run_before_the_next_of_its_lane_may_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other workers handled what lies behind it, until its thread had ended."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    ended: list[bool] = []
    finish = WorkerPool._finish

    def finished(pool: WorkerPool, begun: StartedMessage[Message], *, done: bool) -> None:
        if begun.message.offset == 4:
            ended.append(pool.failure is not None)
        finish(pool, begun, done=done)

    monkeypatch.setattr(WorkerPool, "_finish", finished)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        assert runs_and_fails_at(consumer, 4) == [0, 1, 2, 3]
    assert ended == [True]


@pytest.mark.parametrize("cancels", ["what it awaits", "itself"])
def test_a_handler_that_ends_by_a_cancellation_of_its_own_has_failed(cancels: str) -> None:
    """Its message was neither done nor tried again, and the position stood still for ever."""
    kafka = Kafka()
    kafka.create("events", messages=5)
    done: list[int] = []
    tried = 0

    async def handler(message: Message) -> None:
        nonlocal tried
        if message.offset != 2:
            done.append(message.offset)
            return
        tried += 1
        mine = asyncio.current_task()
        awaits = asyncio.create_task(asyncio.sleep(WITHIN_S))
        cancelled = mine if cancels == "itself" else awaits
        assert cancelled is not None
        cancelled.cancel()
        await awaits

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:
            await consumer.add_topic("events")
            with pytest.raises(HandlerFailed, match=r"offset 2, .*CancelledError"):
                async with asyncio.timeout(WITHIN_S):
                    await consumer.run(handler, retries=1, backoff_s=0.01)
            assert consumer.committed("events", 0) <= 2

    asyncio.run(main())
    assert done == [0, 1]
    assert tried == (1 if cancels == "itself" else 2)


def test_what_was_fed_last_is_given_out_again_also_where_all_before_it_is_done() -> None:
    """Nobody got it before the consumer was closed, and a stop waited for it."""
    kafka = Kafka()
    kafka.create("events", messages=1)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        handling = consumer.handling("partition", 0, 0.1, None)
        fed(consumer, handling)
        begun = handling.begin()
        assert begun is not None
        handling.finish(begun)
        handling.done(begun)
        kafka.produce("events", 1)
        fed(consumer, handling)
        consumer.redeliver(handling)
        again = consumer.poll(5.0)
        assert again is not None
        assert again.offset == 1


def fed(consumer: Consumer, handling: Handling) -> None:
    in_flight = consumer.delivery.take(5.0, DeliveryMode.LIST)
    consumer.delivery.pop()
    assert in_flight is not None
    handling.feed(in_flight)


def runs_and_fails_at(consumer: Consumer, offset: int) -> list[int]:
    found: list[int] = []

    def handler(message: Message) -> None:
        if message.offset == offset:
            raise ValueError
        found.append(message.offset)

    with pytest.raises(HandlerFailed):
        consumer.run(handler, workers=2, retries=0)
    return found
