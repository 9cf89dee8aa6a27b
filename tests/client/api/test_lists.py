"""Messages that are taken as lists, on a real broker."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer, Message, Messages
from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.effects import Lost
from kafka_marshal.testing import Broker
from tests.client.crew import INTERVAL_S, Stage, until
from tests.client.notes import Notes

ONE_NAME = sys.getrefcount(object()) + 1
"""The references that `sys.getrefcount` counts to what has one name."""


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def numbers(messages: Messages) -> list[int]:
    return [int(message.value or b"") for message in messages]


def offsets(messages: Messages) -> list[int]:
    return [message.offset for message in messages]


def lists_of(consumer: Consumer, maximum: int, count: int) -> Iterator[Messages]:
    """Lists with `count` messages in all."""
    while count > 0:
        messages = consumer.consume(maximum, 10)
        assert messages
        count -= len(messages)
        yield messages


def next_offset(stage: Stage, topic: str) -> int:
    """Where another consumer of the group goes on."""
    with stage.consumer("other") as consumer:
        consumer.add_topic(topic)
        return consumer.consume(1, 10)[0].offset


def test_lists_have_every_message_once_in_the_order_of_their_partition(stage: Stage) -> None:
    topic = stage.topic(partitions=3, messages=5_000)
    got: dict[int, list[int]] = {}
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        for messages in lists_of(consumer, 700, 5_000):
            assert len(messages) <= 700
            assert {message.claim for message in messages} == {messages.claim}
            assert [message.offset() for message in messages.fetched] == offsets(messages)
            got.setdefault(messages.claim.partition, []).extend(numbers(messages))
        assert consumer.consume(700, 0.5).fetched == ()
    assert got == {partition: list(range(partition, 5_000, 3)) for partition in range(3)}


def test_the_next_fetch_finds_no_messages_that_the_application_dropped(stage: Stage) -> None:
    """With two fetches of them alive Python searches for cycles in each: `FETCH_MAX`."""
    topic = stage.topic(partitions=1, messages=40)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        first, second, *_ = consumer.consume(40, 10).fetched
        assert not consumer.consume(1, 0.5)
        assert [sys.getrefcount(first), sys.getrefcount(second)] == 2 * [ONE_NAME]


def test_the_next_fetch_finds_no_messages_of_a_batch_that_the_application_dropped(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, found = stage.topic(partitions=1, messages=40), list[int]()
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        batches = consumer.batches()
        first, second, *_ = next(batches).messages.fetched

        def take(*_: object) -> None:
            found.extend([sys.getrefcount(first), sys.getrefcount(second)])

        monkeypatch.setattr(consumer.delivery, "take", take)
        assert not list(batches)
    assert found == 2 * [ONE_NAME]


def test_asking_for_the_next_list_says_that_the_last_is_done(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=50)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        first = consumer.consume(20, 10)
        second = consumer.consume(20, 10)
        done, end = len(first), len(first) + len(second)
        assert offsets(first) + offsets(second) == list(range(end))
    assert next_offset(stage, topic) == done


def test_a_list_that_was_committed_is_done(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=50)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        until(lambda: consumer.claims)
        first = consumer.consume(20, 10)
        consumer.ack(first[0])
    assert next_offset(stage, topic) == 1
    with stage.consumer("w2") as consumer:
        consumer.add_topic(topic)
        messages = consumer.consume(20, 10)
        consumer.ack()
    assert next_offset(stage, topic) == messages[-1].offset + 1


def test_a_claim_that_is_taken_in_the_middle_of_a_list_gives_nothing_more(stage: Stage) -> None:
    """The next owner begins with that list: it was not done, and what came before it was."""
    topic, notes = stage.topic(partitions=1, messages=400), Notes()
    cluster = ClusterMetadata(stage.cluster.settings)
    with stage.consumer("w1", observers=[notes]) as first:
        first.add_topic(topic)
        done = [*numbers(first.consume(10, 10)), *numbers(first.consume(10, 10))]
        in_hand = first.consume(10, 10)
        told = {(topic, 0): len(done)}
        until(lambda: cluster.committed(stage.group, [(topic, 0)]) == told)
        go_on = threading.Event()

        def stall() -> None:
            go_on.wait(20)

        with stage.worker("w2", topic) as second:
            first._coordinator.do(stall)
            until(lambda: len(second.got) == 400 - len(done))
            go_on.set()
            until(lambda: in_hand.claim.lost is Lost.TAKEN)
            assert notes.of("drained") == []
            assert not first.consume(10, 0.5)
            until(lambda: notes.of("drained"))
            stage.produce(topic, 1, range(400, 420))
            until(lambda: second.got[-1:] == [419])
            assert not first.consume(10, 0.5)
    assert done + numbers(in_hand) == list(range(len(done) + len(in_hand)))
    assert second.got == list(range(len(done), 420))


def test_a_release_waits_until_the_list_is_done(stage: Stage) -> None:
    topic, notes = stage.topic(partitions=1, messages=50), Notes()
    with stage.consumer("w1", observers=[notes]) as consumer:
        consumer.add_topic(topic)
        messages = consumer.consume(20, 10)
        consumer.stop()
        time.sleep(1.5)  # longer than it takes to look, and to write a release
        assert messages.claim.owned
        assert notes.of("lost") == []
        assert not consumer.consume(20, 10)
        assert [reason for _, reason in notes.of("lost")] == [Lost.RELEASED]
    assert next_offset(stage, topic) == len(messages)


def test_paused_in_the_middle_it_goes_on_after_the_list(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=50)
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        first = consumer.consume(10, 10)
        consumer.pause(topic)
        assert not consumer.consume(10, 0.5)
        consumer.resume(topic)
        second = consumer.consume(10, 10)
        assert offsets(first) + offsets(second) == list(range(len(first) + len(second)))
        consumer.seek(topic, 0, 40)
        third = consumer.consume(5, 10)
        assert offsets(third) == list(range(40, 40 + len(third)))
        consumer.ack()
    assert next_offset(stage, topic) == 40 + len(third)


def test_at_most_once_no_list_is_given_twice(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=100)
    got: list[int] = []
    for client in ("w1", "w2"):
        with stage.consumer(client, semantics="at_most_once", batch=10) as consumer:
            consumer.add_topic(topic)
            for messages in lists_of(consumer, 4, 30):
                assert len(messages) <= 4
                got += numbers(messages)
            consumer.close(release=False)
    assert got == sorted(set(got))


def test_an_event_loop_gets_lists(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=300)

    async def main() -> list[int]:
        got: list[int] = []
        async with AsyncConsumer(
            stage.bootstrap,
            group_id=stage.group,
            client_id="w1",
            coordination_topic=stage.coordination,
            heartbeat_interval_s=INTERVAL_S,
        ) as consumer:
            await consumer.add_topic(topic)
            while len(got) < 300:
                got += numbers(await consumer.consume(100, 10))
            await consumer.commit()
        return got

    assert asyncio.run(main()) == list(range(300))
    stage.produce(topic, 1, range(300, 301))
    assert next_offset(stage, topic) == 300


def test_workers_go_on_where_a_loop_was_left(stage: Stage) -> None:
    topic = stage.topic(partitions=1, messages=20)
    got: list[int] = []
    with stage.consumer("w1") as consumer:
        consumer.add_topic(topic)
        until(lambda: consumer.claims)
        for message in consumer:
            if message.offset == 2:
                break

        def handle(message: Message) -> None:
            got.append(message.offset)
            if message.offset == 19:
                consumer.stop()

        giving_up = threading.Timer(15, consumer.stop)
        giving_up.start()
        consumer.run(handle)
        giving_up.cancel()
    assert got == list(range(3, 20))


def test_no_list_of_nothing_is_asked_for(stage: Stage) -> None:
    with (
        stage.consumer("w1") as consumer,
        pytest.raises(InvalidOption, match="num_messages must be a whole number of 1 or more"),
    ):
        consumer.consume(0)


def test_a_full_buffer_alone_is_not_fetched_anew_while_its_batches_are_granted(
    stage: Stage,
) -> None:
    """To pause a partition drops what was fetched of it; it comes again up to a second later."""
    paused: list[int] = []

    class Watched(Client):
        def pause(self, partitions: list[TopicPartition]) -> None:
            paused.append(len(partitions))
            super().pause(partitions)

    watched = Settings({}, environment=Environment(fetcher=Watched))
    topic = stage.topic(partitions=1, messages=4_000)
    options = {"batch": 100, "bounds": BufferLimits(messages=1_000), "settings": watched}
    seen = 0
    with stage.consumer("w1", semantics="at_most_once", **options) as consumer:
        consumer.add_topic(topic)
        for batch in consumer.batches():
            seen += len(batch.messages)
            if seen == 4_000:
                break
    assert not paused
