"""Every claim of one coordinating partition, for a reader that began at any offset.

If that was the log's first record, everything is certain. If the head is gone, each claim is known
as far as `core.claims.suffix_reader` determines. It also stores unfinished work of administrators.
It does not know where records come from.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from kafka_marshal.admin.shared_claims import FoldedSharedClaim, FoldedSharedClaims
from kafka_marshal.core.claims.fenced import KNOWN_VERSIONS
from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork, work_after, work_paused
from kafka_marshal.core.claims.suffix_reader import Reader, read_record
from kafka_marshal.core.claims.verdicts import Accepted, Verdict
from kafka_marshal.core.group_intervals import GroupIntervals, RulesByInterval
from kafka_marshal.core.messages import ClaimingRange, Record, ReleaseGroup
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.reader import LogEntry
from kafka_marshal.core.ranges.state import LIMITS, Limits
from kafka_marshal.core.state import FENCED, ClaimKey, Rules


@frozen
class ClaimChange:
    """One claim before and after a record."""

    key: ClaimKey
    before: Reader
    after: Reader
    verdict: Verdict | None
    """The record's verdict; None if that is unknown."""
    rules: Rules = FENCED
    """By which it was judged."""


class ClaimsFold:
    """Folds the records of one coordinating partition, in offset order.

    Each group uses the heartbeat interval in the log, see `GroupIntervals`.

    >>> from kafka_marshal import decode
    >>> fold = ClaimsFold(0)
    >>> [change] = fold.apply(Record(0, 0, 5, decode(b"ClaimingPartition/1/0/i1/c1/g/t/3")))
    >>> change.key, change.after.claim.owner_client
    (ClaimKey(group='g', topic='t', topic_partition=3), 'c1')
    """

    def __init__(self, first: int, rules: Rules = FENCED, limits: Limits = LIMITS) -> None:
        self.first = first
        """The offset where reading began; 0 means the whole log."""
        self.rules = rules
        """The rules for groups that state no interval."""
        self.intervals = GroupIntervals(rules.heartbeat_interval_ms)
        self._rules = RulesByInterval(rules)
        self._readers = PartitionStates[ClaimKey, Reader](Reader.beginning_at(first))
        self._work: dict[str, PauseWork] = {}
        self._last_ms: dict[str, int] = {}
        self._limits = limits
        self._shared = FoldedSharedClaims(first, rules, self.claim, limits)

    def pass_gap(self, first: int) -> None:
        """Records before `first` are missing: nothing of before is certain any more."""
        self.first = first
        beginning = Reader.beginning_at(first)
        self._readers = self._readers.begun_anew(beginning, lambda _: beginning)
        self._work.clear()
        self._shared = FoldedSharedClaims(first, self.rules, self.claim, self._limits)

    @property
    def groups(self) -> tuple[str, ...]:
        """Every group that had a record."""
        return tuple(self._last_ms)

    def claims(self, group: str) -> Mapping[ClaimKey, Reader]:
        """The claims of a group that had a record of their own."""
        return self._readers.group(group)

    def claim(self, key: ClaimKey) -> Reader:
        """The state of one claim; before its first record, that after the ReleaseGroups."""
        return self._readers[key]

    def shared(self, key: ClaimKey) -> FoldedSharedClaim | None:
        """The ranges of one claim; None if no record shows that it is shared."""
        return self._shared.of(key)

    def may_be_of_anchor(self, key: ClaimKey, epoch: int) -> bool:
        """Whether the tenure of this epoch is of an anchor, for all that share the claim."""
        return self._shared.may_be_of_anchor(key, epoch)

    def newborn(self, group: str) -> Reader:
        """A claim of this group that had no record of its own."""
        return self._readers.newborn(group)

    def work(self, group: str) -> PauseWork:
        """The work of the group's latest pause so far."""
        return self._work.get(group, NO_WORK)

    def last_ms(self, group: str) -> int | None:
        """When the group's last record was appended, unix ms."""
        return self._last_ms.get(group)

    def apply(self, record: Record, entry: LogEntry | None = None) -> list[ClaimChange]:
        """Fold the next record; every claim that it reached.

        `entry` is the same record as a reader of ranges reads it, if it has a header of ranges.
        """
        message = record.message
        group = message.group_id
        self._last_ms[group] = record.timestamp_ms
        rules = self._rules[self.intervals.judging(record)]
        if isinstance(message, ReleaseGroup):
            self._shared.release_group(record, rules)
            return self._release_group(record, rules)
        key = message.key
        before, after, verdict = self._readers.step(key, read_record, record, rules)
        self.intervals.judged(record, accepted=isinstance(verdict, Accepted))
        # Only if the record's effect is certain.
        if group in self._work and before.known and after.known:
            work = work_after(self._work[group], key, before.claim, record, after.claim)
            self._work[group] = work
        self._shared.observe(key, record, verdict, rules, entry)
        return [ClaimChange(key, before, after, verdict, rules)]

    def claiming_range(self, record: RangesRecord, message: ClaimingRange) -> None:
        """Fold a request for a range, which changes the claim's ranges and not the claim."""
        self._last_ms[message.group_id] = record.timestamp_ms
        self._shared.claiming_range(record, message, self._rules[self.intervals.judging(record)])

    def rules_of(self, group: str) -> Rules:
        """The rules for the group's next record, unless that states another interval."""
        return self._rules[self.intervals.of(group)]

    def _release_group(self, record: Record, rules: Rules) -> list[ClaimChange]:
        group = record.message.group_id
        _, reached = self._readers.step_group(group, read_record, record, rules)
        if record.message.version in KNOWN_VERSIONS:
            self._work[group] = work_paused(self.work(group), record.message.instance_id)
        return [ClaimChange(one.key, one.before, one.after, one.verdict, rules) for one in reached]
