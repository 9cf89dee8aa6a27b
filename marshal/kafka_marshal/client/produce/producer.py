"""The producer: `send` returns a response that always yields an outcome for every record.

This module knows serializers, tokens and the memory limit for records. `connect.log_writer` knows
how they get to the brokers, and what an error means.

    with Producer("localhost:9092") as producer:
        response = producer.send(ProducerRecord("orders", b"3 apples", key=b"ada"))
        print(response.result(timeout_s=30)[0].offset)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Literal, Self

from attrs import frozen

from kafka_marshal.client.connect.environment import LOOK_S
from kafka_marshal.client.connect.log_writer import (
    HeaderPairs,
    NotAppended,
    Outcome,
    OutcomeUnknown,
    RecordMetadata,
    RecordWriter,
)
from kafka_marshal.client.connect.settings import (
    ONE_AT_A_TIME,
    Settings,
    TokenCallback,
    connection,
    is_name,
)
from kafka_marshal.client.connect.threads import ForkGuard
from kafka_marshal.client.message import SentRecord
from kafka_marshal.client.numbers import seconds_to_wait
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.observe.logging_observer import ConsumerIdentity, LoggingObserver
from kafka_marshal.client.observe.observers import Observer, Observers
from kafka_marshal.client.produce.fence import Fence, FencingToken
from kafka_marshal.client.produce.response import SendResponse, wait_for_itself
from kafka_marshal.core.validators import is_positive, is_text
from kafka_marshal.errors import (
    BufferFull,
    InvalidOption,
    ProducerClosed,
    ProducerFailed,
)

CLOSE_S: Final = 30.0
SILENT_CLOSE_S: Final = 1.0
"""How long `close` waits before it reports that, in seconds."""
BUFFER_BYTES: Final = 32 * 2**20
SEND_BYTES: Final = 2_048
RECORD_BYTES: Final = 512
"""The memory of a `send`, and of each of its records, until its outcome is known: in addition to
the record itself, here and in librdkafka, in bytes."""
_UNBOUNDED: Final = str(2**31 - 1)

Serializer = Callable[[Any], bytes | str | None]


@frozen
class ProducerRecord:
    """A record to send."""

    topic: str
    value: Any = None
    """Bytes or text, or an argument of `value_serializer`; None: a tombstone, or no value."""
    key: Any = None
    """Bytes or text, or an argument of `key_serializer`. Records with the same key go to one
    partition."""
    partition: int | None = None
    """None: chosen by the key, or at random without a key."""
    headers: HeaderPairs = ()


@frozen
class _Encoded:
    """A record as bytes."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: HeaderPairs

    @property
    def size(self) -> int:
        """The memory until its outcome is known, in bytes."""
        parts = (self.key, self.value, *(part for pair in self.headers for part in pair))
        return RECORD_BYTES + sum(len(part) for part in parts if part is not None)


class Producer:
    """Sends records to topics; a context manager. Any thread may send.

    Records of one partition are appended in the order in which they were sent, even if they had to
    be sent again. Each is appended once, unless an outcome is unknown: then some may be there
    twice. Idempotence does not hold if brokers die: see docs/how-to/produce.md.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str] | None = None,
        *,
        when_full: Literal["block", "raise"] = "block",
        max_block_s: float = 60.0,
        buffer_bytes: int = BUFFER_BYTES,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        settings: Settings | Mapping[str, str] | None = None,
        oauth_cb: TokenCallback | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """Create a client, without waiting for a broker.

        Args:
            bootstrap: the addresses of brokers, `host:port,...` or a list of `host:port`. Without
                it, `settings` must name them.
            when_full: what `send` does while the buffer is full: block for up to `max_block_s`, or
                raise BufferFull at once.
            max_block_s: how long `send` blocks, in seconds; then it raises BufferFull.
            buffer_bytes: the memory limit for records without an outcome. Each counts with its key,
                value and headers, and 512 bytes; each `send` with 2 KiB.
            key_serializer: turns each key but None into bytes or text, in the thread that sends.
            value_serializer: turns each value but None into bytes or text, in the same thread.
            settings: any settings of librdkafka. `message.timeout.ms` is the time after which an
                outcome counts as unknown, 300000 by default.
                `max.in.flight.requests.per.connection` is 1: a broker to which a topic is new may
                accept a second request, and lose the first.
            oauth_cb: returns a token for SASL/OAUTHBEARER, as for `Consumer`.
            observers: are notified of every outcome (`delivered`), and of a full buffer
                (`buffer_full`).

        Raises:
            InvalidOption: an option has an invalid value.
            BrokerFailed: librdkafka refuses the settings.
        """
        if when_full not in ("block", "raise"):
            raise InvalidOption(f"when_full must be block or raise, not {when_full!r}")
        max_block_s = seconds_to_wait("max_block_s", max_block_s)
        for name, number in (("max_block_s", max_block_s), ("buffer_bytes", buffer_bytes)):
            if not is_positive(number):
                raise InvalidOption(f"{name} must be greater than 0, not {number!r}")
        connect = connection(bootstrap, settings, oauth_cb)
        if connect.values.get("transactional.id"):
            raise InvalidOption("transactional.id: this producer writes no transactions")
        self._when_full, self._max_block_s, self._buffer_bytes = (
            when_full,
            max_block_s,
            buffer_bytes,
        )
        self._key_serializer, self._value_serializer = key_serializer, value_serializer
        self._environment = connect.environment
        who = ConsumerIdentity("", connect.values.get("client.id", ""), "")
        self._logs = LoggingObserver(lambda: who, self._environment.monotonic)
        self._observers = Observers([self._logs, *observers])
        self._lock = self._environment.threads.rlock()
        self._room = self._environment.threads.condition(self._lock)
        """Notified when the buffer has more space, a response is complete, or the producer ends."""
        self._buffered = 0
        self._open: dict[SendResponse, int] = {}
        """Responses whose callbacks have not returned, in the order of the calls, and the bytes
        that each was counted with."""
        self._closed, self._fork = False, ForkGuard()
        listens = self._observers.librdkafka_statistics
        self._writer = RecordWriter(
            connect,
            "the producer's topics",
            self._noted,
            partial(listens, "", "producer") if self._observers.wants_statistics else None,
            self._failed,
            # Our own bound counts.
            {"queue_buffering_max_messages": _UNBOUNDED, "queue_buffering_max_kbytes": _UNBOUNDED}
            | _in_flight(connect.values),
        )
        if overridden := connect.overridden:
            instead = ", ".join(f"{name} (it is {value})" for name, value in overridden.items())
            self._logs.note(
                f"these settings do not hold, since a producer decides them itself: {instead}"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def buffered_bytes(self) -> int:
        """The memory of the records whose outcomes are open."""
        return self._buffered

    def send(self, *records: ProducerRecord, fence: FencingToken | None = None) -> SendResponse:
        """Send records, without waiting for their outcomes, unless the buffer is full.

        It takes all of them, or none if it raises. If a broker or librdkafka refuses a record, this
        is the record's outcome and not an exception here.

        Args:
            records: the records to send.
            fence: a token that each record carries in the header `marshal-fence`: the message that
                they result from, its claim, or a name and a tenure. See `Fence.of`.

        Raises:
            InvalidOption: a record is not a ProducerRecord of bytes or text, or is larger than the
                buffer; or the fence is invalid.
            BufferFull: the buffer is full, and stayed full for `max_block_s` if `send` may block.
            ProducerClosed: the producer is closed.
            ProducerFailed: it cannot append any more; the message explains why and what to do.
        """
        marks = () if fence is None else (Fence.of(fence).header,)
        encoded = [self._encoded(record, marks) for record in records]
        writer = self._writer
        response = SendResponse(len(encoded), self._environment.threads, self._refuse_to_wait)
        if encoded:
            self._reserve(response, SEND_BYTES + sum(one.size for one in encoded))
        begun = 0
        try:
            for begun, one in enumerate(encoded):
                hear = partial(self._heard, response, begun, one)
                partition = -1 if one.partition is None else one.partition
                writer.write(
                    one.topic, one.value, one.headers, hear, key=one.key, partition=partition
                )
        except BaseException:  # Ctrl-C between two bytecodes: nobody has the response
            for index, one in enumerate(encoded[begun:], begun):
                why = OutcomeUnknown if index == begun else NotAppended
                self._heard(response, index, one, why("send was interrupted"))
            raise
        return response

    def _encoded(self, record: ProducerRecord, marks: HeaderPairs) -> _Encoded:
        if not isinstance(record, ProducerRecord):
            raise InvalidOption(f"send takes ProducerRecord, not {type(record).__name__}")
        headers = tuple(record.headers)  # once: they may come from a generator
        _refuse_what_cannot_be_sent(record.topic, record.partition, headers)
        key = _bytes(record.topic, "key", record.key, self._key_serializer)
        value = _bytes(record.topic, "value", record.value, self._value_serializer)
        return _Encoded(record.topic, record.partition, key, value, (*headers, *marks))

    def _reserve(self, response: SendResponse, size: int) -> None:
        """Wait until there is space for this many bytes, and take it."""
        if size > self._buffer_bytes:
            raise InvalidOption(
                f"one send of {size} bytes ({SEND_BYTES} of them for itself, {RECORD_BYTES} for "
                f"each record) never fits into buffer_bytes={self._buffer_bytes}: send less at "
                f"once, or give it more"
            )
        may_block = self._when_full == "block" and not self._writer.reports_here()
        began_s = self._environment.monotonic()
        deadline = self._environment.deadline(self._max_block_s if may_block else 0.0)
        full = False
        # Another thread may have held the lock, and in a fork it holds it for ever.
        self._fork.refuse("producer", ProducerClosed)
        with self._lock:
            self._refuse_after_the_end()
            while no_room := self._buffered + size > self._buffer_bytes:
                full = True
                if not deadline.left_s:
                    break
                self._room.wait(min(LOOK_S, deadline.left_s))
                self._refuse_after_the_end()
            else:
                self._buffered += size
                self._open[response] = size
        if full:
            self._observers.buffer_full(self._environment.monotonic() - began_s)
        if no_room:
            raise BufferFull(
                f"{self._writer.settings.bootstrap}: {self._buffered} of {self._buffer_bytes} "
                f"bytes wait for their outcomes, and {size} more do not fit: send more slowly, see "
                f"whether the brokers answer, or give buffer_bytes more"
            )

    def _refuse_to_wait(self, call: str) -> None:
        """Refuse a call that would wait for outcomes for ever."""
        self._fork.refuse("producer", ProducerClosed)
        if self._writer.reports_here():
            raise wait_for_itself(call)

    def _refuse_after_the_end(self) -> None:
        if self._closed:
            raise ProducerClosed("the producer is closed: make another one")
        if self._writer.failed is not None:
            raise ProducerFailed(
                f"{self._writer.failed}: this producer appends nothing more. Close it, look which "
                f"responses have the error OutcomeUnknown, and go on with another Producer"
            )

    def _heard(self, response: SendResponse, index: int, one: _Encoded, outcome: Outcome) -> None:
        if isinstance(outcome, RecordMetadata):
            sent = SentRecord(
                one.topic,
                outcome.partition,
                outcome.offset,
                outcome.timestamp_ms,
                seconds=outcome.seconds,
            )
        else:
            sent = SentRecord(one.topic, one.partition, error=outcome)
        with self._lock:
            done = response.put(index, sent)
            if done:
                self._buffered -= self._open[response]
                self._room.notify_all()
        self._observers.delivered(sent)
        if done:
            response.complete()
            with self._lock:
                del self._open[response]
                self._room.notify_all()

    def flush(self, timeout_s: float | None = None) -> bool:
        """Wait for earlier records, for ever by default; False on timeout.

        Their outcomes are then known, and their callbacks have returned.

        Raises:
            MarshalError: it was called in a callback, which would wait for itself.
            ProducerClosed: this process is a fork of the one that sent them.
        """
        self._refuse_to_wait("flush()")
        given = math.inf if timeout_s is None else timeout_s
        deadline = self._environment.deadline(seconds_to_wait("timeout_s", given))
        with self._lock:
            for response in list(self._open):
                while response in self._open:
                    if not deadline.left_s:
                        return False
                    self._room.wait(min(LOOK_S, deadline.left_s))
        return True

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Take no more records, and wait for pending ones; then every response is done.

        Records without an outcome by then are given up, with OutcomeUnknown: they may have been
        appended, or not. Ctrl-C during the wait gives them up at once. In a fork of the process
        that made the producer it does nothing.

        Raises:
            MarshalError: it was called in a callback, which would wait for itself.
        """
        if self._fork.forked:
            return
        self._refuse_to_wait("close()")
        timeout_s = seconds_to_wait("timeout_s", timeout_s)
        with self._lock:
            self._closed = True
            self._room.notify_all()
        deadline = self._environment.deadline(timeout_s)
        try:
            if not self.flush(min(SILENT_CLOSE_S, deadline.left_s)) and deadline.left_s:
                self._noted(
                    f"{self._writer.settings.bootstrap}: close waits for the outcomes of "
                    f"{len(self._open)} sends, for {deadline.left_s:.1f} s more; "
                    f"Ctrl-C gives them up"
                )
                self.flush(deadline.left_s)
            self._writer.close(deadline.left_s)
        except BaseException:  # Ctrl-C
            self._writer.close(0.0)
            raise

    def _noted(self, sentence: str) -> None:
        """Report something about the cluster."""
        self._logs.look()
        self._logs.note(sentence)

    def _failed(self, error: BaseException) -> None:
        logger.error("a thread of the producer ended, so it appends nothing more", exc_info=error)


def _refuse_what_cannot_be_sent(topic: Any, partition: Any, headers: Any) -> None:
    """Refuse what librdkafka would reject only after it had taken the records before this one.

    A header's name with a lone surrogate crashes the process with a segmentation fault
    (confluent-kafka 2.16).
    """
    if not is_name(topic) or not topic:
        raise InvalidOption(f"the topic of a record is a name, not {topic!r}")
    if partition is not None and not (isinstance(partition, int) and 0 <= partition < 2**31):
        raise InvalidOption(f"topic {topic}: the partition is 0 or more or None, not {partition!r}")
    for pair in headers:
        name, value = pair if isinstance(pair, tuple) and len(pair) == 2 else (None, None)
        sent = is_text(value) if isinstance(value, str) else isinstance(value, bytes | None)
        if not is_name(name) or not sent:
            raise InvalidOption(
                f"topic {topic}: a header is a name and bytes, text or None, not {pair!r:.80}"
            )


def _in_flight(values: Mapping[str, str]) -> dict[str, str]:
    """Allow one request at a time to a broker, unless the user has set this."""
    names = {"max.in.flight.requests.per.connection", "max.in.flight"}
    return {} if names & values.keys() else ONE_AT_A_TIME


def _bytes(topic: str, what: str, given: Any, serializer: Serializer | None) -> bytes | None:
    """A key or a value, as bytes."""
    if given is not None and serializer is not None:
        given = serializer(given)
    if isinstance(given, str) and is_text(given):
        return given.encode()
    if given is not None and not isinstance(given, bytes):
        where = "" if serializer is None else f" that {what}_serializer made"
        kind = f"of type {type(given).__name__}"
        if isinstance(given, str):
            kind = "a str with lone surrogates"
        raise InvalidOption(f"topic {topic}: the {what}{where} is bytes, text or None, not {kind}")
    return given
