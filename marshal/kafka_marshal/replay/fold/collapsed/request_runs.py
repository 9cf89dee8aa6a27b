"""Collects ClaimingRanges about one claim from a collapsed log, for the fold.

The log of a shared claim consists mostly of requests. Each changes ranges, so none can be left out
before the shuffle. But a fold need not make an object of each: if no other record about the claim
is in between, they form a table of numbers, which the kernel folds. This module finds such runs in
rows that are already gathered and sorted. It does not fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_marshal.capture import HeaderPairs, RawRecord, TimestampType
from kafka_marshal.core import wire
from kafka_marshal.kernel import requests as kernel
from kafka_marshal.kernel.columns import MALFORMED, NameCodes, RecordColumns
from kafka_marshal.kernel.runs import by_leader
from kafka_marshal.range_codec import CLAIMING_RANGE
from kafka_marshal.replay.fold.collapsed.joined_runs import RunOfRows, joined
from kafka_marshal.replay.fold.collapsed.run_length import items_of, known_names
from kafka_marshal.replay.fold.steady_claims import SteadyClaims
from kafka_marshal.replay.model.chunk_items import Flags, Ints, Item, RequestRun

SHORTEST: Final = 4
"""Fewer requests are folded one by one."""
_OF_RANGES: Final = pa.array(sorted(wire.OF_RANGES))


def items_in_runs(
    batch: pa.RecordBatch, interval_ms: float, *, forced: bool = False
) -> Iterator[tuple[str, int, Item | SteadyClaims]]:
    """Yield items like `items_of`, with consecutive requests and heartbeats joined to runs.

    The rows are sorted by log, partition and offset. A run comes in place of its first record.
    `interval_ms` is the heartbeat interval of records that state none; with `forced`, of all.
    """
    requests = (
        pc.starts_with(batch.column("value"), CLAIMING_RANGE)
        .fill_null(False)
        .to_numpy(zero_copy_only=False)
    )
    names = known_names()
    headers = _compact(batch.column("headers"))
    columns = names.decoded(batch.column("value"), headers, requests=True)
    record = _Rows(batch, headers).record
    of_ranges = _with_header_of_ranges(headers)
    runs: list[tuple[int, int, RequestRun | RunOfRows | SteadyClaims]] = []
    joined_runs, single = joined(
        batch, columns, names, requests, of_ranges, record, interval_ms, forced
    )
    runs += joined_runs
    if np.count_nonzero(requests) >= SHORTEST:
        runs_of_requests, not_requested = _runs(batch, requests, columns, names, of_ranges, record)
        runs += runs_of_requests
        single &= not_requested
    if not runs:
        yield from items_of(batch)
        return
    runs.sort(key=lambda run: -run[0])
    logs, partitions = batch.column("log"), batch.column("partition")
    rows = np.flatnonzero(single)
    items = items_of(batch.take(pa.array(rows)))
    for row, item in zip(rows.tolist(), items, strict=True):
        while runs and runs[-1][0] < row:
            _, at, run = runs.pop()
            yield logs[at].as_py(), partitions[at].as_py(), run
        yield item
    while runs:
        _, at, run = runs.pop()
        yield logs[at].as_py(), partitions[at].as_py(), run


def _runs(
    batch: pa.RecordBatch,
    requests: Flags,
    columns: RecordColumns,
    names: NameCodes,
    of_ranges: Flags,
    record: Callable[[int], RawRecord],
) -> tuple[list[tuple[int, int, RequestRun]], Flags]:
    """The runs of requests, each with its first row, twice; and which rows are in none."""
    offsets, timestamps_ms = (batch.column(name).to_numpy() for name in ("offset", "timestamp_ms"))
    clocks_ms = batch.column("clock_ms").fill_null(0).to_numpy()
    facts = batch.column("facts").is_valid().to_numpy(zero_copy_only=False)
    found = kernel.find(
        offsets, timestamps_ms, clocks_ms, columns, names, ~of_ranges,
        facts | requests & (columns.kind == MALFORMED),
    )  # fmt: skip
    single = np.ones(len(offsets), np.bool_)
    order, begins = by_leader(found.leader)
    if not len(begins):
        return [], single
    table = kernel.table_of(order, offsets, timestamps_ms, clocks_ms, columns, names)
    runs = []
    keys = names.claim_keys()
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(order)], strict=True):
        if end - begin < SHORTEST:
            continue
        first = int(order[begin])
        single[order[begin:end]] = False
        claim = names.table[columns.address[first], 3]
        said = kernel.interval_said(columns, first)
        run = RequestRun(keys[claim], table[begin:end], names, record, said, int(found.said[first]))
        runs.append((first, first, run))
    return runs, single


class _Rows:
    """The records of a batch by row; only few are needed."""

    def __init__(self, batch: pa.RecordBatch, headers: pa.Array) -> None:
        self._numbers = [
            batch.column(name).to_numpy() for name in ("partition", "offset", "timestamp_ms")
        ]
        self._values, self._stamps = batch.column("value"), batch.column("timestamp_type")
        self._pairs: tuple[Ints, pa.Array, pa.Array] | None = None
        if headers.null_count < len(headers):
            members = headers.values
            self._pairs = headers.offsets.to_numpy(), members.field("key"), members.field("value")

    def record(self, row: int) -> RawRecord:
        """The record of a row."""
        pairs: HeaderPairs = ()
        if self._pairs is not None:
            ends, names, values = self._pairs
            entries = range(ends[row], ends[row + 1])
            pairs = tuple([(names[each].as_py(), values[each].as_py()) for each in entries])
        partition, offset, timestamp_ms = (int(column[row]) for column in self._numbers)
        stamp = TimestampType(self._stamps[row].as_py())
        return RawRecord(partition, offset, timestamp_ms, self._values[row].as_py(), pairs, stamp)


def _compact(headers: pa.Array) -> pa.Array:
    """The same lists without unused members: a batch may be a small slice of a table."""
    if headers.null_count == len(headers):
        return headers
    ends = headers.offsets.to_numpy()
    members = headers.values.slice(ends[0], ends[-1] - ends[0])
    return pa.ListArray.from_arrays(pa.array(ends - ends[0]), members)


def _with_header_of_ranges(headers: pa.Array) -> Flags:
    """The rows with a header that only ranges use, whose meaning the kernel does not know."""
    found = np.zeros(len(headers), np.bool_)
    if headers.null_count == len(headers):
        return found
    named = pc.is_in(headers.values.field("key"), value_set=_OF_RANGES)
    entries = np.flatnonzero(named.to_numpy(zero_copy_only=False))
    found[np.searchsorted(headers.offsets.to_numpy(), entries, side="right") - 1] = True
    return found
