"""The heartbeat intervals that the owners of a group use, as one coordinating partition shows.

Two consumers that judge by different intervals fold different protocols: one considers an owner
dead that the other considers alive, and both process everything. So the one that comes later has to
stop. That decision must not depend on an interval itself, so it is based on the owners' own
records. A heartbeat names its sender's tenure; of two tenures of one claim under the same interval,
the later one counts. Only whether a ClaimingPartition won is the reader's judgement. Records that
state no interval prove nothing. Spec: Lineages.

This module does not know what a member does about it. All times are the log's.

>>> intervals = Intervals(own_ms=10_000)
>>> key = ClaimKey("g", "events", 0)
>>> intervals.lives(key, OwnerReport("i1", "holder", 60_000, at_ms=0), epoch=7)
>>> intervals.differs(at_ms=120_000).client_id, intervals.differs(at_ms=120_001)
('holder', None)
"""

from __future__ import annotations

from attrs import define, field, frozen

from kafka_marshal.core.messages import (
    ClaimingPartition,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey


@frozen
class OwnerReport:
    """The last record of an owner."""

    instance_id: str
    client_id: str
    interval_ms: float
    """Its heartbeat interval."""
    at_ms: int
    """Its time, by the log's clock."""


@define
class _Tenure:
    epoch: int
    report: OwnerReport


@define(eq=False)
class _Lineage:
    """Owners with the same interval, at least one of whom was alive at any time since it began."""

    since: int
    """The offset at which it began."""
    last: OwnerReport
    """The last record of any of them."""
    tenures: dict[ClaimKey, _Tenure] = field(factory=dict)


class Intervals:
    """Which members of a group use which interval. Pass it every record of the group."""

    def __init__(self, own_ms: float) -> None:
        """`own_ms`: this instance's own heartbeat interval, in milliseconds."""
        self.own_ms = own_ms
        self.until_ms: int | None = None
        """Before this time, no member with our interval may ask for a claim; None: at any time. It
        is the last record of owners with another interval, plus twice the larger interval."""
        self._lineages: dict[float, _Lineage] = {}

    @property
    def alive(self) -> list[OwnerReport]:
        """The last record of each interval's owners, the earliest interval first; also old ones."""
        found = sorted(self._lineages.values(), key=lambda lineage: lineage.since)
        return [lineage.last for lineage in found]

    def lived_at(self, at_ms: int) -> list[OwnerReport]:
        """Those of them that were alive at this time of the log."""
        return [
            report
            for report in self.alive
            if self._lived(self._lineages[report.interval_ms], at_ms)
        ]

    def read(self, record: Record) -> None:
        """Add the next record of the group.

        A ReleaseGroup changes nothing: the owners whose claims it ends stay alive, and claim again.
        """
        message, headers = record.message, record.headers
        epoch = headers.epoch
        if isinstance(message, ReleaseGroup) or epoch is None or not 0 <= epoch < record.offset:
            return
        key = message.key
        if isinstance(message, ReleasingPartition):
            self._ends(key, message.instance_id, epoch)
        elif isinstance(message, Heartbeat) and headers.interval_ms is not None:
            report = OwnerReport(
                message.instance_id, message.client_id, headers.interval_ms, record.timestamp_ms
            )
            self.lives(key, report, epoch, record.offset)

    def won(self, claiming: Record) -> None:
        """By its reader's judgement, this ClaimingPartition won: its sender is alive, and may act.

        Its first heartbeat may arrive much later.
        """
        message, interval_ms = claiming.message, claiming.headers.interval_ms
        if interval_ms is not None:
            assert isinstance(message, ClaimingPartition)
            report = OwnerReport(
                message.instance_id, message.client_id, interval_ms, claiming.timestamp_ms
            )
            self.lives(message.key, report, claiming.offset)

    def lives(
        self, key: ClaimKey, report: OwnerReport, epoch: int, offset: int | None = None
    ) -> None:
        """An owner reports that it is alive: at `offset`, or by its win."""
        lineage = self._lineages.get(report.interval_ms)
        if lineage is None:
            lineage = self._lineages[report.interval_ms] = _Lineage(epoch, report)
        elif not self._lived(lineage, report.at_ms):
            # All of them were dead to everybody in between, so they come anew.
            since = epoch if offset is None else offset
            lineage = self._lineages[report.interval_ms] = _Lineage(since, report)
        before = lineage.tenures.get(key)
        if before is None or before.epoch <= epoch:
            lineage.tenures[key] = _Tenure(epoch, report)
            if report.at_ms >= lineage.last.at_ms:
                lineage.last = report
        self._look()

    def _ends(self, key: ClaimKey, instance_id: str, epoch: int) -> None:
        """An owner gave a tenure back."""
        for interval_ms, lineage in list(self._lineages.items()):
            tenure = lineage.tenures.get(key)
            if tenure is None or tenure.epoch != epoch or tenure.report.instance_id != instance_id:
                continue
            del lineage.tenures[key]
            if not lineage.tenures:
                del self._lineages[interval_ms]
            elif lineage.last is tenure.report:
                alive = (each.report for each in lineage.tenures.values())
                lineage.last = max(alive, key=lambda report: report.at_ms)
            self._look()

    def _lived(self, lineage: _Lineage, at_ms: int) -> bool:
        """Whether one of them wrote a record within twice the larger interval.

        For owners with our own interval, the larger one is the largest that any owner has.
        """
        last = lineage.last
        larger_ms = max(last.interval_ms, self.own_ms)
        if last.interval_ms == self.own_ms:
            larger_ms = max(larger_ms, *self._lineages)
        return at_ms - last.at_ms <= 2 * larger_ms

    def _those_before_us(self, at_ms: int) -> list[_Lineage]:
        ours = self._lineages.get(self.own_ms)
        since = None if ours is None or not self._lived(ours, at_ms) else ours.since
        return [
            lineage
            for interval_ms, lineage in self._lineages.items()
            if interval_ms != self.own_ms and (since is None or lineage.since < since)
        ]

    @property
    def _only_ours(self) -> bool:
        """Whether no other interval is in use, which is nearly always so."""
        return len(self._lineages) == 1 and self.own_ms in self._lineages

    def _look(self) -> None:
        self.until_ms = None
        if self._only_ours:
            return
        for interval_ms, lineage in self._lineages.items():
            last_ms = lineage.last.at_ms
            if lineage in self._those_before_us(last_ms):
                until_ms = last_ms + int(2 * max(interval_ms, self.own_ms)) + 1
                self.until_ms = max(until_ms, self.until_ms or until_ms)

    def differs(self, at_ms: int) -> OwnerReport | None:
        """A live owner with another interval that came before all with our interval, or None."""
        if self._only_ours:
            return None
        found = [each for each in self._those_before_us(at_ms) if self._lived(each, at_ms)]
        return min(found, key=lambda lineage: lineage.since).last if found else None
