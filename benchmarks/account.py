"""The account that the peers of `bench_replay` make, made with the kernel in one process.

Tenures and the last state of every claim, as Parquet, but under the rules. A tenure begins where a
claim was won, and only what its owner was allowed to do counts for it. A thread reads ahead.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from kafka_marshal.core.claims.verdicts import FENCED_WINS, SIGNS_OF_LIFE, Accepted
from kafka_marshal.kernel.columns import Ints, NameCodes, RecordColumns, Small
from kafka_marshal.kernel.fold import KernelFold
from kafka_marshal.kernel.steps import VERDICTS
from kafka_marshal.replay.fold.reading import read_lean
from kafka_marshal.replay.sources import find

BLOCK = 1 << 16
"""Rows that are decoded and folded at once: their columns stay in the processor's cache."""
_OWNERS = SIGNS_OF_LIFE | {Accepted.RELEASED}
_WINS_BY_NUMBER = np.array([verdict in FENCED_WINS for verdict in VERDICTS] + [False] * 2)
_OWNERS_BY_NUMBER = np.array([verdict in _OWNERS for verdict in VERDICTS] + [False] * 2)
"""The numbers of what is no verdict are -1 and -2."""
FIELDS = (
    "claim",
    "instance",
    "client",
    "from_offset",
    "from_ms",
    "last_offset",
    "last_ms",
    "position",
    "records",
    "longest_silence_ms",
)


def _read(path: Path, ahead: bool) -> Iterator[pa.RecordBatch]:
    """Batches, and while one is used the next is read."""
    batches = (
        batch
        for number, chunk in enumerate(find([str(path)]).chunks)
        for batch in read_lean(number, chunk)
    )
    if not ahead:
        yield from batches
        return
    with ThreadPoolExecutor(1) as reader:
        waiting = reader.submit(next, batches, None)
        while (batch := waiting.result()) is not None:
            waiting = reader.submit(next, batches, None)
            yield batch


class Kernel:
    """Every verdict, every claim; and tenures, if they are wanted."""

    def __init__(self, *, tenures: bool) -> None:
        self.names = NameCodes()
        self.folds: dict[int, KernelFold] = {}
        self.tenures: dict[int, Tenures] = {}
        self._wanted = tenures

    def fold(self, path: Path, *, ahead: bool = False) -> None:
        """All of a log."""
        for batch in _read(path, ahead):
            for begin in range(0, batch.num_rows, BLOCK):
                self._fold(batch.slice(begin, BLOCK))

    def _fold(self, batch: pa.RecordBatch) -> None:
        partitions = batch.column("partition").to_numpy()
        offsets = batch.column("offset").to_numpy()
        timestamps_ms = batch.column("timestamp_ms").to_numpy()
        columns = self.names.decoded(batch.column("value"), batch.column("headers"))
        counts = np.bincount(partitions)
        rows = np.split(np.argsort(partitions.astype(np.int16), kind="stable"), counts.cumsum())
        for partition in np.flatnonzero(counts):
            of_partition = rows[partition]
            fold = self.folds.setdefault(int(partition), KernelFold(names=self.names))
            verdicts = fold.apply(offsets, timestamps_ms, columns, of_partition)
            if self._wanted:
                tenures = self.tenures.setdefault(int(partition), Tenures(self.names))
                tenures.add(verdicts, of_partition, offsets, timestamps_ms, columns)

    def write(self, out: Path) -> None:
        """Two tables."""
        out.mkdir()
        keys = self.names.claim_keys()
        instances, clients = self.names.instances.names(), self.names.clients.names()
        tables = []
        for partition, of_partition in self.tenures.items():
            found = dict(zip(FIELDS, of_partition.rows().T, strict=True))
            named = [keys[code] for code in found.pop("claim")]
            tables.append(
                pa.table(
                    {
                        "coordinating_partition": np.full(len(named), partition),
                        "group": [key.group for key in named],
                        "topic": [key.topic for key in named],
                        "topic_partition": [key.topic_partition for key in named],
                        **found,
                        "instance": [instances[code] for code in found["instance"]],
                        "client": [clients[code] for code in found["client"]],
                    }
                )
            )
        pq.write_table(pa.concat_tables(tables), out / "tenures.parquet")
        claims = [
            (partition, key.group, key.topic, key.topic_partition, claim.owner_instance,
             claim.owner_client, claim.epoch, claim.position, claim.last_heartbeat_ms)
            for partition, fold in self.folds.items()
            for key, claim in fold.claims().items()
        ]  # fmt: skip
        columns = [pa.array(column) for column in zip(*claims, strict=True)]
        names = ["coordinating_partition", "group", "topic", "topic_partition", "owner_instance"]
        names += ["owner_client", "epoch", "position", "last_heartbeat_ms"]
        pq.write_table(pa.table(columns, names=names), out / "claims.parquet")


class Tenures:
    """Who owned what of one coordinating partition, from which record to which."""

    def __init__(self, names: NameCodes) -> None:
        self._names = names
        self._open = np.full(64, -1, np.int64)
        self._rows = np.zeros((1024, len(FIELDS)), np.int64)
        self._count = 0

    def add(
        self,
        verdicts: Small,
        rows: npt.NDArray[np.intp],
        offsets: Ints,
        timestamps_ms: Ints,
        columns: RecordColumns,
    ) -> None:
        """What records did."""
        wins = int(_WINS_BY_NUMBER[verdicts].sum())
        while self._count + wins > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        while len(self._names.claims) > len(self._open):
            self._open = np.concatenate([self._open, np.full_like(self._open, -1)])
        self._count = _add(
            verdicts, rows, offsets, timestamps_ms, columns.number, columns.address,
            self._names.table, _WINS_BY_NUMBER, _OWNERS_BY_NUMBER, self._open, self._rows,
            self._count,
        )  # fmt: skip

    def rows(self) -> Ints:
        """One row a tenure, in the order of FIELDS."""
        return self._rows[: self._count]


@numba.njit(nogil=True, cache=True)
def _add(  # type: ignore[no-untyped-def]
    verdicts, rows, offsets, timestamps_ms, numbers, addresses, table, wins, owners, begun, told,
    count,
):  # fmt: skip
    for place, row in enumerate(rows):
        verdict = verdicts[place]
        if not owners[verdict]:
            continue
        address = addresses[row]
        claim = table[address, 3]
        offset, now_ms = offsets[row], timestamps_ms[row]
        if wins[verdict]:
            begun[claim] = count
            told[count, 0] = claim
            told[count, 1], told[count, 2] = table[address, 0], table[address, 1]
            told[count, 3], told[count, 4] = offset, now_ms
            told[count, 6] = now_ms
            count += 1
        tenure = begun[claim]
        told[tenure, 9] = max(told[tenure, 9], now_ms - told[tenure, 6])
        told[tenure, 5], told[tenure, 6] = offset, now_ms
        told[tenure, 7] = max(told[tenure, 7], numbers[row])
        told[tenure, 8] += 1
    return count
