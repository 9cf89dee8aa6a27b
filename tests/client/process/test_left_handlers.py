"""Handlers that outlast their `run`: what they have in hand is nobody else's meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Literal

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Claim, Consumer, HandlerFailed, Message
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.testing.in_memory import InMemoryKafka, ScheduledEventLoop, Scheduler

SLOW_S = 20.0
"""How long a handler takes for its message, which is longer than `run` waits for it."""


class Left:
    """A consumer whose `run` has ended while one of its handlers was at work.

    Partition 1 has a message that fails; a handler has one of partition 0 at that time.
    """

    def __init__(self, order: Literal["partition", "key", "none"]) -> None:
        self.scheduler = Scheduler(seed=1)
        self.kafka = InMemoryKafka(scheduler=self.scheduler)
        self.kafka.create("events", partitions=2, messages=3)
        self.lost: list[Claim] = []
        self.drained: list[Claim] = []
        self.consumer = Consumer(
            settings=self.kafka.settings(),
            group_id="g",
            client_id="c1",
            heartbeat_interval_s=5.0,
            on_lost=lambda claim, _: self.lost.append(claim),
            on_drained=self.drained.append,
        )
        self.consumer.add_topic("events")
        self.order: Literal["partition", "key", "none"] = order
        self.slow = (0, 1) if order == "partition" else (0, 0)
        self.handled: list[tuple[int, int]] = []
        self.begun = self.done = False
        """Of the handler that outlasts its `run`."""
        with pytest.raises(HandlerFailed):
            self.consumer.run(self._handle, workers=3, order=self.order, retries=0, timeout_s=1.0)
        assert self.begun
        assert not self.done

    def _handle(self, message: Message) -> None:
        where = message.partition, message.offset
        if where == self.slow:
            self.begun = True
            self.scheduler.sleep(SLOW_S)
            self.done = True
        elif message.partition == 1:
            self.scheduler.sleep(1.0)
            raise ValueError
        self.handled.append(where)


@pytest.fixture(params=["partition", "key", "none"])
def left(request: pytest.FixtureRequest) -> Iterator[Left]:
    found = Left(request.param)
    yield found
    found.consumer.close()


def test_the_next_run_begins_nothing_of_a_partition_that_a_handler_of_the_last_one_is_in(
    left: Left,
) -> None:
    """Two handlers had the same message at a time."""
    others = 0

    def handle(message: Message) -> None:
        nonlocal others
        if message.partition == 0:
            assert left.done
            left.handled.append((0, message.offset))
        else:
            others += not left.done
        if (message.partition, message.offset) == (0, 2):
            left.consumer.stop()

    left.handled.clear()
    left.consumer.run(handle, workers=3, order=left.order, retries=0)
    assert others == 3, "other partitions go on"
    first, *_ = left.handled
    assert left.handled.count(left.slow) == 2, "what was in hand when a run ended is not done"
    assert first == left.slow


def test_nor_does_a_poll(left: Left) -> None:
    polled: list[tuple[int, int]] = []
    while len(polled) < 6 - left.slow[1]:
        message = left.consumer.poll(1.0)
        if message is not None:
            assert left.done or message.partition == 1
            polled.append((message.partition, message.offset))
    assert polled == [(1, 0), (1, 1), (1, 2), *[(0, at) for at in range(left.slow[1], 3)]]


def test_nor_does_the_next_run_after_a_seek_to_that_message_or_a_resume(left: Left) -> None:
    left.consumer.seek("events", 0, left.slow[1])
    left.consumer.pause("events")
    left.consumer.resume("events")
    polled: list[int] = []
    while 0 not in polled:
        if (message := left.consumer.poll(1.0)) is not None:
            polled.append(message.partition)
    assert left.done


def test_a_claim_that_is_lost_meanwhile_is_drained_when_the_handler_is_done(left: Left) -> None:
    left.consumer.release("events", 0)
    left.scheduler.sleep(SLOW_S / 2)
    assert left.drained == left.lost == []
    while not left.done:
        left.scheduler.sleep(1.0)
    left.scheduler.sleep(5.0)
    assert [each.partition for each in left.drained] == [0]


def test_a_stop_waits_for_it_no_longer(left: Left) -> None:
    """`run` has waited for it already."""
    left.consumer.stop()
    assert left.consumer.poll(10.0) is None
    assert left.consumer.claims == []
    assert not left.done


class Heard(Observer):
    """Which messages failed, and how often they had been tried."""

    def __init__(self) -> None:
        self.failed: list[tuple[int, int]] = []

    def retried(self, message: Message, error: BaseException, tried: int) -> None:
        self.failed.append((message.offset, tried))


@pytest.mark.parametrize("kind", ["thread", "task"])
@pytest.mark.parametrize("retries", [0, 3])
def test_a_handler_that_fails_after_a_stop_is_not_passed_over_in_silence(
    retries: int, kind: str
) -> None:
    """Nothing reported it, and the message came again elsewhere."""
    scheduler, heard = Scheduler(seed=1), Heard()
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", partitions=1, messages=3)
    settings = kafka.settings()

    def in_threads() -> None:
        with Consumer(settings=settings, group_id="g", client_id="c", observers=[heard]) as it:
            it.add_topic("events")

            def handle(message: Message) -> None:
                if message.offset == 1:
                    it.stop()
                    scheduler.sleep(2.0)
                    raise ValueError

            it.run(handle, workers=1, retries=retries)

    async def in_tasks() -> None:
        async with AsyncConsumer(
            settings=settings, group_id="g", client_id="c", observers=[heard]
        ) as it:
            await it.add_topic("events")

            async def handle(message: Message) -> None:
                if message.offset == 1:
                    it.stop()
                    await asyncio.sleep(2.0)
                    raise ValueError

            await it.run(handle, concurrency=1, retries=retries)

    with nullcontext() if retries else pytest.raises(HandlerFailed, match="offset 1"):
        if kind == "thread":
            in_threads()
        else:
            ScheduledEventLoop(scheduler).run_until_complete(in_tasks())
    scheduler.close()
    assert heard.failed == ([(1, 1)] if retries else [])
