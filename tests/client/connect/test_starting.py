"""Marshal promises that a start waits for a broker that is away, and for nothing that is final."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from attrs import evolve
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.testing.in_memory.admin import InMemoryAdmin
from tests.client.doubles import LOG, Kafka

PASSING = [
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.NETWORK_EXCEPTION,
]
FINAL = [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION]
QUESTIONS = ["list_topics", "get_watermark_offsets", "describe_topics", "committed", "list_offsets"]
"""Whatever a start asks for: the coordination topic, its ends, the topic, where the group is."""


class DeadController(Kafka):
    """Its controller dies; for some seconds the other brokers go on naming it.

    As librdkafka does, an administrator waits for the one that it was named last until its request
    times out. It asks who it is only together with the topics of the whole cluster.
    """

    def __init__(self, named_s: float) -> None:
        super().__init__()
        self.named_until_s = self.clock.monotonic() + named_s

    @property
    def environment(self) -> Environment:
        return evolve(super().environment, admin=partial(PatientAdmin, self))


class PatientAdmin(InMemoryAdmin):
    """An administrator of a `DeadController`."""

    def __init__(self, kafka: DeadController, made_of: dict[str, Any], **more: Any) -> None:
        super().__init__(kafka, made_of, **more)
        self.kafka = kafka
        self.names_dead = True

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        assert not topic, "that may create it"
        self.names_dead = self.kafka.clock.monotonic() < self.kafka.named_until_s
        return super().list_topics(topic, timeout)

    def _promised(self, *asked: Any, **more: Any) -> Future[Any]:
        if not self.names_dead:
            return super()._promised(*asked, **more)
        promised: Future[Any] = Future()
        promised.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        return promised

    def describe_topics(self, *of: Any, **asked: Any) -> dict[str, Future[Any]]:
        self._waits(**asked)
        return super().describe_topics(*of, **asked)

    def describe_configs(self, *of: Any, **asked: Any) -> dict[Any, Future[Any]]:
        self._waits(**asked)
        return super().describe_configs(*of, **asked)

    def list_offsets(self, *of: Any, **asked: Any) -> dict[TopicPartition, Future[Any]]:
        self._waits(**asked)
        return super().list_offsets(*of, **asked)

    def _waits(self, request_timeout: float, **_: Any) -> None:
        if self.names_dead:
            self.kafka.clock.advance(request_timeout)


@pytest.fixture
def kafka() -> Kafka:
    kafka = Kafka()
    kafka.create("orders", partitions=1, messages=10)
    return kafka


def refusing(kafka: Kafka, question: str, codes: Sequence[int]) -> Counter[str]:
    """The question is refused with these, one after the other; returns how often each was asked."""
    asked: Counter[str] = Counter()

    def answers(name: str) -> None:
        asked[name] += 1
        if name == question and asked[name] <= len(codes):
            kafka.clock.ahead_s += 1
            raise KafkaException(KafkaError(codes[asked[name] - 1]))

    kafka.answers = answers
    return asked


def starts(kafka: Kafka) -> None:
    with kafka.consumer(auto_offset_reset="latest") as consumer:
        consumer.add_topic("orders")
        kafka.produce("orders", 1)
        message = consumer.poll(timeout_s=20)
        assert message is not None
        assert message.offset == 10


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_start_asks_again_while_a_broker_is_away(kafka: Kafka, question: str) -> None:
    asked = refusing(kafka, question, PASSING)
    starts(kafka)
    assert asked[question] > len(PASSING)


@pytest.mark.parametrize("named_s", [0.0, 9.0])
def test_a_start_finds_the_controller_that_follows_a_dead_one(named_s: float) -> None:
    """Brokers name a dead one as controller until its lease runs out, 9 s by default."""
    kafka = DeadController(named_s)
    kafka.create("orders", partitions=1, messages=10)
    starts(kafka)


def test_settings_and_offsets_find_the_broker_that_follows_a_dead_one() -> None:
    for named_s in (0.0, 9.0):
        kafka = DeadController(named_s)
        kafka.create("orders", partitions=1, messages=10)
        settings = ClusterClient(kafka.settings()).topic_settings("orders")
        assert settings["message.timestamp.type"] == "CreateTime"
        at_ms = kafka.clock.unix_ms() - 3_600_000
        assert ClusterClient(kafka.settings()).offsets_at([("orders", 0)], at_ms) == {
            ("orders", 0): 0
        }


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_start_gives_up_in_the_end(kafka: Kafka, question: str) -> None:
    refusing(kafka, question, [KafkaError._TRANSPORT] * 1000)
    with pytest.raises(BrokerFailed, match="in-memory:9092"):
        starts(kafka)


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("code", FINAL, ids=lambda code: KafkaError(code).name())
def test_a_start_asks_once_for_what_is_final(kafka: Kafka, question: str, code: int) -> None:
    asked = refusing(kafka, question, [code] * 1000)
    with pytest.raises(BrokerFailed, match="in-memory:9092"):
        starts(kafka)
    assert asked[question] == 1


def test_a_topic_whose_leader_is_being_chosen_is_waited_for(kafka: Kafka) -> None:
    kafka.topic_errors[LOG] = [KafkaError(KafkaError.LEADER_NOT_AVAILABLE)] * 3
    starts(kafka)
    assert kafka.topic_errors[LOG] == []


def test_a_committed_offset_that_cannot_be_told_is_not_taken_for_none(kafka: Kafka) -> None:
    kafka.committed["g", "orders", 0] = 7
    kafka.offset_errors = [KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)] * 3
    with kafka.consumer() as consumer:
        consumer.add_topic("orders")
        message = consumer.poll(timeout_s=20)
        assert message is not None
        assert message.offset == 7


def test_the_settings_of_a_topic_are_asked_for_again_while_a_broker_has_not_heard_of_it(
    kafka: Kafka,
) -> None:
    """Another broker answers than the one that knew the topic already."""
    asked = refusing(kafka, "describe_configs", [KafkaError.UNKNOWN_TOPIC_OR_PART])
    assert ClusterClient(kafka.settings()).topic_settings("orders")["retention.ms"]
    assert asked["describe_configs"] == 2


def test_an_offset_at_a_time_that_cannot_be_told_is_not_taken_for_the_end(kafka: Kafka) -> None:
    kafka.offset_errors = [KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)] * 3
    with closing(CoordinationReader(kafka.settings(), "orders")) as tail:
        extents = tail.extents()
        assert tail.offsets_at("2001-01-01T00:00", "--from", extents) == {0: 0}
        assert tail.offsets_at("2100-01-01T00:00", "--from", extents) == {0: 10}
    assert kafka.offset_errors == []


def test_a_topic_that_a_broker_has_not_heard_of_yet_is_asked_for_again(kafka: Kafka) -> None:
    """The first broker that is asked after `create` need not be the one that created it."""
    answers = [True, True, False]
    kafka.missing = lambda _: answers.pop(0) if answers else False
    starts(kafka)
    assert answers == []
