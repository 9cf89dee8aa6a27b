"""Every guard of a participant stands in the way of what a run says that it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
import pytest

from kafka_marshal.core.messages import ClaimingRange, Headers, Partition, ReleaseGroup
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesRecord
from kafka_marshal.core.ranges.reader import LogEntry
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.ranges import participant as moves
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import ParticipantConfig, ParticipantForbidden
from kafka_marshal.validate.explain import Guard, Impossible, Objection
from kafka_marshal.validate.participants import Move, SharedPart, move_of, new_state

KEY: Final = ClaimKey("g", "orders", 0)
ME: Final = ParticipantConfig("i1", "c1", window=100, start=5)
AT_MOST_ONCE: Final = attrs.evolve(ME, window=0)


class Tale:
    """One participant and a log that only it writes to."""

    def __init__(self, me: ParticipantConfig = ME) -> None:
        self.me, self.offset = me, 0
        self.part = SharedPart.beginning(me, KEY, 0, new_state())
        self.sent: SendRecord | None = None

    def sends(self, make: Callable[..., SendRecord], *more: int) -> Guard | None:
        """It sends what its machine would make of what it knows."""
        did = make(self.me, self.part.participant, KEY, *more)
        against = self.part.send(did)
        self.sent = did
        return None if against is None else against.guard

    def lands(self, sent: SendRecord | None = None) -> int:
        """It reads the record back; returns its offset."""
        sent = sent or self.sent
        assert sent is not None
        record = RangesRecord(
            *(0, self.offset, 1_000 * (1 + self.offset), sent.message),
            *(sent.headers, sent.range_headers),
        )
        self.part.read(LogEntry(record))
        self.offset += 1
        return record.offset

    def shares(self) -> Tale:
        """The claim is shared, from where the start policy says."""
        for make in (moves.claim_alone_sent, moves.release_alone_sent, moves.claim_anchor_sent):
            assert self.sends(make) is None
            self.lands()
        return self

    def holds(self, count: int = 10) -> int:
        """It asks for a range and is granted it; returns the range's id."""
        assert self.sends(moves.ask_range_sent, count) is None
        return self.lands()


def guard_of(against: Objection | None) -> Guard | None:
    return None if against is None else against.guard


def give_back_sent(me: ParticipantConfig, *more: object) -> SendRecord:
    """One that says from where on it keeps nothing, whatever that is."""
    message = ClaimingRange(1, 0, me.instance_id, me.client_id, "g", "orders", Partition(0), 0)
    return SendRecord(message, Headers(True, seen=0), RangeHeaders(keep=7))


def leaving() -> Guard | None:
    tale = Tale().shares()
    assert tale.part.leave() is None
    assert guard_of(tale.part.leave()) is ParticipantForbidden.LEAVING
    return tale.sends(moves.ask_range_sent, 10)


def awaits_read_back() -> Guard | None:
    tale = Tale()
    assert tale.sends(moves.claim_alone_sent) is None
    return tale.sends(moves.claim_alone_sent)


def already_alone() -> Guard | None:
    tale = Tale()
    tale.sends(moves.claim_alone_sent)
    tale.lands()
    return tale.sends(moves.claim_alone_sent)


def window_differs() -> Guard | None:
    tale = Tale().shares()
    tale.part.me = attrs.evolve(ME, window=50)
    return tale.sends(moves.claim_anchor_sent)


def nothing_ahead() -> Guard | None:
    return Tale(AT_MOST_ONCE).shares().sends(moves.reserve_sent, 5)


def request_under_way() -> Guard | None:
    tale = Tale().shares()
    tale.sends(moves.ask_range_sent, 10)
    return tale.sends(moves.ask_range_sent, 10)


def owes_giving_back() -> Guard | None:
    tale = Tale().shares()
    tale.holds()
    assert tale.sends(moves.give_back_sent) is None
    return tale.sends(moves.ask_range_sent, 10)


def no_room() -> Guard | None:
    tale = Tale().shares()
    tale.holds(100)
    return tale.sends(moves.ask_range_sent, 10)


def not_granted() -> Guard | None:
    tale = Tale().shares()
    id_ = tale.holds()
    assert guard_of(tale.part.finish(id_ + 1, 5, 6)) is ParticipantForbidden.NOT_GRANTED
    assert guard_of(tale.part.take_back(id_ + 1, 5)[0]) is ParticipantForbidden.NOT_GRANTED
    return guard_of(tale.part.begin(id_, 5, 16))


def asleep() -> Guard | None:
    tale = Tale().shares()
    id_ = tale.holds()
    paused = ReleaseGroup(0, 0, "a", "a", "g", "", Partition(0), 2_000)
    tale.lands(SendRecord(paused, Headers()))
    return guard_of(tale.part.begin(id_, 5, 6))


def not_next() -> Guard | None:
    tale = Tale().shares()
    id_ = tale.holds()
    assert tale.part.begin(id_, 5, 8) is None
    assert guard_of(tale.part.finish(id_, 6, 7)) is ParticipantForbidden.NOT_NEXT
    assert guard_of(tale.part.take_back(id_, 8)[0]) is ParticipantForbidden.NOT_NEXT
    assert tale.part.take_back(id_, 6) == (None, range(6, 8))
    return guard_of(tale.part.begin(id_, 5, 6))


TALES: dict[ParticipantForbidden, Callable[[], Guard | None]] = {
    ParticipantForbidden.LEAVING: leaving,
    ParticipantForbidden.AWAITS_READ_BACK: awaits_read_back,
    ParticipantForbidden.ALREADY_SHARED: lambda: Tale().shares().sends(moves.claim_anchor_sent),
    ParticipantForbidden.ALREADY_ALONE: already_alone,
    ParticipantForbidden.NEVER_SET: lambda: Tale().sends(moves.claim_anchor_sent),
    ParticipantForbidden.ALREADY_SET: lambda: Tale().shares().sends(moves.claim_alone_sent),
    ParticipantForbidden.WINDOW_DIFFERS: window_differs,
    ParticipantForbidden.NOT_ALONE: lambda: Tale().sends(moves.release_alone_sent),
    ParticipantForbidden.NOT_AT_MOST_ONCE: lambda: Tale().shares().sends(moves.reserve_sent, 9),
    ParticipantForbidden.NOT_SHARED: lambda: Tale().sends(moves.beat_anchor_sent),
    ParticipantForbidden.NOTHING_AHEAD: nothing_ahead,
    ParticipantForbidden.REQUEST_UNDER_WAY: request_under_way,
    ParticipantForbidden.OWES_GIVING_BACK: owes_giving_back,
    ParticipantForbidden.NO_ROOM: no_room,
    ParticipantForbidden.NO_RANGES: lambda: Tale().sends(moves.speak_sent),
    ParticipantForbidden.NOTHING_TO_GIVE_BACK: lambda: Tale().shares().sends(give_back_sent),
    ParticipantForbidden.NOT_GRANTED: not_granted,
    ParticipantForbidden.ASLEEP: asleep,
    ParticipantForbidden.NOT_NEXT: not_next,
    ParticipantForbidden.NOTHING_ASKED: lambda: guard_of(Tale().shares().part.give_up()),
}


@pytest.mark.parametrize("guard", ParticipantForbidden)
def test_every_guard_of_a_participant_is_seen_to_stand_in_the_way(
    guard: ParticipantForbidden,
) -> None:
    assert TALES[guard]() is guard


def test_every_move_is_known_by_what_only_it_says() -> None:
    shares, reserves, new = Tale().shares(), Tale(AT_MOST_ONCE).shares(), Tale()
    shares.holds()
    made = {
        Move.CLAIM_ANCHOR: moves.claim_anchor_sent(ME, new.part.participant, KEY),
        Move.CLAIM_ALONE: moves.claim_alone_sent(ME, new.part.participant, KEY),
        Move.RELEASE_ALONE: moves.release_alone_sent(ME, new.part.participant, KEY),
        Move.BEAT_ANCHOR: moves.beat_anchor_sent(ME, shares.part.participant, KEY),
        Move.RESERVE: moves.reserve_sent(AT_MOST_ONCE, reserves.part.participant, KEY, 9),
        Move.ASK_RANGE: moves.ask_range_sent(ME, shares.part.participant, KEY, 3),
        Move.SPEAK: moves.speak_sent(ME, shares.part.participant, KEY),
        Move.GIVE_BACK: moves.give_back_sent(ME, shares.part.participant, KEY),
    }
    assert {move: move_of(sent) for move, sent in made.items()} == {move: move for move in Move}
    released = SendRecord(ReleaseGroup(0, 0, "a", "a", "g", "", Partition(0), 1), Headers())
    assert guard_of(shares.part.send(released)) is Impossible.NOT_WHAT_IT_SENDS


def test_a_checkpoint_of_what_it_has_not_read_is_not_what_it_sends() -> None:
    shares = Tale().shares()
    true = moves.beat_anchor_sent(ME, shares.part.participant, KEY)
    assert true.checkpoint is not None
    ranges = attrs.evolve(true.checkpoint.ranges, frontier=7, window=3)
    lie = attrs.evolve(true, checkpoint=attrs.evolve(true.checkpoint, ranges=ranges))
    objection = shares.part.send(lie)
    assert objection is not None
    assert objection.guard is Impossible.NOT_WHAT_IT_SENDS
    assert objection.expected.endswith("a checkpoint with another window, frontier")
    assert shares.part.send(true) is None
