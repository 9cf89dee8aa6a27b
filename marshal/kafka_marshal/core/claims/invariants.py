"""The specification's properties by name, and those that a single step of a claim can violate.

This room judges a step that has been taken; it does not take it. The properties of whole runs
(`Mutex`, `AtMostOnce` ...) need to know what consumers did, so they live in the specification and
are only named here.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final, Self, TypeAlias, assert_never

import attrs

from kafka_marshal.core.claims.verdicts import ODD_HEADERS, WINS, Accepted, Refused, Verdict
from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import Claim


class NamedProperty(enum.StrEnum):
    """A property: its value is the name in the specification, `sentence` what it promises."""

    sentence: str

    def __new__(cls, name: str, sentence: str = "") -> Self:
        """Take the name for the value, and the sentence beside it."""
        made = str.__new__(cls, name)
        made._value_ = name
        made.sentence = sentence
        return made


class Property(NamedProperty):
    """What is promised; by the fenced rules unless a property names others."""

    MUTEX = "Mutex", "One owner per epoch, as any reader knows it."
    FENCED = "Fenced", "Only the current owner's records have an effect."
    MONOTONE_POSITION = (
        "MonotonePosition",
        "The position never falls, except when the admin sets it.",
    )
    SET_STAYS_SET = (
        "SetStaysSet",
        "A position that was set stays set, and one above 0 was set.",
    )
    BEGINS_WHERE_THE_LOG_SAYS = (
        "BeginsWhereTheLogSays",
        "At least once: a start policy decides only where nobody ever said where to go on.",
    )
    MONOTONE_EPOCH = "MonotoneEpoch", "The epoch never falls, and grows at every win."
    AT_MOST_ONCE = "AtMostOnce", "At most once: no message is processed twice."
    NONE_SKIPPED = (
        "NoneSkipped",
        "At least once: every message below the position was processed, or the admin skipped it.",
    )
    REPROCESSING_BOUND = (
        "ReprocessingBound",
        "At least once: at most `window * (epochs - 1)` messages are processed again.",
    )
    SET_POSITION_STICKS = (
        "SetPositionSticks",
        "What the admin set stays until a later owner moves it.",
    )
    PAUSE_HOLDS = "PauseHolds", "While a group is paused nobody owns, and only the pauser wins."
    REFINES_LEASE = "RefinesLease", "The protocol implements a lease with fencing epochs."
    RELEASE_REPEATS_NOTHING = (
        "ReleaseRepeatsNothing",
        "At least once: a tenure that ended in a release repeats nothing (R7).",
    )
    READERS_AGREE = "ReadersAgree", "Two readers of the same records name the same owner."
    RELEASED_BY_WINNER = (
        "ReleasedByWinner",
        "A release frees only the tenure of the instance that last won.",
    )
    HEADERS_OUTRANK = (
        "HeadersOutrank",
        "Without headers nobody displaces an owner that won with them, unless it is stale.",
    )
    FRESH_OWNER_KEPT = "FreshOwnerKept", "Another client displaces only an owner that is stale."
    WIN_KEEPS_POSITION = (
        "WinKeepsPosition",
        "A ClaimingPartition that wins leaves the position where it is.",
    )
    PREDECESSOR_STAYS_OUT = (
        "PredecessorStaysOut",
        "What a dead instance had in flight does not take the claim back from its successor.",
    )
    LIVE_OWNER_KEPT = (
        "LiveOwnerKept",
        "In measured time: an owner that another client displaces was silent for two intervals.",
    )
    REFUSED_CHANGES_NOTHING = (
        "RefusedChangesNothing",
        "A refused record changes nothing but the clock.",
    )
    RESTART_TAKES_OVER = (
        "RestartTakesOver",
        "A client that restarts is not kept waiting for its predecessor to be stale.",
    )
    ODD_RECORDS_REFUSED = (
        "OddRecordsRefused",
        "Who writes a later version, odd headers or offsets that its log has not has no effect.",
    )
    CLOCK_IS_MAXIMUM = (
        "ClockIsMaximum",
        "Every record moves a claim's clock, refused ones too, and none moves it back.",
    )
    ORIGINAL_LIVE_OWNER_KEPT = (
        "OriginalLiveOwnerKept",
        "Of the original: a request loses to an owner heard of less than two intervals ago.",
    )
    SUFFIX_EXACT = (
        "SuffixExact",
        "What a reader that began in the middle calls certain equals the full fold.",
    )
    SUFFIX_LOWER_BOUND = (
        "SuffixLowerBound",
        "Such a reader that knows the owner never has the position too high.",
    )
    SUFFIX_GUESS_RIGHT = (
        "SuffixGuessRight",
        "At an owner's heartbeat or grant such a reader's guess has the right owner and epoch.",
    )
    SUFFIX_BECOMES_KNOWN = (
        "SuffixBecomesKnown",
        "The heartbeat of an owner that has read everything makes all certain but the pauser.",
    )
    CLOCK_BOUNDED = (
        "ClockBounded",
        "The true clock is at most a late reader's, or what it knows the head's was at most.",
    )
    PAUSES_END = (
        "PausesEnd",
        "No pause lasts longer than a late reader waits before it calls a request won.",
    )
    WRITES_ALL_OR_NONE = (
        "WritesAllOrNone",
        "An administrator writes no position before it has read that it owns every claim.",
    )
    NEVER_HALF_SET_SILENTLY = (
        "NeverHalfSetSilently",
        "Half set positions are never silent: the operator knows, or after a crash the log says.",
    )
    LATER_PAUSE_WINS = (
        "LaterPauseWins",
        "Of two administrators at once the one that paused later sets, and nothing of the other.",
    )
    LOSER_IS_TOLD = (
        "LoserIsTold",
        "An administrator that has read another's later pause has ended and told its operator.",
    )
    NEXT_IS_WARNED = (
        "NextIsWarned",
        "The administrator that pauses next tells what was left undone before it.",
    )
    ONE_INTERVAL_PROCESSES = (
        "OneIntervalProcesses",
        "No message is processed by two consumers, also where their heartbeat intervals differ.",
    )
    RESUME_FREES_NOBODY = (
        "ResumeFreesNobody",
        "Ending a pause, from however old a view, takes a claim from nobody who is alive.",
    )
    ENDING_FREES_NOBODY = (
        "EndingFreesNobody",
        "Once an administrator has paused the group it takes a claim from nobody who is alive.",
    )
    NOTHING_LEFT_WHEN_DONE = (
        "NothingLeftWhenDone",
        "Of a work that is done the log says nothing is left undone, but what is still held.",
    )
    POSITIONS_STAY = (
        "PositionsStay",
        "To end the pause of a claim moves no position, and says none where none was said.",
    )
    FEW_MOVES = (
        "FewMoves",
        "Fair share: since the members last changed no more claims were given back than it takes.",
    )
    GIVES_TO_THE_POORER = (
        "GivesToThePoorer",
        "Fair share: what is given back makes the difference smaller, as its owner read it.",
    )
    NO_PING_PONG = (
        "NoPingPong",
        "Fair share: while the members stay the same, nobody gives the same claim back twice.",
    )
    ORIGINAL_KEPT = (
        "OriginalKept",
        "In measured time: while an original heartbeats, no other client displaces it (R9).",
    )
    DEAD_OWNER_REPLACED = (
        "DeadOwnerReplaced",
        "In the end: a claim whose owner is dead is taken, if a live consumer wants it.",
    )
    FREE_CLAIM_TAKEN = (
        "FreeClaimTaken",
        "In the end: a claim that nobody owns is taken, if a live consumer wants it.",
    )
    RESIGNED_OWNER_REPLACED = (
        "ResignedOwnerReplaced",
        "In the end: a claim whose owner's release was lost is not left to it (R1a).",
    )
    EVERYTHING_PROCESSED = (
        "EverythingProcessed",
        "In the end: every message is processed, if one consumer stays up and does its work.",
    )
    BALANCED = (
        "Balanced",
        "In the end: nobody would have a claim of another to the good of both, and none is left.",
    )
    EVEN = (
        "Even",
        "In the end: of members that may own every claim, nobody owns two more than another.",
    )
    NOBODY_STARVES = (
        "NobodyStarves",
        "In the end: every member owns something, if there are as many claims as members.",
    )


StepCheck: TypeAlias = Callable[[Claim, Record, Claim, Verdict], bool]


def fenced(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """An owner's record is obeyed only from the owner, under its epoch. Spec: Fenced.

    A ClaimingPartition and a ReleaseGroup are requests of anybody; whatever else changes a claim is
    R9's fast reclaim, of the owner's own client, where neither side has headers.
    """
    if verdict is Accepted.FAST_RECLAIMED:
        return record.message.client_id == before.owner_client and _neither_has_headers(
            before, record
        )
    if not isinstance(verdict, Accepted) or verdict is Accepted.IGNORED:
        return True
    message, epoch = record.message, record.headers.epoch
    match message:
        case ClaimingPartition() | ReleaseGroup():
            return True
        case Heartbeat() | ReleasingPartition() | ClaimingMessages():
            if not before.owned or before.owner_instance != message.instance_id:
                return False
            return not before.won_with_headers if epoch is None else epoch == before.epoch
        case _:
            assert_never(message)


def _neither_has_headers(before: Claim, record: Record) -> bool:
    """Spec: NeitherHasHeaders."""
    return not record.headers.present and not before.won_with_headers


def sets_position(before: Claim, record: Record) -> bool:
    """Whether this is an administrator's release, by its sender, the pauser and the header.

    A verdict's name is no proof: it comes from the code that is judged. Spec: AdminSets.
    """
    message = record.message
    return isinstance(message, ReleasingPartition) and (
        message.instance_id == before.pauser or record.headers.set_position is not None
    )


def monotone_position(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """The position falls only to where an admin's release set it. Spec: MonotonePosition."""
    if after.position >= before.position:
        return True
    message = record.message
    if not isinstance(message, ReleasingPartition) or not sets_position(before, record):
        return False
    return after.position == message.offset and message.offset >= 0


def set_stays_set(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """At 0 a record sets it only if it says where its sender began, or that it sets it.

    Spec: SetStaysSet.
    """
    if before.position_set or after.position > 0 or not after.position_set:
        return after.position_set or not (before.position_set or after.position > 0)
    headers = record.headers
    says_it_sets = not headers.present or headers.set_position is not None
    return headers.start is not None or (sets_position(before, record) and says_it_sets)


def monotone_epoch(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """The epoch is the log offset of the last win. Spec: MonotoneEpoch."""
    if verdict in WINS:
        return after.epoch == record.offset and (before.epoch is None or before.epoch < after.epoch)
    return after.epoch == before.epoch


def set_position_sticks(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """While nobody owns, the position stands still. Spec: SetPositionSticks."""
    return before.owned or after.position == before.position


def pause_holds(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """In a pause nobody owns, and only the pauser's ClaimingPartition ends that.

    Spec: PauseHolds.
    """
    if isinstance(record.message, ReleaseGroup):
        return not after.owned or not isinstance(verdict, Accepted)
    if before.paused_until_ms is None or after.clock_ms >= before.paused_until_ms:
        return True
    return not after.owned or record.message.instance_id == before.pauser


def headers_outrank(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """A bare record takes over at once only from one of its own kind. Spec: HeadersOutrank."""
    at_once = verdict in (Accepted.RESTARTED, Accepted.FAST_RECLAIMED)
    return not (at_once and not record.headers.present and before.won_with_headers)


def win_keeps_position(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """The next owner starts where the last one stood. Spec: WinKeepsPosition."""
    won = verdict in WINS and isinstance(record.message, ClaimingPartition)
    return not won or after.position == before.position


def refused_changes_nothing(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """Only the clock moves. Spec: RefusedChangesNothing."""
    return isinstance(verdict, Accepted) or after == attrs.evolve(before, clock_ms=after.clock_ms)


def restart_takes_over(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """Another instance of the owner's client wins at once: R1b, R1c, R9. Spec: RestartTakesOver."""
    message, headers = record.message, record.headers
    if before.owner_client != message.client_id or before.owner_instance == message.instance_id:
        return True
    bare = _neither_has_headers(before, record)
    match message:
        case ClaimingPartition():
            asks = bare or (headers.supersedes is not None and headers.supersedes == before.epoch)
        case Heartbeat():
            asks = bare
        case ReleasingPartition() | ClaimingMessages() | ReleaseGroup():
            asks = False
        case _:
            assert_never(message)
    if not asks or message.version not in (0, 1) or _headers_are_odd(record):
        return True
    return after.owner_instance == message.instance_id


def _headers_are_odd(record: Record) -> bool:
    """Not decimal, or an offset that the log has not reached. Spec: HeadersAreOdd."""
    headers, offset = record.headers, record.offset
    return (
        NOT_DECIMAL
        in (headers.epoch, headers.seen, headers.clock, headers.supersedes, headers.set_position)
        or (headers.epoch is not None and headers.epoch >= offset)
        or (headers.seen is not None and headers.seen >= offset)
    )


def odd_records_refused(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """Refused are odd records, and for this reason no others. Spec: OddRecordsRefused."""
    if (verdict is Refused.UNKNOWN_VERSION) != (record.message.version not in (0, 1)):
        return False
    if not record.headers.present:
        return verdict not in ODD_HEADERS
    if _headers_are_odd(record):
        is_group = isinstance(record.message, ReleaseGroup)
        return is_group or not isinstance(verdict, Accepted)
    return verdict not in ODD_HEADERS


def clock_is_maximum(before: Claim, record: Record, after: Claim, verdict: Verdict) -> bool:
    """The running maximum of the broker's timestamps. Spec: ClockIsMaximum."""
    return after.clock_ms == max(before.clock_ms, record.timestamp_ms)


STEP_CHECKS: Final[dict[Property, StepCheck]] = {
    Property.FENCED: fenced,
    Property.MONOTONE_POSITION: monotone_position,
    Property.SET_STAYS_SET: set_stays_set,
    Property.MONOTONE_EPOCH: monotone_epoch,
    Property.SET_POSITION_STICKS: set_position_sticks,
    Property.PAUSE_HOLDS: pause_holds,
    Property.HEADERS_OUTRANK: headers_outrank,
    Property.WIN_KEEPS_POSITION: win_keeps_position,
    Property.REFUSED_CHANGES_NOTHING: refused_changes_nothing,
    Property.RESTART_TAKES_OVER: restart_takes_over,
    Property.ODD_RECORDS_REFUSED: odd_records_refused,
    Property.CLOCK_IS_MAXIMUM: clock_is_maximum,
}
"""What can be judged from one step."""


def broken_by(before: Claim, record: Record, after: Claim, verdict: Verdict) -> list[Property]:
    """The properties that this step breaks; none under the fenced rules."""
    return [
        prop for prop, holds in STEP_CHECKS.items() if not holds(before, record, after, verdict)
    ]
