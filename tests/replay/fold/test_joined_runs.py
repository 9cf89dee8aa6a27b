"""Runs that go on from chunk to chunk come to what their records come to, for any senders."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest
from attrs import evolve
from tools.runs.by_day import sampled, seeds

from kafka_marshal import RuleSet
from kafka_marshal.capture import RawRecord
from kafka_marshal.replay.fold import jobs
from kafka_marshal.replay.fold.collapsed.joined_runs import RunOfRows
from kafka_marshal.replay.fold.collapsed.run_length import COLLAPSED_SCHEMA
from kafka_marshal.replay.model.chunk_items import HeartbeatRun, SingleRecord
from tests.kernel import hostile
from tests.replay.fleets import fleet
from tests.replay.fold.test_run_length import (
    LIE,
    a_fleet,
    alike,
    judging,
    saying_intervals,
    sharing,
)
from tests.replay.told import BOTH, INTERVAL_MS, beats, records

WHOLE = 1_000_000
"""All rows are looked at together."""


@pytest.mark.parametrize(("size", "window"), [(13, WHOLE), (97, 31)])
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_a_fleet_is_told_the_same_from_runs_of_many_chunks(
    seed: int, size: int, window: int
) -> None:
    """It pauses, releases groups, refuses, and has several senders and zombies.

    A window may begin and end within a chunk.
    """
    raws = a_fleet(seed)[: None if seed else 2_000]
    chunked = alike(raws, judging(BOTH), size, window=window)
    assert chunked.kinds[RunOfRows] > 20
    assert chunked.kinds[RunOfRows] < chunked.kinds[HeartbeatRun] + chunked.kinds[SingleRecord]


@pytest.mark.parametrize("size", [1, 2, 7, 40])
def test_a_tenure_is_one_run_however_small_its_chunks_are(size: int) -> None:
    raws = records(["0 CP a1/A", *beats("a1/A", 1, 90), "90 RP a1/A 10"])
    chunked = alike(raws, judging((RuleSet.FENCED,)), size, window=WHOLE)
    assert (chunked.kinds[RunOfRows], chunked.expanded) == (1, 0)


@pytest.mark.parametrize("rest", [19, 21, 60, 61])
def test_a_standstill_ends_a_run_where_it_is_a_rest(rest: int) -> None:
    """The position moves, stands still over some chunks, and moves again."""
    moving = [f"{second} HB a1/A {second}" for second in range(1, 30)]
    still = [f"{second} HB a1/A 29" for second in range(30, 30 + rest)]
    again = [f"{second} HB a1/A {second}" for second in range(30 + rest, 90 + rest)]
    others = [f"{second} HB b1/B {second} p=1" for second in range(1, 90 + rest)]
    told = [*moving, *still, *again, *others]
    told.sort(key=lambda line: float(line.split()[0]))
    raws = records(["0 CP a1/A", "0 CP b1/B p=1", *told])
    alike(raws, judging(), 1, 5, 12, window=WHOLE)


@pytest.mark.parametrize(
    "between",
    [
        "30.5 RG admin/ADM 10",
        "30.5 CP b1/B",
        "30.5 HB b1/B 3",
        "30.5 HB b1/B 10 epoch=0",
        "30.5 HB a2/A 10 p=1",
        "30.5 HB a1/A 10",
        "30.5 HB a1/A 10 epoch=3",
        "30.5 HB a1/A 10 epoch=0 interval=1000",
        "30.5 HB a1/A 10 epoch=0 seen=x",
        "30.5 RP a1/A 10",
        "30.5 CP a2/A p=1",
        "30.5 HB a1/A 4 epoch=0",
        "30.5 garbage",
        "30.5 CR p1/P 5",
        "30.5 CR p1/P 5 v=+1",
        f"30.5 HB a1/A 10 epoch=0 seen=5 ranges-at={LIE}",
        "36.5 HB a1/A 10 epoch=0",
    ],
)
def test_what_comes_between_two_chunks_ends_a_run_there(between: str) -> None:
    begin = 0.5 + float(between.split()[0])
    before, after = (beats("a1/A", at, at + 29, tail="10 epoch=0") for at in (1, begin))
    raws = records(["0 CP a1/A", *before, between, *after])
    alike(raws, judging(), 1, 10, 16, 17, window=WHOLE)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_clocks_that_jump_between_chunks_are_told_the_same(seed: int) -> None:
    chance = Random(seed)
    raws = [
        evolve(raw, timestamp_ms=raw.timestamp_ms + chance.choice((0, 0, 0, 9_000, -7_000)))
        if chance.random() < 0.02
        else raw
        for raw in fleet(seed, 2_000)
    ]
    alike(raws, judging(), 150, window=WHOLE)


def test_the_clock_of_a_claim_is_the_latest_of_all_chunks_and_not_its_last() -> None:
    lines = [f"{second} HB a1/A 5" for second in (1, 2, 3, 4, 2.5, 2.6, 2.7, 2.8)]
    alike(records(["0 CP a1/A", *lines]), judging(), 1, 5, window=WHOLE)


def test_an_interval_that_a_group_begins_to_say_ends_runs_that_say_none() -> None:
    before, after = beats("a1/A", 1, 30), beats("a1/A", 31, 60)
    raws = records(["0 CP a1/A", *before, "30.5 CP c1/C p=1 interval=1000", *after])
    alike(raws, judging(), 1, 16, window=WHOLE)


def test_a_record_that_is_there_twice_is_in_no_run() -> None:
    raws = records(["0 CP a1/A", *beats("a1/A", 1, 60)])
    alike([*raws, raws[8], raws[20]], judging(), WHOLE, window=WHOLE)


@pytest.mark.parametrize(("interval", "forced"), sampled([(INTERVAL_MS, False), (500, True)], 2))
@pytest.mark.parametrize("seed", seeds(1, 4))
def test_groups_that_say_their_intervals_are_told_the_same_from_joined_runs(
    seed: int, interval: int, forced: bool
) -> None:
    raws = saying_intervals(fleet(seed, 3_000 if seed else 1_500), Random(seed))
    alike(raws, evolve(judging(interval=interval), forced=forced), 211, window=WHOLE)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_ranges_and_hostile_logs_are_told_the_same_from_joined_runs(seed: int) -> None:
    alike(sharing(seed), judging(), 90, window=WHOLE)
    once = list({raw.offset: raw for raw in hostile.log(seed, 1_500 if seed else 600)}.values())
    alike(once, judging(), 120, window=WHOLE)


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_a_log_without_its_head_is_told_the_same_from_joined_runs(seed: int) -> None:
    def later(raw: RawRecord) -> RawRecord:
        return evolve(raw, offset=raw.offset + 1_000)

    raws = [later(raw) for raw in a_fleet(seed)[500:3_000]]
    alike(raws, judging(), 60, window=WHOLE)


@pytest.mark.parametrize(
    ("least", "most", "offsets", "told"),
    [
        (1, 100, 999, ["aaaa", "aa", "bbb", "c"]),
        (1, 9_000, 999, ["aaaaaa", "bbb", "c"]),
        (500, 9_000, 999, ["aaaaaabbb", "c"]),
        (9_000, 9_000, 999, ["aaaaaabbbc"]),
        (9_000, 9_000, 16, ["aaaa", "aabb", "bc"]),
    ],
)
def test_a_window_ends_with_a_coordinating_partition_unless_that_is_long(
    least: int, most: int, offsets: int, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim of which a part lies in the next window is not kept in columns.

    What a fold holds at once does not grow with the log.
    """
    monkeypatch.setattr(jobs, "WINDOW_BYTES", least)
    monkeypatch.setattr(jobs, "WINDOW_BYTES_MAX", most)
    monkeypatch.setattr(jobs, "WINDOW_OFFSET_BYTES", offsets)
    logs = "aaaaaabbbc"
    run = pa.array([{"offsets": bytes(4)}] * len(logs), COLLAPSED_SCHEMA.field("run").type)
    rows = pa.RecordBatch.from_pydict(
        {
            "log": list(logs),
            "partition": [1] * len(logs),
            "offset": range(len(logs)),
            "run": run,
        }
    )
    found = [*jobs.windows(rows.slice(begin, 2) for begin in range(0, len(logs), 2))]
    assert ["".join(batch["log"].to_pylist()) for batch in found] == told
    assert [row for batch in found for row in batch.to_pylist()] == rows.to_pylist()
