"""Compacts a chunk before it is shuffled: each run of heartbeats becomes one row.

`kernel.runs` defines when that is exact. There are three kinds of rows, recognized by which columns
are null. A record is a row of its own. A run is its last record, with the offsets and times of the
others. The facts of each coordinating partition in the chunk are computed from every record,
without its history. `PartitionFold` folds all three. This module knows Arrow, and neither Spark nor
findings.
"""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.core import wire
from kafka_marshal.kernel import runs
from kafka_marshal.kernel.columns import MALFORMED, Codes, NameCodes, RecordColumns
from kafka_marshal.kernel.parsing import REQUEST
from kafka_marshal.kernel.steps import CLAIMING_PARTITION, HEARTBEAT, RELEASE_GROUP
from kafka_marshal.range_codec import CLAIMING_RANGE
from kafka_marshal.replay.findings.claims.silence import MISSED_AFTER_INTERVALS
from kafka_marshal.replay.fold.judging import Read
from kafka_marshal.replay.fold.reading import (
    ARROW_SCHEMA,
    made_in_blocks,
    plain,
    read_chunk,
    read_lean,
    records_of,
)
from kafka_marshal.replay.model.chunk_items import (
    BUCKET_MS,
    LISTED_MAX,
    ChunkFacts,
    HeartbeatRun,
    Ints,
    PlainRecord,
    RowItem,
    SingleRecord,
)
from kafka_marshal.replay.model.internal import SenderRow
from kafka_marshal.replay.model.position_progress import REST_INTERVALS
from kafka_marshal.replay.model.rows import arrow_type_of, stored
from kafka_marshal.replay.model.tables import SENDERS
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.sources.columns import padded, values_of

_RUN: Final = pa.struct(
    [
        ("offsets", pa.binary()),
        ("clocks", pa.binary()),
        ("position", pa.int64()),
        ("first_move", pa.int64()),
        ("moved_to", pa.int64()),
        ("last_move", pa.int64()),
    ]
)
_FACTS: Final = pa.list_(arrow_type_of(ChunkFacts))
"""A list of one or null: a null list costs a row 4 bytes, a null struct the space of all its
fields."""
_SENDER: Final = [column.name for column in SENDERS.columns]
COLLAPSED_SCHEMA: Final = pa.schema(
    [
        *ARROW_SCHEMA,
        ("chunk", pa.int32()),
        ("clock_ms", pa.int64()),
        ("run", _RUN),
        ("facts", _FACTS),
    ]
)
_TYPES: Final = [kind.value for kind in TimestampType]
_APPENDED: Final = _TYPES.index(TimestampType.LOG_APPEND_TIME.value)
_ADDRESSES_MAX: Final = 1 << 15
"""The most senders and claims to remember from one partition to the next."""
_ADDRESSES_READ_MAX: Final = 1 << 18
"""The same from chunk to chunk, which have the same claims: registering 200,000 again in each chunk
took a fifth of its reading time."""
_EXPANDED_TOGETHER: Final = 64
"""How many neighbouring records of broken runs are made at once."""
_EXPANDED_KEPT: Final = 256
"""How often that many are kept."""
_FITS_MS: Final = 1 << 43
"""Clocks less than this from 1970 are summed in 64 bits."""
_EARLIEST_MS: Final = -(1 << 62)
"""Differences of earlier times may not fit 64 bits; no broker writes such a time."""


def collapsed(
    number: int, chunk: Chunk, interval_ms: float, *, forced: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one chunk, collapsed by the heartbeat intervals in its records.

    `interval_ms` is the interval of records that state none; with `forced`, of all.

    Raises:
        UnreadableSource: the chunk contains something that is no record.
    """
    batches = list(read_lean(number, chunk))
    if batches:
        yield from rows_of(number, batches, interval_ms, forced=forced)


def rows_of(
    number: int, batches: Sequence[pa.RecordBatch], interval_ms: float, *, forced: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield the rows for the records of one chunk; see `collapsed`."""
    names = known_names(_ADDRESSES_READ_MAX)
    chunk = _Records.of(batches, names)
    found = chunk.runs(names, interval_ms, forced)
    if not found.ordered.all():
        chunk = chunk.sorted(names)
        found = chunk.runs(names, interval_ms, forced)
        # Only within the chunk: the fold checks whether the next chunk follows it.
        found.ordered[:] = True
    if (chunk.timestamps_ms < _EARLIEST_MS).any():
        found.ordered[:] = False
    leader = found.leader
    if not found.ordered.all():
        leader[~found.ordered[chunk.places]] = runs.NO_RUN
    leader[chunk.shared(names)] = runs.NO_RUN
    facts = _facts(chunk, names, found)
    yield _table_of_facts(batches[0].column("log")[0].as_py(), number, facts)
    single = np.flatnonzero(leader == runs.NO_RUN)
    if single.size:
        rows = _taken(chunk.batches, single)
        yield _with_columns(rows, number, pa.array(found.clock_ms[single]))
    if single.size < len(leader):
        yield _table_of_runs(chunk.batches, number, chunk.offsets, chunk.columns.number, found)


@frozen(eq=False)
class _Records:
    """The records of one chunk, row by row."""

    batches: Sequence[pa.RecordBatch]
    columns: RecordColumns
    offsets: Ints
    timestamps_ms: Ints
    known: Ints
    """The coordinating partitions that occur."""
    places: Codes
    """The index in `known` of each row's partition."""
    alone: npt.NDArray[np.bool_]
    """Whether several records have the offset of this row; no run includes it."""
    read_twice: npt.NDArray[np.bool_]
    """Whether this is a message at an offset with an earlier one."""
    asks_for: Codes
    """The claim of a ClaimingRange; -1 for other rows, and if the kernel cannot determine it."""
    again: Sequence[tuple[int, RawRecord, bool]] = ()
    """For each row at an offset with an earlier one: its partition, its record, and whether both
    are equal."""

    @classmethod
    def of(cls, batches: Sequence[pa.RecordBatch], names: NameCodes) -> _Records:
        """The records in their input order."""
        columns = names.decoded_together(
            [(batch.column("value"), batch.column("headers")) for batch in batches], requests=True
        )
        requests = columns.kind == REQUEST
        asks_for = np.full(len(columns), -1, np.int32)
        asks_for[requests] = names.table[columns.address[requests], 3]
        columns.kind[requests] = MALFORMED  # as to everybody else
        known, places = _places(_numbers(batches, "partition"))
        return cls(
            batches,
            columns,
            _numbers(batches, "offset"),
            _numbers(batches, "timestamp_ms"),
            known,
            places,
            alone=np.zeros(len(places), np.bool_),
            read_twice=np.zeros(len(places), np.bool_),
            asks_for=asks_for,
        )

    def runs(self, names: NameCodes, interval_ms: float, forced: bool) -> runs.HeartbeatRuns:
        """The runs of heartbeats among them."""
        beats = self.columns.kind == HEARTBEAT
        kinds = np.where(self.alone & beats, np.int8(CLAIMING_PARTITION), self.columns.kind)
        return runs.find(
            self.places, self.offsets, self.timestamps_ms,
            attrs.evolve(self.columns, kind=kinds), names,
            MISSED_AFTER_INTERVALS, REST_INTERVALS, interval_ms, forced,
        )  # fmt: skip

    def shared(self, names: NameCodes) -> npt.NDArray[np.bool_]:
        """The rows about claims with a ClaimingRange or a checkpoint, which are excluded from runs.

        The effect of a ClaimingRange depends on the claim's state before it, so no run of its claim
        may extend beyond it. If its claim is unknown, all rows of its partition are excluded. A
        checkpoint is compared with the claim's state at some earlier record.
        """
        kind, places = self.columns.kind, self.places
        requests = self.asks_for >= 0
        checkpoints = with_checkpoint(self.batches)
        found = np.zeros(len(kind), np.bool_)
        if checkpoints.size or requests.any():
            claims = np.full(len(kind), -1, np.int64)
            told = (kind != MALFORMED) & (kind != RELEASE_GROUP)
            claims[told] = names.table[self.columns.address[told], 3]
            about = places.astype(np.int64) * len(names.claims) + claims
            asked = places[requests].astype(np.int64) * len(names.claims) + self.asks_for[requests]
            marked = about[checkpoints[told[checkpoints]]]
            found |= told & np.isin(about, np.union1d(asked, marked))
        rows = np.flatnonzero((kind == MALFORMED) & ~requests)
        if rows.size:
            named = pc.starts_with(_taken(self.batches, rows).column("value"), CLAIMING_RANGE)
            odd = rows[named.fill_null(False).to_numpy(zero_copy_only=False)]
            if odd.size:
                found |= np.isin(places, places[odd])
        return found

    def sorted(self, names: NameCodes) -> _Records:
        """Each partition sorted by offset; offsets that occur more than once are marked."""
        order = np.lexsort((self.offsets, self.places))
        [batch] = pa.Table.from_batches(self.batches).take(order).combine_chunks().to_batches()
        rows = _Records.of([batch], names)
        same = np.zeros(len(order), np.bool_)
        same[1:] = (np.diff(rows.offsets) == 0) & (np.diff(rows.places) == 0)
        firsts = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
        message = rows.columns.kind != MALFORMED
        before = np.cumsum(message) - message
        read_twice = same & message & (before > before[firsts])
        alone = same.copy()
        alone[:-1] |= same[1:]
        where = np.flatnonzero(same)
        if not where.size:
            return rows
        both = (
            [raw for _, raw in records_of(_taken([batch], which))]
            for which in (where, firsts[where])
        )
        again = [
            (int(place), raw, _holds(raw) == _holds(first))
            for place, raw, first in zip(rows.places[where], *both, strict=True)
        ]
        return attrs.evolve(rows, alone=alone, read_twice=read_twice, again=again)


def _holds(raw: RawRecord) -> tuple[object, ...]:
    return raw.timestamp_ms, raw.value, raw.headers


_known = threading.local()


def known_names(addresses_max: int = _ADDRESSES_MAX) -> NameCodes:
    """The senders and claims that this thread knows, unless there are too many to keep."""
    names: NameCodes | None = getattr(_known, "names", None)
    if names is None or len(names.table) > addresses_max:
        names = _known.names = NameCodes()
    return names


def _numbers(batches: Sequence[pa.RecordBatch], name: str) -> Ints:
    return np.concatenate([batch.column(name).to_numpy() for batch in batches])


def _places(partitions: Ints) -> tuple[Ints, Codes]:
    """The coordinating partitions that occur, and the index of each row's partition."""
    known, places = runs.distinct(partitions)
    return known, places.astype(np.int32)


def with_checkpoint(batches: Sequence[pa.RecordBatch]) -> Ints:
    """The indexes of the rows with a checkpoint header, across all batches."""
    found, before = [np.zeros(0, np.int64)], 0
    for batch in batches:
        headers = batch.column("headers")
        keys = headers.values.field("key")
        if pa.types.is_dictionary(keys.type):
            name = pc.index(keys.dictionary, wire.CHECKPOINT_HEADER).as_py()
            places = keys.indices if name >= 0 else keys.indices.slice(0, 0)
            entries = np.flatnonzero(places.fill_null(-2).to_numpy(zero_copy_only=False) == name)
        else:
            named = pc.equal(keys, wire.CHECKPOINT_HEADER).fill_null(False)
            entries = np.flatnonzero(named.to_numpy(zero_copy_only=False))
        if entries.size:
            ends = headers.offsets.to_numpy()
            rows = np.searchsorted(ends, entries, side="right") - 1
            found.append(before + rows[(rows >= 0) & (rows < batch.num_rows)])
        before += batch.num_rows
    return np.concatenate(found)


def _stamps(batch: pa.RecordBatch) -> npt.NDArray[np.int8]:
    """For every row, the number of its timestamp type in `_TYPES`."""
    column = batch.column("timestamp_type")
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    numbers = np.array([_TYPES.index(name) for name in column.dictionary.to_pylist()], np.int8)
    found: npt.NDArray[np.int8] = numbers[column.indices.to_numpy()]
    return found


def _taken(batches: Sequence[pa.RecordBatch], rows: Ints) -> pa.RecordBatch:
    """The given rows, by index across all batches, in this order and in `ARROW_SCHEMA`."""
    rises = bool((rows[1:] > rows[:-1]).all())
    order = np.arange(len(rows)) if rises else np.argsort(rows)
    ends = np.cumsum([batch.num_rows for batch in batches])
    cuts = np.searchsorted(rows[order], ends)
    taken = [
        plain(
            batch
            if rises and end - begin == batch.num_rows
            else batch.take(pa.array(rows[order[begin:end]] - (last - batch.num_rows)))
        )
        for batch, last, begin, end in zip(batches, ends, [0, *cuts], cuts, strict=False)
        if begin < end
    ]
    [found] = pa.Table.from_batches(taken).combine_chunks().to_batches()
    return found if rises else found.take(pa.array(np.argsort(order)))


def _table_of_runs(
    batches: Sequence[pa.RecordBatch], number: int, offsets: Ints, positions: Ints,
    found: runs.HeartbeatRuns,
) -> pa.RecordBatch:  # fmt: skip
    told = runs.told(found, offsets, positions)
    run = pa.StructArray.from_arrays(
        [
            _distances(told.offsets, told.begins),
            _distances(told.clocks_ms, told.begins),
            *map(pa.array, (told.position, told.first_move, told.moved_to, told.last_move)),
        ],
        fields=list(_RUN),
    )
    # A run's row is its last record, at the offset of its first one.
    lasts = _taken(batches, told.last_row)
    place = lasts.schema.get_field_index("offset")
    lasts = lasts.set_column(place, ARROW_SCHEMA.field("offset"), pa.array(offsets[told.first_row]))
    return _with_columns(lasts, number, pa.array(found.clock_ms[told.first_row]), run=run)


def _distances(distances: Codes, begins: Ints) -> pa.Array:
    """One cell per run, of 32-bit integers."""
    content = distances.astype("<i4", copy=False)
    ends = np.append(begins, len(content)).astype(np.int32) * 4
    return pa.Array.from_buffers(
        pa.binary(), len(begins), [None, pa.py_buffer(ends), pa.py_buffer(content)]
    )


def _with_columns(
    batch: pa.RecordBatch, number: int, clocks: pa.Array, *, run: pa.Array | None = None,
    facts: pa.Array | None = None,
) -> pa.RecordBatch:  # fmt: skip
    count = batch.num_rows
    added = [
        pa.array(np.full(count, number, np.int32)),
        clocks,
        pa.nulls(count, _RUN) if run is None else run,
        pa.nulls(count, _FACTS) if facts is None else facts,
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=COLLAPSED_SCHEMA)


def _facts(chunk: _Records, names: NameCodes, found: runs.HeartbeatRuns) -> list[ChunkFacts]:
    stamps = np.concatenate([_stamps(batch) for batch in chunk.batches])
    clocks: dict[int, list[SenderRow]] = {}
    if found.ordered.any():
        clocks = _clocks(chunk, stamps == _APPENDED, names)
    again: dict[tuple[int, bool], list[RawRecord]] = defaultdict(list)
    for place, raw, alike in chunk.again:
        again[place, alike].append(raw)
    listed = np.zeros((len(chunk.known), LISTED_MAX, 2), np.int64)
    counted = np.zeros((len(chunk.known), len(_TYPES)), np.int64)
    sums = runs.summed(chunk.places, chunk.offsets, chunk.timestamps_ms, stamps, counted, listed)
    facts = []
    for place, (partition, of_place) in enumerate(zip(chunk.known, sums.tolist(), strict=True)):
        records, first_offset, last_offset, from_ms, to_ms, gaps, missing = of_place
        same, other = again[place, True], again[place, False]
        facts.append(
            ChunkFacts(
                partition=int(partition),
                ordered=bool(found.ordered[place]),
                records=records,
                first_offset=first_offset,
                last_offset=last_offset,
                from_ms=from_ms,
                to_ms=to_ms,
                types=tuple(counted[place].tolist()),
                gaps=gaps,
                missing=missing,
                first_gaps=tuple(map(tuple, listed[place, : min(gaps, LISTED_MAX)].tolist())),
                same=len(same),
                first_same=tuple(map(PlainRecord.of, same[:LISTED_MAX])),
                other=len(other),
                first_other=tuple(map(PlainRecord.of, other[:LISTED_MAX])),
                clocks=tuple(clocks.get(place, ())),
            )
        )
    return facts


def _clocks(
    chunk: _Records, stamped: npt.NDArray[np.bool_], names: NameCodes
) -> dict[int, list[SenderRow]]:
    """By partition, the histograms of its senders' clocks, as in `findings.senders`."""
    columns, timestamps_ms = chunk.columns, chunk.timestamps_ms
    told = stamped & (columns.kind != MALFORMED)
    told &= ~chunk.read_twice
    facts: dict[int, list[SenderRow]] = {}
    if not told.any():
        return facts
    table = names.table
    instances, clients = names.instances.names(), names.clients.names()
    groups = names.groups.names()
    wide = table.astype(np.int64)
    of_group, group_instance = runs.distinct(wide[:, 2] * len(instances) + wide[:, 0])
    senders, sender_of = runs.distinct(group_instance * len(clients) + wide[:, 1])
    off = runs.clocks(
        chunk.places, told, columns.unix_s, timestamps_ms, columns.address, sender_of,
        _FITS_MS, BUCKET_MS,
    )  # fmt: skip
    # Differences too large for sums in 64 bits are added one by one.
    for row in off.far:
        far_ms = int(columns.unix_s[row]) * 1000 - int(timestamps_ms[row])
        instance, client, group, _ = table[columns.address[row]]
        facts.setdefault(int(chunk.places[row]), []).append(
            SenderRow(
                group=groups[group],
                instance=instances[instance],
                client=clients[client],
                offset_min_ms=far_ms,
                offset_max_ms=far_ms,
                buckets=[far_ms // BUCKET_MS],
                counts=[1],
            )
        )
    begins = np.flatnonzero(np.diff(off.who, prepend=-1))
    for begin, end in itertools.pairwise([*begins.tolist(), len(off.who)]):
        place, sender = divmod(int(off.who[begin]), len(senders))
        in_group, client = divmod(int(senders[sender]), len(clients))
        group, instance = divmod(int(of_group[in_group]), len(instances))
        facts.setdefault(place, []).append(
            SenderRow(
                group=groups[group],
                instance=instances[instance],
                client=clients[client],
                offset_min_ms=int(off.least_ms[off.who[begin]]),
                offset_max_ms=int(off.most_ms[off.who[begin]]),
                buckets=off.buckets[begin:end].tolist(),
                counts=off.counts[begin:end].tolist(),
            )
        )
    return facts


def _table_of_facts(log: str, number: int, facts: list[ChunkFacts]) -> pa.RecordBatch:
    """Rows of facts, which sort before the records that they describe."""
    count = len(facts)
    columns = {
        "log": pa.array([log] * count, pa.string()),
        "timestamp_ms": pa.array([0] * count, pa.int64()),
        "timestamp_type": pa.array([TimestampType.NOT_STATED.value] * count, pa.string()),
        "partition": pa.array([each.partition for each in facts], pa.int64()),
        "offset": pa.array([each.first_offset for each in facts], pa.int64()),
        "input_order": pa.array([-1] * count, pa.int64()),
    }
    rows = padded(pa.RecordBatch.from_pydict(columns), ARROW_SCHEMA)
    of_rows = stored([[each] for each in facts], _FACTS)
    return _with_columns(rows, number, pa.nulls(count, pa.int64()), facts=of_rows)


def items_of(batch: pa.RecordBatch) -> Iterator[tuple[str, int, RowItem]]:
    """Decode a batch: log, coordinating partition, and the item of each row."""
    columns = [values_of(batch.column(name)) for name in ("chunk", "clock_ms")]
    facts, run_column = values_of(batch.column("facts")), batch.column("run")
    all_single = run_column.null_count == len(run_column)
    columns.append([None] * len(run_column) if all_single else run_column.to_pylist())
    for (log, raw), fact_of_run, chunk, clock_ms, run in zip(
        records_of(batch), facts, *columns, strict=True
    ):
        if fact_of_run:
            [(*fact, same, first_same, other, first_other, clocks)] = fact_of_run
            named = (dict(zip(_SENDER, each, strict=True)) for each in clocks)
            firsts = [tuple(PlainRecord(*each) for each in of) for of in (first_same, first_other)]
            clocks = tuple(SENDERS.rows(named))
            yield (
                log,
                raw.partition,
                ChunkFacts(*(*fact, same, firsts[0], other, firsts[1], clocks)),
            )
        elif run is None:
            yield log, raw.partition, SingleRecord(raw, clock_ms)
        else:
            offsets = raw.offset + np.frombuffer(run.pop("offsets"), "<i4").astype(np.int64)
            clocks_ms = clock_ms + np.frombuffer(run.pop("clocks"), "<i4").astype(np.int64)
            last = attrs.evolve(raw, offset=int(offsets[-1]))
            yield log, raw.partition, HeartbeatRun(last, offsets, clocks_ms, chunk=chunk, **run)


class Expander:
    """Reads chunks again, for the records of runs that cannot be folded in one step."""

    def __init__(self, chunks: tuple[Chunk, ...], read: Read = read_chunk) -> None:
        self._chunks = chunks
        self._read = read
        self._chunk: int | None = None
        self._table: pa.Table = None
        self._place: _Place | None = None

    def records(self, run: HeartbeatRun) -> list[SingleRecord]:
        """The records of a run.

        Raises:
            UnreadableSource: the chunk can no longer be read.
        """
        raws = self._read_again(run.chunk, run.last.partition).records(run.offsets)
        return list(map(SingleRecord, raws, run.clocks_ms.tolist()))

    def _read_again(self, chunk: int, partition: int) -> _Place:
        """One at a time is kept: runs of one chunk come together, and of one partition."""
        if chunk != self._chunk:
            table = pa.Table.from_batches(self._read(chunk, self._chunks[chunk]))
            self._table = table.combine_chunks()  # or each `take` would copy the whole chunk
            self._chunk, self._place = chunk, None
        if self._place is None or self._place.partition != partition:
            self._place = _Place(self._table, partition)
        return self._place


class _Place:
    """The records of one coordinating partition of a chunk.

    Runs that need theirs mostly follow each other, as their records do: each record of a run has
    those of the other runs beside it. So blocks of them are kept for a while.
    """

    def __init__(self, table: pa.Table, partition: int) -> None:
        here = np.flatnonzero(table.column("partition").to_numpy() == partition)
        offsets = table.column("offset").to_numpy()[here]
        order = np.argsort(offsets, kind="stable")
        self.partition = partition
        self._offsets, rows = offsets[order], here[order]

        def taken(some: slice) -> pa.RecordBatch:
            [batch] = table.take(pa.array(rows[some])).combine_chunks().to_batches()
            return batch

        self._record = made_in_blocks(taken, _EXPANDED_TOGETHER, _EXPANDED_KEPT)

    def records(self, offsets: Ints) -> Iterator[RawRecord]:
        """The records at these offsets."""
        return map(self._record, np.searchsorted(self._offsets, offsets).tolist())
