"""Rebalances: the event that triggered each, what moved, who released last, when it ended.

A rebalance becomes due when members, wishes or topics differ from those of the target. It is
written as a Rebalanced event, and settled when all partitions are owned according to the target.
Between the two, members release partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.assignment import sticky_assignor
from kafka_marshal.core.groups.events import MemberRegistered, PartitionsCounted, Rebalanced
from kafka_marshal.core.groups.state import Group, TopicPartition, is_due
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.replay.groups.findings import finding, member_name
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.groups.rows import (
    CauseRow,
    CountRow,
    PlaceRow,
    RebalanceRow,
    ReleaseRow,
    TargetRow,
    WishRow,
)
from kafka_marshal.replay.model.phrasing import clock, span, times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row

HELD_UP_SESSIONS: Final = 0.5
"""A member that releases later than this part of a session timeout delays a rebalance. It learns of
a target within a third: the longest time between two heartbeats."""
CAUSES_MAX: Final = 100
"""Events kept of those that make one rebalance due."""

_MAKES_DUE: Final = (
    GroupAccepted.JOINED,
    GroupAccepted.LEFT,
    GroupAccepted.EXPIRED,
    GroupAccepted.COUNTED,
)
_LETS_GO: Final = {
    GroupAccepted.RECONCILED: "released",
    GroupAccepted.RENEWED: "renewed",
    GroupAccepted.LEFT: "left",
    GroupAccepted.EXPIRED: "expired",
}


@define
class _Waiting:
    """The partitions that one member must release in a rebalance."""

    client: str
    since_ms: int
    """When it first had to: by this target, or by one before it that was not settled."""
    count: int = 0
    left: set[TopicPartition] = field(factory=set)
    last: SeenEvent | None = None
    how: str = "holds"


@define
class RunningRebalance:
    """A target that was written, with its progress so far."""

    written: SeenEvent
    causes: tuple[SeenEvent, ...]
    due_before: bool
    """It was due before a snapshot, for other causes than these."""
    moves: int
    revoked: int
    granted: int
    waiting: dict[str, _Waiting]
    unowned: int = 0
    unowned_longest_ms: int = 0

    def slowest_last(self, clock_ms: int) -> list[ReleaseRow]:
        """The members that had to release, the slowest last, such as one that still holds."""
        rows = [self._release(member, of, clock_ms) for member, of in self.waiting.items()]
        return sorted(rows, key=lambda row: (row.how == "holds", row.took_ms, row.member))

    def _release(self, member: str, of: _Waiting, clock_ms: int) -> ReleaseRow:
        done = of.last if not of.left else None
        until_ms = clock_ms if done is None else done.clock_ms
        return ReleaseRow(
            member=member,
            client=of.client,
            partitions=of.count,
            offset=None if done is None else done.offset,
            timestamp_ms=None if done is None else done.clock_ms,
            how="holds" if done is None else of.how,
            took_ms=until_ms - of.since_ms,
        )


@define
class _GroupRebalances:
    """The counts of one group's rebalances, and the current one."""

    causes: list[SeenEvent] = field(factory=list)
    """Since when one is due; empty: none is."""
    is_due: bool = False
    due_before: bool = False
    """Whether it was already due at a snapshot, so its cause is unknown."""
    running: RunningRebalance | None = None
    rebalances: int = 0
    moves: int = 0
    unowned: int = 0
    unowned_longest_ms: int = 0
    uneven: list[SeenEvent] = field(factory=list)
    uneven_count: int = 0


class Rebalances:
    """The rebalances of the groups of one partition of the log."""

    def __init__(self) -> None:
        self._groups: dict[str, _GroupRebalances] = defaultdict(_GroupRebalances)
        self._fresh: str | None = None
        """The group whose first uneven target was the last event."""

    def unowned(self, group: str, from_ms: int, to_ms: int) -> None:
        """A wanted partition had no owner: count it for the rebalance that assigned one."""
        of = self._groups[group]
        of.unowned += 1
        of.unowned_longest_ms = max(of.unowned_longest_ms, to_ms - from_ms)

    def counts(self, group: str) -> tuple[int, int]:
        """Rebalances and moves of a group so far."""
        of = self._groups[group]
        return of.rebalances, of.moves

    def due_since(self) -> Iterator[tuple[str, SeenEvent]]:
        """Groups of which a rebalance is due, and the event that made it due."""
        for name, of in self._groups.items():
            if of.is_due and of.causes and not of.due_before:
                yield name, of.causes[0]

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """The rows and findings of rebalances that an accepted event ended."""
        self._fresh = None
        if seen.accepted is None or not seen.name or seen.only_commits:
            return
        of, group = self._groups[seen.name], seen.after
        if group is None:
            yield from self._over(seen.name, of, "superseded", seen.clock_ms)
            of.causes, of.is_due, of.due_before = [], False, False
            return
        if seen.accepted is GroupAccepted.REBALANCED:
            unsettled = {} if of.running is None else of.running.waiting
            yield from self._over(seen.name, of, "superseded", seen.clock_ms)
            yield self._written(seen, of, group, unsettled)
        elif of.running is not None:
            self._let_go(of.running, seen)
        if of.running is not None and _is_settled(group, of.running):
            yield from self._over(seen.name, of, "settled", seen.clock_ms, seen)
        if seen.accepted is not GroupAccepted.RECONCILED:  # which makes none due
            self._due(seen, of, group)

    def _due(self, seen: SeenEvent, of: _GroupRebalances, group: Group) -> None:
        """Whether one is due after the event, and whether the event is a cause."""
        of.is_due = is_due(group)
        if not of.is_due:
            of.causes, of.due_before = [], False
        elif seen.accepted is GroupAccepted.SNAPSHOT_TAKEN:
            of.due_before = True
        elif len(of.causes) < CAUSES_MAX and _what(seen) is not None:
            of.causes.append(seen.kept)

    def _written(
        self, seen: SeenEvent, of: _GroupRebalances, group: Group, unsettled: Mapping[str, _Waiting]
    ) -> Row:
        """A target was written: report its moves, and the members that must release."""
        event, before = seen.record.event, seen.before
        assert isinstance(event, Rebalanced)
        assert before is not None
        waiting: dict[str, _Waiting] = {}
        for tp, each in group.partitions.items():
            if each.revoking and each.owner is not None:
                client = seen.client_of(each.owner) or ""
                entry = waiting.setdefault(each.owner, _Waiting(client, seen.clock_ms))
                earlier = unsettled.get(each.owner)
                if earlier is not None and tp in earlier.left:
                    entry.since_ms = earlier.since_ms
                entry.count += 1
                entry.left.add(tp)
        owner_of = {tp: each.owner for tp, each in before.partitions.items()}
        moves = sum(
            owner_of[tp] is not None and owner_of[tp] != member
            for tp, member in event.target.items()
        )
        of.running = RunningRebalance(
            written=seen.kept,
            causes=tuple(of.causes),
            due_before=of.due_before,
            moves=moves,
            revoked=sum(each.count for each in waiting.values()),
            granted=sum(owner_of[tp] is None for tp in event.target),
            waiting=waiting,
        )
        of.causes = []
        of.rebalances += 1
        of.moves += moves
        if is_uneven(before, event):
            of.uneven_count += 1
            self._fresh = None if of.uneven else seen.name
            if len(of.uneven) < 8:
                of.uneven.append(seen.kept)
        return _target_row(seen, before, event)

    @staticmethod
    def _let_go(running: RunningRebalance, seen: SeenEvent) -> None:
        """Record the partitions that members released with an event."""
        for tp, was, now in seen.changed:
            if was is None or was.owner is None:
                continue
            entry = running.waiting.get(was.owner)
            if entry is None or tp not in entry.left:
                continue
            if now is None or now.owner != was.owner or not now.revoking:
                entry.left.discard(tp)
                entry.last = seen.kept
                entry.how = _lets_go(seen)

    def _over(
        self,
        name: str,
        of: _GroupRebalances,
        state: str,
        clock_ms: int,
        settled: SeenEvent | None = None,
    ) -> Iterator[Row]:
        """The row of the rebalance that ran, if one did, and its finding."""
        running, of.running = of.running, None
        if running is None:
            return
        if state != "superseded":  # then they count for the next one
            running.unowned, of.unowned = of.unowned, 0
            running.unowned_longest_ms, of.unowned_longest_ms = of.unowned_longest_ms, 0
        row = _row(name, running, state, clock_ms, settled)
        yield row
        yield from _held_up(name, running, row)

    def forget(self, clock_ms: int) -> Iterator[Row]:
        """The state is not known any more: the rows of the rebalances that last."""
        for name, of in self._groups.items():
            yield from self._over(name, of, "unknown", clock_ms)
            of.causes, of.is_due, of.due_before = [], False, False

    def drop(self, name: str) -> Iterator[Row]:
        """A group that was deleted is not remembered any more: its uneven targets."""
        of = self._groups.pop(name, None)
        if of is not None and of.uneven:
            yield _uneven(name, of)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the finding that began with the last event, once."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            yield _uneven(fresh, self._groups[fresh])

    def at_the_end(self, clock_ms: int) -> Iterator[Row]:
        """The rows of the rebalances that last when the log ends, and uneven targets."""
        for name, of in self._groups.items():
            yield from self._over(name, of, "open", clock_ms)
            if of.uneven:
                yield _uneven(name, of)


def _lets_go(seen: SeenEvent) -> str:
    """How a member released by an event; a rewind gives its partitions a new tenure."""
    return "released" if seen.accepted is None else _LETS_GO.get(seen.accepted, "released")


def _is_settled(group: Group, running: RunningRebalance) -> bool:
    """Whether all partitions are owned according to the target."""
    if any(entry.left for entry in running.waiting.values()):
        return False
    return all(each.owner == each.target for each in group.partitions.values())


def _what(seen: SeenEvent) -> str | None:
    """The cause of a rebalance in this event; None if it makes none due."""
    event = seen.record.event
    verdict = seen.accepted
    if verdict is not None and verdict in _MAKES_DUE:
        return str(verdict.value)
    if isinstance(event, MemberRegistered) and seen.before is not None:
        known = seen.before.members.get(event.member)
        if known is not None and known.topics != event.topics:
            return "wish"
        if known is not None and known.static.keys() != event.static:
            return "static"
    return None


def _cause(seen: SeenEvent) -> CauseRow:
    event = seen.record.event
    return CauseRow(
        offset=seen.offset,
        timestamp_ms=seen.clock_ms,
        what=_what(seen) or "",
        member=seen.member,
        client=seen.client,
        topic=event.topic if isinstance(event, PartitionsCounted) else None,
    )


def _row(
    name: str, running: RunningRebalance, state: str, clock_ms: int, settled: SeenEvent | None
) -> RebalanceRow:
    written, group = running.written, running.written.after
    assert group is not None
    event = written.record.event
    assert isinstance(event, Rebalanced)
    causes = tuple(map(_cause, running.causes))
    first = causes[0] if causes and not running.due_before else None
    releases = running.slowest_last(clock_ms)
    last = releases[-1] if releases else None
    return RebalanceRow(
        group=name,
        rebalance=group.rebalance.value,
        strategy=group.strategy,
        due_offset=None if first is None else first.offset,
        due_ms=None if first is None else first.timestamp_ms,
        due_by=None if first is None else first.what,
        due_member=None if first is None else first.member,
        due_client=None if first is None else first.client,
        causes=causes,
        offset=written.offset,
        timestamp_ms=written.clock_ms,
        number=group.rebalanced_at,
        state=state,
        settled_offset=None if settled is None else settled.offset,
        settled_ms=None if settled is None else settled.clock_ms,
        ended_ms=None if state == "open" else clock_ms,
        members=len(group.members),
        partitions=len(event.target),
        moves=running.moves,
        revoked=running.revoked,
        granted=running.granted,
        releases=releases,
        held_up_by=None if last is None else last.member,
        held_up_client=None if last is None else last.client,
        held_up_ms=None if last is None else last.took_ms,
        held_up_how=None if last is None else last.how,
        unowned=running.unowned,
        unowned_longest_ms=running.unowned_longest_ms,
    )


_HOW: Final = {
    "released": "did so",
    "renewed": "began anew",
    "left": "left",
    "expired": "was expired",
    "holds": "had not done so",
}


def _held_up(name: str, running: RunningRebalance, row: RebalanceRow) -> Iterator[Row]:
    """Yield the finding about a member that released late."""
    group = running.written.after
    assert group is not None
    limit_ms = HELD_UP_SESSIONS * group.session_timeout_ms
    if row.held_up_ms is None or row.held_up_ms <= limit_ms:
        return
    slow = row.releases[-1]
    if slow.how == "holds" and row.state != "open":
        return  # a later target waits for it, too
    others = [each for each in row.releases[:-1] if each.how != "holds"]
    done = running.waiting[slow.member].last
    what = times(slow.partitions, "partition")
    sentence = (
        f"{member_name(slow.member, slow.client)} held up the rebalance of group {name} that was "
        f"written at offset {row.offset} ({clock(row.timestamp_ms)}): it was to let "
        f"{what} go, and {_HOW[slow.how]} {span(slow.took_ms)} after it first had to"
    )
    sentence += f" (offset {slow.offset})." if slow.offset is not None else "."
    if others:
        sentence += (
            f" The slowest of {times(len(others), 'other member')} needed "
            f"{span(max(each.took_ms for each in others))}."
        )
    sentence += f" A session timeout is {span(group.session_timeout_ms)}."
    yield finding(
        "rebalance_held_up",
        sentence,
        [*running.causes[:1], running.written, *([done] if done is not None else [])],
        group=name,
        member=slow.member,
        client=slow.client,
        count=slow.partitions,
        place=running.written,
    )


# --- targets --------------------------------------------------------------------------------------


def is_uneven(group: Group, event: Rebalanced) -> bool:
    """Some other target would spread the partitions more evenly over the members."""
    counts: Mapping[str, int] = {name: topic.count for name, topic in group.topics.items()}
    owners = dict(event.target)
    return _squares(event.target) > _squares(sticky_assignor(group.members, counts, owners))  # type: ignore[arg-type]


def _squares(target: Mapping[TopicPartition, str]) -> int:
    shares: dict[str, int] = defaultdict(int)
    for member in target.values():
        shares[member] += 1
    return sum(share * share for share in shares.values())


def _uneven(name: str, of: _GroupRebalances) -> FindingRow:
    seen = of.uneven[0]
    event = seen.record.event
    group = seen.before
    assert isinstance(event, Rebalanced)
    assert group is not None
    shares: dict[str, int] = dict.fromkeys(group.members, 0)
    for member in event.target.values():
        shares[member] += 1
    most, least = max(shares, key=lambda m: shares[m]), min(shares, key=lambda m: shares[m])
    return finding(
        "uneven_target",
        f"{times(of.uneven_count, 'target')} of group {name} could have been more even: the first "
        f"one, at offset {seen.offset} ({clock(seen.clock_ms)}), gives "
        f"{member_name(most, seen.client_of(most))} {times(shares[most], 'partition')} and "
        f"{member_name(least, seen.client_of(least))} {shares[least]:,}. The strategy is "
        f"{group.strategy}.",
        of.uneven,
        group=name,
        count=of.uneven_count,
    )


def _target_row(seen: SeenEvent, group: Group, event: Rebalanced) -> TargetRow:
    """The target, with the input of a strategy; `group` is the state before it."""
    return TargetRow(
        group=seen.name,
        offset=seen.offset,
        timestamp_ms=seen.clock_ms,
        strategy=group.strategy,
        members=[
            WishRow(
                member=name,
                client=member.client_id,
                topics=sorted(member.topics),
                static=[
                    PlaceRow(topic=tp.topic, partition=tp.partition, number=number)
                    for tp, number in sorted(member.static.items())
                ],
            )
            for name, member in sorted(group.members.items())
        ],
        topics=[
            CountRow(topic=name, count=topic.count) for name, topic in sorted(group.topics.items())
        ],
        target=[
            PlaceRow(topic=tp.topic, partition=tp.partition, member=member)
            for tp, member in sorted(event.target.items())
        ],
    )
