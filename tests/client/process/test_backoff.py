"""Waits before a next try: they end when `run` does, or when the claim is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_marshal import AsyncConsumer, Consumer
from kafka_marshal.client.message import Message
from kafka_marshal.client.process.handling import Retrying
from kafka_marshal.testing.in_memory import InMemoryKafka, ScheduledEventLoop, Scheduler

BACKOFF_S = 25.0


class Tries:
    """A consumer whose handler fails at every message of partition 0, and when it was called."""

    def __init__(self, on_failure: Callable[[Tries], None]) -> None:
        self.scheduler = Scheduler(seed=1)
        self.kafka = InMemoryKafka(scheduler=self.scheduler)
        self.kafka.create("events", partitions=1, messages=3)
        self.on_failure = on_failure
        self.consumer: Consumer | AsyncConsumer
        self.tried_s: list[float] = []
        self.of_lost: list[bool] = []
        """Of each try: whether the claim was lost."""
        self.options: dict[str, Any] = {
            "settings": self.kafka.settings(),
            "group_id": "g",
            "client_id": "c1",
            "heartbeat_interval_s": 5.0,
        }

    @property
    def now_s(self) -> float:
        return self.scheduler.clock.monotonic()

    def fails(self, message: Message) -> None:
        self.tried_s.append(self.now_s)
        self.of_lost.append(message.claim.lost is not None)
        self.on_failure(self)
        raise ValueError(message.offset)

    def lets_go(self) -> None:
        consumer = self.consumer
        if isinstance(consumer, AsyncConsumer):
            consumer = consumer._consumer
        consumer.release("events", 0)

    async def fails_in_a_task(self, message: Message) -> None:
        self.fails(message)

    def in_threads(self) -> None:
        with Consumer(**self.options) as self.consumer:
            self.consumer.add_topic("events")
            self.consumer.run(self.fails, workers=2, backoff_s=BACKOFF_S)
            self.ended_s = self.now_s

    def in_a_loop(self) -> None:
        async def consumes() -> None:
            async with AsyncConsumer(**self.options) as self.consumer:
                await self.consumer.add_topic("events")
                await self.consumer.run(self.fails_in_a_task, concurrency=2, backoff_s=BACKOFF_S)
                self.ended_s = self.now_s

        loop = ScheduledEventLoop(self.scheduler)
        loop.run_until_complete(consumes())
        loop.close()


WAYS = {"threads": Tries.in_threads, "loop": Tries.in_a_loop}


@pytest.mark.parametrize("way", WAYS)
def test_who_stops_waits_for_no_next_try(way: str) -> None:
    tries = Tries(lambda tries: tries.consumer.stop())
    WAYS[way](tries)
    assert len(tries.tried_s) == 1, "a handler was called after `stop`"
    assert tries.ended_s - tries.tried_s[0] < 2.0


@pytest.mark.parametrize("way", WAYS)
def test_a_message_of_a_lost_claim_is_tried_no_more(way: str) -> None:
    def on_failure(tries: Tries) -> None:
        if len(tries.tried_s) == 1:
            tries.scheduler.begin("operator", tries.lets_go)
        else:
            tries.consumer.stop()

    tries = Tries(on_failure)
    WAYS[way](tries)
    assert tries.of_lost == [False, False], "the second is of the next tenure"


def test_a_message_may_be_tried_again_for_days() -> None:
    """The 1025th failure ended the run with an OverflowError, after 8.5 hours."""
    retrying = Retrying(retries=10**6)
    assert retrying.wait_s(1) <= 0.1
    assert all(15.0 <= retrying.wait_s(tried) <= 30.0 for tried in (10, 1_025, 10**6))
