"""Scripts of topics that grow, vanish and come back under those who read and append."""

# a name is the sentence

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import TopicPartition

from tests.client.conformance.scripts.fetches import numbers
from tests.client.conformance.side import Recorded, Side

QUICKLY: Final[Mapping[str, Any]] = {
    "topic.metadata.refresh.interval.ms": "100",
    "topic.metadata.refresh.fast.interval.ms": "50",
    "topic.metadata.propagation.max.ms": "300",
    "metadata.max.age.ms": "300",
}


def append_until(side: Side, appender: Recorded, topic: str, partition: int, seen: str) -> None:
    """Append again until this is seen: a client hears of a change when it looks for it."""

    def attempt() -> list[str]:
        before = len(side.seen)
        appender.append(topic, b"w", partition=partition)
        side.delivered(appender)
        return [outcome for _, outcome in side.seen[before:]]

    side.until(attempt, lambda outcomes: any(seen in each for each in outcomes))


def a_topic_grows_under_its_clients(side: Side) -> None:
    topic = side.topic()
    appender = side.appender(**QUICKLY)
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    fetcher = side.fetcher_at(topic, **QUICKLY)
    side.read(fetcher, [(topic, 0)])
    side.grow(topic, 2)
    append_until(side, appender, topic, 1, "@0")
    fetcher.incremental_assign([TopicPartition(topic, 1, 0)])
    side.read(fetcher, [(topic, 1)])
    side.log_reader().list_topics(topic, timeout=10.0)


def a_topic_vanishes_under_its_reader(side: Side) -> None:
    topic = side.topic()
    side.produce(topic, numbers(2))
    fetcher = side.fetcher_at(topic, **QUICKLY)
    side.read(fetcher, [(topic, 0)])
    side.delete(topic)
    side.read(fetcher, [(topic, 0)], within_s=1.5)


def a_topic_comes_back_under_its_reader(side: Side) -> None:
    _come_back(side, before=2, after=4).poll(0.5)


def a_shorter_topic_comes_back_under_its_reader(side: Side) -> None:
    fetcher = _come_back(side, before=5, after=2)
    side.until(lambda: fetcher.poll(0.5), lambda polled: polled is None)  # it may come twice


def _come_back(side: Side, before: int, after: int) -> Recorded:
    """Delete a topic and create it again with other messages; returns who reads it."""
    topic = side.topic()
    side.produce(topic, numbers(before))
    fetcher: Recorded = side.fetcher_at(topic, **QUICKLY)
    side.read(fetcher, [(topic, 0)])
    fetcher.pause([TopicPartition(topic, 0)])
    side.delete(topic)
    side.create(topic, 1, {})
    side.produce(topic, numbers(after, 10))
    side.settle(0.5)
    fetcher.resume([TopicPartition(topic, 0)])
    side.read(fetcher, [(topic, 0)], within_s=5.0)
    return fetcher


def a_topic_vanishes_under_its_writer(side: Side) -> None:
    topic = side.topic()
    appender = side.appender(**QUICKLY)
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    side.delete(topic)
    append_until(side, appender, topic, 0, "_UNKNOWN_TOPIC")


def a_topic_comes_back_under_its_writer(side: Side) -> None:
    topic = side.topic()
    appender = side.appender(**QUICKLY)
    for value in (b"v", b"w"):
        appender.append(topic, value, partition=0)
        side.delivered(appender)
    side.delete(topic)
    side.create(topic, 1, {})
    side.settle(1.0)
    appender.append(topic, b"x", partition=0)
    side.delivered(appender)
    side.read(side.log_reader_at(topic), [(topic, 0)])


def a_group_keeps_its_offsets_of_a_topic_that_comes_back(side: Side) -> None:
    topic = side.topic()
    fetcher = side.fetcher()
    fetcher.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=True)
    side.until(
        lambda: fetcher.committed([TopicPartition(topic, 0)], timeout=10.0),
        lambda answer: answer[0].offset == 7,
    )
    side.delete(topic)
    side.settle(0.5)
    fetcher.committed([TopicPartition(topic, 0)], timeout=10.0)
    side.create(topic, 1, {})
    fetcher.committed([TopicPartition(topic, 0)], timeout=10.0)
