"""Records written by hand into a coordination topic of a real broker, and what is read back."""

from __future__ import annotations

import time
import uuid
from types import TracebackType
from typing import Self

from confluent_kafka import Producer

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.coordination_topic import TopicSpec, init
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.connect.settings import settings_of
from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Message,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.ranges.messages import RangeHeaders
from kafka_marshal.range_codec import encode_range, encode_range_headers
from kafka_marshal.testing import Broker
from tests.client.appender import Appender


def new_name(prefix: str) -> str:
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


class Hands:
    """A coordination topic and data topics of one test, and instances that are moved by hand."""

    def __init__(self, broker: Broker, partitions: int = 4) -> None:
        self.bootstrap = broker.bootstrap
        self.settings = settings_of(broker.bootstrap)
        self.cluster = ClusterClient(self.settings)
        self.topic = new_name("marshal")
        self.partitions = partitions
        init(self.cluster, TopicSpec(self.topic, partitions))
        self._log = LogWriter(self.settings, self.topic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._log.close()

    @property
    def options(self) -> tuple[str, ...]:
        """Of a command."""
        return ("--bootstrap", self.bootstrap, "--topic", self.topic)

    def data(self, partitions: int = 1, messages: int = 0) -> str:
        """A data topic that holds this many messages in each partition."""
        name = new_name("events")
        self.cluster.create_topic(name, partitions, 1, {})
        with Appender(self.bootstrap) as appender:
            for number in range(messages * partitions):
                appender.produce(name, b"x", partition=number % partitions)
        return name

    def append(self, message: Message, headers: Headers = NO_HEADERS, place: int = -1) -> int:
        """Where it lies; in its topic's partition unless `place` is another."""
        if place < 0:
            place = coordinating_partition(message.topic, self.partitions)
        offset = self._log.append(place, message, headers).result(30).offset
        assert offset is not None
        return offset

    def wins(
        self,
        group: str,
        topic: str,
        partition: int,
        who: str = "c1",
        interval_ms: int | None = None,
    ) -> int:
        """An instance `<who>i` asks for the claim; the offset, which is the epoch if it wins."""
        return self.append(
            ClaimingPartition(1, _now_s(), f"{who}i", who, group, topic, Partition(partition)),
            Headers(present=True, interval_ms=interval_ms),
        )

    def beats(
        self, group: str, topic: str, partition: int, epoch: int, at: int, who: str = "c1"
    ) -> int:
        """Its heartbeat at this offset of the data topic."""
        message = Heartbeat(
            1, _now_s(), f"{who}i", who, group, topic, Partition(partition), Offset(at)
        )
        return self.append(message, Headers(present=True, epoch=epoch))

    def asks(
        self, group: str, topic: str, partition: int, epoch: int, to: int, who: str = "c1"
    ) -> int:
        """It asks for the messages below `to`, to process them at most once."""
        message = ClaimingMessages(
            1, _now_s(), f"{who}i", who, group, topic, Partition(partition), Offset(to)
        )
        return self.append(message, Headers(present=True, epoch=epoch))

    def frees(
        self,
        group: str,
        topic: str,
        partition: int,
        epoch: int,
        at: int,
        who: str = "c1",
        done: int | None = None,
    ) -> int:
        """It releases the claim at this offset."""
        message = ReleasingPartition(
            1, _now_s(), f"{who}i", who, group, topic, Partition(partition), Offset(at)
        )
        return self.append(message, Headers(present=True, epoch=epoch, done=done))

    def sets(
        self, group: str, topic: str, partition: int, epoch: int, at: int, who: str = "admin"
    ) -> int:
        """It releases the claim, and sets this position."""
        message = ReleasingPartition(
            1, _now_s(), f"{who}i", who, group, topic, Partition(partition), Offset(at)
        )
        return self.append(message, Headers(present=True, epoch=epoch, set_position=1))

    def shares(
        self, group: str, topic: str, partition: int, window: int, who: str = "ranges"
    ) -> int:
        """An anchor asks for the claim, to share it with this window."""
        message = ClaimingPartition(1, _now_s(), f"{who}i", who, group, topic, Partition(partition))
        headers = encode_range_headers(Headers(present=True), RangeHeaders(window=window))
        return self._append_raw(message, headers)

    def asks_for_range(
        self,
        group: str,
        topic: str,
        partition: int,
        count: int,
        who: str = "p",
        seen: int | None = None,
        done: int | None = None,
        keep: int | None = None,
    ) -> int:
        """It asks for this many offsets of a shared claim, and says what it has done."""
        message = ClaimingRange(
            1, _now_s(), f"{who}i", who, group, topic, Partition(partition), count
        )
        headers = encode_range_headers(
            Headers(present=True, seen=seen), RangeHeaders(done=done, keep=keep)
        )
        return self._append_raw(message, headers)

    def _append_raw(
        self, message: ClaimingPartition | ClaimingRange, headers: list[tuple[str, bytes]]
    ) -> int:
        """What the client cannot write yet."""
        landed: list[int | None] = []
        producer = Producer({"bootstrap.servers": self.bootstrap})
        producer.produce(
            self.topic,
            encode_range(message),
            partition=coordinating_partition(message.topic, self.partitions),
            headers=list(headers),
            on_delivery=lambda _, message: landed.append(message.offset()),
        )
        assert producer.flush(30) == 0
        [offset] = landed
        assert offset is not None
        return offset

    def pauses(self, group: str, topic: str, seconds: int, who: str = "admin") -> int:
        """It pauses the group where the topic is coordinated."""
        message = ReleaseGroup(
            0, _now_s(), f"{who}i", who, group, "", Partition(0), _now_s() + seconds
        )
        return self.append(message, place=coordinating_partition(topic, self.partitions))


def _now_s() -> int:
    return int(time.time())
