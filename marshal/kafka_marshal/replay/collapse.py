"""A chunk of a log, made small before it is shuffled: runs of heartbeats become one row each.

Where that is exact is said by `kernel.runs`. Three kinds of rows come out, told apart by which
columns are null: a record; a run, which is its last record and where and when the others were; and
for every coordinating partition of the chunk its facts, which are what needs every record and no
history. `Account` folds all three. This room knows Arrow, and neither Spark nor what is found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafka_marshal.capture import TimestampType
from kafka_marshal.kernel import runs
from kafka_marshal.kernel.columns import MALFORMED, Columns, Names
from kafka_marshal.replay.findings.silence import MISSED_AFTER_INTERVALS
from kafka_marshal.replay.pace import REST_INTERVALS
from kafka_marshal.replay.reading import ARROW_SCHEMA, SPARK_SCHEMA, read_chunk, records_of
from kafka_marshal.replay.sources import Chunk
from kafka_marshal.replay.sources.columns import padded
from kafka_marshal.replay.stretch import BUCKET_MS, LISTED_MAX, Facts, Ints, Item, Run, Single

_RUN: Final = pa.struct(
    [
        ("offsets", pa.binary()),
        ("clocks", pa.binary()),
        ("said_before", pa.int64()),
        ("first_move", pa.int64()),
        ("first_position", pa.int64()),
        ("last_move", pa.int64()),
    ]
)
COLLAPSED_SCHEMA: Final = pa.schema(
    [
        *ARROW_SCHEMA,
        ("chunk", pa.int32()),
        ("clock_ms", pa.int64()),
        ("run", _RUN),
        ("facts", pa.string()),
    ]
)
COLLAPSED_SPARK_SCHEMA: Final = (
    f"{SPARK_SCHEMA}, chunk: int, clock_ms: bigint, run: struct<offsets: binary, clocks: binary, "
    f"said_before: bigint, first_move: bigint, first_position: bigint, last_move: bigint>, "
    f"facts: string"
)
Read: TypeAlias = Callable[[int, Chunk], Iterator[pa.RecordBatch]]
"""What reads a chunk, given its number."""
_BUCKET_BITS: Final = 40
_HALF: Final = 1 << (_BUCKET_BITS - 1)


def collapsed(number: int, chunk: Chunk, interval_ms: float) -> Iterator[pa.RecordBatch]:
    """The rows of one chunk.

    Raises:
        UnreadableSource: what is read is no record.
    """
    batches = list(read_chunk(number, chunk))
    if not batches:
        return
    [batch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    yield from rows_of(number, batch, interval_ms)


def rows_of(number: int, batch: pa.RecordBatch, interval_ms: float) -> Iterator[pa.RecordBatch]:
    """The rows that the records of one chunk become."""
    partitions = batch.column("partition").to_numpy()
    offsets = batch.column("offset").to_numpy()
    timestamps_ms = batch.column("timestamp_ms").to_numpy()
    known, places = np.unique(partitions, return_inverse=True)
    names = Names()
    columns = names.decoded(batch.column("value"), batch.column("headers"))
    found = runs.find(
        places.astype(np.int32), offsets, timestamps_ms, columns, names,
        MISSED_AFTER_INTERVALS * interval_ms, REST_INTERVALS * interval_ms,
    )  # fmt: skip
    if not _fits(columns, timestamps_ms):
        found.ordered[:] = False
    leader = np.where(found.ordered[places], found.leader, runs.NO_RUN)
    facts = _facts(number, batch, known, places, columns, names, found)
    yield _table_of_facts(batch, facts)
    single = np.flatnonzero(leader == runs.NO_RUN)
    if single.size:
        yield _with_columns(
            batch.take(pa.array(single)),
            number,
            pa.array(found.clock_ms[single]),
        )
    if single.size < len(offsets):
        yield _table_of_runs(batch, number, leader, columns.number, found)


def _table_of_runs(
    batch: pa.RecordBatch, number: int, leader: Ints, positions: Ints, found: runs.Runs
) -> pa.RecordBatch:
    offsets = batch.column("offset").to_numpy()
    joined = np.flatnonzero(leader != runs.NO_RUN)
    order = joined[np.argsort(leader[joined], kind="stable")]
    leaders = leader[order]
    begins = np.flatnonzero(np.diff(leaders, prepend=-1))
    ends = np.append(begins[1:], len(order))
    firsts = order[begins]
    # The first and the last of every run that moves the position, counted within the run.
    moving = np.flatnonzero(positions[order] != positions[found.previous[order]])
    first, last = np.searchsorted(moving, begins), np.searchsorted(moving, ends)
    moves = first < last
    first_move, last_move = np.full(len(begins), -1), np.full(len(begins), -1)
    first_move[moves] = moving[first[moves]] - begins[moves]
    last_move[moves] = moving[last[moves] - 1] - begins[moves]
    run = pa.StructArray.from_arrays(
        [
            _distances(offsets[order] - offsets[leaders], begins),
            _distances(found.clock_ms[order] - found.clock_ms[leaders], begins),
            pa.array(positions[found.previous[firsts]]),
            pa.array(first_move),
            pa.array(positions[order[begins + np.maximum(first_move, 0)]]),
            pa.array(last_move),
        ],
        fields=list(_RUN),
    )
    # Each is told by its last record, at the place of its first.
    lasts = batch.take(pa.array(order[ends - 1]))
    place = lasts.schema.get_field_index("offset")
    lasts = lasts.set_column(place, ARROW_SCHEMA.field("offset"), pa.array(offsets[firsts]))
    return _with_columns(lasts, number, pa.array(found.clock_ms[firsts]), run=run)


def _distances(distances: Ints, begins: npt.NDArray[np.intp]) -> pa.Array:
    """One cell a run, of 32-bit integers."""
    content = np.ascontiguousarray(distances.astype("<i4"))
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
        pa.nulls(count, pa.string()) if facts is None else facts,
    ]
    return pa.RecordBatch.from_arrays([*batch.columns, *added], schema=COLLAPSED_SCHEMA)


def _facts(
    number: int, batch: pa.RecordBatch, known: Ints, places: npt.NDArray[np.intp],
    columns: Columns, names: Names, found: runs.Runs,
) -> list[Facts]:  # fmt: skip
    offsets = batch.column("offset").to_numpy()
    timestamps_ms = batch.column("timestamp_ms").to_numpy()
    stamped = batch.column("timestamp_type")
    types = {
        kind: pc.equal(stamped, kind.value).to_numpy(zero_copy_only=False) for kind in TimestampType
    }
    clocks = (
        [[] for _ in known]
        if not found.ordered.any()
        else _clocks(
            len(known), places, timestamps_ms, types[TimestampType.LOG_APPEND_TIME], columns, names
        )
    )
    told = []
    for place, partition in enumerate(known):
        rows = np.flatnonzero(places == place)
        of_place = offsets[rows]
        steps = np.diff(of_place)
        gaps = np.flatnonzero(steps > 1)
        told.append(
            Facts(
                chunk=number,
                partition=int(partition),
                ordered=bool(found.ordered[place]),
                records=len(rows),
                first_offset=int(of_place[0]),
                last_offset=int(of_place[-1]),
                from_ms=int(timestamps_ms[rows].min()),
                to_ms=int(timestamps_ms[rows].max()),
                types={kind.value: int(found_[rows].sum()) for kind, found_ in types.items()},
                gaps=len(gaps),
                missing=int((steps[gaps] - 1).sum()),
                first_gaps=[
                    [int(of_place[gap]) + 1, int(of_place[gap + 1]) - 1]
                    for gap in gaps[:LISTED_MAX]
                ],
                clocks=clocks[place],
            )
        )
    return told


def _clocks(
    count: int, places: npt.NDArray[np.intp], timestamps_ms: Ints,
    stamped: npt.NDArray[np.bool_], columns: Columns, names: Names,
) -> list[list[list[Any]]]:  # fmt: skip
    """Of each place, the histograms of its senders' clocks, as `findings.senders` gathers them."""
    told: list[list[list[Any]]] = [[] for _ in range(count)]
    rows = np.flatnonzero(stamped & (columns.kind != MALFORMED))
    if not rows.size:
        return told
    table = names.table
    senders, sender_of = np.unique(table[:, [2, 0, 1]], axis=0, return_inverse=True)
    off_ms = columns.unix_s[rows] * 1000 - timestamps_ms[rows]
    buckets = off_ms // BUCKET_MS
    who = places[rows] * len(senders) + sender_of.reshape(-1)[columns.address[rows]]
    keys, counts = np.unique((who << _BUCKET_BITS) + buckets + _HALF, return_counts=True)
    owners = keys >> _BUCKET_BITS
    least = np.full(count * len(senders), np.iinfo(np.int64).max)
    most = np.full(count * len(senders), np.iinfo(np.int64).min)
    np.minimum.at(least, who, off_ms)
    np.maximum.at(most, who, off_ms)
    groups, instances, clients = list(names.groups), list(names.instances), list(names.clients)
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    for begin, end in zip(begins, np.append(begins[1:], len(owners)), strict=True):
        place, sender = divmod(int(owners[begin]), len(senders))
        group, instance, client = senders[sender]
        told[place].append(
            [
                groups[group],
                instances[instance],
                clients[client],
                int(least[owners[begin]]),
                int(most[owners[begin]]),
                ((keys[begin:end] & ((1 << _BUCKET_BITS) - 1)) - _HALF).tolist(),
                counts[begin:end].tolist(),
            ]
        )
    return told


def _fits(columns: Columns, timestamps_ms: Ints) -> bool:
    """Whether the clocks' histograms can be gathered in 64 bits."""
    bound = 1 << 43
    return bool(
        (np.abs(columns.unix_s) < bound // 1000).all() and (np.abs(timestamps_ms) < bound).all()
    )


def _table_of_facts(batch: pa.RecordBatch, facts: list[Facts]) -> pa.RecordBatch:
    """As rows that sort before the records that they are about."""
    count = len(facts)
    log = batch.column("log")[0]
    columns = {
        "log": pa.array([log.as_py()] * count, pa.string()),
        "timestamp_ms": pa.array([0] * count, pa.int64()),
        "timestamp_type": pa.array([TimestampType.NOT_STATED.value] * count, pa.string()),
        "partition": pa.array([each.partition for each in facts], pa.int64()),
        "offset": pa.array([each.first_offset for each in facts], pa.int64()),
        "input_order": pa.array([-1] * count, pa.int64()),
    }
    rows = padded(pa.RecordBatch.from_pydict(columns), ARROW_SCHEMA)
    texts = [json.dumps(attrs.asdict(each)) for each in facts]
    return _with_columns(
        rows, facts[0].chunk, pa.nulls(count, pa.int64()), facts=pa.array(texts, pa.string())
    )


def items_of(batch: pa.RecordBatch) -> Iterator[tuple[str, int, Item]]:
    """Back from a batch: log, coordinating partition, and what the row is."""
    columns = [batch.column(name).to_pylist() for name in ("facts", "chunk", "clock_ms", "run")]
    for (log, raw), facts, chunk, clock_ms, run in zip(records_of(batch), *columns, strict=True):
        if facts is not None:
            yield log, raw.partition, Facts(**json.loads(facts))
        elif run is None:
            yield log, raw.partition, Single(raw, clock_ms)
        else:
            offsets = raw.offset + np.frombuffer(run.pop("offsets"), "<i4").astype(np.int64)
            clocks_ms = clock_ms + np.frombuffer(run.pop("clocks"), "<i4").astype(np.int64)
            last = attrs.evolve(raw, offset=int(offsets[-1]))
            yield log, raw.partition, Run(last, offsets, clocks_ms, chunk=chunk, **run)


class Expander:
    """Reads chunks again, for the records of runs that did not go on as most do."""

    def __init__(self, chunks: tuple[Chunk, ...], read: Read = read_chunk) -> None:
        self._chunks = chunks
        self._read = read
        self._chunk: int | None = None
        self._table: pa.Table = None
        self._places: dict[int, tuple[Ints, Ints]] = {}

    def records(self, run: Run) -> list[Single]:
        """The records of a run, one by one.

        Raises:
            UnreadableSource: the chunk can no longer be read.
        """
        here, offsets = self._place(run.chunk, run.last.partition)
        rows = here[np.searchsorted(offsets, run.offsets)]
        [batch] = self._table.take(pa.array(rows)).combine_chunks().to_batches()
        raws = [raw for _, raw in records_of(batch)]
        return [Single(raw, clock) for raw, clock in zip(raws, run.clocks_ms.tolist(), strict=True)]

    def _place(self, chunk: int, partition: int) -> tuple[Ints, Ints]:
        """The rows of one coordinating partition of a chunk, and their offsets."""
        if chunk != self._chunk:  # one at a time: runs of one chunk come together
            self._table = pa.Table.from_batches(self._read(chunk, self._chunks[chunk]))
            self._chunk, self._places = chunk, {}
        known = self._places.get(partition)
        if known is None:
            here = np.flatnonzero(self._table.column("partition").to_numpy() == partition)
            known = here, self._table.column("offset").to_numpy()[here]
            self._places[partition] = known
        return known
