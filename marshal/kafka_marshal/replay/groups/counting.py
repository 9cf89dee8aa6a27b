"""Counts per group, the group's last state, and the events that a timeline marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.events import MemberExpired, MemberLeft, PartitionsCounted
from kafka_marshal.core.groups.state import Group, is_due
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.replay.groups.ownership import WithoutOwner
from kafka_marshal.replay.groups.rebalances import Rebalances
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.groups.rows import FinalGroupRow, GroupMarkRow
from kafka_marshal.replay.model.rows import Row

GONE_MAX: Final = 1_000
"""Groups that were deleted and may be created again. The row of an earlier one is final."""

_MARKED: Final = (
    GroupAccepted.CREATED,
    GroupAccepted.DELETED,
    GroupAccepted.JOINED,
    GroupAccepted.LEFT,
    GroupAccepted.EXPIRED,
    GroupAccepted.REBALANCED,
    GroupAccepted.REWOUND,
    GroupAccepted.COUNTED,
)


@define
class _Count:
    """The last state of one group, and its counts."""

    group: Group
    deleted: bool = False
    events: int = 0
    kinds: Counter[str] = field(factory=Counter)


class GroupCounts:
    """Counts of the groups of one partition of the log."""

    def __init__(self, rebalances: Rebalances, without_owner: WithoutOwner) -> None:
        self._rebalances = rebalances
        self._without_owner = without_owner
        self._groups: dict[str, _Count] = {}
        self._gone: dict[str, None] = {}

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """Count an event; the mark that it deserves, and the rows of a group long gone."""
        verdict = seen.accepted
        if verdict is None:
            return
        if verdict is GroupAccepted.STARTED:
            for name in seen.was.groups:
                yield _mark(name, seen)
            return
        if not seen.name:
            return
        group = seen.after or seen.before
        assert group is not None
        of = self._groups.setdefault(seen.name, _Count(group))
        of.group, of.deleted = group, seen.after is None
        of.events += 1
        of.kinds[verdict.value] += 1
        if verdict in _MARKED:
            yield _mark(seen.name, seen)
        self._gone.pop(seen.name, None)
        if of.deleted:
            self._gone[seen.name] = None
            if len(self._gone) > GONE_MAX:
                name = next(iter(self._gone))
                del self._gone[name]
                yield self._row(name, self._groups.pop(name))
                yield from self._rebalances.drop(name)

    def at_the_end(self) -> Iterator[Row]:
        """The rows of the groups."""
        for name, of in self._groups.items():
            yield self._row(name, of)

    def _row(self, name: str, of: _Count) -> Row:
        group = of.group
        count, moves = self._rebalances.counts(name)
        return FinalGroupRow(
            group=name,
            rebalance=group.rebalance.value,
            strategy=group.strategy,
            session_timeout_ms=group.session_timeout_ms,
            deleted=of.deleted,
            generation=group.generation,
            members=sorted(group.members),
            partitions=sum(topic.count for topic in group.topics.values()),
            owned=sum(each.owner is not None for each in group.partitions.values()),
            rebalance_due=not of.deleted and is_due(group),
            events=of.events,
            joined=of.kinds[GroupAccepted.JOINED.value],
            left=of.kinds[GroupAccepted.LEFT.value],
            expired=of.kinds[GroupAccepted.EXPIRED.value],
            rebalances=count,
            moves=moves,
            rewinds=of.kinds[GroupAccepted.REWOUND.value],
            unowned_longest_ms=self._without_owner.longest_ms(name),
        )


def _mark(group: str, seen: SeenEvent) -> GroupMarkRow:
    event, verdict = seen.record.event, seen.accepted
    assert verdict is not None
    note = ""
    if isinstance(event, MemberLeft | MemberExpired):
        note = event.reason
    elif isinstance(event, PartitionsCounted):
        note = f"{event.topic}: {event.count}"
    return GroupMarkRow(
        group=group,
        offset=seen.offset,
        timestamp_ms=seen.clock_ms,
        kind=verdict.value,
        member=seen.member,
        client=seen.client,
        note=note,
    )
