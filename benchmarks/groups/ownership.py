"""Who owned what, and when: what the rows of members come to.

It does not know who wrote the rows, nor with which client.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ROW: Final = np.dtype(
    [("at_ns", "i8"), ("kind", "i8"), ("member", "i8"), ("partition", "i8"), ("number", "i8")]
)
"""Times are of the machine's monotonic clock, which all processes share."""
Rows = NDArray[Any]
"""Of the type `ROW`."""


class Kind(IntEnum):
    """What a row says."""

    JOINED = 1
    """The member begins to join."""
    ASSIGNED = 2
    REVOKED = 3
    HANDED = 4
    """`number` is the message's offset."""
    COMMITTED = 5
    """A commit was answered; `number` is when it was asked for."""
    REFUSED = 6
    """A commit failed."""
    DIED = 7
    """The process has ended, and owns nothing any more."""


class Change(NamedTuple):
    """Who owns a partition has changed."""

    at_ns: int
    kind: int
    member: int
    partition: int


def changes(rows: Rows) -> list[Change]:
    """Those of ownership, in their order."""
    kinds = (Kind.ASSIGNED, Kind.REVOKED, Kind.DIED)
    found = np.sort(rows[np.isin(rows["kind"], kinds)], order="at_ns", kind="stable")
    return [Change(*map(int, each)) for each in found[["at_ns", "kind", "member", "partition"]]]


class _Owners:
    """The owners after each change."""

    def __init__(self) -> None:
        self.of_member: dict[int, set[int]] = {}
        self.of_partition: dict[int, set[int]] = {}

    def after(self, change: Change) -> set[int]:
        """The partitions that this change frees of all owners."""
        held = self.of_member.setdefault(change.member, set())
        if change.kind == Kind.ASSIGNED:
            held.add(change.partition)
            self.of_partition.setdefault(change.partition, set()).add(change.member)
            return set()
        gone = {*held} if change.kind == Kind.DIED else held & {change.partition}
        held -= gone
        for partition in gone:
            self.of_partition[partition].discard(change.member)
        return {each for each in gone if not self.of_partition[each]}


def covered_ns(
    rows: Rows, partitions: int, members: Collection[int], *, evenly: bool
) -> int | None:
    """Since when each partition has one owner of these members; None if that is not so.

    `evenly`: and none of the members has two more than another.
    """
    owners, since_ns = _Owners(), None
    for change in changes(rows):
        owners.after(change)
        counts = [len(owners.of_member.get(member, ())) for member in members]
        spread = max(counts, default=0) - min(counts, default=0)
        once = sum(counts) == partitions == len(_owned(owners, members))
        if not once or (evenly and spread > 1):
            since_ns = None
        elif since_ns is None:
            since_ns = change.at_ns
    return since_ns


def _owned(owners: _Owners, members: Iterable[int]) -> set[int]:
    return set().union(*(owners.of_member.get(member, ()) for member in members))


class Gaps(NamedTuple):
    """How long partitions had no owner, each time."""

    ns: list[int]
    open: int
    """Partitions that had an owner once, and have none at the end."""
    shared: int
    """How often a partition was assigned while another member owned it."""


def gaps(rows: Rows, since_ns: int) -> Gaps:
    """Those that ended after `since_ns`."""
    owners, free_ns, found, shared = _Owners(), dict[int, int](), list[int](), 0
    for change in changes(rows):
        if change.kind == Kind.ASSIGNED:
            shared += bool(owners.of_partition.get(change.partition, set()) - {change.member})
            began_ns = free_ns.pop(change.partition, None)
            if began_ns is not None and change.at_ns > since_ns:
                found.append(change.at_ns - began_ns)
        for partition in owners.after(change):
            free_ns[partition] = change.at_ns
    return Gaps(found, len(free_ns), shared)


def standstill_ns(rows: Rows, member: int, killed_ns: int) -> int | None:
    """From `killed_ns` to the end of the longest time without a commit; None if it lasts.

    An answer that was on its way ends nothing, since it is followed by a longer time.
    """
    mine = (rows["kind"] == Kind.COMMITTED) & (rows["member"] == member)
    at_ns = np.sort(rows[mine & (rows["at_ns"] > killed_ns)]["at_ns"])
    if not len(at_ns):
        return None
    longest = int(np.argmax(np.diff(at_ns, prepend=killed_ns)))
    return int(at_ns[longest]) - killed_ns


def handed(rows: Rows) -> tuple[int, set[tuple[int, int]]]:
    """How many messages were handed out, and which ones: partition and offset."""
    mine = rows[rows["kind"] == Kind.HANDED]
    return len(mine), {*zip(mine["partition"].tolist(), mine["number"].tolist(), strict=True)}
