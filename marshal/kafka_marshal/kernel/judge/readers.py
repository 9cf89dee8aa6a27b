"""A reader's knowledge of a claim: `core.claims.suffix_reader`, compiled.

One row of numbers is one reader, in the order of fields below; it begins with the fields of a
claim. The functions are in the order of the original's, whose docstrings give the reasons.
"""

from __future__ import annotations

from typing import Final

import numba

from kafka_marshal.core.claims.suffix_reader import EVERYTHING as _EVERYTHING
from kafka_marshal.core.claims.suffix_reader import LASTING as _LASTING
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.claims.verdicts import SIGNS_OF_LIFE, Accepted, Refused
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import HEADER_COLUMNS
from kafka_marshal.kernel.steps import (
    CLAIMING_MESSAGES,
    CLAIMING_PARTITION,
    CLOCK,
    EPOCH,
    FINE,
    LAST_HEARTBEAT,
    NONE,
    OWNER_CLIENT,
    OWNER_INSTANCE,
    PAUSED_UNTIL,
    PAUSER,
    POSITION,
    RELEASE_GROUP,
    RELEASING_PARTITION,
    SET,
    VERDICTS,
    WITH_HEADERS,
    bad_headers,
    fenced_step,
    says_position,
)

CERTAIN, UNDECIDED, REACHED, ALIVE, HEAD, READER_FIELDS = range(steps.FIELDS, steps.FIELDS + 6)
"""The fields of a `Reader` after its claim; times in unix ms, NONE for None."""
UNKNOWN: Final = -4
"""The effect of the record cannot be known: the verdict None."""

EVERYTHING: Final = _EVERYTHING.value
IS_OWNER: Final = Field.OWNER.value
IS_POSITION: Final = Field.POSITION.value
IS_CLOCK: Final = Field.CLOCK.value
IS_PAUSER: Final = Field.PAUSER.value
IS_SET: Final = Field.POSITION_SET.value
_IS_EPOCH: Final = Field.EPOCH.value
_LASTS: Final = _LASTING.value
_SAID: Final = _IS_EPOCH | IS_POSITION | IS_CLOCK
EPOCH_HEADER, SEEN_HEADER, CLOCK_HEADER, SUPERSEDES_HEADER, SET_POSITION_HEADER = map(
    HEADER_COLUMNS.index, ("epoch", "seen", "clock", "supersedes", "set_position")
)
GRANTED: Final = VERDICTS.index(Accepted.GRANTED)
_REFRESHED: Final = VERDICTS.index(Accepted.REFRESHED)
_RELEASED: Final = VERDICTS.index(Accepted.RELEASED)
_POSITION_SET: Final = VERDICTS.index(Accepted.POSITION_SET)
_GROUP_RELEASED: Final = VERDICTS.index(Accepted.GROUP_RELEASED)
_NOT_AHEAD: Final = VERDICTS.index(Refused.NOT_AHEAD)
_IS_SIGN: Final = tuple(verdict in SIGNS_OF_LIFE for verdict in VERDICTS)

_compiled = numba.njit(cache=True, nogil=True)


@_compiled
def read_record(  # type: ignore[no-untyped-def]
    rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
    instance, client, stale_ms, pause_max_ms, rewind_max_ms,
):  # fmt: skip
    """`suffix_reader.read_record`, in place; returns the verdict's number, or UNKNOWN.

    `said` is the row of the record's headers.
    """
    reader = rows[at]
    if reader[CERTAIN] == EVERYTHING:
        return fenced_step(
            rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
            instance, client, stale_ms, pause_max_ms,
        )  # fmt: skip
    if reader[HEAD] == NONE:
        reader[HEAD] = timestamp_ms + rewind_max_ms
    if reader[CERTAIN] & IS_OWNER:
        return _read_known(
            rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
            instance, client, stale_ms, pause_max_ms,
        )  # fmt: skip
    _read_unknown(
        rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
        instance, client, stale_ms, pause_max_ms,
    )  # fmt: skip
    return UNKNOWN


@_compiled
def _says_what_it_saw(header):  # type: ignore[no-untyped-def]
    return header[SEEN_HEADER] >= 0 and header[CLOCK_HEADER] >= 0


# --- the owner is certain -------------------------------------------------------------------------


@_compiled
def _read_known(  # type: ignore[no-untyped-def]
    rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
    instance, client, stale_ms, pause_max_ms,
):  # fmt: skip
    reader, header = rows[at], headers[said]
    had, position, clock_ms = reader[CERTAIN], reader[POSITION], reader[CLOCK]
    clock_ms = max(clock_ms, timestamp_ms)
    if kind == CLAIMING_PARTITION and not _claiming_decided(
        reader, clock_ms, version, present, headers, said, offset, instance, client
    ):
        reader[CLOCK] = clock_ms
        reader[CERTAIN] = had & _LASTS
        reader[UNDECIDED] = offset
        reader[ALIVE] = clock_ms
        return UNKNOWN
    verdict = fenced_step(
        rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
        instance, client, stale_ms, pause_max_ms,
    )  # fmt: skip
    stays = verdict in (_REFRESHED, GRANTED)
    if stays and _says_what_it_saw(header):
        if header[CLOCK_HEADER] > reader[CLOCK]:
            reader[CLOCK] = reader[LAST_HEARTBEAT] = header[CLOCK_HEADER]
        certain = had | _SAID
    else:
        setting_decided = had & IS_PAUSER != 0 or header[SET_POSITION_HEADER] >= 0
        releases = verdict in (_RELEASED, _POSITION_SET)
        lost = releases and not setting_decided and number < position
        if lost:
            reader[POSITION] = number
        alive = verdict >= 0 and _IS_SIGN[verdict]
        vague = had & IS_POSITION == 0 and verdict in (_NOT_AHEAD, GRANTED)
        certain = IS_OWNER | (had & (_IS_EPOCH | _LASTS))
        if alive and not stays:
            certain |= _IS_EPOCH
        if not lost:
            certain |= had & IS_POSITION
        if verdict == _POSITION_SET and setting_decided:
            certain |= IS_POSITION
        if not vague:
            certain |= had & IS_CLOCK
            if alive and reader[HEAD] != NONE and clock_ms > reader[HEAD]:
                certain |= IS_CLOCK
        if verdict == _GROUP_RELEASED:
            certain |= IS_PAUSER
    if reader[SET]:
        certain |= IS_SET
    reader[CERTAIN] = certain
    reader[UNDECIDED] = reader[REACHED] = reader[ALIVE] = NONE
    return verdict


@_compiled
def _claiming_decided(  # type: ignore[no-untyped-def]
    reader, clock_ms, version, present, headers, said, offset, instance, client
):
    """`suffix_reader._decided` for a ClaimingPartition.

    Of other records only a release at a negative offset can be undecided, and `lines` accepts none.
    """
    if version != 0 and version != 1:
        return True
    if present and bad_headers(headers, said, offset) != FINE:
        return True
    if reader[CERTAIN] & IS_CLOCK:
        return True
    if reader[PAUSED_UNTIL] != NONE and instance != reader[PAUSER]:
        return False
    if reader[LAST_HEARTBEAT] == NONE or instance == reader[OWNER_INSTANCE]:
        return True
    if client != reader[OWNER_CLIENT]:
        return False
    if not present:
        return not reader[WITH_HEADERS]
    supersedes = headers[said, SUPERSEDES_HEADER]
    return supersedes >= 0 and supersedes == reader[EPOCH]


# --- the owner is not certain ---------------------------------------------------------------------


@_compiled
def _read_unknown(  # type: ignore[no-untyped-def]
    rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
    instance, client, stale_ms, pause_max_ms,
):  # fmt: skip
    reader, header = rows[at], headers[said]
    if kind == RELEASE_GROUP and (version == 0 or version == 1):
        fenced_step(
            rows, at, kind, version, number, present, headers, said, offset, timestamp_ms,
            instance, client, stale_ms, pause_max_ms,
        )  # fmt: skip
        reader[POSITION] = 0
        _known(reader, IS_OWNER | IS_PAUSER)
        return
    clock_ms = reader[CLOCK] = max(reader[CLOCK], timestamp_ms)
    if version != 0 and version != 1:
        return
    if present and bad_headers(headers, said, offset) != FINE:
        return
    if kind == CLAIMING_PARTITION:
        if _definite_win(reader, stale_ms, pause_max_ms):
            reader[OWNER_INSTANCE] = instance
            reader[OWNER_CLIENT] = client
            reader[EPOCH] = offset
            reader[POSITION] = 0
            reader[LAST_HEARTBEAT] = clock_ms
            reader[WITH_HEADERS] = present
            if instance == reader[PAUSER]:
                reader[PAUSED_UNTIL] = NONE
            _known(reader, IS_OWNER | _IS_EPOCH | IS_CLOCK)
        else:
            reader[UNDECIDED] = offset
            reader[ALIVE] = clock_ms
        return
    epoch = header[EPOCH_HEADER]
    if epoch < 0:
        _vague(reader, kind, number, instance, client)
    elif reader[EPOCH] != NONE and epoch < reader[EPOCH]:
        return
    elif _says_what_it_saw(header) and header[SEEN_HEADER] >= max(-1, reader[UNDECIDED]):
        _certified(reader, kind, number, header, epoch, instance, client)
    else:
        _guessed(reader, kind, number, epoch, instance, client)


@_compiled
def _known(reader, certain):  # type: ignore[no-untyped-def]
    reader[CERTAIN] = certain | (reader[CERTAIN] & _LASTS)
    reader[UNDECIDED] = reader[REACHED] = reader[ALIVE] = NONE


@_compiled
def _definite_win(reader, stale_ms, pause_max_ms):  # type: ignore[no-untyped-def]
    clock_ms = reader[CLOCK]
    alive_ms = max(-1, reader[HEAD], reader[ALIVE])
    return (
        (reader[PAUSED_UNTIL] == NONE or clock_ms >= reader[PAUSED_UNTIL])
        and clock_ms > reader[HEAD] + pause_max_ms
        and clock_ms - alive_ms > stale_ms
    )


@_compiled
def _certified(reader, kind, number, header, epoch, instance, client):  # type: ignore[no-untyped-def]
    reached = max(-1, reader[REACHED]) if epoch == reader[EPOCH] else -1
    releases, asks = kind == RELEASING_PARTITION, kind == CLAIMING_MESSAGES
    sets = header[SET_POSITION_HEADER] >= 0
    position = max(reached, number)
    is_set = reader[SET] != 0 or position > 0
    if not asks and says_position(header.reshape(1, -1), 0, number):
        is_set = True
    if releases and sets:
        is_set = True
    reader[OWNER_INSTANCE] = instance
    reader[OWNER_CLIENT] = client
    reader[EPOCH] = epoch
    reader[POSITION] = position
    reader[CLOCK] = reader[LAST_HEARTBEAT] = max(reader[CLOCK], header[CLOCK_HEADER])
    reader[WITH_HEADERS] = 1
    reader[PAUSED_UNTIL] = NONE
    reader[SET] = is_set
    certain = IS_OWNER | _IS_EPOCH
    if is_set:
        certain |= IS_SET
    if not asks or number > reached:
        certain |= IS_CLOCK
    if not releases:
        _known(reader, certain | IS_POSITION)
        return
    moves = reader[PAUSER] == instance or sets
    if number >= reached or reader[CERTAIN] & IS_PAUSER or sets:
        certain |= IS_POSITION
    else:
        moves = True
    _free(reader, number if moves else position)
    _known(reader, certain)


@_compiled
def _free(reader, position):  # type: ignore[no-untyped-def]
    reader[OWNER_INSTANCE] = reader[OWNER_CLIENT] = reader[LAST_HEARTBEAT] = NONE
    reader[POSITION] = position
    reader[WITH_HEADERS] = 0


@_compiled
def _guessed(reader, kind, number, epoch, instance, client):  # type: ignore[no-untyped-def]
    newer = reader[EPOCH] == NONE or epoch > reader[EPOCH]
    reader[OWNER_INSTANCE] = instance
    reader[OWNER_CLIENT] = client
    reader[EPOCH] = epoch
    reader[POSITION] = max(reader[POSITION], number)
    reader[LAST_HEARTBEAT] = reader[ALIVE] = reader[CLOCK]
    reader[WITH_HEADERS] = 1
    reader[REACHED] = number if newer else max(-1, reader[REACHED], number)
    if kind == RELEASING_PARTITION:
        _free(reader, reader[POSITION])


@_compiled
def _vague(reader, kind, number, instance, client):  # type: ignore[no-untyped-def]
    reader[ALIVE] = reader[CLOCK]
    if reader[EPOCH] != NONE:
        return
    if kind == RELEASING_PARTITION:
        _free(reader, reader[POSITION])
        return
    reader[OWNER_INSTANCE] = instance
    reader[OWNER_CLIENT] = client
    reader[POSITION] = max(reader[POSITION], number)
    reader[LAST_HEARTBEAT] = reader[CLOCK]
