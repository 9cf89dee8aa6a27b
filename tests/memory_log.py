"""A coordinating partition in memory: records get an offset and a timestamp, and are folded.

Nothing is late, lost or doubled here, and nobody reads: that is for those who hold the log. Every
test that plays a log by hand has this one. Two others stay. `tests/client/doubles.py` is a Kafka of
bytes under the client's own API. In `model_tests/explorer` a log is a state that never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from attrs import define, field

from kafka_marshal import Headers, Message, Record, World
from kafka_marshal.core.claims.verdicts import ReadTwice, Verdict
from kafka_marshal.core.messages import NO_HEADERS


@define(eq=False)
class MemoryLog(Sequence[Record]):
    """The records of one coordinating partition, in offset order."""

    partition: int = 0
    first: int = 0
    """Offset of the first record: whatever was before it is not here."""
    world: World = field(factory=World)
    """What the records fold to."""
    verdict: Verdict | ReadTwice | None = None
    """What the last record did; nothing before the first."""
    _records: list[Record] = field(factory=list, init=False)

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self.first + len(self._records)

    def append(self, message: Message, headers: Headers = NO_HEADERS, *, at_ms: int) -> Record:
        """Append what somebody produced, with the broker's timestamp."""
        record = Record(self.partition, self.next_offset, at_ms, message, headers)
        self._records.append(record)
        self.verdict = self.world.apply(record).verdict
        return record

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        return self._records[place]
