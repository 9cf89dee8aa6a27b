"""Hand-made mutants of a participant: at least one for each rule of `Participant.tla`.

Each is a mistake that somebody could make on a tired day. Those that `MCParticipant` or `MCRanges`
makes in a configuration have its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from kafka_marshal.core.claims.verdicts import Accepted
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.ranges.verdicts import RangeAccepted
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.ranges import participant as machine
from kafka_marshal.machines.ranges.effects import SendRecord
from kafka_marshal.machines.ranges.participant import (
    ANCHOR,
    Done,
    HeldRange,
    Participant,
    ParticipantConfig,
    ParticipantForbidden,
)
from model_tests.mutants.hand_made import HandMade

MUTANTS: list[HandMade] = []
_Guard = Callable[..., ParticipantForbidden | None]


def _mutant(name: str, about: str, attribute: str, instead: object) -> None:
    assert attribute in vars(machine)
    MUTANTS.append(HandMade(name, about, machine, attribute, instead))


def without(guard: str, *reasons: ParticipantForbidden) -> _Guard:
    """The guard, which overlooks some reasons; what it would say after them is not asked."""
    asked: _Guard = vars(machine)[guard]

    def mistaken(*arguments: Any) -> ParticipantForbidden | None:
        against = asked(*arguments)
        return None if against in reasons else against

    return mistaken


F = ParticipantForbidden
_read, _still_holds, _grant_read = machine.read, machine.still_holds, machine.grant_read
_release_alone_sent = machine.release_alone_sent
_keep_to_send, _own_open = machine.keep_to_send, machine.own_open


def same(_: ParticipantConfig, participant: Participant, *__: object) -> Participant:
    return participant


def takes_it_at_once(me: ParticipantConfig, participant: Participant) -> Participant:
    at = participant.ranges.frontier
    taken = HeldRange(participant.view, at, at + 1, at, at)
    return attrs.evolve(participant, requested=True, held=(*participant.held, taken))


def _said(below: int | None, participant: Participant) -> Done | None:
    return None if below is None else Done(below, participant.view - 1)


def begun_is_done(me: ParticipantConfig, participant: Participant) -> Done | None:
    own = {each.id for each in _own_open(me, participant)}
    begun = [each.begun for each in participant.held if each.id in own and each.begun > each.from_]
    return _said(min(begun, default=None), participant)


def the_highest_counts(me: ParticipantConfig, participant: Participant) -> Done | None:
    own = {each.id for each in _own_open(me, participant)}
    done = [each.done for each in participant.held if each.id in own and each.done > each.from_]
    return _said(max(done, default=None), participant)


def keeps_nothing(me: ParticipantConfig, participant: Participant) -> int | None:
    return min((each.from_ for each in _own_open(me, participant)), default=None)


def owes_nothing(me: ParticipantConfig, participant: Participant) -> int | None:
    return None


def holds_for_ever(*_: object) -> bool:
    return True


def gives_up_what_is_gone(
    me: ParticipantConfig, held: HeldRange, ids: set[int], verdict: object
) -> bool:
    return held.id in ids


def outlives_a_set(me: ParticipantConfig, held: HeldRange, ids: set[int], verdict: object) -> bool:
    return _still_holds(me, held, ids, Accepted.RELEASED)


def takes_what_others_get(
    me: ParticipantConfig, record: RangesRecord, ranges: Ranges, verdict: object
) -> tuple[HeldRange, ...]:
    if verdict is not RangeAccepted.RANGE_GRANTED or ranges.window != me.window:
        return ()
    last = ranges.open[-1]
    return (HeldRange(last.id, last.from_, last.to, last.from_, last.from_),)


def waits_for_ever(
    me: ParticipantConfig, participant: Participant, record: RangesRecord
) -> tuple[Participant, object]:
    after, verdict = _read(me, participant, record)
    return attrs.evolve(after, requested=participant.requested), verdict


def waits_for_anybody(
    me: ParticipantConfig, participant: Participant, record: RangesRecord
) -> tuple[Participant, object]:
    after, verdict = _read(me, participant, record)
    return attrs.evolve(after, asked=False, requested=False), verdict


def at_the_frontier(participant: Participant) -> int:
    return participant.ranges.frontier


def releases_at_the_start(
    me: ParticipantConfig, participant: Participant, key: ClaimKey
) -> SendRecord:
    unset = attrs.evolve(participant.claim, position_set=False)
    return _release_alone_sent(me, attrs.evolve(participant, claim=unset), key)


def always_room(*_: object) -> bool:
    return True


def shares_under_any_window(me: ParticipantConfig, participant: Participant) -> bool:
    owner = participant.claim.owner_instance
    return owner == ANCHOR and participant.ranges.has_begun


_mutant(
    "SharesAtOnce",
    "shares where nobody set a position",
    "may_claim_anchor",
    without("may_claim_anchor", F.NEVER_SET),
)
_mutant(
    "ClaimsAgain",
    "claims what is shared already",
    "may_claim_anchor",
    without("may_claim_anchor", F.ALREADY_SHARED),
)
_mutant(
    "DoesNotAwaitIt",
    "claims again before it has read its claim back",
    "may_claim_anchor",
    without("may_claim_anchor", F.AWAITS_READ_BACK),
)
_mutant(
    "BeginsAnew",
    "claims alone where a position is set",
    "may_claim_alone",
    without("may_claim_alone", F.ALREADY_SET),
)
_mutant(
    "ReleasesForOthers",
    "releases what it does not own",
    "may_release_alone",
    without("may_release_alone", F.NOT_ALONE),
)
_mutant(
    "ReleasesAtTheStart",
    "releases at the start although a position is set",
    "release_alone_sent",
    releases_at_the_start,
)
_mutant(
    "BeatsUnasked",
    "beats where nothing is shared",
    "may_beat_anchor",
    without("may_beat_anchor", F.NOT_SHARED),
)
_mutant(
    "ReservesAtLeastOnce",
    "reserves at least once",
    "may_reserve",
    without("may_reserve", F.NOT_AT_MOST_ONCE),
)
_mutant(
    "ReservesNothing",
    "reserves what is reserved",
    "may_reserve",
    without("may_reserve", F.NOTHING_AHEAD),
)
_mutant(
    "AsksTwice",
    "has two requests on the way",
    "may_ask_range",
    without("may_ask_range", F.REQUEST_UNDER_WAY),
)
_mutant("AsksWithoutRoom", "asks where there is no room", "has_room_for", always_room)
_mutant(
    "AsksWhileLeaving",
    "asks although it leaves",
    "may_ask_range",
    without("may_ask_range", F.LEAVING),
)
_mutant(
    "SpeaksToNobody",
    "speaks where there are no ranges",
    "may_speak",
    without("may_speak", F.NO_RANGES),
)
_mutant("BeginsAsleep", "begins while ranges sleep", "may_begin", without("may_begin", F.ASLEEP))
_mutant("BeginsTwice", "begins a message again", "may_begin", without("may_begin", F.NOT_NEXT))
_mutant(
    "FinishesWhatItHasNotBegun",
    "finishes what it has not begun",
    "may_finish",
    without("may_finish", F.NOT_NEXT),
)
_mutant("ForgetsItsPromise", "begins what it has given back", "after_give_back", same)
_mutant("OwesNothing", "does not give back what it has given back again", "owed_from", owes_nothing)
_mutant("TakesItAtOnce", "takes what it asks for as granted", "after_ask_range", takes_it_at_once)
_mutant("BegunIsDone", "calls done what it has begun", "done_to_send", begun_is_done)
_mutant(
    "TheHighestCounts",
    "the range that is furthest says what is done",
    "done_to_send",
    the_highest_counts,
)
_mutant("KeepsNothing", "gives back what it has begun", "keep_to_send", keeps_nothing)
_mutant("HoldsForEver", "goes on with what is its own no more", "still_holds", holds_for_ever)
_mutant(
    "GivesUpWhatIsGone",
    "at most once it leaves what nobody else will process",
    "still_holds",
    gives_up_what_is_gone,
)
_mutant(
    "OutlivesASet",
    "goes on with what an administrator asked for anew",
    "still_holds",
    outlives_a_set,
)
_mutant("TakesWhatOthersGet", "takes what others are granted", "grant_read", takes_what_others_get)
_mutant("WaitsForEver", "does not notice that its request was read back", "read", waits_for_ever)
_mutant("WaitsForAnybody", "takes any record for its own", "read", waits_for_anybody)
_mutant(
    "AnchorSaysTheFrontier", "the anchor says how far ranges were cut", "anchor_at", at_the_frontier
)
_mutant("SharesUnderAnyWindow", "shares under another window", "shares", shares_under_any_window)
_mutant(
    "LeavesWithoutAWord",
    "leaving does not end what the log no longer gives it",
    "after_leaving",
    lambda me, p: attrs.evolve(p, leaving=True),
)
