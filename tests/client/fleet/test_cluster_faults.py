"""Marshal promises that a consumer goes on when brokers, links, topics and clocks are mended.

Each fault is one method of the Kafka in memory; the consumer is the shipped one, in virtual time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from attrs import define, field

from kafka_marshal import Consumer, MarshalError, OutcomeUnknown
from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.core.messages import ClaimingMessages, ClaimingPartition, Heartbeat
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import (
    CUT,
    DOWN,
    LANDS,
    PAUSED,
    REPLIES_CUT,
    UP,
    Append,
    InMemoryKafka,
    Link,
    Scheduler,
)

WITHIN_S = 60.0
"""After a fault has gone, everything is consumed within this time, in seconds."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """A fault logs lines."""
    caplog.set_level(logging.CRITICAL, logger="kafka_marshal")


@define
class Story:
    """A consumer of `orders`, and what it was given."""

    brokers: int = 1
    scheduler: Scheduler = field(factory=lambda: Scheduler(seed=1))
    kafka: InMemoryKafka = field(init=False)
    given: list[tuple[int, int]] = field(factory=list)
    """Partition and offset of each message."""
    failed: list[str] = field(factory=list)
    """Why consumers ended by themselves."""

    def __attrs_post_init__(self) -> None:
        self.kafka = InMemoryKafka(scheduler=self.scheduler, brokers=self.brokers)
        self.kafka.create("orders", partitions=2, messages=10)

    @contextmanager
    def consumes(self) -> Iterator[Consumer]:
        """A consumer reads while the test goes on."""
        with Consumer(
            settings=self.kafka.settings(),
            group_id="g",
            client_id="c1",
            heartbeat_interval_s=5.0,
            metadata_refresh_s=5.0,
        ) as consumer:
            consumer.add_topic("orders")

            def reads() -> None:
                try:
                    for message in consumer:
                        self.given.append((message.partition, message.offset))
                except MarshalError as error:
                    self.failed.append(str(error))

            thread = self.scheduler.begin("application", reads)
            yield consumer
            consumer.stop()
            thread.join(WITHIN_S)

    def until(self, true: Callable[[], object], within_s: float = WITHIN_S) -> float:
        """Wait for it; returns how long that took, in seconds."""
        began_s = self.scheduler.clock.monotonic()
        while not true():
            past_s = self.scheduler.clock.monotonic() - began_s
            assert past_s < within_s, "it did not come true in time"
            self.scheduler.sleep(0.05)
        return self.scheduler.clock.monotonic() - began_s

    def has(self, *ends: int) -> Callable[[], bool]:
        """Whether everything below these offsets was given."""
        wanted = {(number, at) for number, end in enumerate(ends) for at in range(end)}
        return lambda: wanted <= set(self.given)


@pytest.mark.parametrize("link", [DOWN, CUT, PAUSED, REPLIES_CUT])
def test_a_consumer_goes_on_when_the_broker_is_back(link: Link) -> None:
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.link(link)
        story.kafka.produce("orders", 5)
        story.scheduler.sleep(8.0)
        assert len(story.given) == 20, "nobody answers"
        story.kafka.link(UP)
        story.until(story.has(15, 10))
    assert len(story.given) == len(set(story.given))


def test_a_slow_broker_delays_what_it_sends() -> None:
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.link(Link(latency_s=2.0))
        story.kafka.produce("orders", 1)
        assert 2.0 <= story.until(story.has(11, 10)) < 3.0


def test_a_process_that_is_cut_off_loses_its_claims_to_another() -> None:
    story = Story()
    others: list[tuple[int, int]] = []

    def consumes() -> None:
        with Consumer(
            settings=story.kafka.settings(), group_id="g", client_id="c2", heartbeat_interval_s=5.0
        ) as consumer:
            consumer.add_topic("orders")
            for message in consumer:
                others.append((message.partition, message.offset))

    with story.consumes():
        story.until(story.has(10, 10))
        story.scheduler.begin("another", consumes)
        story.scheduler.sleep(30.0)
        others.clear()
        story.kafka.link(CUT, process="main")
        story.kafka.produce("orders", 5, 0)
        story.kafka.produce("orders", 5, 1)
        wanted = {(number, at) for number in range(2) for at in range(10, 15)}
        story.until(lambda: wanted <= set(others))
        story.scheduler.kill("another")
        story.kafka.link(UP)


def test_a_leader_that_moves_away_from_a_dead_broker_goes_on_being_read() -> None:
    story = Story(brokers=2)
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.link(DOWN, broker=2)  # the leader of partition 1
        story.kafka.produce("orders", 5, 0)
        story.kafka.produce("orders", 5, 1)
        story.until(story.has(15, 10))
        assert (1, 10) not in story.given
        story.kafka.move_leader("orders", 1, 1)
        story.until(story.has(15, 15))


@pytest.mark.parametrize(
    ("link", "lands", "lands_later"),
    [(CUT, False, False), (REPLIES_CUT, True, True), (PAUSED, False, True)],
)
def test_a_commit_that_nobody_answers_may_have_landed_or_land_later(
    link: Link, lands: bool, lands_later: bool
) -> None:
    story = Story()
    with Consumer(
        settings=story.kafka.settings({"message.timeout.ms": "1000"}),
        group_id="g",
        client_id="c1",
        heartbeat_interval_s=60.0,
    ) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(10.0) is not None
        before = len(story.kafka.said(Heartbeat))
        story.kafka.link(link)
        with pytest.raises(OutcomeUnknown):
            consumer.commit(timeout_s=5.0)
        assert (len(story.kafka.said(Heartbeat)) > before) == lands
        story.kafka.link(UP)
        assert (len(story.kafka.said(Heartbeat)) > before) == lands_later


def test_offsets_that_are_used_anew_after_an_unclean_election_are_given() -> None:
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.truncate("orders", 0, 6)
        story.kafka.produce("orders", 10)
        story.until(story.has(16, 10))


def test_a_log_that_begins_later_is_read_from_there() -> None:
    story = Story()
    story.kafka.delete_records("orders", 0, 4)
    with story.consumes():
        story.until(lambda: (0, 9) in story.given)
    assert [at for number, at in story.given if number == 0] == [*range(4, 10)]


def test_a_topic_that_grows_is_read_whole() -> None:
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.grow("orders")
        story.kafka.produce("orders", 3, 2)
        story.until(story.has(10, 10, 3))


def test_a_topic_that_vanishes_and_comes_back_is_read_from_where_it_was() -> None:
    """Its claims have a position, and nothing says that it is another topic."""
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.delete("orders")
        story.scheduler.sleep(2.0)
        story.kafka.create("orders", partitions=2, messages=15)
        story.until(lambda: (0, 14) in story.given)


def test_a_coordination_topic_that_vanishes_ends_a_consumer_and_the_next_one_goes_on() -> None:
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.delete(COORDINATION_TOPIC)
        story.until(lambda: story.failed)
        assert "the topic is gone, or was made anew" in story.failed[0]
    story.kafka.create(COORDINATION_TOPIC)
    story.kafka.produce("orders", 5)
    with story.consumes():
        story.until(story.has(15, 10))


@pytest.mark.parametrize(
    ("semantics", "asked"),
    [("at_least_once", ClaimingPartition), ("at_most_once", ClaimingMessages)],
)
def test_a_consumer_that_is_stopped_while_nobody_can_read_the_log_ends_within_half_a_minute(
    semantics: Semantics, asked: type
) -> None:
    """It waits for the answer to what it asked for, but not for ever."""
    scheduler = Scheduler(seed=1)
    kafka = InMemoryKafka(scheduler=scheduler)
    kafka.create("orders", messages=10)

    def lands(said: object) -> Append:
        if isinstance(said, asked):
            kafka.hold_log()
        return LANDS

    kafka.appends = lands
    with Consumer(
        settings=kafka.settings(),
        group_id="g",
        client_id="c1",
        semantics=semantics,
        heartbeat_interval_s=5.0,
    ) as consumer:
        consumer.add_topic("orders")
        thread = scheduler.start(lambda: list(consumer), "application")
        scheduler.sleep(10.0)
        began_s = scheduler.clock.monotonic()
        consumer.stop()
        thread.join(120.0)
        assert not thread.is_alive()
        assert 29.0 < scheduler.clock.monotonic() - began_s < 32.0
        kafka.flow()


@pytest.mark.parametrize("ahead_s", [-30.0, 30.0])
def test_a_clock_of_the_brokers_that_jumps_ends_nothing(ahead_s: float) -> None:
    story = Story()
    with story.consumes():
        story.until(story.has(10, 10))
        story.kafka.broker_clock.wall_s = ahead_s
        story.kafka.produce("orders", 5)
        story.until(story.has(15, 10))
    stored = story.kafka.records(0, "orders")
    assert (stored[10].timestamp_ms - stored[9].timestamp_ms) / 1000 >= ahead_s


def test_a_clock_of_the_brokers_that_drifts_stamps_so() -> None:
    kafka = InMemoryKafka(scheduler=Scheduler(seed=1))
    kafka.create("orders", messages=1)
    kafka.broker_clock.drift(0.1)
    kafka.advance(100.0)
    kafka.produce("orders", 1)
    kafka.broker_clock.drift(0.0)
    kafka.advance(100.0)
    kafka.produce("orders", 1)
    stamps = [one.timestamp_ms for one in kafka.records(0, "orders")]
    assert [later - earlier for earlier, later in pairwise(stamps)] == [
        110_000,
        100_000,
    ]
