"""One partition of a topic in memory, and the records in it. It knows no client of Kafka."""

from __future__ import annotations

from attrs import define, field, frozen


@frozen
class Stored:
    """A record as it lies in a partition."""

    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0
    key: bytes | None = None


@define(eq=False)
class Partition:
    """Records by offset."""

    records: list[Stored | None] = field(factory=list)
    """None where the log was compacted, or holds a control record."""
    low: int = 0
    """The first offset that is still there."""

    @property
    def high(self) -> int:
        """The offset after the last record."""
        return len(self.records)

    def first_at(self, at_ms: int) -> int:
        """The first record that is not older than this unix time; -1 if there is none."""
        for offset in range(self.low, self.high):
            stored = self.records[offset]
            if stored is not None and stored.timestamp_ms >= at_ms:
                return offset
        return -1
