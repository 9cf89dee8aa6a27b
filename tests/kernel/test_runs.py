"""Runs are found in memory that grows with the records; what they and clocks say is summed."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

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


def test_what_runs_say_is_what_their_records_say() -> None:
    chance = np.random.default_rng(1)
    leader = np.full(200, runs.NO_RUN)
    for row in range(200):
        begun = [*map(int, np.unique(leader[leader >= 0])), row]
        if chance.random() < 0.8:
            leader[row] = begun[chance.integers(max(0, len(begun) - 9), len(begun))]
    offsets, clocks_ms = 10 + 3 * np.arange(200), np.cumsum(chance.integers(0, 99, 200))
    positions = np.cumsum(chance.integers(0, 2, 200)) // 20 + chance.integers(0, 2, 200)
    told = runs.told(
        runs.HeartbeatRuns(leader, clocks_ms, np.ones(1, np.bool_)), offsets, positions
    )
    ends = [*told.begins[1:].tolist(), len(told.offsets)]
    assert ends[-1] == np.count_nonzero(leader != runs.NO_RUN)
    for number, first in enumerate(np.unique(leader[leader >= 0])):
        rows = np.flatnonzero(leader == first)
        here = slice(told.begins[number], ends[number])
        assert (told.first_row[number], told.last_row[number]) == (first, rows[-1])
        assert told.offsets[here].tolist() == (offsets[rows] - offsets[first]).tolist()
        assert told.clocks_ms[here].tolist() == (clocks_ms[rows] - clocks_ms[first]).tolist()
        moves = (np.flatnonzero(np.diff(positions[rows])) + 1).tolist() or [-1]
        assert (told.first_move[number], told.last_move[number]) == (moves[0], moves[-1])
        assert told.position[number] == positions[first]
        assert told.moved_to[number] == positions[rows[max(0, moves[0])]]


@pytest.mark.parametrize("span_s", [5, 2_000_000_000], ids=["near each other", "wide apart"])
def test_clocks_are_counted_by_place_and_sender(span_s: int) -> None:
    chance, count, bucket_ms, fits_ms = np.random.default_rng(2), 400, 100, 1 << 43
    places = chance.integers(0, 3, count).astype(np.int32)
    addresses = chance.integers(0, 6, count).astype(np.int32)
    sender_of = np.array([0, 1, 1, 2, 0, 2])
    told = chance.random(count) < 0.9
    unix_s = 3_000_000_000 + chance.integers(-span_s, span_s, count)
    timestamps_ms = 3_000_000_000_000 + chance.integers(0, 1000, count)
    unix_s[[7, 70]], timestamps_ms[[8, 80]] = fits_ms // 1000, -fits_ms
    told[[7, 8, 70, 80]] = [True, True, False, False]
    found = runs.clocks(
        places, told, unix_s, timestamps_ms, addresses, sender_of, fits_ms, bucket_ms
    )
    assert found.far.tolist() == [7, 8]
    told[found.far] = False
    who = 3 * places + sender_of[addresses]
    off_ms = unix_s * 1000 - timestamps_ms
    expected = Counter(zip(who[told].tolist(), (off_ms[told] // bucket_ms).tolist(), strict=True))
    counted = zip(
        zip(found.who.tolist(), found.buckets.tolist(), strict=True),
        found.counts.tolist(),
        strict=True,
    )
    assert [*counted] == sorted(expected.items())
    for each in np.unique(who[told]):
        of_each = off_ms[told & (who == each)]
        assert (found.least_ms[each], found.most_ms[each]) == (of_each.min(), of_each.max())
