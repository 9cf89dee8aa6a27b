"""One record, one claim: the guards of `core.claims.fenced` and `core.claims.original`, compiled.

One row of numbers is one claim, in the order of fields below. The functions are in the order of the
reducer's, whose docstrings give the reasons. It computes in 64 bits, on records that `first_wrong`
accepted.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np

from kafka_marshal.core import wire
from kafka_marshal.core.claims.verdicts import Accepted, Refused, Verdict
from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.kernel.columns import HEADER_COLUMNS, MALFORMED, NOT_DECIMAL, STRICT

HEARTBEAT: Final = wire.number_of(Heartbeat)
CLAIMING_PARTITION: Final = wire.number_of(ClaimingPartition)
RELEASING_PARTITION: Final = wire.number_of(ReleasingPartition)
CLAIMING_MESSAGES: Final = wire.number_of(ClaimingMessages)
RELEASE_GROUP: Final = wire.number_of(ReleaseGroup)
VERDICTS: Final[tuple[Verdict, ...]] = (*Accepted, *Refused)
"""The verdicts, by the numbers that `Fold.apply` returns."""
NO_MESSAGE: Final = -1
READ_TWICE: Final = -2
"""The offset was folded already; the caller compares the contents to determine the kind."""

BOUND: Final = 2**53
"""Larger times (ms, and s * 1000) are left to `World`."""

_NUMBER: Final = {verdict: number for number, verdict in enumerate(VERDICTS)}
NONE: Final = -(2**63)
(
    OWNER_INSTANCE,
    OWNER_CLIENT,
    EPOCH,
    POSITION,
    LAST_HEARTBEAT,
    CLOCK,
    WITH_HEADERS,
    PAUSER,
    PAUSED_UNTIL,
    LAST_RELEASE,
    SET,
    FIELDS,
) = range(12)
NEW_CLAIM: Final = (NONE, NONE, NONE, 0, NONE, -1, 0, NONE, NONE, NONE, 0)

_EPOCH_HEADER, _SEEN, _CLOCK_HEADER, _SUPERSEDES, _SET_POSITION = map(
    HEADER_COLUMNS.index, ("epoch", "seen", "clock", "supersedes", "set_position")
)
_START: Final = HEADER_COLUMNS.index("start")
_CLAIMED: Final = _NUMBER[Accepted.CLAIMED]
_RECLAIMED: Final = _NUMBER[Accepted.RECLAIMED]
_RESTARTED: Final = _NUMBER[Accepted.RESTARTED]
_TOOK_OVER: Final = _NUMBER[Accepted.TOOK_OVER]
_REFRESHED: Final = _NUMBER[Accepted.REFRESHED]
_FAST_RECLAIMED: Final = _NUMBER[Accepted.FAST_RECLAIMED]
_GRANTED: Final = _NUMBER[Accepted.GRANTED]
_RELEASED: Final = _NUMBER[Accepted.RELEASED]
_POSITION_SET: Final = _NUMBER[Accepted.POSITION_SET]
_GROUP_RELEASED: Final = _NUMBER[Accepted.GROUP_RELEASED]
_OVERWRITTEN: Final = _NUMBER[Accepted.OVERWRITTEN]
_IGNORED: Final = _NUMBER[Accepted.IGNORED]
_UNKNOWN_VERSION: Final = _NUMBER[Refused.UNKNOWN_VERSION]
_HEADER_NOT_DECIMAL: Final = _NUMBER[Refused.HEADER_NOT_DECIMAL]
_HEADER_FROM_THE_FUTURE: Final = _NUMBER[Refused.HEADER_FROM_THE_FUTURE]
_IS_PAUSED: Final = _NUMBER[Refused.IS_PAUSED]
_LIVE_OWNER: Final = _NUMBER[Refused.LIVE_OWNER]
_DOES_NOT_SUPERSEDE: Final = _NUMBER[Refused.DOES_NOT_SUPERSEDE]
_LOG_LOST_RECORDS: Final = _NUMBER[Refused.LOG_LOST_RECORDS]
_SUPERSEDED: Final = _NUMBER[Refused.SUPERSEDED]
_NOBODY_OWNS: Final = _NUMBER[Refused.NOBODY_OWNS]
_FORGED: Final = _NUMBER[Refused.FORGED]
_EPOCH_MISSING: Final = _NUMBER[Refused.EPOCH_MISSING]
_NOT_OWNER: Final = _NUMBER[Refused.NOT_OWNER]
_NOT_AHEAD: Final = _NUMBER[Refused.NOT_AHEAD]
_NEGATIVE_POSITION: Final = _NUMBER[Refused.NEGATIVE_POSITION]
FINE: Final = -3
_NO_SUCH_KIND: Final = "kernel.steps knows no such message: compile what core.claims.reducer does"

_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def bad_headers(headers, row, offset):  # type: ignore[no-untyped-def]
    """The guards of `fenced.has_bad_headers`, or FINE."""
    for field in range(STRICT):
        if headers[row, field] == NOT_DECIMAL:
            return _HEADER_NOT_DECIMAL
    if headers[row, _EPOCH_HEADER] >= offset or headers[row, _SEEN] >= offset:
        return _HEADER_FROM_THE_FUTURE
    return FINE


@_compiled
def _unless_owner(claims, at, version, present, headers, row, offset, instance):  # type: ignore[no-untyped-def]
    """`fenced.refuse_unless_owner`, or FINE."""
    if version != 0 and version != 1:
        return _UNKNOWN_VERSION
    if present:
        bad = bad_headers(headers, row, offset)
        if bad != FINE:
            return bad
        epoch = headers[row, _EPOCH_HEADER]
        if epoch >= 0:
            if claims[at, EPOCH] == NONE or epoch > claims[at, EPOCH]:
                return _LOG_LOST_RECORDS
            if epoch < claims[at, EPOCH]:
                return _SUPERSEDED
            if claims[at, LAST_HEARTBEAT] == NONE:
                return _NOBODY_OWNS
            return FINE if instance == claims[at, OWNER_INSTANCE] else _FORGED
    if claims[at, LAST_HEARTBEAT] == NONE:
        return _NOBODY_OWNS
    if claims[at, WITH_HEADERS]:
        return _EPOCH_MISSING
    return FINE if instance == claims[at, OWNER_INSTANCE] else _NOT_OWNER


@_compiled
def _fenced_claiming(  # type: ignore[no-untyped-def]
    claims, at, version, present, headers, row, offset, instance, client, stale_ms
):
    clock_ms = claims[at, CLOCK]
    if version != 0 and version != 1:
        return _UNKNOWN_VERSION
    if present:
        bad = bad_headers(headers, row, offset)
        if bad != FINE:
            return bad
    by_pauser = instance == claims[at, PAUSER]
    if claims[at, PAUSED_UNTIL] != NONE and clock_ms < claims[at, PAUSED_UNTIL] and not by_pauser:
        return _IS_PAUSED
    if present:
        restart = headers[row, _SUPERSEDES] >= 0 and headers[row, _SUPERSEDES] == claims[at, EPOCH]
    else:
        restart = not claims[at, WITH_HEADERS]
    if claims[at, LAST_HEARTBEAT] == NONE:
        won = _CLAIMED
    elif claims[at, OWNER_INSTANCE] == instance:
        won = _RECLAIMED
    elif claims[at, OWNER_CLIENT] == client and restart:
        won = _RESTARTED
    elif clock_ms - claims[at, LAST_HEARTBEAT] > stale_ms:
        won = _TOOK_OVER
    elif claims[at, OWNER_CLIENT] == client:
        return _DOES_NOT_SUPERSEDE
    else:
        return _LIVE_OWNER
    claims[at, OWNER_INSTANCE] = instance
    claims[at, OWNER_CLIENT] = client
    claims[at, EPOCH] = offset
    claims[at, LAST_HEARTBEAT] = clock_ms
    claims[at, WITH_HEADERS] = present
    if by_pauser:
        claims[at, PAUSED_UNTIL] = NONE
    return won


@_compiled
def says_position(headers, row, number):  # type: ignore[no-untyped-def]
    """`fenced.says_position`."""
    return number > 0 or (number == 0 and headers[row, _START] >= 0)


@_compiled
def fenced_step(  # type: ignore[no-untyped-def]
    claims, at, kind, version, number, present, headers, row, offset, timestamp_ms,
    instance, client, stale_ms, pause_max_ms,
):  # fmt: skip
    """`core.claims.reducer.step` under the fenced rules, in place; the verdict's number."""
    if timestamp_ms > claims[at, CLOCK]:
        claims[at, CLOCK] = timestamp_ms
    clock_ms = claims[at, CLOCK]
    if kind == CLAIMING_PARTITION:
        return _fenced_claiming(
            claims, at, version, present, headers, row, offset, instance, client, stale_ms
        )
    if kind == RELEASE_GROUP:
        if version != 0 and version != 1:
            return _UNKNOWN_VERSION
        until_ms = min(number * 1000, clock_ms + pause_max_ms)
        claims[at, OWNER_INSTANCE] = claims[at, OWNER_CLIENT] = claims[at, LAST_HEARTBEAT] = NONE
        claims[at, WITH_HEADERS] = 0
        claims[at, PAUSER] = instance
        claims[at, PAUSED_UNTIL] = until_ms if until_ms > clock_ms else NONE
        return _GROUP_RELEASED
    if kind != HEARTBEAT and kind != CLAIMING_MESSAGES and kind != RELEASING_PARTITION:
        raise NotImplementedError(_NO_SUCH_KIND)
    refusal = _unless_owner(claims, at, version, present, headers, row, offset, instance)
    if kind == HEARTBEAT:
        if refusal == FINE:
            claims[at, POSITION] = max(claims[at, POSITION], number)
            claims[at, SET] |= says_position(headers, row, number)
            claims[at, LAST_HEARTBEAT] = clock_ms
            return _REFRESHED
        if refusal == _NOT_OWNER and not present and client == claims[at, OWNER_CLIENT]:
            claims[at, OWNER_INSTANCE] = instance
            claims[at, EPOCH] = offset
            claims[at, POSITION] = max(claims[at, POSITION], number)
            claims[at, SET] |= says_position(headers, row, number)
            claims[at, LAST_HEARTBEAT] = clock_ms
            return _FAST_RECLAIMED
        return refusal
    if refusal != FINE:
        return refusal
    if kind == CLAIMING_MESSAGES:
        if number <= claims[at, POSITION]:
            return _NOT_AHEAD
        claims[at, POSITION] = number
        claims[at, SET] = 1
        claims[at, LAST_HEARTBEAT] = clock_ms
        return _GRANTED
    sets = claims[at, OWNER_INSTANCE] == claims[at, PAUSER] or headers[row, _SET_POSITION] >= 0
    if sets and number < 0:
        return _NEGATIVE_POSITION
    claims[at, POSITION] = number if sets else max(claims[at, POSITION], number)
    says_it_sets = not present or headers[row, _SET_POSITION] >= 0
    claims[at, SET] |= says_position(headers, row, number) or (sets and says_it_sets)
    claims[at, OWNER_INSTANCE] = claims[at, OWNER_CLIENT] = claims[at, LAST_HEARTBEAT] = NONE
    claims[at, WITH_HEADERS] = 0
    return _POSITION_SET if sets else _RELEASED


@_compiled
def _original_step(  # type: ignore[no-untyped-def]
    claims, at, kind, unix_s, number, timestamp_ms, instance, client, group, stale_ms
):
    claims[at, CLOCK] = timestamp_ms
    said_ms = unix_s * 1000 if unix_s != 0 else NONE
    if kind == HEARTBEAT:
        same = claims[at, OWNER_INSTANCE] == instance and claims[at, OWNER_CLIENT] == client
        claims[at, OWNER_INSTANCE] = instance
        claims[at, OWNER_CLIENT] = client
        claims[at, EPOCH] = claims[at, LAST_RELEASE] = NONE
        claims[at, WITH_HEADERS] = 0
        claims[at, POSITION] = number
        claims[at, LAST_HEARTBEAT] = said_ms
        return _REFRESHED if same else _OVERWRITTEN
    if kind == CLAIMING_PARTITION:
        last_ms = claims[at, LAST_HEARTBEAT]
        if last_ms != NONE:
            age_ms = (timestamp_ms // 1000 - last_ms // 1000) * 1000
            if age_ms >= 0 and age_ms < stale_ms:
                return _LIVE_OWNER
        if last_ms == NONE:
            won = _CLAIMED
        elif claims[at, OWNER_INSTANCE] == instance:
            won = _RECLAIMED
        else:
            won = _TOOK_OVER
        claims[at, OWNER_INSTANCE] = instance
        claims[at, OWNER_CLIENT] = client
        if claims[at, PAUSER] != NONE:
            claims[at, POSITION] = 0
        claims[at, LAST_HEARTBEAT] = said_ms
        claims[at, LAST_RELEASE] = NONE
        return won
    if kind == CLAIMING_MESSAGES:
        return _IGNORED
    if kind == RELEASING_PARTITION:
        # Code 0 is the empty id, which the original's untouched claim holds.
        owner_instance = 0 if claims[at, OWNER_INSTANCE] == NONE else claims[at, OWNER_INSTANCE]
        owner_client = 0 if claims[at, OWNER_CLIENT] == NONE else claims[at, OWNER_CLIENT]
        if instance != owner_instance or client != owner_client:
            return _NOT_OWNER
        if claims[at, OWNER_INSTANCE] == NONE and group != 0:
            return _NOT_OWNER
        claims[at, POSITION] = number
        claims[at, LAST_HEARTBEAT] = NONE
        claims[at, LAST_RELEASE] = unix_s * 1000
        return _RELEASED
    if kind != RELEASE_GROUP:
        raise NotImplementedError(_NO_SUCH_KIND)
    claims[at, PAUSER] = instance
    claims[at, PAUSED_UNTIL] = number * 1000
    return _GROUP_RELEASED


@_compiled
def _is_obeyed(claims, at, version, headers, row, offset, instance):  # type: ignore[no-untyped-def]
    """Whether this is a heartbeat with headers by the claim's owner, as nearly all records are.

    It decides the same as `_unless_owner`, but twice as fast, since it gives no reason. Without an
    owner, the claim's instance equals no sender's.
    """
    claim, header = claims[at], headers[row]
    return (
        (version == 0 or version == 1)
        and header[_EPOCH_HEADER] == claim[EPOCH]
        and header[_EPOCH_HEADER] < offset
        and header[_SEEN] < offset
        and header[_SEEN] != NOT_DECIMAL
        and header[_CLOCK_HEADER] != NOT_DECIMAL
        and header[_SUPERSEDES] != NOT_DECIMAL
        and header[_SET_POSITION] != NOT_DECIMAL
        and claim[OWNER_INSTANCE] == instance
    )


def rules_fit(stale_after_ms: float, pause_max_ms: int) -> bool:
    """Whether all times that these durations lead to fit into 64 bits."""
    return stale_after_ms <= BOUND and pause_max_ms <= BOUND


@_compiled
def first_wrong(  # type: ignore[no-untyped-def]
    before, rows, offsets, timestamps_ms, kinds, unix_s, numbers
):
    """The first record that cannot be folded, or -1, and the offset before it."""
    for row in rows:
        offset, said_s, number = offsets[row], unix_s[row], numbers[row]
        if (
            offset < before
            or not (-BOUND < timestamps_ms[row] < BOUND)
            or not (-(BOUND // 1000) < said_s < BOUND // 1000)
            or (kinds[row] == RELEASE_GROUP and not (-(BOUND // 1000) < number < BOUND // 1000))
        ):
            return before, row
        before = offset
    return before, -1


@_compiled
def fold(  # type: ignore[no-untyped-def]
    fenced, stale_ms, original_stale_ms, pause_max_ms, last_offset,
    rows, offsets, timestamps_ms, kinds, versions, unix_s, numbers, addresses, present, headers,
    table, claims, born, newborn, first_of_group, next_in_group, verdicts,
):  # fmt: skip
    """`World.apply` for these rows: returns which claims are new, and the last folded offset."""
    begun = []
    begun.append(np.int64(0))
    for index, row in enumerate(rows):
        kind, offset, timestamp_ms = kinds[row], offsets[row], timestamps_ms[row]
        if kind == MALFORMED:
            verdicts[index] = NO_MESSAGE
            continue
        if offset == last_offset:
            verdicts[index] = READ_TWICE
            continue
        last_offset = offset
        address = addresses[row]
        instance, client = np.int64(table[address, 0]), np.int64(table[address, 1])
        group, claim = np.int64(table[address, 2]), table[address, 3]
        if kind == RELEASE_GROUP:
            # Every known claim of the group, and the initial state of later ones.
            each = first_of_group[group]
            while True:
                states, at = (newborn, group) if each < 0 else (claims, each)
                if fenced:
                    verdict = fenced_step(
                        states, at, kind, versions[row], numbers[row], present[row], headers, row,
                        offset, timestamp_ms, instance, client, stale_ms, pause_max_ms,
                    )  # fmt: skip
                else:
                    verdict = _original_step(
                        states, at, kind, unix_s[row], numbers[row], timestamp_ms, instance, client,
                        group, original_stale_ms,
                    )  # fmt: skip
                if each < 0:
                    break
                each = next_in_group[each]
            verdicts[index] = verdict
            continue
        if (
            fenced
            and kind == HEARTBEAT
            and present[row]
            and born[claim]
            and _is_obeyed(claims, claim, versions[row], headers, row, offset, instance)
        ):
            claims[claim, CLOCK] = max(claims[claim, CLOCK], timestamp_ms)
            claims[claim, POSITION] = max(claims[claim, POSITION], numbers[row])
            claims[claim, SET] |= says_position(headers, row, numbers[row])
            claims[claim, LAST_HEARTBEAT] = claims[claim, CLOCK]
            verdicts[index] = _REFRESHED
            continue
        if not born[claim]:
            born[claim] = True
            begun.append(np.int64(claim))
            claims[claim] = newborn[group]
            next_in_group[claim] = first_of_group[group]
            first_of_group[group] = claim
        if fenced:
            verdicts[index] = fenced_step(
                claims, claim, kind, versions[row], numbers[row], present[row], headers, row,
                offset, timestamp_ms, instance, client, stale_ms, pause_max_ms,
            )  # fmt: skip
        else:
            verdicts[index] = _original_step(
                claims, claim, kind, unix_s[row], numbers[row], timestamp_ms, instance, client,
                group, original_stale_ms,
            )  # fmt: skip
    return begun[1:], last_offset
