"""What an administrator's pause has done so far, as every reader of the log knows it.

An administrator wins all its claims before it sets the first position, and then sets them one by
one. If it dies in between, only the log shows it: claims that were won in a pause, and not set.
This module knows the work of one pause. It does not know who asks, an administrator that begins or
a replay. Spec: the section of that name in module Admin.
"""

from __future__ import annotations

from typing import Final

import attrs
from attrs import frozen

from kafka_marshal.core.claims.fenced import says_it_sets
from kafka_marshal.core.messages import Record, ReleasingPartition
from kafka_marshal.core.state import Claim, ClaimKey


@frozen
class PauseWork:
    """The work of the sender of the group's latest ReleaseGroup. Spec: NoWork."""

    by: str | None = None
    """The instance that paused the group; None before any pause."""
    claimed: frozenset[ClaimKey] = frozenset()
    """Claims that it has won since."""
    set: frozenset[ClaimKey] = frozenset()
    """Claims whose position it has set since."""
    let_go: frozenset[ClaimKey] = frozenset()
    """Claims that it gave back at the position that it found."""


NO_WORK: Final = PauseWork()
"""Before any pause, or if there is nothing to report."""


def left_undone(work: PauseWork) -> frozenset[ClaimKey]:
    """Claims that were not set although others were, or that were never given back.

    Spec: LeftUndone.
    """
    not_set = work.claimed - work.set
    return not_set if work.set else not_set - work.let_go


def half_set_in_log(work: PauseWork) -> bool:
    """Whether the pause left something undone. Spec: HalfSetInLog.

    This is normal while its administrator is still working.
    """
    return bool(left_undone(work))


def work_paused(work: PauseWork, by: str) -> PauseWork:
    """Another pause begins; one of the same instance continues the work of its last pause.

    Spec: WorkPaused.
    """
    return work if work.by == by and half_set_in_log(work) else PauseWork(by)


def work_after(
    work: PauseWork, key: ClaimKey, before: Claim, record: Record, after: Claim
) -> PauseWork:
    """The work after a record about one claim, given the claim before and after. Spec: WorkAfter.

    >>> from kafka_marshal import FENCED, decode, step
    >>> key = ClaimKey("g", "t", 0)
    >>> record = Record(0, 7, 0, decode(b"ClaimingPartition/1/0/x1/x/g/t/0"))
    >>> work_after(PauseWork("x1"), key, Claim(), record, step(Claim(), record, FENCED)[0]).claimed
    frozenset({ClaimKey(group='g', topic='t', topic_partition=0)})
    """
    sender = record.message.instance_id
    if after.owned and after.owner_instance == sender and after.epoch == record.offset:
        return work_won(work, key, sender)
    if before.owned and before.owner_instance == sender and not after.owned:
        return work_released(work, key, record)
    return work


def work_won(work: PauseWork, key: ClaimKey, by: str) -> PauseWork:
    """This instance has won a claim."""
    if by != work.by:
        return work
    return attrs.evolve(work, claimed=work.claimed | {key}, let_go=work.let_go - {key})


def work_released(work: PauseWork, key: ClaimKey, record: Record) -> PauseWork:
    """Whether the sender of this record owned a claim that has no owner after it."""
    is_release = isinstance(record.message, ReleasingPartition)
    if record.message.instance_id != work.by or not is_release:
        return work
    if says_it_sets(record):
        return attrs.evolve(work, set=work.set | {key})
    return attrs.evolve(work, let_go=work.let_go | {key})
