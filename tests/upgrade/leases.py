"""Who was given which offsets of a partition that older consumers and ranges take turns on."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kafka_marshal.capture import RawRecord
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.messages import ClaimingMessages, ReleaseGroup
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim, ClaimKey, Rules
from kafka_marshal.machines.ranges.participant import ANCHOR


@attrs.frozen
class Lease:
    """Offsets that an instance was given at most once: a range, or a batch of the whole claim."""

    instance: str
    offsets: range


@attrs.frozen
class Turn:
    """A while in which one instance owned the claim, or those who share it owned it together."""

    owner: str
    """The anchor, where it was shared."""
    position: int
    """Where the claim stood when it began."""
    from_stale: bool
    """It was taken from an owner that was silent, and had not released it."""


@attrs.define
class Account:
    """What the log says of one claim."""

    turns: list[Turn] = attrs.field(factory=list)
    leases: list[Lease] = attrs.field(factory=list)
    passed_over: set[int] = attrs.field(factory=set)
    """At most once: reserved by those who shared, and given to nobody, when another took over."""
    free: set[int] = attrs.field(factory=set)
    """Given back at the end, and taken by nobody yet."""

    @property
    def owners(self) -> list[str]:
        """The owners, one after the other."""
        return [each.owner for each in self.turns]

    def leased(self, instance: str) -> set[int]:
        """All that this instance was ever given."""
        theirs = (each.offsets for each in self.leases if each.instance == instance)
        return {offset for offsets in theirs for offset in offsets}


def account(log: Iterable[RawRecord], key: ClaimKey, rules: Rules) -> Account:
    """Fold the log, from its first record on."""
    found, state = Account(), FoldedState(Claim(), Ranges())
    for raw in log:
        try:
            record = raw.log_entry().record
        except MalformedRecord:
            continue
        message = record.message
        if isinstance(message, ReleaseGroup) or message.key != key:
            continue  # nobody pauses here
        before, state = state, after(state, record, rules)
        _count(found, before, state, asks=isinstance(message, ClaimingMessages))
    found.free = {offset for free in state.ranges.pool for offset in range(free.from_, free.to)}
    return found


def _count(found: Account, before: FoldedState, now: FoldedState, asks: bool) -> None:
    owner = now.claim.owner_instance
    # Who claims alone to say where to begin has released it when a position is set.
    begins = now.claim.owned and now.claim.position_set
    if begins and (not found.turns or owner != found.turns[-1].owner):
        assert owner is not None
        from_stale = before.claim.owner_instance not in (None, owner)
        found.turns.append(Turn(owner, now.claim.position, from_stale))
    if not now.claim.owned and before.claim.owned and found.turns:
        last = found.turns[-1]
        alone = last.owner == before.claim.owner_instance != ANCHOR
        if alone and last.position == now.claim.position and not found.leased(last.owner):
            # It asked alone, and read afterwards that the position was set already.
            found.turns.pop()
    known = {each.id for each in before.ranges.open}
    for each in now.ranges.open:
        if each.id not in known:
            found.leases.append(Lease(each.instance, range(each.from_, each.to)))
    if asks and owner is not None and owner != ANCHOR:
        batch = range(before.claim.position, now.claim.position)
        if batch:
            found.leases.append(Lease(owner, batch))
    if before.ranges.has_begun and not now.ranges.has_begun:
        found.passed_over.update(range(before.ranges.frontier, now.claim.position))
        for free in before.ranges.pool:
            found.passed_over.update(range(free.from_, min(free.to, now.claim.position)))
