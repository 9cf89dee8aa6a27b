from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.client.connect.client_errors import (
    SLICE_S,
    ClientErrors,
    not_taken,
    refusal,
    with_right,
)
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import BrokerFailed, NotLetIn
from kafka_marshal.testing.in_memory import InMemoryKafka

ONE = Settings({"bootstrap.servers": "b1:9093"})
THREE = Settings({"bootstrap.servers": "b1:9093,b2:9093,b3:9093"})
AT = "ssl://b1:9093/bootstrap: "
PASSWORD = KafkaError(
    KafkaError._AUTHENTICATION,
    "sasl_ssl://b1:9093/bootstrap: SASL authentication error: Authentication failed "
    "(after 315ms in state AUTH_REQ)",
)
UNTRUSTED = KafkaError(
    KafkaError._SSL,
    f"{AT}SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: ...",
)
ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "3/3 brokers are down")
NOBODY = KafkaException(KafkaError(KafkaError._TRANSPORT))
LATE = KafkaException(KafkaError(KafkaError._TIMED_OUT))
HUGE_S = 3600.0


def nothing() -> None:
    return None


class Broker:
    """Answers questions as the test wants, and notes how long each might have waited."""

    def __init__(self, *answers: KafkaException | str) -> None:
        self.answers = list(answers)
        self.waited: list[float] = []

    def __call__(self, within_s: float) -> str:
        self.waited.append(within_s)
        assert len(self.waited) < 100, "asked again and again"
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KafkaException):
            raise answer
        return answer


def says(client_errors: ClientErrors, *errors: KafkaError) -> Callable[[], None]:
    """A client that says one of these whenever it is polled; it must not be polled for ever."""
    left = [*errors, *[ALL_DOWN] * 10]
    return lambda: client_errors.heard(left.pop(0))


# --- what is final --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "said", "expected"),
    [
        (KafkaError._SSL, "error:0A000086:SSL routines::certificate verify failed", "ssl.ca.l"),
        (KafkaError._TRANSPORT, "error:0A000086:SSL routines::certificate verify failed", "ssl.ca"),
        (
            KafkaError._TRANSPORT,
            "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate: "
            "SSL alert number 42",
            "the broker asks for a certificate of ours",
        ),
        (
            KafkaError._TRANSPORT,
            "Receive failed: error:0A00045C:SSL routines::tlsv13 alert certificate required: "
            "SSL alert number 116",
            "the broker asks for a certificate of ours",
        ),
        (
            KafkaError._SSL,
            "SSL handshake failed: error:0A000418:SSL routines::tlsv1 alert unknown ca: "
            "SSL alert number 48",
            "the broker asks for a certificate of ours",
        ),
        (
            KafkaError._SSL,
            "SSL handshake failed: error:0A00010B:SSL routines::wrong version number",
            "TLS failed (wrong version number): see security.protocol",
        ),
        (KafkaError._AUTHENTICATION, "SASL authentication error: no", "SASL authentication error"),
    ],
)
def test_a_refusal_is_final_and_names_what_to_set(code: int, said: str, expected: str) -> None:
    found = refusal(code, AT + said, ONE)
    assert found is not None
    assert expected in found
    assert AT not in found


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (KafkaError._TRANSPORT, "Connect to ipv4#127.0.0.1:9093 failed: Connection refused"),
        (KafkaError._TRANSPORT, "Disconnected while requesting ApiVersion"),
        (KafkaError._RESOLVE, "Failed to resolve 'b1:9093': Name or service not known"),
        (KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"),
        (KafkaError._SSL, "SSL handshake failed: Disconnected: connecting to a PLAINTEXT broker?"),
        (
            KafkaError._SSL,
            "SSL handshake failed: error:0A000126:SSL routines::unexpected eof while reading",
        ),
        (
            KafkaError._AUTHENTICATION,
            "SASL PLAIN mechanism handshake failed: Local: Broker transport failure: no idea",
        ),
    ],
)
def test_what_a_broker_that_restarts_says_is_not_final(code: int, said: str) -> None:
    assert refusal(code, AT + said, ONE) is None


def test_a_certificate_that_was_shown_and_refused_is_another_matter_than_none() -> None:
    shown = Settings({**ONE.values, "ssl.certificate.location": "client.pem"})
    said = "Receive failed: error:0A000412:SSL routines::ssl/tls alert bad certificate"
    assert "refused our certificate (ssl/tls alert bad" in str(
        refusal(KafkaError._TRANSPORT, said, shown)
    )


# --- who waits ------------------------------------------------------------------------------------


def test_whoever_waits_to_be_let_in_ends_when_a_refusal_was_heard() -> None:
    client_errors, broker = ClientErrors(ONE), Broker(NOBODY)
    with pytest.raises(NotLetIn) as refused:
        client_errors.ask(broker, says(client_errors, ALL_DOWN, PASSWORD), HUGE_S)
    assert str(refused.value) == "b1:9093: SASL authentication error: Authentication failed"
    assert broker.waited == [SLICE_S, SLICE_S]


def test_a_promise_that_nobody_will_keep_ends_when_a_refusal_was_heard() -> None:
    client_errors = ClientErrors(ONE)
    with pytest.raises(NotLetIn):
        client_errors.wait(Future(), says(client_errors, ALL_DOWN, PASSWORD), HUGE_S)


def test_of_several_brokers_another_one_may_have_a_good_certificate() -> None:
    client_errors = ClientErrors(THREE)
    client_errors.heard(UNTRUSTED)
    assert client_errors.refusal is None
    assert client_errors.ask(Broker(NOBODY, "answer"), nothing, HUGE_S) == "answer"
    down = ClientErrors(THREE)
    with pytest.raises(NotLetIn, match=r"ssl\.ca\.location"):
        down.ask(Broker(NOBODY), says(down, UNTRUSTED, ALL_DOWN), HUGE_S)


def test_a_password_is_wrong_for_all_brokers() -> None:
    client_errors = ClientErrors(THREE)
    client_errors.heard(PASSWORD)
    assert client_errors.refusal is not None


def test_once_let_in_nothing_is_final() -> None:
    client_errors = ClientErrors(ONE)
    assert client_errors.ask(Broker("answer"), nothing, HUGE_S) == "answer"
    client_errors.heard(PASSWORD)
    client_errors.heard(UNTRUSTED)
    assert client_errors.refusal is None
    failed = client_errors.failed(NOBODY)
    assert not isinstance(failed, NotLetIn)
    assert "certificate verify failed" in str(failed), "but it is said"
    again = Broker(NOBODY, "not reached")
    with pytest.raises(KafkaException):
        client_errors.ask(again, pytest.fail, HUGE_S)
    assert again.waited == [pytest.approx(HUGE_S, abs=60)], "asked once, and for the whole time"


def test_after_an_answer_that_is_an_error_nothing_is_final() -> None:
    client_errors = ClientErrors(ONE)
    promised: Future[str] = Future()
    promised.set_exception(KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)))
    with pytest.raises(KafkaException):
        client_errors.wait(promised, nothing, HUGE_S)
    client_errors.heard(PASSWORD)
    assert client_errors.refusal is None


MAY_NOT = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


def test_what_the_cluster_refuses_the_user_is_said_with_the_right_that_is_needed() -> None:
    kafka = InMemoryKafka()
    cluster, settings = ClusterMetadata(kafka.settings()), kafka.settings()

    def refuse(question: str) -> None:
        raise MAY_NOT

    kafka.answers = refuse
    requests: dict[str, Callable[[], object]] = {
        "topic log: {}; the user needs DESCRIBE on it": lambda: cluster.topic("log"),
        "topic log: {}; the user needs READ on it": lambda: CoordinationReader(settings, "log"),
        "settings of topic log: {}; the user needs DESCRIBE_CONFIGS on it": (
            lambda: cluster.topic_settings("log")
        ),
        "creating log: {}; the user needs CREATE on it": (
            lambda: cluster.create_topic("log", 1, 1, {})
        ),
        "deleting log: {}; the user needs DELETE on it": lambda: cluster.delete_topic("log"),
        "committing offsets of group g: {}; the user needs READ on group g and on its topics": (
            lambda: cluster.commit("g", {("log", 0): 1})
        ),
        "committed offsets of group g: {}; the user needs READ on group g and on its topics": (
            lambda: cluster.committed("g", [("log", 0)])
        ),
        "where partitions end: {}; the user needs DESCRIBE on their topics": (
            lambda: cluster.all_ends([("log", 0)])
        ),
    }
    for sentence, request in requests.items():
        with pytest.raises(BrokerFailed) as failed:
            request()
        refused = "Broker: Topic authorization failed"
        assert str(failed.value) == f"in-memory:9092: {sentence.format(refused)}"
    of_a_broker = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, "Not allowed.")
    assert with_right(of_a_broker, "READ on it") == "Not allowed; the user needs READ on it"
    assert not_taken(MAY_NOT.args[0]).endswith("failed; the user needs WRITE on it")


def test_a_broker_that_takes_the_question_gets_the_whole_time_to_answer() -> None:
    client_errors, broker = ClientErrors(ONE), Broker(NOBODY, LATE, "answer")
    assert client_errors.ask(broker, nothing, HUGE_S) == "answer"
    assert broker.waited[:2] == [SLICE_S, SLICE_S]
    assert broker.waited[2] > HUGE_S / 2


def test_a_broker_that_takes_the_question_and_hangs_up_has_let_nobody_in() -> None:
    client_errors, broker = ClientErrors(ONE), Broker(LATE, NOBODY)
    with pytest.raises(KafkaException) as failed:
        client_errors.ask(broker, nothing, HUGE_S)
    client_errors.log(3, "%s", "b1:9093/bootstrap: Disconnected: SSL connection closed by peer")
    assert str(client_errors.failed(failed.value)).endswith("first word: see security.protocol")
    later = ClientErrors(ONE)
    later.heard(KafkaError(KafkaError._TRANSPORT, f"{AT}Send failed: Broken pipe"))
    assert str(later.failed(failed.value)).endswith("first word: see security.protocol")


def test_nobody_is_waited_for_longer_than_asked_and_the_reason_is_the_last_that_was_said() -> None:
    client_errors = ClientErrors(ONE)
    refused = KafkaError(KafkaError._TRANSPORT, f"{AT}Connect failed (after 0ms in state CONNECT)")

    def nobody(within_s: float) -> str:
        time.sleep(within_s)
        raise NOBODY

    with pytest.raises(KafkaException) as failed:
        client_errors.ask(nobody, says(client_errors, ALL_DOWN, refused, ALL_DOWN), 4 * SLICE_S)
    assert str(client_errors.failed(failed.value)).endswith(": Connect failed")


def test_what_was_said_long_ago_is_not_the_reason_of_what_fails_now() -> None:
    client_errors = ClientErrors(ONE)
    client_errors.heard(KafkaError(KafkaError._TRANSPORT, f"{AT}Connect failed"))
    client_errors.ask(Broker("answer"), nothing, HUGE_S)
    assert str(client_errors.failed(NOBODY)) == "b1:9093: Local: Broker transport failure"


def test_no_secret_is_said() -> None:
    settings = Settings({**ONE.values, "sasl.password": "hush", "sasl.mechanisms": "PLAIN"})
    client_errors = ClientErrors(settings)
    client_errors.heard(KafkaError(KafkaError._AUTHENTICATION, "hush is no password"))
    assert str(client_errors.refusal) == (
        "b1:9093: *** is no password: see sasl.username and sasl.password"
    )
