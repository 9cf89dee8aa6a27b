"""Live members that were expired, positions that were set, snapshots that disagree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    GroupSnapshot,
    MemberExpired,
    PartitionsRewound,
)
from kafka_marshal.core.groups.state import Group
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused
from kafka_marshal.replay.groups.findings import finding, member_name
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.phrasing import clock, span, times
from kafka_marshal.replay.model.rows import Row

EXPIRED_MAX: Final = 1_000
"""Members that may still speak again. Those that were expired before them are not waited for."""
SILENT = "silent"
"""Reason of a MemberExpired: the member sent nothing. Otherwise it is alive and released
nothing."""
POSITIONS_NAMED = 4
"""Positions of a rewind that its sentence names."""


class Expiries:
    """Members that were expired because they were silent, until they speak again."""

    def __init__(self) -> None:
        self._expired: dict[tuple[str, str], SeenEvent] = {}

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """The finding about a member that speaks again."""
        event, verdict = seen.record.event, seen.accepted
        if isinstance(event, MemberExpired) and verdict is GroupAccepted.EXPIRED:
            if event.reason == SILENT:
                self._expired[seen.name, event.member] = seen.kept
                if len(self._expired) > EXPIRED_MAX:
                    del self._expired[next(iter(self._expired))]
            return
        if verdict is GroupAccepted.DELETED:
            for key in [key for key in self._expired if key[0] == seen.name]:
                del self._expired[key]
        if verdict is not GroupAccepted.JOINED and seen.refused is not GroupRefused.UNKNOWN_MEMBER:
            return
        expiry = self._expired.pop((seen.name, seen.member or ""), None)
        if expiry is not None:
            yield _lived(expiry, seen)


def _lived(expiry: SeenEvent, seen: SeenEvent) -> Row:
    event, group = expiry.record.event, expiry.before
    assert isinstance(event, MemberExpired)
    assert group is not None
    lost = sum(1 for _ in group.owned_by(event.member))
    how = "registered again" if seen.accepted is GroupAccepted.JOINED else "spoke again"
    return finding(
        "false_expiry",
        f"{member_name(event.member, expiry.client)} of group {seen.name} was expired at offset "
        f"{expiry.offset} ({clock(expiry.clock_ms)}) after {span(event.silent_ms)} of silence, and "
        f"lost {times(lost, 'partition')}. It {how} "
        f"{span(seen.clock_ms - expiry.clock_ms)} later, at offset {seen.offset}. A session "
        f"timeout is {span(group.session_timeout_ms)}.",
        [expiry, seen],
        group=seen.name,
        member=event.member,
        client=expiry.client,
    )


def rewound(seen: SeenEvent) -> Row | None:
    """The finding about a rewind, if the event is one that was accepted."""
    event, group = seen.record.event, seen.before
    if not isinstance(event, PartitionsRewound) or seen.accepted is None or group is None:
        return None
    back = forward = 0
    moved = []
    for tp, position in sorted(event.positions.items()):
        known = group.partitions[tp].position
        back += max(0, known - position)
        forward += max(0, position - known) if known >= 0 else 0
        was = f"{known:,}" if known >= 0 else "none"
        moved.append(f"{tp.topic}/{tp.partition} from {was} to {position:,}")
    shown = ", ".join(moved[:POSITIONS_NAMED])
    if len(moved) > POSITIONS_NAMED:
        shown += f" and {len(moved) - POSITIONS_NAMED:,} more"
    told = [f"{back:,} offsets are consumed again"] if back else []
    told += [f"{forward:,} are passed over"] if forward else []
    return finding(
        "rewound",
        f"{event.by or 'Somebody'} set {times(len(moved), 'position')} of group {seen.name} at "
        f"offset {seen.offset} ({clock(seen.clock_ms)}): {shown}."
        + (f" {' and '.join(told)}." if told else ""),
        [seen],
        group=seen.name,
        at=next(iter(event.positions)) if len(moved) == 1 else None,
        count=len(moved),
    )


def snapshot_differs(seen: SeenEvent) -> Row | None:
    """The finding about a snapshot that differs from the state after the events before it."""
    if seen.accepted is not GroupAccepted.SNAPSHOT_DIFFERS:
        return None
    event = seen.record.event
    if isinstance(event, ControllershipSnapshot):
        known = f"controller {seen.was.controller_id} at {seen.was.host}:{seen.was.port}"
        sentence = (
            f"The snapshot at offset {seen.offset} ({clock(seen.clock_ms)}) names controller "
            f"{event.controller_id} at {event.host}:{event.port}, where the log says {known}."
        )
        return finding("snapshot_differs", sentence, [seen])
    assert isinstance(event, GroupSnapshot)
    assert seen.before is not None
    return finding(
        "snapshot_differs",
        f"The snapshot of group {seen.name} at offset {seen.offset} ({clock(seen.clock_ms)}) is "
        f"not what the events before it come to: {_differences(seen.before, event.state)}.",
        [seen],
        group=seen.name,
    )


def _differences(known: Group, snapshot: Group) -> str:
    """Fields that differ, and of partitions the first one."""
    told = []
    for each in attrs.fields(Group):
        was, says = getattr(known, each.name), getattr(snapshot, each.name)
        if was == says:
            continue
        if each.name != "partitions":
            told.append(each.name)
            continue
        tps = sorted(tp for tp in {*was, *says} if was.get(tp) != says.get(tp))
        told.append(f"{times(len(tps), 'partition')}, the first {tps[0].topic}/{tps[0].partition}")
    return ", ".join(told)
