"""Brokers that ask who you are: by passwords, certificates, and a token that a callback gets."""

from __future__ import annotations

import base64
import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tools.runs.by_day import one_of_each
from typer.testing import CliRunner

from kafka_marshal.cli.app import app
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect import reader
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.coordination_topic import TopicSpec, init
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings, TokenCallback
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.client.groups.assigned_fetch import AssignedFetch
from kafka_marshal.client.message import Claim
from kafka_marshal.core.messages import Partition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import BrokerFailed, NotLetIn
from kafka_marshal.testing import QUICK, Broker, Guard
from tests.cli.run import marshal
from tests.client.crew import until
from tests.client.guards import ALICE, Papers, encrypted, mutual, papers, scram, written
from tests.client.hands import new_name

PASSWORD = "alice-knows-that"
ADMIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="{PASSWORD}";'
)
TOKENS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="admin";'
)
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanisms": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": PASSWORD,
}
BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}


@pytest.fixture(scope="module")
def guarded() -> Iterator[Broker]:
    """A broker of its own, that lets nobody in without a password or a token."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": ADMIN,
        "listener.name.plaintext.oauthbearer.sasl.jaas.config": TOKENS,
    }
    with Broker(settings=settings, java_options=QUICK) as broker:
        yield broker


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return papers(tmp_path_factory.mktemp("papers"))


@pytest.fixture(scope="module")
def by_password(certificates: Papers) -> Iterator[Broker]:
    """SASL_SSL and SCRAM."""
    guard = Guard({"alice": ALICE}, certificates.broker)
    with Broker(guard=guard, java_options=QUICK) as broker:
        yield broker


@pytest.fixture(scope="module")
def by_certificate(certificates: Papers) -> Iterator[Broker]:
    """TLS on both sides."""
    guard = Guard(certificate=certificates.broker, clients_ca=certificates.ca)
    with Broker(guard=guard, java_options=QUICK) as broker:
        yield broker


def consumed(settings: dict[str, str], token: TokenCallback | None = None) -> bytes:
    """A message that was produced, and consumed, by somebody with these settings."""
    given = Settings(settings, token)
    client, topic = ClusterClient(given), new_name("guarded")
    init(client, TopicSpec("__marshal", 2))
    client.create_topic(topic, 1, 1, {})
    producer = Producer(given.for_client())
    producer.produce(topic, b"for your eyes only")
    assert producer.flush(30) == 0
    with Consumer(settings=given, group_id=new_name("g"), client_id="w1") as consumer:
        consumer.add_topic(topic)
        message = consumer.poll(60)
        assert message is not None
        assert message.value is not None
        return message.value


HUGE_S = 120.0


@pytest.fixture
def nobody_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that waits for its time-out waits for minutes: one that ends earlier has heard why."""
    for module in ("reader", "admin_client", "metadata"):
        monkeypatch.setattr(f"kafka_marshal.client.connect.{module}.CONNECT_S", HUGE_S)


def refused(settings: dict[str, str], caplog: pytest.LogCaptureFixture) -> str:
    """The error for opening a consumer; it and the log must show no secret."""
    assert reader.CONNECT_S == HUGE_S
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with pytest.raises(NotLetIn) as failed:
        Consumer(settings=settings, group_id="g", client_id="w1")
    with pytest.raises(NotLetIn) as asked:
        ClusterClient(Settings(settings)).brokers()
    assert time.monotonic() - began < HUGE_S / 2
    assert str(failed.value) == str(asked.value)
    said = f"{failed.value!r}{asked.value!r}{caplog.text}{Settings(settings)!r}"
    for secret in ("sasl.password", "ssl.key.pem", "ssl.key.password"):
        assert settings.get(secret, "\0") not in said
    assert "PRIVATE KEY" not in said
    assert "\n" not in str(failed.value)
    return str(failed.value)


# --- with the right papers ------------------------------------------------------------------------


def test_with_the_right_password_everything_works(guarded: Broker) -> None:
    settings = {"bootstrap.servers": guarded.bootstrap, **PLAIN}
    assert consumed(settings) == b"for your eyes only"


def test_a_callback_gets_the_token_for_every_client(guarded: Broker) -> None:
    asked: list[str | None] = []

    def token(config: str | None) -> tuple[str, float]:
        asked.append(config)
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 3600}
        parts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
            for part in ({"alg": "none"}, claims)
        ]
        return f"{'.'.join(parts)}.", now_s + 3600.0

    settings = {"bootstrap.servers": guarded.bootstrap, **BEARER}
    assert consumed(settings, token) == b"for your eyes only"
    assert len(asked) >= 4  # who appends, who reads the log, who fetches, who asks the cluster


def test_over_tls_with_a_private_ca_and_scram_everything_works(
    by_password: Broker, certificates: Papers
) -> None:
    assert consumed(scram(certificates, by_password.bootstrap)) == b"for your eyes only"


def test_with_a_certificate_of_ones_own_everything_works(
    by_certificate: Broker, certificates: Papers, tmp_path: Path
) -> None:
    settings = mutual(certificates, by_certificate.bootstrap)
    assert consumed(settings) == b"for your eyes only"
    as_text = certificates.client.read_text()
    inline = {name: value for name, value in settings.items() if not name.endswith("location")}
    pem = {"ssl.ca.pem": certificates.ca.read_text(), "ssl.certificate.pem": as_text}
    assert consumed({**inline, **pem, "ssl.key.pem": as_text}) == b"for your eyes only"
    locked = encrypted(certificates.client, "open-sesame", tmp_path / "locked.pem")
    behind = {"ssl.key.location": str(locked), "ssl.key.password": "open-sesame"}
    assert consumed({**settings, **behind}) == b"for your eyes only"
    with pytest.raises(BrokerFailed, match=r"ssl\.key\.location failed") as failed:
        ClusterClient(Settings({**settings, **behind, "ssl.key.password": "abracadabra"}))
    assert "abracadabra" not in repr(failed.value)


def test_commands_take_a_file_of_settings(
    by_password: Broker, certificates: Papers, tmp_path: Path
) -> None:
    topic = new_name("marshal")
    settings = scram(certificates, by_password.bootstrap)
    options = ("-F", str(written(settings, tmp_path / "client.properties")), "--topic", topic)
    made = marshal("init", *options, "--partitions", "2")
    assert (made.returncode, made.stderr) == (0, "")
    assert f"{topic} created: 2 partitions" in made.stdout
    examined = marshal("doctor", *options, "--probe", "--json")
    assert (examined.returncode, examined.stderr) == (0, "")
    assert {"permissions", "retention.ms"} <= set(json.loads(examined.stdout)["fine"])
    listed = marshal("ls", *options, "--json")
    assert (listed.returncode, listed.stderr) == (0, "")


# --- with the wrong ones --------------------------------------------------------------------------


@pytest.mark.usefixtures("nobody_gives_up")
def test_a_wrong_password_is_said_and_not_shown(
    guarded: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"bootstrap.servers": guarded.bootstrap, **PLAIN, "sasl.password": "alice-guesses"}
    said = refused(settings, caplog)
    assert said.startswith(f"{guarded.bootstrap}: SASL authentication error: Authentication failed")
    assert said.endswith("see sasl.username and sasl.password")
    with closing(AssignedFetch(Settings(settings), "g", "earliest", BufferLimits())) as fetch:
        fetch.begin(Claim(ClaimKey("g", "t", Partition(0)), "t", 0, 0, 0))
        with pytest.raises(NotLetIn, match="Authentication failed"):
            until(lambda: fetch.fetched(1, 0.1))


@pytest.mark.usefixtures("nobody_gives_up")
def test_a_wrong_password_over_tls_is_said_and_not_shown(
    by_password: Broker, certificates: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    settings = scram(certificates, by_password.bootstrap)
    said = refused({**settings, "sasl.password": "alice-guesses"}, caplog)
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in said
    assert said.endswith("see sasl.username and sasl.password")


@pytest.mark.usefixtures("nobody_gives_up")
def test_a_mechanism_that_the_broker_does_not_have_is_said_with_those_that_it_has(
    by_password: Broker, certificates: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    settings = scram(certificates, by_password.bootstrap)
    said = refused({**settings, "sasl.mechanisms": "PLAIN"}, caplog)
    assert "broker's supported mechanisms: SCRAM-SHA-256" in said
    assert said.endswith("see sasl.mechanisms")


@pytest.mark.usefixtures("nobody_gives_up")
@pytest.mark.parametrize("trusted", ["another CA", "none"])
def test_a_broker_whose_certificate_cannot_be_verified_is_said_with_what_to_set(
    by_password: Broker, certificates: Papers, caplog: pytest.LogCaptureFixture, trusted: str
) -> None:
    settings = scram(certificates, by_password.bootstrap)
    del settings["ssl.ca.location"]
    if trusted == "another CA":
        settings["ssl.ca.location"] = str(certificates.other_ca)
    said = refused(settings, caplog)
    assert "the broker's certificate could not be verified: ssl.ca.location must" in said


@pytest.mark.usefixtures("nobody_gives_up")
def test_a_broker_that_asks_for_a_certificate_is_said_with_what_to_set(
    by_certificate: Broker, certificates: Papers, caplog: pytest.LogCaptureFixture
) -> None:
    settings = mutual(certificates, by_certificate.bootstrap)
    bare = {name: value for name, value in settings.items() if name not in SHOWN}
    said = refused(bare, caplog)
    assert "the broker asks for a certificate of ours" in said
    assert said.endswith("set ssl.certificate.location and ssl.key.location")


@pytest.mark.usefixtures("nobody_gives_up")
@pytest.mark.parametrize("where", ["location", "pem"])
def test_a_certificate_that_the_broker_refuses_is_said_and_its_key_is_not_shown(
    by_certificate: Broker, certificates: Papers, caplog: pytest.LogCaptureFixture, where: str
) -> None:
    settings = mutual(certificates, by_certificate.bootstrap)
    shown = str(certificates.stranger) if where == "location" else certificates.stranger.read_text()
    others = {name: value for name, value in settings.items() if name not in SHOWN}
    stranger = {f"ssl.certificate.{where}": shown, f"ssl.key.{where}": shown}
    said = refused({**others, **stranger}, caplog)
    assert "the broker refused our certificate" in said
    assert "of a CA that the broker trusts" in said


SHOWN = {"ssl.certificate.location", "ssl.key.location"}


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT", "SSL"])
def test_a_protocol_that_is_not_the_brokers_is_guessed(
    by_password: Broker,
    certificates: Papers,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_marshal.client.connect.reader.CONNECT_S", 2.0)
    settings = scram(certificates, by_password.bootstrap) | {"security.protocol": protocol}
    with pytest.raises(BrokerFailed, match=r"hang up at the first word: see security\.protocol"):
        CoordinationReader(Settings(settings), "__marshal")


def test_nobody_waits_for_a_token_that_nothing_gets(guarded: Broker) -> None:
    with pytest.raises(BrokerFailed, match=r"needs sasl\.oauthbearer\.method=oidc, or a callback"):
        CoordinationReader(
            Settings({"bootstrap.servers": guarded.bootstrap, **BEARER}), "__marshal"
        )


def test_a_token_that_cannot_be_had_is_said() -> None:
    def token(_: str | None) -> tuple[str, float]:
        raise OSError("the office is closed")

    settings = Settings({"bootstrap.servers": "127.0.0.1:1", **BEARER}, token)
    for connect in (lambda: CoordinationReader(settings, "t"), lambda: LogWriter(settings, "t")):
        with pytest.raises(BrokerFailed, match="got no token: OSError: the office is closed"):
            connect()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.jaas.config", "org.apache.kafka.X required password='hush-hush';"),
        ("ssl.key.pem", "-----BEGIN PRIVATE KEY-----\nhush-hush\n-----END PRIVATE KEY-----"),
        ("ssl.keystore.password", "hush-hush"),
        ("ssl.key.password", "hush-hush"),
        ("sasl.oauthbearer.client.secret", "hush-hush"),
        ("sasl.oauthbearer.config", "token=hush-hush"),
    ],
)
def test_a_secret_that_librdkafka_refuses_is_not_shown(
    certificates: Papers, name: str, value: str, tmp_path: Path
) -> None:
    settings = mutual(certificates, "127.0.0.1:1") | {name: value}
    if name == "ssl.keystore.password":
        settings["ssl.keystore.location"] = str(certificates.client)
    for connect in (lambda s: CoordinationReader(s, "t"), lambda s: ClusterClient(s).brokers()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kafka_marshal.client.connect.reader.CONNECT_S", 0.1)
            patch.setattr("kafka_marshal.client.connect.admin_client.CONNECT_S", 0.1)
            with pytest.raises(BrokerFailed) as failed:
                connect(Settings(settings))
        assert "hush" not in f"{failed.value!r}{Settings(settings)!r}"
        assert failed.value.__suppress_context__


COMMANDS = [
    ("init", "password"),
    ("doctor", "CA"),
    ("ls", "password"),
    ("groups", "CA"),
    ("set-position g t:0=5", "password"),
    ("pause g --for 1m", "CA"),
    ("resume g", "password"),
    ("release g t:0", "CA"),
    ("receipts g t", "password"),
    ("watch --heartbeat-interval 60", "CA"),
]
"""Each with what is wrong by day; by night the other is wrong, too."""
OTHER = {"password": "CA", "CA": "password"}


@pytest.mark.parametrize(
    ("command", "wrong"),
    one_of_each(
        [*COMMANDS, *((command, OTHER[wrong]) for command, wrong in COMMANDS)],
        lambda each: each[0],
    ),
)
@pytest.mark.usefixtures("nobody_gives_up")
def test_each_command_says_in_one_sentence_why_it_is_not_let_in(
    by_password: Broker,
    certificates: Papers,
    command: str,
    wrong: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = scram(certificates, by_password.bootstrap)
    if wrong == "password":
        settings["sasl.password"] = "alice-guesses"
    else:
        settings["ssl.ca.location"] = str(certificates.other_ca)
    options = ["-F", str(written(settings, tmp_path / "client.properties"))]
    began = time.monotonic()
    ran = CliRunner().invoke(app, [*command.split(), *options])
    assert time.monotonic() - began < HUGE_S / 2
    assert ran.exit_code == 2, ran.output
    expected = "Authentication failed" if wrong == "password" else "ssl.ca.location must hold"
    [sentence] = ran.stderr.splitlines()
    assert sentence.startswith(f"marshal: {by_password.bootstrap}: ")
    assert expected in sentence
    assert "guesses" not in ran.output


# --- once let in ----------------------------------------------------------------------------------


@pytest.mark.night  # The broker starts thrice. By day others come back, without security.
def test_a_consumer_that_runs_goes_on_when_brokers_come_back_that_it_may_trust_again(
    by_password: Broker, certificates: Papers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "kafka_marshal")
    given = Settings(scram(certificates, by_password.bootstrap))
    client, topic = ClusterClient(given), new_name("guarded")
    init(client, TopicSpec("__marshal", 2))
    client.create_topic(topic, 1, 1, {})
    producer = Producer(given.for_client())
    producer.produce(topic, b"before")
    assert producer.flush(30) == 0
    right = certificates.broker.read_bytes()
    wrong = papers(tmp_path).broker.read_bytes()  # of a CA that nobody knows
    with (
        Consumer(settings=given, group_id=new_name("g"), client_id="w1") as consumer,
        closing(AssignedFetch(given, "g", "earliest", BufferLimits())) as fetch,
    ):
        consumer.add_topic(topic)
        message = consumer.poll(60)
        assert message is not None
        # It has heard of no message before the brokers are gone, and yet it was let in.
        fetch.begin(Claim(ClaimKey("g", topic, Partition(0)), topic, 0, 0, message.offset + 1))
        assert fetch.fetched(1, 5.0) == []
        try:
            by_password.kill()
            certificates.broker.write_bytes(wrong)
            by_password.start()
            deadline = time.monotonic() + 60
            while "certificate verify failed" not in caplog.text:
                assert time.monotonic() < deadline
                assert consumer.poll(0.1) is None
                assert fetch.fetched(1, 0.1) == []
        finally:
            by_password.kill()
            certificates.broker.write_bytes(right)
            by_password.start()
        producer.produce(topic, b"afterwards")
        assert producer.flush(60) == 0
        deadline = time.monotonic() + 60
        while (message := consumer.poll(1.0)) is None:
            assert time.monotonic() < deadline
        assert message.value == b"afterwards"
        while not (fetched := fetch.fetched(1, 1.0)):
            assert time.monotonic() < deadline
        assert fetched[0].value == b"afterwards"
    assert ALICE not in caplog.text
