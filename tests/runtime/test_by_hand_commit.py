"""Marshal promises that what was committed is in the log when `commit` returns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

import pytest

from kafka_marshal.core.messages import ClaimingPartition, Heartbeat, Partition, ReleaseGroup
from kafka_marshal.core.messages import Message as Said
from kafka_marshal.runtime.aio import AsyncConsumer
from kafka_marshal.runtime.consumer import ClaimLost, Consumer, Message, OutcomeUnknown
from kafka_marshal.runtime.errors import ConsumerClosed
from tests.runtime.doubles import (
    LANDS,
    LANDS_UNKNOWN,
    LOST,
    WITHIN_S,
    Append,
    Kafka,
    until,
)


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=20)
    return kafka


def polled(consumer: Consumer, count: int = 1) -> Message:
    """The last of so many messages."""
    return [cast("Message", consumer.poll(WITHIN_S)) for _ in range(count)][-1]


def beats(kafka: Kafka) -> list[int]:
    """The positions that heartbeats have told."""
    return [heartbeat.offset for heartbeat in kafka.said(Heartbeat)]


def begun(consumer: Consumer, **options: Any) -> Future[None]:
    """A commit that another thread waits for."""
    future: Future[None] = Future()

    def commit() -> None:
        try:
            future.set_result(consumer.commit(**options))  # type: ignore[func-returns-value]
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=commit, daemon=True).start()
    return future


def first_owned(consumer: Consumer) -> None:
    """The claim's first heartbeat, at position 0, was read back."""
    consumer.add_topic("orders")
    until(lambda: consumer.claims)


def returns_when_the_log_has_it(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 3)
        kafka.hold_log()
        committing = begun(consumer)
        until(lambda: 3 in beats(kafka))
        assert not committing.done()
        assert message.claim.committed == 0
        kafka.flow()
        committing.result(WITHIN_S)
        assert message.claim.committed == 3


def test_a_commit_returns_when_the_log_has_it(kafka: Kafka) -> None:
    returns_when_the_log_has_it(kafka)


def shares_heartbeats(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        committing = []
        consumer.commit(polled(consumer))
        kafka.hold_log()
        for _ in range(10):
            polled(consumer)
            committing.append(begun(consumer))
            until(lambda: len(consumer._engine.held._commits) == len(committing))
        assert beats(kafka) == [0, 1, 2]
        kafka.flow()
        for each in committing:
            each.result(WITHIN_S)
        assert beats(kafka) == [0, 1, 2, 11]


def test_of_a_claim_one_heartbeat_is_under_way_and_commits_share_the_next(kafka: Kafka) -> None:
    shares_heartbeats(kafka)


def test_a_commit_of_what_the_log_has_sends_nothing(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer)
        consumer.commit(message)
        consumer.commit(message)
        consumer.commit()
        assert beats(kafka) == [0, 1]


def test_what_is_acknowledged_waits_for_the_next_heartbeat(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        consumer.ack(polled(consumer, 2))
        consumer._engine.call(consumer._engine.held.look)
        assert beats(kafka) == [0]
        kafka.clock.ahead_s += 60
        until(lambda: beats(kafka) == [0, 2])


def test_an_asynchronous_commit_is_written_at_once_and_waits_for_nothing(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.hold_log()
        consumer.commit(message, asynchronous=True)
        until(lambda: beats(kafka) == [0, 2])
        assert message.claim.committed == 0
        kafka.flow()
        until(lambda: message.claim.committed == 2)


@pytest.mark.parametrize("outcome", [LOST, LANDS_UNKNOWN])
def test_a_position_that_nobody_knows_to_be_in_the_log_is_told_again(
    kafka: Kafka, outcome: Append
) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        outcomes = [outcome]
        kafka.appends = lambda _: outcomes.pop() if outcomes else LANDS
        consumer.commit(timeout_s=WITHIN_S)
        assert beats(kafka)[-1] == 2


def test_a_commit_that_the_log_does_not_confirm_in_time_has_an_unknown_outcome(
    kafka: Kafka,
) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        kafka.hold_log()
        committing = begun(consumer, timeout_s=30)
        until(lambda: 2 in beats(kafka))
        kafka.clock.ahead_s += 30
        with pytest.raises(OutcomeUnknown, match="orders/0, epoch 0: done below 2, and in the log"):
            committing.result(WITHIN_S)


def taken_over(kafka: Kafka) -> None:
    """Another client takes the claim, and ours could not know."""
    kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 0))
    kafka.says(ClaimingPartition(1, 0, "i9", "c9", "g", "orders", Partition(0)))


def test_a_commit_of_a_claim_that_was_lost_before_says_so(kafka: Kafka) -> None:
    def first(message: Said) -> Append:
        if isinstance(message, Heartbeat) and message.offset == 2:
            taken_over(kafka)
        return LANDS

    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.appends = first
        with pytest.raises(ClaimLost, match=r"orders/0, epoch 0: done below 2.*below 0, when"):
            consumer.commit(timeout_s=WITHIN_S)
        assert message.claim.committed == 0
        with pytest.raises(ClaimLost):
            consumer.commit(message)


@pytest.mark.parametrize("give_up", [Consumer.stop, lambda it: it.release("orders", 0)])
def test_a_release_says_what_was_committed(
    kafka: Kafka, give_up: Callable[[Consumer], None]
) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.hold_log()
        give_up(consumer)
        committing = begun(consumer)
        until(lambda: not consumer.claims)
        assert beats(kafka) == [0]
        assert not committing.done()
        kafka.flow()
        committing.result(WITHIN_S)
        assert message.claim.committed == 2
        consumer.commit(message)


def test_a_release_of_which_nobody_knows_leaves_the_commit_unknown(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.appends = lambda _: LOST
        consumer.stop()
        with pytest.raises(OutcomeUnknown, match="done below 2"):
            consumer.commit(message)
        with pytest.raises(OutcomeUnknown, match="done below 2"):
            consumer.commit(message)


def test_a_consumer_that_is_closed_meanwhile_says_so(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        kafka.hold_log()
        committing = begun(consumer)
        until(lambda: 2 in beats(kafka))
        consumer.close(release=False)
        with pytest.raises(ConsumerClosed):
            committing.result(WITHIN_S)


def test_at_most_once_there_is_nothing_to_wait_for(kafka: Kafka) -> None:
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("orders")
        message = polled(consumer, 2)
        kafka.hold_log()
        consumer.commit(message)
        assert message.claim.committed > message.offset


def test_tasks_commit_as_threads_do(kafka: Kafka) -> None:
    async def main() -> Message:
        async with AsyncConsumer(
            settings=kafka.settings(), group_id="g", client_id="c1"
        ) as consumer:
            await consumer.add_topic("orders")
            first = cast("Message", await consumer.poll(WITHIN_S))
            consumer.ack(first)
            second = cast("Message", await consumer.poll(WITHIN_S))
            await consumer.commit(second)
            return second

    assert asyncio.run(main()).claim.committed == 2
