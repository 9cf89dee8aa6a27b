"""Generated logs of a coordination topic, as large as one likes, written as Parquet.

Consumers heartbeat every claim once an interval (60 s), in turns and a little unevenly; every ten
thousandth record is a release, after which the claim is claimed anew. Headers as our
clients write them. `skewed`: one claim has a fifth of all records. `hot`: the part of the claims
that is in the first coordinating partition, beside those that are there in any case.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

INTERVAL_S = 60
PARTITIONS = 16
CLAIMS = 2048
BEGIN_MS = 1_700_000_000_000
BLOCK = 500_000
"""Records made, and written as a row group, at a time."""

SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("timestampType", pa.int32()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def write(
    path: Path,
    count: int,
    *,
    claims: int = CLAIMS,
    skewed: bool = False,
    hot: float = 0.0,
    seed: int = 1,
) -> None:
    """A log of `count` records in Spark's Kafka schema, ordered as it was written."""
    log = FleetLog(claims, skewed, seed, hot)
    with pq.ParquetWriter(path, SCHEMA, compression="zstd", compression_level=1) as writer:
        for begin in range(0, count, BLOCK):
            block = log.block(min(BLOCK, count - begin))
            writer.write_table(block, row_group_size=BLOCK // 2)


class FleetLog:
    """A fleet and where it stands: blocks of records follow each other."""

    def __init__(self, claims: int, skewed: bool, seed: int, hot: float = 0.0) -> None:
        self.chance = np.random.default_rng(seed)
        self.claims = claims
        self.skewed = skewed
        self.partitions = np.arange(claims) % PARTITIONS
        self.partitions[: int(hot * claims)] = 0
        self.offsets = np.zeros(PARTITIONS, np.int64)
        self.epochs = np.full(claims, -1, np.int64)
        self.positions = np.zeros(claims, np.int64)
        self.owners = np.arange(claims) % 64
        self.runs = np.zeros(claims, np.int64)
        self.turn = 0
        self.made = 0

    def _claims(self, count: int) -> npt.NDArray[np.int64]:
        """Whose turn it is: the hot claim's every fifth time, and else one after the other."""
        hot = np.zeros(count, np.bool_)
        if self.skewed:
            hot = (self.made + np.arange(count)) % 5 == 0
        others = np.cumsum(~hot)
        turns = np.where(hot, 0, (self.turn + others) % self.claims)
        self.turn = int((self.turn + others[-1]) % self.claims)
        return turns

    def block(self, count: int) -> pa.Table:
        """The next records."""
        claim = self._claims(count)
        partition = self.partitions[claim]
        offset = np.empty(count, np.int64)
        for each in range(PARTITIONS):
            rows = np.flatnonzero(partition == each)
            offset[rows] = self.offsets[each] + np.arange(len(rows))
            self.offsets[each] += len(rows)
        number = self.made + np.arange(count)
        self.made += count
        turns = number * 4 // 5 if self.skewed else number
        now_ms = BEGIN_MS + turns * (INTERVAL_S * 1000) // self.claims
        now_ms += self.chance.integers(0, 20, count)
        np.maximum.accumulate(now_ms, out=now_ms)

        kind = np.zeros(count, np.int64)
        instance, epoch, position = (np.empty(count, np.int64) for _ in range(3))
        advance = self.chance.integers(0, 500, count)
        kind[number % 10_000 == 7] = -1
        firsts = np.unique(claim, return_index=True)[1]
        kind[firsts[self.epochs[claim[firsts]] < 0]] = -1
        self._play(claim, kind, offset, instance, epoch, position, advance)
        return self._table(claim, kind, partition, offset, now_ms, instance, epoch, position)

    def _play(self, claim, kind, offset, instance, epoch, position, advance) -> None:  # type: ignore[no-untyped-def]
        """Claim by claim: who owns, under which epoch, and how far it is."""
        order = np.argsort(claim, kind="stable")
        begins = np.flatnonzero(np.diff(claim[order], prepend=-1))
        for begin, end in zip(begins, np.append(begins[1:], len(order)), strict=True):
            rows = order[begin:end]
            each = claim[rows[0]]
            cuts = np.flatnonzero(kind[rows] == -1)
            position[rows] = self.positions[each] + np.cumsum(advance[rows])
            self.positions[each] = position[rows[-1]]
            at = 0
            for cut in [*cuts, len(rows)]:
                instance[rows[at:cut]] = self.runs[each]
                epoch[rows[at:cut]] = self.epochs[each]
                if cut == len(rows):
                    break
                if self.epochs[each] >= 0:
                    # A release, then the same claim's next turn is a new claim.
                    kind[rows[cut]] = 2
                    instance[rows[cut]], epoch[rows[cut]] = self.runs[each], self.epochs[each]
                    self.epochs[each] = -1
                    if cut + 1 < len(rows) and kind[rows[cut + 1]] == 0:
                        kind[rows[cut + 1]] = 1
                        instance[rows[cut + 1]], epoch[rows[cut + 1]] = self.runs[each], -1
                        self.epochs[each] = offset[rows[cut + 1]]
                        at = cut + 2
                        continue
                else:
                    kind[rows[cut]] = 1
                    instance[rows[cut]], epoch[rows[cut]] = self.runs[each], -1
                    self.epochs[each] = offset[rows[cut]]
                at = cut + 1

    def _table(self, claim, kind, partition, offset, now_ms, instance, epoch, position) -> pa.Table:  # type: ignore[no-untyped-def]
        owner = pa.array(self.owners[claim])
        names = pa.array(["Heartbeat", "ClaimingPartition", "ReleasingPartition"])
        text = pc.binary_join_element_wise(
            names.take(pa.array(kind)),
            pa.scalar("1"),
            pa.array(now_ms // 1000).cast(pa.string()),
            pc.binary_join_element_wise(
                pa.scalar("b3f1c2d4-7a60-4e5f-9"), owner.cast(pa.string()),
                pa.array(instance).cast(pa.string()), "-",
            ),
            pc.binary_join_element_wise(pa.scalar("consumer"), owner.cast(pa.string()), "-"),
            pa.scalar("payments.settlement"),
            pc.binary_join_element_wise(
                pa.scalar("orders"), pa.array(claim // 32).cast(pa.string()), "."
            ),
            pa.array(claim % 32).cast(pa.string()),
            "/",
        )  # fmt: skip
        with_position = pc.binary_join_element_wise(text, pa.array(position).cast(pa.string()), "/")
        values = pc.if_else(pa.array(kind == 1), text, with_position).cast(pa.binary())
        count = len(claim)
        return pa.table(
            {
                "key": pa.nulls(count, pa.binary()),
                "value": values,
                "topic": pa.repeat(pa.scalar("__marshal"), count),
                "partition": pa.array(partition.astype(np.int32)),
                "offset": pa.array(offset),
                "timestamp": pa.array(now_ms * 1000).cast(pa.timestamp("us", "UTC")),
                "timestampType": pa.repeat(pa.scalar(1, pa.int32()), count),
                "headers": _headers(offset, now_ms, epoch),
            },
            schema=SCHEMA,
        )


def _headers(offset, now_ms, epoch) -> pa.Array:  # type: ignore[no-untyped-def]
    """`marshal-epoch`, `-seen` and `-clock` of an owner; `marshal-version` of a claim."""
    owns = epoch >= 0
    lengths = np.where(owns, 3, 1)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    keys = np.full(ends[-1], "marshal-version", dtype=object)
    numbers = np.ones(ends[-1], np.int64)
    first = ends[:-1][owns]
    for place, (name, column) in enumerate(
        (("epoch", epoch), ("seen", np.maximum(offset - 1, 0)), ("clock", now_ms))
    ):
        keys[first + place] = f"marshal-{name}"
        numbers[first + place] = column[owns]
    pairs = pa.StructArray.from_arrays(
        [pa.array(keys, pa.string()), pa.array(numbers).cast(pa.string()).cast(pa.binary())],
        fields=list(SCHEMA.field("headers").type.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=SCHEMA.field("headers").type)
