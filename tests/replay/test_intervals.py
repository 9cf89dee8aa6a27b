"""A log that was written under another interval than it is judged by lost nothing, and says so."""

from __future__ import annotations

import pytest

from kafka_marshal.replay.rows import Row
from tests.replay.told import INTERVAL_MS, findings


def fenced(*lines: str) -> list[Row]:
    return [row for row in findings(*lines) if row["rules"] == "fenced"]


def mismatches(*lines: str) -> list[Row]:
    return [row for row in fenced(*lines) if row["code"] == "interval_mismatch"]


def taken_over(said: str = "") -> list[str]:
    """After 3 s of silence, which is long where the interval is 1 s, and short where it is 4 s."""
    return [
        f"0 CP a1/A {said or 'supersedes=0'}",
        f"0.1 HB a1/A 5 epoch=0 {said}",
        f"3.2 CP b1/B {said or 'supersedes=0'}",
        *(f"{second} HB b1/B 10 epoch=2 {said}" for second in (3.3, 3.8, 4.3)),
    ]


@pytest.mark.parametrize("said", ["", "interval=1000"])
def test_a_claim_that_other_rules_granted_is_no_record_that_the_log_lost(said: str) -> None:
    rows = fenced(*taken_over(said))
    assert "log_lost_records" not in {row["code"] for row in rows}
    [row] = [row for row in rows if row["code"] == "interval_mismatch"]
    assert (row["group"], row["severity"]) == ("g", "warning")
    likely = "are probably" in str(row["sentence"])
    assert likely == (not said)


def test_an_epoch_that_nobody_claimed_is_lost_also_beside_a_refused_claim() -> None:
    rows = fenced(*taken_over(), "5 HB b1/B 10 epoch=4")
    assert "log_lost_records" in {row["code"] for row in rows}


def test_a_group_that_says_another_interval_is_named_once() -> None:
    lines = ["0 CP a1/A interval=1000", "1 HB a1/A 5 epoch=0 interval=1000"]
    [row] = mismatches(*lines)
    assert "client A says 1.0 s" in str(row["sentence"])
    assert "4.0 s" in str(row["sentence"])
    assert row["group"] == "g"


def test_two_intervals_in_one_group_are_named_with_those_who_say_them() -> None:
    own = f"interval={INTERVAL_MS}"
    [row] = mismatches(
        f"0 CP a1/A {own}",
        f"1 HB a1/A 5 epoch=0 {own}",
        "2 CP b1/B p=1 interval=1000",
        "2.1 HB b1/B 5 epoch=2 p=1 interval=1000",
    )
    assert row["severity"] == "error"
    assert "client A says 4.0 s, client B says 1.0 s" in str(row["sentence"])


def test_an_interval_that_is_the_one_given_is_no_finding() -> None:
    own = f"interval={INTERVAL_MS}"
    assert mismatches(f"0 CP a1/A {own}", f"1 HB a1/A 5 epoch=0 {own}") == []
