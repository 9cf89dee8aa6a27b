"""What is proved of every step: the shipped properties, an invariant, a lease, and two of messages.

Each is code over a claim before a record and after it, with the record between. The shipped checks
are used as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen
from model_tests.mutants.judges import JUDGES
from tests.triples import Triple

from kafka_marshal import Accepted, Claim, Headers, Record
from kafka_marshal.core.claims import invariants, reducer
from kafka_marshal.core.claims.invariants import STEP_CHECKS, Property, sets_position
from kafka_marshal.core.claims.verdicts import Refused
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    ReleaseGroup,
    ReleasingPartition,
)
from proof.causes import verdict_names_cause

WHATEVER_THE_CLAIM: Final = (
    Refused.UNKNOWN_VERSION,
    Refused.HEADER_NOT_DECIMAL,
    Refused.HEADER_FROM_THE_FUTURE,
)
"""Why a record is refused whatever the claim."""

Conjunct: TypeAlias = Callable[[Claim, Any], Any]
"""Of a claim, and the offset of the last record that it has seen."""


def position_is_offset(claim: Claim, last: Any) -> Any:
    """A position is 0 or more."""
    return claim.position >= 0


def position_above_0_was_set(claim: Claim, last: Any) -> Any:
    """A position above 0 was set by somebody."""
    return claim.position_set or claim.position <= 0


def owner_is_known(claim: Claim, last: Any) -> Any:
    """Somebody owns the claim iff its instance, its client and its last sign of life are known."""
    return (
        (claim.owner_instance is not None)
        == (claim.owner_client is not None)
        == (claim.last_heartbeat_ms is not None)
    )


def owner_has_epoch(claim: Claim, last: Any) -> Any:
    """An owner has won, and the epoch of the last win is known."""
    return claim.epoch is not None or not claim.owned


def epoch_is_in_log(claim: Claim, last: Any) -> Any:
    """The epoch is an offset that the log has reached."""
    return claim.epoch is None or 0 <= claim.epoch <= last


def clock_is_a_time(claim: Claim, last: Any) -> Any:
    """The clock shows a record's time, or Kafka's "no timestamp"."""
    return claim.clock_ms >= -1


def sign_of_life_is_past(claim: Claim, last: Any) -> Any:
    """The owner's last sign of life is not after the clock."""
    return claim.last_heartbeat_ms is None or claim.last_heartbeat_ms <= claim.clock_ms


def pause_has_owner_only_at_its_end(claim: Claim, last: Any) -> Any:
    """Where somebody owns, a pause is over: in a pause nobody owns."""
    if not claim.owned or claim.paused_until_ms is None:
        return True
    return claim.clock_ms >= claim.paused_until_ms


def free_has_no_kind(claim: Claim, last: Any) -> Any:
    """Whether a claim was won with headers is said only while somebody owns it."""
    return claim.owned or not claim.won_with_headers


def pause_has_pauser(claim: Claim, last: Any) -> Any:
    """Who pauses is known."""
    return claim.paused_until_ms is None or claim.pauser is not None


def only_the_original_remembers_releases(claim: Claim, last: Any) -> Any:
    """The time of a release belongs to the original's rules."""
    return claim.last_release_ms is None


INVARIANT: Final[Mapping[str, Conjunct]] = {
    "PositionIsOffset": position_is_offset,
    "PositionAbove0WasSet": position_above_0_was_set,
    "OwnerIsKnown": owner_is_known,
    "OwnerHasEpoch": owner_has_epoch,
    "EpochIsInLog": epoch_is_in_log,
    "ClockIsATime": clock_is_a_time,
    "SignOfLifeIsPast": sign_of_life_is_past,
    "InAPauseNobodyOwns": pause_has_owner_only_at_its_end,
    "FreeHasNoKind": free_has_no_kind,
    "PauseHasPauser": pause_has_pauser,
    "NoReleaseTime": only_the_original_remembers_releases,
}
"""What is true of the new claim, and after every step of a claim of which all of it was true."""


@frozen
class Witness:
    """One arbitrary message of the claim's topic and partition, and its past. All are symbols."""

    message: Any
    """Its offset."""
    granted: Any
    """It was granted since the position was last set."""
    done: Any
    """It was processed, or an administrator skipped it."""
    won_at: Any
    """The position when the claim was last won."""


def refines_lease(taken: Triple) -> Any:
    """The step is one of `Lease.tla`, or changes nothing that a lease has. Spec: RefinesLease."""
    before, after = taken.before, taken.after
    higher = after.position >= before.position
    if after.epoch == before.epoch:
        if not after.owned:
            if not before.owned:
                return after.position == before.position
            return after.position >= 0 if sets_position(before, taken.record) else higher
        return before.owned and after.owner_instance == before.owner_instance and higher
    grows = after.epoch is not None and (before.epoch is None or after.epoch > before.epoch)
    return grows and after.owned and higher


def witness_invariant(claim: Claim, witness: Witness) -> Any:
    """What is true of any message: granted or passed, it lies below the position."""
    if witness.granted and not witness.message < claim.position:
        return False
    return not claim.owned or witness.won_at <= claim.position


def none_is_skipped(claim: Claim, witness: Witness) -> Any:
    """Every message below the position was processed, or skipped by an administrator."""
    return witness.message < 0 or not witness.message < claim.position or witness.done


def at_most_once(taken: Triple, witness: Witness) -> Any:
    """No message is granted twice between two sets of the position. Spec: AtMostOnce."""
    before, after, granted = taken.before, taken.after, witness.granted
    if taken.verdict is Accepted.GRANTED and before.position <= witness.message < after.position:
        if granted:
            return False
        granted = True
    if isinstance(taken.verdict, Accepted) and sets_position(taken.before, taken.record):
        granted = False
    return not granted or witness.message < after.position


def tenure_begins_below(taken: Triple, witness: Witness) -> Any:
    """A tenure begins at a position that the log never falls below while it lasts."""
    before, after = taken.before, taken.after
    if not after.owned:
        return True
    won_at = witness.won_at if after.epoch == before.epoch else before.position
    return won_at <= after.position


def sender_promises(taken: Triple, witness: Witness) -> Any:
    """What an honest sender promises: it processed all from where its tenure began to its offset.

    At least once, so nobody asks for grants. An administrator promises nothing.
    """
    message = taken.record.message
    if isinstance(message, ClaimingMessages):
        return False
    if not isinstance(message, Heartbeat | ReleasingPartition):
        return True
    if sets_position(taken.before, taken.record):
        return True
    return witness.done or not witness.won_at <= witness.message < message.offset


def none_skipped(taken: Triple, witness: Witness) -> Any:
    """Where senders keep their promise, the position passes nothing that is not done.

    Spec: NoneSkipped.
    """
    if isinstance(taken.verdict, Accepted) and sets_position(taken.before, taken.record):
        return True
    return witness.message < 0 or not witness.message < taken.after.position or witness.done


def _can_be_read(record: Record) -> Any:
    """Its version is known, and its headers make sense."""
    odd = record.headers.present and invariants._headers_are_odd(record)
    return record.message.version in (0, 1) and not odd


def _may_be_asked_for(taken: Triple) -> Any:
    """A request that can be read, of somebody whom no pause excludes."""
    before, message = taken.before, taken.record.message
    if not isinstance(message, ClaimingPartition) or not _can_be_read(taken.record):
        return False
    until_ms = before.paused_until_ms
    over = until_ms is None or taken.after.clock_ms >= until_ms
    return over or message.instance_id == before.pauser


def _wins(taken: Triple) -> Any:
    after, message = taken.after, taken.record.message
    if not after.owned or after.last_heartbeat_ms != after.clock_ms:
        return False
    if after.owner_instance != message.instance_id or after.owner_client != message.client_id:
        return False
    said = _same(after.won_with_headers, taken.record.headers.present)
    return after.epoch == taken.record.offset and said


def free_claim_is_given(taken: Triple) -> Any:
    """A claim that nobody owns goes to the next who asks, also at the very end of a pause."""
    return taken.before.owned or not _may_be_asked_for(taken) or _wins(taken)


def stale_owner_is_replaced(taken: Triple) -> Any:
    """A claim whose owner was silent for more than two intervals goes to the next who asks."""
    since = taken.before.last_heartbeat_ms
    if since is None or not _may_be_asked_for(taken):
        return True
    return not taken.after.clock_ms - since > taken.rules.stale_after_ms or _wins(taken)


def owner_may_ask_again(taken: Triple) -> Any:
    """An owner that asks anew wins anew. Rules: R1a."""
    own = taken.before.owned and taken.before.owner_instance == taken.record.message.instance_id
    return not own or not _may_be_asked_for(taken) or _wins(taken)


def win_ends_own_pause(taken: Triple) -> Any:
    """The pauser's own win ends its pause. Rules: R8a."""
    own = taken.record.message.instance_id == taken.before.pauser
    if not own or not _may_be_asked_for(taken) or not _wins(taken):
        return True
    return taken.after.paused_until_ms is None


def _is_owners(taken: Triple) -> Any:
    """A record that can be read, of the owner, under its epoch: of one that is stale, too."""
    before, record = taken.before, taken.record
    if not before.owned or not _can_be_read(record):
        return False
    if before.owner_instance != record.message.instance_id:
        return False
    epoch = record.headers.epoch if record.headers.present else None
    return not before.won_with_headers if epoch is None else epoch == before.epoch


def owner_is_obeyed(taken: Triple) -> Any:
    """Its heartbeat, also one below the position, says that it lives, and how far it is."""
    message, before, after = taken.record.message, taken.before, taken.after
    if not isinstance(message, Heartbeat) or not _is_owners(taken):
        return True
    position = max(before.position, message.offset)
    if after.last_heartbeat_ms != after.clock_ms or after.position != position:
        return False
    return _same(
        after.position_set, before.position_set or _says_where(taken.record.headers, message.offset)
    )


def owner_is_granted(taken: Triple) -> Any:
    """What it asks for beyond the position is its own, and the request says that it lives."""
    message, before, after = taken.record.message, taken.before, taken.after
    if not isinstance(message, ClaimingMessages) or not _is_owners(taken):
        return True
    if message.offset <= before.position:
        return True
    return after.last_heartbeat_ms == after.clock_ms and after.position == message.offset


def owner_may_release(taken: Triple) -> Any:
    """Its release frees the claim, at the position that it sets or has reached."""
    message, before, after = taken.record.message, taken.before, taken.after
    if not isinstance(message, ReleasingPartition) or not _is_owners(taken):
        return True
    sets = sets_position(before, taken.record)
    if sets and message.offset < 0:
        return True
    position = message.offset if sets else max(before.position, message.offset)
    if not _is_free(after) or after.position != position:
        return False
    headers = taken.record.headers
    says_so = sets and (not headers.present or headers.set_position is not None)
    said = before.position_set or _says_where(taken.record.headers, message.offset) or says_so
    return _same(after.position_set, said)


def pause_is_replaced(taken: Triple) -> Any:
    """A ReleaseGroup frees the claim, also an expired one; its pause replaces the one before."""
    message, after = taken.record.message, taken.after
    if not isinstance(message, ReleaseGroup) or message.version not in (0, 1):
        return True
    if not _is_free(after) or after.pauser != message.instance_id:
        return False
    until_ms = min(message.expires_unix_s * 1000, after.clock_ms + taken.rules.pause_max_ms)
    if until_ms <= after.clock_ms:
        return after.paused_until_ms is None
    return after.paused_until_ms is not None and after.paused_until_ms == until_ms


def pause_is_kept(taken: Triple) -> Any:
    """Nothing but a ReleaseGroup begins a pause, and nothing but its pauser's win ends one."""
    message, before, after = taken.record.message, taken.before, taken.after
    if isinstance(message, ReleaseGroup):
        return True
    if after.pauser != before.pauser:
        return False
    if before.paused_until_ms is None or after.paused_until_ms is None:
        kept = before.paused_until_ms is None and after.paused_until_ms is None
    else:
        kept = before.paused_until_ms == after.paused_until_ms
    ends = isinstance(message, ClaimingPartition) and message.instance_id == before.pauser
    return kept or (ends and after.paused_until_ms is None)


def how_it_was_won_is_kept(taken: Triple) -> Any:
    """Nothing but a win says whether an owner has headers."""
    before, after = taken.before, taken.after
    if not before.owned or not after.owned or before.epoch != after.epoch:
        return True
    return _same(after.won_with_headers, before.won_with_headers)


def original_may_restart(taken: Triple) -> Any:
    """A bare heartbeat of the client of an owner without headers takes over. Rules: R9."""
    message, before, after = taken.record.message, taken.before, taken.after
    if not isinstance(message, Heartbeat) or not before.owned or before.won_with_headers:
        return True
    if taken.record.headers.present or not _can_be_read(taken.record):
        return True
    if before.owner_client != message.client_id or before.owner_instance == message.instance_id:
        return True
    if after.owner_instance != message.instance_id or after.epoch != taken.record.offset:
        return False
    position = max(before.position, message.offset)
    return after.last_heartbeat_ms == after.clock_ms and after.position == position


def _says_where(headers: Headers, offset: Any) -> Any:
    """Above 0 always; at 0 if it says that it began there."""
    return offset > 0 or (offset == 0 and headers.start is not None)


def _is_free(claim: Claim) -> Any:
    ids = claim.owner_instance is None and claim.owner_client is None
    return ids and claim.last_heartbeat_ms is None and _same(claim.won_with_headers, False)


def _same(one: Any, other: Any) -> Any:
    """Both are true, or both are false; a mistake may make of one what is neither."""
    if one is None:
        return False
    return other if one else not other


def has_bad_headers(taken: Triple) -> Any:
    """What no step asks: `has_bad_headers` and `header_guard` say what a step refuses."""
    if isinstance(taken.record.message, ReleaseGroup):
        return True
    bad: Any = reducer.fenced  # type: ignore[attr-defined]  # a mutant's, where one is judged
    if taken.verdict is not Refused.UNKNOWN_VERSION and taken.record.headers.present:
        refused = taken.verdict if taken.verdict in WHATEVER_THE_CLAIM else None
        if bad.header_guard(taken.record) is not refused:
            return False
    return _same(bad.has_bad_headers(taken.record), taken.verdict in WHATEVER_THE_CLAIM)


ACCEPTED: Final[Mapping[str, Callable[[Triple], Any]]] = {
    "FreeClaimIsGiven": free_claim_is_given,
    "StaleOwnerIsReplaced": stale_owner_is_replaced,
    "OwnerMayAskAgain": owner_may_ask_again,
    "WinEndsOwnPause": win_ends_own_pause,
    "OwnerIsObeyed": owner_is_obeyed,
    "OwnerIsGranted": owner_is_granted,
    "OwnerMayRelease": owner_may_release,
    "PauseIsReplaced": pause_is_replaced,
    "PauseIsKept": pause_is_kept,
    "HowItWasWonIsKept": how_it_was_won_is_kept,
    "OriginalMayRestart": original_may_restart,
}
"""What must be accepted: this record, in this state, does that."""


@frozen
class Proved:
    """A property of a step."""

    name: str
    holds: Callable[[Triple, Witness], Any]
    witness: tuple[Callable[[Claim, Witness], Any], ...] = ()
    """What is assumed of the message before the step."""
    promise: Callable[[Triple, Witness], Any] | None = None
    """What is assumed of the record's sender."""


def shipped_checks(taken: Triple, of: Property) -> Iterator[Any]:
    """What the package, and the judges of its mutants, say of one property."""
    check = STEP_CHECKS.get(of)
    if check is not None:
        yield check(taken.before, taken.record, taken.after, taken.verdict)
    yield from (judge(taken) for name, judge in JUDGES if name is of)


def _of_step(of: Property) -> Proved:
    return Proved(of.value, lambda taken, _: all(shipped_checks(taken, of)))


def _conjunct(name: str, check: Conjunct) -> Proved:
    return Proved(name, lambda taken, _: check(taken.after, taken.record.offset))


def _accepted(name: str, check: Callable[[Triple], Any]) -> Proved:
    return Proved(name, lambda taken, _: check(taken))


def only_a_set_moves_back(taken: Triple) -> Any:
    """The position falls only by a release that says so: ranges rest on it."""
    return taken.verdict is Accepted.POSITION_SET or taken.after.position >= taken.before.position


PROVED: Final = (
    *(_of_step(each) for each in dict.fromkeys((*STEP_CHECKS, *(name for name, _ in JUDGES)))),
    *(_conjunct(name, check) for name, check in INVARIANT.items()),
    *(_accepted(name, check) for name, check in ACCEPTED.items()),
    _accepted("VerdictNamesCause", verdict_names_cause),
    _accepted("HasBadHeaders", has_bad_headers),
    _accepted("OnlyASetMovesBack", only_a_set_moves_back),
    Proved(Property.REFINES_LEASE.value, lambda taken, _: refines_lease(taken)),
    Proved(Property.AT_MOST_ONCE.value, at_most_once, (witness_invariant,)),
    Proved("TenureBeginsBelow", tenure_begins_below, (witness_invariant,)),
    Proved(
        Property.NONE_SKIPPED.value,
        none_skipped,
        (witness_invariant, none_is_skipped),
        sender_promises,
    ),
)
"""All of it; what is in INVARIANT is assumed of the claim before."""
