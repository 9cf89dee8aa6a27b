"""What may land: every record that anybody could have built from any view of the log.

A view is how much of the log its sender had read: `history[view]` is what it then knew. What can be
built from one view depends on little of the state, and is remembered with that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.ranges.messages import (
    NO_RANGE_HEADERS,
    RangeHeaders,
    RangesMessage,
    RangesRecord,
)
from model_tests.explorer.ranges import parts
from model_tests.explorer.ranges.parts import Built, Leases, Moment, Note, Notes, RangesState
from model_tests.explorer.ranges.world import WorldOfRanges
from model_tests.ranges.from_tla import Landed

ANCHOR = "ranges"
"""The instance and the client that participants write the old messages under. Spec: ANCHOR."""

PRESENT = Headers(present=True)
EXPIRES_UNIX_S = 1

OwnersType = type[Heartbeat] | type[ReleasingPartition] | type[ClaimingMessages]


def sent_by(instance: str) -> tuple[int, int, str, str, str]:
    """The first fields of a message. Spec: Message."""
    return 1, 0, instance, instance, "g"


def owners_message(kind: OwnersType, instance: str, offset: int) -> RangesMessage:
    """A message that says an offset."""
    return kind(*sent_by(instance), "t", Partition(0), Offset(offset))


def seen(view: int) -> int | None:
    """Spec: Seen."""
    return view - 1 if view else None


def of_view(view: int, moment: Moment) -> Headers:
    """Spec: Of."""
    return Headers(present=True, epoch=moment.claim.epoch, seen=seen(view))


# --- what a configuration may replace -------------------------------------------------------------


def anchor_at(moment: Moment) -> int:
    """Where the anchor's heartbeat and release say that they are. Spec: AnchorAt."""
    return moment.claim.position if moment.ranges.window == 0 else moment.ranges.low


def may_share(moment: Moment) -> bool:
    """A participant shares the claim only if a position was ever set. Spec: MayShare."""
    return moment.claim.position_set


def claims_alone_as(instance: str) -> str:
    """Under which instance a participant claims to say where to begin. Spec: ClaimAloneSent."""
    return instance


def range_views(history: Sequence[Moment]) -> list[int]:
    """Spec: RangeViews."""
    return [view for view, moment in enumerate(history) if moment.ranges.has_begun]


def honest(leases: Leases, said: Notes, note: Note) -> bool:
    """No note contradicts another: what is done is not given back. Spec: Honest."""
    told = frozenset({note})
    return not any(
        (parts.says_done(told, lease, x) and parts.says_never(said, lease, x))
        or (parts.says_never(told, lease, x) and parts.says_done(said, lease, x))
        for lease in leases
        if note.speaks(lease)
        for x in lease.offsets
    )


def what_it_says(instance: str, moment: Moment) -> Iterator[tuple[int | None, int | None]]:
    """`done` and `keep` of a ClaimingRange; who gives back asks for nothing. Spec: RangingFrom."""
    yield None, None
    own = {x for each in moment.ranges.open_of(instance) for x in range(each.from_, each.to)}
    for x in own:
        yield x + 1, None
        yield None, x


# --- what may land --------------------------------------------------------------------------------


class Records:
    """What may land in one world. Spec: Buildable."""

    def __init__(self, world: WorldOfRanges) -> None:
        self._world = world
        self._built: dict[tuple[Landed, Notes], Built] = {}
        self._memo: dict[object, Any] = {}

    def buildable(self, state: RangesState, at_ms: int) -> list[Built]:
        """Spec: Buildable."""
        found = dict.fromkeys(self._without_a_view(state.latest, state.appended, at_ms))
        for view, moment in enumerate(state.history):
            found.update(dict.fromkeys(self._of_view(view, moment, state.appended, at_ms)))
        for view in range_views(state.history):
            for instance in self._world.participants:
                found.update(dict.fromkeys(self._requests(instance, view, state, at_ms)))
        return list(found)

    def lands_at(self, built: Built, offset: int, at_ms: int) -> Built:
        """The same record, later."""
        key = (built, offset, at_ms)
        found: Built | None = self._memo.get(key)
        if found is None:
            landed = built.landed
            record = attrs.evolve(landed.record, offset=offset, timestamp_ms=at_ms)
            found = self._memo[key] = self._of(attrs.evolve(landed, record=record), built.notes)
        return found

    def says(self, built: Built, notes: Notes) -> Built:
        """The same record, of which something else is true."""
        return self._of(built.landed, notes)

    def _of(self, landed: Landed, notes: Notes = frozenset()) -> Built:
        return self._built.setdefault((landed, notes), Built(landed, notes))

    def _without_a_view(self, latest: Moment, appended: int, at_ms: int) -> list[Built]:
        key = (latest, appended, at_ms)
        found: list[Built] | None = self._memo.get(key)
        if found is None:
            every = self._winning(latest, appended, at_ms)
            found = self._memo[key] = [self._of(landed) for landed in every]
        return found

    def _winning(self, latest: Moment, appended: int, at_ms: int) -> Iterator[Landed]:
        """What wins a claim, or pauses the group. Spec: Claims, AloneOf, OfOriginals, OfAdmins."""
        world = self._world

        def claims(sender: str, headers: Headers, window: int | None) -> Iterator[Landed]:
            message = ClaimingPartition(*sent_by(sender), "t", Partition(0))
            more = RangeHeaders(window=window)
            record = RangesRecord(0, appended, at_ms, message, headers, more)
            paused = latest.claim.paused_until_ms is not None
            for over in (False, True) if paused else (False,):
                for stale in (False, True):
                    yield Landed(record, stale, over)

        for window in world.windows if may_share(latest) else ():
            yield from claims(ANCHOR, PRESENT, window)
        for sender in world.participants if not world.first_claim.position_set else ():
            yield from claims(claims_alone_as(sender), PRESENT, None)
        for sender in (*world.others, *world.admins):
            yield from claims(sender, PRESENT, None)
        for sender in world.originals:
            yield from claims(sender, NO_HEADERS, None)
        for sender in world.admins:
            pause = ReleaseGroup(0, *sent_by(sender)[1:], "", Partition(0), EXPIRES_UNIX_S)
            yield Landed(RangesRecord(0, appended, at_ms, pause, PRESENT))

    def _of_view(self, view: int, moment: Moment, appended: int, at_ms: int) -> list[Built]:
        key = (view, moment, appended, at_ms)
        found: list[Built] | None = self._memo.get(key)
        if found is None:
            found = self._memo[key] = [
                self._of(Landed(RangesRecord(0, appended, at_ms, message, headers)))
                for message, headers in self._owners(view, moment)
            ]
        return found

    def _owners(self, view: int, moment: Moment) -> Iterator[tuple[RangesMessage, Headers]]:
        """Of one that owns the claim, as far as it has read."""
        owner, position = moment.claim.owner_instance, moment.claim.position
        headers = of_view(view, moment)
        if owner == ANCHOR:
            if moment.ranges.has_begun:
                at = anchor_at(moment)
                yield owners_message(Heartbeat, ANCHOR, at), headers
                yield owners_message(ReleasingPartition, ANCHOR, at), headers
            if moment.ranges.window == 0:
                yield owners_message(ClaimingMessages, ANCHOR, moment.ranges.frontier + 1), headers
        elif owner in self._world.participants and not self._world.first_claim.position_set:
            start = None if moment.claim.position_set else self._world.start
            at = position if start is None else start
            yield owners_message(ReleasingPartition, owner, at), attrs.evolve(headers, start=start)
        elif owner in self._world.others:
            kind: OwnersType = ClaimingMessages if self._world.at_most else Heartbeat
            yield owners_message(kind, owner, position + 1), headers
        elif owner in self._world.originals:
            yield owners_message(Heartbeat, owner, position + 1), NO_HEADERS
        elif owner in self._world.admins:
            sets = attrs.evolve(headers, set_position=0)
            yield owners_message(ReleasingPartition, owner, 0), sets

    def _requests(
        self, instance: str, view: int, state: RangesState, at_ms: int
    ) -> Iterator[Built]:
        """Spec: RangingFrom."""
        moment = state.history[view]
        key = (instance, view, moment, state.appended, at_ms)
        found: list[tuple[Note, list[Built]]] | None = self._memo.get(key)
        if found is None:
            said = what_it_says(instance, moment)
            notes = (Note(instance, seen(view), *each) for each in said)
            found = self._memo[key] = [
                (note, [*self._ranging(note, state.appended, at_ms)]) for note in notes
            ]
        for note, built in found:
            if self._honest(state.leases, state.said, note):
                yield from built

    def _ranging(self, note: Note, appended: int, at_ms: int) -> Iterator[Built]:
        """Spec: Ranging."""
        more = RangeHeaders(done=note.done, keep=note.keep)
        says = frozenset[Note]() if more == NO_RANGE_HEADERS else frozenset({note})
        headers = Headers(present=True, seen=note.seen)
        for count in self._world.counts if note.keep is None else (0,):
            message = ClaimingRange(*sent_by(note.instance), "t", Partition(0), count)
            record = RangesRecord(0, appended, at_ms, message, headers, more)
            for silent in self._world.silent_sets(note.instance):
                yield self._of(Landed(record, silent=silent), says)

    def _honest(self, leases: Leases, said: Notes, note: Note) -> bool:
        key = (leases, said, note)
        found: bool | None = self._memo.get(key)
        if found is None:
            found = self._memo[key] = honest(leases, said, note)
        return found
