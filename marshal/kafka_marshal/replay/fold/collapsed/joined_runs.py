"""Joins the heartbeat runs of several chunks before they are folded.

A run ends with its chunk, so a claim has as many runs as there are chunks. Folding one costs some
60 microseconds, whatever its length. So consecutive runs are joined before they are folded, in
columns (`kernel.joined_runs`). This module examines rows that are already gathered and sorted. It
does not fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.values import evolved
from kafka_marshal.kernel import joined_runs as kernel
from kafka_marshal.kernel.columns import (
    HEADER_COLUMNS,
    MALFORMED,
    Codes,
    NameCodes,
    RecordColumns,
)
from kafka_marshal.kernel.parsing import REQUEST
from kafka_marshal.kernel.runs import NO_RUN, Subjects, by_leader
from kafka_marshal.kernel.steps import CLAIMING_PARTITION
from kafka_marshal.replay.findings.claims.silence import MISSED_AFTER_INTERVALS
from kafka_marshal.replay.fold.collapsed.run_length import with_checkpoint
from kafka_marshal.replay.fold.lanes import GRAIN_INTERVALS
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, records_of
from kafka_marshal.replay.fold.steady_claims import NEVER_LATE, Parts, SteadyClaims
from kafka_marshal.replay.model.chunk_items import Flags, HeartbeatRun, Ints, SingleRecord
from kafka_marshal.replay.model.position_progress import REST_INTERVALS

SHORTEST: Final = 4
"""Fewer records, each a row of its own, are folded one by one."""
_START: Final = HEADER_COLUMNS.index("start")
_INTERVAL: Final = HEADER_COLUMNS.index("interval_ms")


@frozen(eq=False)
class _Rows:
    """The decoded rows of a batch, by row."""

    record: Callable[[int], RawRecord]
    """The record of a row."""
    chunks: Ints
    lengths: Ints
    """The number of records in each."""
    first_positions: Ints
    last_positions: Ints
    first_moves: Ints
    moved_to: Ints
    last_moves: Ints
    """As in `HeartbeatRun`; -1 for a record."""
    late: Flags
    """The rows for which the fold knows a later clock; see `_late`."""


@frozen(eq=False)
class RunOfRows:
    """As `JoinedRun`."""

    rows: _Rows
    members: npt.NDArray[np.int64]
    """The indexes of its rows, in order."""
    offsets: Ints
    clocks_ms: Ints
    """The clocks at all of its records."""
    last: RawRecord
    hopeless: bool = False

    @property
    def first_offset(self) -> int:
        """As `JoinedRun`."""
        return int(self.offsets[0])

    @property
    def late_clock_ms(self) -> int:
        """As `JoinedRun`."""
        late = self.rows.late[self.members]
        if late[0] or not late.any():
            return NEVER_LATE
        return int(self.clocks_ms[self.rows.lengths[self.members[: late.argmax()]].sum()])

    def run(self) -> HeartbeatRun:
        """As `JoinedRun`."""
        rows = self.rows
        stated = kernel.positions(
            self.members, rows.lengths, rows.first_positions, rows.last_positions,
            rows.first_moves, rows.moved_to, rows.last_moves,
        )  # fmt: skip
        return HeartbeatRun(self.last, self.offsets, self.clocks_ms, *stated, chunk=-1)

    def parts(self) -> list[HeartbeatRun | SingleRecord]:
        """As `JoinedRun`."""
        ends = np.cumsum(self.rows.lengths[self.members]).tolist()
        begins = [0, *ends[:-1]]
        return [
            self._part(row, begin, end)
            for row, begin, end in zip(self.members.tolist(), begins, ends, strict=True)
        ]

    def split(self) -> tuple[HeartbeatRun | SingleRecord, RunOfRows | None]:
        """As `JoinedRun`."""
        first = int(self.members[0])
        end = int(self.rows.lengths[first])
        part = self._part(first, 0, end)
        if len(self.members) == 1:
            return part, None
        rest = attrs.evolve(
            self,
            members=self.members[1:],
            offsets=self.offsets[end:],
            clocks_ms=self.clocks_ms[end:],
            hopeless=True,
        )
        return part, rest

    def _part(self, row: int, begin: int, end: int) -> HeartbeatRun | SingleRecord:
        rows = self.rows
        if rows.first_moves[row] == _RECORD:
            return SingleRecord(rows.record(row), int(self.clocks_ms[begin]))
        return HeartbeatRun(
            evolved(rows.record(row), offset=int(self.offsets[end - 1])),
            self.offsets[begin:end],
            self.clocks_ms[begin:end],
            int(rows.first_positions[row]),
            int(rows.first_moves[row]),
            int(rows.moved_to[row]),
            int(rows.last_moves[row]),
            chunk=int(rows.chunks[row]),
        )


_RECORD: Final = -2
"""The first move of a row that is no run."""


def joined(
    batch: pa.RecordBatch,
    columns: RecordColumns,
    names: NameCodes,
    requests: Flags,
    of_ranges: Flags,
    record: Callable[[int], RawRecord],
    interval_ms: float,
    forced: bool,
) -> tuple[list[tuple[int, int, RunOfRows | SteadyClaims]], Flags]:
    """The runs, and which rows are in none.

    With each run come the row behind which it is taken, and a row of its place.
    `columns` are the batch's rows, decoded with `names`; `requests` are those whose value begins as
    a ClaimingRange does, and `of_ranges` those with a header of ranges. `record` gives the record
    of a row. `interval_ms` is the heartbeat interval of records that say none; forced: of all.
    Steady claims of a place come where its rows begin.
    """
    stretches = _Stretches.of(batch)
    places, offsets, timestamps_ms = _places(batch), *_numbers(batch, "offset", "timestamp_ms")
    base_ms, floor_ms = _clocks(batch, places)
    count = len(places)
    is_run = stretches.lengths > 0
    last_offsets = offsets + stretches.last(stretches.offsets)
    first_clock_ms = np.maximum(base_ms, floor_ms)
    last_clock_ms = np.maximum(base_ms + stretches.last(stretches.clocks), floor_ms)

    def clock_at(record: Ints, there: Flags) -> Ints:
        found = np.full(count, kernel.NEVER)
        at = (stretches.begins + record)[there]
        found[there] = np.maximum(base_ms[there] + stretches.clocks[at], floor_ms[there])
        return found

    run = batch.column("run")
    stated, first_moves, moved_to, last_moves = (
        run.field(name).fill_null(0).to_numpy()
        for name in ("position", "first_move", "moved_to", "last_move")
    )
    moves = is_run & (first_moves >= 0)
    joinable = kernel.may_be_in_runs(columns, last_offsets)
    alone = _shared(batch, columns, names, places, requests)
    alone |= _repeated(places, offsets, batch.column("facts"))
    joinable &= ~alone
    first_positions = np.where(is_run, stated, columns.number)
    of_rows = kernel.RowColumns(
        places,
        first_clock_ms,
        last_clock_ms,
        timestamps_ms,
        first_positions,
        columns.number,
        clock_at(first_moves - 1, moves),
        clock_at(last_moves, moves),
    )
    subjects = Subjects.of(places, columns, names)
    leader = kernel.join(
        of_rows, columns, joinable, names, subjects, MISSED_AFTER_INTERVALS, REST_INTERVALS,
        interval_ms, forced,
    )  # fmt: skip
    lengths = np.maximum(stretches.lengths, 1)
    rows = _Rows(
        record,
        batch.column("chunk").fill_null(-1).to_numpy(),
        lengths,
        first_positions,
        columns.number,
        np.where(is_run, first_moves, _RECORD),
        moved_to,
        np.where(is_run, last_moves, _RECORD),
        _late(batch, places),
    )

    def gathered(order: Ints) -> tuple[Ints, Ints]:
        """The offsets and clocks of all records of these rows."""
        ends = stretches.begins + stretches.lengths
        of_all = kernel.gathered(order, stretches.begins, ends, offsets, stretches.offsets)
        clocks_ms = kernel.gathered(order, stretches.begins, ends, base_ms, stretches.clocks)
        np.maximum(clocks_ms, np.repeat(floor_ms[order], lengths[order]), out=clocks_ms)
        return of_all, clocks_ms

    wins = kernel.may_be_in_runs(columns, offsets, CLAIMING_PARTITION)
    found_steady = kernel.steady(
        of_rows, columns, offsets, leader, (joinable | wins) & ~alone & ~of_ranges, names, subjects,
        MISSED_AFTER_INTERVALS, interval_ms,
    )  # fmt: skip
    found: list[tuple[int, int, RunOfRows | SteadyClaims]] = []
    found += _steady(batch, of_rows, columns, names, rows, found_steady, gathered, interval_ms)
    steady_rows = found_steady.leader != NO_RUN
    leader[steady_rows] = NO_RUN
    single = ~steady_rows
    if (leader == NO_RUN).all():
        return found, single
    order, begins = by_leader(leader)
    sums = np.add.reduceat(lengths[order], begins)
    worth = (sums >= SHORTEST) | np.logical_or.reduceat(is_run[order], begins)
    kept = np.repeat(worth, np.diff([*begins, len(order)]))
    order = order[kept]
    if not order.size:
        return found, single
    begins = np.flatnonzero(np.diff(leader[order], prepend=-1))
    all_offsets, all_clocks_ms = gathered(order)
    record_begins = np.concatenate([[0], np.cumsum(lengths[order])])
    single[order] = False
    ends = np.append(begins[1:], len(order))
    lasts = _lasts(batch, order[ends - 1], all_offsets[record_begins[ends] - 1])
    for begin, end, last in zip(begins.tolist(), ends.tolist(), lasts, strict=True):
        of_run = slice(record_begins[begin], record_begins[end])
        members = order[begin:end]
        run = RunOfRows(rows, members, all_offsets[of_run], all_clocks_ms[of_run], last)
        found.append((int(members[0]), int(members[0]), run))
    return found, single


def _steady(
    batch: pa.RecordBatch,
    of_rows: kernel.RowColumns,
    columns: RecordColumns,
    names: NameCodes,
    rows: _Rows,
    found: kernel.SteadyRows,
    gathered: Callable[[Ints], tuple[Ints, Ints]],
    interval_ms: float,
) -> Iterator[tuple[int, int, SteadyClaims]]:
    """The steady claims of each place: the row behind which they are taken, and one of the place.

    A claim whose position rests and then moves is none of them: `found` is put right.
    """
    order, begins = by_leader(found.leader)
    if not order.size:
        return
    said = columns.headers[order[begins], _INTERVAL]
    every_ms = np.where(said < 0, interval_ms, said.astype(np.float64))
    lengths = rows.lengths
    all_offsets, clocks_ms = gathered(order)
    sums = kernel.steady_sums(
        order, begins, lengths, rows.first_positions, rows.last_positions, rows.first_moves,
        rows.last_moves, clocks_ms, every_ms * GRAIN_INTERVALS,
    )  # fmt: skip
    row_ends = np.append(begins[1:], len(order))
    ends = np.cumsum(lengths[order])[row_ends - 1]
    firsts, lasts = order[begins], order[row_ends - 1]
    at = np.append(0, ends[:-1])
    records = ends - at
    beat = at + (records > 1)
    still_until = np.maximum(at + sums.first_move - 1, beat)
    rests = clocks_ms[still_until] - clocks_ms[beat] >= REST_INTERVALS * every_ms
    moved = np.where(sums.last_move < 0, beat, at + sums.last_move)

    def report(record: Ints, position: Ints) -> Ints:
        return np.stack([position, clocks_ms[record], all_offsets[record]], axis=1)

    def parts(number: int) -> Parts:
        begin, end = int(at[number]), int(ends[number])
        first, *others = order[begins[number] : row_ends[number]].tolist()
        win = SingleRecord(rows.record(first), int(clocks_ms[begin]))
        if not others:
            return [win]
        last = evolved(rows.record(others[-1]), offset=int(all_offsets[end - 1]))
        of_rest = slice(begin + 1, end)
        run = RunOfRows(rows, np.array(others), all_offsets[of_rest], clocks_ms[of_rest], last)
        return [win, *(run.parts() if len(others) == 1 else [run])]

    late_ms = np.where(rows.late, of_rows.first_clock_ms, NEVER_LATE)
    late_ms = np.minimum.reduceat(late_ms[order], begins)
    began, last_moved = report(beat, sums.first_position), report(moved, sums.position)
    number_of = np.cumsum(np.diff(of_rows.place[firsts], prepend=-1) != 0) - 1
    claim_begins = np.flatnonzero(np.diff(number_of, prepend=-1))
    place_begins = np.flatnonzero(np.diff(of_rows.place, prepend=-1))
    drawn = np.append(0, np.cumsum(sums.beats))
    facts, records_of_batch = batch.column("facts"), batch.select(ARROW_SCHEMA.names)
    for begin, end in pairwise([*claim_begins.tolist(), len(firsts)]):
        of = slice(begin, end)
        of_records = slice(int(at[begin]), int(ends[end - 1]))
        wins, last_rows = firsts[of], lasts[of]
        headers = columns.headers[last_rows]
        claims = SteadyClaims(
            names=names,
            numbers=np.arange(begin, end),
            claims=names.table[columns.address[wins], 3].astype(np.int64),
            addresses=columns.address[wins].astype(np.int64),
            said=said[of],
            interval_ms=every_ms[of],
            begins_group=found.begins_group[wins],
            records=records[of],
            first_offset=all_offsets[at[of]],
            first_clock_ms=clocks_ms[at[of]],
            first_timestamp_ms=of_rows.timestamp_ms[wins],
            late_clock_ms=late_ms[of],
            last_offset=all_offsets[ends[of] - 1],
            last_clock_ms=clocks_ms[ends[of] - 1],
            last_timestamp_ms=of_rows.timestamp_ms[last_rows],
            last_unix_s=columns.unix_s[last_rows],
            position=sums.position[of],
            position_set=(records[of] > 1) & ((sums.position[of] > 0) | (headers[:, _START] >= 0)),
            began=began[of],
            moved=last_moved[of],
            longest_ms=sums.longest_ms[of],
            beats=sums.beats[of],
            beats_ms=sums.beats_ms[drawn[begin] : drawn[end]],
            clocks_ms=clocks_ms[of_records],
            wins=records_of_batch.take(pa.array(wins)),
            lasts=_at(records_of_batch.take(pa.array(last_rows)), all_offsets[ends[of] - 1]),
            parts=parts,
        ).chosen(~rests[of])
        if len(claims):
            row = int(place_begins[np.searchsorted(place_begins, wins[0], side="right") - 1])
            yield (row if facts[row].is_valid else row - 1), row, claims
    found.leader[np.isin(found.leader, firsts[rests])] = NO_RUN


def _late(batch: pa.RecordBatch, places: Codes) -> Flags:
    """The rows after the facts of a second chunk, in a partition that does not begin with facts.

    These rows do not show the clock at the end of the first chunk.
    """
    facts = batch.column("facts").is_valid().to_numpy(zero_copy_only=False)
    begins = np.flatnonzero(np.diff(places, prepend=-1))
    counts = np.diff([*begins, len(places)])
    known = np.cumsum(facts)
    found: Flags = known > np.repeat(known[begins], counts)
    found &= ~np.repeat(facts[begins], counts)
    return found


def _lasts(batch: pa.RecordBatch, rows: Ints, offsets: Ints) -> Iterator[RawRecord]:
    """Yield the records of these rows, which are at these offsets."""
    taken = _at(batch.select(ARROW_SCHEMA.names).take(pa.array(rows)), offsets)
    return (raw for _, raw in records_of(taken))


def _at(batch: pa.RecordBatch, offsets: Ints) -> pa.RecordBatch:
    """The same records with other offsets."""
    place = batch.schema.get_field_index("offset")
    return batch.set_column(place, batch.schema.field(place), pa.array(offsets))


@frozen(eq=False)
class _Stretches:
    """The distances of the rows that are runs; a record has none."""

    begins: Ints
    lengths: Ints
    offsets: Codes
    clocks: Codes

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> _Stretches:
        """The distances of a batch."""
        run = batch.column("run")
        begins, offsets = _distances(run.field("offsets"))
        _, clocks = _distances(run.field("clocks"))
        lengths = np.diff(begins)
        if run.null_count:
            lengths = np.where(run.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
        return cls(begins[:-1], lengths, offsets, clocks)

    def last(self, distances: Codes) -> Ints:
        """The last distance of each row; 0 for a record."""
        found = np.zeros(len(self.lengths), np.int64)
        there = self.lengths > 0
        found[there] = distances[(self.begins + self.lengths - 1)[there]]
        return found


def _distances(column: pa.Array) -> tuple[Ints, Codes]:
    _, ends, content = column.buffers()
    at = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    if content is None or at[-1] == at[0]:
        return np.zeros(len(at), np.int64), np.zeros(0, np.int32)
    held = np.frombuffer(content, "<i4", (int(at[-1]) - int(at[0])) // 4, int(at[0]))
    return ((at - at[0]) // 4).astype(np.int64), np.require(held, np.int32, "A")


def _numbers(batch: pa.RecordBatch, *names: str) -> list[Ints]:
    return [batch.column(name).to_numpy() for name in names]


def _places(batch: pa.RecordBatch) -> Codes:
    """Logs and coordinating partitions, numbered by first occurrence; equal ones are adjacent."""
    logs = batch.column("log").dictionary_encode().indices.to_numpy()
    [partitions] = _numbers(batch, "partition")
    begins = np.zeros(len(logs), np.bool_)
    begins[1:] = (np.diff(logs) != 0) | (np.diff(partitions) != 0)
    return np.cumsum(begins).astype(np.int32)


def _clocks(batch: pa.RecordBatch, places: Codes) -> tuple[Ints, Ints]:
    """For each row, the clock that its chunk knows, and the latest clock of earlier chunks.

    Chunks that are not in this batch do not count: the fold knows the clock before it.
    """
    base_ms = batch.column("clock_ms").fill_null(0).to_numpy()
    floor_ms = np.full(len(places), -(2**63) // 2)
    facts = batch.column("facts")
    rows = np.flatnonzero(facts.is_valid().to_numpy(zero_copy_only=False))
    if not rows.size:
        return base_ms, floor_ms
    to_ms = facts.flatten().field("to_ms").to_numpy()
    ends = [*rows[1:].tolist(), len(places)]
    for row, end, latest_ms in zip(rows.tolist(), ends, to_ms, strict=True):
        if end < len(places) and places[end] == places[row]:
            floor_ms[end:] = max(floor_ms[row], latest_ms)
        else:
            floor_ms[end:] = -(2**63) // 2
    return base_ms, floor_ms


def _shared(
    batch: pa.RecordBatch,
    columns: RecordColumns,
    names: NameCodes,
    places: Codes,
    requests: Flags,
) -> Flags:
    """The rows about claims with a ClaimingRange or a checkpoint; see `_Records.shared`."""
    claims = np.full(len(places), -1, np.int64)
    told = columns.kind >= 0
    claims[told] = names.table[columns.address[told], 3]
    about = places.astype(np.int64) * (len(names.claims) + 1) + claims
    marked = columns.kind == REQUEST
    marked[with_checkpoint([batch])] = True
    found: Flags = np.isin(about, about[marked & told]) if marked.any() else marked
    odd = requests & (columns.kind == MALFORMED)
    if odd.any():
        found |= np.isin(places, places[odd])
    return found


def _repeated(places: Codes, offsets: Ints, facts: pa.Array) -> Flags:
    """The rows whose offset occurs more than once."""
    found = np.zeros(len(places), np.bool_)
    rows = np.flatnonzero(facts.is_null().to_numpy(zero_copy_only=False))
    same = (np.diff(offsets[rows]) == 0) & (np.diff(places[rows]) == 0)
    found[rows[1:][same]] = found[rows[:-1][same]] = True
    return found
