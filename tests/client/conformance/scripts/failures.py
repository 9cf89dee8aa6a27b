"""Scripts of a broker that has ended, that stands still, and that is back."""

# a name is the sentence

from __future__ import annotations

from confluent_kafka import TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    OffsetSpec,
)

from tests.client.conformance.scripts.fetches import numbers
from tests.client.conformance.side import Side

ASKED_S = 1.5


def _asks(side: Side) -> None:
    """Everybody asks something while the broker does not answer."""
    topic = side.topic()
    side.produce(topic, numbers(2))
    one = TopicPartition(topic, 0, 0)
    fetcher, reader, admin = side.fetcher_at(topic), side.log_reader(), side.admin()
    appender = side.appender(message_timeout_ms="2000")
    side.read(fetcher, [(topic, 0)])
    appender.append(topic, b"v", partition=0)
    side.delivered(appender)
    side.read(fetcher, [(topic, 0)])
    fetcher.committed([one], timeout=20.0)
    reader.list_topics(topic, timeout=20.0)
    reader.get_watermark_offsets(one, timeout=20.0)
    admin.list_topics(topic, timeout=20.0)
    side.break_broker()
    reader.list_topics(topic, timeout=ASKED_S)
    reader.get_watermark_offsets(one, timeout=ASKED_S)
    reader.offsets_for_times([one], timeout=ASKED_S)
    fetcher.committed([one], timeout=ASKED_S)
    fetcher.get_watermark_offsets(one, cached=True)
    side.note("polled", fetcher.client.poll(0.5))
    admin.list_topics(topic, timeout=ASKED_S)
    admin.describe_topics(TopicCollection([topic]), request_timeout=ASKED_S)
    admin.list_offsets({one: OffsetSpec.latest()}, request_timeout=ASKED_S)  # type: ignore[no-untyped-call]
    appender.append(topic, b"lost or not", partition=0)
    side.delivered(appender)
    side.mend_broker()
    side.until(lambda: reader.list_topics(topic, timeout=ASKED_S), lambda found: found is not None)
    # What timed out may have landed, so the next offset is open.
    appender.produce(topic, b"again", partition=0)
    side.delivered(appender)


def nobody_answers_where_the_broker_has_ended(side: Side) -> None:
    side.how = "killed"
    _asks(side)


def nobody_answers_where_the_broker_stands_still(side: Side) -> None:
    side.how = "paused"
    _asks(side)


def what_is_sent_meanwhile_arrives_when_the_broker_goes_on(side: Side) -> None:
    side.how = "paused"
    topic = side.topic()
    appender = side.appender()
    appender.append(topic, b"before", partition=0)
    side.delivered(appender)
    fetcher = side.fetcher_at(topic)
    side.read(fetcher, [(topic, 0)])
    side.break_broker()
    for value in (b"a", b"b"):
        appender.append(topic, value, partition=0)
    side.settle(1.0)
    len(appender)
    side.mend_broker()
    side.delivered(appender)
    side.read(fetcher, [(topic, 0)])


def what_is_under_way_can_be_purged(side: Side) -> None:
    side.how = "paused"
    topic = side.topic()
    appender = side.appender()
    appender.append(topic, b"before", partition=0)
    side.delivered(appender)
    side.break_broker()
    appender.append(topic, b"a", partition=0)
    side.settle(1.0)
    appender.purge()
    side.delivered(appender)
    side.mend_broker()
