"""Marshal promises that at most once a range is allowed at once, and taken back if need be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafka_marshal import Consumer
from kafka_marshal.codec import encode, encode_headers
from kafka_marshal.core.messages import (
    ClaimingPartition,
    Headers,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import InMemoryKafka, Scheduler, Transaction
from tests.client.ranges.test_topics_added_later import consumer, polled

SEMANTICS = pytest.mark.parametrize("semantics", ["at_least_once", "at_most_once"])
STUCK_S = 300.0
"""After this long without progress a handler hangs."""


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(1)


@pytest.fixture
def kafka(scheduler: Scheduler) -> InMemoryKafka:
    """A topic of two messages: a first range reaches far beyond its end."""
    kafka = InMemoryKafka(1, scheduler)
    kafka.create("orders", messages=2)
    return kafka


def shares(of: Consumer) -> None:
    of.add_topic("orders", share="ranges")
    assert polled(of, 2) == orders(0, 2)


def orders(begin: int, end: int) -> list[tuple[str, int]]:
    return [("orders", at) for at in range(begin, end)]


def says(
    kafka: InMemoryKafka, message: ReleaseGroup | ClaimingPartition | ReleasingPartition, **of: int
) -> int:
    headers = tuple(encode_headers(Headers(True, **of)))
    return kafka.append(COORDINATION_TOPIC, 0, encode(message), headers)


def of_admin(topic: str) -> tuple[str, str, str, str, Partition]:
    return "admin", "admin", "g", topic, Partition(0)


def pause(kafka: InMemoryKafka, scheduler: Scheduler, seconds: int) -> None:
    expires_s = scheduler.clock.unix_ms() // 1000 + seconds
    says(kafka, ReleaseGroup(0, 0, *of_admin(""), expires_s))
    scheduler.sleep(1.0)  # simulated: it is read


def test_a_message_does_not_wait_for_the_coordinator(
    kafka: InMemoryKafka, scheduler: Scheduler
) -> None:
    with consumer(kafka, "c1", semantics="at_most_once") as one:
        shares(one)
        gate = scheduler.event()
        one._coordinator.do(gate.wait)
        kafka.produce("orders", 3)
        assert [one.poll(timeout_s=1.0) for _ in range(4)][:3] != [None] * 3
        gate.set()


@SEMANTICS
@pytest.mark.parametrize("gives_up", [Consumer.close, Consumer.stop, None])
def test_who_gives_up_loses_nothing_that_comes_later(
    kafka: InMemoryKafka,
    scheduler: Scheduler,
    gives_up: Callable[[Consumer], None] | None,
    semantics: str,
) -> None:
    with consumer(kafka, "c1", semantics=semantics) as first:
        shares(first)
        began_s = scheduler.clock.monotonic()
        if gives_up is None:
            first.remove_topic("orders")
        else:
            gives_up(first)
        assert polled(first, 1) == [] if gives_up is None else True
        if gives_up is not Consumer.close:
            scheduler.sleep(1.0)
        kafka.produce("orders", 5)
        with consumer(kafka, "c2", semantics=semantics) as second:
            second.add_topic("orders", share="ranges")
            assert polled(second, 6) == orders(2, 7)
    assert scheduler.clock.monotonic() < began_s + 30.0


@SEMANTICS
def test_what_comes_in_a_pause_waits_for_its_end(
    kafka: InMemoryKafka, scheduler: Scheduler, semantics: str
) -> None:
    with consumer(kafka, "c1", semantics=semantics) as one:
        shares(one)
        pause(kafka, scheduler, seconds=20)
        kafka.produce("orders", 3)
        assert one.poll(timeout_s=5.0) is None
        scheduler.sleep(20.0)
        assert polled(one, 3) == orders(2, 5)


@SEMANTICS
def test_after_a_set_nothing_comes_of_a_range_from_before(
    kafka: InMemoryKafka, scheduler: Scheduler, semantics: str
) -> None:
    with consumer(kafka, "c1", semantics=semantics) as one:
        shares(one)
        pause(kafka, scheduler, seconds=20)
        epoch = says(kafka, ClaimingPartition(1, 0, *of_admin("orders")))
        back = ReleasingPartition(1, 0, *of_admin("orders"), Offset(1))
        says(kafka, back, epoch=epoch, set_position=1)
        kafka.produce("orders", 3)
        scheduler.sleep(30.0)
        assert polled(one, 5) == orders(1, 5)


@SEMANTICS
def test_a_handler_that_hangs_gives_back_what_it_has_not_begun(
    kafka: InMemoryKafka, scheduler: Scheduler, semantics: str
) -> None:
    with (
        consumer(kafka, "c1", semantics=semantics) as hangs,
        consumer(kafka, "c2", semantics=semantics) as other,
    ):
        shares(hangs)
        other.add_topic("orders", share="ranges")
        kafka.produce("orders", 1)
        assert hangs.poll(timeout_s=5.0) is not None
        scheduler.sleep(STUCK_S + 5.0)
        kafka.produce("orders", 7)
        assert polled(other, 8) == orders(3, 10)


def test_who_waits_for_messages_does_not_hang(kafka: InMemoryKafka, scheduler: Scheduler) -> None:
    with consumer(kafka, "c1", semantics="at_most_once") as one:
        shares(one)
        for _ in range(2):
            kafka.produce("orders", 1)
            message = one.poll(timeout_s=5.0)
            assert message is not None
            one.ack(message)
            assert message.range is not None
            assert message.range.start == 0, "of the first range"
            scheduler.sleep(3 * STUCK_S)


@SEMANTICS
def test_who_lost_its_ranges_to_a_gap_in_the_log_can_stop(
    kafka: InMemoryKafka, scheduler: Scheduler, semantics: str
) -> None:
    with consumer(kafka, "c1", semantics=semantics) as one:
        shares(one)
        kafka.produce("orders", 3)
        scheduler.sleep(1.0)  # simulated: all are fetched
        message = one.poll(timeout_s=5.0)
        transaction = Transaction()
        kafka.append(COORDINATION_TOPIC, 0, b"no message", transaction=transaction)
        kafka.end_transaction(transaction, commit=False)
        scheduler.sleep(10.0)
        one.ack(message)
        one.stop()
        ended, until_s = one._coordinator.ended, scheduler.clock.monotonic() + 10.0
        while not ended.is_set() and scheduler.clock.monotonic() < until_s:
            assert one.poll(timeout_s=0.5) is None
        assert ended.is_set()


def test_an_application_that_takes_nothing_keeps_at_most_its_next_message(
    kafka: InMemoryKafka, scheduler: Scheduler
) -> None:
    """It gave its range back, and got it again at once, for ever."""
    with (
        consumer(kafka, "c1", semantics="at_most_once") as hangs,
        consumer(kafka, "c2", semantics="at_most_once") as other,
    ):
        shares(hangs)
        other.add_topic("orders", share="ranges")
        scheduler.sleep(5.0)
        kafka.produce("orders", 12)
        scheduler.sleep(STUCK_S + 5.0)
        got = polled(other, 11)
        assert len(got) == 11
        assert sorted(got + polled(hangs, 1)) == orders(2, 14)


@pytest.mark.parametrize("gives_up", [Consumer.close, Consumer.stop, None])
def test_who_gives_up_in_a_pause_gives_its_range_back_when_it_is_over(
    kafka: InMemoryKafka,
    scheduler: Scheduler,
    gives_up: Callable[[Consumer], None] | None,
) -> None:
    """Who leaves claimed nothing, so the range slept on, and was lost at most once."""
    with consumer(kafka, "c1", semantics="at_most_once") as first:
        shares(first)
        kafka.produce("orders", 3)
        scheduler.sleep(2.0)  # simulated: they are fetched
        pause(kafka, scheduler, seconds=6)
        if gives_up is None:
            first.remove_topic("orders")
            scheduler.sleep(10.0)
        else:
            gives_up(first)
    with consumer(kafka, "c2", semantics="at_most_once") as second:
        second.add_topic("orders", share="ranges")
        assert polled(second, 3) == orders(2, 5)
