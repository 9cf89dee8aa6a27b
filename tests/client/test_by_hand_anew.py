"""Marshal promises that a consumer goes on as a new instance when the log of claims lost records.

The next instance is opened beside the consumer's own thread. Here the cluster takes its time to
answer that, and something else happens meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaException

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.coordinate.ownership import Ownership
from tests.client.doubles import LOG, WITHIN_S, Kafka, Partition, until


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=10)
    kafka.create("bills", partitions=1, messages=10)
    return kafka


class Opening:
    """What the next instance asks the cluster, which answers when the test wants it to."""

    def __init__(self, question: str) -> None:
        self._question = question
        self.asked, self.answered = threading.Event(), threading.Event()
        self.error: KafkaException | None = None
        """The answer, if it is an error."""

    def answer(self, question: str) -> None:
        opens = threading.current_thread().name == "marshal-session"
        if not opens or question != self._question or self.answered.is_set():
            return
        self.asked.set()
        assert self.answered.wait(WITHIN_S)
        if self.error is not None:
            raise self.error


@contextmanager
def opening(
    kafka: Kafka, question: str = "list_topics", log_partitions: int = 1
) -> Iterator[Opening]:
    """The log is empty, and the next instance is being opened."""
    found = Opening(question)
    kafka.answers = found.answer
    with kafka.changed:
        kafka.topics[LOG] = [Partition() for _ in range(log_partitions)]
        kafka.changed.notify_all()
    try:
        assert found.asked.wait(WITHIN_S)
        yield found
    finally:
        found.answered.set()


@pytest.fixture
def looked(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Callable[[Consumer], None]:
    """Lets a consumer look, once more, how its claims stand."""
    seen, stand = threading.Semaphore(0), Ownership.stand

    def stands(held: Ownership, ends: object) -> None:
        stand(held, ends)  # type: ignore[arg-type]
        seen.release()

    def looks(consumer: Consumer) -> None:
        while seen.acquire(blocking=False):
            pass
        for _ in range(2):  # the first may have been asked for before
            kafka.advance(1.1)
            assert seen.acquire(timeout=WITHIN_S)
        consumer._coordinator.call(lambda: None)

    monkeypatch.setattr(Ownership, "stand", stands)
    return looks


Looked = Callable[[Consumer], None]

# --- topics ---------------------------------------------------------------------------------------


def test_a_topic_that_is_added_while_the_next_instance_is_opened_is_consumed(
    kafka: Kafka, looked: Looked
) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        with opening(kafka):
            consumer.add_topic("bills")
            looked(consumer)
        until(lambda: {claim.topic for claim in consumer.claims} == {"orders", "bills"})


def test_partitions_that_come_while_the_next_instance_is_opened_are_consumed(
    kafka: Kafka, looked: Looked
) -> None:
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        with opening(kafka):
            with kafka.changed:
                kafka.topics["orders"].append(Partition())
            until(lambda: consumer._coordinator.loop.partitions == {"orders": 2})
            looked(consumer)
        until(lambda: len(consumer.claims) == 2)


def test_a_topic_that_is_added_after_stop_ends_nothing(kafka: Kafka, looked: Looked) -> None:
    """What is in hand is still to be done."""
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S)
        consumer.stop()
        consumer.add_topic("bills")
        looked(consumer)
        consumer.ack()
        until(lambda: kafka.committed.get(("g", "orders", 0)) == 1)
