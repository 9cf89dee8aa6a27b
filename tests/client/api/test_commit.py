"""Marshal promises that what was committed is in the log when `commit` returns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import attrs
import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import (
    Claiming,
    ClaimLost,
    Consumer,
    Message,
    OutcomeUnknown,
)
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Heartbeat,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.messages import Message as Said
from kafka_marshal.errors import ConsumerClosed, InvalidOption
from tests.client.doubles import (
    LANDS,
    LANDS_UNKNOWN,
    LOG,
    LOST,
    WITHIN_S,
    Append,
    Kafka,
    until,
)


def orders() -> Kafka:
    """A cluster with messages to commit."""
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=20)
    return kafka


@pytest.fixture
def kafka() -> Kafka:
    return orders()


def polled(consumer: Consumer, count: int = 1) -> Message:
    """The last of these messages."""
    return [cast("Message", consumer.poll(WITHIN_S)) for _ in range(count)][-1]


def beats(kafka: Kafka) -> list[int]:
    """The positions of all heartbeats."""
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
        consumer._coordinator.call(lambda: None)
        assert consumer._coordinator.ownership._commits
        assert not committing.done()
        assert message.claim.committed == 0
        kafka.flow()
        committing.result(WITHIN_S)
        assert message.claim.committed == 3


@pytest.mark.parametrize("named", [True, False])
def test_a_message_that_a_loop_is_at_may_be_committed(kafka: Kafka, named: bool) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        for message in consumer:
            if message.offset in (3, 5):
                consumer.commit(message if named else None)
                assert message.claim.committed == message.offset + 1
            if message.offset == 5:
                break
        consumer.commit()
        assert beats(kafka) == [0, 4, 6]
    assert kafka.committed["g", "orders", 0] == 6


def test_a_message_before_the_one_that_a_loop_is_at_is_done_anyway(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        before = None
        for message in consumer:
            if before is not None:
                consumer.commit(before)
                assert message.claim.committed == message.offset
                break
            before = message
    assert kafka.committed["g", "orders", 0] == 1


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
            until(lambda: len(consumer._coordinator.ownership._commits) == len(committing))
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
        consumer._coordinator.call(consumer._coordinator.ownership.look)
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
        outcomes, heard = [outcome], beats(kafka)
        kafka.appends = lambda _: outcomes.pop() if outcomes else LANDS
        committing = begun(consumer, timeout_s=WITHIN_S)
        until(lambda: not outcomes)
        kafka.clock.ahead_s += 5
        committing.result(WITHIN_S)
        assert beats(kafka)[-1] == 2
        assert len(beats(kafka)) <= len(heard) + 2


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


def test_a_commit_that_nobody_waits_for_is_not_kept(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        kafka.hold_log()
        held = consumer._coordinator.ownership
        for _ in range(10):
            consumer.commit(polled(consumer), asynchronous=True)
        with pytest.raises(OutcomeUnknown, match="done below 10, and in the log below 0"):
            consumer.commit(timeout_s=0)
        consumer.commit(asynchronous=True)
        consumer._coordinator.call(lambda: None)
        assert held._commits == []


def test_a_commit_ends_in_time_where_the_consumer_itself_is_busy(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        busy = threading.Event()
        consumer._coordinator.do(busy.wait)
        committing = begun(consumer, timeout_s=30)
        kafka.clock.ahead_s += 31
        try:
            with pytest.raises(OutcomeUnknown, match="nothing was begun within 30 s"):
                committing.result(5)
        finally:
            busy.set()


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


def commits_what_was_lost_before(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        taken_over(kafka)
        until(lambda: not consumer.claims)
        error = begun(consumer).exception(WITHIN_S)
        assert isinstance(error, ClaimLost)
        assert "done below 2, and in the log below 0, when the claim was lost" in str(error)
        consumer.commit()  # each is named once


def test_a_commit_of_everything_names_a_claim_that_was_lost_before(kafka: Kafka) -> None:
    commits_what_was_lost_before(kafka)


def test_what_a_commit_said_of_a_claim_that_it_lost_the_next_one_does_not_say_again(
    kafka: Kafka,
) -> None:
    """The claim was drained after that, and its end was nobody's word yet."""
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        kafka.appends = lambda said: LOST if isinstance(said, Heartbeat) else LANDS
        committing = begun(consumer)
        until(lambda: consumer._coordinator.ownership._commits)
        taken_over(kafka)
        assert isinstance(committing.exception(WITHIN_S), ClaimLost)
        consumer.commit()


def test_what_was_done_of_a_lost_claim_is_not_forgotten_before_somebody_commits(
    kafka: Kafka,
) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        taken_over(kafka)
        until(lambda: not consumer.claims)
        consumer.ack()
        until(lambda: message.claim not in consumer._coordinator.ownership.undrained)
        consumer.commit(asynchronous=True)
        with pytest.raises(ClaimLost, match="done below 2"):
            consumer.commit()


def test_what_a_later_tenure_has_told_is_not_missing(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 0))
        until(lambda: message.claim.lost)
        consumer.ack()
        again = polled(consumer, 2)
        assert (again.offset, again.claim.epoch > message.claim.epoch) == (1, True)
        consumer.commit(again)
        consumer.commit()
        with pytest.raises(ClaimLost):
            consumer.commit(message)


def test_of_two_tenures_that_were_lost_the_one_that_came_further_is_named(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        for done in (5, 3):
            claim = polled(consumer, done).claim
            kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 0))
            until(partial(getattr, claim, "lost"))
            consumer.ack()
        consumer.commit(polled(consumer, 3))
        with pytest.raises(ClaimLost, match="done below 5"):
            consumer.commit()


def test_a_commit_of_everything_does_not_forget_a_release_of_which_nobody_knows(
    kafka: Kafka,
) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        polled(consumer, 2)
        kafka.appends = lambda _: LOST
        consumer.stop()
        for _ in range(2):
            with pytest.raises(OutcomeUnknown, match="done below 2"):
                consumer.commit()


def outlives_a_late_word(kafka: Kafka) -> None:
    late = Append(error=LANDS_UNKNOWN.error, heard=False)

    def released(message: Said) -> Append:
        return late if isinstance(message, ReleasingPartition) else LANDS

    with kafka.consumer(claiming=Claiming(reclaim_delay_ms=1)) as consumer:
        first_owned(consumer)
        [claim] = consumer.claims
        kafka.appends = released
        consumer.release("orders", 0)
        until(lambda: claim.lost)  # it may be claimed again at once
        kafka.appends = lambda _: LANDS
        kafka.clock.ahead_s += 1
        until(lambda: consumer.claims)
        message = polled(consumer, 2)
        kafka.hold_log()
        consumer.stop()
        committing = begun(consumer, message=message)
        until(lambda: len(kafka.said(ReleasingPartition)) == 2)
        until(lambda: consumer._coordinator.ownership._commits)
        kafka.deliver()
        until(lambda: not consumer._coordinator.ownership.under_way)
        consumer._coordinator.call(lambda: None)
        assert not committing.done()
        kafka.flow()
        committing.result(WITHIN_S)
        assert message.claim.committed == 2


def test_a_late_word_of_an_older_release_says_nothing_of_a_newer_one(kafka: Kafka) -> None:
    """Both were looked up by partition, so the commit ended before its release was read back."""
    outlives_a_late_word(kafka)


def test_a_release_that_came_too_late_has_committed_nothing(kafka: Kafka) -> None:
    def first(message: Said) -> Append:
        if isinstance(message, ReleasingPartition):
            taken_over(kafka)
        return LANDS

    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.hold_log()
        kafka.appends = first
        consumer.stop()
        committing = begun(consumer, message=message)
        until(lambda: kafka.said(ReleasingPartition))
        assert not committing.done()
        kafka.flow()
        with pytest.raises(ClaimLost, match=r"done below 2.*below 0, when"):
            committing.result(WITHIN_S)


def test_a_claim_that_others_took_after_an_unknown_release_is_lost(kafka: Kafka) -> None:
    def refused(message: Said) -> Append:
        return LOST if isinstance(message, ReleasingPartition) else LANDS

    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        kafka.appends = refused
        consumer.release("orders", 0)
        with pytest.raises(OutcomeUnknown):
            consumer.commit(message)
        taken_over(kafka)
        driver = consumer._coordinator.ownership.session.member.driver(message.claim.key)
        until(lambda: driver.consumer.known.owner_client == "c9")
        with pytest.raises(ClaimLost):
            consumer.commit(message)


def test_a_reader_that_can_only_guess_who_owns_a_claim_commits_nothing(kafka: Kafka) -> None:
    def first(message: Said) -> Append:
        if isinstance(message, Heartbeat) and message.offset == 2:
            kafka.broker_ms = lambda: 2_000_000_000_000  # our heartbeats were late
            kafka.says(ClaimingPartition(1, 0, "i9", "c9", "g", "orders", Partition(0)))
        return LANDS

    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        polled(consumer)  # is in hand, so the claim is not forgotten
        driver = consumer._coordinator.ownership.session.member.driver(message.claim.key)

        def forget() -> None:
            """It began in the middle of the log, and does not know the time."""
            known = driver.consumer.reader
            reader = attrs.evolve(known, certain=known.certain & ~Field.CLOCK)
            driver.consumer = attrs.evolve(driver.consumer, reader=reader)

        until(lambda: beats(kafka) == [0] and driver.consumer.view == len(kafka.records()))
        consumer._coordinator.call(forget)
        kafka.appends = first
        with pytest.raises(OutcomeUnknown, match=r"done below 2.*uncertain"):
            consumer.commit(message)
        until(lambda: driver.consumer.view >= len(kafka.records()))
        consumer._coordinator.call(lambda: None)
        assert message.claim.committed == 0
        with pytest.raises(OutcomeUnknown, match="uncertain"):
            consumer.commit(message)


def test_where_a_claim_begins_that_nobody_set_is_not_in_the_log_before_it_was_told(
    kafka: Kafka,
) -> None:
    kafka.appends = lambda message: LOST if isinstance(message, Heartbeat) else LANDS
    with kafka.consumer(auto_offset_reset="latest") as consumer:
        first_owned(consumer)
        assert consumer.position("orders", 0) == 20
        assert consumer.committed("orders", 0) == 0
        with pytest.raises(OutcomeUnknown, match="done below 20, and in the log below 0"):
            consumer.commit(timeout_s=0.1)
        kafka.appends = lambda _: LANDS
        kafka.clock.ahead_s += 5
        consumer.commit(timeout_s=WITHIN_S)
        assert consumer.committed("orders", 0) == 20
        assert beats(kafka) == [20]


def test_what_a_log_had_that_lost_records_nobody_knows(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        first_owned(consumer)
        message = polled(consumer, 2)
        consumer.commit(message)
        with kafka.changed:
            kafka.topics[LOG][0].records.clear()
            kafka.wake()
        until(lambda: message.claim.lost)
        with pytest.raises(OutcomeUnknown, match="log_lost_records"):
            consumer.commit(message)


def test_what_run_has_in_hand_is_done_when_it_is_handled_and_not_by_a_commit(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:

        def handler(message: Message) -> None:
            if message.offset == 3:
                consumer.commit(message, timeout_s=WITHIN_S)
                consumer.commit(timeout_s=WITHIN_S)
                committed.append(message.claim.committed)
                consumer.stop()

        committed: list[int] = []
        consumer.add_topic("orders")
        consumer.run(handler, workers=1)
        assert committed == [3]


def test_a_message_of_another_consumer_is_refused(kafka: Kafka) -> None:
    with kafka.consumer() as consumer, kafka.consumer("c2") as other:
        first_owned(consumer)
        message = polled(consumer)
        for asynchronous in (False, True):
            with pytest.raises(InvalidOption, match=r"orders/0 offset 0, .*another consumer"):
                other.commit(message, asynchronous=asynchronous)
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
