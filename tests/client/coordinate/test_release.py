"""One claim, or all of a topic's, is given up while the consumer goes on with the rest."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Claim, Consumer, Lost
from kafka_marshal.client.coordinate.recording import write_log
from kafka_marshal.core.messages import ClaimingPartition, ReleasingPartition
from kafka_marshal.errors import InvalidOption
from kafka_marshal.validate import read_folder, validate
from tests.client.doubles import LOG, Kafka, Partition, until

ALO, AMO = "at_least_once", "at_most_once"


def owned(consumer: Consumer) -> set[tuple[str, int]]:
    return {(claim.topic, claim.partition) for claim in consumer.claims}


def asked(kafka: Kafka, client_id: str = "c1") -> list[tuple[str, int]]:
    said = kafka.said(ClaimingPartition)
    return [(one.topic, one.partition) for one in said if one.client_id == client_id]


def released(kafka: Kafka, client_id: str = "c1") -> list[tuple[str, int, int]]:
    said = kafka.said(ReleasingPartition)
    return [(one.topic, one.partition, one.offset) for one in said if one.client_id == client_id]


def offsets_of(consumer: Consumer, number: int) -> list[int]:
    found: list[int] = []
    while len(found) < number and (message := consumer.poll(5.0)) is not None:
        found.append(message.offset)
        consumer.ack(message)
    return found


@pytest.mark.parametrize("only", [None, 0], ids=["share", "static"])
def test_a_claim_is_released_after_the_message_in_hand_and_another_consumer_has_the_rest(
    only: int | None,
) -> None:
    kafka = Kafka()
    kafka.create("events", messages=10)
    lost: list[tuple[Claim, Lost]] = []
    with kafka.consumer(on_lost=lambda *each: lost.append(each)) as consumer:
        consumer.add_topic("events", only)
        messages = iter(consumer)
        assert [next(messages).offset for _ in range(3)] == [0, 1, 2]
        consumer.release("events", 0)
        assert released(kafka) == []
        kafka.produce("events", 1)
        assert consumer.poll(0.1) is None  # the message in hand is done, and no other is given out
        until(lambda: released(kafka) == [("events", 0, 3)])
        until(lambda: [reason for _, reason in lost] == [Lost.RELEASED])
        with kafka.consumer("c2") as another:
            another.add_topic("events", only)
            assert offsets_of(another, 8) == list(range(3, 11))
            assert asked(kafka) == [("events", 0)]
        kafka.clock.ahead_s += 60.0
        # The log is read to its end, and nothing is asked for: it says so by asking for another.
        kafka.create("orders")
        consumer.add_topic("orders", 0)
        until(lambda: owned(consumer) == {("orders", 0)})
        assert asked(kafka) == [("events", 0), ("orders", 0)]
        kafka.clock.ahead_s += 61.0
        until(lambda: owned(consumer) == {("events", 0), ("orders", 0)})


def test_what_was_not_begun_is_released_at_once() -> None:
    kafka = Kafka()
    kafka.create("events", partitions=2, messages=5)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        until(lambda: len(owned(consumer)) == 2)
        consumer.release("events", 1)
        until(lambda: released(kafka) == [("events", 1, 0)])
        assert offsets_of(consumer, 5) == list(range(5))
        assert owned(consumer) == {("events", 0)}


def test_at_most_once_the_granted_batch_is_finished_before_its_claim_is_released() -> None:
    kafka = Kafka()
    kafka.create("events", messages=8)
    with kafka.consumer(semantics=AMO, batch=4) as consumer:
        consumer.add_topic("events")
        assert offsets_of(consumer, 1) == [0]
        consumer.release("events", 0)
        assert offsets_of(consumer, 3) == [1, 2, 3]
        until(lambda: released(kafka) == [("events", 0, 4)])


def test_what_is_not_claimed_cannot_be_released() -> None:
    kafka = Kafka()
    kafka.create("events")
    with kafka.consumer() as consumer:
        with pytest.raises(InvalidOption, match="events/0 is not claimed"):
            consumer.release("events", 0)
        consumer.add_topic("events")
        until(lambda: owned(consumer))
        consumer.release("events", 0)
        until(lambda: not owned(consumer))
        with pytest.raises(InvalidOption, match="events/0 is not claimed"):
            consumer.release("events", 0)


@pytest.mark.parametrize("semantics", [ALO, AMO])
def test_a_topic_that_is_removed_is_given_up_and_no_part_of_it_is_asked_for(
    semantics: str,
) -> None:
    kafka = Kafka()
    kafka.create("events", partitions=2, messages=5)
    kafka.create("orders")
    with kafka.consumer(semantics=semantics, metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("events")
        consumer.add_topic("events", 0)
        consumer.add_topic("orders")
        until(lambda: len(owned(consumer)) == 3)
        message = consumer.poll(10.0)
        assert message is not None
        consumer.remove_topic("events")
        with pytest.raises(InvalidOption, match="topic events was not added"):
            consumer.remove_topic("events")
        # Both topics grow, and the new partition of the other one is claimed.
        with kafka.changed:
            for topic in ("events", "orders"):
                kafka.topics[topic].append(Partition())
        got = {0: 0, 1: 0}
        while message is not None or len(released(kafka)) < 2:
            if message is not None:  # more than the one in hand only where it was granted
                got[message.partition] += 1
                consumer.ack(message)
            message = consumer.poll(0.05)
        until(lambda: owned(consumer) == {("orders", 0), ("orders", 1)})
        assert {place: end for _, place, end in released(kafka)} == got
        assert semantics == AMO or sum(got.values()) == 1
        assert ("events", 2) not in asked(kafka)

        consumer.add_topic("events")
        until(lambda: len(owned(consumer)) == 5)
        kafka.produce("events", 5, 2)
        rest = 15 - sum(got.values())
        assert len(offsets_of(consumer, rest)) == rest


def test_a_topic_that_is_added_again_while_a_message_is_in_hand_is_claimed_again_after_it() -> None:
    kafka = Kafka()
    kafka.create("events", messages=5)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        consumer.remove_topic("events")
        consumer.add_topic("events")
        consumer.ack(first)
        assert offsets_of(consumer, 4) == [1, 2, 3, 4]
        assert released(kafka) == [("events", 0, 1)]


def test_others_share_what_is_removed() -> None:
    kafka = Kafka()
    kafka.create("events", partitions=4)
    with kafka.consumer() as consumer, kafka.consumer("c2") as another:
        for each in (consumer, another):
            each.add_topic("events")
        until(lambda: len(owned(consumer)) == len(owned(another)) == 2)
        consumer.remove_topic("events")
        until(lambda: len(owned(another)) == 4)
        assert owned(consumer) == set()


def test_the_consumer_for_asyncio_has_both() -> None:
    async def story() -> None:
        kafka = Kafka()
        kafka.create("events", partitions=2, messages=1)
        settings = kafka.settings()
        async with AsyncConsumer(settings=settings, group_id="g", client_id="c1") as consumer:
            await consumer.add_topic("events")
            until(lambda: len(consumer.claims) == 2)
            await consumer.release("events", 1)
            until(lambda: released(kafka) == [("events", 1, 0)])
            await consumer.remove_topic("events")
            until(lambda: released(kafka) == [("events", 1, 0), ("events", 0, 0)])

    asyncio.run(story())


def committed(kafka: Kafka, at: int) -> bool:
    return kafka.committed.get(("g", "events", 0)) == at


def test_a_recorded_run_says_where_a_topic_begins_that_is_consumed_once_more(
    tmp_path: Path,
) -> None:
    """Its second beginning was not recorded, so nothing explained the heartbeats after it."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer(record_to=tmp_path, heartbeat_every_s=0.1) as consumer:
        for begins in (0, 10):
            at = begins + 10
            consumer.add_topic("events", 0)
            assert offsets_of(consumer, 10) == list(range(begins, at))
            consumer.commit()
            consumer.remove_topic("events")
            until(lambda: not consumer.claims)
            kafka.produce("events", 10)
            until(partial(committed, kafka, at))
    write_log(kafka.settings(), LOG, tmp_path)
    judgement = validate(read_folder(tmp_path))
    assert judgement.unexplained is None
    assert judgement.kinds["BeginsAt"] == 1
