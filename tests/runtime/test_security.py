"""A broker that asks who you are: by a password, and by a token that a callback gets."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from kafka_marshal.runtime.consumer import Consumer
from kafka_marshal.runtime.controls import ClusterClient
from kafka_marshal.runtime.errors import BrokerFailed
from kafka_marshal.runtime.settings import Settings, TokenCallback
from kafka_marshal.runtime.topic import Wanted, init
from kafka_marshal.testing import QUICK, Broker
from tests.runtime.hands import new_name

PASSWORD = "alice-knows-this"
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


def consumed(broker: Broker, settings: dict[str, str], token: TokenCallback | None = None) -> bytes:
    """A message that was produced, and consumed, by somebody with these settings."""
    given = Settings({"bootstrap.servers": broker.bootstrap, **settings}, token)
    client, topic = ClusterClient(given), new_name("guarded")
    init(client, Wanted("__marshal", 2))
    client.create_topic(topic, 1, 1, {})
    producer = Producer(given.for_client())
    producer.produce(topic, b"for your eyes only")
    assert producer.flush(10) == 0
    with Consumer(settings=given, group=new_name("g"), client_id="w1") as consumer:
        consumer.add_topic(topic)
        message = consumer.poll(20)
        assert message is not None
        assert message.value is not None
        return message.value


def test_with_the_right_password_everything_works(guarded: Broker) -> None:
    assert consumed(guarded, PLAIN) == b"for your eyes only"


def test_a_wrong_password_is_said_and_not_shown(guarded: Broker) -> None:
    wrong = {**PLAIN, "sasl.password": "alice-guesses"}
    with pytest.raises(BrokerFailed, match=r"(?i)authentication") as failed:
        Consumer(guarded.bootstrap, group="g", client_id="w1", settings=wrong)
    assert "guesses" not in str(failed.value)


def test_a_callback_gets_the_token_for_every_client(guarded: Broker) -> None:
    asked = []

    def token(config: str | None) -> tuple[str, float]:
        asked.append(config)
        now_s = int(time.time())
        claims = {"sub": "alice", "iat": now_s, "exp": now_s + 3600}
        parts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()
            for part in ({"alg": "none"}, claims)
        ]
        return f"{'.'.join(parts)}.", now_s + 3600.0

    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanisms": "OAUTHBEARER"}
    assert consumed(guarded, settings, token) == b"for your eyes only"
    assert len(asked) >= 4  # who appends, who reads the log, who fetches, who asks the cluster
