"""One partition of a topic in memory, and its records."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field, frozen
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
)


@frozen
class Stored:
    """A record as it lies in a partition."""

    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    key: bytes | None = None
    time_kind: int = TIMESTAMP_LOG_APPEND_TIME
    """Whose time it carries, by Kafka's number."""


@define(eq=False)
class Partition:
    """Records by offset."""

    records: list[Stored | None] = field(factory=list)
    """None where the log was compacted, or holds a control record."""
    low: int = 0
    """The first offset that is still there."""
    settings: Mapping[str, str] = field(factory=dict)
    """Those of its topic."""
    cuts: list[int] = field(factory=list)
    """Where it ended after each time that it lost its end: a new leader, with an epoch of its own.
    """
    leader: int = 1
    """The number of its broker."""
    aborted: set[int] = field(factory=set)
    """Records of transactions that were aborted."""
    open_transactions: list[int] = field(factory=list)
    """The first offset of each transaction that has not ended."""

    @property
    def high(self) -> int:
        """The offset after the last record."""
        return len(self.records)

    @property
    def stable(self) -> int:
        """The last stable offset: where the first transaction begins that has not ended."""
        return min(self.open_transactions) if self.open_transactions else len(self.records)

    @property
    def time_kind(self) -> int:
        """Whose time its records carry, by Kafka's number."""
        append_time = self.settings.get("message.timestamp.type") == "LogAppendTime"
        return TIMESTAMP_LOG_APPEND_TIME if append_time else TIMESTAMP_CREATE_TIME

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that it takes, in bytes."""
        return int(self.settings.get("max.message.bytes", 1_048_588))

    def first_at(self, at_ms: int) -> int:
        """The first record that is not older than this unix time; -1 if there is none."""
        for offset in range(self.low, self.high):
            stored = self.records[offset]
            if stored is not None and stored.timestamp_ms >= at_ms:
                return offset
        return -1

    def offset_of(self, wanted: int) -> int:
        """The offset that a time stands for, or Kafka's number for the begin or the end."""
        if wanted == OFFSET_BEGINNING:
            return self.low
        return self.high if wanted == OFFSET_END else self.first_at(wanted)
