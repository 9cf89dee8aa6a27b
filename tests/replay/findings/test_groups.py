"""Marshal promises to say of a group how fast, how fairly and how steadily it consumes."""

from __future__ import annotations

import pytest

from kafka_marshal.replay.findings.claims.failovers import percentile
from tests.replay.findings.test_findings import ALIVE, QUIET, TAKEN, TWO, found, moving


def sentence(code: str, lines: list[str], rules: str = "fenced") -> str:
    (row,) = found(code, rules, lines)
    return row.sentence


def test_failovers_are_told_as_median_nine_of_ten_and_longest() -> None:
    lines = [f"0 CP a1/A p={partition}" for partition in range(4)]
    for partition, second in enumerate((9, 9, 10, 12)):
        lines.append(f"{second} CP b1/B p={partition}")
    told = sentence("failover_times", lines)
    assert "took 4 claims over" in told
    assert "9.0 s after the owner's last word in the median, 12.0 s for 9 of 10, 12.0 s at" in told


@pytest.mark.parametrize(("part", "value"), [(0.5, 5), (0.9, 9), (1.0, 10), (0.01, 1)])
def test_a_percentile_is_a_value_that_was_there(part: float, value: int) -> None:
    assert percentile(list(range(1, 11)), part) == value


def test_a_restart_and_a_release_are_no_failover() -> None:
    lines = ["0 CP a1/A", "1 CP a2/A", "2 RP a2/A 1", "3 CP b1/B"]
    assert found("failover_times", "fenced", lines) == []


def test_a_pause_is_no_part_of_a_failover() -> None:
    lines = ["0 CP a1/A", "1 HB a1/A 10", "2 RG x1/X 60", "61 CP b1/B"]
    assert "1.0 s after" in sentence("failover_times", lines, "original")


def test_a_race_is_lost_only_soon_after_the_win() -> None:
    told = sentence("lost_races", ["0 CP a1/A", "1 CP b1/B", "6 HB a1/A 1", "7 CP b1/B"])
    assert "2 of 3 requests" in told
    assert "67 %" in told
    assert "1 of them within a heartbeat interval" in told


def test_whoever_wins_in_the_end_was_not_starved() -> None:
    asks = ["1 CP b1/B", "5 CP b1/B p=1", *ALIVE, "9.1 CP b1/B", "10 CP b1/B p=7"]
    assert found("starvation", "fenced", [*TWO, *asks]) == []


def test_nobody_is_starved_by_an_owner_of_one_claim() -> None:
    asks = ["1 CP b1/B", "5 CP b1/B", "6 HB a1/A 1", "9.1 CP b1/B"]
    assert found("starvation", "fenced", ["0 CP a1/A", *asks]) == []


def test_whoever_has_a_claim_is_not_starved() -> None:
    asks = ["1 CP b1/B", "5 CP b1/B p=1", *ALIVE, "9.1 CP b1/B"]
    assert found("starvation", "fenced", [*TWO, "0 CP b1/B p=2", *asks]) == []


def test_one_claim_more_than_another_is_as_even_as_it_gets() -> None:
    assert found("imbalance", "fenced", [*TWO, "0 CP b1/B p=2", QUIET]) == []


def test_many_tenures_over_a_long_time_are_no_churn() -> None:
    lines = [f"{30 * n + d} {w}" for n in range(12) for d, w in ((0, "CP a1/A"), (9, "RP a1/A 1"))]
    assert found("churn", "fenced", lines) == []


def test_a_position_that_stands_still_for_less_than_ten_intervals_is_no_wedge() -> None:
    assert found("wedged_heartbeat", "fenced", [*TWO, *moving(41, 0, 5)]) == []
    assert found("wedged_heartbeat", "fenced", [*TWO, *moving(42, 0, 5)]) != []


def test_where_the_interval_does_not_fit_nothing_is_judged_by_it() -> None:
    lines = [
        f"{second} HB a1/A {10 + step * second} p={p}"
        for second in range(1, 90, 5)
        for p, step in enumerate((0, 5))
    ]
    asks = ["91 CP b1/B", "95 CP b1/B", "96 HB a1/A 9", "96 HB a1/A 999 p=1", "101 CP b1/B"]
    log = [*TWO, *lines, *asks]
    assert found("interval_mismatch", "fenced", log) != []
    assert found("wedged_heartbeat", "fenced", log) == []
    assert found("starvation", "fenced", log) == []


def test_an_imbalance_is_weighed_by_time() -> None:
    uneven = [*TWO, "0 CP a1/A p=2", "0 CP b1/B p=3"]
    assert found("imbalance", "fenced", [*uneven, QUIET]) != []
    evened_out = [*uneven, "10 RP a1/A 0 p=2", "10 CP b1/B p=2", QUIET]
    assert found("imbalance", "fenced", evened_out) == []


def test_one_client_alone_is_no_imbalance() -> None:
    assert found("imbalance", "fenced", [*TWO, "0 CP a1/A p=2", QUIET]) == []


def test_an_owners_own_second_win_is_no_churn() -> None:
    assert found("churn", "fenced", [f"{n} CP a1/A" for n in range(30)]) == []


def test_a_claim_that_nobody_ever_moved_is_not_wedged() -> None:
    lines = [line.replace("HB a1/A 10 p=0", "HB a1/A 0 p=0") for line in moving(42, 0, 5)]
    assert found("wedged_heartbeat", "fenced", [*TWO, *lines]) == []


def test_a_wedge_is_told_although_it_is_over_and_all_have_stopped() -> None:
    stopped = ["43 HB a1/A 11", "44 RP a1/A 11", "44 RP a1/A 220 p=1"]
    (row,) = found("wedged_heartbeat", "fenced", [*TWO, *moving(42, 0, 5), *stopped])
    assert "for 40.0 s" in row.sentence


def test_others_that_rest_too_do_not_make_a_wedge() -> None:
    late = [line for line in moving(60, 0, 5) if float(line.split()[0]) > 40 or "p=0" in line]
    rest = [f"{second} HB a1/A 10 p=1" for second in range(1, 41, 2)]
    lines = sorted([*late, *rest], key=lambda line: float(line.split()[0]))
    assert found("wedged_heartbeat", "fenced", [*TWO, *lines]) == []


def test_positions_that_an_administrator_set_back_are_granted_again_by_order() -> None:
    lines = ["0 CP a1/A", "1 CM a1/A 20", "2 RG x1/X 60", "3 CP x1/X", "4 RP x1/X 5"]
    (row,) = found("granted_twice", "fenced", [*lines, "61 CP b1/B", "62 CM b1/B 15"])
    assert row.severity == "info"
    assert "messages 5 to 14" in row.sentence
    assert "set back at offset 4" in row.sentence
    assert (
        found(
            "granted_twice", "fenced", [*lines[:4], "4 RP x1/X 20", "61 CP b1/B", "62 CM b1/B 25"]
        )
        == []
    )


def test_a_grant_that_was_refused_is_none() -> None:
    lines = [*TAKEN, "12 CM b1/B 40", "13 CM a1/A 40"]
    assert found("granted_twice", "fenced", lines) == []
    (row,) = found("granted_twice", "original", [*lines, "14 HB a1/A 10", "15 CM a1/A 40"])
    assert row.severity == "error"


def test_only_the_administrator_itself_outlives_its_pause() -> None:
    lines = ["0 CP a1/A", "1 RG x1/X 10", "11 CP a1/A", "12 CP y1/Y p=1"]
    assert found("pause_ran_out", "fenced", lines) == []
    assert len(found("pause_ran_out", "fenced", [*lines, "13 CP x1/X p=2"])) == 1
