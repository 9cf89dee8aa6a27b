"""Finds runs of redundant heartbeats in a part of a log, without knowing what came before.

Nearly every record of a log is the heartbeat of a live owner. Its effect depends on the sender
alone: the verdict is that of the sender's previous heartbeat, if no other record about that claim
or its group came in between. So a run of heartbeats is equivalent to its last one. A fold can take
it in one step, once it has checked that the last would be accepted, and that the first states no
lower position.

A run ends wherever that does not hold, and wherever an observer would see more than a heartbeat. It
ends at any other record of the claim, a ReleaseGroup of its group, another instance of the client,
and at changed headers. It also ends at a lower position or timestamp, and after a silence that is
reported. The heartbeat that ends one this way is in no run, because it is folded by itself.
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
    Small,
)
from kafka_marshal.kernel.steps import HEARTBEAT, RELEASE_GROUP

NO_RUN: Final = -1
_START: Final = HEADER_COLUMNS.index("start")
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")
_NEVER: Final = -(2**63)
_FEW: Final = 1 << 16
"""Numbers below this are counted individually, which is faster than sorting."""
_SPAN_MAX: Final = 2**31 - 1
"""Offsets and milliseconds in a run are stored as distances of 32 bits."""
_LAST_ROW, _SWITCHES, _ENDED, _MOVED_MS, _PARTED = range(5)
"""The state of a claim. The clock of the last move of its position in a run may be _NEVER."""
_STATED: Final = 1 << 32
"""Counts the events that end a group's runs: each ReleaseGroup and, in units of this constant, each
newly stated interval. The latter ends the runs of heartbeats that state none, since it applies to
them from then on."""
_CELLS_MAX: Final = 1 << 21
"""The most counters that are cheaper than sorting."""
_BUCKET_BITS: Final = 40
_HALF: Final = 1 << (_BUCKET_BITS - 1)
_u = np.uint64


@frozen(eq=False)
class HeartbeatRuns:
    """The runs found among some records, row by row."""

    leader: Ints
    """The first row of each row's run, or NO_RUN."""
    clock_ms: Ints
    """The latest timestamp of the row's coordinating partition up to here, among these records."""
    ordered: Flags
    """By coordinating partition: whether offsets are strictly increasing."""


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
    """Find the runs among some records.

    Args:
        partitions: for every row, the index of its coordinating partition, from 0 without gaps.
        offsets: log offsets; increasing within a partition, or `ordered` is false for it.
        timestamps_ms: the records' timestamps, unix milliseconds.
        columns: the same records, decoded with `names`.
        names: the codes of senders and claims.
        silence_intervals: a silence of more heartbeat intervals ends a run.
        rest_intervals: a run also ends where the position moves after a standstill of this many
            heartbeat intervals.
        interval_ms: the heartbeat interval of rows that state none.
        forced: whether `interval_ms` applies to all rows.
    """
    count = int(partitions.max()) + 1 if len(partitions) else 0
    subjects = Subjects.of(partitions, columns, names)
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
        names.table,
        subjects.claim,
        subjects.member,
        subjects.group,
        silence_intervals,
        rest_intervals,
        interval_ms,
        forced,
        np.full((subjects.claims, 5), -1, np.int64),
        np.full(subjects.members, -1, np.int64),
        np.zeros(subjects.members, np.int64),
        np.zeros(subjects.groups, np.int64),
        np.full(subjects.groups, -1, np.int64),
        ordered,
        leader,
        clock_ms,
    )
    return HeartbeatRuns(leader, clock_ms, ordered)


@frozen(eq=False)
class Subjects:
    """The sender and the claim of each row, as numbers per partition, and how many there are.

    Combinations of partition and claim that occur in no row need no number: in a log of very many
    claims, each occurs in one partition.
    """

    claims: int
    claim: Ints
    members: int
    member: Ints
    """The client of a group."""
    groups: int
    group: Ints

    @classmethod
    def of(cls, places: Codes, columns: RecordColumns, names: NameCodes) -> Subjects:
        """The subjects of rows decoded with `names`. Those of a MALFORMED row are undefined."""
        table = names.table if len(names.table) else np.zeros((1, 4), np.int32)
        wide, width = places.astype(np.int64), int(places.max(initial=0)) + 1
        groups, clients = table[:, 2].astype(np.int64), table[:, 1]
        _, member_of = distinct(groups * (int(clients.max(initial=0)) + 1) + clients)

        def numbered(of_address: Ints | Codes) -> tuple[int, Ints]:
            # Adjacent rows often have adjacent claims, and so use the same cache lines.
            return _numbered(of_address[columns.address] * np.int64(width) + wide)

        return cls(*numbered(np.maximum(table[:, 3], 0)), *numbered(member_of), *numbered(groups))


def _numbered(pairs: Ints) -> tuple[int, Ints]:
    """The number of distinct values, and the index of each pair: the pairs themselves if small."""
    most = int(pairs.max(initial=0)) + 1
    if most <= max(_FEW, 4 * len(pairs)):
        return most, pairs
    known, of_each = distinct(pairs)
    return len(known), of_each


def distinct(numbers: Ints) -> tuple[Ints, Ints]:
    """The distinct values of non-negative numbers, sorted; and the index of each number.

    >>> known, of_each = distinct(np.array([7, 2, 7]))
    >>> known.tolist(), of_each.tolist()
    ([2, 7], [1, 0, 1])
    """
    if numbers.max(initial=0) >= max(_FEW, 4 * len(numbers)):
        known, of_each = np.unique(numbers, return_inverse=True)
        return known, of_each.reshape(-1)
    there = np.bincount(numbers) > 0
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def by_leader(leader: Ints) -> tuple[Ints, Ints]:
    """The rows that are in runs, run by run, and the start of each run in this order."""
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


@frozen(eq=False)
class RunsTold:
    """The contents of runs, in the order of their first rows."""

    begins: Ints
    """The start of each run in `offsets` and `clocks_ms`."""
    offsets: Codes
    clocks_ms: Codes
    """The distances of each record's offset and clock from those of the run's first record."""
    first_row: Ints
    last_row: Ints
    position: Ints
    """The position of the first record."""
    first_move: Ints
    """The index, within the run, of the first record with a new position; or -1."""
    moved_to: Ints
    """That record's position; `position` if there is none."""
    last_move: Ints
    """The index of the last such record, or -1."""


def told(found: HeartbeatRuns, offsets: Ints, positions: Ints) -> RunsTold:
    """Collect the contents of the runs found, from all rows' offsets and positions."""
    begins, far, late_ms, columns = _told(found.leader, offsets, found.clock_ms, positions)
    return RunsTold(begins, far, late_ms, *columns.T)


_FIRST_ROW, _LAST_ROW_OF, _POSITION, _FIRST_MOVE, _MOVED_TO, _LAST_MOVE, _NOW_AT, _NEXT = range(8)
"""The columns of `RunsTold`, and the state of a run while it is read."""


@numba.njit(cache=True, nogil=True)
def _told(leader, offsets, clock_ms, positions):  # type: ignore[no-untyped-def]
    lengths = np.zeros(len(leader), np.int64)
    for row in range(len(leader)):
        if leader[row] >= 0:
            lengths[leader[row]] += 1
    begins = np.empty(np.count_nonzero(lengths), np.int64)
    runs = np.full((len(begins), 8), -1, np.int64)
    known, total = 0, 0
    for row in range(len(leader)):
        if lengths[row]:
            begins[known] = runs[known, _NEXT] = total
            total += lengths[row]
            lengths[row] = known  # from here on, which run it is
            known += 1
    far, late_ms = np.empty(total, np.int32), np.empty(total, np.int32)
    for row in range(len(leader)):
        first = leader[row]
        if first < 0:
            continue
        number = lengths[first]
        run, position = runs[number], positions[row]
        at = run[_NEXT]
        run[_NEXT] += 1
        far[at], late_ms[at] = offsets[row] - offsets[first], clock_ms[row] - clock_ms[first]
        run[_LAST_ROW_OF] = row
        if row == first:
            run[_FIRST_ROW] = row
            run[_POSITION] = run[_MOVED_TO] = run[_NOW_AT] = position
        elif position != run[_NOW_AT]:
            run[_LAST_MOVE] = at - begins[number]
            if run[_FIRST_MOVE] < 0:
                run[_FIRST_MOVE], run[_MOVED_TO] = run[_LAST_MOVE], position
            run[_NOW_AT] = position
    return begins, far, late_ms, runs[:, :_NOW_AT]


@frozen(eq=False)
class SenderClocks:
    """How far senders' clocks differ from records' timestamps, counted in buckets."""

    who: Ints
    """The partition and sender of each bucket as one number: partition times senders plus
    sender."""
    buckets: Ints
    """Differences divided by the bucket's size, increasing for each of `who`."""
    counts: Ints
    least_ms: Ints
    most_ms: Ints
    """The least and the greatest difference, by the numbers of `who`."""
    far: Ints
    """The rows whose times do not fit."""


def clocks(
    places: Codes, wanted: Flags, unix_s: Ints, timestamps_ms: Ints, addresses: Codes,
    sender_of: Ints, fits_ms: int, bucket_ms: int,
) -> SenderClocks:  # fmt: skip
    """The differences between the time in a record and its timestamp.

    Args:
        places: for every record, the index of its partition.
        wanted: which records are counted.
        unix_s: the times in the records.
        timestamps_ms: the records' timestamps.
        addresses: for every record, its sender and claim.
        sender_of: by address, the index of the sender, from 0 without gaps.
        fits_ms: times further from 1970 are in `SenderClocks.far`.
        bucket_ms: the size of a bucket.
    """
    of_senders = int(sender_of.max()) + 1
    rows = (places, wanted, unix_s, timestamps_ms, addresses, sender_of, of_senders, fits_ms)
    count = (int(places.max(initial=0)) + 1) * of_senders
    least, most = np.full(count, 2**63 - 1), np.full(count, -(2**63))
    far = _bounds(rows, least, most)
    none = np.zeros(0, np.int64)
    if not (there := least <= most).any():
        return SenderClocks(none, none, none, least, most, far)
    low = int(least[there].min()) // bucket_ms
    width = int(most[there].max()) // bucket_ms - low + 1
    if count * width <= _CELLS_MAX:
        cells = np.zeros((count, width), np.int64)
        _counted(rows, low, bucket_ms, cells)
        who, buckets = np.nonzero(cells)
        return SenderClocks(who, buckets + low, cells[who, buckets], least, most, far)
    near = wanted.copy()
    near[far] = False
    each = places[near].astype(np.int64) * of_senders + sender_of[addresses[near]]
    bucket = (unix_s[near] * 1000 - timestamps_ms[near]) // bucket_ms
    keys, counts = np.unique((each << _BUCKET_BITS) + bucket + _HALF, return_counts=True)
    buckets = (keys & ((1 << _BUCKET_BITS) - 1)) - _HALF
    return SenderClocks(keys >> _BUCKET_BITS, buckets, counts, least, most, far)


@numba.njit(cache=True, nogil=True)
def _fits(unix_s, timestamp_ms, fits_ms):  # type: ignore[no-untyped-def]
    return -fits_ms // 1000 < unix_s < fits_ms // 1000 and -fits_ms < timestamp_ms < fits_ms


@numba.njit(cache=True, nogil=True)
def _bounds(rows, least, most):  # type: ignore[no-untyped-def]
    places, wanted, unix_s, timestamps_ms, addresses, sender_of, of_senders, fits_ms = rows
    far = []
    far.append(np.int64(0))
    for row in range(len(places)):
        if not wanted[row]:
            continue
        if not _fits(unix_s[row], timestamps_ms[row], fits_ms):
            far.append(np.int64(row))
            continue
        each = _u(places[row] * of_senders + sender_of[_u(addresses[row])])
        off_ms = unix_s[row] * 1000 - timestamps_ms[row]
        least[each] = min(least[each], off_ms)
        most[each] = max(most[each], off_ms)
    return np.array(far[1:], np.int64)


@numba.njit(cache=True, nogil=True)
def _counted(rows, low, bucket_ms, cells):  # type: ignore[no-untyped-def]
    places, wanted, unix_s, timestamps_ms, addresses, sender_of, of_senders, fits_ms = rows
    for row in range(len(places)):
        if wanted[row] and _fits(unix_s[row], timestamps_ms[row], fits_ms):
            each = _u(places[row] * of_senders + sender_of[_u(addresses[row])])
            off_ms = unix_s[row] * 1000 - timestamps_ms[row]
            cells[each, _u(off_ms // bucket_ms - low)] += 1


def summed(
    places: Codes, offsets: Ints, timestamps_ms: Ints, kinds: Small, counted: Ints, listed: Ints
) -> Ints:
    """The sums of each partition's records, whatever their content.

    Args:
        places: for every record, the index of its partition, from 0 without gaps.
        offsets: log offsets.
        timestamps_ms: the records' timestamps, unix milliseconds.
        kinds: the timestamp types, as numbers.
        counted: by partition and type, all 0; receives the number of records.
        listed: by partition; receives the first and the last offset of each of the first gaps.

    Returns:
        By partition: records, first and last offset, least and greatest timestamp, gaps between
        offsets, and the number of offsets missing in them.
    """
    return _summed(places, offsets, timestamps_ms, kinds, counted, listed)  # type: ignore[no-any-return]


@numba.njit(cache=True, nogil=True)
def _summed(places, offsets, timestamps_ms, kinds, counted, listed):  # type: ignore[no-untyped-def]
    sums = np.zeros((len(counted), 7), np.int64)
    for row in range(len(places)):
        place, offset, timestamp_ms = places[row], offsets[row], timestamps_ms[row]
        of_place = sums[place]
        counted[place, kinds[row]] += 1
        if of_place[0] == 0:
            of_place[1] = offset
            of_place[3] = of_place[4] = timestamp_ms
        elif offset - of_place[2] > 1:
            if of_place[5] < listed.shape[1]:
                listed[place, of_place[5], 0] = of_place[2] + 1
                listed[place, of_place[5], 1] = offset - 1
            of_place[5] += 1
            of_place[6] += offset - of_place[2] - 1
        of_place[0] += 1
        of_place[2] = offset
        of_place[3] = min(of_place[3], timestamp_ms)
        of_place[4] = max(of_place[4], timestamp_ms)
    return sums


@numba.njit(cache=True, nogil=True)
def _find(  # type: ignore[no-untyped-def]
    partitions, offsets, timestamps_ms, kinds, versions, unix_s, numbers, addresses, present,
    headers, amended_badly, table, claims, members, groups, silence_intervals, rest_intervals,
    interval_ms, forced, known, speaking, switches, ended, stated, ordered, leader, clock_ms,
):  # fmt: skip
    last_offset = np.full(len(ordered), -1, np.int64)
    clock = np.full(len(ordered), np.int64(-(2**63)), np.int64)
    for row in range(_u(len(partitions))):
        partition = _u(partitions[row])
        leader[row] = NO_RUN
        if offsets[row] <= last_offset[partition]:
            ordered[partition] = False
        last_offset[partition] = offsets[row]
        clock[partition] = max(clock[partition], timestamps_ms[row])
        clock_ms[row] = clock[partition]
        kind = kinds[row]
        if kind == MALFORMED:
            continue
        address = _u(addresses[row])
        group, claim, member = _u(groups[row]), _u(claims[row]), _u(members[row])
        if speaking[member] != table[address, 0]:
            speaking[member] = table[address, 0]
            switches[member] += 1
        if kind == RELEASE_GROUP:
            ended[group] += 1
            continue
        said = headers[row, _INTERVAL]
        if said >= 0 and stated[group] != said:
            stated[group] = said
            ended[group] += _STATED
        last = known[claim]
        last_row, moved_before_ms = last[_LAST_ROW], last[_MOVED_MS]
        has_switched = last[_SWITCHES] != switches[member]
        news = last[_ENDED] ^ ended[group]
        has_ended = news != 0 if said < 0 else news % _STATED != 0
        last[_LAST_ROW], last[_MOVED_MS] = row, _NEVER
        last[_SWITCHES], last[_ENDED] = switches[member], ended[group]
        was_parted, last[_PARTED] = last[_PARTED] > 0, 0
        before = _u(last_row)
        if last_row < 0 or kind != HEARTBEAT or kinds[before] != HEARTBEAT:
            continue
        every_ms = interval_ms if forced or said < 0 else said
        if (
            _u(addresses[before]) != address
            or has_switched
            or has_ended
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
            last[_PARTED] = 1
            continue
        decimal = True
        for field in range(STRICT):
            if headers[row, field] == NOT_DECIMAL or headers[before, field] == NOT_DECIMAL:
                decimal = False
        if was_parted or not decimal:
            continue
        moved = numbers[row] != numbers[before]
        first = leader[before]
        if first < 0 and unix_s[before] > 0 and headers[before, 0] < offsets[before]:
            first = last_row
        if first < 0 or (
            offsets[row] - offsets[first] > _SPAN_MAX
            or clock_ms[row] - clock_ms[first] > _SPAN_MAX
            or (
                moved
                and moved_before_ms != _NEVER
                and clock_ms[before] - moved_before_ms >= rest_intervals * every_ms
            )
        ):
            first = np.int64(row)
        leader[row] = leader[first] = first
        if moved:
            last[_MOVED_MS] = clock_ms[row]
        elif first != np.int64(row):
            last[_MOVED_MS] = moved_before_ms
