"""Marshal promises that a topic that is deleted, or made anew, under its consumers is named."""

from __future__ import annotations

from functools import partial
from uuid import UUID

import pytest

from kafka_marshal.client.coordinate.consumer_loop import LogLost
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.crew import Stage
from tests.client.crew import until as eventually
from tests.client.doubles import LOG, WITHIN_S, Kafka, until


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", messages=5)
    return kafka


def test_a_topic_that_is_gone_is_named_and_consumed_again_once_it_is_back(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
        kafka.delete("orders")
        until(lambda: "topic orders is gone, and group g consumes nothing of it" in caplog.text)
        kafka.create("orders", messages=9)
        until(lambda: "topic orders was deleted and made anew" in caplog.text)
        messages = [consumer.poll(WITHIN_S) for _ in range(8)]
        assert [each and each.offset for each in messages] == [*range(1, 9)]


def test_a_topic_made_anew_is_named_with_what_consumes_it_from_its_beginning(
    kafka_broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """The new one is longer than the old one, so no offset of it is missing."""
    stage = Stage(kafka_broker)
    topic = stage.topic(partitions=1, messages=10)
    with stage.worker("w1", topic, metadata_refresh_s=0.1) as worker:
        eventually(lambda: len(worker.got) == 10)
        stage.cluster.delete_topic(topic)
        eventually(lambda: stage.cluster.topic(topic, spreads_s=0.0) is None)
        stage.cluster.create_topic(topic, 1, 1, {})
        stage.produce(topic, 1, range(100, 130))
        eventually(lambda: "was deleted and made anew, with 1 partitions" in caplog.text)
        eventually(lambda: worker.got[10:] == [*range(110, 130)])
        do = f"marshal set-position {stage.group} {topic}=earliest"
        assert do in caplog.text
        options = ("--bootstrap", stage.bootstrap, "--topic", stage.coordination)
        done = marshal(*do.split()[1:], *options)
        assert "set: 1 of 1" in done.stdout, done
        eventually(lambda: worker.got[30:] == [*range(100, 130)])


def test_a_log_made_anew_is_noticed_however_long_the_new_one_is(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    with kafka.consumer(metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        assert consumer.poll(WITHIN_S) is not None
        before = consumer.instance_id
        kafka.topic_ids[LOG] = kafka.new_topic_id()
        until(lambda: consumer.instance_id != before)
        assert "topic __marshal was deleted and made anew" in caplog.text
        assert consumer.poll(WITHIN_S) is not None
    assert caplog.text.count("was deleted and made anew") == 1


def test_a_log_made_anew_before_the_first_look_ends_a_consumer_at_most_once(kafka: Kafka) -> None:
    with kafka.consumer(semantics="at_most_once", metadata_refresh_s=0.3) as consumer:
        kafka.topic_ids[LOG] = kafka.new_topic_id()
        until(lambda: consumer._coordinator.failure)
        with pytest.raises(LogLost, match="__marshal was deleted and made anew"):
            consumer.poll(WITHIN_S)


def test_a_log_made_anew_before_it_is_read_ends_a_consumer_at_most_once(kafka: Kafka) -> None:
    """Its first offset is there, and nothing in it says what was granted."""
    with kafka.consumer(semantics="at_most_once") as before:
        before.add_topic("orders")
        assert [before.poll(WITHIN_S) is not None for _ in range(5)] == [True] * 5
    ends = kafka.topics[LOG][0].high
    reads = iter([partial(kafka.create, LOG)])
    kafka.reading_log = lambda: next(reads, lambda: None)()
    with kafka.consumer("c2", semantics="at_most_once") as consumer:
        consumer.add_topic("orders")
        with pytest.raises(LogLost, match=f"it ends at 0, and ended at {ends} when this consumer"):
            consumer.poll(WITHIN_S)


def test_a_cluster_that_begins_to_report_ids_has_no_other_topics(kafka: Kafka) -> None:
    """As brokers of an older version do while they are upgraded one by one, in turns."""
    reported, not_reported = kafka.topic_ids[LOG], UUID(int=0)
    kafka.topic_ids[LOG] = not_reported
    with kafka.consumer(semantics="at_most_once", metadata_refresh_s=0.01) as consumer:
        consumer.add_topic("orders")
        ids = consumer._coordinator._partition_watcher._ids
        until(lambda: LOG in ids)
        kafka.topic_ids[LOG] = reported
        until(lambda: ids[LOG] or consumer._coordinator.failure)
        kafka.topic_ids[LOG] = not_reported
        assert [consumer.poll(WITHIN_S) is not None for _ in range(5)] == [True] * 5
        kafka.topic_ids[LOG] = kafka.new_topic_id()
        until(lambda: consumer._coordinator.failure)
        with pytest.raises(LogLost, match="__marshal was deleted and made anew"):
            consumer.poll(WITHIN_S)
