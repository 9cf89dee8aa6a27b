"""Runs of heartbeats of several chunks in one piece, as a fold takes them.

A run ends with its chunk, and a claim has as many as there are chunks. To fold one costs some 60
microseconds, however long it is. So those that follow each other are put together before they are
folded, in columns (`kernel.joined_runs`). This room looks at rows that are already brought together
and in order. It does not fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.values import evolved
from kafka_marshal.kernel import joined_runs as kernel
from kafka_marshal.kernel.columns import MALFORMED, Codes, NameCodes, RecordColumns
from kafka_marshal.kernel.parsing import REQUEST
from kafka_marshal.kernel.runs import NO_RUN, by_leader
from kafka_marshal.replay.findings.claims.silence import MISSED_AFTER_INTERVALS
from kafka_marshal.replay.fold.collapsed.run_length import with_checkpoint
from kafka_marshal.replay.fold.reading import ARROW_SCHEMA, records_of
from kafka_marshal.replay.model.chunk_items import Flags, HeartbeatRun, Ints, SingleRecord
from kafka_marshal.replay.model.position_progress import REST_INTERVALS

SHORTEST: Final = 4
"""Fewer records, each a row of its own, are folded one by one."""


@frozen(eq=False)
class _Rows:
    """What the rows of a batch are made of, row by row."""

    record: Callable[[int], RawRecord]
    """The record of a row."""
    chunks: Ints
    lengths: Ints
    """How many records each is."""
    first_positions: Ints
    last_positions: Ints
    first_moves: Ints
    moved_to: Ints
    last_moves: Ints
    """As in `HeartbeatRun`; -1 of a record."""


@frozen(eq=False)
class RunOfRows:
    """As `JoinedRun`."""

    rows: _Rows
    members: npt.NDArray[np.int64]
    """Its rows, in order."""
    offsets: Ints
    clocks_ms: Ints
    """Of all its records."""
    last: RawRecord
    hopeless: bool = False

    @property
    def first_offset(self) -> int:
        """As `JoinedRun`."""
        return int(self.offsets[0])

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
"""The first move of what is no run."""


def joined(
    batch: pa.RecordBatch,
    columns: RecordColumns,
    names: NameCodes,
    requests: Flags,
    record: Callable[[int], RawRecord],
    interval_ms: float,
    forced: bool,
) -> tuple[list[tuple[int, RunOfRows]], Flags]:
    """The runs and where each begins, in order; and which rows are in none.

    `columns` are the batch's rows, decoded with `names`, and `requests` those whose value begins as
    a ClaimingRange does; `record` gives the record of a row. `interval_ms` is the heartbeat
    interval of records that say none; forced: of all.
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
    joinable &= ~_shared(batch, columns, names, places, requests)
    joinable &= ~_repeated(places, offsets, batch.column("facts"))
    first_positions = np.where(is_run, stated, columns.number)
    leader = kernel.join(
        kernel.RowColumns(
            places,
            first_clock_ms,
            last_clock_ms,
            timestamps_ms,
            first_positions,
            columns.number,
            clock_at(first_moves - 1, moves),
            clock_at(last_moves, moves),
        ),
        columns, joinable, names, MISSED_AFTER_INTERVALS, REST_INTERVALS, interval_ms, forced,
    )  # fmt: skip
    single = np.ones(count, np.bool_)
    if (leader == NO_RUN).all():
        return [], single
    order, begins = by_leader(leader)
    lengths = np.maximum(stretches.lengths, 1)
    sums = np.add.reduceat(lengths[order], begins)
    worth = (sums >= SHORTEST) | np.logical_or.reduceat(is_run[order], begins)
    kept = np.repeat(worth, np.diff([*begins, len(order)]))
    order = order[kept]
    if not order.size:
        return [], single
    begins = np.flatnonzero(np.diff(leader[order], prepend=-1))
    ends = stretches.begins + stretches.lengths
    all_offsets = kernel.gathered(order, stretches.begins, ends, offsets, stretches.offsets)
    all_clocks_ms = kernel.gathered(order, stretches.begins, ends, base_ms, stretches.clocks)
    np.maximum(all_clocks_ms, np.repeat(floor_ms[order], lengths[order]), out=all_clocks_ms)
    rows = _Rows(
        record,
        batch.column("chunk").fill_null(-1).to_numpy(),
        lengths,
        first_positions,
        columns.number,
        np.where(is_run, first_moves, _RECORD),
        moved_to,
        np.where(is_run, last_moves, _RECORD),
    )
    record_begins = np.concatenate([[0], np.cumsum(lengths[order])])
    single[order] = False
    ends = np.append(begins[1:], len(order))
    lasts = _lasts(batch, order[ends - 1], all_offsets[record_begins[ends] - 1])
    found = []
    for begin, end, last in zip(begins.tolist(), ends.tolist(), lasts, strict=True):
        of_run = slice(record_begins[begin], record_begins[end])
        members = order[begin:end]
        run = RunOfRows(rows, members, all_offsets[of_run], all_clocks_ms[of_run], last)
        found.append((int(members[0]), run))
    found.sort(key=lambda each: each[0])
    return found, single


def _lasts(batch: pa.RecordBatch, rows: Ints, offsets: Ints) -> Iterator[RawRecord]:
    """The records of these rows, which lie at these offsets."""
    taken = batch.select(ARROW_SCHEMA.names).take(pa.array(rows))
    place = taken.schema.get_field_index("offset")
    taken = taken.set_column(place, taken.schema.field(place), pa.array(offsets))
    return (raw for _, raw in records_of(taken))


@frozen(eq=False)
class _Stretches:
    """The distances that the rows hold, which are runs; a record holds none."""

    begins: Ints
    lengths: Ints
    offsets: Codes
    clocks: Codes

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> _Stretches:
        """Those of a batch."""
        run = batch.column("run")
        begins, offsets = _distances(run.field("offsets"))
        _, clocks = _distances(run.field("clocks"))
        lengths = np.diff(begins)
        if run.null_count:
            lengths = np.where(run.is_valid().to_numpy(zero_copy_only=False), lengths, 0)
        return cls(begins[:-1], lengths, offsets, clocks)

    def last(self, distances: Codes) -> Ints:
        """The last distance of each row; 0 of a record."""
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
    """Logs and coordinating partitions, numbered as they come: equal ones follow each other."""
    logs = batch.column("log").dictionary_encode().indices.to_numpy()
    [partitions] = _numbers(batch, "partition")
    begins = np.zeros(len(logs), np.bool_)
    begins[1:] = (np.diff(logs) != 0) | (np.diff(partitions) != 0)
    return np.cumsum(begins).astype(np.int32)


def _clocks(batch: pa.RecordBatch, places: Codes) -> tuple[Ints, Ints]:
    """Of each row the clock that its chunk knows, and the latest of the chunks before it.

    Chunks that are not in this batch are not counted: the fold knows how late it was.
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
    """The rows about a claim with a ClaimingRange or a checkpoint: as `_Records.shared`."""
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
    """The rows at whose offset there is another record."""
    found = np.zeros(len(places), np.bool_)
    rows = np.flatnonzero(facts.is_null().to_numpy(zero_copy_only=False))
    same = (np.diff(offsets[rows]) == 0) & (np.diff(places[rows]) == 0)
    found[rows[1:][same]] = found[rows[:-1][same]] = True
    return found
