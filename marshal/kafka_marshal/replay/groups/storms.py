"""Rebalance storms: a group that rebalances repeatedly as members join and leave."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from attrs import define, field

from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.replay.groups.findings import PROOFS_MAX, finding
from kafka_marshal.replay.groups.seen import SeenEvent
from kafka_marshal.replay.model.phrasing import clock, span, times
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.rows import Row

STORM_REBALANCES: Final = 6
"""Rebalances of a group that are a storm, if they are written within `STORM_SESSIONS`."""
STORM_SESSIONS: Final = 10
"""Session timeouts."""
NAMED_MAX: Final = 4
"""Members that the sentence names of each kind."""
LATELY_MAX: Final = 1_000
"""The most members that joined or left recently and may belong to a storm."""
CLIENTS_MAX: Final = 1_000
"""Clients, and members of each, that are counted of a storm."""

_COMES_OR_GOES: Final = {
    GroupAccepted.JOINED: "joined",
    GroupAccepted.LEFT: "left",
    GroupAccepted.EXPIRED: "expired",
}


@define
class _CameOrWent:
    """A member that joined, left or expired."""

    clock_ms: int
    kind: str
    client: str
    member: str


@define
class _Storm:
    """The recent events of one group, and its current storm."""

    written: deque[SeenEvent] = field(factory=deque)
    """The last rebalances: of a storm that lasts only the last few."""
    came_and_went: deque[_CameOrWent] = field(factory=lambda: deque(maxlen=LATELY_MAX))
    rages: bool = False
    first: SeenEvent | None = None
    proofs: list[SeenEvent] = field(factory=list)
    count: int = 0
    kinds: dict[str, dict[str, list[str]]] = field(factory=dict)
    """By kind and client the member ids."""
    last: SeenEvent | None = None


class Storms:
    """Watches how often each group is rebalanced."""

    def __init__(self) -> None:
        self._groups: dict[str, _Storm] = defaultdict(_Storm)
        self._fresh: str | None = None
        """The group of which a storm began with the last event."""

    def observe(self, seen: SeenEvent) -> Iterator[Row]:
        """The finding about a storm that is over."""
        self._fresh = None
        verdict = seen.accepted
        if verdict in _COMES_OR_GOES:
            kind = _COMES_OR_GOES[verdict]
            came_or_went = _CameOrWent(seen.clock_ms, kind, seen.client or "", seen.member or "")
            self._groups[seen.name].came_and_went.append(came_or_went)
        if verdict is GroupAccepted.DELETED:
            gone = self._groups.get(seen.name)
            if gone is not None and gone.rages:
                yield self._over(seen.name, gone)
            self._groups.pop(seen.name, None)
        if verdict is GroupAccepted.REBALANCED and seen.after is not None:
            span_ms = STORM_SESSIONS * seen.after.session_timeout_ms
            yield from self._written(seen, self._groups[seen.name], span_ms)

    def _written(self, seen: SeenEvent, of: _Storm, span_ms: int) -> Iterator[Row]:
        seen = seen.kept
        of.written.append(seen)
        while seen.clock_ms - of.written[0].clock_ms > span_ms:
            of.written.popleft()
        if len(of.written) < STORM_REBALANCES:
            if of.rages:
                yield self._over(seen.name, of)
            return
        if not of.rages:
            of.rages, of.first, of.count = True, of.written[0], len(of.written)
            of.proofs = [*of.written]
            self._fresh = seen.name
            since_ms = of.written[0].clock_ms - span_ms // STORM_SESSIONS
        else:
            of.count += 1
            since_ms = 0
            if len(of.proofs) < PROOFS_MAX:
                of.proofs.append(seen)
        of.last = seen
        for each in of.came_and_went:
            if each.clock_ms >= since_ms:
                by_client = of.kinds.setdefault(each.kind, {})
                if each.client in by_client or len(by_client) < CLIENTS_MAX:
                    members = by_client.setdefault(each.client, [])
                    if len(members) < CLIENTS_MAX:
                        members.append(each.member)
        of.came_and_went.clear()

    def _over(self, name: str, of: _Storm) -> Row:
        self._groups[name] = _Storm(written=of.written)
        return self._row(name, of)

    def begun(self) -> Iterator[FindingRow]:
        """Yield the finding that began with the last event, once."""
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            yield self._row(fresh, self._groups[fresh])

    @staticmethod
    def _row(name: str, of: _Storm) -> FindingRow:
        first, last = of.first, of.last
        assert first is not None
        assert last is not None
        told = "; ".join(
            f"{kind}: {_named(of.kinds[kind])}"
            for kind in _COMES_OR_GOES.values()
            if of.kinds.get(kind)
        )
        proofs = of.proofs if last in of.proofs else [*of.proofs[: PROOFS_MAX - 1], last]
        return finding(
            "rebalance_storm",
            f"Group {name} was rebalanced {times(of.count, 'time')} in "
            f"{span(last.clock_ms - first.clock_ms)}, from offset {first.offset} "
            f"({clock(first.clock_ms)}) to offset {last.offset}. Members that {told}.",
            proofs,
            group=name,
            count=of.count,
        )

    def at_the_end(self) -> Iterator[Row]:
        """The storms that rage when the log ends."""
        for name, of in [*self._groups.items()]:
            if of.rages:
                yield self._over(name, of)


def _named(by_client: Mapping[str, Sequence[str]]) -> str:
    """Clients with how often and as which members, those with most first.

    >>> _named({"c1": ["m1", "m2", "m1"], "c2": ["m3"]})
    'c1 3 times (as m1, m2), c2 once (as m3)'
    """
    often = sorted(by_client.items(), key=lambda item: (-len(item[1]), item[0]))
    shown = [
        f"{client or 'a client without id'} {_often(len(members))} (as {_ids(members)})"
        for client, members in often[:NAMED_MAX]
    ]
    if len(often) > NAMED_MAX:
        shown.append(f"and {times(len(often) - NAMED_MAX, 'other client')}")
    return ", ".join(shown)


def _ids(members: Sequence[str]) -> str:
    ids = sorted(set(members))
    return ", ".join(ids) if len(ids) <= NAMED_MAX else f"{len(ids)} members"


def _often(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")
