"""Joins runs of heartbeats that continue from one chunk to the next, in sorted rows.

A chunk's runs end with the chunk (`runs`). If the next chunk's run of the same claim would have
continued it, both are one run. The same applies to a single heartbeat. The rule is that of `runs`,
applied to the last record of the one row and the first of the next.
"""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
import numpy.typing as npt
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
from kafka_marshal.kernel.steps import CLAIMING_PARTITION, HEARTBEAT, RELEASE_GROUP

NEVER: Final = -(2**63)
"""The time of an event that does not occur in a row."""
_BOUND: Final = 1 << 43
"""Larger times are not ordinary: their sums and quotients may not be exact."""
_START: Final = HEADER_COLUMNS.index("start")
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")


@frozen(eq=False)
class RowColumns:
    """Rows, each one record or one run of heartbeats. All arrays have one item per row."""

    place: Codes
    """The index of its log and coordinating partition, from 0 on."""
    first_clock_ms: Ints
    last_clock_ms: Ints
    """The clock of its partition at its first and at its last record."""
    timestamp_ms: Ints
    """The timestamp of its last record."""
    first_position: Ints
    last_position: Ints
    still_until_ms: Ints
    """The clock at the record before the first one that moves the position, or NEVER."""
    moved_ms: Ints
    """The clock at the last record that moves the position, or NEVER."""


def may_be_in_runs(columns: RecordColumns, last_offsets: Ints, kind: int = HEARTBEAT) -> Flags:
    """The rows whose last record could be in a run, whatever came before it.

    For another `kind`: those whose record is not refused by a guard that needs only the record.
    """
    headers = columns.headers
    found: Flags = (
        (columns.kind == kind)
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
    subjects: Subjects,
    silence_intervals: float,
    rest_intervals: float,
    interval_ms: float,
    forced: bool = False,
) -> Ints:
    """For every row, the first row of its run, or NO_RUN if it is in none.

    `columns` are the rows' last records, decoded with `names`; those with kind MALFORMED are
    skipped. `joinable` are those of `may_be_in_runs` that may be joined. `subjects` are those of
    the rows in their partitions. The other arguments are as in `runs.find`.
    """
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
        # There must be no rest between the first and last record of a run that move the position.
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


@frozen(eq=False)
class SteadyRows:
    """The rows of claims that are won once and then only spoken for by the winner."""

    leader: Ints
    """Of every row, that of the win with which its claim begins, or NO_RUN."""
    begins_group: Flags
    """The rows that are the first of their group at their place."""


def steady(
    rows: RowColumns,
    columns: RecordColumns,
    offsets: Ints,
    leader: Ints,
    ordinary: Flags,
    names: NameCodes,
    subjects: Subjects,
    silence_intervals: float,
    interval_ms: float,
) -> SteadyRows:
    """Find the claims whose rows are all ordinary: one request, and a run of its sender's.

    Nobody releases their group, their sender's client has one instance, and their group states one
    heartbeat interval or none. That the claims are new, only a fold knows.

    Args:
        rows: as in `join`.
        columns: as in `join`.
        offsets: of each row's first record.
        leader: what `join` found.
        ordinary: the rows that may be of such a claim: requests and heartbeats.
        names: as in `join`.
        subjects: as in `join`.
        silence_intervals: as in `join`.
        interval_ms: as in `join`, also where it is forced: who knows the group leaves out claims
            that state another one then.
    """
    count = len(leader)
    bound = np.abs(rows.timestamp_ms) < _BOUND
    bound &= columns.unix_s < _BOUND // 1000
    found = SteadyRows(np.full(count, NO_RUN, np.int64), np.zeros(count, np.bool_))
    _steady(
        rows.first_clock_ms, rows.last_clock_ms, rows.timestamp_ms, rows.first_position,
        columns.kind, columns.address, columns.present, columns.headers, offsets, leader,
        ordinary & bound, names.table, subjects.claim, subjects.member, subjects.group,
        silence_intervals, interval_ms,
        np.full(subjects.claims, -1, np.int64),
        np.full(subjects.claims, -1, np.int64),
        np.zeros(subjects.claims, np.bool_),
        np.full(subjects.members, -1, np.int64),
        np.zeros(subjects.members, np.bool_),
        np.full(subjects.groups, -1, np.int64),
        np.zeros(subjects.groups, np.bool_),
        np.zeros(subjects.groups, np.bool_),
        found.leader, found.begins_group,
    )  # fmt: skip
    return found


@numba.njit(cache=True, nogil=True)
def _steady(  # type: ignore[no-untyped-def]
    first_clock_ms, last_clock_ms, timestamps_ms, first_position, kinds, addresses, present,
    headers, offsets, leader, ordinary, table, claims, members, groups, silence_intervals,
    interval_ms, first_row, last_row, good, speaking, mixed, stated, spoiled, begun,
    found, begins_group,
):  # fmt: skip
    for row in range(len(kinds)):
        if kinds[row] < 0:
            continue
        group, member = groups[row], members[row]
        instance = table[addresses[row], 0]
        if speaking[member] < 0:
            speaking[member] = instance
        elif speaking[member] != instance:
            mixed[member] = True
        if not begun[group]:
            begun[group] = begins_group[row] = True
        said = headers[row, _INTERVAL]
        if kinds[row] == RELEASE_GROUP:
            spoiled[group] = True
        if said >= 0:
            if stated[group] < 0:
                stated[group] = said
            elif stated[group] != said:
                spoiled[group] = True
        claim = claims[row]
        first, before = first_row[claim], last_row[claim]
        last_row[claim] = row
        if first < 0:
            first_row[claim] = row
            good[claim] = ordinary[row] and kinds[row] == CLAIMING_PARTITION
            continue
        if not good[claim]:
            continue
        every_ms = interval_ms if said < 0 else said
        epoch = headers[row, 0]
        good[claim] = (
            ordinary[row]
            and kinds[row] == HEARTBEAT
            and addresses[row] == addresses[first]
            and said == headers[first, _INTERVAL]
            and (epoch == offsets[first] or (epoch < 0 and not present[first]))
        )
        if before != first:
            good[claim] &= leader[row] >= 0 and leader[row] == leader[before]
        else:
            good[claim] &= (
                first_clock_ms[row] - last_clock_ms[first] <= silence_intervals * every_ms
                and first_position[row] >= 0
                and timestamps_ms[first] <= timestamps_ms[row]
            )
    for row in range(len(kinds)):
        if kinds[row] < 0:
            continue
        claim, group = claims[row], groups[row]
        if (
            good[claim]
            and not spoiled[group]
            and not mixed[members[row]]
            and headers[row, _INTERVAL] == stated[group]
        ):
            found[row] = first_row[claim]


@frozen(eq=False)
class SteadySums:
    """What the records of each steady claim come to. Numbers of records begin with the win, 0."""

    first_move: Ints
    """The first heartbeat to say another position than the one before it, or -1."""
    last_move: Ints
    """The last one, or -1."""
    position: Ints
    """What the last heartbeat says; 0 if there is none."""
    first_position: Ints
    """What the first heartbeat says; 0 if there is none."""
    longest_ms: Ints
    """The longest silence."""
    beats_ms: Ints
    """The clocks that are drawn, claim by claim."""
    beats: Ints
    """How many of them each claim has."""


def steady_sums(
    order: Ints,
    begins: Ints,
    lengths: Ints,
    first_positions: Ints,
    last_positions: Ints,
    first_moves: Ints,
    last_moves: Ints,
    clocks_ms: Ints,
    grain_ms: npt.NDArray[np.float64],
) -> SteadySums:
    """Add up the rows of steady claims.

    Args:
        order: the rows, claim by claim, each beginning with its win.
        begins: where in this order each claim begins.
        lengths: by row, how many records it is; the next four are by row, too.
        first_positions: what the first record says.
        last_positions: what the last one says.
        first_moves: within the row, the first record that moves the position; negative: none.
        last_moves: the last one.
        clocks_ms: of all their records, in order.
        grain_ms: by claim, heartbeats that are closer together are drawn as one.
    """
    count = len(begins)
    numbers = np.zeros((6, count), np.int64)
    beats_ms = np.empty(len(clocks_ms), np.int64)
    total = _steady_sums(
        order, np.append(begins, len(order)), lengths, first_positions, last_positions, first_moves,
        last_moves, clocks_ms, grain_ms, beats_ms, *numbers,
    )  # fmt: skip
    first_move, last_move, position, first_position, longest_ms, beats = numbers
    return SteadySums(
        first_move, last_move, position, first_position, longest_ms, beats_ms[:total], beats
    )


@numba.njit(cache=True, nogil=True)
def _steady_sums(  # type: ignore[no-untyped-def]
    order, begins, lengths, first_positions, last_positions, first_moves, last_moves,
    clocks_ms, grain_ms, beats_ms, first_move, last_move, position, first_position, longest_ms,
    beats,
):  # fmt: skip
    at, drawn = 0, 0
    for claim in range(len(begins) - 1):
        begin = at
        first_move[claim] = last_move[claim] = -1
        for place in range(begins[claim] + 1, begins[claim + 1]):
            row = order[place]
            at += lengths[order[place - 1]]
            if place == begins[claim] + 1:
                first_position[claim] = first_positions[row]
            elif first_positions[row] != position[claim]:
                last_move[claim] = at - begin
                if first_move[claim] < 0:
                    first_move[claim] = at - begin
            if first_moves[row] >= 0:
                last_move[claim] = at - begin + last_moves[row]
                if first_move[claim] < 0:
                    first_move[claim] = at - begin + first_moves[row]
            position[claim] = last_positions[row]
        at += lengths[order[begins[claim + 1] - 1]]
        last_drawn = drawn
        for record in range(begin, at):
            if record > begin:
                longest_ms[claim] = max(
                    longest_ms[claim], clocks_ms[record] - clocks_ms[record - 1]
                )
            if record == begin or clocks_ms[record] - beats_ms[drawn - 1] >= grain_ms[claim]:
                beats_ms[drawn] = clocks_ms[record]
                drawn += 1
        beats[claim] = drawn - last_drawn
    return drawn


def positions(
    members: Ints,
    lengths: Ints,
    first_positions: Ints,
    last_positions: Ints,
    first_moves: Ints,
    moved_to: Ints,
    last_moves: Ints,
) -> tuple[int, int, int, int]:
    """The positions of a run of these rows.

    All but `members` are by row: the number of records, and the first and the last position. Then
    come the index of the first move, its position, and the index of the last move; negative if
    there is none. Returned are the first position and the same three numbers of the whole run.
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

    A row's numbers are its `distances` from `begins` to before `ends`, each added to its `base`. A
    row without distances is one record, at its base.
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
