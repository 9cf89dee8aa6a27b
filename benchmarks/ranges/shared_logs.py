"""Generated logs of claims that several consumers share, written as Parquet.

Each of 16 coordinating partitions has one claim, which 16 participants share at least once. In
turns they report a range as done and ask for the next one. Every hundredth record is a heartbeat of
the anchor, which says where they are, with a checkpoint. Senders are up to 20 records behind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.logs import BEGIN_MS, PARTITIONS, SCHEMA

from kafka_marshal.core.messages import (
    ClaimingPartition,
    ClaimingRange,
    Headers,
    Heartbeat,
    Offset,
    Partition,
)
from kafka_marshal.core.ranges.messages import RangeHeaders, RangesMessage, RangesRecord
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import Ranges
from kafka_marshal.core.state import Claim
from kafka_marshal.range_codec import encode_range, encode_range_headers

PARTICIPANTS: Final = 16
WINDOW: Final = 100_000
MESSAGES: Final = 200
"""Of a range."""
BEATS_EVERY: Final = 100
"""Records of participants for each heartbeat of the anchor."""
STEP_MS: Final = 20
BLOCK: Final = 50_000
_BEHIND: Final = 20
"""Records that a sender may not have read yet."""
_Row: TypeAlias = tuple[int, int, int, bytes, list[tuple[str, bytes]]]


def write(path: Path, count: int, *, seed: int = 1, beats_every: int = BEATS_EVERY) -> None:
    """A log of `count` records in Spark's Kafka schema."""
    chance = Random(seed)
    claims = [_claim(number, chance, beats_every) for number in range(PARTITIONS)]
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", compression_level=1) as writer:
        for begin in range(0, count, BLOCK):
            places = range(begin, min(begin + BLOCK, count))
            writer.write_table(_table([next(claims[each % PARTITIONS]) for each in places]))


def _claim(number: int, chance: Random, beats_every: int) -> Iterator[_Row]:
    """The records of one claim, for ever."""
    state, offset = FoldedState(Claim(), Ranges()), 0
    recent: deque[FoldedState] = deque(maxlen=_BEHIND)
    where = ("g", "orders", Partition(number))
    while True:
        behind = chance.randrange(min(len(recent), _BEHIND)) if recent else 0
        seen = offset - 1 - behind
        known = recent[-1 - behind] if recent else state
        checkpoint = None
        more, headers = RangeHeaders(), Headers(present=True)
        message: RangesMessage
        now_ms = BEGIN_MS + offset * STEP_MS
        if offset == 0:
            message = ClaimingPartition(1, now_ms // 1000, "ranges", "ranges", *where)
            more = RangeHeaders(window=WINDOW)
        elif offset == 1 or offset % beats_every == 0:
            low = known.ranges.low
            message = Heartbeat(1, now_ms // 1000, "ranges", "ranges", *where, Offset(low))
            headers = Headers(present=True, epoch=0, seen=seen, clock=now_ms)
            checkpoint = known if known.ranges.has_begun else None
        else:
            who = offset % PARTICIPANTS
            instance, client = f"b3f1c2d4-7a60-4e5f-{who:04}", f"consumer-{who}"
            message = ClaimingRange(*(1, now_ms // 1000, instance, client, *where), MESSAGES)
            held = known.ranges.open_of(instance)
            if len(held) > 1:
                more = RangeHeaders(done=held[-2].to)
            headers = Headers(present=True, seen=max(0, seen))
        record = RangesRecord(number, offset, now_ms, message, headers, more)
        state = after(state, record)
        recent.append(state)
        pairs = encode_range_headers(headers, more, checkpoint)
        yield number, offset, now_ms, encode_range(message), pairs
        offset += 1


def _table(rows: list[_Row]) -> pa.Table:
    partitions, offsets, stamps, values, headers = zip(*rows, strict=True)
    count = len(rows)
    kind = SCHEMA.field("headers").type
    return pa.table(
        {
            "key": pa.nulls(count, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": pa.repeat(pa.scalar("__marshal"), count),
            "partition": pa.array(partitions, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array(stamps, pa.timestamp("ms", "UTC")).cast(
                pa.timestamp("us", "UTC")
            ),
            "timestampType": pa.repeat(pa.scalar(1, pa.int32()), count),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in each] for each in headers], kind
            ),
        },
        schema=SCHEMA,
    )
