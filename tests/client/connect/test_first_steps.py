"""What a new user meets first: a cluster without a coordination topic."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

import kafka_marshal
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.admin_client import ClusterClient, TopicDescription
from kafka_marshal.client.connect.coordination_topic import TopicSpec, ensure
from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.reader import SPREADS_S, CoordinationReader
from kafka_marshal.client.connect.settings import Settings, settings_of
from kafka_marshal.errors import BrokerFailed, InvalidOption, NoCoordinationTopic
from kafka_marshal.testing import Broker
from tests.cli.run import marshal
from tests.client.hands import new_name

EVERY = ("--heartbeat-interval", "60s")


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("groups",),
        ("watch", *EVERY),
        ("receipts", "g", "t"),
        ("set-position", "g", "t=5"),
        ("replay", *EVERY, "--out", "out"),
    ],
    ids=lambda command: command[0],
)
def test_a_command_without_a_coordination_topic_names_the_command_that_makes_it(
    kafka_broker: Broker, tmp_path: Path, command: Sequence[str]
) -> None:
    at = ("--bootstrap", kafka_broker.bootstrap, "--topic", "nowhere")
    ran = marshal(*command, *at, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        f"marshal: {kafka_broker.bootstrap}: there is no topic nowhere; make it with: "
        f"marshal init --bootstrap {kafka_broker.bootstrap} --topic nowhere\n"
    )


def test_a_consumer_says_it_too_and_the_command_does_what_it_says(kafka_broker: Broker) -> None:
    name = new_name("marshal")

    def consumer() -> Consumer:
        return Consumer(
            [kafka_broker.bootstrap], group_id="g", client_id="c", coordination_topic=name
        )

    with pytest.raises(NoCoordinationTopic) as missing:
        consumer()
    doctor = marshal("doctor", "--bootstrap", kafka_broker.bootstrap, "--topic", name).stdout
    command = str(missing.value).rpartition("make it with: marshal ")[2]
    assert f"do: make it with: marshal {command}\n" in doctor
    assert marshal(*shlex.split(command)).returncode == 0
    consumer().close()


def test_a_consumer_makes_the_topic_when_asked_and_finds_it_the_next_time(
    kafka_broker: Broker,
) -> None:
    name = new_name("marshal")
    for client_id in ("first", "second"):
        with Consumer(
            kafka_broker.bootstrap,
            group_id="g",
            client_id=client_id,
            coordination_topic=name,
            create_coordination_topic=True,
        ):
            pass
    hold = ClusterClient(settings_of(kafka_broker.bootstrap)).topic_settings(name)
    assert hold["message.timestamp.type"] == "LogAppendTime"


@pytest.mark.parametrize("mapping", [False, True])
def test_the_function_makes_it_once(kafka_broker: Broker, mapping: bool) -> None:
    name = new_name("marshal")
    cluster: Any = kafka_broker.bootstrap
    if mapping:
        cluster = {"bootstrap.servers": kafka_broker.bootstrap, "client.id": "me"}
    made = [kafka_marshal.create_coordination_topic(cluster, name) for _ in range(2)]
    assert made == [True, False]
    with pytest.raises(InvalidOption, match=r"bootstrap\.servers is missing"):
        kafka_marshal.create_coordination_topic({"client.id": "me"})


class Slower(ClusterClient):
    """Somebody else creates the topic after it was looked for."""

    def create_topic(
        self,
        name: str,
        partitions: int,
        copies: int,
        settings: Mapping[str, str],
        brokers: Sequence[int] = (),
    ) -> None:
        assert ensure(ClusterClient(self.settings), TopicSpec(name, partitions=3))[1]
        super().create_topic(name, partitions, copies, settings, brokers)


def test_of_two_that_create_it_at_once_both_have_it(kafka_broker: Broker) -> None:
    seen, created = ensure(
        Slower(settings_of(kafka_broker.bootstrap)), TopicSpec(new_name("marshal"))
    )
    assert (len(seen.partitions), created) == (3, False)


class Electing(ClusterClient):
    """While leaders of a new topic are made, a broker answers with an error."""

    asked = 0

    def topic(self, name: str, spreads_s: float = SPREADS_S) -> TopicDescription | None:
        self.asked += 1
        if self.asked == 2:
            raise BrokerFailed("Broker: Leader not available")
        return super().topic(name, spreads_s)


def test_a_new_topic_without_leaders_is_waited_for(kafka_broker: Broker) -> None:
    cluster = Electing(settings_of(kafka_broker.bootstrap))
    assert ensure(cluster, TopicSpec(new_name("marshal")))[1]
    assert cluster.asked >= 3


class Behind(confluent_kafka.Consumer):
    """The broker that is asked hears of new topics late."""

    asked = 0

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:  # type: ignore[override]
        self.asked += 1
        return super().list_topics("nowhere" if self.asked < 3 else topic, timeout=timeout)


def test_a_broker_that_has_not_heard_of_a_new_topic_is_asked_again(kafka_broker: Broker) -> None:
    name = new_name("marshal")
    kafka_marshal.create_coordination_topic(kafka_broker.bootstrap, name, partitions=2)
    behind = Environment(log_reader=Behind)
    tail = CoordinationReader(
        Settings({"bootstrap.servers": kafka_broker.bootstrap}, environment=behind), name
    )
    assert tail.partitions == (0, 1)
    tail.close()


def test_the_brokers_of_the_fixtures_have_it(kafka_broker: Broker) -> None:
    assert ClusterClient(settings_of(kafka_broker.bootstrap)).topic("__marshal") is not None


def test_the_cluster_is_found_in_the_environment_and_in_the_configuration_file(
    kafka_broker: Broker, tmp_path: Path
) -> None:
    file = tmp_path / "config.properties"
    file.write_text(f"bootstrap.servers={kafka_broker.bootstrap}\n")
    for known in (
        {"MARSHAL_BOOTSTRAP": kafka_broker.bootstrap},
        {"MARSHAL_CONFIG": str(file)},
        {"MARSHAL_CONFIG": str(file), "MARSHAL_BOOTSTRAP": kafka_broker.bootstrap},
    ):
        listed = marshal("groups", cwd=None, **known)
        assert (listed.returncode, listed.stderr) == (0, "")
        assert "in __marshal" in listed.stdout


def test_the_core_needs_no_client_of_kafka() -> None:
    asks = "import sys, kafka_marshal; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asks], check=False).returncode == 0
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kafka_marshal.nothing  # noqa: B018
