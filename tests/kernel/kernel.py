"""Records put to the kernel, as tests have them: one by one, or as claims before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from kafka_marshal import Claim, ClaimKey
from kafka_marshal.capture import HeaderPairs, RawRecord
from kafka_marshal.codec import HEADER_FIELDS, encode
from kafka_marshal.core.claims.verdicts import Verdict
from kafka_marshal.core.messages import NOT_DECIMAL, Headers, ReleaseGroup
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.kernel.fold import KernelFold
from kafka_marshal.replay.sources.columns import HEADERS
from tests.triples import Triple


def arrays(raws: list[RawRecord]) -> tuple[pa.Array, pa.Array]:
    """Values and headers as Arrow has them."""
    values = pa.array([raw.value for raw in raws], pa.binary())
    pairs = [[{"key": name, "value": value} for name, value in raw.headers] or None for raw in raws]
    return values, pa.array(pairs, HEADERS)


def pairs_of(headers: Headers) -> HeaderPairs:
    """Headers written, also those that `encode_headers` would not write."""
    if not headers.present:
        return ()
    numbers = ((name, getattr(headers, field)) for name, field in HEADER_FIELDS.items())
    return (
        ("marshal-version", b"1"),
        *(
            (name, b"x" if n == NOT_DECIMAL else str(n).encode())
            for name, n in numbers
            if n is not None
        ),
    )


def stepped(triples: Iterable[Triple]) -> Iterator[tuple[Triple, Claim, Verdict]]:
    """Each triple, with what the kernel makes of its claim, and what it says."""
    known = list(triples)
    records = {record: row for row, record in enumerate(dict.fromkeys(t.record for t in known))}
    names = NameCodes()
    raws = [
        RawRecord(0, each.offset, each.timestamp_ms, encode(each.message), pairs_of(each.headers))
        for each in records
    ]
    columns = names.decoded(*arrays(raws))
    offsets = np.array([raw.offset for raw in raws], np.int64)
    timestamps_ms = np.array([raw.timestamp_ms for raw in raws], np.int64)
    for triple in known:
        message = triple.record.message
        group = message.group_id
        key = ClaimKey(group, "t", 0) if isinstance(message, ReleaseGroup) else message.key
        folded = KernelFold(triple.rules, names)
        folded.put(key, triple.before)
        row = np.array([records[triple.record]])
        verdicts = folded.apply(offsets, timestamps_ms, columns, row)
        yield triple, folded.claims()[key], steps.VERDICTS[verdicts[0]]
