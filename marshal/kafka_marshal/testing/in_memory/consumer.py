"""Kafka's consumer on brokers in memory, with the methods that the shipped client calls.

It implements `FetchClient` and `LogReader`. It does not decide what the brokers answer.
"""

# ruff: noqa: D102  # each method is Kafka's, and described there

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_marshal.testing.in_memory.brokers import UP, Brokers
from kafka_marshal.testing.in_memory.partition import Partition, Stored

_EARLIEST: Final = ("earliest", "smallest", "beginning")
_LATEST: Final = ("latest", "largest", "end")


class InMemoryConsumer:
    """Kafka's consumer, for messages or for the coordination topic."""

    def __init__(self, kafka: Brokers, of_log: bool, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka, self._of_log, self._made_of = kafka, of_log, made_of
        self._committed_only = made_of.get("isolation.level") != "read_uncommitted"
        self._reports_ends = made_of.get("enable.partition.eof") == "true"
        self._reset = made_of.get("auto.offset.reset", "largest")
        self._next: dict[tuple[str, int], int] = {}
        self._paused: set[tuple[str, int]] = set()
        self._reported_end: dict[tuple[str, int], int] = {}
        self._stopped: set[tuple[str, int]] = set()
        """Partitions without a valid position: they return nothing more until they are assigned
        again."""
        self._extents: dict[tuple[str, int], tuple[int, int]] = {}
        """The offsets, begin and end, of each partition at its last fetch."""
        self._cuts: dict[tuple[str, int], int] = {}
        """How often each partition had lost its end at the last fetch, if it ever did."""
        self._arrive: dict[tuple[str, int], tuple[float, int]] = {}
        """When records of a slow broker will arrive, and up to which offset."""
        self._nothing_since = -1
        """The brokers' number of changes when there was nothing to fetch; -1: unknown."""
        self._callbacks: deque[Callable[[], object]] = deque()
        self._process = kafka.process()
        self.closed = False
        self.changed = kafka.condition()
        kafka.readings.append(self)

    def reads(self, topic: str, partition: int) -> bool:
        """Whether it would return new records of this partition."""
        return (topic, partition) in self._next and (topic, partition) not in self._paused

    def _open(self, what: str = "Consumer closed") -> None:
        if self.closed:
            raise RuntimeError(what)

    # --- what is read -------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.unassign()
        self.incremental_assign(partitions)

    def unassign(self) -> None:
        self._open()
        with self._kafka.changed:
            self._next.clear()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        self._open()
        with self._kafka.changed:
            wanted = {(one.topic, one.partition): one.offset for one in partitions}
            if len(wanted) < len(partitions):
                raise KafkaException(
                    KafkaError(KafkaError._INVALID_ARG, "a partition is there twice")
                )
            for topic, number in wanted.keys() & self._next.keys():
                reason = f"{topic} [{number}] is already part of the current assignment"
                raise KafkaException(KafkaError(KafkaError._CONFLICT, reason))
            for place, offset in wanted.items():
                there, begin = self._kafka.partition(*place), None
                if there is not None and offset in (OFFSET_BEGINNING, OFFSET_END):
                    begin = self._reset_to(there, offset)
                self._next[place] = offset if begin is None else begin
                self._cuts[place] = 0 if there is None else len(there.cuts)
            for topic_partition in wanted:
                # A paused partition stays paused, even if it is assigned again.
                self._reported_end.pop(topic_partition, None)
                self._arrive.pop(topic_partition, None)
                self._stopped.discard(topic_partition)
                self._extents.setdefault(topic_partition, (OFFSET_INVALID, OFFSET_INVALID))
            self._nothing_since = -1
            self.changed.notify_all()

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        self._open()
        with self._kafka.changed:
            for one in partitions:
                if (one.topic, one.partition) not in self._next:
                    reason = f"{one.topic} [{one.partition}] is not part of the current assignment"
                    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))
            for one in partitions:
                self._next.pop((one.topic, one.partition), None)

    def pause(self, partitions: list[TopicPartition]) -> None:
        self._open()
        with self._kafka.changed:
            self._paused.update(self._known(partitions))

    def resume(self, partitions: list[TopicPartition]) -> None:
        self._open()
        with self._kafka.changed:
            for one in self._known(partitions):
                if one in self._paused:
                    self._paused.discard(one)
                    self._reported_end.pop(one, None)
            self._nothing_since = -1
            self.changed.notify_all()

    def _known(self, partitions: list[TopicPartition]) -> list[tuple[str, int]]:
        """The partitions whose topics were ever assigned: the client cannot pause others."""
        topics = {topic for topic, _ in self._extents}
        return [(one.topic, one.partition) for one in partitions if one.topic in topics]

    def poll(self, timeout: float = -1) -> Message | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._open()
        self._kafka.speaks()
        if self._of_log:
            self._kafka.reading_log()
        while self._callbacks:
            self._callbacks.popleft()()
        deadline = self._kafka.waiting_s() + timeout
        with self._kafka.changed:
            found = self._fetch(num_messages)
            while len(found) < num_messages and timeout:
                left = deadline - self._kafka.waiting_s() if timeout > 0 else None
                if left is not None and left <= 0:
                    break
                self._kafka.wait(self, self._until_it_arrives(left))
                found += self._fetch(num_messages - len(found))
        if not self._of_log and found:
            self._kafka.fetching(found)
        return found

    def _fetch(self, maximum: int) -> list[Message]:
        if self._of_log and not self._kafka.log_flows:
            return []
        found: list[Message] = []
        topics, linked, changes = self._kafka.topics, self._kafka.linked, self._kafka.changes
        if self._nothing_since == changes:
            return found
        for topic_partition, begin in self._next.items():
            if len(found) == maximum:
                break
            if topic_partition in self._paused or topic_partition in self._stopped:
                continue
            partitions = topics.get(topic_partition[0], ())
            if topic_partition[1] >= len(partitions):
                continue
            partition = partitions[topic_partition[1]]
            high = len(partition.records)
            if begin == high == self._reported_end.get(topic_partition):
                continue
            if linked:
                arrived = self._arrived(topic_partition, partition)
                if arrived is None:
                    continue
                high = arrived
            low = partition.low
            self._extents[topic_partition] = low, high
            lost = bool(partition.cuts) and self._lost(topic_partition, partition, begin)
            if lost or not low <= begin <= len(partition.records):
                reset = self._reset_to(partition, begin)
                if reset is None:
                    self._stopped.add(topic_partition)
                    self._extents[topic_partition] = -1, -1  # as the broker's refusal has it
                    found.append(_error(topic_partition, begin, KafkaError._AUTO_OFFSET_RESET))
                    continue
                begin = self._next[topic_partition] = reset
            hidden: set[int] | frozenset[int] = frozenset()
            if self._committed_only:
                high, hidden = min(high, partition.stable), partition.aborted
            offset = begin
            while offset < high and len(found) < maximum:
                stored = partition.records[offset]
                if stored is not None and offset not in hidden:
                    found.append(_message(topic_partition, offset, stored))
                offset += 1
            self._next[topic_partition] = offset
            at_end = offset == high and self._reported_end.get(topic_partition) != offset
            if at_end and len(found) < maximum:
                self._reported_end[topic_partition] = offset
                if self._reports_ends:
                    found.append(_error(topic_partition, offset, KafkaError._PARTITION_EOF))
        # Records in flight over a slow link arrive without further changes.
        self._nothing_since = -1 if found or linked else changes
        return found

    def _lost(self, topic_partition: tuple[str, int], partition: Partition, begin: int) -> bool:
        """Whether records that it read are lost, which a new leader epoch shows."""
        since = partition.cuts[self._cuts.get(topic_partition, 0) :]
        self._cuts[topic_partition] = len(partition.cuts)
        return min(since, default=begin) < begin

    def _arrived(self, topic_partition: tuple[str, int], partition: Partition) -> int | None:
        """The offset up to which a partition was fetched; None while a fetch is in flight."""
        link = self._kafka.link_to(self._process, partition)
        if link == UP:
            return partition.high
        if not link.works:
            return None
        now_s, position = self._kafka.waiting_s(), self._next[topic_partition]
        later = now_s + link.latency_s, partition.high
        at_s, high = self._arrive.setdefault(topic_partition, later)
        if at_s <= now_s and position >= high != partition.high:
            at_s, high = self._arrive[topic_partition] = later
        return None if at_s > now_s else min(high, partition.high)

    def _until_it_arrives(self, left_s: float | None) -> float | None:
        """How long to wait for records: no longer than a slow broker needs."""
        if not self._arrive:
            return left_s
        now_s = self._kafka.waiting_s()
        due = [at_s - now_s for at_s, _ in self._arrive.values() if at_s > now_s]
        return min([*due, *([] if left_s is None else [left_s])], default=None)

    def _reset_to(self, partition: Partition, position: int) -> int | None:
        """The offset to which a position outside of the partition is reset; None for an error."""
        if position == OFFSET_BEGINNING:
            return partition.low
        if position == OFFSET_END or self._reset in _LATEST:
            return partition.stable if self._committed_only else partition.high
        return partition.low if self._reset in _EARLIEST else None

    # --- what is asked ------------------------------------------------------------------------

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        self._open("Handle has been closed")
        self._kafka.answers("list_topics")
        self._kafka.ask(self._process, timeout, refused=KafkaError._TRANSPORT)
        return self._kafka.metadata(topic)

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        self._open()
        if cached:
            nothing = OFFSET_INVALID, OFFSET_INVALID
            return self._extents.get((partition.topic, partition.partition), nothing)
        self._kafka.answers("get_watermark_offsets")
        self._reach(timeout, [partition])
        with self._kafka.changed:
            one = self._existing(partition)
            return one.low, one.stable if self._committed_only else one.high

    def _reach(self, timeout: float, partitions: list[TopicPartition]) -> None:
        """Contact the leaders; raise if one does not answer."""
        for one in partitions:
            there = self._kafka.partition(one.topic, one.partition)
            if self._kafka.linked and self._kafka.link_to(self._process, there).refused:
                # The same as in librdkafka, which looks up a leader first.
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
            if not self._kafka.reach(self._process, timeout, there).works:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _existing(self, one: TopicPartition) -> Partition:
        found = self._kafka.partition(one.topic, one.partition)
        if found is None:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return found

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        self._open()
        self._kafka.answers("offsets_for_times")
        self._reach(timeout, partitions)
        with self._kafka.changed:
            return self._unknown(partitions) or [
                TopicPartition(one.topic, one.partition, self._existing(one).offset_of(one.offset))
                for one in partitions
            ]

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        self._open()
        self._kafka.answers("committed")
        self._kafka.ask(self._process, timeout)
        group = self._made_of["group.id"]
        with self._kafka.changed:
            return self._unknown(partitions) or [
                TopicPartition(
                    one.topic,
                    one.partition,
                    self._kafka.committed.get((group, one.topic, one.partition), OFFSET_INVALID),
                )
                for one in partitions
            ]

    def _unknown(self, partitions: list[TopicPartition]) -> list[Any]:
        """An error for each, if a test has set one; else none."""
        error = self._kafka.offset_errors.pop() if self._kafka.offset_errors else None
        return [
            SimpleNamespace(topic=one.topic, partition=one.partition, offset=-1001, error=error)
            for one in partitions
            if error is not None
        ]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        self._open()
        failed = self._kafka.commit(self._made_of["group.id"], offsets)
        error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART) if failed else None
        if not offsets:
            error = KafkaError(KafkaError._NO_OFFSET)
        if "on_commit" in self._made_of:
            reported = _committed(offsets, error)
            self._callbacks.append(partial(self._made_of["on_commit"], error, reported))

    def close(self) -> None:
        if not self.closed:
            self.unassign()
        self.closed = True


def _committed(offsets: Sequence[TopicPartition], error: KafkaError | None) -> list[Any]:
    """The arguments of a callback for commits: one error applies to all."""
    return [
        SimpleNamespace(topic=one.topic, partition=one.partition, offset=one.offset, error=error)
        for one in offsets
    ]


def _message(topic_partition: tuple[str, int], offset: int, stored: Stored) -> Message:
    return Message(
        topic=topic_partition[0],
        partition=topic_partition[1],
        offset=offset,
        value=stored.value,
        key=stored.key,
        headers=list(stored.headers) or None,
        timestamp=(stored.time_kind, stored.timestamp_ms),
    )


def _error(topic_partition: tuple[str, int], offset: int, code: int) -> Message:
    return Message(
        topic=topic_partition[0],
        partition=topic_partition[1],
        offset=offset,
        error=KafkaError(code),
    )
