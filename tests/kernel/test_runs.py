"""Marshal promises that runs are found in memory that grows with the records alone."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa

from kafka_marshal.kernel import runs
from kafka_marshal.kernel.columns import NameCodes
from kafka_marshal.replay.findings.claims.silence import MISSED_AFTER_INTERVALS
from kafka_marshal.replay.model.position_progress import REST_INTERVALS

PLACES = 4_000
ROUNDS = 3


def found() -> runs.HeartbeatRuns:
    """The runs of a log where each of many partitions has one claim, of one client."""
    values = [
        f"Heartbeat/1/{60 * each + 1}/i{place}/c{place}/g{place}/t/{place}/{each}".encode()
        for each in range(ROUNDS)
        for place in range(PLACES)
    ]
    names = NameCodes()
    columns = names.decoded(pa.array(values, pa.binary()), None)
    places = np.tile(np.arange(PLACES, dtype=np.int32), ROUNDS)
    offsets = np.repeat(np.arange(ROUNDS), PLACES)
    return runs.find(
        places, offsets, offsets * 60_000, columns, names, MISSED_AFTER_INTERVALS,
        REST_INTERVALS, 60_000,
    )  # fmt: skip


def test_many_partitions_with_many_claims_take_no_room_for_each_pair_of_them() -> None:
    told = found()  # compiles
    assert told.leader.tolist() == [*range(PLACES)] * ROUNDS
    tracemalloc.start()
    try:
        found()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * PLACES * PLACES / 4  # of 8 bytes for each pair
