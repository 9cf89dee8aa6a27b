"""Appends records to topics, in order and idempotently, and reports the outcome of each.

An outcome is the record's offset, or one of two failures, and the protocol depends on the
difference. Either the broker refused the record, so it is in no log (`NotAppended`). Or it is
unknown whether it was appended, and it may still be (`OutcomeUnknown`). `RecordWriter` appends any
record, for `client.produce`; `LogWriter` those of the protocol. This module does not know what a
record means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeAlias

import attrs
from attrs import frozen
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    KafkaError,
    KafkaException,
    Message,
)

from kafka_marshal.client.connect.client_errors import not_taken
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import APPENDS_ONCE, TOPIC_BYTES_MIN, Settings
from kafka_marshal.codec import UnsendableMessage, encode, encode_headers
from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.messages import Headers
from kafka_marshal.core.messages import Message as Said
from kafka_marshal.errors import BrokerFailed, in_words
from kafka_marshal.group_codec.records import encode_record
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.range_codec import encode_range, encode_range_headers

HeaderPairs = Sequence[tuple[str, str | bytes | None]]
_Encoded: TypeAlias = tuple[bytes | None, bytes, list[tuple[str, bytes]]]
"""Key, value and headers."""

CLOSE_S: Final = 10.0
"""How long `close` waits for outcomes, in seconds."""
PURGE_S: Final = 1.0
"""How long `close` then waits for the outcomes of purged records, in seconds."""
_POLL_S: Final = 0.1
_IDLE_S: Final = 0.5
"""How often the client is polled without pending appends, in seconds: it reports errors."""
_FULL_S: Final = 0.05
_LOOK_S: Final = 0.01

REFUSED: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTHENTICATION,
    }
)
"""After these errors a record is in no log. After any other one its outcome is unknown."""
_MISSING: Final = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)
"""The errors for a topic that is gone, or that not every broker knows yet."""


@frozen
class RecordMetadata:
    """The partition and offset of a record, as the broker reported them."""

    partition: int
    offset: int
    seconds: float = 0.0
    """The time until the broker confirmed it, in seconds."""
    timestamp_ms: int | None = None
    """The timestamp that the broker stored, Unix milliseconds."""


class NotAppended(BrokerFailed):
    """The record was refused: it is in no log, and never will be."""


class TopicMissing(NotAppended):
    """The record was refused, since the topic is gone, or was created again a moment ago."""


class OutcomeUnknown(BrokerFailed):
    """It is unknown whether the record was appended; it may still be."""


Outcome: TypeAlias = RecordMetadata | BrokerFailed
"""The outcome of an append: the record's offset, `NotAppended` or `OutcomeUnknown`."""


class RecordWriter:
    """Appends to topics; close it, or use it as a context manager. Any thread may append.

    The records that one `RecordWriter` appends to a partition lie there once, in the order of its
    calls. If an outcome is unknown, other records that were pending then may lie there twice:
    librdkafka begins a new sequence, so the broker cannot recognise them. A thread of its own
    reports outcomes, so callbacks must be short.
    """

    def __init__(
        self,
        settings: Settings,
        about: str,
        on_error: Callable[[str], None] = lambda _: None,
        on_statistics: Callable[[str], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        decided: Mapping[str, str] | None = None,
    ) -> None:
        """Connect.

        `about` names the topics in errors. `on_error` is called with sentences about the cluster,
        without secrets, and `on_statistics` with librdkafka's statistics. `on_failure` is called
        with the error that ended the thread for outcomes; from then on nothing can be appended,
        and `failed` is the reason. `decided` overrides the settings, as in `Settings.for_client`.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self.settings = settings
        self._about = about
        self._on_error = on_error
        self.failed: str | None = None
        """Why nothing can be appended any more; None if that is possible."""
        try:
            self._producer = settings.environment.appender(
                {
                    **settings.for_client(**APPENDS_ONCE, **(decided or {})),
                    **settings.telling(on_statistics),
                    "error_cb": self._error,
                },
                logger=MutedLogger(),
            )
        except KafkaException as error:
            reason = settings.without_secrets(str(error.args[0]))
            raise BrokerFailed(f"{settings.values.get('bootstrap.servers')}: {reason}") from None
        self._closing = settings.environment.threads.event()
        self._lock = settings.environment.threads.rlock()
        self._busy = settings.environment.threads.condition(self._lock)
        """Notified when an append begins, or at the end."""
        self._open: dict[Callable[[Outcome], object], None] = {}
        """The callbacks of appends without an outcome. The thread that removes one, with `_take`,
        calls it."""
        self._silent: str | None = None
        """Why outcomes are not reported any more; None while the thread runs."""
        self._on_failure = on_failure
        name = f"marshal-log-{about.removeprefix('topic ')}".replace(" ", "-")
        self._thread = settings.environment.start(name, self._serve, self._ended)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def reports_here(self) -> bool:
        """Whether the calling thread reports outcomes, and so must not wait for one."""
        return self.settings.environment.threads.is_current(self._thread)

    def write(
        self,
        topic: str,
        value: bytes | None,
        headers: HeaderPairs,
        hear: Callable[[Outcome], object],
        *,
        key: bytes | None = None,
        partition: int = -1,
    ) -> None:
        """Append a record; `hear` is called once with its outcome, and belongs to no other record.

        A partition below 0 is chosen by the key. If the record is refused at once, `hear` is called
        before this returns.
        """
        with self._lock:
            silent = self._silent
            if silent is None:
                self._open[hear] = None
                self._busy.notify()
        if silent is not None:
            hear(NotAppended(silent))
            return
        on_delivery = partial(self._delivered, topic, hear, self.settings.environment.monotonic())
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    headers=list(headers),
                    on_delivery=on_delivery,
                )
            except BufferError:
                if not self._closing.wait(_FULL_S):
                    continue
                self._fail(hear, NotAppended(f"{self._about}: it is closed"))
            except KafkaException as error:  # the client did not even take it
                why = self._outcome(topic, error.args[0])
                self._fail(hear, why if isinstance(why, NotAppended) else NotAppended(str(why)))
            return

    def flush(self, timeout_s: float) -> bool:
        """Wait until every append has an outcome; False if that takes longer than `timeout_s`."""
        return self._left_after(self.settings.environment.deadline(timeout_s)) == 0

    def _left_after(self, deadline: Deadline) -> int:
        """The number of pending appends at the deadline.

        Our own thread polls. The client's `flush` would call back with the exception of a fatal
        error pending, and the callback would break (confluent-kafka 2.16).
        """
        while (left := len(self._producer)) and deadline.left_s:
            self.settings.environment.threads.sleep(_LOOK_S)
        return left

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Wait at most `timeout_s` for outcomes; those of the other appends are unknown."""
        if self._closing.is_set():
            return
        environment = self.settings.environment
        if self._left_after(environment.deadline(timeout_s)):
            self._producer.purge()
            self._left_after(environment.deadline(PURGE_S))
        self._closing.set()
        with self._lock:
            self._busy.notify()
        environment.deadline(PURGE_S).join(self._thread)
        self._no_more_outcomes(f"{self._about}: it is closed")

    def _serve(self) -> None:
        while not self._closing.is_set():
            with self._lock:
                if not self._open and not self._closing.is_set():
                    self._busy.wait(_IDLE_S)
            try:
                self._producer.poll(_POLL_S if self._open else 0.0)
            except KafkaException as error:  # a fatal error does not reach `error_cb`
                self._error(error.args[0])

    def _ended(self, error: BaseException) -> None:
        """The thread has failed, so no append gets an outcome any more."""
        if self._on_failure is not None:
            # Before `failed` is set: its readers would report another reason for the same end.
            self._on_failure(error)
        self.failed = f"{self._about}: {in_words(error)}"
        self._closing.set()
        self._no_more_outcomes(self.failed)

    def _no_more_outcomes(self, why: str) -> None:
        """The thread has ended: pending outcomes are unknown, and no append begins."""
        with self._lock:
            self._silent = why
            left = list(self._open)
        for hear in left:
            self._fail(hear, OutcomeUnknown(why))

    def _fail(self, hear: Callable[[Outcome], object], error: BrokerFailed) -> None:
        if self._take(hear):
            hear(error)

    def _take(self, hear: Callable[[Outcome], object]) -> bool:
        """Whether the calling thread is the one that must call it."""
        with self._lock:
            if hear not in self._open:
                return False
            del self._open[hear]
            return True

    def _delivered(
        self,
        topic: str,
        hear: Callable[[Outcome], object],
        began: float,
        error: KafkaError | None,
        it: Message,
    ) -> None:
        if error is not None:
            self._fail(hear, self._outcome(topic, error))
            return
        partition, offset = it.partition(), it.offset()
        if partition is None or offset is None:
            # The broker considers it a duplicate, and may be wrong: see `ONE_AT_A_TIME`.
            words = f"{self.settings.bootstrap}: topic {topic}: confirmed without an offset"
            self._fail(hear, OutcomeUnknown(f"{words}: appended before, or never"))
        elif self._take(hear):
            seconds = self.settings.environment.monotonic() - began
            kind, timestamp_ms = it.timestamp()
            stored_ms = None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms
            hear(RecordMetadata(partition, offset, seconds, stored_ms))

    def _outcome(self, topic: str, error: KafkaError) -> BrokerFailed:
        words = (self.failed or self.settings.bootstrap, f"topic {topic}", not_taken(error))
        reason = self.settings.without_secrets(": ".join(words))
        if error.code() in _MISSING:
            return TopicMissing(f"{reason}: {self._missing(error)}")
        return NotAppended(reason) if error.code() in REFUSED else OutcomeUnknown(reason)

    def _missing(self, error: KafkaError) -> str:
        """Why there is no such topic or partition, or what to do."""
        if error.code() == KafkaError._UNKNOWN_PARTITION:
            return "the topic has no such partition"
        return "create it, or correct the name"

    def _error(self, error: KafkaError) -> None:
        sentence = self.settings.without_secrets(f"{self.settings.bootstrap}: {error.str()}")
        if error.fatal():
            if error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                sentence += f": see whether the user may WRITE {self._about}"
            self.failed = sentence
        self._on_error(sentence)


class LogWriter(RecordWriter):
    """Appends to a coordination topic.

    The headers protect the protocol from duplicates of a record (`copies_max` in MCFaults.tla).
    The thread for outcomes resolves futures, so a callback of one must not wait for another.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        on_error: Callable[[str], None] = lambda _: None,
        on_statistics: Callable[[str], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        batch_bytes_max: int = TOPIC_BYTES_MIN,
    ) -> None:
        """Connect like `RecordWriter`, to a topic that accepts batches of `batch_bytes_max` bytes.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self.topic = topic
        decided = {
            # A grant waits for its record. Records sent together share a request anyway.
            "linger_ms": settings.values.get("linger.ms", "0"),
            **settings.batches(batch_bytes_max),
            # After this time an outcome is unknown. The option has two names.
            "message_timeout_ms": settings.values.get(
                "message.timeout.ms", settings.values.get("delivery.timeout.ms", "30000")
            ),
        }
        super().__init__(settings, f"topic {topic}", on_error, on_statistics, on_failure, decided)

    def _missing(self, error: KafkaError) -> str:
        """It was there, with all its partitions."""
        return "the topic is gone, or was made anew"

    def append(self, partition: int, message: Said, headers: Headers) -> Future[RecordMetadata]:
        """Append a message to this partition, stamped with this machine's time.

        Only the original's rules use that stamp (`unix_s`), as the time of sending. The future
        fails with NotAppended or OutcomeUnknown. The record's key is null: no reader uses it, and
        the protocol chooses the partition. With a keyring that signs, the record is signed.
        """

        def encoded(unix_s: int) -> _Encoded:
            return None, encode(attrs.evolve(message, unix_s=unix_s)), encode_headers(headers)

        return self._append(partition, encoded)

    def append_of_ranges(self, partition: int, send: SendRecord) -> Future[RecordMetadata]:
        """Like `append`, for a record of a participant in a shared claim."""

        def encoded(unix_s: int) -> _Encoded:
            pairs = encode_range_headers(send.headers, send.range_headers, send.checkpoint)
            return None, encode_range(attrs.evolve(send.message, unix_s=unix_s)), pairs

        return self._append(partition, encoded)

    def append_event(self, record: EventRecord) -> Future[RecordMetadata]:
        """Like `append`, for an event of `__marshal_groups`: its key is the group, and no stamp."""
        return self._append(record.partition, lambda _: encode_record(record))

    def _append(self, partition: int, encoded: Callable[[int], _Encoded]) -> Future[RecordMetadata]:
        future: Future[RecordMetadata] = Future()
        try:
            key, value, pairs = encoded(self.settings.environment.unix_ms() // 1000)
            keyring = self.settings.keyring
            mac = None if keyring is None else keyring.header(partition, value, pairs)
            if mac is not None:
                pairs.append(mac)
        except UnsendableMessage as error:
            future.set_exception(NotAppended(str(error)))
            return future
        hear = partial(_resolve, future)
        self.write(self.topic, value, pairs, hear, key=key, partition=partition)
        return future


def _resolve(future: Future[RecordMetadata], outcome: Outcome) -> None:
    """Complete the future with the outcome."""
    if isinstance(outcome, RecordMetadata):
        future.set_result(outcome)
    else:
        future.set_exception(outcome)
