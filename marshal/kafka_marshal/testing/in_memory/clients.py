"""Kafka's clients as a consumer calls them, on brokers in memory.

Each has the methods of `client.connect.environment` that consumers call, and no others. They do not
decide what the brokers answer.
"""

# ruff: noqa: D102  # each method is Kafka's, and described there

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import SimpleNamespace
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition, Uuid

from kafka_marshal.codec import decode
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory.brokers import LANDS, Brokers
from kafka_marshal.testing.in_memory.partition import Stored


class InMemoryConsumer:
    """Kafka's consumer, for messages or for the coordination topic."""

    def __init__(self, kafka: Brokers, of_log: bool, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka, self._of_log, self._made_of = kafka, of_log, made_of
        self._next: dict[tuple[str, int], int] = {}
        self._paused: set[tuple[str, int]] = set()
        self._told_end: dict[tuple[str, int], int] = {}
        self.closed = False
        self.changed = kafka.condition()
        kafka.readings.append(self)

    def reads(self, topic: str, partition: int) -> bool:
        """Whether it would give out what comes in this partition."""
        return (topic, partition) in self._next and (topic, partition) not in self._paused

    # --- what is read -------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.unassign()
        self.incremental_assign(partitions)

    def unassign(self) -> None:
        with self._kafka.changed:
            self._next.clear()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            for one in partitions:
                topic_partition = (one.topic, one.partition)
                if topic_partition in self._next:
                    reason = (
                        f"{one.topic} [{one.partition}] is already part of the current assignment"
                    )
                    raise KafkaException(KafkaError(KafkaError._CONFLICT, reason))
                self._next[topic_partition] = one.offset
                self._told_end.pop(topic_partition, None)
                self._paused.discard(topic_partition)
            self.changed.notify_all()

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            for one in partitions:
                if self._next.pop((one.topic, one.partition), None) is None:
                    reason = f"{one.topic} [{one.partition}] is not part of the current assignment"
                    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))

    def pause(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            self._paused.update((one.topic, one.partition) for one in partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            self._paused.difference_update((one.topic, one.partition) for one in partitions)
            self.changed.notify_all()

    def poll(self, timeout: float = -1) -> Message | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._kafka.speaks()
        assert not self.closed, "closed under a poll"
        if self._of_log:
            self._kafka.reading_log()
        deadline = self._kafka.waiting_s() + timeout
        with self._kafka.changed:
            while not (found := self._there(num_messages)):
                left = deadline - self._kafka.waiting_s()
                if left <= 0 or not self._kafka.wait(self, left):
                    break
        if not self._of_log and found:
            self._kafka.fetching(found)
        return found

    def _there(self, maximum: int) -> list[Message]:
        if self._of_log and not self._kafka.log_flows:
            return []
        found: list[Message] = []
        for topic_partition, begin in list(self._next.items()):
            if topic_partition in self._paused:
                continue
            partition = self._kafka.topics[topic_partition[0]][topic_partition[1]]
            if not partition.low <= begin <= partition.high:
                # Not an end, so it is reported even if an end was reported at this offset.
                if self._told_end.get(topic_partition) != -1 - begin:
                    self._told_end[topic_partition] = -1 - begin
                    found.append(_error(topic_partition, begin, KafkaError._AUTO_OFFSET_RESET))
                continue
            offset = begin
            while offset < partition.high and len(found) < maximum:
                stored = partition.records[offset]
                if stored is not None:
                    found.append(_message(topic_partition, offset, stored))
                offset += 1
            self._next[topic_partition] = offset
            at_end = offset == partition.high and self._told_end.get(topic_partition) != offset
            if at_end and len(found) < maximum:
                self._told_end[topic_partition] = offset
                found.append(_error(topic_partition, offset, KafkaError._PARTITION_EOF))
        return found

    # --- what is asked ------------------------------------------------------------------------

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        self._kafka.answers("list_topics")
        return self._kafka.metadata()

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        if not cached:
            self._kafka.answers("get_watermark_offsets")
        with self._kafka.changed:
            one = self._kafka.topics[partition.topic][partition.partition]
            return one.low, one.high

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        self._kafka.answers("offsets_for_times")
        with self._kafka.changed:
            return self._unknown(partitions) or [
                TopicPartition(
                    one.topic,
                    one.partition,
                    self._kafka.topics[one.topic][one.partition].first_at(one.offset),
                )
                for one in partitions
            ]

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        self._kafka.answers("committed")
        group = self._made_of["group.id"]
        with self._kafka.changed:
            return self._unknown(partitions) or [
                TopicPartition(
                    one.topic,
                    one.partition,
                    self._kafka.committed.get((group, one.topic, one.partition), -1001),
                )
                for one in partitions
            ]

    def _unknown(self, partitions: list[TopicPartition]) -> list[Any]:
        """An error of each, if a test says so; else none."""
        error = self._kafka.offset_errors.pop() if self._kafka.offset_errors else None
        return [
            SimpleNamespace(topic=one.topic, partition=one.partition, offset=-1001, error=error)
            for one in partitions
            if error is not None
        ]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        group = self._made_of["group.id"]
        with self._kafka.changed:
            for one in offsets:
                self._kafka.committed[group, one.topic, one.partition] = one.offset
                self._kafka.commits.append((one.topic, one.partition, one.offset))

    def close(self) -> None:
        self.closed = True
        self.unassign()


class InMemoryProducer:
    """Kafka's producer."""

    def __init__(self, kafka: Brokers, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka = kafka
        kafka.told_aside += [made_of["error_cb"]] if "error_cb" in made_of else []
        self._heard: list[tuple[float, Callable[[], None]]] = []
        self._open = 0
        self.changed = kafka.condition()

    def reads(self, topic: str, partition: int) -> bool:
        """It reads nothing."""
        return False

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int = 0,
        headers: Any = (),
        on_delivery: Callable[[KafkaError | None, Message], None] = lambda *_: None,
        **_: Any,
    ) -> None:
        self._kafka.speaks()
        became = self._kafka.appends(decode(value)) if topic == COORDINATION_TOPIC else LANDS
        offset = (
            self._kafka.append(topic, partition, value, tuple(headers), key)
            if became.lands
            else None
        )
        known = offset if became.offset_known else None
        where: dict[str, Any] = {} if known is None else {"offset": known}
        message = Message(topic=topic, partition=partition, value=value, **where)
        with self._kafka.changed:
            self._open += 1
            at_s = self._kafka.waiting_s() + became.after_s
            hear = partial(self._heard.append, (at_s, partial(on_delivery, became.error, message)))
            if became.heard:
                hear()
            else:
                self._kafka.unheard.append(hear)
            self.changed.notify_all()

    def poll(self, timeout: float = -1) -> int:
        self._kafka.speaks()
        with self._kafka.changed:
            now_s = self._kafka.waiting_s()
            left_s = min((at_s - now_s for at_s, _ in self._heard), default=timeout)
            if left_s > 0:
                self._kafka.wait(self, min(timeout, left_s))
                now_s = self._kafka.waiting_s()
            calls = [call for at_s, call in self._heard if at_s <= now_s]
            self._heard[:] = [(at_s, call) for at_s, call in self._heard if at_s > now_s]
        for call in calls:
            with self._kafka.changed:
                self._open -= 1
            call()
        return len(calls)

    def __len__(self) -> int:
        return self._open

    def purge(self) -> None:
        if self._kafka.delivers_purged:
            self._kafka.deliver()


class InMemoryAdmin:
    """Kafka's admin client."""

    def __init__(self, kafka: Brokers, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka = kafka

    def poll(self, timeout: float = -1) -> int:
        return 0

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        self._kafka.speaks()
        self._kafka.asked("list_topics")
        self._kafka.answers("list_topics")
        return self._kafka.metadata()

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {
            name: self._promised("describe_topics", partial(self._described, name))
            for name in topics.topic_names
        }

    def _described(self, name: str) -> Any:
        partitions = self._kafka.topics.get(name)
        if partitions is None or self._kafka.missing(name):
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        node = SimpleNamespace(id=1)
        topic_id = self._kafka.topic_ids[name].bytes
        halves = topic_id[:8], topic_id[8:]
        return SimpleNamespace(
            partitions=[
                SimpleNamespace(id=number, leader=node, replicas=[node], isr=[node])
                for number in range(len(partitions))
            ],
            authorized_operations=None,
            topic_id=Uuid(*(int.from_bytes(half, signed=True) for half in halves)),
        )

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {
            topic_partition: self._promised(
                "list_offsets", partial(self._offset, topic_partition, spec)
            )
            for topic_partition, spec in wanted.items()
        }

    def _offset(self, topic_partition: TopicPartition, spec: Any) -> Any:
        with self._kafka.changed:
            one = self._kafka.topics[topic_partition.topic][topic_partition.partition]
            found = {-2: one.low, -1: one.high}.get(spec._value)
            return SimpleNamespace(offset=one.first_at(spec._value) if found is None else found)

    def __getattr__(self, question: str) -> Callable[..., dict[Any, Future[Any]]]:
        """Any other question is refused, unless `answers` says otherwise."""

        def refused() -> Any:
            raise KafkaException(KafkaError(KafkaError.INVALID_REQUEST))

        return lambda *_, **__: defaultdict(lambda: self._promised(question, refused))

    def _promised(self, question: str, answer: Callable[[], Any]) -> Future[Any]:
        self._kafka.speaks()
        self._kafka.asked(question)
        future: Future[Any] = Future()
        try:
            self._kafka.answers(question)
            future.set_result(answer())
        except BaseException as error:
            future.set_exception(error)
        return future


def _message(topic_partition: tuple[str, int], offset: int, stored: Stored) -> Message:
    return Message(
        topic=topic_partition[0],
        partition=topic_partition[1],
        offset=offset,
        value=stored.value,
        key=stored.key,
        headers=list(stored.headers) or None,
        timestamp=(2, stored.timestamp_ms),
    )


def _error(topic_partition: tuple[str, int], offset: int, code: int) -> Message:
    return Message(
        topic=topic_partition[0],
        partition=topic_partition[1],
        offset=offset,
        error=KafkaError(code),
    )
