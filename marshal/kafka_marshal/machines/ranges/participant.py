"""One participant of a shared claim: what it knows, remembers, may do, and sends.

Spec: module Participant. A participant decides from what it has read, which may be old. This module
defines what is allowed and what follows. `driver` decides when to act, and can only do what is
allowed here. This module does not know how records travel, whether they arrive, or who else exists.
Every guard returns None, or the first reason that forbids the action.

It needs every record of the key, or a state that was folded from all of them
(`Participant.knowing`).

>>> me, participant = ParticipantConfig("i1", "c1", window=100), Participant()
>>> may_ask_range(me, participant, 10)
<ParticipantForbidden.NOT_SHARED: 'not_shared'>
>>> claim_alone_sent(me, participant, ClaimKey("g", "t", 0)).message.client_id
'c1'
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final, TypeAlias

import attrs
from attrs import field, frozen

from kafka_marshal.core.claims.verdicts import Accepted, Verdict
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Offset,
    Partition,
    ReleasingPartition,
)
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, outcome
from kafka_marshal.core.ranges.state import LIMITS, Limits, OpenRange, Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted, RangeVerdict
from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules
from kafka_marshal.machines.ranges.effects import SendRecord

ANCHOR: Final = "ranges"
"""The instance and the client under which participants write the five old messages. Spec: ANCHOR.

No consumer may have this client id: it would take over the claim as its own (R1b)."""


class ParticipantForbidden(enum.Enum):
    """Why a participant may not do something, in the order of the guards.

    Spec: ParticipantForbidden.
    """

    LEAVING = "leaving"
    """It is leaving, and takes nothing more."""
    AWAITS_READ_BACK = "awaits_read_back"
    """R6: its last ClaimingPartition was not read back yet."""
    ALREADY_SHARED = "already_shared"
    """The claim is shared under its window."""
    ALREADY_ALONE = "already_alone"
    """It owns the claim alone."""
    NEVER_SET = "never_set"
    """The position was never set: a participant that claims alone sets the start first."""
    ALREADY_SET = "already_set"
    """The position was set, and is where to begin."""
    WINDOW_DIFFERS = "window_differs"
    """There are ranges under another window."""
    NOT_ALONE = "not_alone"
    """It does not own the claim alone."""
    NOT_AT_MOST_ONCE = "not_at_most_once"
    """Only at-most-once participants reserve offsets."""
    NOT_SHARED = "not_shared"
    """The claim is not shared under its window."""
    NOTHING_AHEAD = "nothing_ahead"
    """The offset is at or below the position (R4)."""
    REQUEST_UNDER_WAY = "request_under_way"
    """Its last request for a range was not read back yet."""
    OWES_GIVING_BACK = "owes_giving_back"
    """In the log it still holds offsets that it has given back."""
    NO_ROOM = "no_room"
    """The pool is empty, and there is no room ahead of the position for that many."""
    NO_RANGES = "no_ranges"
    """There are no ranges."""
    NOTHING_TO_GIVE_BACK = "nothing_to_give_back"
    """Everything that it holds was begun, or lies below an offset that was."""
    NOT_GRANTED = "not_granted"
    """It has not read that the log granted it this offset, or that it still holds it."""
    ASLEEP = "asleep"
    """The claim has no owner: nothing new is begun."""
    NOT_NEXT = "not_next"
    """Messages of a range are begun in order, and then finished in order."""
    NOTHING_ASKED = "nothing_asked"
    """No request is outstanding."""


@frozen
class ParticipantConfig:
    """The identity and options of a participant. Spec: `me` in Participant."""

    instance_id: str
    """Identifies one run of one process; new at every start."""
    client_id: str
    """Identifies the consumer across restarts."""
    window: int
    """How far ranges may be ahead of the position, in offsets; 0 is at most once."""
    start: int = 0
    """The start policy's offset, for a position that was never set."""
    rules: Rules = FENCED
    limits: Limits = LIMITS
    """Those of the message's version; a model has smaller ones."""
    says_interval: bool = False
    """Its records state its heartbeat interval."""


@frozen
class HeldRange:
    """A range that it read as granted to it: `from_ <= done <= begun <= to`. Spec: HeldRange."""

    id: int
    from_: int
    to: int
    """Lower than in the log after it gave a part back."""
    begun: int
    """Everything below this offset was begun."""
    done: int
    """Everything below this offset is finished."""

    @property
    def finished(self) -> bool:
        """Whether everything that it will ever process of the range is done."""
        return self.done >= self.to


@frozen
class Participant:
    """What a participant knows and remembers of one claim. Spec: NewParticipant."""

    claim: Claim = field(factory=Claim)
    """The claim as it has folded it."""
    ranges: Ranges = field(factory=Ranges)
    """The ranges as it has folded them."""
    view: int = 0
    """The next offset to read."""
    held: tuple[HeldRange, ...] = ()
    """By id. At least once they are open in the log; at most once it may also finish others."""
    asked: bool = False
    """R6: it has sent a ClaimingPartition that it has not read back."""
    requested: bool = False
    """It has sent a request for a range that it has not read back."""
    leaving: bool = False

    @classmethod
    def knowing(cls, state: FoldedState, view: int) -> Participant:
        """A participant with the state before the record at `view`, folded from all before."""
        return cls(claim=state.claim, ranges=state.ranges, view=view)

    def holding(self, id_: int) -> HeldRange | None:
        """The range of this id, if it holds it."""
        return next((each for each in self.held if each.id == id_), None)


_Who: TypeAlias = ParticipantConfig
_Why: TypeAlias = ParticipantForbidden


# --- what it believes -----------------------------------------------------------------------------


def is_anchored(participant: Participant) -> bool:
    """Whether the participants own the claim. Spec: IsAnchored."""
    return participant.claim.owned and participant.claim.owner_instance == ANCHOR


def shares(me: _Who, participant: Participant) -> bool:
    """Whether they own it and share it under its window. Spec: Shares."""
    return is_anchored(participant) and participant.ranges.window == me.window


def is_alone(me: _Who, participant: Participant) -> bool:
    """Whether it owns the claim under its own instance, without sharing. Spec: IsAlone."""
    return participant.claim.owner_instance == me.instance_id


def own_open(me: _Who, participant: Participant) -> tuple[OpenRange, ...]:
    """Its ranges in the log, by what it has read. Spec: OwnOpen."""
    return participant.ranges.open_of(me.instance_id)


def may_still_process_to(participant: Participant, range_: OpenRange) -> int:
    """The end of what it may still process of its range in the log. Spec: MayStillProcessTo."""
    held = participant.holding(range_.id)
    return range_.from_ if held is None else held.to


def owed_from(me: _Who, participant: Participant) -> int | None:
    """The lowest offset that it gave back and that it still holds in the log. Spec: Owed.

    It keeps this promise from sending on, even if the record is lost, so it gives the offsets back
    again.
    """
    limits = ((each, may_still_process_to(participant, each)) for each in own_open(me, participant))
    return min((limit for each, limit in limits if limit < each.to), default=None)


@frozen
class Done:
    """What a record reports as done."""

    below: int
    """In the ranges that it refers to, everything below this offset is finished."""
    seen: int
    """It refers to ranges with ids up to this one."""


def done_to_send(me: _Who, participant: Participant) -> Done | None:
    """The finished part of its open ranges that the log does not show; None: nothing new.

    Spec: DoneToSend. One header covers all ranges through `seen`, so the lowest unfinished one
    counts. A range from the pool may lie below older ones that are finished. Then it reports the
    older ones alone, as if it had not read of the newer one.
    """
    own, seen = list(own_open(me, participant)), participant.view - 1
    while own:
        below = _finished_below(participant, own)
        if below is not None:
            return Done(below, seen)
        seen = own.pop().id - 1
    return None


def _finished_below(participant: Participant, ranges: Iterable[OpenRange]) -> int | None:
    own = [(each, participant.holding(each.id)) for each in ranges]
    reached = [(each.from_ if held is None else held.done, each) for each, held in own]
    bound = min((done for done, each in reached if done < each.to), default=None)
    ends = [each.to if bound is None else min(each.to, bound) for each, _ in own]
    new = [end for end, (each, _) in zip(ends, own, strict=True) if each.from_ < end]
    return max(new, default=None)


def keep_to_send(me: _Who, participant: Participant) -> int | None:
    """The offset in its open ranges from which on nothing was begun; None: nothing to give back.

    Spec: KeepToSend.
    """
    own = own_open(me, participant)
    holds = [held for each in own if (held := participant.holding(each.id)) is not None]
    begun = max((held.begun for held in holds if held.begun > held.from_), default=0)
    return min((max(each.from_, begun) for each in own if begun < each.to), default=None)


def anchor_at(participant: Participant) -> int:
    """The position in the anchor's heartbeat. Spec: AnchorAt.

    At least once, the lowest offset that is not done. An old view gives a lower one, which does no
    harm (R3).
    """
    ranges = participant.ranges
    return participant.claim.position if ranges.window == 0 else ranges.low


def room(participant: Participant) -> int:
    """How many offsets may be cut ahead of the position. Spec: Room."""
    ranges = participant.ranges
    return participant.claim.position + (ranges.window or 0) - ranges.frontier


def has_room_for(me: _Who, participant: Participant, count: int) -> bool:
    """Room for that many, or for half a window: ranges must not get tiny. Spec: HasRoomFor."""
    ranges = participant.ranges
    enough = min(count, max(1, me.window // 2)) if me.window else count
    return (
        room(participant) >= enough
        and ranges.intervals < me.limits.intervals_max
        and len(own_open(me, participant)) < me.limits.open_ranges_max
    )


# --- the guards -----------------------------------------------------------------------------------


def still_owes(me: _Who, participant: Participant) -> bool:
    """At most once: whether it still holds ranges in the log. Spec: StillOwes.

    No one else gets what a leaving participant has not given back.
    """
    return me.window == 0 and bool(own_open(me, participant))


def may_claim_anchor(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may ask for a shared claim. Spec: MayClaimAnchor. Rules: R6."""
    if participant.leaving and not still_owes(me, participant):
        return ParticipantForbidden.LEAVING
    if participant.asked:
        return ParticipantForbidden.AWAITS_READ_BACK
    if shares(me, participant):
        return ParticipantForbidden.ALREADY_SHARED
    if not participant.claim.position_set:
        return ParticipantForbidden.NEVER_SET
    if participant.ranges.window not in (None, me.window):
        return ParticipantForbidden.WINDOW_DIFFERS
    return None


def may_claim_alone(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may claim alone, to set the start. Spec: MayClaimAlone. Rules: R6."""
    if participant.leaving:
        return ParticipantForbidden.LEAVING
    if participant.asked:
        return ParticipantForbidden.AWAITS_READ_BACK
    if is_alone(me, participant):
        return ParticipantForbidden.ALREADY_ALONE
    if participant.claim.position_set:
        return ParticipantForbidden.ALREADY_SET
    return None


def may_release_alone(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may release, at the start, what it claimed alone. Spec: MayReleaseAlone."""
    return None if is_alone(me, participant) else ParticipantForbidden.NOT_ALONE


def may_beat_anchor(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may send the anchor's heartbeat. Spec: MayBeatAnchor."""
    return None if shares(me, participant) else ParticipantForbidden.NOT_SHARED


def may_reserve(me: _Who, participant: Participant, offset: int) -> _Why | None:
    """At most once: may it reserve everything below `offset`? Spec: MayReserve. Rules: R4."""
    if participant.leaving:
        return ParticipantForbidden.LEAVING
    if me.window != 0:
        return ParticipantForbidden.NOT_AT_MOST_ONCE
    if not shares(me, participant):
        return ParticipantForbidden.NOT_SHARED
    if offset <= participant.claim.position:
        return ParticipantForbidden.NOTHING_AHEAD
    return None


def may_ask_range(me: _Who, participant: Participant, count: int) -> _Why | None:
    """Whether it may request that many offsets. Spec: MayAskRange."""
    if participant.leaving:
        return ParticipantForbidden.LEAVING
    if not shares(me, participant):
        return ParticipantForbidden.NOT_SHARED
    if participant.requested:
        return ParticipantForbidden.REQUEST_UNDER_WAY
    if owed_from(me, participant) is not None:
        return ParticipantForbidden.OWES_GIVING_BACK
    if not participant.ranges.pool and not has_room_for(me, participant, count):
        return ParticipantForbidden.NO_ROOM
    return None


def may_speak(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may report that it is alive, and its progress. Spec: MaySpeak.

    Also while ranges sleep.
    """
    return None if participant.ranges.has_begun else ParticipantForbidden.NO_RANGES


def may_give_back(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may give back what it has not begun. Spec: MayGiveBack."""
    if not participant.ranges.has_begun:
        return ParticipantForbidden.NO_RANGES
    if keep_to_send(me, participant) is None:
        return ParticipantForbidden.NOTHING_TO_GIVE_BACK
    return None


def may_begin(me: _Who, participant: Participant, id_: int, offset: int) -> _Why | None:
    """Whether it may begin this message of a range. Spec: MayBegin. Keeps: AtMostOnce, PauseHolds.

    Offsets without a message are skipped, so it need not be the next offset. Nothing is begun
    behind what it gave back until the log shows that, because it must be able to give it back
    again.
    """
    held = participant.holding(id_)
    if held is None or not held.from_ <= offset < held.to:
        return ParticipantForbidden.NOT_GRANTED
    owed = owed_from(me, participant)
    if owed is not None and offset >= owed:
        return ParticipantForbidden.OWES_GIVING_BACK
    if not participant.claim.owned:
        return ParticipantForbidden.ASLEEP
    return None if offset >= held.begun else ParticipantForbidden.NOT_NEXT


def may_finish(me: _Who, participant: Participant, id_: int, offset: int) -> _Why | None:
    """Whether it may report this message and all before it as finished. Spec: MayFinish."""
    held = participant.holding(id_)
    if held is None or not held.from_ <= offset < held.to:
        return ParticipantForbidden.NOT_GRANTED
    return None if held.done <= offset < held.begun else ParticipantForbidden.NOT_NEXT


def may_give_up(me: _Who, participant: Participant) -> _Why | None:
    """Whether it may stop waiting for its request, which may still land. Spec: MayGiveUp."""
    if participant.asked or participant.requested:
        return None
    return ParticipantForbidden.NOTHING_ASKED


# --- what it sends --------------------------------------------------------------------------------


_Address: TypeAlias = tuple[int, int, str, str, str, str, Partition]


def _address(instance: str, client: str, key: ClaimKey) -> _Address:
    return (1, 0, instance, client, key.group, key.topic, Partition(key.topic_partition))


def _interval_to_say(me: _Who) -> int | None:
    return int(me.rules.heartbeat_interval_ms) if me.says_interval else None


def _owner_headers(
    me: _Who, participant: Participant, *, interval: bool = False, start: int | None = None
) -> Headers:
    """Spec: OwnerHeaders. Also what it saw, for readers that begin in the middle."""
    return Headers(
        True,
        epoch=participant.claim.epoch,
        seen=participant.view - 1,
        clock=participant.claim.clock_ms,
        interval_ms=_interval_to_say(me) if interval else None,
        start=start,
    )


def claim_anchor_sent(me: _Who, participant: Participant, key: ClaimKey) -> SendRecord:
    """Spec: ClaimAnchorSent."""
    headers = Headers(True, interval_ms=_interval_to_say(me))
    message = ClaimingPartition(*_address(ANCHOR, ANCHOR, key))
    return SendRecord(message, headers, RangeHeaders(window=me.window))


def claim_alone_sent(me: _Who, participant: Participant, key: ClaimKey) -> SendRecord:
    """Under its own instance: while the anchor lives it is refused, however late it lands.

    Spec: ClaimAloneSent. Keeps: LiveAnchorKept.
    """
    headers = Headers(True, interval_ms=_interval_to_say(me))
    return SendRecord(ClaimingPartition(*_address(me.instance_id, me.client_id, key)), headers)


def release_alone_sent(me: _Who, participant: Participant, key: ClaimKey) -> SendRecord:
    """At the start, or where the position was set. Spec: ReleaseAloneSent."""
    claim = participant.claim
    start = None if claim.position_set else me.start
    offset = Offset(claim.position if start is None else start)
    message = ReleasingPartition(*_address(me.instance_id, me.client_id, key), offset)
    return SendRecord(message, _owner_headers(me, participant, start=start))


def beat_anchor_sent(me: _Who, participant: Participant, key: ClaimKey) -> SendRecord:
    """Spec: BeatAnchorSent. With a checkpoint, for readers that begin in the middle."""
    message = Heartbeat(*_address(ANCHOR, ANCHOR, key), Offset(anchor_at(participant)))
    headers = _owner_headers(me, participant, interval=True)
    checkpoint = FoldedState(participant.claim, participant.ranges)
    return SendRecord(message, headers, checkpoint=checkpoint)


def reserve_sent(me: _Who, participant: Participant, key: ClaimKey, offset: int) -> SendRecord:
    """Spec: ReserveSent. The offset is absolute, so a duplicate is refused as NotAhead."""
    message = ClaimingMessages(*_address(ANCHOR, ANCHOR, key), Offset(offset))
    return SendRecord(message, _owner_headers(me, participant))


def _ranging(
    me: _Who,
    participant: Participant,
    key: ClaimKey,
    count: int,
    more: RangeHeaders,
    seen: int | None = None,
) -> SendRecord:
    seen = participant.view - 1 if seen is None else seen
    headers = Headers(True, seen=seen, interval_ms=_interval_to_say(me))
    message = ClaimingRange(*_address(me.instance_id, me.client_id, key), count)
    return SendRecord(message, headers, more)


def ask_range_sent(me: _Who, participant: Participant, key: ClaimKey, count: int) -> SendRecord:
    """A request is also a sign of life, and reports progress. Spec: AskRangeSent."""
    done = done_to_send(me, participant)
    if done is None:
        return _ranging(me, participant, key, count, RangeHeaders())
    return _ranging(me, participant, key, count, RangeHeaders(done=done.below), done.seen)


def speak_sent(me: _Who, participant: Participant, key: ClaimKey) -> SendRecord:
    """A sign of life, with progress. Spec: SpeakSent."""
    return ask_range_sent(me, participant, key, 0)


def give_back_sent(me: _Who, participant: Participant, key: ClaimKey) -> SendRecord:
    """Spec: GiveBackSent."""
    keep = keep_to_send(me, participant)
    return _ranging(me, participant, key, 0, RangeHeaders(keep=keep))


# --- what it remembers ----------------------------------------------------------------------------


def after_claiming(me: _Who, participant: Participant) -> Participant:
    """Spec: AfterClaiming."""
    return attrs.evolve(participant, asked=True)


def after_ask_range(me: _Who, participant: Participant) -> Participant:
    """A request grants nothing; the grant is read in the log. Spec: AfterAskRange."""
    return attrs.evolve(participant, requested=True)


def after_give_back(me: _Who, participant: Participant) -> Participant:
    """It never begins what it gives back, even if the record is lost. Spec: AfterGiveBack."""
    keep = keep_to_send(me, participant)
    assert keep is not None
    ids = {each.id for each in own_open(me, participant)}
    held = (
        attrs.evolve(each, to=max(each.from_, min(each.to, keep))) if each.id in ids else each
        for each in participant.held
    )
    return attrs.evolve(participant, held=tuple(held))


def after_begin(me: _Who, participant: Participant, id_: int, offset: int) -> Participant:
    """Spec: AfterBegin."""
    return _with(participant, id_, begun=offset + 1)


def after_take_back(me: _Who, participant: Participant, id_: int, offset: int) -> Participant:
    """Nothing at or above the offset was begun, although it was reported. Spec: AfterTakeBack."""
    held = participant.holding(id_)
    if held is None:
        return participant
    return _with(participant, id_, begun=max(held.done, min(held.begun, offset)))


def after_finish(me: _Who, participant: Participant, id_: int, offset: int) -> Participant:
    """Spec: AfterFinish."""
    return _with(participant, id_, done=offset + 1)


def _with(participant: Participant, id_: int, **changes: int) -> Participant:
    held = (attrs.evolve(each, **changes) if each.id == id_ else each for each in participant.held)
    return attrs.evolve(participant, held=tuple(held))


def after_leaving(me: _Who, participant: Participant) -> Participant:
    """It takes nothing more. It does not begin what it no longer holds in the log.

    Spec: AfterLeaving. What it still holds there must be given back by a record.
    """
    ids = {each.id for each in own_open(me, participant)}
    held = (
        each if each.id in ids else attrs.evolve(each, to=each.begun) for each in participant.held
    )
    return attrs.evolve(
        participant,
        held=tuple(each for each in held if each.id in ids or not each.finished),
        leaving=True,
    )


def after_giving_up(me: _Who, participant: Participant) -> Participant:
    """It no longer waits for its request. Spec: AfterGivingUp."""
    return attrs.evolve(participant, asked=False, requested=False)


# --- reading --------------------------------------------------------------------------------------


def after_read(me: _Who, participant: Participant, record: RangesRecord) -> Participant:
    """Fold one more record, and apply its consequences for this participant. Spec: AfterRead.

    The record must belong to the key, or be a ReleaseGroup of its group, and be the next that does.
    """
    return read(me, participant, record)[0]


def read(
    me: _Who, participant: Participant, record: RangesRecord
) -> tuple[Participant, RangeVerdict]:
    """`after_read`, and what the record did or the guard that refused it."""
    before = FoldedState(participant.claim, participant.ranges)
    folded, verdict = outcome(before, record, me.rules, me.limits)
    message, ranges = record.message, folded.ranges
    sender = message.instance_id
    ids = {each.id for each in ranges.open_of(me.instance_id)}
    kept = (each for each in participant.held if still_holds(me, each, ids, verdict))
    granted = grant_read(me, record, ranges, verdict)
    claims = isinstance(message, ClaimingPartition) and sender in (ANCHOR, me.instance_id)
    asks = isinstance(message, ClaimingRange) and message.count > 0
    after = Participant(
        folded.claim,
        ranges,
        record.offset + 1,
        (*kept, *granted),
        participant.asked and not claims,
        participant.requested and not (asks and sender == me.instance_id),
        participant.leaving,
    )
    return after, verdict


def still_holds(me: _Who, held: HeldRange, ids: set[int], verdict: Verdict | RangeVerdict) -> bool:
    """Whether it may continue a range that it held before a record. Spec: StillHolds.

    At least once, only as long as it holds it in the log. At most once, no one else is ever granted
    it, so it may finish it in any case; but not offsets that an administrator set the position back
    to.
    """
    if held.id in ids:
        return True
    return me.window == 0 and verdict is not Accepted.POSITION_SET and not held.finished


def grant_read(
    me: _Who, record: RangesRecord, ranges: Ranges, verdict: Verdict | RangeVerdict
) -> tuple[HeldRange, ...]:
    """What this record granted to this very instance, under its own window. Spec: GrantRead."""
    if verdict is not RangeAccepted.RANGE_GRANTED or ranges.window != me.window:
        return ()
    if record.message.instance_id != me.instance_id:
        return ()
    granted = ranges.open[-1]
    from_ = granted.from_
    return (HeldRange(granted.id, from_, granted.to, from_, from_),)
