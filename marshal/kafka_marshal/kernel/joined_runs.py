"""Runs of heartbeats that go on from chunk to chunk, found in rows that are already in order.

A chunk's runs end with the chunk (`runs`). Where the next chunk's run of the same claim would have
gone on from there, both are one run. So is a heartbeat that stands alone in its chunk. The rule is
that of `runs`, asked of the last record of the one row and the first of the next.
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
    NameCodes,
    RecordColumns,
)
from kafka_marshal.kernel.runs import NO_RUN, Subjects
from kafka_marshal.kernel.steps import HEARTBEAT, RELEASE_GROUP

NEVER: Final = -(2**63)
"""The time of what does not happen in a row."""
_START: Final = HEADER_COLUMNS.index("start")
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")


@frozen(eq=False)
class RowColumns:
    """Rows, each one record or one run of heartbeats. All arrays are as long as there are rows."""

    place: Codes
    """Its log and coordinating partition, numbered from 0 on."""
    first_clock_ms: Ints
    last_clock_ms: Ints
    """The clock of its place at its first and at its last record."""
    timestamp_ms: Ints
    """Of its last record."""
    first_position: Ints
    last_position: Ints
    still_until_ms: Ints
    """The clock at the record before the first that moves the position, or NEVER."""
    moved_ms: Ints
    """The clock at the last record that moves the position, or NEVER."""


def may_be_in_runs(columns: RecordColumns, last_offsets: Ints) -> Flags:
    """The rows whose last record could be of a run, whatever came before it."""
    headers = columns.headers
    found: Flags = (
        (columns.kind == HEARTBEAT)
        & (columns.version >= 0)
        & (columns.version <= 1)
        & (columns.unix_s > 0)
        & ~columns.amended_badly
        & (headers[:, :2] < last_offsets[:, np.newaxis]).all(axis=1)
        & (headers[:, :STRICT] != NOT_DECIMAL).all(axis=1)
    )
    return found


def join(
    rows: RowColumns,
    columns: RecordColumns,
    joinable: Flags,
    names: NameCodes,
    silence_intervals: float,
    rest_intervals: float,
    interval_ms: float,
    forced: bool = False,
) -> Ints:
    """Of every row, the row with which its run begins, or NO_RUN if it stands alone.

    `columns` are the rows' last records, decoded with `names`; those whose kind is MALFORMED are
    passed over. `joinable`: those of `may_be_in_runs` that may be joined. The other arguments are
    as in `runs.find`.
    """
    subjects = Subjects.of(rows.place, columns, names)
    leader = np.full(len(rows.place), NO_RUN, np.int64)
    _join(
        rows.first_clock_ms,
        rows.last_clock_ms,
        rows.timestamp_ms,
        rows.first_position,
        rows.last_position,
        rows.still_until_ms,
        rows.moved_ms,
        columns.kind,
        columns.version,
        columns.address,
        columns.present,
        columns.headers,
        joinable,
        names.table,
        subjects.claim,
        subjects.member,
        subjects.group,
        silence_intervals,
        rest_intervals,
        interval_ms,
        forced,
        np.full(subjects.claims, -1, np.int64),
        np.full(subjects.members, -1, np.int64),
        np.zeros(subjects.members, np.int64),
        np.zeros(subjects.groups, np.int64),
        np.full(subjects.groups, -1, np.int64),
        np.zeros(subjects.groups, np.int64),
        leader,
    )
    return leader


@numba.njit(cache=True, nogil=True)
def _join(  # type: ignore[no-untyped-def]
    first_clock_ms, last_clock_ms, timestamps_ms, first_position, last_position,
    still_until_ms, last_moved_ms, kinds, versions, addresses, present, headers, joinable, table,
    claims, members, groups, silence_intervals, rest_intervals, interval_ms, forced, last_row,
    speaking, switches, releases, stated, changes, leader,
):  # fmt: skip
    changed = np.empty(len(kinds), np.int64)
    switched = np.empty(len(kinds), np.int64)
    released = np.empty(len(kinds), np.int64)
    moved_ms = last_moved_ms.copy()
    for row in range(len(kinds)):
        if kinds[row] < 0:
            continue
        address = addresses[row]
        group, claim, member = groups[row], claims[row], members[row]
        if speaking[member] != table[address, 0]:
            speaking[member] = table[address, 0]
            switches[member] += 1
        if kinds[row] == RELEASE_GROUP:
            releases[group] += 1
            continue
        said = headers[row, _INTERVAL]
        if said >= 0 and stated[group] != said:
            stated[group] = said
            changes[group] += 1
        switched[row], released[row] = switches[member], releases[group]
        changed[row] = changes[group]
        before = last_row[claim]
        last_row[claim] = row
        if before < 0 or not joinable[row] or not joinable[before]:
            continue
        every_ms = interval_ms if forced or said < 0 else said
        if (
            addresses[before] != address
            or switched[before] != switched[row]
            or released[before] != released[row]
            or versions[before] != versions[row]
            or last_position[before] > first_position[row]
            or timestamps_ms[before] > timestamps_ms[row]
            or first_clock_ms[row] - last_clock_ms[before] > silence_intervals * every_ms
            or headers[before, _INTERVAL] != said
            or (said < 0 and changed[before] != changed[row])
            or present[before] != present[row]
            or headers[before, 0] != headers[row, 0]
            or (headers[before, _START] < 0) != (headers[row, _START] < 0)
        ):
            continue
        # No rest may lie between the first and the last record of a run that move the position.
        rest_ms, moved = rest_intervals * every_ms, moved_ms[before]
        if first_position[row] != last_position[before]:
            if moved != NEVER and last_clock_ms[before] - moved >= rest_ms:
                continue
            moved = first_clock_ms[row]
        if still_until_ms[row] != NEVER:
            if moved != NEVER and still_until_ms[row] - moved >= rest_ms:
                continue
            moved = last_moved_ms[row]
        moved_ms[row] = moved
        first = before if leader[before] < 0 else leader[before]
        leader[row] = leader[first] = first


def positions(
    members: Ints,
    lengths: Ints,
    first_positions: Ints,
    last_positions: Ints,
    first_moves: Ints,
    moved_to: Ints,
    last_moves: Ints,
) -> tuple[int, int, int, int]:
    """What a run of these rows says of the position.

    All but `members` are by row: how many records it is, and the positions of the first and of the
    last. Between them the position moves first, and to what, and last; negative if it does not.
    Returned are the first position and the same three of the whole run.
    """
    return _positions(  # type: ignore[no-any-return]
        members, lengths, first_positions, last_positions, first_moves, moved_to, last_moves
    )


@numba.njit(cache=True, nogil=True)
def _positions(  # type: ignore[no-untyped-def]
    members, lengths, first_positions, last_positions, first_moves, moved_to, last_moves
):
    position = first_positions[members[0]]
    first_move, first_moved_to, last_move = np.int64(-1), position, np.int64(-1)
    at, before = np.int64(0), position
    for row in members:
        if first_positions[row] != before:
            last_move = at
            if first_move < 0:
                first_move, first_moved_to = at, first_positions[row]
        if first_moves[row] >= 0:
            last_move = at + last_moves[row]
            if first_move < 0:
                first_move, first_moved_to = at + first_moves[row], moved_to[row]
        before = last_positions[row]
        at += lengths[row]
    return position, first_move, first_moved_to, last_move


def gathered(order: Ints, begins: Ints, ends: Ints, base: Ints, distances: Codes) -> Ints:
    """The numbers of these rows, one row after the other.

    Those of a row are `distances` from `begins` to before `ends`, each added to its `base`. A row
    without distances is one record, at its base.
    """
    lengths = np.maximum((ends - begins)[order], 1)
    found = np.empty(int(lengths.sum()), np.int64)
    _gather(order, begins, ends, base, distances, found)
    return found


@numba.njit(cache=True, nogil=True)
def _gather(order, begins, ends, base, distances, found):  # type: ignore[no-untyped-def]
    at = 0
    for row in order:
        if begins[row] == ends[row]:
            found[at] = base[row]
            at += 1
        for place in range(begins[row], ends[row]):
            found[at] = base[row] + distances[place]
            at += 1
