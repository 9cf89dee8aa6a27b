"""Kafka's producer on brokers in memory, with the methods that the shipped client calls.

It implements `Appender`. It does not decide what the brokers answer.
"""

# ruff: noqa: D102  # each method is Kafka's, and described there

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from attrs import define
from confluent_kafka import KafkaError, KafkaException, Message

from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.range_codec import decode_range
from kafka_marshal.testing.in_memory.brokers import Append, Brokers
from kafka_marshal.testing.in_memory.partition import Stored

RETRY_S: Final = 0.1
"""The client's retry delay if there was no answer, in seconds."""
_OVERHEAD: Final = 70
"""The approximate size of a record besides its key, value and headers, in bytes."""

Report = Callable[[KafkaError | None, Message], object]


@define(eq=False)
class _Record:
    """A record whose sender waits for its outcome."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    report: Report
    offset: int | None = None
    stored: Stored | None = None

    @property
    def size(self) -> int:
        """Its approximate size in a batch, in bytes."""
        parts = (self.value, self.key, *(part for pair in self.headers for part in pair))
        return _OVERHEAD + sum(len(part) for part in parts if part is not None)


@define(eq=False)
class _Batch:
    """Records of one partition that are sent together, and have one outcome."""

    topic: str
    partition: int
    records: list[_Record]
    send_at_s: float
    """When to send it, or to send it again."""
    expires_at_s: float
    """When, without an answer, the outcome is reported as unknown."""
    tried: bool = False
    """Whether it was sent, and may be in flight."""
    delayed: bool = False
    """Whether it is in flight to a slow broker."""
    asked: bool = False
    """Whether a broker has appended or refused it."""
    answered: bool = True
    heard_at_s: float | None = None
    """When its outcome is known; None if it never will be."""
    error: KafkaError | None = None

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        return sum(record.size for record in self.records)

    @property
    def due_s(self) -> float:
        """When it is sent again, or given up."""
        return min(self.send_at_s, self.expires_at_s)

    def forget_offsets(self) -> None:
        """Report no offsets of its records."""
        for record in self.records:
            record.offset = None

    def tell(self) -> None:
        """Report the outcome."""
        for record in self.records:
            more: dict[str, Any] = {} if record.offset is None else {"offset": record.offset}
            if record.stored is not None:
                more["timestamp"] = (record.stored.time_kind, record.stored.timestamp_ms)
            message = Message(
                topic=self.topic,
                partition=self.partition,
                value=record.value,
                key=record.key,
                error=self.error,
                **more,
            )
            record.report(self.error, message)


class InMemoryProducer:
    """Kafka's producer in memory."""

    def __init__(self, kafka: Brokers, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka, self._process = kafka, kafka.process()
        kafka.told_aside += [made_of["error_cb"]] if "error_cb" in made_of else []
        self._linger_s = float(made_of.get("linger.ms", 5)) / 1000
        self._queue_max = int(made_of.get("queue.buffering.max.messages", 100_000))
        self._bytes_max = int(made_of.get("message.max.bytes", 1_000_000))
        self._batch_bytes = min(int(made_of.get("batch.size", 1_000_000)), self._bytes_max)
        self._timeout_s = int(made_of.get("message.timeout.ms", 300_000)) / 1000
        self._spreads_s = int(made_of.get("topic.metadata.propagation.max.ms", 30_000)) / 1000
        self._looked_up: set[str] = set()
        """The topics that it has looked up."""
        self._open: list[_Batch] = []
        """The batches without a reported outcome, in order."""
        self._unsent = 0
        """The number of those that no broker has answered."""
        self.changed = kafka.condition()

    def reads(self, topic: str, partition: int) -> bool:
        """Returns False: a producer reads nothing."""
        return False

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int = -1,
        headers: Any = (),
        on_delivery: Report = lambda *_: None,
        **_: Any,
    ) -> None:
        kafka = self._kafka
        kafka.speaks()
        with kafka.changed:
            if len(value or b"") + len(key or b"") > self._bytes_max:
                raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
            if len(self) >= self._queue_max:
                raise BufferError("Local: Queue full")
            if topic in self._looked_up:
                self._refuse_unknown(topic, partition)
            if partition < 0:
                partition = self._partition_of(key, len(kafka.topics.get(topic, "1")))
            pairs = tuple(
                (name, one.encode() if isinstance(one, str) else one) for name, one in headers
            )
            record = _Record(value, key, pairs, on_delivery)
            waits = kafka.waits_for_more()
            at_once = not (self._linger_s or self._unsent or waits)
            now_s = kafka.waiting_s()
            # What this thread sends itself, the polling thread must not send as well.
            send_at_s = math.inf if at_once else now_s + self._linger_s
            expires_at_s = now_s + self._timeout_s
            sent = _Batch(topic, partition, [record], send_at_s, expires_at_s)
            if not (waits and self._joins(sent)):
                self._open.append(sent)
                self._unsent += 1
        if at_once:
            self._send(sent)
        with kafka.changed:
            self.changed.notify_all()

    def _joins(self, other: _Batch) -> bool:
        """Whether it can be added to the newest batch of its partition, which was not sent yet."""
        for sent in reversed(self._open):
            if (sent.topic, sent.partition) == (other.topic, other.partition):
                is_sent = sent.tried or sent.delayed or sent.asked
                if is_sent or sent.size + other.size > self._batch_bytes:
                    return False
                sent.records += other.records
                return True
        return False

    def _refuse_unknown(self, topic: str, partition: int) -> None:
        """Refuse a partition that the client knows not to exist."""
        partitions = self._kafka.topics.get(topic)
        if partitions is None:
            self._looked_up.discard(topic)
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
        if partition >= len(partitions):
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))

    def _partition_of(self, key: bytes | None, count: int) -> int:
        """Choose a partition like librdkafka's `consistent_random`."""
        return zlib.crc32(key) % count if key else self._kafka.any_of(count)

    def _send(self, sent: _Batch) -> None:
        """Send or resend it, now or after the latency of the link to its broker."""
        kafka = self._kafka
        link = kafka.link_to(self._process, kafka.partition(sent.topic, sent.partition))
        now_s = kafka.waiting_s()
        half_s = link.latency_s / 2
        if half_s and not sent.delayed:
            sent.delayed, sent.send_at_s = True, now_s + half_s
            return
        sent.delayed = False
        sent.tried = sent.tried or not link.refused
        if link.arrives and not sent.asked:
            self._append(sent, half_s)
        if link.holds:
            sent.answered, sent.send_at_s = False, math.inf
            partition = kafka.partition(sent.topic, sent.partition)
            assert partition is not None
            kafka.hold(self._process, partition, partial(self._arrives, sent))
            return
        if not (link.arrives and link.answered):
            sent.answered = False
            sent.send_at_s = now_s + RETRY_S
            return
        if not sent.answered and sent.error is None:
            sent.forget_offsets()  # a broker that knows it again confirms it without its offset
        if sent.heard_at_s is not None:
            sent.heard_at_s = max(sent.heard_at_s, now_s + half_s)
        self._answered(sent)

    def _arrives(self, sent: _Batch) -> None:
        """A batch in flight arrives, even if its sender has given it up."""
        given_up = sent.asked
        before = sent.error, sent.heard_at_s
        self._append(sent, 0.0)
        if given_up:
            sent.error, sent.heard_at_s = before
            sent.forget_offsets()
        else:
            self._answered(sent)
        self.changed.notify_all()

    def _answered(self, sent: _Batch) -> None:
        with self._kafka.changed:
            sent.answered, sent.send_at_s = True, math.inf
            self._unsent -= 1

    def _append(self, sent: _Batch, reply_s: float) -> None:
        """A broker receives it, and appends or refuses it."""
        kafka = self._kafka
        sent.asked = True
        if sent.topic == COORDINATION_TOPIC:
            became = kafka.appends(decode_range(sent.records[0].value))
        else:
            became = kafka.other_appends(sent.topic)
        with kafka.changed:
            partitions = kafka.topics.get(sent.topic)
            if partitions is None:
                became = _refused(KafkaError.UNKNOWN_TOPIC_OR_PART, self._spreads_s)
            elif sent.partition >= len(partitions):
                became = _refused(KafkaError._UNKNOWN_PARTITION)
            else:
                self._looked_up.add(sent.topic)
                if sent.size > partitions[sent.partition].batch_bytes_max:
                    became = _refused(KafkaError.MSG_SIZE_TOO_LARGE)
            for record in sent.records if became.lands else ():
                offset = kafka.append(
                    sent.topic, sent.partition, record.value, record.headers, record.key
                )
                record.stored = kafka.topics[sent.topic][sent.partition].records[offset]
                record.offset = offset if became.offset_known else None
            sent.error = became.error
            hear = partial(self._hear, sent, kafka.waiting_s() + became.after_s + reply_s)
            if became.heard:
                hear()
            else:
                kafka.unheard.append(hear)

    @staticmethod
    def _hear(sent: _Batch, at_s: float) -> None:
        sent.heard_at_s = at_s

    def poll(self, timeout: float = -1) -> int:
        kafka = self._kafka
        kafka.speaks()
        deadline = kafka.waiting_s() + timeout
        while not (heard := self._heard()) and timeout:
            left_s = deadline - kafka.waiting_s() if timeout > 0 else None
            if left_s is not None and left_s <= 0:
                break
            with kafka.changed:
                kafka.wait(self, self._left_s(left_s))
        for sent in heard:
            sent.tell()
        return sum(len(sent.records) for sent in heard)

    def _left_s(self, left_s: float | None) -> float | None:
        """The time until a poll's time-out, or until the next outcome may be known."""
        now_s = self._kafka.waiting_s()
        due = [] if left_s is None else [left_s]
        waits: set[tuple[str, int]] = set()
        for sent in self._open:
            place, at_s = (sent.topic, sent.partition), sent.heard_at_s
            if not (sent.answered and sent.asked):
                # A batch that waits for another one of its partition is sent after that.
                at_s = sent.expires_at_s if place in waits else sent.due_s
                waits.add(place)
            if at_s is not None:
                due.append(max(0.0, at_s - now_s))
        return min(due, default=None)

    def _heard(self) -> list[_Batch]:
        """Send what is due, and return the batches whose outcomes are known by now."""
        if not self._open:
            return []
        now_s = self._kafka.waiting_s()
        if self._unsent:
            self._send_due(now_s)
        with self._kafka.changed:
            heard: list[_Batch] = []
            left: list[_Batch] = []
            for sent in self._open:
                known = sent.answered and sent.heard_at_s is not None and sent.heard_at_s <= now_s
                (heard if known else left).append(sent)
            self._open[:] = left
        return heard

    def _send_due(self, now_s: float) -> None:
        """Send in order: within one partition, no batch overtakes another."""
        waits: set[tuple[str, int]] = set()
        for sent in list(self._open):
            if sent.asked and sent.answered:
                continue
            place = sent.topic, sent.partition
            if sent.expires_at_s <= now_s:
                sent.error = KafkaError(KafkaError._MSG_TIMED_OUT)
                sent.forget_offsets()
                sent.asked, sent.heard_at_s = True, now_s
                self._answered(sent)
            elif sent.send_at_s <= now_s and place not in waits:
                self._send(sent)
            if not (sent.asked and sent.answered):
                waits.add(place)

    def __len__(self) -> int:
        return sum(len(sent.records) for sent in self._open)

    def purge(self) -> None:
        if not self._kafka.delivers_purged:
            return
        with self._kafka.changed:
            for sent in self._open:
                under_way = sent.asked or sent.tried
                code = KafkaError._PURGE_INFLIGHT if under_way else KafkaError._PURGE_QUEUE
                if not (sent.asked and sent.answered):
                    self._answered(sent)
                sent.asked, sent.error = True, KafkaError(code)
                sent.forget_offsets()
                sent.heard_at_s = self._kafka.waiting_s()
            self.changed.notify_all()


def _refused(code: int, after_s: float = 0.0) -> Append:
    return Append(lands=False, error=KafkaError(code), after_s=after_s)
