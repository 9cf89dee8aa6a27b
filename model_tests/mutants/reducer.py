"""Hand-made mutants of the reducer: guards waived, wrong comparisons, fields forgotten.

Each is a mistake that somebody could make on a tired day. Names are those of the configurations in
`spec/` where the same mistake is made there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from kafka_marshal import Accepted, Claim, Record, Refused, Rules, Verdict
from kafka_marshal.core.claims import fenced, original
from kafka_marshal.core.claims.invariants import Property
from model_tests.mutants.hand_made import HandMade, step

P = Property
Transition = Callable[..., tuple[Claim, Verdict]]

OWNER_GUARDS: Mapping[Refused, Callable[[Claim, Record], bool]] = {
    Refused.UNKNOWN_VERSION: lambda c, r: r.message.version not in fenced.KNOWN_VERSIONS,
    Refused.HEADER_NOT_DECIMAL: lambda c, r: fenced._not_decimal(r.headers),
    Refused.HEADER_FROM_THE_FUTURE: lambda c, r: fenced._from_the_future(r),
    Refused.LOG_LOST_RECORDS: lambda c, r: (
        r.headers.epoch is not None and (c.epoch is None or r.headers.epoch > c.epoch)
    ),
    Refused.SUPERSEDED: lambda c, r: (
        r.headers.epoch is not None and c.epoch is not None and r.headers.epoch < c.epoch
    ),
    Refused.NOBODY_OWNS: lambda c, r: c.last_heartbeat_ms is None,
    Refused.FORGED: lambda c, r: (
        r.headers.epoch is not None and r.message.instance_id != c.owner_instance
    ),
    Refused.EPOCH_MISSING: lambda c, r: r.headers.epoch is None and c.won_with_headers,
    Refused.NOT_OWNER: lambda c, r: (
        r.headers.epoch is None and r.message.instance_id != c.owner_instance
    ),
}
"""R2, a guard a line, in the specification's order, so that one can be left out."""


def without(*waived: Refused) -> Callable[[Claim, Record], Refused | None]:
    """R2 without these guards; without any, it is R2."""

    def refuse_unless_owner(claim: Claim, record: Record) -> Refused | None:
        for guard, refuses in OWNER_GUARDS.items():
            if guard not in waived and refuses(claim, record):
                return guard
        return None

    return refuse_unless_owner


def always(*_: object) -> bool:
    return True


def never(*_: object) -> bool:
    return False


def changed(right: Transition, **fields: Callable[[Claim, Record], object]) -> Transition:
    """The same transition; if it obeys, these fields of the next claim are made otherwise."""

    def transition(claim: Claim, record: Record, *rest: object) -> tuple[Claim, Verdict]:
        after, verdict = right(claim, record, *rest)
        if isinstance(verdict, Accepted):
            values = {name: value(claim, record) for name, value in fields.items()}
            after = attrs.evolve(after, **values)  # type: ignore[arg-type]
        return after, verdict

    return transition


def asked(claim: Claim, record: Record) -> int:
    """The message's own offset, with no maximum."""
    offset: int = getattr(record.message, "offset", 0)
    return offset


def stale_at_twice_the_interval(claim: Claim, clock_ms: int, rules: Rules) -> bool:
    since = claim.last_heartbeat_ms
    return since is not None and clock_ms - since >= rules.stale_after_ms


def by_client_id(claim: Claim, record: Record) -> Refused | None:
    refused = fenced_r2(claim, record)
    same_client = claim.owned and record.message.client_id == claim.owner_client
    return None if refused in (Refused.FORGED, Refused.NOT_OWNER) and same_client else refused


def instance_is_enough(claim: Claim, record: Record) -> Refused | None:
    if not claim.owned:
        return Refused.NOBODY_OWNS
    return None if record.message.instance_id == claim.owner_instance else Refused.NOT_OWNER


def ignoring_the_pause(claim: Claim, *rest: object) -> tuple[Claim, Verdict]:
    after, verdict = fenced_claim(attrs.evolve(claim, paused_until_ms=None), *rest)
    return attrs.evolve(after, paused_until_ms=claim.paused_until_ms), verdict


def grants_again(
    claim: Claim, record: Record, message: object, rules: Rules
) -> tuple[Claim, Verdict]:
    after, verdict = fenced_grant(claim, record, message, rules)
    if verdict is not Refused.NOT_AHEAD:
        return after, verdict
    position, clock_ms = asked(claim, record), after.clock_ms
    return attrs.evolve(after, position=position, last_heartbeat_ms=clock_ms), Accepted.GRANTED


def leaves_the_owner(claim: Claim, *rest: object) -> tuple[Claim, Verdict]:
    after, verdict = fenced_pause(claim, *rest)
    owner = {
        name: getattr(claim, name)
        for name in ("owner_instance", "owner_client", "last_heartbeat_ms", "won_with_headers")
    }
    return attrs.evolve(after, **owner), verdict


def without_a_maximum(
    claim: Claim, record: Record, message: object, rules: Rules
) -> tuple[Claim, Verdict]:
    return fenced_pause(claim, record, message, attrs.evolve(rules, pause_max_ms=10**12))


def refused_and_refreshed(claim: Claim, clock_ms: int, guard: Refused) -> tuple[Claim, Verdict]:
    lives = clock_ms if claim.owned else None
    return attrs.evolve(claim, clock_ms=clock_ms, last_heartbeat_ms=lives), guard


def refused_and_unpaused(claim: Claim, clock_ms: int, guard: Refused) -> tuple[Claim, Verdict]:
    return attrs.evolve(claim, clock_ms=clock_ms, paused_until_ms=None), guard


def refused_without_the_clock(claim: Claim, clock_ms: int, guard: Refused) -> tuple[Claim, Verdict]:
    return claim, guard


def clock_that_goes_back(claim: Claim, record: Record) -> int:
    return record.timestamp_ms


def claimed_at_twice_the_interval(claim: Claim, now_ms: int, rules: Rules) -> bool:
    if claim.last_heartbeat_ms is None:
        return False
    age_s = now_ms // 1000 - claim.last_heartbeat_ms // 1000
    return 0 <= age_s * 1000 <= rules.stale_after_ms


# The right ones, from before any mistake is made.
fenced_r2 = fenced.refuse_unless_owner
fenced_claim: Transition = fenced.claiming_partition
fenced_grant: Transition = fenced.claiming_messages
fenced_pause: Transition = fenced.release_group
fenced_heartbeat: Transition = fenced.heartbeat
fenced_release: Transition = fenced.releasing_partition

R2 = (fenced, "refuse_unless_owner")
REFUSE = (fenced, "_refuse")
CLAIM = (fenced, "claiming_partition")
HEARTBEAT = (fenced, "heartbeat")
GRANT = (fenced, "claiming_messages")
RELEASE = (fenced, "releasing_partition")
PAUSE = (fenced, "release_group")
STALE = (fenced, "is_stale")
RESTART = (fenced, "restart_takeover")
FAST = (fenced, "_is_fast_reclaim")

R = Refused
MUTANTS: tuple[HandMade, ...] = (
    # R1: who may win, and what a win does.
    HandMade("NoLiveOwner", "every owner is stale", *STALE, always, step(P.FRESH_OWNER_KEPT)),
    HandMade(
        "StaleAtTwiceTheInterval",
        "stale at exactly twice the interval",
        *STALE,
        stale_at_twice_the_interval,
        step(P.FRESH_OWNER_KEPT),
    ),
    HandMade(
        "AnyRestart",
        "any instance of the owner's client takes over at once",
        *RESTART,
        always,
        step(P.FRESH_OWNER_KEPT, P.HEADERS_OUTRANK),
    ),
    HandMade(
        "WinMoves",
        "a win moves the position",
        *CLAIM,
        changed(fenced_claim, position=lambda c, r: c.position + 1),
        step(P.WIN_KEEPS_POSITION),
    ),
    HandMade(
        "WinKeepsEpoch",
        "a win leaves the epoch where it was",
        *CLAIM,
        changed(fenced_claim, epoch=lambda c, r: c.epoch),
        step(P.MONOTONE_EPOCH),
    ),
    HandMade(
        "EpochOfTheHeader",
        "a win takes the epoch that its sender names",
        *CLAIM,
        changed(fenced_claim, epoch=lambda c, r: r.headers.supersedes),
        step(P.MONOTONE_EPOCH),
    ),
    # R2: whose records have an effect.
    HandMade("NobodyRefused", "R2 left out", *R2, lambda c, r: None, step(P.FENCED)),
    HandMade("EpochNotChecked", "the instance is enough", *R2, instance_is_enough, step(P.FENCED)),
    HandMade("ByClientId", "the client is enough", *R2, by_client_id, step(P.FENCED)),
    HandMade("NoSuperseded", "an old epoch is good", *R2, without(R.SUPERSEDED), step(P.FENCED)),
    HandMade(
        "NoLogLostRecords",
        "an epoch that nobody won is good",
        *R2,
        without(R.LOG_LOST_RECORDS),
        step(P.FENCED),
    ),
    HandMade("NoForged", "the epoch is enough", *R2, without(R.FORGED), step(P.FENCED)),
    HandMade(
        "NoEpochMissing",
        "without an epoch the instance is enough",
        *R2,
        without(R.EPOCH_MISSING),
        step(P.FENCED),
    ),
    HandMade("NoNotOwner", "without an epoch anybody", *R2, without(R.NOT_OWNER), step(P.FENCED)),
    HandMade(
        "NoNobodyOwns",
        "a bare record from anybody while nobody owns",
        *R2,
        without(R.NOBODY_OWNS, R.NOT_OWNER),
        step(P.FENCED, P.SET_POSITION_STICKS),
    ),
    HandMade(
        "OddEpochIsOld",
        "an epoch that is not decimal is one that nobody checks",
        *R2,
        without(R.HEADER_NOT_DECIMAL, R.SUPERSEDED),
        step(P.FENCED),
    ),
    # R3, R4: the position.
    HandMade(
        "NoMaximum",
        "a heartbeat sets the position as it is asked",
        *HEARTBEAT,
        changed(fenced_heartbeat, position=asked),
        step(P.MONOTONE_POSITION),
    ),
    HandMade(
        "ReleaseNoMaximum",
        "a release sets the position as it is asked",
        *RELEASE,
        changed(fenced_release, position=asked),
        step(P.MONOTONE_POSITION),
    ),
    HandMade(
        "NoNotAhead",
        "a range below the position is granted",
        *GRANT,
        grants_again,
        step(P.MONOTONE_POSITION),
    ),
    HandMade(
        "NeverSets",
        "a heartbeat moves the position and does not set it",
        *HEARTBEAT,
        changed(fenced_heartbeat, position_set=lambda c, r: c.position_set),
        step(P.SET_STAYS_SET),
    ),
    HandMade(
        "AnyPositionSets",
        "a heartbeat at 0 sets the position though its sender does not say where it began",
        *(fenced, "says_position", lambda headers, offset: offset >= 0),
        step(P.SET_STAYS_SET),
    ),
    HandMade(
        "GivingBackSets",
        "a claim that its administrator gives back at 0 was set",
        *(fenced, "says_it_sets", always),
        step(P.SET_STAYS_SET),
    ),
    HandMade(
        "ReleaseForgetsEpoch",
        "a release clears the epoch",
        *RELEASE,
        changed(fenced_release, epoch=lambda c, r: None),
        step(P.MONOTONE_EPOCH),
    ),
    # R8: the pause.
    HandMade(
        "PauseIgnored", "anybody wins in a pause", *CLAIM, ignoring_the_pause, step(P.PAUSE_HOLDS)
    ),
    HandMade(
        "NeverBegins",
        "a ReleaseGroup pauses nothing",
        *PAUSE,
        changed(fenced_pause, paused_until_ms=lambda c, r: None),
        step(P.PAUSE_HOLDS),
    ),
    HandMade(
        "OwnerStays",
        "a ReleaseGroup leaves the owner",
        *PAUSE,
        leaves_the_owner,
        step(P.PAUSE_HOLDS),
    ),
    HandMade(
        "PauseForEver", "no maximum to a pause", *PAUSE, without_a_maximum, step(P.PAUSE_HOLDS)
    ),
    HandMade(
        "ClockGoesBack",
        "the claim's clock is the record's",
        fenced,
        "clock_advanced",
        clock_that_goes_back,
        step(P.PAUSE_HOLDS, P.CLOCK_IS_MAXIMUM),
    ),
    # R9: the original's restart.
    HandMade(
        "AnyFastReclaim",
        "anybody's heartbeat takes over",
        *FAST,
        always,
        step(P.FENCED, P.FRESH_OWNER_KEPT),
    ),
    # What a refusal may not do.
    HandMade(
        "RefusedRefreshes",
        "a refused record keeps the owner alive",
        *REFUSE,
        refused_and_refreshed,
        step(P.REFUSED_CHANGES_NOTHING),
    ),
    HandMade(
        "RefusedUnpauses",
        "a refused record ends the pause",
        *REFUSE,
        refused_and_unpaused,
        step(P.REFUSED_CHANGES_NOTHING),
    ),
    # What a restart may count on.
    HandMade(
        "NoRestart", "no restart takeover at all", *RESTART, never, step(P.RESTART_TAKES_OVER)
    ),
    HandMade("NoFastReclaim", "no fast reclaim at all", *FAST, never, step(P.RESTART_TAKES_OVER)),
    # The small print.
    HandMade(
        "NoFuture",
        "headers from the future pass",
        *(fenced, "_from_the_future", never),
        step(P.ODD_RECORDS_REFUSED),
    ),
    HandMade(
        "NoOddHeaders",
        "headers that are not decimal pass",
        *(fenced, "_not_decimal", never),
        step(P.ODD_RECORDS_REFUSED),
    ),
    HandMade(
        "AnyVersion",
        "every version is known",
        *(fenced, "KNOWN_VERSIONS", range(9)),
        step(P.ODD_RECORDS_REFUSED),
    ),
    HandMade(
        "OneVersion",
        "version 0 is unknown",
        *(fenced, "KNOWN_VERSIONS", (1,)),
        step(P.ODD_RECORDS_REFUSED),
    ),
    HandMade(
        "RefusedStopsTheClock",
        "a refused record does not move the clock",
        *REFUSE,
        refused_without_the_clock,
        step(P.CLOCK_IS_MAXIMUM),
    ),
    # The original.
    HandMade(
        "OriginalClaimedAtTwice",
        "original: exactly twice the interval is claimed",
        *(original, "claimed", claimed_at_twice_the_interval),
        step(P.ORIGINAL_LIVE_OWNER_KEPT),
    ),
    HandMade(
        "OriginalNeverClaimed",
        "original: never claimed",
        *(original, "claimed", never),
        step(P.ORIGINAL_LIVE_OWNER_KEPT),
    ),
)
"""Each breaks a promise, of the fenced rules unless its name says otherwise."""
