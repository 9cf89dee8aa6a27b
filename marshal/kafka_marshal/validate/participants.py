"""One instance's part in a shared claim: a `Participant`, driven by the recorded events.

This module asks `machines.ranges.participant` whether it would have done that, and advances it. It
knows neither the log of the run nor other participants (`shared_log` does).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import TypeAlias

import attrs
from attrs import define

from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    ClaimingRange,
    Heartbeat,
    ReleasingPartition,
)
from kafka_marshal.core.ranges.messages import RangesMessage
from kafka_marshal.core.ranges.reader import (
    FoldedState,
    LogEntry,
    RangesReader,
    differing,
)
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import Forbidden
from kafka_marshal.machines.ranges import participant as moves
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import (
    ANCHOR,
    HeldRange,
    Participant,
    ParticipantConfig,
    ParticipantForbidden,
)
from kafka_marshal.validate.explain import Impossible, Objection
from kafka_marshal.validate.run import of_ranges


class Move(enum.StrEnum):
    """A participant's action that sends a record. Spec: the actions of MCParticipant."""

    CLAIM_ANCHOR = "ClaimAnchor"
    CLAIM_ALONE = "ClaimAlone"
    RELEASE_ALONE = "ReleaseAlone"
    BEAT_ANCHOR = "BeatAnchor"
    RESERVE = "Reserve"
    ASK_RANGE = "AskRange"
    SPEAK = "Speak"
    GIVE_BACK = "GiveBack"


def move_of(sent: SendRecord) -> Move | None:
    """The action that sends such a record; None if no participant sends it."""
    message = sent.message
    match message:
        case ClaimingRange():
            if sent.range_headers.keep is not None:
                return Move.GIVE_BACK
            return Move.ASK_RANGE if message.count else Move.SPEAK
        case ClaimingPartition():
            alone = sent.range_headers.window is None
            return Move.CLAIM_ALONE if alone else Move.CLAIM_ANCHOR
        case ReleasingPartition():
            return Move.RELEASE_ALONE
        case Heartbeat():
            return Move.BEAT_ANCHOR
        case ClaimingMessages():
            return Move.RESERVE
        case _:
            return None


_May: TypeAlias = ParticipantForbidden | None
_Would: TypeAlias = tuple[_May, Callable[[], SendRecord], Callable[[], Participant]]
"""The guard, the record to send, and the state afterwards."""


def _would_send(
    me: ParticipantConfig, participant: Participant, key: ClaimKey, did: SendRecord, move: Move
) -> _Would:
    """What the participant would send for this action, at the point where the run has `did`."""
    of = (me, participant)
    message = did.message
    unchanged = lambda: participant  # noqa: E731
    match move:
        case Move.CLAIM_ANCHOR:
            return (
                moves.may_claim_anchor(*of),
                lambda: moves.claim_anchor_sent(*of, key),
                lambda: moves.after_claiming(*of),
            )
        case Move.CLAIM_ALONE:
            return (
                moves.may_claim_alone(*of),
                lambda: moves.claim_alone_sent(*of, key),
                lambda: moves.after_claiming(*of),
            )
        case Move.RELEASE_ALONE:
            return (
                moves.may_release_alone(*of),
                lambda: moves.release_alone_sent(*of, key),
                unchanged,
            )
        case Move.BEAT_ANCHOR:
            return moves.may_beat_anchor(*of), lambda: moves.beat_anchor_sent(*of, key), unchanged
        case Move.RESERVE:
            assert isinstance(message, ClaimingMessages)
            offset = message.offset
            return (
                moves.may_reserve(*of, offset),
                lambda: moves.reserve_sent(*of, key, offset),
                unchanged,
            )
        case Move.ASK_RANGE:
            assert isinstance(message, ClaimingRange)
            count = message.count
            return (
                moves.may_ask_range(*of, count),
                lambda: moves.ask_range_sent(*of, key, count),
                lambda: moves.after_ask_range(*of),
            )
        case Move.SPEAK:
            return moves.may_speak(*of), lambda: moves.speak_sent(*of, key), unchanged
        case Move.GIVE_BACK:
            return (
                moves.may_give_back(*of),
                lambda: moves.give_back_sent(*of, key),
                lambda: moves.after_give_back(*of),
            )


@define(eq=False)
class SharedPart:
    """One participant, from the time when it began to share the claim."""

    me: ParticipantConfig
    key: ClaimKey
    participant: Participant
    reader: RangesReader | None = None
    """Set while the claim is unknown: it began in the middle, and waits for a checkpoint."""

    @classmethod
    def beginning(
        cls, me: ParticipantConfig, key: ClaimKey, view: int, folded: FoldedState | None
    ) -> SharedPart:
        """A participant that has read `folded`, or knows nothing before `view`."""
        if folded is not None:
            return cls(me, key, Participant.knowing(folded, view))
        reader = RangesReader(view, me.rules, me.limits) if view else None
        return cls(me, key, Participant(view=view), reader)

    def read(self, entry: LogEntry) -> None:
        """Fold one more record of the claim, or of its group. Spec: Read."""
        if self.reader is None:
            self.participant = moves.after_read(self.me, self.participant, entry.record)
            return
        self.reader.read(entry)
        if self.reader.known is not None:
            self.participant = Participant.knowing(self.reader.known, entry.record.offset + 1)
            self.reader = None

    def send(self, did: SendRecord) -> Objection | None:
        """Send a record, if it may send one with this content. Spec: AskRange and others."""
        if self.reader is not None:
            return Objection(Forbidden.CLAIM_UNKNOWN)
        move = move_of(did)
        if move is None:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, "a message of a participant")
        # No decision depends on whether it states its interval.
        me = attrs.evolve(self.me, says_interval=did.headers.interval_ms is not None)
        guard, would_be, after = _would_send(me, self.participant, self.key, did, move)
        if guard is not None:
            return Objection(guard, self._held())
        would = would_be()
        would = of_ranges(would.message, would.headers, would.range_headers, would.checkpoint)
        if would != did:
            return Objection(Impossible.NOT_WHAT_IT_SENDS, said(would) + _other_than(would, did))
        self.participant = after()
        return None

    def begin(self, id_: int, start: int, stop: int) -> Objection | None:
        """Begin the messages [start, stop) of a range. Spec: Begin.

        Checking the first and the last is enough, since they are in order.
        """
        guard = self._may_begin(id_, start) or self._may_begin(id_, stop - 1)
        if guard is not None:
            return Objection(guard, self._held())
        self.participant = moves.after_begin(self.me, self.participant, id_, stop - 1)
        return None

    def _may_begin(self, id_: int, offset: int) -> ParticipantForbidden | None:
        return moves.may_begin(self.me, self.participant, id_, offset)

    def finish(self, id_: int, start: int, stop: int) -> Objection | None:
        """Finish the messages [start, stop) of a range. Spec: Finish."""
        of = (self.me, self.participant, id_)
        guard = moves.may_finish(*of, start) or moves.may_finish(*of, stop - 1)
        held = self.participant.holding(id_)
        if guard is None and held is not None and start != held.done:
            guard = ParticipantForbidden.NOT_NEXT
        if guard is not None:
            return Objection(guard, self._held())
        self.participant = moves.after_finish(*of, stop - 1)
        return None

    def take_back(self, id_: int, start: int) -> tuple[Objection | None, range]:
        """Nothing at or above `start` was begun; return the messages taken back.

        Spec: AfterTakeBack.
        """
        held = self.participant.holding(id_)
        if held is None:
            return Objection(ParticipantForbidden.NOT_GRANTED, self._held()), range(0)
        if not held.done <= start < held.begun:
            return Objection(ParticipantForbidden.NOT_NEXT, self._held()), range(0)
        self.participant = moves.after_take_back(self.me, self.participant, id_, start)
        return None, range(start, held.begun)

    def leave(self) -> Objection | None:
        """Request no more ranges. Spec: Leave."""
        if self.participant.leaving:
            return Objection(ParticipantForbidden.LEAVING)
        self.participant = moves.after_leaving(self.me, self.participant)
        return None

    def give_up(self) -> Objection | None:
        """Stop waiting for its request. Spec: GiveUp."""
        guard = moves.may_give_up(self.me, self.participant)
        if guard is not None:
            return Objection(guard)
        self.participant = moves.after_giving_up(self.me, self.participant)
        return None

    def _held(self) -> str:
        return held_in_words(self.participant.held)


def held_in_words(held: Iterable[HeldRange]) -> str:
    """The ranges of a participant, in words."""
    words = [
        f"range {each.id} ({each.from_}..{each.to}, begun below {each.begun}, done below "
        f"{each.done})"
        for each in sorted(held, key=lambda each: each.from_)
    ]
    return f"it holds {', '.join(words) or 'no range'}"


def said(sent: SendRecord) -> str:
    """A participant's record in words.

    >>> from kafka_marshal.core.messages import Headers
    >>> asks = ClaimingRange(1, 0, "i1", "c1", "g", "events", 0, 10)
    >>> said(SendRecord(asks, Headers(True, seen=7)))
    'ClaimingRange of i1 (c1) for g/events/0, n 10, seen 7'
    """
    message: RangesMessage = sent.message
    about = f"{message.group_id}/{message.topic}/{message.partition}"
    words = [f"{type(message).__name__} of {message.instance_id} ({message.client_id}) for {about}"]
    if isinstance(message, ClaimingRange):
        words.append(f"n {message.count}")
    elif isinstance(message, Heartbeat | ClaimingMessages | ReleasingPartition):
        words.append(f"at {message.offset}")
    if message.instance_id == ANCHOR:
        words[0] = words[0].replace(f"{ANCHOR} ({ANCHOR})", "the anchor")
    stated = {**attrs.asdict(sent.headers), **attrs.asdict(sent.range_headers)}
    named = {
        name: number for name, number in stated.items() if number is not None and name != "present"
    }
    words += [f"{name.replace('_', '-')} {number}" for name, number in named.items()]
    if sent.checkpoint is not None:
        words.append("a checkpoint")
    return ", ".join(words)


def _other_than(would: SendRecord, did: SendRecord) -> str:
    """The fields in which a checkpoint differs from the one that it would have sent."""
    if would.checkpoint is None or did.checkpoint is None or would.checkpoint == did.checkpoint:
        return ""
    fields = (name for _, name in differing(would.checkpoint, did.checkpoint))
    return f" with another {', '.join(fields)}"


def new_state() -> FoldedState:
    """A claim before its first record."""
    return FoldedState(Participant().claim, Ranges())
