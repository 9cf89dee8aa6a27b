"""`marshal doctor --groups`: each thing about `__marshal_groups` that is wrong is found."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kafka_marshal.admin.doctor.groups_log import BECAUSE, examine_groups, of_settings
from kafka_marshal.cli.app import app
from kafka_marshal.client.connect.admin_client import (
    ClusterClient,
    PartitionDescription,
    TopicDescription,
)
from kafka_marshal.client.connect.coordination_topic import TopicSpec, settings_for
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.client.groups.event_log import GROUPS_TOPIC, PARTITIONS, RETENTION_MS
from kafka_marshal.testing import Broker
from tests.cli.run import marshal

GOOD = settings_for(TopicSpec(GROUPS_TOPIC, PARTITIONS, retention_ms=RETENTION_MS), 3)


def topic(partitions: int = PARTITIONS, copies: int = 3) -> TopicDescription:
    brokers = tuple(range(1, copies + 1))
    one = PartitionDescription(1, brokers, brokers)
    return TopicDescription(GROUPS_TOPIC, dict.fromkeys(range(partitions), one), None)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"retention.ms": "-1"},
        {"retention.ms": str(2 * RETENTION_MS)},
    ],
)
def test_a_log_of_groups_as_a_controller_makes_it_is_fine(more: dict[str, str]) -> None:
    assert list(of_settings({**GOOD, **more}, topic())) == []
    alone = {**GOOD, "min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    assert list(of_settings(alone, topic(copies=1))) == []


@pytest.mark.parametrize(
    ("name", "value", "severity"),
    [
        ("message.timestamp.type", "CreateTime", "warning"),
        ("cleanup.policy", "compact", "error"),
        ("cleanup.policy", "compact,delete", "error"),
        ("retention.ms", str(RETENTION_MS - 1), "warning"),
        ("retention.bytes", "1000000", "warning"),
        ("unclean.leader.election.enable", "true", "error"),
        ("min.insync.replicas", "1", "warning"),
        ("min.insync.replicas", "3", "warning"),
    ],
)
def test_each_setting_of_it_that_is_wrong_is_found(name: str, value: str, severity: str) -> None:
    found = list(of_settings({**GOOD, name: value}, topic()))
    assert [(one.severity.value, one.check) for one in found] == [(severity, name)]
    assert all(one.endangers and one.do for one in found)


@pytest.mark.parametrize("partitions", [1, 15, 17])
def test_another_number_of_its_partitions_is_found(partitions: int) -> None:
    [found] = of_settings(GOOD, topic(partitions))
    assert (found.severity.value, found.check) == ("error", "partitions")


def test_the_doctor_examines_it_on_a_broker(kafka_broker: Broker) -> None:
    settings = settings_of(kafka_broker.bootstrap)
    cluster = ClusterClient(settings)
    [missing] = examine_groups(settings, "groups-missing").findings
    assert (missing.severity.value, missing.check) == ("error", "topic")
    cluster.create_topic("groups-good", PARTITIONS, 1, {**GOOD, "min.insync.replicas": "1"})
    good = examine_groups(settings, "groups-good")
    assert [(one.severity.value, one.check) for one in good.findings] == [("note", "copies")]
    assert set(good.fine) == {*BECAUSE, "leaders", "permissions"}
    cluster.create_topic(GROUPS_TOPIC, 2, 1, {})
    try:
        ran = marshal("doctor", "--groups", "--json", "--bootstrap", kafka_broker.bootstrap)
        other = marshal(
            *("doctor", "--groups", "--topic", "groups-good", "--json"),
            *("--bootstrap", kafka_broker.bootstrap),
        )
    finally:
        cluster.delete_topic(GROUPS_TOPIC)
    assert (other.returncode, json.loads(other.stdout)["topic"]) == (0, "groups-good")
    assert ran.returncode == 1
    loud = {each["check"]: each for each in json.loads(ran.stdout)["findings"]}
    assert loud["partitions"]["found"] == "partitions is 2"
    assert {"message.timestamp.type", "retention.ms"} < set(loud)


@pytest.mark.parametrize(
    "option",
    [
        ("--probe",),
        ("--records", "5"),
        ("--keys", "keys.toml"),
        ("--heartbeat-interval", "10s"),
        ("--pause-max", "2d"),
    ],
)
def test_an_option_that_does_not_apply_to_the_log_of_groups_is_refused(
    option: tuple[str, ...],
) -> None:
    """It was ignored."""
    ran = CliRunner().invoke(app, ["doctor", "--groups", "--bootstrap", "127.0.0.1:1", *option])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == f"marshal: {option[0]} is for claims, not for --groups\n"
