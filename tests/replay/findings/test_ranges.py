"""What a replay makes of claims that several share; by the original's rules it passes over it."""

from __future__ import annotations

import pytest

from kafka_marshal import RuleSet
from kafka_marshal.replay.model.held_ranges import ROWS_MAX
from kafka_marshal.replay.model.tables import (
    CLAIMS,
    FINDINGS,
    GROUPS,
    MALFORMED,
    PARTITIONS,
    RANGES,
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


def test_the_claims_table_says_how_the_ranges_of_a_shared_claim_stand() -> None:
    lines = ["0 CP anchor/ranges ranges=20", "0.1 CR p1/P 4", "0.2 CR q1/Q 6", "0.3 CR p1/P 2"]
    lines += ["0.4 CR q1/Q 0 seen=3 keep=7", "0.5 CR p1/P 0 seen=4 done=1", "0 CP a1/A p=1"]
    fenced, other, *original = sorted(
        replayed(records(lines))[CLAIMS], key=lambda row: (row.rules, row.topic_partition)
    )
    stood = [
        (
            row.ranges_window,
            row.ranges_frontier,
            row.ranges_holders,
            row.ranges_open,
            row.ranges_pool,
        )
        for row in (fenced, other, *original)
    ]
    assert stood == [(20, 12, 2, 3 + 3 + 2, 3), *[(None,) * 5] * 3]
    ended = replayed(records([*lines, "60 CP b1/B"]), rule_sets=(RuleSet.FENCED,))[CLAIMS]
    assert {row.ranges_window for row in ended} == {None}


def held(*lines: str) -> list[tuple[int, int, int, str, str]]:
    rows = replayed(records(lines), rule_sets=(RuleSet.FENCED,))[RANGES]
    return [(row.offset, row.start, row.end, row.instance, row.ended) for row in rows]


def test_a_range_is_a_row_from_its_request_to_what_ended_it() -> None:
    lines = ["0 CP anchor/ranges ranges=20", "0.1 CR p1/P 8", "0.2 CR q1/Q 12"]
    lines += [
        "1 CR q1/Q 0 seen=2 done=11",
        "2 CR q1/Q 0 seen=3 keep=15",
        "3 CR p1/P 0 seen=3 keep=0",
    ]
    assert held(*lines) == [
        (2, 15, 20, "q1", "given_back"),
        (1, 0, 8, "p1", "given_back"),
        (2, 8, 15, "q1", "held"),
    ]
    assert held(*lines, "3.5 CR q1/Q 0 seen=5 done=15")[2:] == [(2, 8, 15, "q1", "done")]
    assert held(*lines, "60 HB anchor/ranges 0 epoch=0", "61 CR r1/R 0")[2] == (
        *(2, 8, 15, "q1", "taken"),
    )
    assert held(*lines, "60 CP a1/A")[2] == (2, 8, 15, "q1", "void")
    again = held(*lines[:2], "1 CR p1/P 4 seen=1 keep=0")
    assert again == [(1, 0, 8, "p1", "given_back"), (2, 0, 8, "p1", "held")]
    [first, second] = replayed(records(lines[:3]), rule_sets=(RuleSet.FENCED,))[RANGES]
    assert (second.from_ms - first.from_ms, second.to_ms, second.client) == (100, None, "Q")


def test_of_very_many_ranges_the_first_are_rows() -> None:
    lines = ["0 CP anchor/ranges ranges=20000"]
    for at in range(1200):
        lines += [f"{at} CR p1/P 4", f"{at}.5 CR p1/P 0 seen={len(lines)} done={4 * at + 4}"]
    rows = held(*lines)
    assert len(rows) == ROWS_MAX
    assert rows[0] == (1, 0, 4, "p1", "done")


def test_at_most_once_a_forgotten_range_is_a_row_that_says_so() -> None:
    lines = [*RESERVED, "0.2 CR p1/P 4", "0.3 CR q1/Q 0", "8.4 CR q1/Q 0"]
    assert held(*lines) == [(2, 0, 4, "p1", "lost")]


def test_ranges_that_go_on_after_a_sleep_are_one_row() -> None:
    lines = ["0 CP anchor/ranges ranges=20", "0.1 CR p1/P 8", "1 RG x1/X 0"]
    assert held(*lines, "2 CP anchor/ranges ranges=20") == [(1, 0, 8, "p1", "held")]


def test_where_the_head_is_missing_the_claims_table_says_nothing_of_ranges() -> None:
    lines = ["0 HB anchor/ranges 3 epoch=2 seen=4 clock=0 at=5", "0.2 CR p1/P 4"]
    [row] = replayed(records(lines), rule_sets=(RuleSet.FENCED,))[CLAIMS]
    assert (row.known_from_offset, row.ranges_window) == (5, None)
    lines += ["1 RG x1/X 0", "2 CP anchor/ranges ranges=9", "2.2 CR p1/P 4"]
    [won] = replayed(records(lines), rule_sets=(RuleSet.FENCED,))[CLAIMS]
    assert won.uncertain is None
    assert (won.owner_instance, won.ranges_window) == ("anchor", None)


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


def test_what_a_consumer_that_does_not_share_passes_over_is_found() -> None:
    lines = [*RESERVED, "0.2 CR p1/P 2", "0.3 CR q1/Q 3", "0.4 CR q1/Q 0 seen=3 keep=4"]
    assert of("ranges_passed_over", *lines, "8.5 CP a1/A", "9 HB a1/A 12 epoch=5") == [
        "A (instance a1) claimed events/0 of group g at offset 5 (2023-11-14 22:13:28.500 UTC), "
        "knows nothing of its ranges, and goes on at 10. 6 offsets from 4 to 9 had been reserved "
        "and given to nobody: nobody processes their messages. 4 offsets from 0 to 3 were held by "
        "2 instances (p1, q1): what these do not finish, nobody will."
    ]
    asleep = [*lines, "1 RG x1/X 0", "2 CP a1/A"]
    assert len(of("ranges_passed_over", *asleep)) == 1


def test_two_that_begin_to_share_at_once_have_lost_nothing() -> None:
    lines = ["0 CP ranges/ranges", "0.1 HB ranges/ranges 0 epoch=0 start=0"]
    lines += ["0.2 CP ranges/ranges ranges=9", "0.3 CP ranges/ranges ranges=9"]
    late = [*lines, "0.4 HB ranges/ranges 0 epoch=2"]
    assert codes(*late) == codes(*lines)
    assert ("fenced", "late_heartbeat_refused") in codes(
        *lines, "8.4 CP a1/A", "9 HB ranges/ranges 0 epoch=3"
    )


def test_ranges_that_go_on_are_at_least_once_or_end_by_an_administrator_are_not_passed_over() -> (
    None
):
    lines = [*RESERVED, "0.2 CR p1/P 2"]
    for ends in (
        ["1 RG x1/X 0", "2 CP anchor/ranges ranges=0"],
        ["1 RG x1/X 60", "2 CP x1/X", "3 RP x1/X 4 epoch=4 set-position=1", "4 CP a1/A"],
        ["8.5 CP anchor/ranges ranges=5"],
    ):
        assert of("ranges_passed_over", *lines, *ends) == []
    at_least_once = ["0 CP anchor/ranges ranges=9", "0.2 CR p1/P 4", "8.4 CP a1/A"]
    assert of("ranges_passed_over", *at_least_once) == []


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


SHARES = ["0 CP anchor/ranges ranges=20", "0.1 CR p1/P 8", "0.2 CR q1/Q 12"]
BEYOND = "1 CR q1/Q 0 seen=2 done=20"


def rests(until: int, *, asks: int = 0) -> list[str]:
    """Both live. p1 asks for nothing, and q1 for `asks` offsets."""
    return [
        line
        for at in range(4, until + 1, 4)
        for line in (f"{at} CR p1/P 0", f"{at}.5 CR q1/Q {asks}")
    ]


def test_a_holder_that_lives_and_finishes_nothing_while_the_window_is_full_is_found() -> None:
    assert of("stuck_holder", *SHARES, BEYOND, *rests(24, asks=5)) == [
        "Instance p1 lives and has reported nothing of messages 0 to 7 of events/0 of group g "
        "since offset 3 (2023-11-14 22:13:21.000 UTC), for 23.5 s. Messages up to 19 are reported "
        "as done, and the window is full: 1 request got no offsets."
    ]


def test_what_is_slow_or_idle_or_dead_or_asleep_is_not_stuck() -> None:
    idle = [*SHARES, *rests(60, asks=5)]
    assert of("stuck_holder", *idle) == [], "nothing shows that messages exist"
    slow = [line for at in range(4, 60, 4) for line in (f"{at} CR p1/P 0 seen=2 done={at // 12}",)]
    assert of("stuck_holder", *SHARES, BEYOND, *slow, "61 CR q1/Q 5") == []
    dead = [*SHARES, BEYOND, *(f"{at} CR q1/Q 0" for at in range(4, 60, 4)), "61 CR q1/Q 1"]
    assert of("stuck_holder", *dead) == []
    assert of("stuck_holder", *SHARES, BEYOND, *rests(24)) == [], "nobody asks, so nobody waits"
    rare = [f"{at} CR {who} 0" for at in (8, 16, 24) for who in ("p1/P", "q1/Q", "q1/Q")]
    assert of("stuck_holder", *SHARES, BEYOND, *rare, "25 CR q1/Q 5") == []
    behind = [*SHARES, "0.5 CR p1/P 0 seen=2 done=2", BEYOND, *rests(60, asks=5)]
    assert of("stuck_holder", *behind) == [], "the anchor could move the window"
    woken = [*SHARES, BEYOND, *rests(20), "21 RG x1/X 0", "22 CP anchor/ranges ranges=20"]
    assert of("stuck_holder", *woken, "22.2 CR p1/P 0", "22.5 CR q1/Q 5") == []


def test_a_range_in_the_pool_that_nobody_asks_for_is_found() -> None:
    starved = [*SHARES, BEYOND, "1.5 CR p1/P 0 seen=3 keep=0", *rests(24)]
    assert of("starved_range", *starved) == [
        "Messages 0 to 7 of events/0 of group g lay in the pool for 23.0 s after offset 4 "
        "(2023-11-14 22:13:21.500 UTC), and nobody asked for offsets, although messages up to 19 "
        "are reported as done."
    ]
    taken = [*SHARES, BEYOND, "1.5 CR p1/P 0 seen=3 keep=0", *rests(60, asks=5)]
    assert of("starved_range", *taken) == []
    idle = [*SHARES, "1.5 CR p1/P 0 seen=3 keep=0", *rests(60)]
    assert of("starved_range", *idle) == []


def test_another_window_and_a_position_that_is_set_forget_what_was_done() -> None:
    anew = ["2 CP anchor/ranges ranges=5", "2.1 CR p1/P 2", "2.2 CR q1/Q 3"]
    assert of("stuck_holder", *SHARES, BEYOND, *anew, *rests(60, asks=5)) == []


def test_at_most_once_nobody_waits_for_a_holder() -> None:
    lines = [*RESERVED, "0.2 CR p1/P 4", "0.3 CR q1/Q 6", "1 CR q1/Q 0 seen=3 done=10"]
    assert of("stuck_holder", *lines, *rests(60, asks=5)) == []
    given_back = [*lines, "1.5 CR p1/P 0 seen=4 keep=0"]
    assert of("starved_range", *given_back, *rests(60)) == []


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
