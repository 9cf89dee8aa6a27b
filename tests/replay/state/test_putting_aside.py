"""Marshal promises that a replay can be put aside after any record and taken up again."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from tools.runs.by_day import sampled

from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.tables import TENURES, Rows
from tests.replay.findings.test_findings import STORIES
from tests.replay.told import BOTH, records

CAPTURES = Path(__file__).parent.parent.parent / "data" / "captures" / "original"
NAMES = sorted(p.stem for p in CAPTURES.glob("*.jsonl") if ".trace" not in p.name)


def put_aside(given: Sequence[RawRecord], places: set[int]) -> Rows:
    """The rows of one coordinating partition; before the records of these places, it pickles."""
    partition_fold = PartitionFold(
        LogPartition("log", 2), JudgingOptions(BOTH, 4_000, coordination_partitions=4)
    )
    for place, raw in enumerate(given):
        if place in places:
            partition_fold = pickle.loads(pickle.dumps(partition_fold))
        partition_fold.feed(raw)
    partition_fold.close()
    return partition_fold.drain()


@pytest.mark.parametrize("name", sampled(NAMES, 3))
def test_an_account_put_aside_in_the_middle_of_a_capture_ends_the_same(name: str) -> None:
    given = list(read_capture(CAPTURES / f"{name}.jsonl"))
    whole = put_aside(given, set())
    assert whole[TENURES]
    assert put_aside(given, set(range(0, len(given), 7))) == whole


@pytest.mark.parametrize("code", sampled(STORIES, 3))
def test_an_account_put_aside_after_every_record_tells_the_same_findings(code: str) -> None:
    _, *logs = STORIES[code]
    for lines in logs:
        given = records(lines)
        assert put_aside(given, set(range(len(given)))) == put_aside(given, set())
