"""Converts chunks of sources to Arrow batches: the first step of every executor.

All formats are read into one schema, so the origin of a record makes no difference from here on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import pyarrow as pa

from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.sources import FORMATS, Chunk
from kafka_marshal.replay.sources.columns import ARROW_SCHEMA, KEYED_SCHEMA, plain, records_of

__all__ = [
    "ARROW_SCHEMA",
    "KEYED_SCHEMA",
    "made_in_blocks",
    "plain",
    "read_chunk",
    "read_lean",
    "records_of",
]

_BATCH: Final = 32_768
"""The minimum of rows in a batch, except for a chunk's last one and for long rows."""
_BATCH_BYTES: Final = 64 << 20
"""The size at which a batch is complete, whatever its number of rows."""
_ORDER_BITS: Final = 40
"""The low bits of `input_order` count rows within a chunk, the high ones chunks."""


def read_chunk(number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """Yield the records of one chunk; `number` is its index in the input.

    Raises:
        UnreadableSource: a line or a row is no record; the message names the file and the line.
    """
    return map(plain, read_lean(number, chunk))


def read_lean(number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """The same in `LEAN_SCHEMA`, if the format supports it, which costs less."""
    yield from _gathered(FORMATS[chunk.format].read(number << _ORDER_BITS, chunk))


def made_in_blocks(
    taken: Callable[[slice], pa.RecordBatch], size: int, kept: int = 1
) -> Callable[[int], RawRecord]:
    """Make records a block at a time: one alone takes as long as fifty together.

    Args:
        taken: gives some of the rows, in `ARROW_SCHEMA`.
        size: the records of a block.
        kept: how many blocks are kept; the one that was asked for longest ago goes first.

    Returns:
        A function that gives the record of a row. Who asks for one mostly asks for its neighbours.
    """

    @lru_cache(kept)
    def block(number: int) -> list[RawRecord]:
        begin = number * size
        return [raw for _, raw in records_of(taken(slice(begin, begin + size)))]

    def record(row: int) -> RawRecord:
        number, at = divmod(row, size)
        return block(number)[at]

    return record


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, because each batch has a cost for its reader."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= _BATCH or size >= _BATCH_BYTES:
            yield _together(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
        yield _together(waiting)


def _together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
