"""The log of a run: its records, and the fold that all readers share.

All readers that saw a log from its beginning have the same state. So each record is folded once,
here, and not once per reader. This module does not know the readers.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import attrs

from kafka_marshal.core.claims.invariants import Property, broken_by
from kafka_marshal.core.claims.suffix_reader import EVERYTHING, Field, Reader, read_record
from kafka_marshal.core.claims.verdicts import OWNER_STAYS, Verdict
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import LogEntry
from kafka_marshal.core.state import Claim, ClaimKey, Rules

FORGET_EVERY = 1024
"""After this many records, folds that every reader has passed are dropped."""


@attrs.define
class FoldedRecord:
    """The effect of a record on a reader that knows the whole log."""

    before: Reader
    after: Reader
    verdict: Verdict | None


_NO_MORE_TO_LEARN: Final = EVERYTHING & ~Field.PAUSER
"""All that owners' records can make certain; they never make the pauser certain."""


def _goes_on(reader: Reader, fold: FoldedRecord, record: Record) -> bool:
    """Whether an owner's record changes only the claim in this reader, and the claim is shared.

    Then the result is that of `read_record`, without calling it. Nearly every record is of this
    kind.
    """
    clock_ms = record.headers.clock
    return (
        fold.verdict in OWNER_STAYS
        and _NO_MORE_TO_LEARN in reader.certain
        and fold.before.certain is EVERYTHING
        and (clock_ms is None or clock_ms <= fold.after.claim.clock_ms)
    )


def _with_claim(reader: Reader, claim: Claim) -> Reader:
    return Reader(
        claim, reader.certain, reader.undecided, reader.reached, reader.alive_ms, reader.head_ms
    )


@attrs.define
class Entry:
    """One record of the log."""

    offset: int
    record: Record | None
    """None if the value is no message: it takes an offset and has no effect."""
    key: ClaimKey | None = None
    """Its claim; None for a ReleaseGroup, which affects its whole group."""
    fold: FoldedRecord | None = None
    """The fold of its own claim; dropped when every reader has passed."""
    folds: tuple[FoldedRecord, ...] = ()
    """For a ReleaseGroup, the folds of all known claims of the group."""
    _ranged: LogEntry | None = None

    @property
    def ranged(self) -> LogEntry | None:
        """The record as a reader of ranges decodes it; None if that is no message either."""
        record = self.record
        if self._ranged is None and record is not None:
            self._ranged = LogEntry(
                RangesRecord(
                    *(record.partition, record.offset, record.timestamp_ms),
                    *(record.message, record.headers),
                )
            )
        return self._ranged

    def folded(self, reader: Reader, rules: Rules) -> tuple[Reader, Verdict | None]:
        """The reader after this record; the shared state, if it was in the shared state before."""
        assert self.record is not None
        fold = self.fold
        if fold is not None and fold.before is reader:
            return fold.after, fold.verdict
        for each in self.folds:
            if each.before is reader:
                return each.after, each.verdict
        if fold is None:
            return read_record(reader, self.record, rules)
        if fold.before.claim is reader.claim and _goes_on(reader, fold, self.record):
            return _with_claim(reader, fold.after.claim), fold.verdict
        after, verdict = read_record(reader, self.record, rules)
        if fold.after == after:
            return fold.after, verdict  # it has caught up: from here on it shares
        if fold.after.claim == after.claim:
            return _with_claim(after, fold.after.claim), verdict
        return after, verdict


class PartitionLog:
    """One coordinating partition."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.entries: list[Entry] = []
        """The records, except dropped ones."""
        self._offsets: list[int] = []
        self._readers = PartitionStates[ClaimKey, Reader](Reader())
        self._kept_from = 0
        self.dropped = 0
        """The number of dropped entries at the beginning: no instance begins to read there any
        more."""
        self.has_gaps = False
        """Whether offsets are missing, before the first record or between two."""

    @property
    def last_offset(self) -> int:
        """The offset of the last record; -1 in an empty log."""
        return self._offsets[-1] if self._offsets else -1

    @property
    def beginning(self) -> Reader:
        """The initial state of a reader of the whole log: unknown, if the log's head is missing."""
        return self._readers.beginning

    def index_at(self, offset: int) -> int:
        """The index of the first record at or after this offset, which may not exist yet."""
        return self.dropped + bisect_left(self._offsets, offset)

    @property
    def end(self) -> int:
        """The index of the next record."""
        return self.dropped + len(self.entries)

    def entry(self, index: int) -> Entry:
        """The record with this index, which must not be dropped."""
        assert index >= self.dropped
        return self.entries[index - self.dropped]

    def reader(self, key: ClaimKey) -> Reader:
        """The claim's state after the whole log."""
        return self._readers[key]

    def newborn(self, group: str) -> Reader:
        """The state of a claim of this group without records of its own."""
        return self._readers.newborn(group)

    def append(
        self, offset: int, record: Record | None, ranged: LogEntry | None = None
    ) -> tuple[Entry, Property | None]:
        """Fold the next record; return its entry, and the property that the step violates, if any.

        `ranged` is the record as a reader of ranges decodes it, if that is more than `record`.
        """
        self.has_gaps |= offset != self.last_offset + 1
        if not self._offsets and offset > 0:
            self._readers = PartitionStates(Reader.beginning_at(offset))
        self._offsets.append(offset)
        if record is None:
            entry, broken = Entry(offset, None), None
        elif isinstance(record.message, ReleaseGroup):
            entry, broken = self._release_group(record, record.message.group_id)
        else:
            key = record.message.key
            _, _, (fold, broken) = self._readers.step(key, self._step, record)
            entry = Entry(offset, record, key, fold)
        entry._ranged = ranged
        self.entries.append(entry)
        return entry, broken

    def resume(
        self,
        entries: list[Entry],
        readers: PartitionStates[ClaimKey, Reader],
        dropped: int,
        has_gaps: bool,
    ) -> None:
        """Continue from another fold of the log, which has dropped the first records."""
        self.entries = entries
        self._offsets = [entry.offset for entry in entries]
        self._readers = readers
        self.dropped = self._kept_from = dropped
        self.has_gaps = has_gaps

    def _step(
        self, before: Reader, record: Record
    ) -> tuple[Reader, tuple[FoldedRecord, Property | None]]:
        after, verdict = read_record(before, record, self.rules)
        broken: list[Property] = []
        if verdict is not None and before.certain is EVERYTHING:
            broken = broken_by(before.claim, record, after.claim, verdict)
        return after, (FoldedRecord(before, after, verdict), broken[0] if broken else None)

    def _release_group(self, record: Record, group_id: str) -> tuple[Entry, Property | None]:
        newborn, reached = self._readers.step_group(group_id, self._step, record)
        folds, broken = zip(newborn, *(each.verdict for each in reached), strict=True)
        first = next((prop for prop in broken if prop is not None), None)
        return Entry(record.offset, record, None, None, folds), first

    def forget_before(self, index: int) -> None:
        """Drop the folds that every reader has passed; later readers must fold by themselves."""
        begin, end = (max(0, each - self.dropped) for each in (self._kept_from, index))
        for entry in self.entries[begin:end]:
            entry.fold, entry.folds = None, ()
        self._kept_from = max(self._kept_from, index)

    def drop_before(self, index: int) -> None:
        """Drop records that every reader has passed, and where no instance will begin.

        The last one is kept, since it holds the end of the log.
        """
        passed = min(index, self.end - 1) - self.dropped
        if passed > 0:
            del self.entries[:passed], self._offsets[:passed]
            self.dropped += passed
