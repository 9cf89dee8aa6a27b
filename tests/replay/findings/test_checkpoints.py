"""Marshal promises that a replay of the whole log finds every checkpoint that is not true."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs
import pytest

from kafka_marshal import FENCED, Claim, RuleSet
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.core.ranges.reader import FoldedState, after
from kafka_marshal.core.ranges.state import Interval, Ranges
from kafka_marshal.range_codec import encode_checkpoint, encode_range, encode_range_headers
from kafka_marshal.replay.findings.claims.checkpoints import STATES_MAX
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS
from tests.machines.ranges.fleet import Faults, Setting, World
from tests.replay.told import INTERVAL_MS, records, replayed

RULES = attrs.evolve(FENCED, heartbeat_interval_ms=INTERVAL_MS)
SHARED = ["0 CP ranges/ranges ranges=99", "0.1 HB ranges/ranges 0 epoch=0", "0.2 CR p1/P 4"]


def states(lines: Iterable[str]) -> list[FoldedState]:
    """The claim after each record."""
    found, state = [], FoldedState(Claim(), Ranges())
    for raw in records(lines):
        state = after(state, raw.decoded_with_ranges(), RULES)
        found.append(state)
    return found


def holding(lines: list[str], number: int, state: FoldedState) -> list[str]:
    """The same log with a checkpoint in one of its heartbeats."""
    text = encode_checkpoint(state).decode()
    return [f"{line} ranges-at={text}" if at == number else line for at, line in enumerate(lines)]


def told(lines: Iterable[str], *, forced: bool = False) -> list[FindingRow]:
    rows = replayed(
        records(lines), rule_sets=(RuleSet.FENCED,), interval_ms=INTERVAL_MS, forced=forced
    )
    return [row for row in rows[FINDINGS] if row.code == "checkpoint_differs"]


BEAT = [*SHARED, "0.3 CR q1/Q 5", "1 HB ranges/ranges 0 epoch=0 seen=2"]


def of_claim(**fields: Any) -> Callable[[FoldedState], FoldedState]:
    return lambda state: attrs.evolve(state, claim=attrs.evolve(state.claim, **fields))


def of_ranges(**fields: Any) -> Callable[[FoldedState], FoldedState]:
    return lambda state: attrs.evolve(state, ranges=attrs.evolve(state.ranges, **fields))


def test_a_checkpoint_speaks_of_what_its_sender_had_read_and_not_of_where_it_landed() -> None:
    assert told(holding(BEAT, 4, states(BEAT)[2])) == []
    [row] = told(holding(BEAT, 4, states(BEAT)[3]))
    assert (row.offset, row.severity, row.count, row.instance) == (4, "error", 1, "ranges")
    assert row.sentence == (
        "A heartbeat at offset 4 (2023-11-14 22:13:21.000 UTC) holds a checkpoint of events/0 of "
        "group g as of offset 2. It differs from the log in frontier 9 instead of 4; its open "
        "ranges; who is alive, and when; the ranges' clock_ms 1700000000300 instead of "
        "1700000000200. A consumer that begins to read in the middle, at offset 3 or before, may "
        "believe it."
    )


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (of_claim(owner_instance="b1"), "owner_instance b1 instead of ranges"),
        (of_claim(epoch=None), "epoch nothing instead of 0"),
        (of_claim(position=7), "position 7 instead of 0"),
        (of_claim(paused_until_ms=5), "paused_until_ms 5 instead of nothing"),
        (of_claim(clock_ms=5), "in clock_ms 5 instead of 1700000000100"),
        (of_ranges(window=0), "window 0 instead of 99"),
        (of_ranges(pool=(Interval(20, 30),)), "its pool"),
        (of_ranges(clock_ms=5), "the ranges' clock_ms 5 instead of 1700000000200"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_each_field_is_compared(lie: Callable[[FoldedState], FoldedState], words: str) -> None:
    [row] = told(holding(BEAT, 4, lie(states(BEAT)[2])))
    assert f"{words}." in str(row.sentence)


def test_it_counts_for_any_sender_and_in_a_refused_heartbeat() -> None:
    lie = of_claim(position=7)
    for beat in ("1 HB x1/X 0 seen=2", "1 HB ranges/ranges 0 epoch=2 seen=2", "1 HB p1/P 0 seen=2"):
        lines = [*BEAT[:4], beat]
        assert told(holding(lines, 4, states(lines)[2])) == []
        assert len(told(holding(lines, 4, lie(states(lines)[2])))) == 1


def test_nobody_compares_what_no_reader_would_use() -> None:
    lie = of_claim(position=7)(states(BEAT)[2])
    for seen in ("", "seen=4", "seen=9", "seen=x"):
        assert told(holding([*BEAT[:4], f"1 HB ranges/ranges 0 epoch=0 {seen}"], 4, lie)) == []
    assert told(f"{line} ranges-at=1/2/3" for line in BEAT) == []
    assert told(holding(["0 HB ranges/ranges 0 epoch=0 at=5", *BEAT], 5, lie)) == []
    assert told(holding(BEAT, 4, lie), forced=True) == []


def test_a_checkpoint_of_a_claim_that_nobody_shared_then_is_not_true() -> None:
    held = states(BEAT)[2]
    never = ["0 CP a1/A", "0.1 HB a1/A 0 epoch=0", "1 HB a1/A 0 epoch=0 seen=1"]
    taken_over = [*BEAT, "60 CP a1/A", "60.5 HB a1/A 0 epoch=5", "61 HB a1/A 0 epoch=5 seen=6"]
    for lines in (never, taken_over):
        [row] = told(holding(lines, len(lines) - 1, held))
        assert "Nobody shared the claim then." in str(row.sentence)
    late = [*taken_over[:-1], "61 HB ranges/ranges 0 epoch=0 seen=2"]
    assert told(holding(late, 7, held)) == []


def test_many_of_one_tenure_are_one_finding() -> None:
    lines, lie = [*BEAT], of_claim(position=7)(states(BEAT)[2])
    lines += ["2 HB ranges/ranges 0 epoch=0 seen=2", "3 HB ranges/ranges 0 epoch=0 seen=2"]
    for number in (4, 5, 6):
        lines = holding(lines, number, lie)
    [row] = told(lines)
    assert (row.offset, row.last_offset, row.count) == (4, 6, 3)
    assert "2 more heartbeats did so, up to offset 6." in str(row.sentence)


@pytest.mark.parametrize("more", [0, 1])
def test_one_that_speaks_of_too_long_ago_is_named_and_not_compared(more: int) -> None:
    idle = [f"{1 + at / 1000} CR p1/P 0" for at in range(STATES_MAX - 1 + more)]
    lines = [*SHARED, *idle, "3 HB ranges/ranges 0 epoch=0 seen=2"]
    found = told(holding(lines, len(lines) - 1, states(SHARED)[2]))
    assert [row.severity for row in found] == ["warning"] * more
    for row in found:
        assert "as of offset 2, which is more than 1,024 records" in str(row.sentence)


def as_captured(world: World) -> list[RawRecord]:
    """What a simulated fleet wrote."""
    found = []
    for record, checkpoint in world.log:
        headers = encode_range_headers(record.headers, record.range_headers, checkpoint)
        value = encode_range(record.message)
        stamp = TimestampType.LOG_APPEND_TIME
        found.append(RawRecord(0, record.offset, record.timestamp_ms, value, tuple(headers), stamp))
    return found


@pytest.mark.parametrize("window", [0, 400])
def test_what_participants_send_is_true_whatever_fails(window: int) -> None:
    faults = Faults(crash_every_ms=9_000, stall_every_ms=7_000, pause_every_ms=20_000)
    setting = Setting(window=window, others=1, faults=faults, lives_ms=90_000)
    worlds = (World(setting, seed).run() for seed in range(20))
    world = next(each for each in worlds if sum(bool(it) for _, it in each.log) > 20)
    raws = as_captured(world)
    rows = replayed(raws, rule_sets=(RuleSet.FENCED,), interval_ms=setting.interval_ms)
    assert [row for row in rows[FINDINGS] if row.code == "checkpoint_differs"] == []
