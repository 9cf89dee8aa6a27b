"""A log that was written under another interval than it is judged by lost nothing, and says so."""

from __future__ import annotations

import pytest

from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import FINDINGS, GROUPS, TENURES
from tests.replay.told import BOTH, INTERVAL_MS, records, replayed


def fenced(*lines: str, forced: bool = False) -> list[FindingRow]:
    rows = replayed(records(lines), forced=forced)[FINDINGS]
    return [row for row in rows if row.rules == "fenced"]


def mismatches(*lines: str, forced: bool = False) -> list[FindingRow]:
    return [row for row in fenced(*lines, forced=forced) if row.code == "interval_mismatch"]


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
    rows = fenced(*taken_over(said), forced=True)
    assert "log_lost_records" not in {row.code for row in rows}
    [row] = [row for row in rows if row.code == "interval_mismatch"]
    assert (row.group, row.severity) == ("g", "warning")
    likely = "are probably" in row.sentence
    assert likely == (not said)


def test_an_epoch_that_nobody_claimed_is_lost_also_beside_a_refused_claim() -> None:
    rows = fenced(*taken_over(), "5 HB b1/B 10 epoch=4")
    assert "log_lost_records" in {row.code for row in rows}


def test_a_group_that_says_another_interval_than_is_forced_is_named_once() -> None:
    lines = ["0 CP a1/A interval=1000", "1 HB a1/A 5 epoch=0 interval=1000"]
    [row] = mismatches(*lines, forced=True)
    assert "client A says 1.0 s" in row.sentence
    assert "4.0 s" in row.sentence
    assert row.group == "g"


def test_two_intervals_in_one_group_are_named_with_those_who_say_them() -> None:
    own = f"interval={INTERVAL_MS}"
    [row] = mismatches(
        f"0 CP a1/A {own}",
        f"1 HB a1/A 5 epoch=0 {own}",
        "2 CP b1/B p=1 interval=1000",
        "2.1 HB b1/B 5 epoch=2 p=1 interval=1000",
    )
    assert row.severity == "error"
    assert "client A says 4.0 s, client B says 1.0 s" in row.sentence


def test_an_interval_that_is_the_one_given_is_no_finding() -> None:
    own = f"interval={INTERVAL_MS}"
    assert mismatches(f"0 CP a1/A {own}", f"1 HB a1/A 5 epoch=0 {own}") == []


def owners(*lines: str, rules: str = "fenced") -> list[tuple[object, object, object]]:
    rows = replayed(records(lines))[TENURES]
    return [(row.group, row.owner_client, row.began) for row in rows if row.rules == rules]


def of_group(group: str, interval_ms: int) -> list[str]:
    """A takeover after 3 s of silence; by another interval it is none."""
    said = f"interval={interval_ms} g={group} p={interval_ms % 7}"
    return [f"0 CP a1/A {said}", f"3.2 CP b1/B {said}"]


@pytest.mark.parametrize("rules", ["fenced", "original"])
def test_each_group_is_judged_by_the_interval_that_it_says(rules: str) -> None:
    """Both rule sets: an option was needed, and was wrong for one of two groups."""
    first, second = of_group("quick", 1_000), of_group("slow", 20_000)
    told = owners(first[0], second[0], first[1], second[1], rules=rules)
    won = "claimed"
    took = "took_over" if rules == "fenced" else told[-1][2]
    assert sorted(told, key=str) == sorted(
        [("quick", "A", won), ("quick", "B", took), ("slow", "A", won)], key=str
    )


def test_after_a_change_each_record_is_judged_by_the_interval_that_held() -> None:
    """All stop, and start anew with another interval (docs/client.md)."""
    told = owners(
        "0 CP a1/A interval=20000",
        "3.2 CP b1/B interval=20000",
        "4 RP a1/A 5 epoch=0",
        "5 CP b1/B interval=1000",
        "8.2 CP c1/C interval=1000",
    )
    assert told == [("g", "A", "claimed"), ("g", "B", "claimed"), ("g", "C", "took_over")]
    assert (
        mismatches("0 CP a1/A interval=20000", "4 RP a1/A 5 epoch=0", "5 CP b1/B interval=1000")
        == []
    )


def test_a_group_is_counted_with_the_intervals_under_which_it_lived() -> None:
    rows = replayed(
        records(["0 CP a1/A interval=20000", "4 RP a1/A 5 epoch=0", "5 CP b1/B interval=1000"])
    )[GROUPS]
    for row in rows:
        assert (row.heartbeat_interval_ms, row.intervals_said_ms) == (1000, (20_000, 1000))


@pytest.mark.parametrize("given", [False, True])
def test_an_interval_that_was_given_must_be_the_one_that_the_log_says(given: bool) -> None:
    judging = JudgingOptions(BOTH, INTERVAL_MS, given=given)
    partition_fold = PartitionFold(LogPartition("log", 2), judging)
    first, second = records(["0 CP a1/A", "0.1 CP a1/A p=1 interval=60000"])
    partition_fold.feed(first)
    if not given:
        partition_fold.feed(second)
        return
    says = "group g says 60s in the log .client A., not 4s; .* --force-interval"
    with pytest.raises(InvalidOption, match=says):
        partition_fold.feed(second)


def test_a_group_that_does_not_fit_hides_no_silence_of_one_that_states_its_interval() -> None:
    """`h` states none and speaks every 9 s; `g` states 4 s, and was silent for 20 s."""
    other = [f"{second} HB h1/H 5 g=h topic=logs" for second in range(9, 200, 9)]
    stated = "a1/A 5 epoch=1 interval=4000"
    own = [f"{second} HB {stated}" for second in (*range(2, 41, 2), *range(60, 200, 2))]
    lines = sorted([*other, *own], key=lambda line: float(line.split()[0]))
    lines = ["0 CP h1/H g=h topic=logs", "0 CP a1/A interval=4000", *lines]
    lines += ["200 RP a1/A 5 epoch=1", "260 CP b1/B interval=4000"]
    told = {(row.code, row.group) for row in fenced(*lines)}
    silences = {("missed_heartbeat", "g"), ("unowned_too_long", "g")}
    assert told >= {("interval_mismatch", None), *silences}
    assert not {("missed_heartbeat", "h"), ("unowned_too_long", "h")} & told
