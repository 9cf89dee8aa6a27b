"""A question is asked again while a broker is down, and what nobody answered is no answer."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import attrs
import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.environment import FetchClient
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import CoordinationReader, Watermarks
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import COORDINATION_TOPIC, BrokerFailed
from kafka_marshal.testing.in_memory import DOWN, PAUSED, UP, InMemoryKafka, Link, Scheduler


@pytest.fixture
def kafka() -> InMemoryKafka:
    kafka = InMemoryKafka(scheduler=Scheduler(seed=1))
    kafka.create("orders", messages=3)
    return kafka


def mended_after(kafka: InMemoryKafka, seconds: float, link: Link) -> None:
    """The way to the broker works again after a while."""
    scheduler = kafka.scheduler
    assert scheduler is not None
    kafka.link(link)

    def mends() -> None:
        assert scheduler is not None
        scheduler.sleep(seconds)
        kafka.link(UP)

    scheduler.begin("operator", mends)


@pytest.mark.parametrize("link", [DOWN, PAUSED])
def test_what_a_log_holds_is_asked_again_while_its_broker_starts(
    kafka: InMemoryKafka, link: Link
) -> None:
    """librdkafka knows no partition whose only broker has ended (`_UNKNOWN_PARTITION`)."""
    with closing(CoordinationReader(kafka.settings(), COORDINATION_TOPIC)) as reader:
        mended_after(kafka, 5.0, link)
        assert reader.extents() == {0: Watermarks(0, 0)}


def test_an_offset_that_no_broker_gave_is_none(kafka: InMemoryKafka) -> None:
    """librdkafka answers -1001, and no error, where a leader stands still."""
    cluster = ClusterClient(kafka.settings())
    assert cluster.ends([("orders", 0)]) == {("orders", 0): 3}
    kafka.link(PAUSED)
    assert cluster.ends([("orders", 0)]) == {}
    assert cluster.extents([("orders", 0)]) == {}
    with pytest.raises(BrokerFailed, match="offsets at a time"):
        cluster.offsets_at([("orders", 0)], 0)


def test_offsets_at_a_time_are_asked_again_while_a_leader_stands_still(
    kafka: InMemoryKafka,
) -> None:
    cluster = ClusterClient(kafka.settings())
    mended_after(kafka, 3.0, PAUSED)
    assert cluster.offsets_at([("orders", 0)], 0) == {("orders", 0): 0}


class Unanswered:
    """A client that goes on asking a coordinator which has moved away."""

    def __init__(self, client: FetchClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def committed(self, *_: object, timeout: float) -> Any:
        scheduler = self._client._kafka.scheduler  # type: ignore[attr-defined]
        scheduler.sleep(timeout)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


def unanswered_by(kafka: InMemoryKafka, made: list[FetchClient], clients: int) -> Settings:
    """The first clients that are made get no committed offsets."""

    def fetcher(made_of: dict[str, Any], **more: Any) -> Any:
        client = kafka.environment.fetcher(made_of, **more)
        made.append(Unanswered(client) if len(made) < clients else client)  # type: ignore[arg-type]
        return made[-1]

    return attrs.evolve(
        kafka.settings(), environment=attrs.evolve(kafka.environment, fetcher=fetcher)
    )


def test_committed_offsets_are_not_waited_for_after_a_stop(kafka: InMemoryKafka) -> None:
    settings = unanswered_by(kafka, [], 100)
    began_s = kafka.clock.monotonic()
    with pytest.raises(BrokerFailed, match="committed offsets of group g"):
        ClusterMetadata(settings).committed(
            "g", [("orders", 0)], stopped=lambda: kafka.clock.monotonic() > began_s + 2
        )
    assert kafka.clock.monotonic() - began_s < 10


@pytest.mark.parametrize("unanswered", [0, 2, 100])
def test_committed_offsets_are_asked_again_by_another_client(
    kafka: InMemoryKafka, unanswered: int
) -> None:
    made: list[FetchClient] = []
    settings = unanswered_by(kafka, made, unanswered)
    began_s = kafka.clock.monotonic()
    if unanswered == 100:
        with pytest.raises(BrokerFailed, match="committed offsets of group g"):
            ClusterMetadata(settings).committed("g", [("orders", 0)])
        assert 60 <= kafka.clock.monotonic() - began_s < 80
    else:
        assert ClusterMetadata(settings).committed("g", [("orders", 0)]) == {}
        assert len(made) == unanswered + 1
