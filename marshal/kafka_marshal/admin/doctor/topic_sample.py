"""Counts the newest records of a coordination topic: partitions, timestamps, headers, senders.

It knows the content of records, but not their effect, nor which counts are wrong.
"""

from __future__ import annotations

from typing import Final

from attrs import define, field, frozen

from kafka_marshal.authentication import Authenticity, Keyring
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.codec import MalformedRecord, coordinating_partition
from kafka_marshal.core import wire
from kafka_marshal.core.claims.reducer import step
from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.messages import ClaimingPartition, ClaimingRange, ReleaseGroup
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.machines.consumer.intervals import Intervals
from kafka_marshal.range_codec import decode_range_headers, is_claiming_range

SAMPLE_MAX: Final = 20_000
"""Records that are looked at, of each partition."""
NEWBORN: Final = Claim()


@frozen
class MisplacedRecords:
    """Records of a data topic that are not in the partition given by the partition count."""

    topic: str
    partition: int
    right_partition: int
    last_ms: int
    """The newest of them."""
    first_right_ms: int | None
    """The oldest on the right partition, of those that were looked at."""


@define
class TopicSample:
    """The counts."""

    partitions: int
    records: int = 0
    malformed: int = 0
    create_time: int = 0
    """Records that carry a producer's time."""
    owners_records: int = 0
    """Records about ownership: all but ReleaseGroups."""
    without_headers: int = 0
    clients_without_headers: set[str] = field(factory=set)
    of_another_log: int = 0
    """Records that refer to an offset at or after their own, which no sender can have read here."""
    clients_of_another_log: set[str] = field(factory=set)
    keyring: Keyring | None = None
    """None: nothing is verified."""
    not_signed: int = 0
    clients_not_signed: set[str] = field(factory=set)
    not_authentic: int = 0
    """Records with a MAC that is not their own, or of a key that the keyring does not have."""
    clients_not_authentic: set[str] = field(factory=set)
    groups: set[str] = field(factory=set)
    stepped_back_ms: int = 0
    """The most that a timestamp is below the one before it in its partition."""
    stepped_back_at: int = -1
    last_ms: int = -1
    """The highest stamp of a broker."""
    highest_ms: int = -1
    """The highest stamp, a producer's too: by the highest of its claim an owner is stale."""
    begun: dict[int, int | None] = field(factory=dict)
    """Of partitions whose head is gone: the first stamp that is left; None if nothing is."""
    heads_not_read: set[int] = field(factory=set)
    """Partitions whose head is gone, and whose first record that is left was not read."""
    gaps: dict[int, tuple[int, int]] = field(factory=dict)
    """For partitions with missing offsets: the first and the end of the first gap."""
    _next: dict[int, int] = field(factory=dict)
    _intervals: dict[tuple[int, str], Intervals] = field(factory=dict)
    _group_last: dict[tuple[int, str], int] = field(factory=dict)
    _windows: dict[tuple[int, ClaimKey], list[int]] = field(factory=dict)
    """The windows of requests for shared claims; consecutive equal ones count once."""
    _latest: dict[int, int] = field(factory=dict)
    _first: dict[tuple[str, int], int] = field(factory=dict)
    _last: dict[tuple[str, int], int] = field(factory=dict)

    def begins_late(self, partition: int) -> None:
        """Its head is gone; the remaining records follow."""
        self.begun[partition] = None

    def begins(self, partition: int, first: int) -> None:
        """The next record of this partition is at `first`; offsets before it are missing."""
        self._next[partition] = first

    def ends(self, partition: int, end: int) -> None:
        """The partition was read to this offset; earlier offsets without a record are missing."""
        first = self._next.get(partition, end)
        if first < end:
            self.gaps.setdefault(partition, (first, end))

    def add(self, raw: RawRecord) -> None:
        """Add a record; those of each partition in offset order."""
        self.records += 1
        if raw.partition in self._next:
            self.ends(raw.partition, raw.offset)
            self._next[raw.partition] = raw.offset + 1
        if self.begun.get(raw.partition, 0) is None:
            self.begun[raw.partition] = raw.timestamp_ms
        self.highest_ms = max(self.highest_ms, raw.timestamp_ms)
        if raw.timestamp_type is TimestampType.CREATE_TIME:
            self.create_time += 1
        else:
            back_ms = self._latest.get(raw.partition, raw.timestamp_ms) - raw.timestamp_ms
            if back_ms > self.stepped_back_ms:
                self.stepped_back_ms, self.stepped_back_at = back_ms, raw.partition
            self._latest[raw.partition] = raw.timestamp_ms
            self.last_ms = max(self.last_ms, raw.timestamp_ms)
        try:
            record = raw.decoded()
        except MalformedRecord:
            if is_claiming_range(raw.value):
                self._add_range(raw)
            else:
                self.malformed += 1
            return
        message = record.message
        self._verify(raw, message.client_id)
        self.groups.add(message.group_id)
        key = raw.partition, message.group_id
        self._group_last[key] = raw.timestamp_ms
        self._intervals.setdefault(key, Intervals(wire.LEAST_INTERVAL_MS)).read(record)
        if isinstance(message, ReleaseGroup):
            return
        self.owners_records += 1
        if not record.headers.present:
            self.without_headers += 1
            self.clients_without_headers.add(message.client_id)
        if step(NEWBORN, record)[1] is Refused.HEADER_FROM_THE_FUTURE:
            self.of_another_log += 1
            self.clients_of_another_log.add(message.client_id)
        self._add_place(message.topic, raw)
        window = decode_range_headers(raw.headers).window
        if isinstance(message, ClaimingPartition) and window is not None and window >= 0:
            windows = self._windows.setdefault((raw.partition, message.key), [])
            if windows[-1:] != [window]:
                windows.append(window)

    def _add_range(self, raw: RawRecord) -> None:
        """A request for a range: no owner sends it, and no client stops at one without a MAC."""
        message = raw.decoded_with_ranges().message
        assert isinstance(message, ClaimingRange)
        self.groups.add(message.group_id)
        self._add_place(message.topic, raw)

    def _add_place(self, topic: str, raw: RawRecord) -> None:
        self._first.setdefault((topic, raw.partition), raw.timestamp_ms)
        self._last[topic, raw.partition] = raw.timestamp_ms

    def _verify(self, raw: RawRecord, client: str) -> None:
        complaint = None if self.keyring is None else self.keyring.complaint(raw)
        if complaint is None:
            return
        if complaint.authenticity is Authenticity.NOT_SIGNED:
            self.not_signed += 1
            self.clients_not_signed.add(client)
        else:
            self.not_authentic += 1
            self.clients_not_authentic.add(client)

    @property
    def intervals(self) -> dict[str, dict[float, str]]:
        """By group: the heartbeat intervals of its live owners, each with one of these.

        An owner is live as long as its own interval allows. Versions before 0.2.0 state none.
        """
        found: dict[str, dict[float, str]] = {}
        for (partition, group), intervals in sorted(self._intervals.items()):
            for report in intervals.lived_at(self._group_last[partition, group]):
                found.setdefault(group, {})[report.interval_ms] = report.client_id
        return found

    @property
    def windows_that_take_turns(self) -> dict[ClaimKey, list[int]]:
        """Shared claims with a window that was replaced and came back: their windows in log order.

        A window that replaced another one for good is an intended change.
        """
        return {
            key: list(dict.fromkeys(windows))
            for (_, key), windows in sorted(self._windows.items())
            if len(set(windows)) < len(windows)
        }

    @property
    def misplaced(self) -> list[MisplacedRecords]:
        """By topic and partition."""
        found = []
        for (topic, partition), last_ms in sorted(self._last.items()):
            right = coordinating_partition(topic, self.partitions)
            if partition != right:
                first_right_ms = self._first.get((topic, right))
                found.append(MisplacedRecords(topic, partition, right, last_ms, first_right_ms))
        return found

    @property
    def counted_before(self) -> int | None:
        """A partition count by which all misplaced records would be right, if there is one."""
        misplaced = self.misplaced
        for count in range(self.partitions - 1, 0, -1):
            if all(coordinating_partition(one.topic, count) == one.partition for one in misplaced):
                return count
        return None


def sample_of(settings: Settings, topic: str, records_max: int) -> TopicSample:
    """Read the newest records of each partition, `records_max` of each at most.

    Where the head is gone, the first record is read as well, unless `records_max` is 0.

    Raises:
        BrokerFailed: they cannot be read.
    """
    tail = CoordinationReader(settings, topic)
    try:
        sample = TopicSample(len(tail.partitions), keyring=settings.keyring)
        extents = tail.extents()
        starts = {n: max(extent.low, extent.high - records_max) for n, extent in extents.items()}
        ends = {n: extent.high for n, extent in extents.items()}
        before = dict[int, int]()
        for number, extent in extents.items():
            if 0 < extent.low == starts[number]:
                sample.begins_late(number)
            elif extent.low > 0:
                before[number] = extent.low
        if records_max:
            sample.begun |= _first_stamps(tail, before, ends)
        else:
            sample.heads_not_read |= before.keys()
        for number, start in starts.items():
            sample.begins(number, start)
        for batch in tail.records(starts, ends):
            for raw in batch:
                sample.add(raw)
        for number, end in ends.items():
            sample.ends(number, end)
        return sample
    finally:
        tail.close()


def _first_stamps(
    tail: CoordinationReader, starts: dict[int, int], ends: dict[int, int]
) -> dict[int, int | None]:
    """By partition, the timestamp of the first record from `starts` on, Unix milliseconds.

    None if the partition holds no record.
    """
    found: dict[int, int] = {}
    for batch in tail.records(starts, ends, lambda: found.keys() == starts.keys()):
        for raw in batch:
            found.setdefault(raw.partition, raw.timestamp_ms)
    return {number: found.get(number) for number in starts}
