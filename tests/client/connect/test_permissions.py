"""Brokers with ACLs: what a user needs, and which errors one gets who has less."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not in __all__
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kafka_marshal import Producer, ProducerFailed, ProducerRecord
from kafka_marshal.admin.doctor.doctor import CheckFinding, examine
from kafka_marshal.admin.view import View
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.coordination_topic import TopicSpec, init
from kafka_marshal.client.connect.log_writer import LogWriter, NotAppended, OutcomeUnknown
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.message import Message
from kafka_marshal.core.messages import NO_HEADERS, ClaimingPartition, Partition
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.replay.live.live_findings import BEGUN, LiveEvent
from kafka_marshal.replay.live.sinks import ToTopic
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.testing import QUICK, Broker, Guard
from tests.cli.run import marshal
from tests.client.crew import until
from tests.client.guards import written
from tests.client.hands import new_name
from tests.docs.pages import ROOT

USERS = {
    name: f"{name}-has-this"
    for name in ("root", "alice", "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan")
} | {name: f"{name}-has-this" for name in ("billing-app", "operator", "auditor")}
ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",  # the first is the broker itself
}
TOPIC = (ResourceType.TOPIC, "__marshal")
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE


class Guarded:
    """A broker, seen by its users."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._admin = AdminClient(self.of("root").for_client())
        init(ClusterClient(self.of("root")), TopicSpec("__marshal", 1))
        with LogWriter(self.of("root"), "__marshal") as log:
            said = ClaimingPartition(1, 0, "i1", "c1", "billing", "orders", Partition(0))
            log.append(0, said, NO_HEADERS).result(30)

    def of(self, user: str) -> Settings:
        """How somebody connects."""
        return Settings(
            {
                "bootstrap.servers": self.broker.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": user,
                "sasl.password": USERS[user],
            }
        )

    def allow(
        self, user: str, operation: AclOperation, kind: ResourceType, name: str, by: str = "LITERAL"
    ) -> None:
        """It takes a moment to hold."""
        pattern = ResourcePatternType[by]
        who = (f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        wanted = AclBinding(kind, name, pattern, *who)
        self._admin.create_acls([wanted])[wanted].result(30)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    with Broker(guard=Guard(USERS), settings=ACLS, java_options=QUICK) as broker:
        yield Guarded(broker)


def eventually(
    settings: Settings,
    *expected: tuple[str, str],
    topic: str = "__marshal",
    probe: bool = False,
) -> list[CheckFinding]:
    """What is found, once it is this, besides notes."""
    deadline = time.monotonic() + 60
    while True:
        found = examine(settings, topic, probe=probe).findings
        loud = [one for one in found if one.severity.value != "note"]
        if [(one.severity.value, one.check) for one in loud] == list(expected):
            return loud
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_what_a_user_may_not_do_is_told_with_what_it_endangers_and_who_could_allow_it(
    guarded: Guarded,
) -> None:
    alice = guarded.of("alice")
    missing, unseen = ("error", "permissions"), ("unchecked", "settings")
    [nothing] = eventually(alice, missing)
    assert "may not see whether there is a topic __marshal" in nothing.found
    guarded.allow("alice", DESCRIBE, *TOPIC)
    may_not = eventually(alice, missing, missing, unseen, ("unchecked", "records"))[:2]
    assert [one.found.split()[-3] for one in may_not] == ["READ", "WRITE"]
    guarded.allow("alice", READ, *TOPIC)
    found = eventually(alice, missing, unseen, ("error", "group permissions"))
    assert found[0].found == "the user of these settings may not WRITE the topic"
    assert "DESCRIBE_CONFIGS" in found[1].do
    assert found[2].found == "the user of these settings may not see group billing"
    guarded.allow("alice", WRITE, *TOPIC)
    guarded.allow("alice", DESCRIBE, ResourceType.GROUP, "billing")
    [_, lag] = eventually(alice, unseen, ("warning", "group permissions"))
    assert lag.found == "the user of these settings may not READ group billing"
    guarded.allow("alice", READ, ResourceType.GROUP, "billing")
    eventually(alice, unseen)


def test_what_the_doctor_prescribes_helps(guarded: Guarded, tmp_path: Path) -> None:
    [finding] = eventually(guarded.of("bob"), ("error", "permissions"))
    words = finding.do.partition("kafka-acls.sh ")[2].partition(",")[0].split()
    placed = {"HOST:PORT": guarded.broker.bootstrap, "User:NAME": "User:bob"}
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    java = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{login} username="root" password="{USERS["root"]}";',
    }
    root = ("--command-config", str(written(java, tmp_path / "root.properties")))
    guarded.broker.tool(
        "org.apache.kafka.tools.AclCommand", *(placed.get(word, word) for word in words), *root
    )
    found = eventually(
        guarded.of("bob"),
        ("error", "permissions"),
        ("unchecked", "settings"),
        ("error", "group permissions"),
    )
    assert found[0].found == "the user of these settings may not WRITE the topic"


def test_whoever_only_reads_needs_no_group(guarded: Guarded, tmp_path: Path) -> None:
    guarded.allow("carol", READ, *TOPIC)
    eventually(
        guarded.of("carol"),
        ("error", "permissions"),
        ("unchecked", "settings"),
        ("error", "group permissions"),
    )
    with View(guarded.of("carol"), "__marshal") as view:
        view.read()
        assert view.records > 0
    options = ("-F", str(written(dict(guarded.of("carol").values), tmp_path / "carol.properties")))
    listed = marshal("ls", *options)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "billing" in listed.stdout


def test_whoever_may_write_nothing_is_told_at_once_and_nothing_is_left_waiting(
    guarded: Guarded, tmp_path: Path
) -> None:
    data = new_name("orders")
    ClusterClient(guarded.of("root")).create_topic(data, 1, 1, {})
    guarded.allow("frank", READ, ResourceType.TOPIC, data)
    guarded.allow("frank", READ, *TOPIC)
    settings, said = guarded.of("frank"), list[str]()
    eventually(
        settings,
        ("error", "permissions"),
        ("unchecked", "settings"),
        ("error", "group permissions"),
    )
    message = ClaimingPartition(1, 0, "i2", "c2", "billing", "orders", Partition(0))
    for _ in range(3):  # closing may be the first that hears of it
        with LogWriter(settings, "__marshal", said.append) as log:
            appending = log.append(0, message, NO_HEADERS)
        with pytest.raises(OutcomeUnknown, match="whether the user may WRITE topic __marshal"):
            appending.result(0)
        assert log.failed == said.pop()
    with LogWriter(settings, "__marshal", said.append) as log:
        with pytest.raises(OutcomeUnknown, match="whether the user may WRITE topic __marshal"):
            log.append(0, message, NO_HEADERS).result(120)
        with pytest.raises(NotAppended, match="whether the user may WRITE topic __marshal"):
            log.append(0, message, NO_HEADERS).result(0)
    options = ("-F", str(written(dict(settings.values), tmp_path / "frank.properties")))
    pausing = marshal("pause", "billing", "--for", "1m", *options)
    assert (pausing.returncode, pausing.stdout) == (2, "")
    setting = marshal("set-position", "billing", f"{data}:0=0", *options)
    assert setting.returncode == 1
    assert "set: 0 of 1" in setting.stdout
    for words in (pausing.stderr, setting.stdout):
        assert "see whether the user may WRITE topic __marshal" in words


def test_a_fatal_error_gives_each_record_an_outcome_and_the_next_send_says_what_to_do(
    guarded: Guarded,
) -> None:
    """Who may write no topic gets no producer id, which is fatal for an idempotent producer."""
    heidi = guarded.of("heidi")
    guarded.allow("heidi", DESCRIBE, *TOPIC)
    until(lambda: "__marshal" in ClusterClient(heidi).topics())
    with Producer(settings=heidi) as producer:
        responses = [producer.send(ProducerRecord("__marshal", b"x")) for _ in range(3)]
        assert producer.flush(60)
        for response in responses:
            with pytest.raises(BrokerFailed, match="may WRITE the producer's topics"):
                response.result()
        with pytest.raises(ProducerFailed, match=r"may WRITE .*: this .* go on with another"):
            producer.send(ProducerRecord("__marshal", b"x"))
        assert producer.buffered_bytes == 0


def test_a_topic_for_findings_that_may_not_be_written_is_named_with_the_right_that_is_missing(
    guarded: Guarded, capfd: pytest.CaptureFixture[str]
) -> None:
    heidi = guarded.of("heidi")
    guarded.allow("heidi", DESCRIBE, *TOPIC)
    finding = LiveEvent(BEGUN, FindingRow(code="forged", severity="error", sentence="it is"))
    with closing(ToTopic(heidi, "__marshal")) as told:
        told.emit(finding)
        with pytest.raises(BrokerFailed, match=r"^--to-topic __marshal: .*may WRITE topic __mar"):
            told.settle()
        with pytest.raises(BrokerFailed, match=r"Cluster authorization.*may WRITE topic __marshal"):
            told.emit(finding)
    assert "FATAL" not in capfd.readouterr().err


def test_a_comparison_of_clocks_that_is_not_allowed_is_said_and_leaves_the_rest_examined(
    guarded: Guarded,
) -> None:
    settings = guarded.of("dave")
    for operation in (READ, WRITE, AclOperation.DESCRIBE_CONFIGS):
        guarded.allow("dave", operation, *TOPIC)
    guarded.allow("dave", READ, ResourceType.GROUP, "billing")
    [finding] = eventually(settings, ("unchecked", "clocks now"), probe=True)
    assert "creating marshal-doctor-" in finding.found
    guarded.allow("dave", AclOperation.CREATE, ResourceType.TOPIC, "marshal-doctor", by="PREFIXED")
    deadline = time.monotonic() + 60
    while "did not stamp" not in finding.found:
        assert time.monotonic() < deadline
        [finding] = eventually(settings, ("unchecked", "clocks now"), probe=True)
    assert "did not stamp a record: Broker: Topic authorization failed" in finding.found
    [left] = [
        one for one in examine(settings, "__marshal", probe=True).findings if "still" in one.found
    ]
    name = left.found.split()[1].rstrip(",")
    assert name in ClusterClient(guarded.of("root")).topics()


def test_a_consumer_needs_to_read_and_write_the_log_and_to_read_its_topics_and_its_group(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    erin, data, group = guarded.of("erin"), new_name("orders"), new_name("billing")
    topic = new_name("marshal")
    init(ClusterClient(guarded.of("root")), TopicSpec(topic, 1))
    ClusterClient(guarded.of("root")).create_topic(data, 1, 1, {})
    producer = KafkaProducer(guarded.of("root").for_client())
    producer.produce(data, b"first")
    assert producer.flush(30) == 0
    for operation in (READ, WRITE):
        guarded.allow("erin", operation, ResourceType.TOPIC, topic)
    guarded.allow("erin", READ, ResourceType.TOPIC, data)
    eventually(erin, ("unchecked", "settings"), topic=topic)

    def joined() -> Consumer:
        return Consumer(settings=erin, group_id=group, client_id="w1", coordination_topic=topic)

    with monkeypatch.context() as patched:
        patched.setattr("kafka_marshal.client.connect.metadata.CONNECT_S", 120.0)
        began = time.monotonic()
        with (
            joined() as consumer,
            pytest.raises(BrokerFailed, match=f"offsets of group {group}: .*authorization failed"),
        ):
            consumer.add_topic(data)
        assert time.monotonic() - began < 60.0
    guarded.allow("erin", DESCRIBE, ResourceType.GROUP, group)
    deadline = time.monotonic() + 60
    while ClusterClient(erin).allowed_of_group(group) != frozenset({"DESCRIBE"}):
        assert time.monotonic() < deadline
    with joined() as consumer:
        consumer.add_topic(data)
        message = consumer.poll(60)
        assert message is not None
        assert message.value == b"first"
        consumer.ack()
        refused = f"{group} were not committed to Kafka: Broker: Group authorization failed"
        while refused not in caplog.text:
            assert time.monotonic() < deadline
            consumer.poll(0.1)
    guarded.allow("erin", READ, ResourceType.GROUP, group)
    settled = ClusterMetadata(guarded.of("root"))
    while settled.committed(group, [(data, 0)]) != {(data, 0): 1}:
        assert time.monotonic() < deadline + 60
        with joined() as consumer:
            consumer.add_topic(data)
            consumer.poll(1)


def test_what_the_manual_says_that_an_administrator_needs_suffices(
    guarded: Guarded, tmp_path: Path
) -> None:
    data, group, made = new_name("orders"), "billing", new_name("marshal")
    ClusterClient(guarded.of("root")).create_topic(data, 1, 1, {})
    producer = KafkaProducer(guarded.of("root").for_client())
    producer.produce(data, b"first")
    assert producer.flush(30) == 0
    for operation in (READ, WRITE, AclOperation.DESCRIBE_CONFIGS):
        guarded.allow("grace", operation, *TOPIC)
    guarded.allow("grace", READ, ResourceType.TOPIC, data)
    guarded.allow("grace", READ, ResourceType.GROUP, group)
    for operation in (AclOperation.CREATE, DESCRIBE):
        guarded.allow("grace", operation, ResourceType.TOPIC, made)
    eventually(guarded.of("grace"))
    options = ("-F", str(written(dict(guarded.of("grace").values), tmp_path / "grace.properties")))

    def done(*command: str) -> str:
        ran = marshal(*command, *options)
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
        return ran.stdout

    assert "set: 1 of 1" in done("set-position", group, f"{data}:0=latest")
    assert ClusterMetadata(guarded.of("root")).committed(group, [(data, 0)]) == {(data, 0): 1}
    assert data in done("ls", group)
    assert group in done("groups")
    assert "0 grants" in done("receipts", group, data)
    assert "is paused until" in done("pause", group, "--for", "1m")
    assert "is not paused any more" in done("resume", group)
    assert "exists: 1 partitions" in done("init")
    assert "created: 1 partitions" in done("init", "--topic", made, "--partitions", "1")


SECURITY = (ROOT / "docs" / "how-to" / "security.md").read_text(encoding="utf-8")
ACL = re.compile(
    r"kafka-acls\.sh --bootstrap-server HOST:PORT --add --allow-principal User:(\S+)"
    r"((?: --operation \S+)+) --(topic|group) (\S+)"
)


def test_the_permissions_of_the_security_page_suffice(guarded: Guarded, tmp_path: Path) -> None:
    new = {name: new_name(name) for name in ("orders", "orders-failed", "billing", "__marshal")}
    for user, operations, kind, name in ACL.findall(SECURITY):
        for operation in operations.split()[1::2]:
            guarded.allow(user, AclOperation[operation], ResourceType[kind.upper()], new[name])
    root = ClusterClient(guarded.of("root"))
    init(root, TopicSpec(new["__marshal"], 1))
    for name in ("orders", "orders-failed"):
        root.create_topic(new[name], 1, 1, {})
    producer = KafkaProducer(guarded.of("root").for_client())
    producer.produce(new["orders"], b"first")
    assert producer.flush(30) == 0

    eventually(guarded.of("billing-app"), ("unchecked", "settings"), topic=new["__marshal"])

    def refuse(_: Message) -> None:
        consumer.stop()
        raise ValueError

    with Consumer(
        settings=guarded.of("billing-app"),
        group_id=new["billing"],
        client_id="w1",
        coordination_topic=new["__marshal"],
    ) as consumer:
        consumer.add_topic(new["orders"])
        ran = consumer.run(refuse, retries=0, dead_letter_topic=new["orders-failed"])
    assert ran.dead == 1
    place = (new["orders"], 0)
    until(
        lambda: ClusterMetadata(guarded.of("root")).committed(new["billing"], [place]) == {place: 1}
    )

    def done(user: str, *command: str) -> str:
        options = written(dict(guarded.of(user).values), tmp_path / "client.properties")
        ran = marshal(*command, "-F", str(options), "--topic", new["__marshal"])
        assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
        return ran.stdout

    assert new["orders"] in done("auditor", "ls", new["billing"])
    assert "set: 1 of 1" in done("operator", "set-position", new["billing"], f"{new['orders']}=+0")


@pytest.mark.parametrize("share", ["partitions", "ranges"])
def test_a_topic_that_may_not_be_read_is_named(guarded: Guarded, share: str) -> None:
    log, data, group = new_name("marshal"), new_name("orders"), new_name("g")
    root = ClusterClient(guarded.of("root"))
    for name in (log, data):
        root.create_topic(name, 1, 1, {})
        guarded.allow("ivan", DESCRIBE, ResourceType.TOPIC, name)
    for operation in (READ, WRITE):
        guarded.allow("ivan", operation, ResourceType.TOPIC, log)
    guarded.allow("ivan", READ, ResourceType.GROUP, group)
    ivan = guarded.of("ivan")
    until(lambda: {log, data} <= ClusterClient(ivan).topics().keys())
    with Consumer(
        settings=ivan, group_id=group, client_id="w1", coordination_topic=log
    ) as consumer:
        consumer.add_topic(data, share=share)  # type: ignore[arg-type]
        with pytest.raises(BrokerFailed, match=f"topic {data}: .*Topic authorization failed"):
            consumer.poll(60)
