"""Loss receipts: which messages, granted at most once, may never have been processed.

At most once a range is granted before it is processed, so a consumer that dies takes with it what
it was granted last. The log does not say what was processed; it says what was granted to whom, and
how each tenure ended. An owner that releases in order has processed all that it was granted; one
that loses its claim otherwise may not have. This room reads that from what each record did. It does
not know where records come from.
"""

from __future__ import annotations

from typing import Final

from attrs import evolve, frozen

from kafka_marshal.core.knowledge import Field
from kafka_marshal.core.messages import ClaimingMessages, Record, ReleaseGroup, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.verdicts import Accepted
from kafka_marshal.runtime.fold import Change

STILL_OWNED: Final = "silent"
"""The tenure has not ended, but its owner has been silent for too long."""


@frozen
class Receipt:
    """The last range that was granted in a tenure which did not end in order."""

    group: str
    topic: str
    topic_partition: int
    start: int | None
    """The first message of the range; None where the log's head is gone and nobody can know."""
    end: int
    """The next one after it."""
    epoch: int
    """Of the tenure that it was granted in."""
    instance: str
    client: str
    granted_ms: int
    """When, by the brokers' clock, unix ms."""
    ended_by: str
    """What ended the tenure: took_over, restarted, reclaimed, group_released; or silent."""
    ended_ms: int | None
    """None while nobody has ended it."""
    heard_later: bool
    """The instance wrote something after it had lost the claim: it lives, and probably has
    processed the range."""


@frozen
class _Tenure:
    epoch: int
    instance: str
    client: str
    start: int | None = None
    end: int | None = None
    """None before the first grant."""
    granted_ms: int = -1


class Receipts:
    """Watches the claims of one topic of one group, record by record."""

    def __init__(self, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self._tenures: dict[ClaimKey, _Tenure] = {}
        self._heard: dict[ClaimKey, int] = {}
        self._written: list[Receipt] = []
        self.grants = 0
        """How many were seen."""

    def read(self, record: Record, changes: list[Change]) -> None:
        """The next record, and what it did."""
        if record.message.group_id == self.group:
            self._hear(record.message.instance_id)
        for change in changes:
            if change.key.group == self.group and change.key.topic == self.topic:
                self._change(record, change)

    def receipts(self, now_ms: int, stale_after_ms: float) -> list[Receipt]:
        """All so far, also of owners that have been silent for too long at `now_ms`."""
        open_ = [
            self._receipt(key, tenure, STILL_OWNED, None)
            for key, tenure in self._tenures.items()
            if now_ms - self._heard[key] > stale_after_ms
        ]
        written = [*self._written, *(one for one in open_ if one is not None)]
        return sorted(written, key=lambda one: (one.topic_partition, one.end, one.epoch))

    def _hear(self, instance: str) -> None:
        """Whoever writes is alive: that is worth knowing of those who lost something."""
        if any(one.instance == instance and not one.heard_later for one in self._written):
            self._written = [
                evolve(one, heard_later=True) if one.instance == instance else one
                for one in self._written
            ]

    def _change(self, record: Record, change: Change) -> None:
        key, before, after = change.key, change.before.claim, change.after.claim
        tenure = self._tenures.get(key)
        if tenure is not None and (not after.owned or after.epoch != tenure.epoch):
            self._end(record, change, tenure)
        if not after.owned or after.epoch is None or not change.after.known:
            return
        tenure = self._tenures.get(key)
        if tenure is None:
            tenure = _Tenure(after.epoch, after.owner_instance or "", after.owner_client or "")
        self._heard[key] = after.last_heartbeat_ms or record.timestamp_ms
        certain = Field.POSITION in change.before.certain
        if isinstance(record.message, ClaimingMessages) and change.verdict is Accepted.GRANTED:
            self.grants += 1
            start = before.position if certain else None
            tenure = evolve(tenure, start=start, end=after.position, granted_ms=record.timestamp_ms)
        self._tenures[key] = tenure

    def _end(self, record: Record, change: Change, tenure: _Tenure) -> None:
        del self._tenures[change.key]
        own = record.message.instance_id == tenure.instance
        if own and isinstance(record.message, ReleasingPartition):
            return  # in order: only when nothing is left to process
        verdict = change.verdict
        by = "unknown" if verdict is None else verdict.value
        if isinstance(record.message, ReleaseGroup):
            by = Accepted.GROUP_RELEASED.value
        receipt = self._receipt(change.key, tenure, by, record.timestamp_ms, heard=own)
        if receipt is not None:
            self._written.append(receipt)

    def _receipt(
        self, key: ClaimKey, tenure: _Tenure, by: str, ended_ms: int | None, heard: bool = False
    ) -> Receipt | None:
        if tenure.end is None:
            return None
        return Receipt(
            group=key.group,
            topic=key.topic,
            topic_partition=key.topic_partition,
            start=tenure.start,
            end=tenure.end,
            epoch=tenure.epoch,
            instance=tenure.instance,
            client=tenure.client,
            granted_ms=tenure.granted_ms,
            ended_by=by,
            ended_ms=ended_ms,
            heard_later=heard,
        )
