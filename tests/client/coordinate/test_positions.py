"""A consumer begins where the log says, and Kafka's group offsets follow the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafka_marshal.client.api.consumer import Claim, Consumer, Observer
from kafka_marshal.client.fetch import fetcher
from kafka_marshal.client.observe.health import ClaimProgress
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.errors import ClaimLost
from tests.client.api.test_at_most_once import ranges, receipts
from tests.client.doubles import Kafka, until

ADMIN = (1, 0, "admin", "admin", "g", "events", Partition(0))


def set_position(kafka: Kafka, target: int) -> None:
    """What `marshal set-position` appends, and then commits."""
    kafka.says(ReleaseGroup(0, 0, "admin", "admin", "g", "", Partition(0), 2_000_000_000))
    epoch = kafka.says(ClaimingPartition(*ADMIN), Headers(present=True))
    headers = Headers(present=True, epoch=epoch, set_position=target)
    kafka.says(ReleasingPartition(*ADMIN, Offset(target)), headers)
    kafka.committed["g", "events", 0] = target


def offsets_of(kafka: Kafka, kind: type[Heartbeat]) -> list[int]:
    return [each.offset for each in kafka.said(kind)]


def test_a_position_set_to_0_is_not_undone_by_what_kafka_had_committed() -> None:
    """0 was taken for never set: the next win went on at 5, and wrote 5 into the log."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    kafka.committed["g", "events", 0] = 5
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        first = consumer.poll(10.0)
        assert first is not None
        assert first.offset == 5, "nothing was ever set, so the start policy decides"
        until(lambda: 5 in offsets_of(kafka, Heartbeat))
        set_position(kafka, 0)
        until(lambda: first.claim.lost)
        again = consumer.poll(10.0)
        assert again is not None
        assert again.offset == 0
        assert again.claim.epoch > first.claim.epoch


class Looks(Observer):
    """Counts how often the engine commits, and then tells how claims stand."""

    count = 0

    def standing(self, claim: Claim, standing: ClaimProgress) -> None:
        self.count += 1


def test_a_heartbeat_that_is_refused_moves_no_offset_of_the_group() -> None:
    """It was committed as soon as it was appended, over what an administrator had set."""
    kafka, looks = Kafka(), Looks()
    kafka.create("events", messages=10)
    with kafka.consumer(observers=[looks]) as consumer:
        consumer.add_topic("events")
        for _ in range(5):
            message = consumer.poll(10.0)
            assert message is not None
            claim = message.claim
        kafka.hold_log()
        set_position(kafka, 2)
        consumer.ack()
        # The consumer has not read of it, and tells how far it is.
        kafka.clock.ahead_s += 40.0
        until(lambda: 5 in offsets_of(kafka, Heartbeat))
        seen = looks.count
        until(lambda: looks.count > seen + 1)
        kafka.flow()
        until(lambda: claim.lost)
        message = consumer.poll(10.0)
        assert message is not None
        assert message.offset == 2
        for _ in range(7):
            message = consumer.poll(10.0)
            assert message is not None
        consumer.ack()
    assert kafka.committed["g", "events", 0] == 10
    assert ("events", 0, 5) not in kafka.commits
    committed = [offset for _, _, offset in kafka.commits]
    assert committed == sorted(committed)


def test_what_an_administrator_has_set_is_no_commit_of_a_heartbeat_that_was_refused() -> None:
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer() as consumer:
        consumer.add_topic("events")
        messages = [consumer.poll(10.0) for _ in range(5)]
        assert messages[-1] is not None
        kafka.hold_log()
        set_position(kafka, 8)
        consumer.ack()
        kafka.clock.ahead_s += 40.0  # it has not read of that, and tells how far it is
        until(lambda: 5 in offsets_of(kafka, Heartbeat))
        kafka.flow()
        claim = messages[-1].claim
        until(lambda: claim.lost)
        again = consumer.poll(10.0)
        assert again is not None
        assert again.offset == 8
        with pytest.raises(ClaimLost, match="done below 5, and in the log below 0"):
            consumer.commit(messages[-1])


def remade(kafka: Kafka, messages: int) -> None:
    """The data topic was deleted and created again: it holds fewer messages than before."""
    with kafka.changed:
        kafka.topics["events"][0].records.clear()
    kafka.produce("events", messages)


def test_at_most_once_a_remade_topic_is_asked_for_what_it_holds() -> None:
    """The tenure after it asked for what the one before had fetched: 10 messages that were 3."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        assert [message.offset for message in consumer.consume(10, 10.0)] == [*range(10)]
        consumer.ack()
        remade(kafka, 3)
        set_position(kafka, 0)
        assert [message.offset for message in consumer.consume(10, 10.0)] == [*range(3)]
        assert [each.offset for each in kafka.said(ClaimingMessages)] == [10, 3]


def test_at_most_once_a_tenure_does_not_ask_for_what_is_heard_late_of_the_one_before() -> None:
    kafka = Kafka()
    kafka.create("events", messages=3)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        first = consumer.consume(10, 10.0).claim
        consumer.ack()
        set_position(kafka, 0)
        again = consumer.consume(10, 10.0)
        assert again.claim is not first
        consumer.ack()
        held = consumer._coordinator.ownership
        consumer._coordinator.call(lambda: held.fetched(first, 100))
        kafka.produce("events", 1)
        assert [message.offset for message in consumer.consume(10, 10.0)] == [3]
        assert max(each.offset for each in kafka.said(ClaimingMessages)) == 4


def test_what_was_granted_of_a_topic_that_was_remade_keeps_no_later_tenure_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It waited for offsets that were not there, and the next tenure of the partition behind it."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        first = consumer.consume(5, 10.0)
        consumer.ack()
        consumer.pause("events")  # what was fetched is forgotten
        remade(kafka, 3)
        set_position(kafka, 0)
        until(lambda: any(claim.epoch > first.claim.epoch for claim in consumer.claims))
        consumer.resume("events")
        messages = consumer.consume(10, 10.0)
        assert [message.offset for message in messages] == [*range(3)]
        assert messages.claim.epoch > first.claim.epoch
        # The new tenure was never paused, so either may be fetched first.
        until(lambda: "messages 5 to 9 are gone from the topic" in caplog.text)
    assert (0, 10, "group_released") in ranges(receipts(kafka))


@contextmanager
def granted_of_what_was_remade(messages: int) -> Iterator[Consumer]:
    """At most once: of 10 granted messages 5 are done, and the topic is remade with `messages`."""
    kafka = Kafka()
    kafka.create("events", messages=10)
    with kafka.consumer(semantics="at_most_once") as consumer:
        consumer.add_topic("events")
        assert len(consumer.consume(5, 10.0)) == 5
        consumer.ack()
        consumer.pause("events")  # what was fetched is forgotten
        remade(kafka, messages)
        consumer.resume("events")
        yield consumer


def test_a_consumer_that_stops_does_not_wait_for_what_was_granted_of_a_topic_that_was_remade(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It waited without end, for offsets that were not there."""
    with granted_of_what_was_remade(3) as consumer:
        until(lambda: "the partition ends at 3" in caplog.text)
        consumer.stop()
        until(lambda: consumer.delivery.ended)
    assert "messages 5 to 9 are gone from the topic" in caplog.text
    assert not consumer.claims


def test_a_consumer_that_stops_does_not_wait_for_what_a_topic_that_was_remade_does_not_hold_yet(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited without end where its position was in the new topic, and its grant was beyond."""
    monkeypatch.setattr(fetcher, "RETRY_S", 0.1)
    with granted_of_what_was_remade(7) as consumer:
        assert [message.offset for message in consumer.consume(5, 10.0)] == [5, 6]
        consumer.ack()
        consumer.stop()
        assert not consumer.consume(5, 10.0)
        until(lambda: consumer.delivery.ended)
    assert "messages 7 to 9 are gone from the topic" in caplog.text
    assert not consumer.claims
