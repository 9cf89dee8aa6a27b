"""Runs of heartbeats that say nothing new, found in a stretch of a log without knowing its past.

Nearly every record of a log is the heartbeat of an owner that lives. What such a record does
depends on the sender alone. The reducer treats it as it treated the sender's heartbeat before it,
if nothing else about that claim or its group came in between. So a run of them is as good as its
last one. A fold can take it in one step, once it has seen that the last would be obeyed and that
the first states no position that fell.

A run is broken wherever that does not hold, and wherever an observer would see more than a
heartbeat. It is broken by any other record of the claim, a ReleaseGroup of its group, another
instance of the client, and headers that change. So it is by a position or a timestamp that falls,
and by a silence that is reported.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from attrs import frozen

from kafka_marshal.kernel.columns import (
    HEADER_COLUMNS,
    MALFORMED,
    NOT_DECIMAL,
    STRICT,
    Codes,
    Flags,
    Ints,
    NameCodes,
    RecordColumns,
)
from kafka_marshal.kernel.steps import HEARTBEAT, RELEASE_GROUP

NO_RUN: Final = -1
_START: Final = HEADER_COLUMNS.index("start")
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")
_NEVER: Final = -(2**63)
_SPAN_MAX: Final = 2**31 - 1
"""Offsets and milliseconds in a run are stored as distances of 32 bits."""


@frozen(eq=False)
class HeartbeatRuns:
    """What was found in a stretch of records, row by row."""

    leader: Ints
    """The row with which the run of this row begins, or NO_RUN."""
    clock_ms: Ints
    """The latest timestamp of the row's coordinating partition, in this stretch, so far."""
    ordered: Flags
    """By coordinating partition: whether offsets only rose."""


def find(
    partitions: Codes,
    offsets: Ints,
    timestamps_ms: Ints,
    columns: RecordColumns,
    names: NameCodes,
    silence_intervals: float,
    rest_intervals: float,
    interval_ms: float,
    forced: bool = False,
) -> HeartbeatRuns:
    """Find the runs of a stretch of records.

    Args:
        partitions: of every row, the number of its coordinating partition, from 0 on without gaps.
        offsets: log offsets; rising within a partition, or `ordered` says that they do not.
        timestamps_ms: the records' timestamps, unix milliseconds.
        columns: the same records, decoded with `names`.
        names: who is who.
        silence_intervals: a silence of more heartbeat intervals breaks a run.
        rest_intervals: a run is broken, too, where the position moves again after a standstill of
            this many heartbeat intervals.
        interval_ms: the heartbeat interval of rows that say none.
        forced: whether `interval_ms` is that of all rows.
    """
    count = int(partitions.max()) + 1 if len(partitions) else 0
    table = names.table
    members, member_of = members_of(table)
    ordered = np.ones(count, np.bool_)
    leader = np.empty(len(partitions), np.int64)
    clock_ms = np.empty(len(partitions), np.int64)
    _find(
        partitions,
        offsets,
        timestamps_ms,
        columns.kind,
        columns.version,
        columns.unix_s,
        columns.number,
        columns.address,
        columns.present,
        columns.headers,
        columns.amended_badly,
        table,
        member_of,
        silence_intervals,
        rest_intervals,
        interval_ms,
        forced,
        np.full((count, max(1, len(names.claims))), -1, np.int64),
        np.full((count, max(1, members)), -1, np.int64),
        np.zeros((count, max(1, members)), np.int64),
        np.zeros((count, max(1, len(names.groups))), np.int64),
        ordered,
        leader,
        clock_ms,
    )
    return HeartbeatRuns(leader, clock_ms, ordered)


def members_of(table: Codes) -> tuple[int, Ints]:
    """How many clients of a group there are, and which of them each address is of."""
    members, member_of = np.unique(table[:, [2, 1]], axis=0, return_inverse=True)
    return len(members), member_of.reshape(-1).astype(np.int64)


def by_leader(leader: Ints) -> tuple[Ints, Ints]:
    """The rows that are in runs, run by run, and where in this order each run begins."""
    return _by_leader(leader)  # type: ignore[no-any-return]


@numba.njit(cache=True, nogil=True)
def _by_leader(leader):  # type: ignore[no-untyped-def]
    lengths = np.zeros(len(leader), np.int64)
    for row in range(len(leader)):
        if leader[row] >= 0:
            lengths[leader[row]] += 1
    begins = np.empty(np.count_nonzero(lengths), np.int64)
    known, total = 0, 0
    for row in range(len(leader)):
        if lengths[row]:
            begins[known] = total
            known += 1
            total += lengths[row]
            lengths[row] = total - lengths[row]  # from here on, where its next row goes
    order = np.empty(total, np.int64)
    for row in range(len(leader)):
        if leader[row] >= 0:
            order[lengths[leader[row]]] = row
            lengths[leader[row]] += 1
    return order, begins


@numba.njit(cache=True, nogil=True)
def _find(  # type: ignore[no-untyped-def]
    partitions, offsets, timestamps_ms, kinds, versions, unix_s, numbers, addresses, present,
    headers, amended_badly, table, member_of, silence_intervals, rest_intervals, interval_ms,
    forced, last_row, speaking, switches, releases, ordered, leader, clock_ms,
):  # fmt: skip
    last_offset = np.full(len(ordered), -1, np.int64)
    clock = np.full(len(ordered), np.int64(-(2**63)), np.int64)
    # What held when a row was read, to be compared with when the next of its claim is.
    switched = np.empty(len(partitions), np.int64)
    released = np.empty(len(partitions), np.int64)
    # Of a row in a run: the clock when the position last moved in it, or _NEVER.
    moved_ms = np.full(len(partitions), _NEVER, np.int64)
    for row in range(len(partitions)):
        partition = partitions[row]
        leader[row] = NO_RUN
        if offsets[row] <= last_offset[partition]:
            ordered[partition] = False
        last_offset[partition] = offsets[row]
        clock[partition] = max(clock[partition], timestamps_ms[row])
        clock_ms[row] = clock[partition]
        kind = kinds[row]
        if kind == MALFORMED:
            continue
        address = addresses[row]
        group, claim, member = table[address, 2], table[address, 3], member_of[address]
        if speaking[partition, member] != table[address, 0]:
            speaking[partition, member] = table[address, 0]
            switches[partition, member] += 1
        if kind == RELEASE_GROUP:
            releases[partition, group] += 1
            continue
        switched[row], released[row] = switches[partition, member], releases[partition, group]
        before = last_row[partition, claim]
        last_row[partition, claim] = row
        if before < 0 or kind != HEARTBEAT or kinds[before] != HEARTBEAT:
            continue
        said = headers[row, _INTERVAL]
        every_ms = interval_ms if forced or said < 0 else said
        if (
            addresses[before] != address
            or switched[before] != switched[row]
            or released[before] != released[row]
            or versions[before] != versions[row]
            or versions[row] > 1
            or versions[row] < 0
            or unix_s[row] <= 0
            or numbers[before] > numbers[row]
            or timestamps_ms[before] > timestamps_ms[row]
            or clock_ms[row] - clock_ms[before] > silence_intervals * every_ms
            or headers[before, _INTERVAL] != said
            or present[before] != present[row]
            or amended_badly[before]
            or amended_badly[row]
            or headers[before, 0] != headers[row, 0]
            or (headers[before, _START] < 0) != (headers[row, _START] < 0)
            or headers[before, 1] >= offsets[before]
            or headers[row, 0] >= offsets[row]
            or headers[row, 1] >= offsets[row]
        ):
            continue
        decimal = True
        for field in range(STRICT):
            if headers[row, field] == NOT_DECIMAL or headers[before, field] == NOT_DECIMAL:
                decimal = False
        if not decimal:
            continue
        moved = numbers[row] != numbers[before]
        first = leader[before]
        if first < 0 and unix_s[before] > 0 and headers[before, 0] < offsets[before]:
            first = before
        if first < 0 or (
            offsets[row] - offsets[first] > _SPAN_MAX
            or clock_ms[row] - clock_ms[first] > _SPAN_MAX
            or (
                moved
                and moved_ms[before] != _NEVER
                and clock_ms[before] - moved_ms[before] >= rest_intervals * every_ms
            )
        ):
            first = row
        leader[row] = leader[first] = first
        if moved:
            moved_ms[row] = clock_ms[row]
        elif first != row:
            moved_ms[row] = moved_ms[before]
