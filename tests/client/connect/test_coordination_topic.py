from __future__ import annotations

import uuid

import attrs
import pytest

from kafka_marshal import FENCED
from kafka_marshal.client.connect.admin_client import (
    ClusterClient,
    PartitionDescription,
    TopicDescription,
)
from kafka_marshal.client.connect.coordination_topic import (
    TopicSpec,
    differences,
    init,
    retention_needed_ms,
    settings_for,
    written,
)
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.core.claims.suffix_reader import Knowledge, Reader, read_record
from kafka_marshal.core.messages import ClaimingPartition, Partition, Record
from kafka_marshal.errors import BrokerFailed, InvalidOption
from kafka_marshal.testing import Broker
from tests.cli.run import marshal

QUICK = attrs.evolve(FENCED, heartbeat_interval_ms=1_000, pause_max_ms=60_000)


def new_name() -> str:
    return f"marshal-{uuid.uuid4().hex[:8]}"


def client(broker: Broker) -> ClusterClient:
    return ClusterClient(settings_of(broker.bootstrap))


def seen(partitions: int = 10, copies: int = 3) -> TopicDescription:
    replicas = tuple(range(copies))
    one = PartitionDescription(0, replicas, replicas)
    return TopicDescription("t", dict.fromkeys(range(partitions), one), None)


def request(at_ms: int, offset: int) -> Record:
    return Record(0, offset, at_ms, ClaimingPartition(1, 0, "i1", "c1", "g", "t", Partition(0)))


def test_a_claim_is_known_after_what_the_retention_keeps_at_least() -> None:
    """The first record is as old as the retention allows, the request is new."""
    needed_ms = retention_needed_ms(QUICK)
    for kept_ms, knowledge in ((needed_ms, Knowledge.KNOWN), (60_000, Knowledge.UNKNOWN)):
        reader = Reader.beginning_at(7)
        for record in (request(0, 7), request(kept_ms, 8)):
            reader, _ = read_record(reader, record, QUICK)
        assert reader.knowledge is knowledge


def test_a_new_topic_has_the_settings_that_the_rules_need(kafka_broker: Broker) -> None:
    name = new_name()
    made = init(client(kafka_broker), TopicSpec(name, partitions=3))
    assert made.created
    hold = client(kafka_broker).topic_settings(name)
    assert hold["message.timestamp.type"] == "LogAppendTime"
    assert hold["cleanup.policy"] == "delete"
    assert int(hold["retention.ms"]) >= 2 * retention_needed_ms()
    assert {key: hold[key] for key in made.settings} == made.settings
    found = client(kafka_broker).topic(name)
    assert found is not None
    assert len(found.partitions) == 3


def test_a_topic_that_exists_is_left_as_it_is_and_what_differs_is_said(
    kafka_broker: Broker,
) -> None:
    name = new_name()
    cluster = client(kafka_broker)
    settings = {"message.timestamp.type": "CreateTime", "retention.ms": "3600000"}
    cluster.create_topic(name, 2, 1, settings)
    made = init(cluster, TopicSpec(name, partitions=4))
    assert not made.created
    assert {one.what for one in made.differences} == {
        "partitions",
        "message.timestamp.type",
        "retention.ms",
    }
    hold = cluster.topic_settings(name)
    assert {key: hold[key] for key in settings} == settings
    found = cluster.topic(name)
    assert found is not None
    assert len(found.partitions) == 2


def test_a_topic_of_ours_does_not_differ_and_more_safety_is_no_difference() -> None:
    wanted = TopicSpec("t")
    hold = settings_for(wanted, 3)
    assert differences(wanted, seen(64), hold, brokers=3) == []
    longer = {**hold, "retention.ms": "-1", "min.insync.replicas": "3"}
    assert differences(wanted, seen(copies=5), longer, brokers=5) == []
    assert [one.what for one in differences(wanted, seen(copies=2), hold, brokers=3)] == ["copies"]
    for name, value in {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "compact,delete",
        "retention.ms": str(retention_needed_ms() - 1),
        "retention.bytes": "1000000",
        "min.insync.replicas": "1",
        "unclean.leader.election.enable": "true",
    }.items():
        [one] = differences(wanted, seen(), {**hold, name: value}, brokers=3)
        assert (one.what, one.is_now) == (name, value)


def test_what_was_asked_for_is_held_to_the_letter() -> None:
    asked = TopicSpec("t", partitions=10, copies=2, retention_ms=10 * retention_needed_ms())
    hold = settings_for(TopicSpec("t"), 3)
    assert {one.what for one in differences(asked, seen(), hold, 3)} == {"copies", "retention.ms"}


def test_an_append_counts_when_two_have_it_if_there_are_two() -> None:
    assert [written(copies) for copies in (1, 2, 3)] == [1, 2, 2]


def test_a_retention_that_is_too_short_or_copies_without_brokers_are_no_topic(
    kafka_broker: Broker,
) -> None:
    name = new_name()
    with pytest.raises(InvalidOption, match="at least 86580 s"):
        init(client(kafka_broker), TopicSpec(name, retention_ms=3_600_000))
    with pytest.raises(InvalidOption, match="the cluster has 1 broker"):
        init(client(kafka_broker), TopicSpec(name, copies=3))
    assert client(kafka_broker).topic(name) is None


def test_a_cluster_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(BrokerFailed, match=r"127\.0\.0\.1:1: .*refused"):
        ClusterClient(settings_of("127.0.0.1:1", options=["socket.timeout.ms=1000"])).brokers()


def test_the_command_says_what_it_made_and_then_that_it_is_there(kafka_broker: Broker) -> None:
    at = ("--bootstrap", kafka_broker.bootstrap, "--topic", new_name())
    first, second = (marshal("init", *at) for _ in range(2))
    assert (first.returncode, second.returncode) == (0, 0)
    assert "created: 10 partitions" in first.stdout
    assert "exists: 10 partitions" in second.stdout
    third = marshal("init", *at, "--partitions", "12")
    assert third.returncode == 1
    assert "differs: partitions is 10, not 12" in third.stdout
    assert "Nothing was changed" in third.stdout
    wrong = marshal("init", *at, "--retention", "soon")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr == (
        "marshal: --retention must be a duration like 90s, 10m or 1h30m, not 'soon'\n"
    )
