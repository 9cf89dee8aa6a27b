"""Marshal promises that a consumer goes on as a new instance when the log of claims lost records.

The next instance is opened beside the consumer's own thread. Here the cluster takes its time to
answer that, and something else happens meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.core.messages import ClaimingPartition, Heartbeat, Message
from kafka_marshal.errors import BrokerFailed
from tests.client.doubles import (
    LANDS,
    LANDS_UNHEARD,
    LOG,
    LOST,
    WITHIN_S,
    Append,
    Kafka,
    Partition,
    until,
)

OPENS = "marshal-session"


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
        opens = threading.current_thread().name == OPENS
        if not opens or question != self._question or self.answered.is_set():
            return
        self.asked.set()
        assert self.answered.wait(2 * WITHIN_S), "the test is over by now"
        if self.error is not None:
            raise self.error


@contextmanager
def opening(
    kafka: Kafka, question: str = "list_topics", log_partitions: int = 1
) -> Iterator[Opening]:
    """The log lost all that it had, and the next instance is being opened."""
    found = Opening(question)
    kafka.answers = found.answer
    # A new owner's first heartbeat would land in the log that begins anew, and hide what is lost.
    until(lambda: kafka.said(Heartbeat))
    with kafka.changed:
        kafka.topics[LOG] = [Partition() for _ in range(log_partitions)]
        kafka.log_flows = True
        kafka.wake()
    try:
        assert found.asked.wait(WITHIN_S)
        yield found
    finally:
        found.answered.set()


def sends_unheard(kafka: Kafka, consumer: Consumer) -> None:
    """It has a message of orders in hand, and a heartbeat without an outcome."""
    consumer.add_topic("orders")
    assert consumer.poll(WITHIN_S)
    kafka.appends = lambda _: LANDS_UNHEARD
    consumer.commit(asynchronous=True)
    until(lambda: kafka.unheard)


@pytest.fixture
def looked(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> Callable[[Consumer], None]:
    """Lets a consumer look, once more, how its claims stand."""
    seen, stand = threading.Semaphore(0), Ownership.report_progress

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

    monkeypatch.setattr(Ownership, "report_progress", stands)
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


# --- ending ---------------------------------------------------------------------------------------


def test_a_consumer_that_is_stopped_while_its_next_instance_is_opened_claims_nothing(
    kafka: Kafka,
) -> None:
    """It ends as soon as all that it sent has an outcome."""
    with kafka.consumer() as consumer:
        sends_unheard(kafka, consumer)
        with opening(kafka):
            consumer.stop()
            consumer._coordinator.call(lambda: None)
            reads = threading.Semaphore(0)
            kafka.reading_log = reads.release
        for _ in range(3):  # the next instance reads the log
            assert reads.acquire(timeout=WITHIN_S)
        consumer._coordinator.call(lambda: None)
        assert kafka.said(ClaimingPartition) == []
        kafka.deliver()
        until(consumer._coordinator.ended.is_set)
        assert kafka.said(ClaimingPartition) == []


def test_a_consumer_that_is_stopped_need_not_wait_for_its_next_instance(kafka: Kafka) -> None:
    """Also where a claim was asked for, whose answer was lost with the log."""

    def unread(message: Message) -> Append:
        if isinstance(message, ClaimingPartition) and message.topic == "bills":
            kafka.hold_log()
        return LANDS

    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        kafka.appends = unread
        consumer.add_topic("bills")
        until(lambda: len(kafka.said(ClaimingPartition)) == 2)
        with opening(kafka):
            consumer.stop()
            until(consumer._coordinator.ended.is_set)


# --- the instance that is over --------------------------------------------------------------------


def test_an_instance_whose_log_lost_records_sends_nothing_more(
    kafka: Kafka, looked: Looked
) -> None:
    """Another's claim seems to become free, but it cannot know that any more."""
    with kafka.consumer("c2") as other:
        other.add_topic("bills")
        until(lambda: other.claims)
        with kafka.consumer() as consumer:
            consumer.add_topic("bills", partition=0)
            until(lambda: consumer._coordinator.loop.session.member.next_timer_ms)
            other.close(release=False)
            with opening(kafka):
                kafka.advance(200)
                looked(consumer)
                assert kafka.said(ClaimingPartition) == []
            until(lambda: consumer.claims)


def test_an_instance_whose_log_lost_records_does_not_repeat_a_request(
    kafka: Kafka, looked: Looked
) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims and kafka.said(Heartbeat))
        kafka.appends = lambda _: attrs.evolve(LOST, heard=False)
        consumer.add_topic("bills", partition=0)
        until(lambda: kafka.unheard)
        with opening(kafka):
            kafka.appends = lambda _: LANDS
            kafka.deliver()
            for _ in range(5):
                kafka.advance(10)
                looked(consumer)
            assert kafka.said(ClaimingPartition) == []
        until(lambda: len(consumer.claims) == 2)


# --- the cluster ----------------------------------------------------------------------------------


def test_a_log_that_was_made_anew_with_more_partitions_is_another_log(kafka: Kafka) -> None:
    """Somebody looks how many it has just when the next instance knows and is not at work yet."""
    goes_on, looks = threading.Event(), threading.Semaphore(0)

    def asked(question: str) -> None:
        if threading.current_thread().name == "marshal-metadata" and question == "describe_topics":
            looks.release()
            assert goes_on.wait(2 * WITHIN_S)

    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        kafka.asked = asked
        with opening(kafka, "committed", log_partitions=2):
            goes_on.set()
            for _ in range(4):
                assert looks.acquire(timeout=WITHIN_S)
        until(lambda: consumer.claims)


BAD_PASSWORD = KafkaException(KafkaError(KafkaError._AUTHENTICATION, "bad password"))


def test_a_next_instance_that_cannot_be_opened_ends_the_consumer_in_plain_words(
    kafka: Kafka,
) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        with opening(kafka) as opened:
            opened.error = BAD_PASSWORD
        with pytest.raises(BrokerFailed, match="bad password"):
            list(consumer)
    nothing_is_left_of(kafka)


def test_a_consumer_that_is_stopped_does_not_mind_that_its_next_instance_cannot_be_opened(
    kafka: Kafka,
) -> None:
    with kafka.consumer() as consumer:
        sends_unheard(kafka, consumer)
        with opening(kafka) as opened:
            consumer.stop()
            consumer._coordinator.call(lambda: None)
            opened.error = BAD_PASSWORD
        until(lambda: not any(one.is_alive() for one in kafka.threads if one.name == OPENS))
        kafka.deliver()
        assert list(consumer) == []
    nothing_is_left_of(kafka)


@pytest.mark.parametrize("question", ["list_topics", "committed"])
@pytest.mark.parametrize("release", [True, False])
def test_a_consumer_that_is_closed_while_its_next_instance_is_opened_leaves_nothing_open(
    kafka: Kafka, question: str, release: bool
) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        until(lambda: consumer.claims)
        with opening(kafka, question):
            consumer.close(release, timeout_s=0.1)
    nothing_is_left_of(kafka)


def nothing_is_left_of(kafka: Kafka) -> None:
    until(lambda: not any(thread.is_alive() for thread in kafka.threads))
    assert all(client.closed for client in kafka.readings)
