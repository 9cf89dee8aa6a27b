"""Marshal promises the same of a shared topic in whichever way its messages are consumed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

import pytest

from kafka_marshal.client.api.consumer import Claim, Consumer, Lost, Message
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.errors import InvalidOption
from tests.client.doubles import WITHIN_S, Kafka, until


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=60)
    return kafka


def shared(kafka: Kafka, client_id: str = "c1", **options: Any) -> Consumer:
    consumer = kafka.new_consumer(client_id, **options)
    consumer.add_topic("orders", share="ranges")
    return consumer


def by_loop(consumer: Consumer, take: Callable[[Message], None]) -> None:
    for message in consumer:
        take(message)


def by_poll(consumer: Consumer, take: Callable[[Message], None]) -> None:
    while (message := consumer.poll(WITHIN_S)) is not None:
        take(message)
        consumer.commit(message)


def by_lists(consumer: Consumer, take: Callable[[Message], None]) -> None:
    while messages := consumer.consume(7, WITHIN_S):
        for message in messages:
            take(message)


def by_batches(consumer: Consumer, take: Callable[[Message], None]) -> None:
    for batch in consumer.batches():
        assert batch.claim.range is not None
        assert batch.claim.range.start <= batch.start < batch.end <= batch.claim.range.end
        for message in batch.messages:
            take(message)


def by_run(order: Literal["partition", "key", "none"]) -> Callable[..., None]:
    def run(consumer: Consumer, take: Callable[[Message], None]) -> None:
        consumer.run(take, workers=4, order=order)

    return run


WAYS: dict[str, Callable[[Consumer, Callable[[Message], None]], None]] = {
    "loop": by_loop,
    "poll": by_poll,
    "lists": by_lists,
    "batches": by_batches,
    "run by partition": by_run("partition"),
    "run by key": by_run("key"),
    "run by none": by_run("none"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_message_is_given_once_under_its_range(kafka: Kafka, way: str) -> None:
    taken: list[Message] = []
    with kafka.consumer() as consumer:
        consumer.add_topic("orders", share="ranges")

        def take(message: Message) -> None:
            taken.append(message)
            if len(taken) == 60:
                consumer.stop()

        WAYS[way](consumer, take)
    assert sorted(message.offset for message in taken) == list(range(60))
    for message in taken:
        assert message.range is not None
        assert message.range.start <= message.offset < message.range.end
        assert message.epoch == message.range.id


def test_at_most_once_batches_are_given_once(kafka: Kafka) -> None:
    taken: list[int] = []
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("orders", share="ranges")
        for batch in consumer.batches():
            taken += [message.offset for message in batch.messages]
            if len(taken) >= 60:
                consumer.stop()
    assert taken == list(range(60))


def test_a_commit_returns_when_the_log_has_it_and_a_successor_begins_there(kafka: Kafka) -> None:
    with kafka.consumer("c1") as consumer:
        consumer.add_topic("orders", share="ranges")
        for _ in range(24):
            consumer.commit(cast("Message", consumer.poll(WITHIN_S)))
        message = cast("Message", consumer.poll(WITHIN_S))
        consumer.commit(message)
        assert message.claim.committed == 25
        consumer.close()
    with kafka.consumer("c2") as consumer:
        consumer.add_topic("orders", share="ranges")
        assert cast("Message", consumer.poll(WITHIN_S)).offset == 25


def test_what_a_loop_has_not_begun_is_given_back_and_given_to_the_next(kafka: Kafka) -> None:
    seen: list[int] = []
    with kafka.consumer("c1") as consumer:
        consumer.add_topic("orders", share="ranges")
        for message in consumer:
            seen.append(message.offset)
            if len(seen) == 13:
                consumer.stop()
    with kafka.consumer("c2") as consumer:
        consumer.add_topic("orders", share="ranges")
        for message in consumer:
            seen.append(message.offset)
            if len(seen) == 60:
                consumer.stop()
    assert sorted(seen) == list(range(60))


def test_a_handler_that_fails_ends_run_and_its_message_is_given_again(kafka: Kafka) -> None:
    seen: list[int] = []

    def fails(message: Message) -> None:
        if message.offset == 5:
            raise ValueError("no such order")
        seen.append(message.offset)

    with kafka.consumer("c1") as consumer:
        consumer.add_topic("orders", share="ranges")
        with pytest.raises(Exception, match="no such order"):
            consumer.run(fails, workers=2, retries=0)
    with kafka.consumer("c2") as consumer:
        consumer.add_topic("orders", share="ranges")
        assert cast("Message", consumer.poll(WITHIN_S)).offset == 5


def test_shared_and_other_topics_go_together(kafka: Kafka) -> None:
    kafka.create("bills", partitions=2, messages=10)
    kafka.create("mails", partitions=2, messages=10)
    seen: Counter[str] = Counter()
    with kafka.consumer() as consumer:
        consumer.add_topic("orders", share="ranges")
        consumer.add_topic("mails", share="ranges")
        consumer.add_topic("bills")
        for message in consumer:
            seen[message.topic] += 1
            assert (message.range is None) == (message.topic == "bills")
            if seen == {"orders": 60, "mails": 20, "bills": 20}:
                consumer.stop()
    assert seen == {"orders": 60, "mails": 20, "bills": 20}


def test_a_removed_topic_is_given_back_and_can_be_added_again(kafka: Kafka) -> None:
    seen: list[int] = []
    with kafka.consumer() as consumer:
        consumer.add_topic("orders", share="ranges")
        for _ in range(10):
            seen.append(cast("Message", consumer.poll(WITHIN_S)).offset)
        consumer.commit()
        consumer.remove_topic("orders")
        consumer.add_topic("orders", share="ranges")
        while len(seen) < 60:
            seen.append(cast("Message", consumer.poll(WITHIN_S)).offset)
    assert sorted(seen) == list(range(60))


class Heard(Observer):
    def __init__(self) -> None:
        self.granted: list[Claim] = []
        self.ended: list[tuple[Claim, Lost]] = []
        self.others: list[Claim] = []

    def range_granted(self, claim: Claim) -> None:
        self.granted.append(claim)

    def range_ended(self, claim: Claim, reason: Lost) -> None:
        self.ended.append((claim, reason))

    def claimed(self, claim: Claim) -> None:
        self.others.append(claim)

    def lost(self, claim: Claim, reason: Lost) -> None:
        self.others.append(claim)

    def drained(self, claim: Claim) -> None:
        self.others.append(claim)


def test_observers_hear_of_ranges_and_not_of_claims(kafka: Kafka) -> None:
    heard = Heard()
    with kafka.consumer(observers=[heard]) as consumer:
        consumer.add_topic("orders", share="ranges")
        for message in consumer:
            if message.offset == 59:
                consumer.stop()
        until(lambda: len(heard.ended) == len(heard.granted))
    assert heard.granted[0].range is not None
    assert heard.granted[0].range.start == 0
    assert heard.ended[0] == (heard.granted[0], Lost.FINISHED)
    assert heard.others == []


@pytest.mark.parametrize(
    ("options", "add", "said"),
    [
        ({}, {"partition": 0}, 'share="ranges" cannot be had with partition'),
        ({"snapshot": "x"}, {}, 'share="ranges" cannot be had with snapshot'),
        ({}, {"share": "messages"}, "share is partitions or ranges, not 'messages'"),
    ],
)
def test_what_cannot_be_had_is_refused(
    kafka: Kafka,
    options: dict[str, Any],
    add: dict[str, Any],
    said: str,
    tmp_path: Any,
) -> None:
    options = {name: tmp_path / each for name, each in options.items()}
    with kafka.consumer(**options) as consumer, pytest.raises(InvalidOption) as refused:
        consumer.add_topic("orders", **{"share": "ranges", **add})
    assert str(refused.value) == said


def test_a_topic_is_not_added_in_two_ways(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders", share="ranges")
        with pytest.raises(InvalidOption) as refused:
            consumer.add_topic("orders")
        assert str(refused.value) == (
            "topic orders was added as shared; remove it before it is added otherwise"
        )


def test_the_name_of_all_who_share_is_nobodys(kafka: Kafka) -> None:
    with pytest.raises(InvalidOption) as refused:
        kafka.new_consumer("ranges")
    assert (
        str(refused.value) == "client_id 'ranges' is reserved for consumers that share a partition"
    )


MOVES: dict[str, Callable[[Consumer], None]] = {
    "paused": lambda consumer: consumer.pause("orders"),
    "sought in": lambda consumer: consumer.seek("orders", 0, 20),
    "released": lambda consumer: consumer.release("orders", 0),
}


@pytest.mark.parametrize("move", MOVES)
def test_what_would_move_others_is_refused(kafka: Kafka, move: str) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders", share="ranges")
        assert consumer.poll(WITHIN_S) is not None
        with pytest.raises(InvalidOption, match=f"orders/0 is shared, and cannot be {move}"):
            MOVES[move](consumer)


@pytest.fixture
def two(kafka: Kafka) -> Iterator[tuple[Consumer, Consumer]]:
    with kafka.consumer("c1") as first, kafka.consumer("c2") as second:
        for each in (first, second):
            each.add_topic("orders", share="ranges")
        yield first, second


def test_two_share_what_there_is(kafka: Kafka, two: tuple[Consumer, Consumer]) -> None:
    seen: list[int] = []
    lock = threading.Lock()

    def work(consumer: Consumer) -> None:
        for message in consumer:
            with lock:
                seen.append(message.offset)
                if len(seen) == 60:
                    for each in two:
                        each.stop()

    threads = [threading.Thread(target=work, args=(each,)) for each in two]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN_S)
        assert not thread.is_alive()
    assert sorted(seen) == list(range(60))


def test_a_topic_that_is_added_late_is_shared_as_the_log_has_it(kafka: Kafka) -> None:
    """Its coordinating partition was read by then, for another topic."""
    kafka.create("bills", partitions=1, messages=10)
    with kafka.consumer("c1") as consumer:
        consumer.add_topic("orders", share="ranges")
        for _ in range(20):
            consumer.commit(cast("Message", consumer.poll(WITHIN_S)))
        with kafka.consumer("c2") as late:
            late.add_topic("bills")
            late.commit(cast("Message", late.poll(WITHIN_S)))
            late.add_topic("orders", share="ranges")
            consumer.close()
            seen = set[int]()
            for message in late:
                if message.topic == "orders":
                    seen.add(message.offset)
                    if message.offset == 59:
                        late.stop()
    assert seen == set(range(20, 60))
