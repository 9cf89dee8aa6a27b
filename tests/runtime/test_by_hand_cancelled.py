"""What a call that was cancelled would have given is given by the next one."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest

from kafka_marshal.runtime.aio import AsyncConsumer
from tests.runtime.doubles import Kafka


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
            group="g",
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
