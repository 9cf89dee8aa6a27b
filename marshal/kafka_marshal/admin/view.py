"""The current state of the coordination topic: owners, positions, lag, silent owners.

It folds the topic to its current end, or follows it, and looks up the end offsets of data topics.
It decides nothing, and does not know how its results are shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from types import TracebackType
from typing import Final, Self

from attrs import frozen
from confluent_kafka import Message

from kafka_marshal.admin.fold import ClaimChange, ClaimsFold
from kafka_marshal.admin.listed_ranges import ListedRanges, listed_ranges
from kafka_marshal.admin.shared_claims import FoldedSharedClaim
from kafka_marshal.authentication import AuthenticityChecks
from kafka_marshal.capture import RawRecord
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.authentic_log import of_group
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.connect.reader import CoordinationReader
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core import wire
from kafka_marshal.core.claims.pause_work import left_undone
from kafka_marshal.core.claims.suffix_reader import Field, Knowledge, Reader
from kafka_marshal.core.messages import ClaimingPartition, ClaimingRange, Record
from kafka_marshal.core.state import FENCED, ClaimKey, Rules
from kafka_marshal.errors import BrokerFailed, MarshalError, contradicted
from kafka_marshal.machines.consumer.intervals import Intervals, OwnerReport
from kafka_marshal.range_codec import is_claiming_range

Ends = Mapping[tuple[str, int], int]
"""End offsets of data topics' partitions, by topic and partition."""
_NO_ENDS: Final[Ends] = {}


class NoSuchGroup(MarshalError):
    """The log has no record of this group; the message names the groups that exist."""


@frozen
class ListedClaim:
    """One claim. Uncertain values are guesses: see `knowledge` and `position_certain`."""

    group: str
    topic: str
    topic_partition: int
    coordinating_partition: int
    knowledge: str
    """known, provisional or unknown: how certain the owner is."""
    state: str
    """owned, stale, free or paused."""
    owner_client: str | None
    owner_instance: str | None
    epoch: int | None
    position: int
    """The next offset to consume; 0 until it is set."""
    position_certain: bool
    end: int | None
    """The end offset of the data topic's partition; None if unknown."""
    lag: int | None
    last_heartbeat_ms: int | None
    """The time of the owner's last heartbeat by the brokers' clock, Unix milliseconds."""
    age_ms: int | None
    """How long ago that was by this machine's clock, in milliseconds."""
    paused_until_ms: int | None
    pauser: str | None
    heartbeat_interval_ms: float
    """The interval by which staleness is judged: the log's, or else the given one."""
    intervals_ms: tuple[float, ...]
    """The intervals of the group's live owners. If they differ, messages are processed twice."""
    ranges: ListedRanges | None = None
    """The ranges of a shared claim; None for other claims. A shared claim has no single owner, so
    `owner_client` and `owner_instance` are None."""


@frozen
class ListedGroup:
    """One group."""

    group: str
    topics: tuple[str, ...]
    claims: int
    owned: int
    stale: int
    free: int
    owners: int
    """The number of instances that own a claim and are not stale, or share one and are alive."""
    not_certain: int
    """The number of claims with an uncertain owner."""
    lag: int | None
    """The sum over all claims; None if the end of one is unknown, or there is no claim."""
    lag_unknown: tuple[str, ...]
    """Topics with an unknown end: missing, or the user of these settings may not describe them."""
    paused_until_ms: int | None
    """When the last pause of its claims ends."""
    left_undone: int
    """The number of claims that an administrator is working on, or has left unfinished."""
    last_record_ms: int | None
    heartbeat_interval_ms: float
    """The interval by which staleness is judged: the log's, or else the given one."""
    intervals_ms: tuple[float, ...]
    """The intervals of its live owners. If they differ, messages are processed twice."""


class View:
    """A coordination topic, being folded; close it, or use it as a context manager."""

    def __init__(
        self,
        settings: Settings,
        topic: str,
        rules: Rules = FENCED,
        *,
        since_ms: int | None = None,
        group: str | None = None,
        verify: bool = False,
    ) -> None:
        """Connect; read from `since_ms` on (None: from the start).

        With a `group` it is a view of that group only, and skips records of a long log that cannot
        change it. `verify` checks whether records are authentic, by the keyring of the settings;
        without a keyring nothing is verified.

        Raises:
            BrokerFailed: the cluster cannot be reached, or there is no such topic.
        """
        self.settings, self.topic = settings, topic
        self.rules = rules
        """The rules for groups whose records hold no heartbeat interval."""
        self._group = group
        self._tail = CoordinationReader(settings, topic)
        self.partitions = len(self._tail.partitions)
        """The number of the coordination topic's partitions when the view was made."""
        try:
            extents = self._tail.extents()
            starts = {number: extent.low for number, extent in extents.items()}
            if since_ms is not None:
                # The first offset of each partition whose record is not older.
                cluster = ClusterClient(settings)
                at = cluster.offsets_at([(topic, n) for n in extents], since_ms)
                starts = {n: at.get((topic, n), extents[n].high) for n in extents}
        except BaseException:
            self._tail.close()
            raise
        self.next = starts
        """The next offset to read, of each coordinating partition."""
        self.ends = {number: extents[number].high for number in self.next}
        """The end offset of each when the view was made."""
        self.folds = {number: ClaimsFold(start, rules) for number, start in self.next.items()}
        self._intervals: dict[tuple[int, str], Intervals] = {}
        self.records = 0
        """The number of records that were read."""
        self.malformed = 0
        """The number of decoded records without a valid message."""
        self.signed_groups: set[str] = set()
        """Groups with any record that carries a MAC, valid or not."""
        keyring = settings.keyring if verify else None
        self.unauthentic = None if keyring is None else AuthenticityChecks(keyring)
        """Counts records (of the group, if given) that are not authentic. None: not verified."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the cluster."""
        self._tail.close()

    @property
    def headless(self) -> tuple[int, ...]:
        """Coordinating partitions whose first records were not read: they are gone, or skipped."""
        return tuple(number for number, fold in self.folds.items() if fold.first > 0)

    # --- reading ----------------------------------------------------------------------------------

    def read(self) -> Self:
        """Fold everything up to the topic's end when the view was made."""
        for _ in self.changes(self.ends):
            pass
        return self

    def follow(self, stopped: Callable[[], bool]) -> Iterator[list[ClaimChange]]:
        """Fold new records, batch by batch; batches are empty while none arrive.

        Raises:
            BrokerFailed: the topic has more partitions than it had: claims have moved away from
                their history.
        """
        yield from (
            [change for _, changes in batch for change in changes]
            for batch in self.changes(None, stopped)
        )

    def changes(
        self, ends: Mapping[int, int] | None, stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[list[tuple[Record, list[ClaimChange]]]]:
        """Yield each record with its changes, batch by batch: up to `ends`, or without an end."""
        log_filter = None if ends is None else self._thinning()
        for batch in self._tail.records(dict(self.next), ends, stopped, log_filter):
            if log_filter is None:
                self.records += len(batch)
                yield [folded for raw in batch for folded in self._fold(raw)]
                continue
            gaps = {number: deque(ends) for number, ends in log_filter.gaps().items()}
            yield [folded for raw in batch for folded in self._fold(raw, gaps)]
            for number, left in gaps.items():
                for first in left:
                    self.folds[number].pass_gap(first)
        if ends is not None and not stopped():
            if log_filter is None:
                for number in ends:
                    if self.next[number] < ends[number]:
                        self.folds[number].pass_gap(ends[number])
            # The filter may have left out the last records.
            self.next = {n: max(offset, ends.get(n, 0)) for n, offset in self.next.items()}

    def _thinning(self) -> LogFilter[Message] | None:
        if self._group is None:
            return None

        group = self._group.encode("utf-8", "surrogateescape")

        def fetched(messages: Collection[Message]) -> None:
            self.records += len(messages)
            if self.unauthentic is not None:
                for raw in of_group(messages, group):
                    self.unauthentic.check(raw)

        whole = frozenset(number for number, fold in self.folds.items() if fold.first == 0)
        return LogFilter(group, whole, fetched)

    def check_partitions(self) -> None:
        """Check that the topic still has the same number of partitions.

        Raises:
            BrokerFailed: it has not.
        """
        now = self._tail.partition_count_now()
        if now != self.partitions:
            raise BrokerFailed(
                f"{self.settings.bootstrap}: topic {self.topic} has {now} partitions, not "
                f"{self.partitions} as before: claims have moved away from their history"
            )

    def _fold(
        self, raw: RawRecord, gaps: Mapping[int, deque[int]] | None = None
    ) -> Iterator[tuple[Record, list[ClaimChange]]]:
        """Fold a record. `gaps` contains the ends of gaps if records were filtered."""
        fold = self.folds[raw.partition]
        if gaps is None:
            if raw.offset > self.next[raw.partition]:
                fold.pass_gap(raw.offset)
        else:
            ends = gaps.get(raw.partition)
            while ends and raw.offset >= ends[0]:
                fold.pass_gap(ends.popleft())
        self.next[raw.partition] = raw.offset + 1
        try:
            record = raw.decoded()
        except MalformedRecord:
            if is_claiming_range(raw.value):
                self._fold_range(fold, raw, fetched=gaps is not None)
            else:
                self.malformed += 1
            return
        if not self._concerns(raw, record.message.group_id, fetched=gaps is not None):
            return
        has_ranges = any(name in wire.OF_RANGES for name, _ in raw.headers)
        changes = fold.apply(record, raw.log_entry() if has_ranges else None)
        self._read_interval(record, changes)
        yield record, changes

    def _fold_range(self, fold: ClaimsFold, raw: RawRecord, *, fetched: bool) -> None:
        """Fold a request for a range. It changes no claim, so it is not reported."""
        record = raw.decoded_with_ranges()
        message = record.message
        assert isinstance(message, ClaimingRange)
        if self._concerns(raw, message.group_id, fetched=fetched):
            fold.claiming_range(record, message)

    def _concerns(self, raw: RawRecord, group: str, *, fetched: bool) -> bool:
        """Whether the record is of a viewed group; if so, verify it, too.

        Records that the filter has `fetched` are verified already.
        """
        if self._group not in (None, group):
            return False
        if not fetched and self.unauthentic is not None:
            self.unauthentic.check(raw)
        if any(name == wire.MAC_HEADER for name, _ in raw.headers):
            self.signed_groups.add(group)
        return True

    def _read_interval(self, record: Record, changes: list[ClaimChange]) -> None:
        key = record.partition, record.message.group_id
        intervals = self._intervals.get(key)
        if intervals is None:
            if record.headers.interval_ms is None:
                return
            intervals = self._intervals[key] = Intervals(wire.LEAST_INTERVAL_MS)
        intervals.read(record)
        sender = record.message.instance_id
        if isinstance(record.message, ClaimingPartition) and any(
            change.after.claim.owner_instance == sender for change in changes
        ):
            intervals.won(record)

    # --- results ----------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[str, ...]:
        """All groups with a record."""
        return tuple(sorted({group for fold in self.folds.values() for group in fold.groups}))

    def intervals_of(self, group: str) -> list[OwnerReport]:
        """The heartbeat intervals of a group's live owners, each with its last sender."""
        found: dict[float, OwnerReport] = {}
        for (number, name), intervals in self._intervals.items():
            last_ms = self.folds[number].last_ms(group)
            if name == group and last_ms is not None:
                for report in intervals.lived_at(last_ms):
                    other = found.get(report.interval_ms)
                    if other is None or other.at_ms < report.at_ms:
                        found[report.interval_ms] = report
        return [found[interval_ms] for interval_ms in sorted(found)]

    def interval_mismatches(self) -> list[str]:
        """A sentence for each group whose live owners have different intervals."""
        warnings = []
        for group in self.groups:
            reports = self.intervals_of(group)
            if len(reports) > 1:
                named = ", ".join(
                    f"client {one.client_id} says {one.interval_ms / 1000:g} s" for one in reports
                )
                warnings.append(
                    f"group {group} has {len(reports)} heartbeat intervals ({named}): its "
                    f"consumers process messages twice; stop those that differ"
                )
        return warnings

    def check_interval(self) -> None:
        """Check that every group with an interval in the log has that of `rules`.

        Raises:
            InvalidOption: a group has another interval.
        """
        for group in self.groups:
            for fold in self.folds.values():
                other = fold.intervals.other(group)
                if other is not None:
                    raise contradicted(other)

    def rules_of(self, group: str, partition: int | None = None) -> Rules:
        """The rules of a group, with the interval of its newest records.

        If it has none on this coordinating partition, that of another one is used, or else `rules`.
        """
        folds = [self.folds[partition]] if partition is not None else []
        folds += sorted(
            self.folds.values(), key=lambda fold: fold.last_ms(group) or -1, reverse=True
        )
        for fold in folds:
            if fold.intervals.lived_under(group):
                return fold.rules_of(group)
        return self.rules

    def check_group(self, group: str) -> None:
        """Check that the log has a record of this group.

        Raises:
            NoSuchGroup: it has none.
        """
        if group not in self.groups:
            there = ", ".join(self.groups[:20]) or "none"
            others = f"groups that there are: {there}"
            if self._group is not None:
                others = "marshal groups lists those that there are"
            raise NoSuchGroup(f"no record of {self.topic} is of group {group!r}; {others}")

    def check_topic(self, group: str, topic: str) -> None:
        """Check that the group has a claim of this data topic.

        Raises:
            NoSuchGroup: it has none.
        """
        there = sorted({key.topic for _, key in self.claims(group)})
        if topic not in there:
            raise NoSuchGroup(
                f"group {group} has no claim of {topic}; it has claims of: "
                f"{', '.join(there[:20]) or 'none'}"
            )

    def claims(self, group: str | None = None) -> dict[tuple[int, ClaimKey], Reader]:
        """The claims of a group, or of all, by coordinating partition and key, in order."""
        found = {
            (number, key): reader
            for number, fold in self.folds.items()
            for each in (fold.groups if group is None else (group,))
            for key, reader in fold.claims(each).items()
        }
        return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0])))

    def data_ends(
        self, cluster: ClusterClient, group: str | None = None
    ) -> dict[tuple[str, int], int]:
        """The end offsets of claimed partitions; unknown ones are left out."""
        there = cluster.topics()
        claimed = {(key.topic, key.topic_partition) for _, key in self.claims(group)}
        return cluster.ends(
            [(topic, number) for topic, number in sorted(claimed) if number < there.get(topic, 0)]
        )

    def rows(
        self, now_ms: int, group: str | None = None, ends: Ends = _NO_ENDS
    ) -> list[ListedClaim]:
        """Every claim of a group, or of all groups, at the time `now_ms` of this machine."""
        claims = self.claims(group)
        intervals_ms = {each: self._intervals_ms(each) for each in {key.group for _, key in claims}}
        return [
            self._row(
                number,
                key,
                reader,
                now_ms,
                ends.get((key.topic, key.topic_partition)),
                self.rules_of(key.group, number),
                intervals_ms[key.group],
                self.folds[number].shared(key),
            )
            for (number, key), reader in claims.items()
        ]

    def _intervals_ms(self, group: str) -> tuple[float, ...]:
        return tuple(report.interval_ms for report in self.intervals_of(group))

    @staticmethod
    def _row(
        number: int,
        key: ClaimKey,
        reader: Reader,
        now_ms: int,
        end: int | None,
        rules: Rules,
        intervals_ms: tuple[float, ...],
        shared: FoldedSharedClaim | None,
    ) -> ListedClaim:
        claim = reader.claim
        ranges = None if shared is None else listed_ranges(shared, end, now_ms, rules)
        alone = ranges is None or ranges.knowledge == "unknown"
        age_ms = None
        if claim.last_heartbeat_ms is not None:
            age_ms = max(0, now_ms - claim.last_heartbeat_ms)
        paused = claim.paused_until_ms is not None and claim.paused_until_ms > now_ms
        state = "paused" if paused else "free"
        if age_ms is not None:
            state = "stale" if age_ms > rules.stale_after_ms else "owned"
        if reader.knowledge is Knowledge.UNKNOWN:
            state = "unknown"
        return ListedClaim(
            group=key.group,
            topic=key.topic,
            topic_partition=key.topic_partition,
            coordinating_partition=number,
            knowledge=reader.knowledge.value,
            state=state,
            owner_client=claim.owner_client if alone else None,
            owner_instance=claim.owner_instance if alone else None,
            epoch=claim.epoch,
            position=claim.position,
            position_certain=Field.POSITION in reader.certain,
            end=end,
            lag=None if end is None else max(0, end - claim.position),
            last_heartbeat_ms=claim.last_heartbeat_ms,
            age_ms=age_ms,
            paused_until_ms=claim.paused_until_ms if paused else None,
            pauser=claim.pauser if paused else None,
            heartbeat_interval_ms=rules.heartbeat_interval_ms,
            intervals_ms=intervals_ms,
            ranges=ranges,
        )

    def group_rows(self, now_ms: int, ends: Ends = _NO_ENDS) -> list[ListedGroup]:
        """Every group, at the time `now_ms` of this machine."""
        return [
            self._group_row(group, self.rows(now_ms, group, ends), now_ms) for group in self.groups
        ]

    def _group_row(self, group: str, rows: list[ListedClaim], now_ms: int) -> ListedGroup:
        count = {state: sum(row.state == state for row in rows) for state in ("owned", "stale")}
        lags = [row.lag for row in rows if row.lag is not None]
        lag_unknown = sorted({row.topic for row in rows if row.lag is None})
        folds = self.folds.values()
        pauses = [fold.newborn(group).claim.paused_until_ms for fold in folds]
        until_ms = max((at for at in pauses if at is not None and at > now_ms), default=None)
        last = [at for fold in folds if (at := fold.last_ms(group)) is not None]
        return ListedGroup(
            group=group,
            topics=tuple(sorted({row.topic for row in rows})),
            claims=len(rows),
            owned=count["owned"],
            stale=count["stale"],
            free=sum(row.state in ("free", "paused") for row in rows),
            owners=len({name for row in rows if row.state == "owned" for name in _live(row)}),
            not_certain=sum(row.knowledge != Knowledge.KNOWN.value for row in rows),
            lag=sum(lags) if lags and not lag_unknown else None,
            lag_unknown=tuple(lag_unknown),
            paused_until_ms=until_ms,
            left_undone=sum(len(left_undone(fold.work(group))) for fold in folds),
            last_record_ms=max(last, default=None),
            heartbeat_interval_ms=self.rules_of(group).heartbeat_interval_ms,
            intervals_ms=self._intervals_ms(group),
        )


def _live(row: ListedClaim) -> set[str | None]:
    """The instances that own a claim that is not stale, or share it."""
    if row.ranges is None or row.ranges.knowledge == "unknown":
        return {row.owner_instance}
    return {one.instance for one in row.ranges.holders if not one.silent}
