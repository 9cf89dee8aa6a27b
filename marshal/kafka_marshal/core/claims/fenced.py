"""The transitions of the fenced rules, one function per message.

Each reads like its action in `Claim.tla`: first the guards in the specification's order, each a
named refusal; then one new claim. A refused record still advances the claim's clock.
"""

from __future__ import annotations

from typing import Protocol

import attrs

from kafka_marshal.core.claims.verdicts import Accepted, Refused, Verdict
from kafka_marshal.core.messages import (
    NOT_DECIMAL,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import Claim, Rules

KNOWN_VERSIONS = (0, 1)


class _Appended(Protocol):
    """The fields of a record that the guards of headers need, whatever its message."""

    @property
    def offset(self) -> int: ...
    @property
    def headers(self) -> Headers: ...


def clock_advanced(claim: Claim, record: Record) -> int:
    """The claim's clock after this record: it never goes back, even if the broker's does.

    Spec: ClockAdvanced. Source: protocol, "Time".
    """
    timestamp_ms = record.timestamp_ms
    return timestamp_ms if timestamp_ms > claim.clock_ms else claim.clock_ms


def is_stale(claim: Claim, clock_ms: int, rules: Rules) -> bool:
    """Whether the owner was silent for *more than* twice the heartbeat interval.

    Spec: ClockSaysStale.
    """
    return (
        claim.last_heartbeat_ms is not None
        and clock_ms - claim.last_heartbeat_ms > rules.stale_after_ms
    )


def claiming_partition(
    claim: Claim, record: Record, message: ClaimingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """Give the claim to the consumer whose request comes first in the log.

    Spec: ClaimingPartition. Keeps: MonotoneEpoch, PauseHolds. Rules: R1, R1a, R1b, R1c, R8, R8a.

    A request that finds a live owner is refused and changes only the clock. So all readers of the
    same log agree on the owner without asking each other.
    """
    clock_ms = clock_advanced(claim, record)
    headers = record.headers
    if message.version not in KNOWN_VERSIONS:
        return _refuse(claim, clock_ms, Refused.UNKNOWN_VERSION)
    if headers.present:
        if _not_decimal(headers):
            return _refuse(claim, clock_ms, Refused.HEADER_NOT_DECIMAL)
        if _from_the_future(record):
            return _refuse(claim, clock_ms, Refused.HEADER_FROM_THE_FUTURE)
    if (
        claim.paused_until_ms is not None
        and clock_ms < claim.paused_until_ms
        and message.instance_id != claim.pauser
    ):
        return _refuse(claim, clock_ms, Refused.IS_PAUSED)

    if claim.last_heartbeat_ms is None:
        won = Accepted.CLAIMED
    elif claim.owner_instance == message.instance_id:
        won = Accepted.RECLAIMED
    elif claim.owner_client == message.client_id and restart_takeover(claim, record):
        won = Accepted.RESTARTED
    elif is_stale(claim, clock_ms, rules):
        won = Accepted.TOOK_OVER
    elif claim.owner_client == message.client_id:
        return _refuse(claim, clock_ms, Refused.DOES_NOT_SUPERSEDE)
    else:
        return _refuse(claim, clock_ms, Refused.LIVE_OWNER)

    by_pauser = message.instance_id == claim.pauser
    return (
        attrs.evolve(
            claim,
            owner_instance=message.instance_id,
            owner_client=message.client_id,
            epoch=record.offset,
            last_heartbeat_ms=clock_ms,
            clock_ms=clock_ms,
            won_with_headers=headers.present,
            paused_until_ms=None if by_pauser else claim.paused_until_ms,
        ),
        won,
    )


def restart_takeover(claim: Claim, record: Record) -> bool:
    """R1b: the header names the current epoch. R1c: neither side ever had headers.

    Spec: RestartTakeover.
    """
    if record.headers.present:
        return record.headers.supersedes is not None and record.headers.supersedes == claim.epoch
    return not claim.won_with_headers


def heartbeat(
    claim: Claim, record: Record, message: Heartbeat, rules: Rules
) -> tuple[Claim, Verdict]:
    """The owner is alive: refresh its time, and its position if it moved forward.

    Spec: Heartbeat. Keeps: Fenced, MonotonePosition. Rules: R2, R3, R9.

    A stale owner is still the owner if its heartbeat arrives before another client's claim. Under
    R9 the bare heartbeat of another instance of the owner's client takes over a claim that was won
    without headers: this is how the original restarts.
    """
    clock_ms = clock_advanced(claim, record)
    refusal = refuse_unless_owner(claim, record)
    if refusal is None:
        # Nearly every record of a log comes here, so the claim is built by position: `evolve` takes
        # five times as long.
        return (
            Claim(
                claim.owner_instance,
                claim.owner_client,
                claim.epoch,
                message.offset if message.offset > claim.position else claim.position,
                clock_ms,
                clock_ms,
                claim.won_with_headers,
                claim.pauser,
                claim.paused_until_ms,
                None,
                claim.position_set or says_position(record.headers, message.offset),
            ),
            Accepted.REFRESHED,
        )
    if refusal is Refused.NOT_OWNER and _is_fast_reclaim(claim, record):
        return (
            attrs.evolve(
                claim,
                owner_instance=message.instance_id,
                epoch=record.offset,
                position=max(claim.position, message.offset),
                position_set=claim.position_set or says_position(record.headers, message.offset),
                last_heartbeat_ms=clock_ms,
                clock_ms=clock_ms,
            ),
            Accepted.FAST_RECLAIMED,
        )
    return _refuse(claim, clock_ms, refusal)


def says_position(headers: Headers, offset: int) -> bool:
    """Whether a heartbeat or release at this offset states where to continue. Spec: SaysPosition.

    0 may be a position that was never set, so at 0 the sender must also state its start.
    """
    return offset > 0 or (offset == 0 and headers.start is not None)


def says_it_sets(record: Record) -> bool:
    """Whether the sender of a pauser's release intends to set the position, which it does anyway.

    Spec: SaysItSets. A sender with headers that does not state it gives the claim back at the
    position that it found. The original's administrator cannot state anything.
    """
    headers = record.headers
    return not headers.present or headers.set_position is not None


def _is_fast_reclaim(claim: Claim, record: Record) -> bool:
    """R9: no header at all, the owner's client, another instance. Spec: IsFastReclaim."""
    return not record.headers.present and record.message.client_id == claim.owner_client


def claiming_messages(
    claim: Claim, record: Record, message: ClaimingMessages, rules: Rules
) -> tuple[Claim, Verdict]:
    """Grant the owner everything from the position up to the message's offset, once.

    Spec: ClaimingMessages. Keeps: Fenced, AtMostOnce. Rules: R2, R4.

    The sender processes exactly the granted range, and only after it has read this grant in the
    log. A request at or below the position is refused and refreshes nothing.
    """
    clock_ms = clock_advanced(claim, record)
    refusal = refuse_unless_owner(claim, record)
    if refusal is not None:
        return _refuse(claim, clock_ms, refusal)
    if message.offset <= claim.position:
        return _refuse(claim, clock_ms, Refused.NOT_AHEAD)
    granted = attrs.evolve(
        claim,
        position=message.offset,
        position_set=True,
        last_heartbeat_ms=clock_ms,
        clock_ms=clock_ms,
    )
    return granted, Accepted.GRANTED


def releasing_partition(
    claim: Claim, record: Record, message: ReleasingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """The owner releases the claim; epoch and position are kept for the next owner.

    Spec: ReleasingPartition. Keeps: Fenced, MonotonePosition, SetPositionSticks. Rules: R2, R3, R8.

    An administrator's release may set any position: the owner is the pauser of the group's latest
    ReleaseGroup, or the record carries the header `marshal-set-position`.
    """
    clock_ms = clock_advanced(claim, record)
    refusal = refuse_unless_owner(claim, record)
    if refusal is not None:
        return _refuse(claim, clock_ms, refusal)
    sets = claim.owner_instance == claim.pauser or record.headers.set_position is not None
    if sets and message.offset < 0:
        return _refuse(claim, clock_ms, Refused.NEGATIVE_POSITION)
    released = attrs.evolve(
        claim,
        owner_instance=None,
        owner_client=None,
        position=message.offset if sets else max(claim.position, message.offset),
        position_set=claim.position_set
        or says_position(record.headers, message.offset)
        or (sets and says_it_sets(record)),
        last_heartbeat_ms=None,
        clock_ms=clock_ms,
        won_with_headers=False,
    )
    return released, Accepted.POSITION_SET if sets else Accepted.RELEASED


def release_group(
    claim: Claim, record: Record, message: ReleaseGroup, rules: Rules
) -> tuple[Claim, Verdict]:
    """End ownership, and pause the group for the sender.

    Spec: ReleaseGroup. Keeps: PauseHolds. Rules: R8.

    One that has expired ends ownership without a pause; a second one replaces the first. An expiry
    beyond `pause_max_ms` is shortened to it.
    """
    clock_ms = clock_advanced(claim, record)
    if message.version not in KNOWN_VERSIONS:
        return _refuse(claim, clock_ms, Refused.UNKNOWN_VERSION)
    until_ms = min(message.expires_unix_s * 1000, clock_ms + rules.pause_max_ms)
    paused = attrs.evolve(
        claim,
        owner_instance=None,
        owner_client=None,
        last_heartbeat_ms=None,
        clock_ms=clock_ms,
        won_with_headers=False,
        pauser=message.instance_id,
        paused_until_ms=until_ms if until_ms > clock_ms else None,
    )
    return paused, Accepted.GROUP_RELEASED


def refuse_unless_owner(claim: Claim, record: Record) -> Refused | None:
    """The guards that Heartbeat, ClaimingMessages and ReleasingPartition share (R2)."""
    message, headers = record.message, record.headers
    if message.version not in KNOWN_VERSIONS:
        return Refused.UNKNOWN_VERSION
    if headers.present:
        if _not_decimal(headers):
            return Refused.HEADER_NOT_DECIMAL
        if _from_the_future(record):
            return Refused.HEADER_FROM_THE_FUTURE
        if headers.epoch is not None:
            if claim.epoch is None or headers.epoch > claim.epoch:
                return Refused.LOG_LOST_RECORDS
            if headers.epoch < claim.epoch:
                return Refused.SUPERSEDED
            if claim.last_heartbeat_ms is None:
                return Refused.NOBODY_OWNS
            return None if message.instance_id == claim.owner_instance else Refused.FORGED
    if claim.last_heartbeat_ms is None:
        return Refused.NOBODY_OWNS
    if claim.won_with_headers:
        return Refused.EPOCH_MISSING
    return None if message.instance_id == claim.owner_instance else Refused.NOT_OWNER


def header_guard(record: _Appended) -> Refused | None:
    """The first guard that refuses a record because of its headers. Spec: HeaderGuard."""
    if _not_decimal(record.headers):
        return Refused.HEADER_NOT_DECIMAL
    return Refused.HEADER_FROM_THE_FUTURE if _from_the_future(record) else None


def has_bad_headers(record: Record) -> bool:
    """Whether it is refused in any state, for its version or a header. Spec: HasBadHeaders."""
    return record.message.version not in KNOWN_VERSIONS or (
        record.headers.present and (_not_decimal(record.headers) or _from_the_future(record))
    )


def _not_decimal(headers: Headers) -> bool:
    """Spec: HeaderNotDecimal."""
    return NOT_DECIMAL in (
        headers.epoch,
        headers.seen,
        headers.clock,
        headers.supersedes,
        headers.set_position,
    )


def _from_the_future(record: _Appended) -> bool:
    """Spec: HeaderFromTheFuture."""
    headers, offset = record.headers, record.offset
    return (headers.epoch is not None and headers.epoch >= offset) or (
        headers.seen is not None and headers.seen >= offset
    )


def _refuse(claim: Claim, clock_ms: int, guard: Refused) -> tuple[Claim, Verdict]:
    return attrs.evolve(claim, clock_ms=clock_ms), guard
