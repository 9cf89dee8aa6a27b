"""Loss receipts: messages granted at most once that may never have been processed.

At most once, a range is granted before it is processed, so the last grant of a consumer that dies
is lost. The log shows what was granted to which instance, and how each tenure ended. If its owner
released it, it also shows how much of the last grant was processed (`marshal-done`). This module
derives receipts from the effects of records. It does not know where records come from.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import evolve, frozen

from kafka_marshal.admin.fold import ClaimChange
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.messages import ClaimingMessages, Record, ReleaseGroup, ReleasingPartition
from kafka_marshal.core.state import ClaimKey

RELEASED: Final = "released"
"""Its owner released it, and states that it did not process its whole grant."""
RELEASED_UNSAID: Final = "released_unsaid"
"""Its owner released it and does not state what it has processed: an older version."""
STILL_OWNED: Final = "silent"
"""The tenure has not ended, but its owner has been silent for too long."""
NOT_KNOWN: Final = "not_known"
"""Another instance owns the claim now. The records in between are gone from the log."""
_ENDS: Final = frozenset(
    {
        Accepted.TOOK_OVER,
        Accepted.RESTARTED,
        Accepted.FAST_RECLAIMED,
        Accepted.RECLAIMED,
        Accepted.GROUP_RELEASED,
        Accepted.RELEASED,
    }
)


@frozen
class Receipt:
    """The last grant of a tenure, if the log does not show that it was processed."""

    group: str
    topic: str
    topic_partition: int
    start: int | None
    """The first message of the range; None if the log's head is gone and it is unknown."""
    end: int
    """The next one after it."""
    epoch: int | None
    """The epoch of its tenure; None if the log's head is gone and no record of the tenure contains
    it."""
    instance: str
    client: str
    granted_ms: int
    """When, by the brokers' clock, unix ms."""
    ended_by: str
    """How the tenure ended: took_over, restarted, reclaimed, group_released, released,
    released_unsaid, not_known; or silent, if it has not ended."""
    ended_ms: int | None
    """None if it has not ended."""
    heard_later: bool
    """Whether the instance wrote a record after it had lost the claim: then it is alive, and has
    probably processed the range. Never true if its own release stated its progress (`released`)."""


@frozen
class _Tenure:
    epoch: int | None
    instance: str
    client: str
    start: int | None = None
    """The first message that may be lost."""
    begun: int | None = None
    """The first message of the last grant."""
    end: int | None = None
    """None before the first grant."""
    granted_ms: int = -1
    one_at_a_time: bool = False
    """Whether its owner only requests a batch when the one before is processed. Version 0.1.0,
    which does not write its interval, could be granted a second one before that."""


_Place: TypeAlias = tuple[int, ClaimKey]
"""A claim on one coordinating partition. The same key on another one is a different claim. A record
there, by a sender with a wrong partition count or a hostile one, ends no tenure here."""


class Receipts:
    """Observes the claims of one topic of one group, record by record.

    If the log's head is gone, it is unknown whether its first requests were granted. Their messages
    may be lost, too.
    """

    def __init__(self, group: str, topic: str) -> None:
        self.group, self.topic = group, topic
        self._tenures: dict[_Place, _Tenure] = {}
        self._heard: dict[_Place, int] = {}
        self._written: list[Receipt] = []
        self.grants = 0
        """How many were seen, with those that may have been one."""
        self.granted: set[tuple[ClaimKey, int]] = set()
        """The claims and epochs of the tenures that were granted something, or may have been."""
        self.in_hand = 0
        """The number of tenures in which a live owner is processing a range, according to the log.
        Counted by `receipts`."""

    def read(self, record: Record, changes: list[ClaimChange]) -> None:
        """Read the next record, with its effects."""
        if record.message.group_id == self.group:
            self._hear(record.message.instance_id)
        for change in changes:
            if change.key.group == self.group and change.key.topic == self.topic:
                self._change(record, change)

    def receipts(self, now_ms: int, stale_after_ms: float) -> list[Receipt]:
        """All so far, also of owners that have been silent for too long at `now_ms`."""
        silent = {place for place, heard in self._heard.items() if now_ms - heard > stale_after_ms}
        open_ = [
            self._receipt(place, tenure, STILL_OWNED, None)
            for place, tenure in self._tenures.items()
            if place in silent
        ]
        self.in_hand = sum(
            tenure.end is not None and place not in silent
            for place, tenure in self._tenures.items()
        )
        written = [*self._written, *(one for one in open_ if one is not None)]
        return sorted(written, key=lambda one: (one.topic_partition, one.end, one.epoch or 0))

    def _hear(self, instance: str) -> None:
        """An instance that writes is alive, so it has probably processed its grant."""
        for index, one in enumerate(self._written):
            if one.instance == instance and not one.heard_later and one.ended_by != RELEASED:
                self._written[index] = evolve(one, heard_later=True)

    def _change(self, record: Record, change: ClaimChange) -> None:
        place = record.partition, change.key
        before, after = change.before.claim, change.after.claim
        tenure = self._tenures.get(place)
        if not change.after.known:
            if change.verdict is None:
                self._undecided(record, change, tenure)
            return
        if tenure is not None and tenure.epoch is None and after.owner_instance == tenure.instance:
            tenure = evolve(tenure, epoch=after.epoch)
        if tenure is not None and (not after.owned or after.epoch != tenure.epoch):
            self._end(record, change, tenure)
            tenure = None
        if not after.owned or after.epoch is None:
            return
        if tenure is None:
            tenure = _Tenure(
                after.epoch,
                after.owner_instance or "",
                after.owner_client or "",
                one_at_a_time=record.headers.interval_ms is not None,
            )
        self._heard[place] = after.last_heartbeat_ms or record.timestamp_ms
        certain = Field.POSITION in change.before.certain
        message = record.message
        if isinstance(message, ClaimingMessages) and (
            change.verdict is Accepted.GRANTED
            or (
                change.verdict is None
                and message.instance_id == after.owner_instance
                and message.offset > (tenure.end or 0)
            )
        ):
            self.grants += 1
            self.granted.add((change.key, after.epoch))
            begun = before.position if certain else None
            first = tenure.end is None or tenure.one_at_a_time
            tenure = evolve(
                tenure,
                start=begun if first else tenure.begun,
                begun=begun,
                end=message.offset,
                granted_ms=record.timestamp_ms,
            )
        self._tenures[place] = tenure

    def _undecided(self, record: Record, change: ClaimChange, tenure: _Tenure | None) -> None:
        """The record's effect and the claim's owner are unknown: its sender may be the owner."""
        message, epoch = record.message, record.headers.epoch
        if tenure is not None and message.instance_id == tenure.instance:
            if isinstance(message, ReleasingPartition):
                self._end(record, change, tenure)
                return
        elif tenure is not None and (epoch or -1) < (tenure.epoch or -1):
            return
        if not isinstance(message, ClaimingMessages):
            return
        if tenure is not None and epoch != tenure.epoch:
            self._end(record, change, tenure)
        self.grants += 1
        if epoch is not None:
            self.granted.add((change.key, epoch))
        place = record.partition, change.key
        self._heard[place] = record.timestamp_ms
        self._tenures[place] = _Tenure(
            epoch,
            message.instance_id,
            message.client_id,
            end=message.offset,
            granted_ms=record.timestamp_ms,
            one_at_a_time=record.headers.interval_ms is not None,
        )

    def _end(self, record: Record, change: ClaimChange, tenure: _Tenure) -> None:
        place = record.partition, change.key
        del self._tenures[place]
        own = record.message.instance_id == tenure.instance
        verdict, done = change.verdict, record.headers.done
        by = verdict.value if verdict in _ENDS else NOT_KNOWN
        if isinstance(record.message, ReleaseGroup):
            by = Accepted.GROUP_RELEASED.value
        if own and isinstance(record.message, ReleasingPartition):
            by = RELEASED_UNSAID if done is None else RELEASED
            if done is not None:
                if tenure.end is None or done >= tenure.end:
                    return  # in order: all that was granted is processed
                begun = done if tenure.start is None else max(done, tenure.start)
                tenure = evolve(tenure, start=begun)
        heard = own and by != RELEASED
        receipt = self._receipt(place, tenure, by, record.timestamp_ms, heard=heard)
        if receipt is not None:
            self._written.append(receipt)

    def _receipt(
        self, place: _Place, tenure: _Tenure, by: str, ended_ms: int | None, heard: bool = False
    ) -> Receipt | None:
        if tenure.end is None:
            return None
        _, key = place
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
