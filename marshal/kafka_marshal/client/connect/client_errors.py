"""Interprets librdkafka's error callback: which errors are permanent, and which pass.

librdkafka retries for ever, and its caller sees only a timeout. The reason is passed to the error
callback, whenever the client is polled. Until a broker has accepted us, a refused password or
certificate is permanent and ends the call. After that no error is permanent: a broker that restarts
reports many errors. This module knows the messages of librdkafka and of TLS. It does not know the
request.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import BrokerFailed, NotLetIn

T = TypeVar("T")

SLICE_S: Final = 0.25
"""How often a call that waits to be accepted polls the error callback, in seconds."""

_WHO: Final = re.compile(r"^(\[thrd:\S+\]: )?\S+/(bootstrap|\d+): ")
_WHEN: Final = re.compile(r" \(after \d+ms in state [^)]*\)$")
_CUT_OFF: Final = re.compile(r"(?i)disconnect|transport failure|timed out|unexpected eof|reset by")
"""The connection was lost in the middle, as when a broker restarts."""
_UNTRUSTED: Final = re.compile(r"certificate verify failed")
_ALERT: Final = re.compile(r"alert (.*certificate.*|unknown ca.*|.*number (?:4[2-68]|116)$)")
"""TLS alerts about our certificate."""
_NOT_ALLOWED: Final = frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED}
)
_HUNG_UP: Final = re.compile(r"(?i)connection closed by peer|broken pipe|reset by peer")


class ClientErrors:
    """The errors of one client: this is its `error_cb`, and its `logger`."""

    def __init__(self, settings: Settings) -> None:
        """Begin without an error.

        Raises:
            BrokerFailed: no token can ever be obtained; librdkafka does not report this.
        """
        if _mechanism(settings) == "OAUTHBEARER" and not _gets_tokens(settings):
            raise BrokerFailed(
                f"{settings.bootstrap}: OAUTHBEARER needs sasl.oauthbearer.method=oidc, or a "
                "callback that gets the token (oauth_cb)"
            )
        self.settings = settings
        self._monotonic = settings.environment.monotonic
        self.let_in = False
        """A broker has answered, so our password and our certificate are valid."""
        self._refused: str | None = None
        self._of_all = False
        """The refusal applies to every broker, since the same credentials are used everywhere."""
        self._all_down = False
        self._text = ""

    def for_client(self, **decided: str) -> dict[str, Any]:
        """The options of a client that reports its errors here; see `Settings.for_client`."""
        return {**self.settings.for_client(**decided), "error_cb": self.heard}

    def heard(self, error: KafkaError) -> None:
        """Take an error from the client's callback."""
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True
            self._text = self._text or error.str()
            return
        self._text = self._hung_up(error.str()) or _plain(error.str())
        refused = refusal(error.code(), error.str(), self.settings)
        if refused is not None:
            self._refused = refused
            self._of_all = error.code() == KafkaError._AUTHENTICATION

    def log(self, _: int, __: str, *words: object) -> None:
        """Take a line of the client's log; all but one kind is also passed to the callback."""
        if words:
            self._text = self._hung_up(str(words[-1])) or self._text

    def _hung_up(self, text: str) -> str | None:
        if self.let_in or not _HUNG_UP.search(text):
            return None
        return "brokers hang up at the first word: see security.protocol"

    @property
    def refusal(self) -> NotLetIn | None:
        """Why no broker will ever accept us; None while that is open."""
        alone = "," not in self.settings.bootstrap
        if self.let_in or self._refused is None:
            return None
        if not (self._of_all or alone or self._all_down):
            return None  # of several brokers another one may
        words = f"{self.settings.bootstrap}: {self._refused}"
        return NotLetIn(self.settings.without_secrets(words))

    def failed(self, exception: KafkaException, about: str = "", right: str = "") -> BrokerFailed:
        """A sentence about what failed, with the reason from the callback.

        `right` is what the request requires, like "READ on it". The sentence names it if the
        cluster does not allow the request.
        """
        refused = self.refusal
        if refused is not None:
            return refused
        error = exception.args[0]
        reason = error.str() if isinstance(error, KafkaError) else str(error)
        if self._text and self._text not in reason:
            reason = f"{reason}: {self._text}"
        reason = _with_right(reason, code_of(exception), right)
        words = ": ".join(part for part in (self.settings.bootstrap, about, reason) if part)
        return BrokerFailed(self.settings.without_secrets(words))

    def ask(
        self, question: Callable[[float], T], poll: Callable[[], object], timeout_s: float
    ) -> T:
        """The result of a call that takes a timeout; `poll` lets the client report errors.

        Until we are accepted, the call is repeated with a short timeout, and `poll` is called in
        between; afterwards it is not.

        Raises:
            NotLetIn: we will never be accepted.
            KafkaException: no broker answered in time, or the answer is an error.
        """
        deadline = self._monotonic() + timeout_s
        taken = False
        while True:
            left_s = max(0.0, deadline - self._monotonic())
            whole = self.let_in or taken or left_s <= SLICE_S
            try:
                answer = question(left_s if whole else SLICE_S)
            except KafkaException as exception:
                code = code_of(exception)
                if whole or code not in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
                    raise
                poll()
                if (refused := self.refusal) is not None:
                    raise refused from None
                # Somebody is there who takes the question, and needs more time to answer it.
                taken = code == KafkaError._TIMED_OUT
            else:
                self.answered()
                return answer

    def wait(self, future: Future[T], poll: Callable[[], object], timeout_s: float) -> T:
        """The result of a future; `poll` lets the client report errors.

        Raises:
            NotLetIn: we will never be accepted.
            KafkaException: the answer is an error.
            TimeoutError: there was no answer in time.
        """
        deadline = self._monotonic() + timeout_s
        while True:
            left_s = max(0.0, deadline - self._monotonic())
            if wait([future], left_s if self.let_in else min(left_s, SLICE_S)).done:
                break
            poll()
            if (refused := self.refusal) is not None:
                raise refused
            if self.let_in or left_s <= SLICE_S:
                raise TimeoutError
        try:
            answer = future.result()
        except KafkaException as exception:
            self.let_in = self.let_in or code_of(exception) > 0
            poll()
            raise
        self.answered()
        return answer

    def answered(self) -> None:
        """A broker has answered this client, so no error is permanent from now on."""
        self.let_in = True
        self._text = ""


def refusal(code: int, text: str, settings: Settings) -> str | None:
    """Why we will never be let in, and what to set; None if this error does not mean that.

    >>> text = "ssl://b1:9093/bootstrap: SSL handshake failed: error:0A000086:SSL routines::" \
        "certificate verify failed: ... (after 4ms in state SSL_HANDSHAKE)"
    >>> print(refusal(KafkaError._SSL, text, Settings({})))
    the broker's certificate could not be verified: ssl.ca.location must hold the certificate of \
the CA that signed it, and it must name the host and not have expired
    """
    text = _plain(text)
    if _CUT_OFF.search(text):
        return None
    if code == KafkaError._AUTHENTICATION:
        return _with_hint(text, settings)
    if "SSL routines" not in text:
        return None
    if _UNTRUSTED.search(text):
        return (
            "the broker's certificate could not be verified: ssl.ca.location must hold the "
            "certificate of the CA that signed it, and it must name the host and not have expired"
        )
    reason = text.rpartition("SSL routines:")[2].lstrip(":")
    if _ALERT.search(text):
        if any(_OURS.fullmatch(name) for name in settings.values):
            return (
                f"the broker refused our certificate ({reason}): ssl.certificate.location must "
                "hold one of a CA that the broker trusts"
            )
        return (
            f"the broker asks for a certificate of ours ({reason}): set ssl.certificate.location "
            "and ssl.key.location"
        )
    return f"TLS failed ({reason}): see security.protocol, and whether the port is one of TLS"


_OURS: Final = re.compile(r"ssl\.(certificate\.(location|pem)|keystore\.location)|ssl_certificate")


def _with_hint(text: str, settings: Settings) -> str:
    mechanism = _mechanism(settings)
    if "mechanism handshake failed" in text:
        return f"{text}: see sasl.mechanisms"
    if mechanism == "PLAIN" or mechanism.startswith("SCRAM"):
        return f"{text}: see sasl.username and sasl.password"
    return text


def _mechanism(settings: Settings) -> str:
    return settings.values.get("sasl.mechanisms") or settings.values.get("sasl.mechanism") or ""


def _gets_tokens(settings: Settings) -> bool:
    return (
        settings.oauth_cb is not None
        or settings.values.get("sasl.oauthbearer.method", "").lower() == "oidc"
        or settings.values.get("enable.sasl.oauthbearer.unsecure.jwt") == "true"
    )


def _plain(text: str) -> str:
    """The text without the connection and the elapsed time."""
    return _WHEN.sub("", _WHO.sub("", text))


def with_right(error: KafkaError, right: str) -> str:
    """The error, and the right that the user needs if the cluster does not allow the request.

    >>> with_right(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "READ on it")
    'Broker: Topic authorization failed; the user needs READ on it'
    """
    return _with_right(error.str(), error.code(), right)


def _with_right(reason: str, code: int, right: str) -> str:
    if not right or code not in _NOT_ALLOWED:
        return reason
    return f"{reason.removesuffix('.')}; the user needs {right}"


def rights_of_consumer(group: str) -> str:
    """The rights that reading and committing a group's offsets requires."""
    return f"READ on group {group} and on its topics"


def not_taken(error: KafkaError) -> str:
    """Why a record was not appended, and what to do if it is too large or not allowed."""
    if error.code() != KafkaError.MSG_SIZE_TOO_LARGE:
        return with_right(error, "WRITE on it")
    return (
        f"{error.str()}: the record, or the batch that it was sent in, is larger than "
        "max.message.bytes of the topic or message.max.bytes of the client; with a lower "
        "batch.size a batch is smaller"
    )


def code_of(exception: KafkaException) -> int:
    """Kafka's number of an error; librdkafka's own errors are negative."""
    error = exception.args[0]
    return int(error.code()) if isinstance(error, KafkaError) else 0
