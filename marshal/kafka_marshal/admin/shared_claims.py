"""The claims of one coordinating partition that several consumers share, and their ranges.

`fold` folds the underlying claims and passes every record to this module. If the log is read from
its first record on, ranges are certain. If its head is gone, they are unknown until a checkpoint
makes them known. This module does not know how ranges are shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from attrs import field, frozen

from kafka_marshal.core.claims.suffix_reader import Reader
from kafka_marshal.core.claims.verdicts import FENCED_WINS, Accepted, Verdict
from kafka_marshal.core.messages import ClaimingPartition, ClaimingRange, Record, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import LogEntry, RangesReader
from kafka_marshal.core.ranges.state import LIMITS, Limits, Ranges
from kafka_marshal.core.ranges.world import BEGIN_OR_END, RangesWorld
from kafka_marshal.core.state import Claim, ClaimKey, Rules

_RECENT_MAX: Final = 1_000
"""Records of a group that are kept before anything shows that a claim of it is shared."""
_RECORDS_MAX: Final = 10_000
"""Records of a shared claim that are kept, for a checkpoint that speaks of them."""


@frozen
class FoldedSharedClaim:
    """A claim that several consumers share, or may."""

    claim: Claim
    """The underlying claim; exact if its ranges are known."""
    ranges: Ranges | None
    """None if they are unknown: the log's head is gone, and there was no valid checkpoint yet."""
    clients: Mapping[str, str]
    """Client ids by instance id, of the requests for ranges that were read."""

    @property
    def instances(self) -> tuple[str, ...]:
        """The sharing instances that sent records and were not forgotten; empty if unknown."""
        if self.ranges is None:
            return ()
        return tuple(each.instance for each in self.ranges.alive)

    @property
    def held(self) -> int:
        """Offsets that instances hold, as far as that is known."""
        return 0 if self.ranges is None else sum(one.to - one.from_ for one in self.ranges.open)

    @property
    def skipped(self) -> int:
        """Free offsets that are never granted if the ranges end in the claim's current state.

        At most once these are the pool, and reserved offsets that were not granted.
        """
        ranges, position = self.ranges, self.claim.position
        if ranges is None or ranges.window != 0:
            return 0
        free = sum(max(0, min(one.to, position) - one.from_) for one in ranges.pool)
        return free + max(0, position - ranges.frontier)


class FoldedSharedClaims:
    """Folds the ranges of one coordinating partition, in offset order."""

    def __init__(
        self,
        first: int,
        rules: Rules,
        reader_of: Callable[[ClaimKey], Reader],
        limits: Limits = LIMITS,
    ) -> None:
        """`reader_of` returns a claim's state after the last folded record."""
        self._first = first
        self._reader_of = reader_of
        self._limits = limits
        self._world = RangesWorld(_ClaimsOf(rules, reader_of), limits)
        self._clients: dict[ClaimKey, dict[str, str]] = {}
        self._recent: dict[str, deque[Record]] = {}
        self._late: dict[ClaimKey, _LateRanges] = {}
        self._begun_anew: dict[ClaimKey, int] = {}
        """The offset of the last record after which a claim had no ranges for certain."""
        self._asked: set[tuple[ClaimKey, int]] = set()
        """Requests for a range tenure: a claim, and the epoch if it was won."""

    def of(self, key: ClaimKey) -> FoldedSharedClaim | None:
        """The ranges of a claim; None if it has none, or nothing that was read shows any."""
        claim, clients = self._reader_of(key).claim, self._clients.get(key, {})
        if self._first == 0:
            ranges = self._world.of(key)
            shared = ranges is not None and ranges.has_begun
            return FoldedSharedClaim(claim, ranges, clients) if shared else None
        late = self._late.get(key)
        if late is None:
            return None
        known = late.reader.known
        if known is None:
            return FoldedSharedClaim(claim, None, clients)
        if not known.ranges.has_begun:
            return None
        # The clock of ranges moves with every record of the claim, and a certain claim has it.
        return FoldedSharedClaim(known.claim, known.ranges, clients)

    def may_be_of_anchor(self, key: ClaimKey, epoch: int) -> bool:
        """Whether the tenure of this epoch is of an anchor, for all that share the claim.

        One that began in the missing head may be, if the claim is shared by now.
        """
        return (key, epoch) in self._asked or (epoch < self._first and key in self._late)

    def observe(
        self,
        key: ClaimKey,
        record: Record,
        verdict: Verdict | None,
        rules: Rules,
        entry: LogEntry | None,
    ) -> None:
        """Add one of the five messages, with its effect on a claim; None if that is unknown.

        `entry` is the record with the data that only a reader of ranges uses, if it has any.
        """
        if entry is not None and _shares(entry.record):
            self._asked.add((key, record.offset))
        if self._first == 0:
            if verdict is not None and verdict in BEGIN_OR_END:
                self._world.observe(_entry(record, entry).record, key, verdict)
            return
        if verdict is not None and _ends_ranges(_entry(record, entry).record, verdict):
            self._late.pop(key, None)
            self._begun_anew[key] = record.offset
        late = self._late.get(key)
        if late is None and entry is not None and _shows_ranges(entry):
            late = self._late[key] = self._begin(key, record, rules)
        if late is not None:
            late.read(_entry(record, entry), rules)
        self._keep(record)

    def release_group(self, record: Record, rules: Rules) -> None:
        """A ReleaseGroup, which reaches every claim of its group."""
        if self._first == 0:
            return  # it lets ranges sleep, and changes none
        for key, late in self._late.items():
            if key.group == record.message.group_id:
                late.read(_entry(record, None), rules)
        self._keep(record)

    def claiming_range(self, record: RangesRecord, message: ClaimingRange, rules: Rules) -> None:
        """Add a request for a range, or a sign of life."""
        key = message.key
        self._clients.setdefault(key, {})[message.instance_id] = message.client_id
        if self._first == 0:
            self._world.apply(record, message, rules)
            return
        late = self._late.get(key)
        if late is None:
            late = self._late[key] = self._begin(key, record, rules)
        late.read(LogEntry(record), rules)

    def _keep(self, record: Record) -> None:
        """Remember it: a checkpoint that follows may speak of it."""
        group = record.message.group_id
        recent = self._recent.get(group)
        if recent is None:
            recent = self._recent[group] = deque(maxlen=_RECENT_MAX)
        recent.append(record)

    def _begin(self, key: ClaimKey, record: Record | RangesRecord, rules: Rules) -> _LateRanges:
        """A reader of the ranges of a claim, from the oldest existing record on."""
        recent = self._recent.get(key.group) or deque[Record]()
        first = self._first if len(recent) < _RECENT_MAX else recent[0].offset
        first = max(first, self._begun_anew.get(key, first))
        late = _LateRanges(first, rules, self._limits)
        for each in recent:
            message = each.message
            of_it = isinstance(message, ReleaseGroup) or message.key == key
            if of_it and each.offset >= first:
                late.read(_entry(each, None), rules)
        return late


class _LateRanges:
    """The knowledge of one claim's ranges by a reader that began in the middle."""

    def __init__(self, first: int, rules: Rules, limits: Limits) -> None:
        self._rules, self._limits = rules, limits
        self.reader = RangesReader(first, rules, limits, _RECORDS_MAX)

    def read(self, entry: LogEntry, rules: Rules) -> None:
        """Read the next record. If the heartbeat interval changes, the reader starts over."""
        if rules is not self._rules:
            self._rules = rules
            self.reader = RangesReader(entry.record.offset, rules, self._limits, _RECORDS_MAX)
        self.reader.read(entry)


@frozen
class _ClaimsOf:
    """The claims below, for a `RangesWorld`."""

    rules: Rules
    reader_of: Callable[[ClaimKey], Reader] = field(repr=False)

    def claim(self, key: ClaimKey) -> Claim:
        return self.reader_of(key).claim

    def read_before(self, record: RangesRecord) -> None:
        """A reader of the live topic reads no record twice."""

    def pass_over(self, record: RangesRecord) -> None:
        """Nothing below counts records."""


def _entry(record: Record, entry: LogEntry | None) -> LogEntry:
    """The record as a reader of ranges reads it; without `entry` it has no header of ranges."""
    if entry is not None:
        return entry
    where = record.partition, record.offset, record.timestamp_ms
    return LogEntry(RangesRecord(*where, record.message, record.headers))


def _shows_ranges(entry: LogEntry) -> bool:
    """Whether a sender that knows ranges wrote this about a claim that is or will be shared."""
    return _shares(entry.record) or entry.checkpoint is not None


def _ends_ranges(record: RangesRecord, verdict: Verdict) -> bool:
    """Whether this record ends all ranges."""
    return verdict is Accepted.POSITION_SET or (verdict in FENCED_WINS and not _shares(record))


def _shares(record: RangesRecord) -> bool:
    """Whether it requests a range tenure."""
    window = record.range_headers.window
    return isinstance(record.message, ClaimingPartition) and window is not None and window >= 0
