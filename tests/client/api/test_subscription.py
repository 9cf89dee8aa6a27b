"""Marshal promises that what a user of Kafka's consumer asks for is answered as there."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime

import pytest

from kafka_marshal.client.api.aio import AsyncConsumer
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.api.subscription import Wanted
from kafka_marshal.errors import BrokerFailed, ConsumerClosed, InvalidOption
from tests.client.doubles import WITHIN_S, Kafka, until


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    for topic in ("orders-eu", "orders-us", "bills", "__hidden", "old-orders"):
        kafka.create(topic, partitions=1, messages=10)
    return kafka


def topics(consumer: Consumer) -> list[str]:
    return sorted(each.topic for each in consumer.assignment())


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [
        ("bills", ["bills"]),
        (["bills", "orders-eu"], ["bills", "orders-eu"]),
        ("^orders-", ["orders-eu", "orders-us"]),
        (re.compile("orders-|bills"), ["bills", "orders-eu", "orders-us"]),
        (["^.*-us", "bills"], ["bills", "orders-us"]),
        ("^.*", ["bills", "old-orders", "orders-eu", "orders-us"]),
    ],
)
def test_a_subscription_takes_names_and_patterns(
    kafka: Kafka, wanted: Wanted, taken: list[str]
) -> None:
    with kafka.consumer() as consumer:
        consumer.subscribe(wanted)
        until(lambda: topics(consumer) == taken)


def test_a_pattern_takes_what_is_made_later_from_its_beginning(kafka: Kafka) -> None:
    with kafka.consumer(metadata_refresh_s=0.01, auto_offset_reset="latest") as consumer:
        consumer.subscribe("^orders-")
        until(lambda: topics(consumer) == ["orders-eu", "orders-us"])
        kafka.create("orders-asia", messages=3)
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert (message.topic, message.offset) == ("orders-asia", 0)


def test_a_subscription_replaces_the_one_before_and_leaves_what_was_added(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("old-orders")
        consumer.subscribe(["bills", "orders-eu"])
        until(lambda: topics(consumer) == ["bills", "old-orders", "orders-eu"])
        consumer.subscribe(["bills", "orders-us"])
        until(lambda: topics(consumer) == ["bills", "old-orders", "orders-us"])
        consumer.unsubscribe()
        until(lambda: topics(consumer) == ["old-orders"])


def test_a_subscription_that_cannot_be_says_why(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        with pytest.raises(InvalidOption, match=r"topics: '\^\(' is no pattern: missing \)"):
            consumer.subscribe("^(")
        with pytest.raises(InvalidOption, match="a topic must be a name without '/', not 'a/b'"):
            consumer.subscribe(["bills", "a/b"])
        with pytest.raises(BrokerFailed, match="there is no topic nothing"):
            consumer.subscribe("nothing")
    with pytest.raises(ConsumerClosed):
        consumer.subscribe("bills")


def test_a_pattern_passes_over_the_coordination_topic(kafka: Kafka) -> None:
    kafka.create("claims")
    with kafka.consumer(coordination_topic="claims", metadata_refresh_s=0.01) as consumer:
        consumer.subscribe("^.*s")
        taken = ["bills", "old-orders", "orders-eu", "orders-us"]
        until(lambda: topics(consumer) == taken)
        kafka.create("news")
        until(lambda: topics(consumer) == sorted([*taken, "news"]))
        with pytest.raises(InvalidOption, match="claims is the coordination topic"):
            consumer.subscribe("claims")


def test_a_subscription_that_fails_changes_nothing(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.subscribe("old-orders")
        with pytest.raises(BrokerFailed, match="there is no topic nothing"):
            consumer.subscribe(["bills", "nothing"])
        consumer._coordinator.call(lambda: None)
        assert list(consumer._coordinator.loop.topics) == ["old-orders"]


def test_a_topic_that_cannot_be_taken_keeps_none_from_the_others(kafka: Kafka) -> None:
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.subscribe("^bills|^orders-")
        until(lambda: topics(consumer) == ["bills", "orders-eu", "orders-us"])
        kafka.missing = lambda topic: topic == "orders-asia"
        kafka.create("orders-asia", messages=3)
        kafka.create("orders-latin", messages=3)
        until(lambda: "orders-latin" in topics(consumer))
        assert "orders-asia" not in topics(consumer)
        kafka.missing = lambda _: False
        until(lambda: "orders-asia" in topics(consumer))


def test_a_topic_that_is_gone_since_it_was_listed_is_passed_over(kafka: Kafka) -> None:
    kafka.missing = lambda topic: topic == "bills"
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.subscribe("^bills|^orders-")
        until(lambda: topics(consumer) == ["orders-eu", "orders-us"])
        kafka.missing = lambda _: False
        until(lambda: topics(consumer) == ["bills", "orders-eu", "orders-us"])


def test_what_was_added_stays_whatever_a_subscription_takes(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("bills")
        consumer.subscribe(["bills", "orders-eu"])
        consumer.add_topic("orders-eu")
        consumer.subscribe("orders-us")
        until(lambda: topics(consumer) == ["bills", "orders-eu", "orders-us"])
        consumer.unsubscribe()
        until(lambda: topics(consumer) == ["bills", "orders-eu"])


def test_what_was_removed_stays_away_and_stops_no_other_subscription(kafka: Kafka) -> None:
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.subscribe("^orders-")
        consumer.remove_topic("orders-eu")
        kafka.create("orders-asia")
        until(lambda: topics(consumer) == ["orders-asia", "orders-us"])
        consumer.subscribe("bills")
        until(lambda: topics(consumer) == ["bills"])
        consumer.subscribe("^orders-")
        until(lambda: topics(consumer) == ["orders-asia", "orders-eu", "orders-us"])
        consumer.unsubscribe()
        until(lambda: topics(consumer) == [])


def test_what_is_being_removed_is_not_taken_again_by_who_looks_at_that_moment(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.subscribe("^orders-")
        loop = consumer._coordinator.loop
        remove = loop.remove_topic

        def seen(topic: str) -> None:
            remove(topic)
            consumer._look_for_topics()

        monkeypatch.setattr(loop, "remove_topic", seen)
        consumer.remove_topic("orders-eu")
        with pytest.raises(InvalidOption):
            consumer.remove_topic("orders-asia")
        kafka.create("orders-asia")
        until(lambda: topics(consumer) == ["orders-asia", "orders-us"])


def test_how_far_a_claim_is_can_be_asked(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("bills")
        messages = [consumer.poll(WITHIN_S) for _ in range(4)]
        consumer.commit(messages[1])
        assert consumer.committed("bills", 0) == 2
        assert consumer.position("bills", 0) == 4
        kafka.clock.ahead_s += 1
        until(lambda: consumer.lag("bills", 0) == 8)
        for asked in (consumer.committed, consumer.position, consumer.lag):
            with pytest.raises(InvalidOption, match="bills/1 is not claimed"):
                asked("bills", 1)


def test_a_list_that_is_in_hand_was_given_out(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("bills")
        assert len(consumer.consume(3, WITHIN_S)) == 3
        assert consumer.position("bills", 0) == 3
        assert consumer.committed("bills", 0) == 0


def test_a_claim_is_moved_to_a_time(kafka: Kafka) -> None:
    kafka.create("late", messages=5)
    kafka.broker_ms = lambda: 2_000_000_000_000
    kafka.produce("late", 5)
    with kafka.consumer() as consumer:
        consumer.add_topic("late")
        until(lambda: consumer.assignment())
        with pytest.raises(InvalidOption, match="at has a time zone"):
            consumer.seek_to_time("late", 0, datetime(2033, 5, 18))
        consumer.seek_to_time("late", 0, datetime.fromtimestamp(1_900_000_000, UTC))
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert message.offset == 5
        consumer.seek_to_time("late", 0, datetime.fromtimestamp(2_100_000_000, UTC))
        until(lambda: consumer.position("late", 0) == 10)
        with pytest.raises(InvalidOption, match="late/1 is not claimed"):
            consumer.seek_to_time("late", 1, datetime.fromtimestamp(0, UTC))


def test_each_topic_may_begin_elsewhere(kafka: Kafka) -> None:
    with kafka.consumer(auto_offset_reset="latest") as consumer:
        consumer.add_topic("bills")
        consumer.add_topic("orders-eu", auto_offset_reset="earliest")
        until(lambda: topics(consumer) == ["bills", "orders-eu"])
        assert consumer.position("bills", 0) == 10
        message = consumer.poll(WITHIN_S)
        assert message is not None
        assert (message.topic, message.offset) == ("orders-eu", 0)
        with pytest.raises(
            InvalidOption, match="auto_offset_reset must be earliest or latest, not 'x'"
        ):
            consumer.add_topic("orders-us", auto_offset_reset="x")  # type: ignore[arg-type]


def test_a_consumer_shows_what_it_is_and_how_it_is(kafka: Kafka) -> None:
    with kafka.consumer() as consumer:
        consumer.add_topic("bills")
        until(lambda: consumer.claims)
        assert repr(consumer) == "<Consumer c1 of group g, open, claims: [bills/0]>"
        consumer.stop()
        until(lambda: repr(consumer) == "<Consumer c1 of group g, stopping, claims: []>")
    assert repr(consumer) == "<Consumer c1 of group g, closed, claims: []>"


def test_the_names_of_0_1_0_go_on_and_warn(kafka: Kafka) -> None:
    with (
        pytest.warns(DeprecationWarning, match="group is called group_id now"),
        pytest.warns(DeprecationWarning, match="start is called auto_offset_reset now"),
        pytest.warns(DeprecationWarning, match="is called metadata_refresh_s now"),
    ):
        consumer = Consumer(
            settings=kafka.settings(),
            group="g",
            client_id="c1",
            start="latest",
            look_for_partitions_every_s=5.0,
        )
    with consumer:
        consumer.add_topic("bills")
        until(lambda: consumer.claims)
        assert consumer.claims[0].position == 10


def test_without_a_group_the_option_is_named(kafka: Kafka) -> None:
    with pytest.raises(InvalidOption, match="group_id must be a name without '/', not ''"):
        Consumer(settings=kafka.settings(), client_id="c1")
    # With it Kafka's client aborts the process.
    with pytest.raises(InvalidOption, match="group_id must be a name without '/', not 'caf"):
        Consumer(settings=kafka.settings(), client_id="c1", group_id="caf\udce9")


def test_tasks_subscribe_as_threads_do(kafka: Kafka) -> None:
    async def main() -> None:
        made = AsyncConsumer(settings=kafka.settings(), group_id="g", client_id="c1")
        assert repr(made) == "<AsyncConsumer, not connected>"
        async with made as consumer:
            await consumer.subscribe("^bills")
            assert await consumer.poll(WITHIN_S) is not None
            assert repr(consumer) == "<AsyncConsumer c1 of group g, open, claims: [bills/0]>"
            assert [each.topic for each in consumer.assignment()] == ["bills"]
            assert (consumer.committed("bills", 0), consumer.position("bills", 0)) == (0, 1)
            assert consumer.lag("bills", 0) in (None, 10)
            await consumer.seek_to_time("bills", 0, datetime.fromtimestamp(0, UTC))
            await consumer.unsubscribe()

    asyncio.run(main())
