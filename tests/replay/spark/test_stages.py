"""Marshal promises that rows that travel as bytes, in any order, are folded as in one process."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from kafka_marshal.replay.fold.jobs import WholeLog
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.model.tables import OF_CLAIMS
from kafka_marshal.replay.one_process.gathering import folded
from kafka_marshal.replay.sources import find
from kafka_marshal.replay.spark import stages
from kafka_marshal.replay.spark.stages import (
    Piece,
    folded_pieces,
    from_stored,
    read_pieces,
    table_rows,
    task_of,
    to_stored,
)
from tests.replay import dumps
from tests.replay.fleets import fleet
from tests.replay.told import BOTH

TASKS = 3


@pytest.mark.parametrize("collapsing", [False, True], ids=["records", "runs"])
@pytest.mark.parametrize("sorted_bytes_max", [0, stages.SORTED_BYTES_MAX], ids=["spilled", "held"])
def test_pieces_in_any_order_come_to_what_one_process_folds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collapsing: bool, sorted_bytes_max: int
) -> None:
    given = fleet(3, 600)
    for number, begin in enumerate(range(0, len(given), 200)):
        part = dumps.table(given[begin : begin + 200])
        dumps.write(tmp_path / "log" / f"part-{number}.parquet", part)
    chunks = find([str(tmp_path / "log")]).chunks
    job = WholeLog(chunks, JudgingOptions(BOTH, 4000), collapsing=collapsing)
    expected = Counter(repr(row) for rows in folded(job) for row in rows)

    monkeypatch.setattr(stages, "SORTED_BYTES_MAX", sorted_bytes_max)
    pieces = list(read_pieces(job, range(len(chunks)), TASKS))
    random.Random(1).shuffle(pieces)
    of_task = defaultdict[int, list[Piece]](list)
    for piece in pieces:
        of_task[piece[0]].append(piece)
    assert len(of_task) > 1
    found = Counter[str]()
    for of in of_task.values():
        for name, rows in table_rows(folded_pieces(job, of), OF_CLAIMS):
            stored_name, back = from_stored(to_stored(name, rows), OF_CLAIMS)
            found.update(map(repr, OF_CLAIMS.by_name[stored_name].rows(back.to_pylist())))
    assert found == expected


def test_the_coordinating_partitions_of_a_log_are_spread_evenly() -> None:
    for log in ("a", "another"):
        counted = Counter(task_of((log, partition), 16) for partition in range(64))
        assert set(counted.values()) == {4}
