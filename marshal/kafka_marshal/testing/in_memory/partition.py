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
    """A record stored in a partition."""

    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    key: bytes | None = None
    time_kind: int = TIMESTAMP_LOG_APPEND_TIME
    """The timestamp type, by Kafka's number."""


@define(eq=False)
class Partition:
    """Records by offset."""

    records: list[Stored | None] = field(factory=list)
    """None for a compacted offset, or a control record."""
    low: int = 0
    """The log start offset."""
    settings: Mapping[str, str] = field(factory=dict)
    """The settings of its topic."""
    cuts: list[int] = field(factory=list)
    """The end offsets after each loss of records: each begins a new leader epoch."""
    leader: int = 1
    """The broker id of its leader."""
    aborted: set[int] = field(factory=set)
    """The offsets of records in aborted transactions."""
    open_transactions: list[int] = field(factory=list)
    """The first offset of each open transaction."""

    @property
    def high(self) -> int:
        """The offset after the last record."""
        return len(self.records)

    @property
    def stable(self) -> int:
        """The last stable offset: the first offset of the oldest open transaction."""
        return min(self.open_transactions) if self.open_transactions else len(self.records)

    @property
    def time_kind(self) -> int:
        """The timestamp type of its records, by Kafka's number."""
        append_time = self.settings.get("message.timestamp.type") == "LogAppendTime"
        return TIMESTAMP_LOG_APPEND_TIME if append_time else TIMESTAMP_CREATE_TIME

    @property
    def batch_bytes_max(self) -> int:
        """The size limit of a batch, in bytes."""
        return int(self.settings.get("max.message.bytes", 1_048_588))

    def first_at(self, at_ms: int) -> int:
        """The offset of the first record at or after this unix time; -1 if there is none."""
        for offset in range(self.low, self.high):
            stored = self.records[offset]
            if stored is not None and stored.timestamp_ms >= at_ms:
                return offset
        return -1

    def offset_of(self, wanted: int) -> int:
        """The offset of a timestamp, or of Kafka's number for the beginning or the end."""
        if wanted == OFFSET_BEGINNING:
            return self.low
        return self.high if wanted == OFFSET_END else self.first_at(wanted)
