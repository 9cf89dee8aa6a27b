"""Marshal promises that `marshal redrive` brings every dead letter back, and none of them twice."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from kafka_marshal.admin.redrive import DeadLetterTopic
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.testing import Broker
from kafka_marshal.testing.in_memory import InMemoryKafka
from tests.cli.run import marshal
from tests.client.appender import Appender
from tests.client.crew import Stage

OWN = [("traceparent", b"00-1"), ("traceparent", b"00-2")]


def dead(topic: str, partition: int, offset: int) -> list[tuple[str, bytes]]:
    return [
        *OWN,
        ("marshal-dead-topic", topic.encode()),
        ("marshal-dead-partition", b"%d" % partition),
        ("marshal-dead-offset", b"%d" % offset),
        ("marshal-dead-error", b"ValueError: no such parcel"),
        ("marshal-dead-tries", b"4"),
        ("marshal-dead-deliveries", b"1"),
    ]


def read(stage: Stage, topic: str, partition: int) -> list[Message]:
    made_of = {"group.id": "looks", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": stage.bootstrap, **made_of})
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        found = []
        while (message := consumer.poll(30.0)) is not None and not message.error():
            found.append(message)
        return found
    finally:
        consumer.close()


def append(stage: Stage, topic: str, letters: list[tuple[bytes, bytes | None, list]]) -> None:  # type: ignore[type-arg]
    with Appender(stage.bootstrap) as appender:
        for key, value, headers in letters:
            appender.produce(topic, value, key, partition=0, headers=headers)


def takes(stage: Stage, topic: str, most: int) -> None:
    """Set the topic's `max.message.bytes`."""
    entry = ConfigEntry("max.message.bytes", str(most), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": stage.bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


@pytest.fixture
def stage(kafka_broker: Broker) -> Stage:
    return Stage(kafka_broker)


def test_letters_come_back_once_with_their_own_headers(stage: Stage) -> None:
    topic, letters = stage.topic(2, 0), stage.topic(1, 0)
    again = [("marshal-redrives", b"1")]
    append(
        stage,
        letters,
        [
            (b"k0", b"first", dead(topic, 0, 7)),
            (b"k1", None, dead(topic, 1, 3) + again),
            (b"k2", b"second", dead(topic, 0, 8)),
        ],
    )
    group = ("--group", f"redrives-{letters}")
    where = (letters, "--bootstrap", stage.bootstrap, *group)
    listed = marshal("redrive", *where, "--dry-run")
    assert listed.returncode == 0, listed
    assert f"{topic}:1" in listed.stdout
    assert not read(stage, topic, 0)

    assert marshal("redrive", *where, "--max", "1").returncode == 0
    assert [each.value() for each in read(stage, topic, 0)] == [b"first"]
    assert marshal("redrive", *where).returncode == 0
    assert marshal("redrive", *where).stdout.startswith("redriven: 0 of")

    first, second = read(stage, topic, 0)
    [other] = read(stage, topic, 1)
    assert (first.key(), first.value()) == (b"k0", b"first")
    assert (second.key(), second.value()) == (b"k2", b"second")
    assert (other.key(), other.value()) == (b"k1", None)
    assert first.headers() == [*OWN, ("marshal-redrives", b"1")]
    assert other.headers() == [*OWN, ("marshal-redrives", b"2")]

    assert marshal("redrive", *where, "--from-beginning").returncode == 0
    assert len(read(stage, topic, 0)) == 4


def test_what_cannot_be_redriven_is_listed_and_passed_over(stage: Stage) -> None:
    topic, letters = stage.topic(1, 0), stage.topic(1, 0)
    append(
        stage,
        letters,
        [
            (b"k", b"no letter", OWN),
            (b"k", b"gone", dead(topic, 5, 1)),
            (b"k", b"fine", dead(topic, 0, 1)),
        ],
    )
    where = (letters, "--bootstrap", stage.bootstrap, "--group", f"redrives-{letters}")
    dry = marshal("redrive", *where, "--dry-run")
    assert dry.returncode == 1
    ran = marshal("redrive", *where)
    assert ran.returncode == 1
    assert "passed over: its headers do not say where it came from" in ran.stdout
    assert f"passed over: there is no {topic}:5" in ran.stdout
    assert [each.value() for each in read(stage, topic, 0)] == [b"fine"]
    assert marshal("redrive", *where).returncode == 0


def test_a_letter_that_cannot_be_appended_is_named(stage: Stage) -> None:
    topic, letters = stage.topic(1, 0), stage.topic(1, 0)
    """And nothing behind it is appended: each further try appended all of that once more."""
    few, large = (b"k", b"x" * 500, dead(topic, 0, 1)), (b"k", b"x" * 5_000, dead(topic, 0, 1))
    append(stage, letters, [few, large, few, few])
    where = (letters, "--bootstrap", stage.bootstrap, "--group", f"redrives-{letters}")
    for by in ("client", "client", "broker"):
        if by == "broker":
            takes(stage, topic, 2_000)
        limit = ("-X", "message.max.bytes=2000") if by == "client" else ()
        ran = marshal("redrive", *where, *limit)
        assert ran.returncode == 2
        assert f"{letters}: letter 0:1 to {topic}:0: " in ran.stderr
        assert "Traceback" not in ran.stderr
        assert len(read(stage, topic, 0)) == 1
    takes(stage, topic, 6_000)
    assert marshal("redrive", *where).returncode == 0
    assert len(read(stage, topic, 0)) == 4


def test_without_such_a_topic_it_does_not_run(stage: Stage) -> None:
    ran = marshal("redrive", "no-such-topic", "--bootstrap", stage.bootstrap)
    assert ran.returncode == 2
    assert "no-such-topic" in ran.stderr


def test_a_partition_without_an_answer_is_an_error_of_the_cluster() -> None:
    """It was a KeyError."""
    kafka = InMemoryKafka()
    kafka.create("dead")

    def refuse(question: str) -> None:
        if question == "list_offsets":
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    kafka.answers = refuse
    with pytest.raises(BrokerFailed, match=r"which offsets partitions hold: .* DESCRIBE"):
        DeadLetterTopic(kafka.settings(), "dead", "g")


def test_letters_to_a_topic_that_the_user_may_not_describe_wait_for_the_right() -> None:
    """They were passed over as if the topic did not exist, and committed as redriven."""
    kafka = InMemoryKafka()
    for topic in ("orders", "seen", "dead"):
        kafka.create(topic)
    for topic in ("seen", "orders", "orders"):
        kafka.append("dead", 0, b"x", tuple(dead(topic, 0, 1)))
    kafka.hidden.add("orders")
    letters = DeadLetterTopic(kafka.settings(), "dead", "g")
    with pytest.raises(BrokerFailed, match=r"topic orders: .*; the user needs DESCRIBE on it"):
        [letters.why_not(letter) for letter in letters.letters()]
    with pytest.raises(BrokerFailed, match=r"topic orders: .*; the user needs DESCRIBE on it"):
        letters.redrive()
    assert kafka.committed["g", "dead", 0] == 1
    kafka.hidden.clear()
    redriven = DeadLetterTopic(kafka.settings(), "dead", "g").redrive()
    assert (redriven.appended, redriven.passed_over) == (2, [])
    assert len(kafka.records(topic="orders")) == 2
