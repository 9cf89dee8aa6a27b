"""Converts chunks of sources to Arrow batches: the first step of every executor.

Whatever the format, batches come out in one schema, so from here on nobody knows where a record
came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from kafka_marshal.replay.sources import FORMATS, Chunk
from kafka_marshal.replay.sources.columns import ARROW_SCHEMA, KEYED_SCHEMA, plain, records_of

__all__ = ["ARROW_SCHEMA", "KEYED_SCHEMA", "plain", "read_chunk", "read_lean", "records_of"]

_BATCH: Final = 32_768
"""The fewest rows of a batch, but for a chunk's last one and for long rows."""
_BATCH_BYTES: Final = 64 << 20
"""A batch that has as many is not added to, however few its rows are."""
_ORDER_BITS: Final = 40
"""The low bits of `input_order` count within a chunk, the high ones the chunks."""


def read_chunk(number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """The records of one chunk; `number` is its place in the input.

    Raises:
        UnreadableSource: a line or a row is no record; the message names the file and the line.
    """
    return map(plain, read_lean(number, chunk))


def read_lean(number: int, chunk: Chunk) -> Iterator[pa.RecordBatch]:
    """The same, in `LEAN_SCHEMA` if its format comes so, which costs less."""
    yield from _gathered(FORMATS[chunk.format].read(number << _ORDER_BITS, chunk))


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Small batches put together, because each batch costs its reader something."""
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
