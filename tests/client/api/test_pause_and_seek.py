"""Pausing and seeking pass over nothing that the application was not given."""

from __future__ import annotations

import math
import threading
from typing import Any, Literal

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer, HandlerFailed, Message
from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.fetch.fetcher import ALONE_S
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.process.handling import Handling
from kafka_marshal.errors import InvalidOption
from kafka_marshal.testing.in_memory import InMemoryKafka, ScheduledEventLoop, Scheduler
from tests.client.doubles import Kafka, until


def polled(consumer: Consumer, number: int) -> list[int]:
    """The offsets of `number` messages, none of them done."""
    found = []
    for _ in range(number):
        message = consumer.poll(5.0)
        if message is None:
            break
        found.append(message.offset)
    return found


def may_take(consumer: Consumer, messages: int) -> bool:
    """Whether this number of messages waits and may be taken."""
    fetcher, [tenure] = consumer._fetcher, consumer._coordinator.ownership._tenures
    return fetcher.buffered(tenure.fetched)[0] == messages and fetcher._buffers.ready


def test_what_a_pause_took_back_is_given_out_after_it() -> None:
    """What was allowed meanwhile came first, and what was taken back never."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 5) == [*range(5)]
        kafka.produce("events", 10)
        until(lambda: may_take(consumer, 10))
        consumer.pause("events")
        consumer.resume("events")
        assert polled(consumer, 15) == [*range(5, 20)]


def test_a_seek_within_what_was_given_out_passes_over_nothing_behind_it() -> None:
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 5) == [*range(5)]
        kafka.produce("events", 10)
        until(lambda: may_take(consumer, 10))
        consumer.seek("events", 0, 7)
        assert polled(consumer, 13) == [*range(7, 20)]


def test_a_seek_that_is_refused_takes_nothing_away() -> None:
    """What was in hand was given up before the offset was looked at."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 3) == [0, 1, 2]
        consumer.ack()
        with pytest.raises(InvalidOption, match="below 3 is done"):
            consumer.seek("events", 0, 1)
        assert polled(consumer, 7) == [*range(3, 10)]


@pytest.mark.parametrize("to", [11, 2**63, 10.0, math.nan])
def test_a_seek_beyond_the_end_is_refused(to: Any) -> None:
    """It skipped what came later, for good; a float or 2**63 ended the consumer."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 3) == [0, 1, 2]
        with pytest.raises(InvalidOption, match=r"which ends at 10|whole number"):
            consumer.seek("events", 0, to)
        consumer.seek("events", 0, 10)
        kafka.produce("events", 2)
        assert polled(consumer, 2) == [10, 11]


def test_a_second_pause_takes_back_nothing_that_was_given_out() -> None:
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        found = []
        for number in (3, 4, 3):
            found += polled(consumer, number)
            consumer.pause("events")
            consumer.resume("events")
        assert found == [*range(10)]
        kafka.produce("events", 1)
        assert polled(consumer, 1) == [10]


@pytest.mark.parametrize("way", ["pause", "seek", "seek to its end"])
def test_what_is_taken_at_that_very_moment_is_given_out_once(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk that was taken and not yet noted was given out, and fetched again."""
    kafka = Kafka()
    kafka.create("events", messages=1)
    taken, noted = threading.Event(), threading.Event()
    note = Ownership.accept

    def accept(held: Ownership, in_flight: InFlight) -> bool:
        if in_flight.start == 1 and not taken.is_set():
            taken.set()
            assert noted.wait(20)
        return note(held, in_flight)

    monkeypatch.setattr(Ownership, "accept", accept)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        found = polled(consumer, 1)
        kafka.produce("events", 4)
        thread = threading.Thread(target=lambda: found.extend(polled(consumer, 5)))
        thread.start()
        assert taken.wait(20)
        to = 3 if way == "seek" else 5
        if way == "pause":
            consumer.pause("events")
            consumer.resume("events")
        else:
            consumer.seek("events", 0, to)
        noted.set()
        kafka.produce("events", 1 if way == "pause" else to)
        thread.join(20)
        assert found == ([*range(6)] if way == "pause" else [0, *range(to, to + 5)])


def test_at_most_once_a_stop_that_waits_for_a_paused_partition_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its loop stood still without a word."""
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 1) == [0]
        consumer.ack()
        consumer.pause("events")
        consumer.stop()
        until(lambda: "events/0 is paused, and messages 1 to 3 of it were granted" in caplog.text)
        assert consumer.poll(0.01) is None
        consumer.resume("events")
        assert polled(consumer, 3) == [1, 2, 3]


def test_at_most_once_a_consumer_that_is_closed_waits_for_no_paused_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kafka = Kafka()
    kafka.create("events", messages=4)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 1) == [0]
        consumer.pause("events")
    assert "is paused" not in caplog.text


def test_a_partition_whose_buffer_was_full_is_fetched_again_after_a_seek() -> None:
    """Kafka's client keeps a partition paused that it is assigned anew."""
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", messages=30)
    with Consumer(
        settings=kafka.settings(), group_id="g", client_id="c1", bounds=BufferLimits(5)
    ) as consumer:
        consumer.add_topic("events")
        assert polled(consumer, 1) == [0]
        kafka.produce("events", 10)
        scheduler.sleep(4 * ALONE_S)  # the application is busy, and the partition is paused
        consumer.seek("events", 0, 0)
        assert polled(consumer, 40) == [*range(40)]


def test_what_a_seek_passed_over_while_a_run_failed_is_not_given_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kafka = Kafka()
    kafka.create("events", messages=10)
    end = Handling.end

    def handle(message: Message) -> None:
        if message.offset == 3:
            raise ValueError

    with kafka.consumer() as consumer:
        consumer.add_topic("events")

        def ends(handling: Handling) -> list[InFlight]:
            left = end(handling)
            consumer.seek("events", 0, 8)
            return left

        monkeypatch.setattr(Handling, "end", ends)
        with pytest.raises(HandlerFailed):
            consumer.run(handle, workers=1, retries=0)
        assert polled(consumer, 2) == [8, 9]


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_a_seek_while_workers_handle_messages_passes_over_what_they_have_not_begun(
    order: Literal["partition", "key", "none"],
) -> None:
    """`run` ended with a ValueError: messages came that it had fed to its workers before."""
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", messages=20)
    handled: list[int] = []
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("events")

        def handle(message: Message) -> None:
            handled.append(message.offset)
            scheduler.sleep(0.1)
            if message.offset == 3:
                consumer.seek("events", 0, 10)
            elif message.offset == 19:
                consumer.stop()

        consumer.run(handle, workers=2, order=order)
    assert handled[:4] == [0, 1, 2, 3]
    assert sorted(handled[4:])[-10:] == [*range(10, 20)]
    assert set(handled[4:-10]) <= {4}, "the other worker may have begun one more"
    assert kafka.committed["g", "events", 0] == 20


def test_a_message_that_a_seek_gives_out_again_waits_until_its_worker_is_done_with_it() -> None:
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", messages=5)
    handled: list[int] = []
    in_hand: set[int] = set()
    with Consumer(settings=kafka.settings(), group_id="g", client_id="c1") as consumer:
        consumer.add_topic("events")

        def handle(message: Message) -> None:
            assert not in_hand
            in_hand.add(message.offset)
            handled.append(message.offset)
            if handled == [0, 1, 2]:
                scheduler.start(lambda: consumer.seek("events", 0, 2), "seek", "seek")
                scheduler.sleep(5.0)
            in_hand.remove(message.offset)
            if message.offset == 4:
                consumer.stop()

        consumer.run(handle, workers=3, order="partition", retries=0)
    assert handled == [0, 1, 2, 2, 3, 4]


def test_a_seek_while_tasks_handle_messages_passes_over_what_they_have_not_begun() -> None:
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("events", messages=20)
    handled: list[int] = []

    async def main() -> None:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:
            await consumer.add_topic("events")

            async def handle(message: Message) -> None:
                handled.append(message.offset)
                if message.offset == 3:
                    await consumer.seek("events", 0, 10)
                elif message.offset == 19:
                    consumer.stop()

            await consumer.run(handle, order="partition")

    ScheduledEventLoop(scheduler).run_until_complete(main())
    scheduler.close()
    assert handled == [0, 1, 2, 3, *range(10, 20)]
