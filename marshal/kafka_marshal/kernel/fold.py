"""Claims stepped through columns of records, compiled: `World` for a log of millions.

One row of numbers is one claim, one compiled function is one transition, in the order of guards of
`core.fenced` and `core.original`, whose docstrings say why. It computes in 64 bits; whatever does
not fit is refused before anything is folded (`BeyondKernel`), and `World` is there for it.
"""

from __future__ import annotations

import math
from typing import Final, TypeVar

import numba
import numpy as np
import numpy.typing as npt

from kafka_marshal.core.state import FENCED, Claim, ClaimKey, Rules, RuleSet
from kafka_marshal.core.verdicts import Accepted, Refused, Verdict
from kafka_marshal.core.world import OutOfOrder
from kafka_marshal.kernel.columns import (
    CLAIMING_MESSAGES,
    HEARTBEAT,
    MALFORMED,
    NOT_DECIMAL,
    RELEASE_GROUP,
    RELEASING_PARTITION,
    Columns,
    Ints,
    Names,
    Small,
)
from kafka_marshal.kernel.parsing import CLAIMING_PARTITION

VERDICTS: Final[tuple[Verdict, ...]] = (*Accepted, *Refused)
"""What a record did, by its number in what `Fold.apply` returns."""
NO_MESSAGE: Final = -1
READ_TWICE: Final = -2
"""The offset was folded already; who compares the contents says which kind it is."""

BOUND: Final = 2**53
"""Times (ms, and s * 1000) beyond this are left to `World`."""

_NUMBER: Final = {verdict: number for number, verdict in enumerate(VERDICTS)}
_NONE: Final = -(2**63)
(
    _OWNER_INSTANCE,
    _OWNER_CLIENT,
    _EPOCH,
    _POSITION,
    _LAST_HEARTBEAT,
    _CLOCK,
    _WITH_HEADERS,
    _PAUSER,
    _PAUSED_UNTIL,
    _LAST_RELEASE,
    _FIELDS,
) = range(11)
_NEW_CLAIM: Final = (_NONE, _NONE, _NONE, 0, _NONE, -1, 0, _NONE, _NONE, _NONE)


class BeyondKernel(ValueError):
    """A time is further from 1970 than 2^53 ms: fold these records by `World`."""


class Fold:
    """Folds the records of one coordinating partition, as `World` does."""

    def __init__(self, rules: Rules = FENCED, names: Names | None = None) -> None:
        self.rules = rules
        self.names = names or Names()
        self._claims = np.empty((0, _FIELDS), np.int64)
        self._born = np.empty(0, np.bool_)
        self._order: list[int] = []
        self._newborn = np.empty((0, _FIELDS), np.int64)
        self._first_of_group = np.empty(0, np.int64)
        self._next_in_group = np.empty(0, np.int64)
        self._last_offset = -1

    def apply(self, offsets: Ints, timestamps_ms: Ints, columns: Columns) -> Small:
        """Fold records in offset order; what each did, as a number.

        The number is an index in `VERDICTS`, NO_MESSAGE, or READ_TWICE.

        Raises:
            OutOfOrder: an offset is below one already folded. Nothing of the batch was folded.
            BeyondKernel: a time does not fit. Nothing of the batch was folded.
        """
        if not len(offsets):
            return np.empty(0, np.int8)
        before = np.concatenate([[self._last_offset], offsets[:-1]])
        if (fell := np.flatnonzero(offsets < before)).size:
            row = fell[0]
            raise OutOfOrder(f"offset {offsets[row]} came after offset {before[row]}")
        self._check_times(timestamps_ms, columns)
        self._make_room()
        verdicts = np.empty(len(offsets), np.int8)
        born = _fold(
            self.rules.rule_set is RuleSet.FENCED,
            math.floor(self.rules.stale_after_ms),
            math.ceil(self.rules.stale_after_ms),
            int(self.rules.pause_max_ms),
            self._last_offset,
            offsets,
            timestamps_ms,
            columns.kind,
            columns.version,
            columns.unix_s,
            columns.number,
            columns.address,
            columns.present,
            columns.headers,
            self.names.table,
            self._claims,
            self._born,
            self._newborn,
            self._first_of_group,
            self._next_in_group,
            verdicts,
        )
        self._order += [int(claim) for claim in born]
        folded = np.flatnonzero(columns.kind != MALFORMED)
        if folded.size:
            self._last_offset = int(offsets[folded[-1]])
        return verdicts

    def claims(self) -> dict[ClaimKey, Claim]:
        """Every claim that had a record of its own, in order of first sight."""
        keys = self.names.claim_keys()
        instances, clients = list(self.names.instances), list(self.names.clients)
        return {keys[code]: _claim(self._claims[code], instances, clients) for code in self._order}

    def put(self, key: ClaimKey, claim: Claim) -> None:
        """Go on from this claim, as if its records had been folded here."""
        names = self.names
        code = names._claim(key)
        self._make_room()
        row = [
            _code(claim.owner_instance, names.instances),
            _code(claim.owner_client, names.clients),
            _number(claim.epoch),
            claim.position,
            _number(claim.last_heartbeat_ms),
            claim.clock_ms,
            int(claim.won_with_headers),
            _code(claim.pauser, names.instances),
            _number(claim.paused_until_ms),
            _number(claim.last_release_ms),
        ]
        if not self._born[code]:
            self._born[code] = True
            self._order.append(code)
            group = names.claim_groups[code]
            self._next_in_group[code] = self._first_of_group[group]
            self._first_of_group[group] = code
        self._claims[code] = row

    def _make_room(self) -> None:
        claims, groups = len(self.names.claims), len(self.names.groups)
        self._claims = _longer(self._claims, claims, _NEW_CLAIM)
        self._born = _longer(self._born, claims, False)
        self._next_in_group = _longer(self._next_in_group, claims, -1)
        self._newborn = _longer(self._newborn, groups, _NEW_CLAIM)
        self._first_of_group = _longer(self._first_of_group, groups, -1)

    def _check_times(self, timestamps_ms: Ints, columns: Columns) -> None:
        times_ms = [timestamps_ms, columns.unix_s, columns.number[columns.kind == RELEASE_GROUP]]
        limits = (BOUND, BOUND // 1000, BOUND // 1000)
        for numbers, limit in zip(times_ms, limits, strict=True):
            if len(numbers) and not (-limit < numbers.min() and numbers.max() < limit):
                raise BeyondKernel(f"a time is not within 2^53 ms of 1970: {numbers.max()}")


_Array = TypeVar("_Array", npt.NDArray[np.int64], npt.NDArray[np.bool_])


def _longer(array: _Array, length: int, fill: int | tuple[int | None, ...]) -> _Array:
    if len(array) >= length:
        return array
    longer = np.empty((max(length, 2 * len(array)), *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    longer[len(array) :] = fill
    return longer


def _number(value: int | None) -> int:
    return _NONE if value is None else value


def _code(name: str | None, codes: dict[str, int]) -> int:
    return _NONE if name is None else codes.setdefault(name, len(codes))


def _claim(row: npt.NDArray[np.int64], instances: list[str], clients: list[str]) -> Claim:
    numbers = [None if number == _NONE else int(number) for number in row]

    def name(field: int, known: list[str]) -> str | None:
        code = numbers[field]
        return None if code is None else known[code]

    return Claim(
        owner_instance=name(_OWNER_INSTANCE, instances),
        owner_client=name(_OWNER_CLIENT, clients),
        epoch=numbers[_EPOCH],
        position=int(row[_POSITION]),
        last_heartbeat_ms=numbers[_LAST_HEARTBEAT],
        clock_ms=int(row[_CLOCK]),
        won_with_headers=bool(row[_WITH_HEADERS]),
        pauser=name(_PAUSER, instances),
        paused_until_ms=numbers[_PAUSED_UNTIL],
        last_release_ms=numbers[_LAST_RELEASE],
    )


# --- compiled -------------------------------------------------------------------------------------

_EPOCH_HEADER, _SEEN, _CLOCK_HEADER, _SUPERSEDES, _SET_POSITION = range(5)
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
_FINE: Final = -3

_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def _bad_headers(headers, row, offset):  # type: ignore[no-untyped-def]
    """The guards of `fenced.has_bad_headers`, or _FINE."""
    for field in range(5):
        if headers[row, field] == NOT_DECIMAL:
            return _HEADER_NOT_DECIMAL
    if headers[row, _EPOCH_HEADER] >= offset or headers[row, _SEEN] >= offset:
        return _HEADER_FROM_THE_FUTURE
    return _FINE


@_compiled
def _unless_owner(claim, version, present, headers, row, offset, instance):  # type: ignore[no-untyped-def]
    """`fenced.refuse_unless_owner`, or _FINE."""
    if version != 0 and version != 1:
        return _UNKNOWN_VERSION
    if present:
        bad = _bad_headers(headers, row, offset)
        if bad != _FINE:
            return bad
        epoch = headers[row, _EPOCH_HEADER]
        if epoch >= 0:
            if claim[_EPOCH] == _NONE or epoch > claim[_EPOCH]:
                return _LOG_LOST_RECORDS
            if epoch < claim[_EPOCH]:
                return _SUPERSEDED
            if claim[_LAST_HEARTBEAT] == _NONE:
                return _NOBODY_OWNS
            return _FINE if instance == claim[_OWNER_INSTANCE] else _FORGED
    if claim[_LAST_HEARTBEAT] == _NONE:
        return _NOBODY_OWNS
    if claim[_WITH_HEADERS]:
        return _EPOCH_MISSING
    return _FINE if instance == claim[_OWNER_INSTANCE] else _NOT_OWNER


@_compiled
def _fenced_claiming(  # type: ignore[no-untyped-def]
    claim, version, present, headers, row, offset, instance, client, stale_ms
):
    clock_ms = claim[_CLOCK]
    if version != 0 and version != 1:
        return _UNKNOWN_VERSION
    if present:
        bad = _bad_headers(headers, row, offset)
        if bad != _FINE:
            return bad
    by_pauser = instance == claim[_PAUSER]
    if claim[_PAUSED_UNTIL] != _NONE and clock_ms < claim[_PAUSED_UNTIL] and not by_pauser:
        return _IS_PAUSED
    if present:
        restart = headers[row, _SUPERSEDES] >= 0 and headers[row, _SUPERSEDES] == claim[_EPOCH]
    else:
        restart = not claim[_WITH_HEADERS]
    if claim[_LAST_HEARTBEAT] == _NONE:
        won = _CLAIMED
    elif claim[_OWNER_INSTANCE] == instance:
        won = _RECLAIMED
    elif claim[_OWNER_CLIENT] == client and restart:
        won = _RESTARTED
    elif clock_ms - claim[_LAST_HEARTBEAT] > stale_ms:
        won = _TOOK_OVER
    elif claim[_OWNER_CLIENT] == client:
        return _DOES_NOT_SUPERSEDE
    else:
        return _LIVE_OWNER
    claim[_OWNER_INSTANCE] = instance
    claim[_OWNER_CLIENT] = client
    claim[_EPOCH] = offset
    claim[_LAST_HEARTBEAT] = clock_ms
    claim[_WITH_HEADERS] = present
    if by_pauser:
        claim[_PAUSED_UNTIL] = _NONE
    return won


@_compiled
def _fenced_step(  # type: ignore[no-untyped-def]
    claim, kind, version, number, present, headers, row, offset, timestamp_ms, instance, client,
    stale_ms, pause_max_ms,
):  # fmt: skip
    if timestamp_ms > claim[_CLOCK]:
        claim[_CLOCK] = timestamp_ms
    clock_ms = claim[_CLOCK]
    if kind == CLAIMING_PARTITION:
        return _fenced_claiming(
            claim, version, present, headers, row, offset, instance, client, stale_ms
        )
    if kind == RELEASE_GROUP:
        if version != 0 and version != 1:
            return _UNKNOWN_VERSION
        until_ms = min(number * 1000, clock_ms + pause_max_ms)
        claim[_OWNER_INSTANCE] = claim[_OWNER_CLIENT] = claim[_LAST_HEARTBEAT] = _NONE
        claim[_WITH_HEADERS] = 0
        claim[_PAUSER] = instance
        claim[_PAUSED_UNTIL] = until_ms if until_ms > clock_ms else _NONE
        return _GROUP_RELEASED
    refusal = _unless_owner(claim, version, present, headers, row, offset, instance)
    if kind == HEARTBEAT:
        if refusal == _FINE:
            claim[_POSITION] = max(claim[_POSITION], number)
            claim[_LAST_HEARTBEAT] = clock_ms
            return _REFRESHED
        if refusal == _NOT_OWNER and not present and client == claim[_OWNER_CLIENT]:
            claim[_OWNER_INSTANCE] = instance
            claim[_EPOCH] = offset
            claim[_POSITION] = max(claim[_POSITION], number)
            claim[_LAST_HEARTBEAT] = clock_ms
            return _FAST_RECLAIMED
        return refusal
    if refusal != _FINE:
        return refusal
    if kind == CLAIMING_MESSAGES:
        if number <= claim[_POSITION]:
            return _NOT_AHEAD
        claim[_POSITION] = number
        claim[_LAST_HEARTBEAT] = clock_ms
        return _GRANTED
    sets = claim[_OWNER_INSTANCE] == claim[_PAUSER] or headers[row, _SET_POSITION] >= 0
    if sets and number < 0:
        return _NEGATIVE_POSITION
    claim[_POSITION] = number if sets else max(claim[_POSITION], number)
    claim[_OWNER_INSTANCE] = claim[_OWNER_CLIENT] = claim[_LAST_HEARTBEAT] = _NONE
    claim[_WITH_HEADERS] = 0
    return _POSITION_SET if sets else _RELEASED


@_compiled
def _original_step(  # type: ignore[no-untyped-def]
    claim, kind, unix_s, number, timestamp_ms, instance, client, group, stale_ms
):
    claim[_CLOCK] = timestamp_ms
    said_ms = unix_s * 1000 if unix_s != 0 else _NONE
    if kind == HEARTBEAT:
        same = claim[_OWNER_INSTANCE] == instance and claim[_OWNER_CLIENT] == client
        claim[_OWNER_INSTANCE] = instance
        claim[_OWNER_CLIENT] = client
        claim[_EPOCH] = claim[_LAST_RELEASE] = _NONE
        claim[_WITH_HEADERS] = 0
        claim[_POSITION] = number
        claim[_LAST_HEARTBEAT] = said_ms
        return _REFRESHED if same else _OVERWRITTEN
    if kind == CLAIMING_PARTITION:
        last_ms = claim[_LAST_HEARTBEAT]
        if last_ms != _NONE:
            age_ms = (timestamp_ms // 1000 - last_ms // 1000) * 1000
            if age_ms >= 0 and age_ms < stale_ms:
                return _LIVE_OWNER
        if last_ms == _NONE:
            won = _CLAIMED
        elif claim[_OWNER_INSTANCE] == instance:
            won = _RECLAIMED
        else:
            won = _TOOK_OVER
        claim[_OWNER_INSTANCE] = instance
        claim[_OWNER_CLIENT] = client
        if claim[_PAUSER] != _NONE:
            claim[_POSITION] = 0
        claim[_LAST_HEARTBEAT] = said_ms
        claim[_LAST_RELEASE] = _NONE
        return won
    if kind == CLAIMING_MESSAGES:
        return _IGNORED
    if kind == RELEASING_PARTITION:
        # Code 0 is the empty id, which is what the original's untouched claim holds.
        owner_instance = 0 if claim[_OWNER_INSTANCE] == _NONE else claim[_OWNER_INSTANCE]
        owner_client = 0 if claim[_OWNER_CLIENT] == _NONE else claim[_OWNER_CLIENT]
        if instance != owner_instance or client != owner_client:
            return _NOT_OWNER
        if claim[_OWNER_INSTANCE] == _NONE and group != 0:
            return _NOT_OWNER
        claim[_POSITION] = number
        claim[_LAST_HEARTBEAT] = _NONE
        claim[_LAST_RELEASE] = unix_s * 1000
        return _RELEASED
    claim[_PAUSER] = instance
    claim[_PAUSED_UNTIL] = number * 1000
    return _GROUP_RELEASED


@_compiled
def _fold(  # type: ignore[no-untyped-def]
    fenced, stale_ms, original_stale_ms, pause_max_ms, last_offset,
    offsets, timestamps_ms, kinds, versions, unix_s, numbers, addresses, present, headers, table,
    claims, born, newborn, first_of_group, next_in_group, verdicts,
):  # fmt: skip
    begun = []
    begun.append(np.int64(0))
    for row in range(len(offsets)):
        kind, offset, timestamp_ms = kinds[row], offsets[row], timestamps_ms[row]
        if kind == MALFORMED:
            verdicts[row] = NO_MESSAGE
            continue
        if offset == last_offset:
            verdicts[row] = READ_TWICE
            continue
        last_offset = offset
        address = addresses[row]
        instance, client = np.int64(table[address, 0]), np.int64(table[address, 1])
        group, claim = np.int64(table[address, 2]), table[address, 3]
        if kind == RELEASE_GROUP:
            # Every claim that was seen, and what those that come later begin with.
            each = first_of_group[group]
            while True:
                state = newborn[group] if each < 0 else claims[each]
                if fenced:
                    verdict = _fenced_step(
                        state, kind, versions[row], numbers[row], present[row], headers, row,
                        offset, timestamp_ms, instance, client, stale_ms, pause_max_ms,
                    )  # fmt: skip
                else:
                    verdict = _original_step(
                        state, kind, unix_s[row], numbers[row], timestamp_ms, instance, client,
                        group, original_stale_ms,
                    )  # fmt: skip
                if each < 0:
                    break
                each = next_in_group[each]
            verdicts[row] = verdict
            continue
        if not born[claim]:
            born[claim] = True
            begun.append(np.int64(claim))
            claims[claim] = newborn[group]
            next_in_group[claim] = first_of_group[group]
            first_of_group[group] = claim
        if fenced:
            verdicts[row] = _fenced_step(
                claims[claim], kind, versions[row], numbers[row], present[row], headers, row,
                offset, timestamp_ms, instance, client, stale_ms, pause_max_ms,
            )  # fmt: skip
        else:
            verdicts[row] = _original_step(
                claims[claim], kind, unix_s[row], numbers[row], timestamp_ms, instance, client,
                group, original_stale_ms,
            )  # fmt: skip
    return begun[1:]
