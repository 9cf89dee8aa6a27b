"""Records of a coordination topic as table rows: a column for each message field and header.

For notebooks, before or instead of a replay. This module knows Arrow and the kernel's columns. It
knows neither Spark nor the effect of a record.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafka_marshal.codec import MalformedRecord, decode
from kafka_marshal.core import wire
from kafka_marshal.kernel.columns import (
    HEADER_COLUMNS,
    MALFORMED,
    Flags,
    NameCodes,
    RecordColumns,
    Small,
    TextCodes,
)
from kafka_marshal.replay.model.rows import readable

SCHEMA: Final = pa.schema(
    [
        ("log", pa.string()),
        ("coordinating_partition", pa.int64()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestamp_type", pa.string()),
        ("type", pa.string()),
        ("version", pa.int64()),
        ("unix_s", pa.int64()),
        ("instance", pa.string()),
        ("client", pa.string()),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("topic_partition", pa.int64()),
        ("position", pa.int64()),
        ("expires_unix_s", pa.int64()),
        *((f"header_{name}", pa.int64()) for name in HEADER_COLUMNS),
        ("has_headers", pa.bool_()),
        ("malformed", pa.string()),
        ("value", pa.binary()),
    ]
)
"""Null if a record does not state it; a header that is not decimal is -2."""
SPARK_SCHEMA: Final = (
    "log string, coordinating_partition bigint, offset bigint, timestamp timestamp, "
    "timestamp_type string, type string, version bigint, unix_s bigint, instance string, "
    "client string, `group` string, topic string, topic_partition bigint, position bigint, "
    "expires_unix_s bigint, header_epoch bigint, header_seen bigint, header_clock bigint, "
    "header_supersedes bigint, header_set_position bigint, header_interval_ms bigint, "
    "header_start bigint, header_done bigint, has_headers boolean, malformed string, value binary"
)


def decoded(batch: pa.RecordBatch, names: NameCodes | None = None) -> pa.RecordBatch:
    """Decode the rows of a batch in `reading.ARROW_SCHEMA`."""
    names = names or NameCodes()
    values = batch.column("value")
    columns = names.decoded(values, batch.column("headers"))
    malformed = columns.kind == MALFORMED
    stated = _stated(columns, names, malformed)
    reasons: list[str | None] = [None] * len(columns)
    for row in np.flatnonzero(malformed):
        try:
            decode(values[int(row)].as_py())
        except MalformedRecord as error:
            reasons[row] = readable(str(error))
    stamps = pc.multiply(batch.column("timestamp_ms"), 1000).cast(pa.timestamp("us", "UTC"))
    given = {
        "log": batch.column("log"),
        "coordinating_partition": batch.column("partition"),
        "offset": batch.column("offset"),
        "timestamp": stamps,
        "timestamp_type": batch.column("timestamp_type"),
        "malformed": pa.array(reasons, pa.string()),
        "value": values,
    }
    return pa.RecordBatch.from_arrays(
        [(stated | given)[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA
    )


def _states(kind: Small, number: str) -> Flags:
    """Which rows have a message with this number."""
    return np.isin(kind, [n for n, each in enumerate(wire.MESSAGES) if each.number == number])


def _is_keyed(kind: Small) -> Flags:
    """Which rows have a message about one claim."""
    return np.isin(kind, [n for n, each in enumerate(wire.MESSAGES) if each.keyed])


def _stated(
    columns: RecordColumns, names: NameCodes, malformed: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> dict[str, pa.Array]:
    kind = columns.kind
    table = names.table if len(names.table) else np.zeros((1, 4), np.int32)
    who = table[np.where(malformed, 0, columns.address)]
    keys = names.claim_keys()
    topics = pa.array([*(readable(key.topic) for key in keys), None], pa.string())
    partitions = pa.array([*(key.topic_partition for key in keys), None], pa.int64())
    types = pa.array([layout.name for layout in wire.MESSAGES])
    no_claim = ~_is_keyed(kind)
    claims = pa.array(np.where(no_claim, 0, who[:, 3]), mask=no_claim)

    def names_of(known: TextCodes, column: int) -> pa.Array:
        values = pa.array([readable(name) for name in known.names()], pa.string())
        return values.take(pa.array(who[:, column], mask=malformed))

    headers = {
        f"header_{name}": pa.array(
            columns.headers[:, column], mask=columns.headers[:, column] == -1
        )
        for column, name in enumerate(HEADER_COLUMNS)
    }
    return {
        "type": types.take(pa.array(kind, mask=malformed)),
        "version": pa.array(columns.version, mask=malformed),
        "unix_s": pa.array(columns.unix_s, mask=malformed),
        "instance": names_of(names.instances, 0),
        "client": names_of(names.clients, 1),
        "group": names_of(names.groups, 2),
        "topic": topics.take(claims),
        "topic_partition": partitions.take(claims),
        "position": pa.array(columns.number, mask=~_states(kind, "offset")),
        "expires_unix_s": pa.array(columns.number, mask=~_states(kind, "expires_unix_s")),
        "has_headers": pa.array(columns.present),
        **headers,
    }
