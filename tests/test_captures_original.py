"""The original's own handlers ran over these captures; every row of theirs is a row of ours."""

import json
from pathlib import Path

import attrs
import pytest

from kafka_marshal import FENCED, ORIGINAL
from kafka_marshal.capture import read_capture
from kafka_marshal.trace import trace

CAPTURES = Path(__file__).parent / "data" / "captures" / "original"
TRACES = sorted(CAPTURES.glob("*.trace.jsonl"))


def test_the_captures_are_there() -> None:
    assert len(TRACES) == 8


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name.removesuffix(".trace.jsonl"))
def test_the_originals_rules_give_the_originals_state_on_every_row(path: Path) -> None:
    expected = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    capture = path.with_name(path.name.replace(".trace", ""))
    rules = attrs.evolve(ORIGINAL, heartbeat_interval_ms=expected[0]["hb_interval"] * 1000)
    rows = trace(read_capture(capture), rules)
    assert len(rows) == len(expected)
    for row, theirs in zip(rows, expected, strict=True):
        assert (row["partition"], row["offset"]) == (theirs["partition"], theirs["offset"])
        if row["type"] == "ReleaseGroup":
            assert (row["state"], row["group"]) == (None, theirs["group"])
        else:
            assert row["state"] == theirs["state"], f"offset {row['offset']}"


def test_the_thefts_of_the_original_are_refused_by_the_fenced_rules() -> None:
    capture = CAPTURES / "d3_late_heartbeat_theft.jsonl"
    by_rules = {}
    for rules in (FENCED, ORIGINAL):
        rows = trace(read_capture(capture), attrs.evolve(rules, heartbeat_interval_ms=4000))
        by_rules[rules] = {row["offset"]: row["guard"] for row in rows}
    for theft in (82, 176):
        assert by_rules[ORIGINAL][theft] is None
        assert by_rules[FENCED][theft] == "not_owner"
