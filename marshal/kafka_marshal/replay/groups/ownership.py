"""Which member owned which partition and when, and which partitions had no owner."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from attrs import define, field

from kafka_marshal.core.groups.events import MemberExpired, MemberLeft
from kafka_marshal.core.groups.state import Group, GroupPartition, TopicPartition, wanted
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.replay.groups.findings import finding, member_name
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.groups.rows import PartitionTenureRow
from kafka_marshal.replay.model.phrasing import clock, span, times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row

WITHOUT_OWNER_SESSIONS: Final = 1
"""For how many session timeouts a wanted partition may have no owner."""

_BEGAN: Final = {GroupAccepted.RECONCILED: "released", GroupAccepted.SNAPSHOT_TAKEN: "snapshot"}
_ENDS: Final = (GroupAccepted.LEFT, GroupAccepted.EXPIRED, GroupAccepted.REWOUND)
_Key: TypeAlias = tuple[str, TopicPartition]


@define
class _Tenure:
    """A tenure that lasts."""

    member: str
    client: str
    tenure: int
    began: str
    from_offset: int
    from_ms: int
    position_from: int
    position: int
    commits: int = 0
    last_commit_ms: int | None = None
    revoked_ms: int | None = None


class PartitionOwnership:
    """The open tenures of one partition of the log."""

    def __init__(self) -> None:
        self._open: dict[_Key, _Tenure] = {}

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """The rows of the tenures that an accepted event ended."""
        if seen.accepted is None:
            return
        for tp, was, now in seen.changed:
            key = seen.name, tp
            tenure = self._open.get(key)
            if tenure is not None and not _goes_on(tenure, now):
                yield self._ended(key, tenure, seen, was, now)
                tenure = None
            if now is None or now.owner is None:
                continue
            if tenure is None:
                tenure = self._open[key] = _Tenure(
                    member=now.owner,
                    client=seen.client_of(now.owner) or "",
                    tenure=now.tenure,
                    began=_began(seen, was, now),
                    from_offset=seen.offset,
                    from_ms=seen.clock_ms,
                    position_from=now.position,
                    position=now.position,
                )
            elif now.position != tenure.position:
                tenure.commits += 1
                tenure.position, tenure.last_commit_ms = now.position, seen.clock_ms
            if not now.revoking:
                tenure.revoked_ms = None
            elif tenure.revoked_ms is None:
                tenure.revoked_ms = seen.clock_ms

    def _ended(
        self,
        key: _Key,
        tenure: _Tenure,
        seen: SeenEvent,
        was: GroupPartition | None,
        now: GroupPartition | None,
    ) -> Row:
        event = seen.record.event
        del self._open[key]
        is_commit = seen.accepted is GroupAccepted.RECONCILED and was is not None
        if is_commit and now is not None and now.position != tenure.position:
            tenure.commits += 1  # the last word of one that lets go
            tenure.position, tenure.last_commit_ms = now.position, seen.clock_ms
        return _row(
            key,
            tenure,
            _ended_by(seen, key[1], tenure, now),
            reason=event.reason if isinstance(event, MemberLeft | MemberExpired) else None,
            to_offset=seen.offset,
            to_ms=seen.clock_ms,
            silent_ms=event.silent_ms if isinstance(event, MemberExpired) else None,
        )

    def forget(self, seen: SeenEvent) -> Iterator[Row]:
        """The state is not known any more: the rows of the tenures that last."""
        for key, tenure in self._open.items():
            yield _row(key, tenure, "unknown", to_offset=seen.offset, to_ms=seen.clock_ms)
        self._open.clear()

    def at_the_end(self) -> Iterator[Row]:
        """The rows of the tenures that last when the log ends."""
        for key, tenure in self._open.items():
            yield _row(key, tenure, "open")


def _goes_on(tenure: _Tenure, now: GroupPartition | None) -> bool:
    return now is not None and (now.owner, now.tenure) == (tenure.member, tenure.tenure)


def _began(seen: SeenEvent, was: GroupPartition | None, now: GroupPartition) -> str:
    verdict = seen.accepted
    assert verdict is not None
    if verdict is GroupAccepted.RENEWED and (was is None or was.owner != now.owner):
        return "released"
    return _BEGAN.get(verdict, verdict.value)


def _ended_by(
    seen: SeenEvent, tp: TopicPartition, tenure: _Tenure, now: GroupPartition | None
) -> str:
    verdict = seen.accepted
    assert verdict is not None
    if verdict in _ENDS:
        return str(verdict.value)
    if now is not None and now.owner == tenure.member and verdict is GroupAccepted.RENEWED:
        return "renewed"
    group = seen.after
    return "released" if group is not None and group.exists(tp) else "topic_gone"


def _row(
    key: _Key,
    tenure: _Tenure,
    ended: str,
    *,
    reason: str | None = None,
    to_offset: int | None = None,
    to_ms: int | None = None,
    silent_ms: int | None = None,
) -> PartitionTenureRow:
    group, tp = key
    return PartitionTenureRow(
        group=group,
        topic=tp.topic,
        topic_partition=tp.partition,
        member=tenure.member,
        client=tenure.client,
        tenure=tenure.tenure,
        began=tenure.began,
        from_offset=tenure.from_offset,
        from_ms=tenure.from_ms,
        position_from=tenure.position_from,
        ended=ended,
        reason=reason,
        to_offset=to_offset,
        to_ms=to_ms,
        position_to=tenure.position,
        commits=tenure.commits,
        last_commit_ms=tenure.last_commit_ms,
        revoked_ms=tenure.revoked_ms,
        silent_ms=silent_ms,
    )


# --- time without an owner ------------------------------------------------------------------------


@define
class _Free:
    """Wanted partitions of a group without an owner since one event."""

    since: SeenEvent
    why: str
    left: set[TopicPartition] = field(factory=set)
    """Those that still have no owner."""
    late: list[TopicPartition] = field(factory=list)
    """Those that had none for too long and got one, or are not wanted any more."""
    first_late_ms: int | None = None
    is_told: bool = False


@define
class _Unowned:
    """The partitions of one group without an owner."""

    free: dict[TopicPartition, _Free] = field(factory=dict)
    by_event: dict[int, _Free] = field(factory=dict)
    """By the offset of the event since which they are free."""
    longest_ms: int | None = None
    seen_members: object = None
    seen_topics: object = None
    wanted: frozenset[TopicPartition] = frozenset()

    def wants(self, group: Group) -> frozenset[TopicPartition]:
        """The wanted partitions, cached since this is called after every event."""
        if self.seen_members is not group.members or self.seen_topics is not group.topics:
            self.seen_members, self.seen_topics = group.members, group.topics
            self.wanted = frozenset(wanted(group))
        return self.wanted


class WithoutOwner:
    """Times in which a partition that some member wants had no owner.

    A partition of a silent member still counts as owned: its controller had not expired the member.
    """

    def __init__(self, ended: Callable[[str, int, int], None]) -> None:
        """`ended` is called with group, begin and end of each such time."""
        self._ended = ended
        self._groups: dict[str, _Unowned] = {}
        self._look_ms: float = math.inf
        """When the next of them will have been free for too long."""

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """The findings about those that had none for too long."""
        if seen.accepted is None or not seen.name or seen.only_commits:
            return
        before, group = seen.before, seen.after
        if group is None:
            of = self._groups.pop(seen.name, None)
            if of is not None and before is not None:
                until = f"the group was deleted {_at(seen)}"
                yield from self._all_over(seen.name, of, before, seen.clock_ms, until, seen)
            return
        if before is not None and (
            group.partitions is before.partitions and group.members is before.members
        ):
            return
        of = self._groups.setdefault(seen.name, _Unowned())
        now_wanted = of.wants(group)
        for tp in [*of.free]:
            if tp not in now_wanted or group.partitions[tp].owner is not None:
                free = self._over(seen.name, of, tp, group, seen.clock_ms)
                if free is not None:
                    yield _row_of(seen.name, group, free, seen.clock_ms, _at(seen), seen)
        for tp in now_wanted:
            if group.partitions[tp].owner is None and tp not in of.free:
                if seen.offset not in of.by_event:
                    of.by_event[seen.offset] = _Free(seen.kept, _why_free(seen))
                    self._look_ms = min(self._look_ms, seen.clock_ms + _limit_ms(group))
                of.free[tp] = of.by_event[seen.offset]
                of.free[tp].left.add(tp)

    def _over(
        self, name: str, of: _Unowned, tp: TopicPartition, group: Group, clock_ms: int
    ) -> _Free | None:
        """A partition has an owner again; what to report, if it was the last of its event."""
        free = of.free.pop(tp)
        free.left.discard(tp)
        lasted_ms = clock_ms - free.since.clock_ms
        self._ended(name, free.since.clock_ms, clock_ms)
        of.longest_ms = max(of.longest_ms or 0, lasted_ms)
        if lasted_ms > _limit_ms(group):
            free.late.append(tp)
            free.first_late_ms = clock_ms if free.first_late_ms is None else free.first_late_ms
        if free.left:
            return None
        del of.by_event[free.since.offset]
        return free if free.late else None

    def _all_over(
        self,
        name: str,
        of: _Unowned,
        group: Group,
        clock_ms: int,
        until: str,
        seen: SeenEvent | None,
    ) -> Iterator[Row]:
        for tp in [*of.free]:
            free = self._over(name, of, tp, group, clock_ms)
            if free is not None:
                yield _row_of(name, group, free, clock_ms, until, seen)

    def longest_ms(self, group: str) -> int | None:
        """How long a wanted partition of a group had no owner, at most; None: never."""
        of = self._groups.get(group)
        return None if of is None else of.longest_ms

    def begun(self, clock_ms: int, groups: Mapping[str, Group]) -> Iterator[FindingRow]:
        """Yield the findings that began since the last call: partitions still without an owner."""
        if clock_ms <= self._look_ms:
            return
        self._look_ms = math.inf
        for name, of in self._groups.items():
            group = groups[name]
            for free in of.by_event.values():
                due_ms = free.since.clock_ms + _limit_ms(group)
                if free.is_told:
                    continue
                if clock_ms > due_ms:
                    free.is_told = True
                    yield _row_of(name, group, free, clock_ms, "now and longer", None)
                else:
                    self._look_ms = min(self._look_ms, due_ms)

    def forget(self, seen: SeenEvent, groups: Mapping[str, Group]) -> Iterator[Row]:
        """The state is not known any more."""
        yield from self._everything_over(
            seen.clock_ms, groups, "nothing is known of them any more", seen
        )
        self._groups.clear()

    def at_the_end(self, clock_ms: int, groups: Mapping[str, Group]) -> Iterator[Row]:
        """The findings about those that have none when the log ends."""
        yield from self._everything_over(clock_ms, groups, "the log ends and it has none", None)

    def _everything_over(
        self, clock_ms: int, groups: Mapping[str, Group], until: str, seen: SeenEvent | None
    ) -> Iterator[Row]:
        for name, of in self._groups.items():
            if name in groups:
                yield from self._all_over(name, of, groups[name], clock_ms, until, seen)


def _limit_ms(group: Group) -> int:
    return WITHOUT_OWNER_SESSIONS * group.session_timeout_ms


def _at(seen: SeenEvent) -> str:
    return f"{clock(seen.clock_ms)} (offset {seen.offset})"


def _why_free(seen: SeenEvent) -> str:
    who = member_name(seen.member, seen.client) if seen.member else ""
    match seen.accepted:
        case GroupAccepted.LEFT:
            return f"{who} left"
        case GroupAccepted.EXPIRED:
            return f"{who} was expired"
        case GroupAccepted.RECONCILED | GroupAccepted.RENEWED:
            return f"{who} let it go"
        case GroupAccepted.COUNTED:
            return "the topic was counted"
        case GroupAccepted.JOINED | GroupAccepted.WISHES_CHANGED:
            return f"{who} wanted it and nobody owned it"
        case _:
            return "nobody owned it"


def _row_of(
    name: str, group: Group, free: _Free, now_ms: int, until: str, seen: SeenEvent | None
) -> FindingRow:
    """One finding for all partitions that were free since one event, and too long."""
    tps = sorted([*free.late, *free.left])
    tp, many = tps[0], len(tps)
    which = ", ".join(f"{tp.topic}/{tp.partition}" for tp in tps[:6])
    which += f" and {many - 6} more" if many > 6 else ""
    since = free.since
    up_to = "up to " if free.first_late_ms not in (None, now_ms) else ""
    return finding(
        "without_owner",
        f"{times(many, 'partition')} of group {name} had no owner for {up_to}"
        f"{span(now_ms - since.clock_ms)}, from offset {since.offset} "
        f"({clock(since.clock_ms)}: {free.why}) until {until}: {which}. A session timeout "
        f"is {span(group.session_timeout_ms)}.",
        [since] if seen is None else [since, seen],
        group=name,
        at=tp if many == 1 else None,
        count=many,
    )
