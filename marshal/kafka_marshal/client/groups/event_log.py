"""Creates, reads and appends to the log `__marshal_groups` on Kafka.

A thread reads all partitions, and decodes the records. This module knows bytes, offsets and the
topic's settings. It does not know what an event means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Final, TypeAlias

import attrs
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.coordination_topic import TopicSpec, ensure
from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.connect.reader import (
    CoordinationReader,
    OffsetsGone,
    Watermarks,
    raw_record,
)
from kafka_marshal.client.connect.settings import TOPIC_BYTES_MIN, Settings
from kafka_marshal.client.connect.threads import Thread
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.group_codec.records import decode_record

GROUPS_TOPIC: Final = "__marshal_groups"
"""The log's default name."""
PARTITIONS: Final = 16
"""Constant for ever: it determines the partition of each group."""
RETENTION_MS: Final = 30 * 24 * 3_600_000
"""Of a new topic. With no controller for longer than that, all groups are gone."""
_QUARTER: Final = 4
_TAKEN_BYTES: Final = 1_048_588
_SENT_BYTES: Final = 1_000_000
"""Kafka's defaults: of a topic, and of a client that appends."""
_AROUND_BYTES: Final = 1_024
"""Allowance for the key, the headers and Kafka's own fields, in bytes."""
_BATCHES_MAX: Final = 4
"""The most batches that were read and not taken yet."""
_WAIT_S: Final = 0.2
JOIN_S: Final = 5.0


@frozen
class PartitionBegun:
    """A partition is read from this offset on, from now on."""

    partition: int
    offset: int
    at_position: bool = False
    """The offset is the claim's position: its controller read the snapshots here back."""


@frozen
class Reached:
    """All records before this offset of a partition were read, or never will be."""

    partition: int
    offset: int
    malformed: str | None = None
    """Why the record directly before it is no event; None if there is none."""


Read: TypeAlias = PartitionBegun | Reached | EventRecord


@frozen
class GroupsTopic:
    """The topic's settings that limit a controller."""

    snapshot_interval_ms: int
    """How often snapshots must be written."""
    event_bytes_max: int
    """The largest event that the topic accepts, and that a Kafka client sends."""
    batch_bytes_max: int
    """The size limit of events that are sent together."""


def ensure_groups_topic(cluster: ClusterClient, topic: str = GROUPS_TOPIC) -> GroupsTopic:
    """Create the log unless it exists.

    Raises:
        BrokerFailed: the cluster did not answer, or the topic has another number of partitions.
    """
    found, _ = ensure(cluster, TopicSpec(topic, PARTITIONS, retention_ms=RETENTION_MS))
    if len(found.partitions) != PARTITIONS:
        raise BrokerFailed(
            f"{cluster.settings.bootstrap}: topic {topic} has {len(found.partitions)} partitions, "
            f"and groups need {PARTITIONS}: let it be made by a controller"
        )
    hold = cluster.topic_settings(topic)
    retention_ms = _number(hold, "retention.ms", RETENTION_MS)
    taken = _number(hold, "max.message.bytes", _TAKEN_BYTES)
    sent = _number(cluster.settings.values, "message.max.bytes", _SENT_BYTES)
    return GroupsTopic(
        max(1, min(retention_ms, RETENTION_MS) // _QUARTER),
        min(taken, sent) - _AROUND_BYTES,
        taken,
    )


def _number(hold: Mapping[str, str], name: str, default: int) -> int:
    found = hold.get(name, "")
    return int(found) if found.isdecimal() else default


class EventLog:
    """The log, opened to append and to be read by a thread; close it."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        note: Callable[[str], None],
        failed: Callable[[BaseException], None],
        batch_bytes_max: int = TOPIC_BYTES_MIN,
    ) -> None:
        """Connect to append.

        Args:
            settings: how to connect.
            topic: the log's name.
            note: called with sentences about the cluster, in any thread.
            failed: called with the error that ended reading or appending, in any thread.
            batch_bytes_max: the topic's `max.message.bytes`.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self._settings = attrs.evolve(settings, keyring=None)
        self._topic = topic
        self._failed = failed
        self._writer = LogWriter(
            self._settings, topic, note, on_failure=failed, batch_bytes_max=batch_bytes_max
        )
        self._stopped = False
        self._room = settings.environment.threads.semaphore(_BATCHES_MAX)
        self._thread: Thread | None = None

    def append(self, record: EventRecord, not_appended: Callable[[EventRecord], None]) -> None:
        """Append an event.

        `not_appended` is called, in any thread, if it was refused or its outcome is unknown.
        """
        future = self._writer.append_event(record)
        future.add_done_callback(
            lambda done: None if done.exception() is None else not_appended(record)
        )

    @property
    def failed(self) -> str | None:
        """Why nothing can be appended any more; None while all is well."""
        return self._writer.failed

    def read(
        self,
        positions: Callable[[], Mapping[int, int]],
        give: Callable[[list[Read]], None],
    ) -> None:
        """Start a thread that reads each partition from its position on.

        `give` is called with read records, in that thread. Call `taken` after each call.
        """
        self._thread = self._settings.environment.start(
            "marshal-events", lambda: self._run(positions, give), self._ended
        )

    def taken(self) -> None:
        """The last result is processed; more may be read."""
        self._room.release()

    def close(self) -> None:
        """Stop reading, wait for pending appends, and disconnect."""
        self._stopped = True
        self._writer.close()
        self._settings.environment.deadline(JOIN_S).join(self._thread)

    def _ended(self, error: BaseException) -> None:
        if not self._stopped:
            self._failed(error)

    def _run(
        self, positions: Callable[[], Mapping[int, int]], give: Callable[[list[Read]], None]
    ) -> None:
        with closing(CoordinationReader(self._settings, self._topic)) as reader:
            while not self._stopped:
                starts = starts_of(reader.extents(), positions())
                try:
                    self._follow(reader, starts, give)
                except OffsetsGone:
                    # The log lost its end, or retention overtook us: the folded state may be wrong.
                    continue

    def _follow(
        self,
        reader: CoordinationReader,
        starts: Sequence[PartitionBegun],
        give: Callable[[list[Read]], None],
    ) -> None:
        reached = {each.partition: each.offset for each in starts}
        self._give(give, [*starts])
        for messages, ends in reader.messages(dict(reached), lambda: self._stopped):
            found: list[Read] = []
            for raw in map(raw_record, messages):
                if raw.offset > reached[raw.partition]:
                    found.append(Reached(raw.partition, raw.offset))
                found.append(_decoded(raw))
                reached[raw.partition] = raw.offset + 1
            for partition, end in ends.items():
                if end > reached[partition]:
                    reached[partition] = end
                    found.append(Reached(partition, end))
            if found:
                self._give(give, found)

    def _give(self, give: Callable[[list[Read]], None], found: list[Read]) -> None:
        while not self._room.acquire(timeout=_WAIT_S):
            if self._stopped:
                return
        give(found)


def starts_of(
    extents: Mapping[int, Watermarks], positions: Mapping[int, int]
) -> list[PartitionBegun]:
    """The start of each partition: the claim's position, if the log still has it.

    Otherwise it is the log's start. If that is not offset 0, it is unknown whether a snapshot there
    was accepted.
    """
    starts = []
    for number, extent in extents.items():
        position = positions.get(number, 0)
        is_there = extent.low <= position <= extent.high
        starts.append(PartitionBegun(number, position if is_there else extent.low, is_there))
    return starts


def _decoded(raw: RawRecord) -> EventRecord | Reached:
    try:
        return decode_record(
            raw.partition, raw.offset, raw.timestamp_ms, raw.key, raw.value, raw.headers
        )
    except MalformedRecord as error:
        return Reached(raw.partition, raw.offset + 1, str(error))
