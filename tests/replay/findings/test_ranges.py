"""What a replay makes of claims that several share; by the original's rules it passes over it."""

from __future__ import annotations

import pytest

from kafka_marshal import RuleSet
from kafka_marshal.replay.model.tables import (
    CLAIMS,
    FINDINGS,
    GROUPS,
    MALFORMED,
    PARTITIONS,
    REFUSALS,
)
from tests.replay.told import BOTH, codes, findings, records, replayed

SHARED = "0 CP anchor/ranges ranges=0"
RESERVED = [SHARED, "0.1 CM anchor/ranges 10 epoch=0"]


def of(code: str, *lines: str) -> list[str]:
    return [str(row.sentence) for row in findings(*lines) if row.code == code]


@pytest.mark.parametrize("rule_sets", [BOTH, (RuleSet.FENCED,), (RuleSet.ORIGINAL,)], ids=str)
def test_a_request_for_a_range_is_no_damage(rule_sets: tuple[RuleSet, ...]) -> None:
    rows = replayed(records([*RESERVED, "0.2 CR p1/P 4", "0.3 CR p1/P 4"]), rule_sets=rule_sets)
    assert rows[MALFORMED] == []
    assert [row.malformed for row in rows[PARTITIONS]] == [0]
    assert [row.code for row in rows[FINDINGS] if row.code != "no_log_append_time"] == []


def test_one_that_cannot_be_read_is() -> None:
    rows = replayed(records([*RESERVED, "0.2 CR p1/P x", "0.3 CR p1/P"]))
    assert [row.field for row in rows[MALFORMED]] == ["type", "type"]


def test_a_refused_one_is_among_the_refusals_of_the_fenced_rules() -> None:
    rows = replayed(records(["0 CR p1/P 4", "1 CP a1/A", "2 CR p1/P 4", "3 CR p1/P 4 seen=9"]))
    told = [(row.rules, row.offset, row.type, row.guard) for row in rows[REFUSALS]]
    assert told == [
        ("fenced", 0, "ClaimingRange", "no_range_tenure"),
        ("fenced", 2, "ClaimingRange", "no_range_tenure"),
        ("fenced", 3, "ClaimingRange", "header_from_the_future"),
    ]
    owners = [row.owner_instance for row in rows[REFUSALS]]
    assert owners == [None, "a1", "a1"]


def test_a_participant_is_counted_with_its_group_and_its_claim() -> None:
    rows = replayed(records([*RESERVED, "0.2 CR p1/P 4", "0.3 CR q1/Q 4", "0.4 CR q1/Q -1"]))
    counted = {row.rules: (row.records, row.instances, row.refusals) for row in rows[GROUPS]}
    assert counted == {"fenced": (5, 3, 1), "original": (2, 1, 0)}
    assert {row.rules: row.last_offset for row in rows[CLAIMS]} == {"fenced": 4, "original": 1}


def test_a_request_alone_makes_no_claim() -> None:
    assert replayed(records(["0 CR p1/P 4"]))[CLAIMS] == []


def test_a_range_that_is_forgotten_is_found() -> None:
    lines = [*RESERVED, "0.2 CR p1/P 4", "0.3 CR p1/P 1", "8.4 CR q1/Q 4"]
    first, second = of("range_lost", *lines)
    assert first == (
        "Instance p1 held messages 0 to 3 of events/0 of group g, granted by offset 2, and was "
        "silent for more than two heartbeat intervals. A request at offset 4 (2023-11-14 "
        "22:13:28.400 UTC) let that be forgotten. What the instance has not processed, nobody will."
    )
    assert "held message 4 of events/0 of group g, granted by offset 3," in second
    assert ("original", "range_lost") not in codes(*lines)


def test_what_is_done_or_given_back_or_taken_at_least_once_is_not_lost() -> None:
    ends = ["0.3 CR p1/P 0 seen=2 done=4", "0.3 CR p1/P 0 seen=2 keep=0", "8.1 CR p1/P 0"]
    for end in ends:
        assert of("range_lost", *RESERVED, "0.2 CR p1/P 4", end, "8.4 CR q1/Q 4") == []
    at_least_once = ["0 CP anchor/ranges ranges=9", "0.2 CR p1/P 4", "8.4 CR q1/Q 4"]
    assert of("range_lost", *at_least_once) == []


def test_another_window_is_found_and_the_same_is_not() -> None:
    change = ["0 CP anchor/ranges ranges=9", "1 CP anchor/ranges ranges=9"]
    assert of("window_changed", *change) == []
    assert of("window_changed", *change, "2 CP anchor/ranges", "3 CP anchor/ranges ranges=8") == []
    assert of("window_changed", *change, "2 CP anchor/ranges ranges=8") == [
        "ranges (instance anchor) claimed events/0 of group g at offset 2 (2023-11-14 22:13:22.000 "
        "UTC) with window 8, while its ranges had window 9. They ended, and new ones begin at the "
        "position."
    ]


def test_a_heartbeat_above_the_lowest_offset_that_is_not_done_is_found() -> None:
    lines = ["0 CP anchor/ranges ranges=9", "0.2 CR p1/P 4", "1 HB anchor/ranges 4 epoch=0"]
    assert of("position_above_low", *lines, "2 CR p1/P 0 seen=1 done=4", "3 CR p1/P 0") == [
        "The position of events/0 of group g was 4 at offset 3 (2023-11-14 22:13:22.000 UTC), "
        "although messages 0 to 3 had not all been reported as processed. A takeover would skip "
        "those that were not."
    ]
    honest = [*lines[:2], "0.5 CR p1/P 0 seen=1 done=4", lines[2], "2 CR p1/P 0"]
    assert of("position_above_low", *honest) == []


def test_a_window_that_cannot_be_read_is_found() -> None:
    assert (None, "malformed_header") in codes("0 CP anchor/ranges ranges=x")
    assert of("malformed_header", "0 HB anchor/ranges 0 ranges=x") == []


def test_where_the_head_is_missing_nobody_knows_what_a_request_did() -> None:
    lines = ["0 CP anchor/ranges ranges=9 at=5", "0.2 CR p1/P 4", "0.3 CR p1/P -1"]
    rows = replayed(records(lines))
    assert [row.unknowable for row in rows[PARTITIONS]] == [3]
    assert [row for row in rows[REFUSALS] if row.rules == "fenced"] == []


def test_a_request_read_twice_is_folded_once() -> None:
    given = records([*RESERVED, "0.2 CR p1/P 4"])
    rows = replayed([*given, given[-1]])
    assert [(row.rules, row.guard) for row in rows[REFUSALS]] == [("fenced", "duplicate")]
    assert [row.code for row in rows[FINDINGS]] == ["duplicate_record"]
