"""Sums up the ordinary heartbeats of a growing log, claim by claim. Compiled.

`runs` finds redundant heartbeats in a part of a log without its past. Here the past is known: an
account has folded it, and gives the state of each claim. From then on the owner's heartbeats are
added to a row of numbers until another record comes. Until then they are pending; the account
applies their sum in one step.

A row of `claims` is a claim, by its code in `NameCodes`. This module does not know what an account
stores, nor when it takes a sum.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from attrs import frozen

from kafka_marshal.kernel.columns import (
    HEADER_COLUMNS,
    NOT_DECIMAL,
    STRICT,
    Codes,
    Flags,
    Ints,
    RecordColumns,
    Small,
)
from kafka_marshal.kernel.steps import BOUND, HEARTBEAT

BOOKS: Final = 2
"""The most rule sets of one account."""
(
    IS_OPEN, PLACE, ADDRESS, PRESENT, EPOCH, INTERVAL, START,
    MISSED_MS, LONG_MS, GRAIN_MS, GROUP,
    NUMBER, TIMESTAMP, CLOCK,
    COUNT, LONGEST_MS, MOVED_MS, MOVED_OFFSET, ROW,
    REST_MS, REST_MS_2, STILL_MS, STILL_MS_2, BEAT_MS, BEAT_MS_2,
    FIELDS,
) = range(26)  # fmt: skip
"""Whether heartbeats of the claim may be ordinary, and their coordinating partition. Their common
properties: sender, whether they have headers, epoch, stated interval, whether they state a start. A
silence longer than `MISSED_MS` is reported. One longer than `LONG_MS` counts as long; none counts
if that is negative. Heartbeats closer together than `GRAIN_MS` are drawn as one. `GROUP` is a row
of `heard_ms`. The last heartbeat's number, timestamp and clock. For pending heartbeats: their
count, and the longest silence. Clock and offset of their last move of the position, or a negative
offset. `ROW`: the index of the last one in the current batch. For each rule set: the minimum of a
reported standstill (`REST_MS`), the clock at the last move of the position, and at the last drawn
heartbeat."""
(LAST_OFFSET, LOG_CLOCK, STAMPED, RECORDS, FROM_MS, TO_MS, SILENCES, LONG, LAST_CLAIM,
 PLACE_FIELDS) = range(10)  # fmt: skip
"""For a coordinating partition: offset, clock and timestamp type of its last record. For pending
heartbeats: their count, and their earliest and latest timestamp. The number of counted silences,
and of long ones. `LAST_CLAIM`: the claim of the last record, or -1 if it was not ordinary."""
NEVER: Final = 2**62
_START: Final = HEADER_COLUMNS.index("start")
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")
_EPOCH: Final = HEADER_COLUMNS.index("epoch")
_SEEN: Final = HEADER_COLUMNS.index("seen")
(LOG_PLACE, LOG_ADDRESS, LOG_STAMPED, LOG_OFF_MS, LOG_SILENCE_MS, LOG_FIELDS) = range(6)
"""An ordinary heartbeat in the log of them: coordinating partition, sender, timestamp type. How far
the sender's clock is ahead of the timestamp, and the silence before it; negative: it is not
counted."""


@frozen(eq=False)
class LiveColumns:
    """Records of some coordinating partitions, each sorted by offset."""

    places: Codes
    """The indexes of their coordinating partitions, from 0 on."""
    offsets: Ints
    timestamps_ms: Ints
    stamped: Small
    """Their timestamp types, as numbers."""
    columns: RecordColumns
    singly: Flags
    """The records that are not ordinary for a reason outside this module."""

    def __len__(self) -> int:
        return len(self.places)


class OpenClaims:
    """The sums of pending heartbeats."""

    def __init__(self, places: int, logged_max: int) -> None:
        self.claims = np.zeros((64, FIELDS), np.int64)
        self.places = np.zeros((places, PLACE_FIELDS), np.int64)
        self.places[:, LAST_OFFSET] = self.places[:, LAST_CLAIM] = -1
        self.heard_ms = np.full(16, -NEVER, np.int64)
        """By group of a coordinating partition: the latest timestamp of a pending heartbeat that
        stated the group's interval; -NEVER if there is none."""
        self.log = np.empty((logged_max, LOG_FIELDS), np.int64)
        self.beats = np.empty((BOOKS * logged_max, 3), np.int64)
        """The heartbeats to draw: rule set, claim, clock."""
        self.touched = np.empty(logged_max, np.int64)
        """The claims with a row in the current batch."""
        self.logged = self.drawn = self.touches = 0

    def make_room(self, claims: int, groups: int) -> None:
        """Make room for this many rows."""
        self.claims = _longer(self.claims, claims, 0)
        self.heard_ms = _longer(self.heard_ms, groups, -NEVER)

    def take(self, batch: LiveColumns, begin: int, table: Codes) -> int:
        """Add the ordinary heartbeats from a row on; return the first row that is not ordinary.

        The logs must have room for the rest of the batch.
        """
        columns = batch.columns
        row, self.logged, self.drawn, self.touches = _take(
            begin,
            batch.places, batch.offsets, batch.timestamps_ms, batch.stamped, batch.singly,
            columns.kind, columns.version, columns.unix_s, columns.number, columns.address,
            columns.present, columns.headers, columns.amended_badly,
            table, self.claims, self.places, self.heard_ms,
            self.log, self.logged, self.beats, self.drawn, self.touched, self.touches,
        )  # fmt: skip
        return int(row)


def _longer(array: Ints, length: int, fill: int) -> Ints:
    if len(array) >= length:
        return array
    longer = np.full((max(length, 2 * len(array)), *array.shape[1:]), fill, np.int64)
    longer[: len(array)] = array
    return longer


@numba.njit(cache=True, nogil=True)
def _take(  # type: ignore[no-untyped-def]
    begin, in_place, offsets, timestamps_ms, stamped, singly,
    kinds, versions, unix_s, numbers, addresses, present, headers, amended_badly,
    table, claims, places, heard_ms,
    log, logged, beats, drawn, touched, touches,
):  # fmt: skip
    for row in range(begin, len(in_place)):
        place, offset, timestamp_ms = in_place[row], offsets[row], timestamps_ms[row]
        if (
            kinds[row] != HEARTBEAT
            or singly[row]
            or offset != places[place, LAST_OFFSET] + 1
            or stamped[row] != places[place, STAMPED]
            or amended_badly[row]
            or versions[row] > 1
            or versions[row] < 0
            or unix_s[row] <= 0
            or unix_s[row] >= BOUND // 1000
            or timestamp_ms >= BOUND
            or timestamp_ms <= -BOUND
        ):
            return row, logged, drawn, touches
        address = addresses[row]
        at = table[address, 3]
        number = numbers[row]
        if (
            not claims[at, IS_OPEN]
            or claims[at, PLACE] != place
            or claims[at, ADDRESS] != address
            or claims[at, PRESENT] != present[row]
            or claims[at, EPOCH] != headers[row, _EPOCH]
            or claims[at, INTERVAL] != headers[row, _INTERVAL]
            or claims[at, START] != (headers[row, _START] >= 0)
            or claims[at, NUMBER] > number
            or claims[at, TIMESTAMP] > timestamp_ms
            or headers[row, _EPOCH] >= offset
            or headers[row, _SEEN] >= offset
        ):
            return row, logged, drawn, touches
        decimal = True
        for field in range(STRICT):
            if headers[row, field] == NOT_DECIMAL:
                decimal = False
        clock_ms = max(places[place, LOG_CLOCK], timestamp_ms)
        last_ms = claims[at, CLOCK]
        silence_ms = clock_ms - last_ms
        moved = number != claims[at, NUMBER]
        if (
            not decimal
            or clock_ms >= BOUND
            or silence_ms > claims[at, MISSED_MS]
            or (
                moved
                and (
                    last_ms - claims[at, STILL_MS] >= claims[at, REST_MS]
                    or last_ms - claims[at, STILL_MS_2] >= claims[at, REST_MS_2]
                )
            )
        ):
            return row, logged, drawn, touches
        if moved:
            claims[at, NUMBER] = number
            claims[at, MOVED_MS] = claims[at, STILL_MS] = claims[at, STILL_MS_2] = clock_ms
            claims[at, MOVED_OFFSET] = offset
        for book in range(BOOKS):
            if clock_ms - claims[at, BEAT_MS + book] >= claims[at, GRAIN_MS]:
                claims[at, BEAT_MS + book] = clock_ms
                beats[drawn, 0], beats[drawn, 1], beats[drawn, 2] = book, at, clock_ms
                drawn += 1
        claims[at, TIMESTAMP] = timestamp_ms
        claims[at, CLOCK] = clock_ms
        claims[at, COUNT] += 1
        claims[at, LONGEST_MS] = max(claims[at, LONGEST_MS], silence_ms)
        if claims[at, ROW] < 0:
            touched[touches] = at
            touches += 1
        claims[at, ROW] = row
        if headers[row, _INTERVAL] >= 0:
            group = claims[at, GROUP]
            heard_ms[group] = max(heard_ms[group], timestamp_ms)
        log[logged, LOG_PLACE], log[logged, LOG_ADDRESS] = place, address
        log[logged, LOG_STAMPED] = stamped[row]
        log[logged, LOG_OFF_MS] = unix_s[row] * 1000 - timestamp_ms
        log[logged, LOG_SILENCE_MS] = -1
        if claims[at, LONG_MS] >= 0:
            log[logged, LOG_SILENCE_MS] = silence_ms
            places[place, SILENCES] += 1
            places[place, LONG] += silence_ms > claims[at, LONG_MS]
        logged += 1
        if places[place, RECORDS] == 0:
            places[place, FROM_MS] = places[place, TO_MS] = timestamp_ms
        places[place, RECORDS] += 1
        places[place, FROM_MS] = min(places[place, FROM_MS], timestamp_ms)
        places[place, TO_MS] = max(places[place, TO_MS], timestamp_ms)
        places[place, LAST_OFFSET] = offset
        places[place, LOG_CLOCK] = clock_ms
        places[place, LAST_CLAIM] = at
    return len(in_place), logged, drawn, touches
