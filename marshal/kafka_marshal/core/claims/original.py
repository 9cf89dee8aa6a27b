"""The transitions of the original's rules: what the Go Marshal of 2015-18 does.

Source: its own handlers, recorded row by row in `tests/data/captures/original/*.trace.jsonl`.
Everything that the fenced rules forbid is allowed here on purpose: these rules serve to judge a
production log, not to run a consumer.
"""

from __future__ import annotations

import attrs

from kafka_marshal.core.claims.verdicts import Accepted, Refused, Verdict
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import Claim, Rules


def claimed(claim: Claim, now_ms: int, rules: Rules) -> bool:
    """The original's `claimed(now)`: in whole seconds, exactly twice the interval is unclaimed.

    Spec: ClaimedAt. A negative age, from a clock that is ahead, is unclaimed too: fault (h).
    """
    if claim.last_heartbeat_ms is None:
        return False
    age_s = now_ms // 1000 - claim.last_heartbeat_ms // 1000
    return 0 <= age_s * 1000 < rules.stale_after_ms


def heartbeat(
    claim: Claim, record: Record, message: Heartbeat, rules: Rules
) -> tuple[Claim, Verdict]:
    """Make the sender the owner, regardless of the previous owner. Spec: OriginalHeartbeat."""
    same = claim.owner_instance == message.instance_id and claim.owner_client == message.client_id
    return (
        Claim(
            owner_instance=message.instance_id,
            owner_client=message.client_id,
            position=message.offset,
            last_heartbeat_ms=_nonzero_ms(message.unix_s),
            clock_ms=record.timestamp_ms,
            pauser=claim.pauser,
            paused_until_ms=claim.paused_until_ms,
        ),
        Accepted.REFRESHED if same else Accepted.OVERWRITTEN,
    )


def claiming_partition(
    claim: Claim, record: Record, message: ClaimingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """Give an unclaimed claim to the sender; drop the request otherwise, even the owner's own.

    Spec: OriginalClaimingPartition. The last version with an admin resets the position to 0 at a
    win, the last without keeps it: reset once a ReleaseGroup of the group was seen.
    """
    if claimed(claim, record.timestamp_ms, rules):
        return _at(claim, record), Refused.LIVE_OWNER
    if claim.last_heartbeat_ms is None:
        won = Accepted.CLAIMED
    elif claim.owner_instance == message.instance_id:
        won = Accepted.RECLAIMED
    else:
        won = Accepted.TOOK_OVER
    taken = attrs.evolve(
        claim,
        owner_instance=message.instance_id,
        owner_client=message.client_id,
        position=claim.position if claim.pauser is None else 0,
        last_heartbeat_ms=_nonzero_ms(message.unix_s),
        clock_ms=record.timestamp_ms,
        last_release_ms=None,
    )
    return taken, won


def releasing_partition(
    claim: Claim, record: Record, message: ReleasingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """Free the claim at any position, if client and instance are the last owner's.

    Spec: OriginalReleasingPartition. The ids are kept, so a second release is obeyed again.
    """
    sender = (message.instance_id, message.client_id)
    if sender != (claim.owner_instance or "", claim.owner_client or ""):
        return _at(claim, record), Refused.NOT_OWNER
    if claim.owner_instance is None and message.group_id:
        return _at(claim, record), Refused.NOT_OWNER  # the original's untouched claim has group ""
    freed = attrs.evolve(
        claim,
        position=message.offset,
        last_heartbeat_ms=None,
        clock_ms=record.timestamp_ms,
        last_release_ms=message.unix_s * 1000,
    )
    return freed, Accepted.RELEASED


def claiming_messages(
    claim: Claim, record: Record, message: ClaimingMessages, rules: Rules
) -> tuple[Claim, Verdict]:
    """Do nothing: the original never wrote it. Spec: OriginalClaimingMessages."""
    return _at(claim, record), Accepted.IGNORED


def release_group(
    claim: Claim, record: Record, message: ReleaseGroup, rules: Rules
) -> tuple[Claim, Verdict]:
    """Remember the pause, which only the original's clients look at. Spec: OriginalReleaseGroup."""
    paused = attrs.evolve(
        claim,
        clock_ms=record.timestamp_ms,
        pauser=message.instance_id,
        paused_until_ms=message.expires_unix_s * 1000,
    )
    return paused, Accepted.GROUP_RELEASED


def _at(claim: Claim, record: Record) -> Claim:
    return attrs.evolve(claim, clock_ms=record.timestamp_ms)


def _nonzero_ms(unix_s: int) -> int | None:
    """The original's LastHeartbeat of 0 means that there is no owner."""
    return unix_s * 1000 or None
