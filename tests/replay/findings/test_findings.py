from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest

from kafka_marshal.authentication import AuthenticityChecks
from kafka_marshal.core import wire
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.findings.records.authenticity import finding_of
from kafka_marshal.replay.findings.records.inputs import log_findings
from kafka_marshal.replay.findings.records.senders import clock_findings, merged
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.model.published import FindingRow
from kafka_marshal.replay.model.tables import DIVERGENCES, FINDINGS, PARTITIONS, PUBLISHED, SENDERS
from tests.replay.told import BEGIN_S, BOTH, INTERVAL_MS, KEYS, beats, records, replayed

OWNS = ["0 CP a1/A", *beats("a1/A", 1, 8)]
TAKEN = ["0 CP a1/A", "1 HB a1/A 10", "10 CP b1/B", "11 HB b1/B 20"]
PAUSED = [*OWNS, "8 RG x1/X 60"]
TWO = ["0 CP a1/A", "0 CP a1/A p=1"]
ALIVE = ["6 HB a1/A 1", "6 HB a1/A 1 p=1"]
QUIET = "50 CP z1/Z g=other"


def turns(tenures: int) -> list[str]:
    """A claim that is won and released, again and again."""
    return [
        f"{20 * n + d} {w}" for n in range(tenures) for d, w in ((0, "CP a1/A"), (9, "RP a1/A 1"))
    ]


def moving(end: int, *steps: int) -> list[str]:
    """Heartbeats for claims 0, 1, ... whose positions move by these steps."""
    return [
        f"{second} HB a1/A {10 + step * second} p={partition}"
        for second in range(1, end, 2)
        for partition, step in enumerate(steps)
    ]


SHARED = ["0 CP a1/ranges ranges=9", "0.2 CR p1/P 4"]
RESERVED = ["0 CP a1/ranges ranges=0", "0.1 CM a1/ranges 10 epoch=0", "0.3 CR p1/P 4"]

AS_OF_1 = "1/=a1/=ranges/0/0/{0}000/{0}000/1///0/9/{1}/{0}200/1/p1/{0}200/1/1/0/4/0/0"
TRUE, FALSE = (AS_OF_1.format(BEGIN_S, frontier) for frontier in (4, 5))

STUCK = [*SHARED, "0.3 CR q1/Q 9", "0.4 CR q1/Q 0 seen=2 done=9"]
RESTS = [f"{4 * at + 1} CR {who} 0" for at in range(1, 6) for who in ("p1/P", "q1/Q")]
STANDS = [*RESTS, "22 CR p1/P 0", "22.1 CR q1/Q 1"]

STORIES: dict[str, tuple[str, list[str], list[str]]] = {
    # code: (rule set, a log that has it, a log as near as possible that has not)
    "late_heartbeat_stole": ("original", [*TAKEN, "12 HB a1/A 10 late=9"], TAKEN),
    "heartbeat_without_claim": (
        "original",
        [*OWNS, "8 RP a1/A 10", "9 HB b1/B 10"],
        [*OWNS, "8 RP a1/A 10", "9 HB a2/A 10"],  # the original's fast reclaim
    ),
    "late_heartbeat_refused": (
        "fenced",
        [*TAKEN, "12 HB a1/A 10 late=9"],
        [*PAUSED, "8.5 HB a1/A 10"],  # its owner has not read the ReleaseGroup yet
    ),
    "acts_without_owning": ("fenced", [*OWNS, "8 CP b1/B", "9 HB b1/B 0"], [*OWNS, "8 CP b1/B"]),
    "unowned_release": ("fenced", [*TAKEN, "12 RP a1/A 10"], [*PAUSED, "9 RP a1/A 10"]),
    "forged": ("fenced", ["0 CP a1/A p=1", "1 CP a1/A seen=0", "2 HB b1/B 5 epoch=1"], OWNS),
    "range_lost": (
        "fenced",
        [*RESERVED, "8.4 CR q1/Q 4"],
        [*RESERVED, "8.3 CR q1/Q 4"],
    ),
    "ranges_passed_over": (
        "fenced",
        [*RESERVED, "8.4 CP b1/B"],
        [*RESERVED, "0.4 CR p1/P 9", "1 CR p1/P 0 seen=3 done=10", "8.4 CP b1/B"],
    ),
    "window_changed": (
        "fenced",
        ["0 CP a1/ranges ranges=9", "1 CP a1/ranges ranges=8"],
        ["0 CP a1/ranges ranges=9", "1 CP a1/ranges ranges=9"],
    ),
    "position_above_low": (
        "fenced",
        [*SHARED, "1 HB a1/ranges 4 epoch=0", "2 CR p1/P 0"],
        [*SHARED, "1 HB a1/ranges 0 epoch=0", "2 CR p1/P 0"],
    ),
    "checkpoint_differs": (
        "fenced",
        [*SHARED, f"1 HB a1/ranges 0 epoch=0 seen=1 ranges-at={FALSE}"],
        [*SHARED, f"1 HB a1/ranges 0 epoch=0 seen=1 ranges-at={TRUE}"],
    ),
    "stuck_holder": ("fenced", [*STUCK, *STANDS], [*STUCK, *STANDS[:-1]]),
    "starved_range": (
        "fenced",
        [*STUCK, "1 CR p1/P 0 seen=3 keep=0", *RESTS],
        [*STUCK, "1 CR p1/P 0 seen=3 keep=0", *RESTS[:-2]],
    ),
    "log_lost_records": ("fenced", [*OWNS, "8 HB a1/A 5 epoch=3"], OWNS),
    "header_from_the_future": ("fenced", [*OWNS, "8 HB a1/A 5 epoch=0 seen=99"], OWNS),
    "header_not_decimal": ("fenced", [*OWNS, "8 HB a1/A 5 epoch=0x0"], OWNS),
    "unknown_version": ("fenced", [*OWNS, "8 HB a1/A 5 v=7"], [*OWNS, "8 HB a1/A 10 v=0"]),
    "position_moved_back": (
        "original",
        [*OWNS, "8 HB a1/A 4"],
        [*OWNS, "8 RG x1/X 60", "9 RP a1/A 10", "10 CP x1/X", "11 RP x1/X 4"],
    ),
    "pause_broken": (
        "original",
        [*PAUSED, "9 RP a1/A 10", "11 CP b1/B"],
        # the admin is done with the claim, then it is anybody's
        [*PAUSED, "9 RP a1/A 10", "10 CP x1/X", "11 RP x1/X 4", "12 CP b1/B"],
    ),
    "pause_held": ("fenced", [*PAUSED, "9 RP a1/A 10", "11 CP b1/B"], [*PAUSED, "9 RP a1/A 10"]),
    "set_position_half_done": (
        "fenced",
        [*PAUSED, "10 CP x1/X", "19 RG y1/Y 60"],
        [*PAUSED, "10 CP x1/X", "11 RP x1/X 3", "19 RG y1/Y 60"],
    ),
    "two_instances_of_one_client": (
        "log",
        ["0 CP a1/A", "1 CP a2/A p=1", "2 HB a1/A 1", "3 HB a2/A 1 p=1"],
        ["0 CP a1/A", "2 CP a2/A p=1", "3 HB a1/A 1 late=3", "4 HB a2/A 1 p=1"],  # merely late
    ),
    "missed_heartbeat": (
        "fenced",
        [*OWNS, "16 HB a1/A 10"],
        [*OWNS, "12 HB a1/A 10"],
    ),
    "unowned_too_long": (
        "fenced",
        [*OWNS, "8 RP a1/A 10", *beats("c1/C", 9, 17, tail="1 p=1"), "17 CP b1/B"],
        [*OWNS, "8 RP a1/A 10", "15 CP b1/B"],
    ),
    "group_gone": (
        "fenced",
        [*OWNS, "8 RP a1/A 10", "17 CP c1/C g=other"],
        [*OWNS, "8 RP a1/A 10", "15 CP c1/C g=other"],
    ),
    "interval_mismatch": (
        "fenced",
        ["0 CP a1/A", *beats("a1/A", 5, 90, step=5)],
        ["0 CP a1/A", *beats("a1/A", 4, 90, step=4)],
    ),
    "granted_twice": (
        "original",
        ["0 CP a1/A", "1 CM a1/A 20", "10 CP b1/B", "11 CM b1/B 20"],
        ["0 CP a1/A", "1 CM a1/A 20", "2 CM a1/A 30", "10 CP b1/B", "11 CM b1/B 40 p=1"],
    ),
    "pause_ran_out": (
        "fenced",
        [*PAUSED, "9 RP a1/A 10", "59 CP x1/X", "60 RP x1/X 3"],
        [*PAUSED, "9 RP a1/A 10", "58 CP x1/X", "59 RP x1/X 3", "60 CP a1/A"],
    ),
    "slow_failover": ("fenced", [*TAKEN[:2], "15.1 CP b1/B"], [*TAKEN[:2], "15 CP b1/B"]),
    "failover_times": ("fenced", TAKEN, [*TAKEN[:2], "2 RP a1/A 10", "13 CP b1/B"]),
    "lost_races": ("fenced", [*OWNS, "8 CP b1/B"], [*OWNS, "8 CP a1/A"]),
    "starvation": (
        "fenced",
        [*TWO, "1 CP b1/B", "5 CP b1/B p=1", *ALIVE, "9.1 CP b1/B"],
        [*TWO, "1 CP b1/B", "5 CP b1/B p=1", *ALIVE, "9 CP b1/B"],
    ),
    "imbalance": (
        "fenced",
        [*TWO, "0 CP a1/A p=2", "0 CP a1/A p=3", "0 CP b1/B p=4", "0 CP b1/B p=5", QUIET],
        [*TWO, "0 CP a1/A p=2", "0 CP b1/B p=4", "0 CP b1/B p=5", QUIET],
    ),
    "churn": ("fenced", turns(10), turns(9)),
    "wedged_heartbeat": (
        "fenced",
        [*TWO, *moving(42, 0, 5)],
        [*TWO, *moving(42, 0, 0)],  # nobody moves
    ),
    "lag_movement": (
        "fenced",
        [*TWO, "0 CP a1/A p=2", *moving(60, 20, 20, 1)],
        [*TWO, "0 CP a1/A p=2", *moving(60, 20, 20, 2)],
    ),
    "sender_clock_off": (
        "log",
        [line + " late=-3" for line in OWNS],
        [*OWNS, "9 HB a1/A 10 late=9"],  # one late record is no wrong clock
    ),
    "create_time": ("log", [*OWNS, "8 HB a1/A 10 stamp=create"], OWNS),
    "head_missing": ("log", ["0 CP a1/A at=7"], ["0 CP a1/A at=0"]),
    "offset_gap": ("log", ["0 CP a1/A", "1 HB a1/A 1 at=3"], OWNS),
    "duplicate_record": ("log", ["0 CP a1/A", "0 CP a1/A at=0"], OWNS),
    "conflicting_duplicate": ("log", ["0 CP a1/A", "0 CP b1/B at=0"], OWNS),
    "malformed_record": ("log", ["0 CP a1/A", "1 Heartbeat/1"], OWNS),
    "record_not_signed": ("log", ["0 CP a1/A mac=k1", "1 HB a1/A 1"], ["0 CP a1/A mac=k1"]),
    "record_not_authentic": ("log", ["0 CP a1/A mac=k2"], ["0 CP a1/A mac=k1"]),
    "malformed_header": ("log", ["0 CP a1/A interval=soon"], ["0 CP a1/A interval=4000"]),
    "wrong_coordinating_partition": (
        "log",
        ["0 CP a1/A topic=elsewhere"],
        ["0 CP a1/A topic=events"],
    ),
}


def told_of(lines: list[str]) -> Iterator[FindingRow]:
    """Findings of one partition's fold, and those that are made when all partitions are in.

    Of a log in which somebody signs, also those of who has the keys.
    """
    raws = records(lines)
    rows = replayed(raws, coordination_partitions=4)
    yield from rows[FINDINGS]
    yield from log_findings(rows[PARTITIONS])
    yield from clock_findings(merged(rows[SENDERS]), INTERVAL_MS)
    if any(name == wire.MAC_HEADER for raw in raws for name, _ in raw.headers):
        checks = AuthenticityChecks(KEYS)
        for raw in raws:
            checks.check(raw)
        yield from (finding_of("log", one) for one in checks)


def found(code: str, rules: str, lines: list[str]) -> list[FindingRow]:
    wanted = None if rules == "log" else rules
    return [row for row in told_of(lines) if row.code == code and row.rules == wanted]


@pytest.mark.parametrize("code", STORIES)
def test_a_finding_is_told_once_where_it_is(code: str) -> None:
    rules, lines, _ = STORIES[code]
    (row,) = found(code, rules, lines)
    assert row.severity in ("error", "warning", "info")
    assert row.sentence


@pytest.mark.parametrize("code", STORIES)
def test_a_finding_is_not_told_where_it_is_not(code: str) -> None:
    rules, _, lines = STORIES[code]
    assert found(code, rules, lines) == []


def test_every_code_of_the_catalogue_has_a_story_and_no_story_another() -> None:
    assert set(STORIES) == set(CATALOGUE)


def test_only_the_rule_sets_of_the_catalogue_tell_a_code() -> None:
    for _, lines, other in STORIES.values():
        for row in (*told_of(lines), *told_of(other)):
            told_by = row.rules or "log"
            assert CATALOGUE[row.code].rules in (told_by, "each"), (row.code, row.sentence)


def test_healthy_consumers_give_nothing_to_report() -> None:
    lines = [*OWNS, "8 RP a1/A 10", "9 CP b1/B", *beats("b1/B", 10, 20), "20 RP b1/B 10"]
    assert list(told_of(lines)) == []


def test_a_theft_names_thief_victim_and_proof() -> None:
    (row,) = found("late_heartbeat_stole", "original", [*TAKEN, "12 HB a1/A 10 late=9"])
    assert (row.offset, row.instance, row.client) == (4, "a1", "A")
    assert [proof.offset for proof in row.records] == [2, 3, 4]
    sentence = row.sentence
    for part in ("A (instance a1)", "B (instance b1)", "offset 4", "offset 2", "9.0 s before"):
        assert part in sentence


def test_two_that_overwrite_each_other_are_one_finding() -> None:
    lines = [*TAKEN, "12 HB a1/A 10", "13 HB b1/B 20", "14 HB a1/A 10", "15 HB b1/B 20"]
    (row,) = found("late_heartbeat_stole", "original", lines)
    assert (row.count, row.offset, row.last_offset) == (4, 4, 7)


def test_a_second_theft_after_a_new_claim_is_a_second_finding() -> None:
    again = ["12 HB a1/A 10", "25 CP b1/B", "26 HB a1/A 10"]
    assert len(found("late_heartbeat_stole", "original", [*TAKEN, *again])) == 2


def test_a_zombie_refused_in_a_row_is_one_finding_with_its_first_and_last() -> None:
    lines = [*TAKEN]
    for second in range(12, 60, 2):
        lines += [f"{second} HB b1/B 20", f"{second + 1} HB a1/A 10"]
    (row,) = found("late_heartbeat_refused", "fenced", lines)
    assert row.count == 24
    offsets = [proof.offset for proof in row.records]
    assert len(offsets) <= 8
    assert {row.offset, row.last_offset} <= set(offsets)


def test_a_pause_broken_by_a_zombie_after_the_admin_was_done_is_told() -> None:
    lines = [*PAUSED, "9 RP a1/A 10", "10 CP x1/X", "11 RP x1/X 3", "12 HB a1/A 10"]
    (row,) = found("pause_broken", "original", lines)
    assert row.offset == 9


def test_a_pause_is_no_time_without_an_owner() -> None:
    lines = [*OWNS, "8 RG x1/X 40", "9 RP a1/A 10", "41 CP a1/A", "42 HB a1/A 10"]
    assert found("unowned_too_long", "fenced", lines) == []


def test_an_admin_that_dies_with_a_claim_in_hand_is_told() -> None:
    lines = [*PAUSED, "10 CP x1/X", "30 CP c1/C g=other"]
    (row,) = found("set_position_half_done", "fenced", lines)
    assert row.client == "X"


def test_a_short_silence_is_info_and_a_long_one_a_warning() -> None:
    (short,) = found("missed_heartbeat", "fenced", [*OWNS, "14 HB a1/A 10"])
    (long,) = found("missed_heartbeat", "fenced", [*OWNS, "16 HB a1/A 10"])
    assert (short.severity, long.severity) == ("info", "warning")


def test_two_instances_that_never_met_on_a_claim_are_a_warning() -> None:
    apart, lines, _ = STORIES["two_instances_of_one_client"]
    (row,) = found("two_instances_of_one_client", apart, lines)
    assert (row.severity, row.topic) == ("warning", None)
    met = ["0 CP a1/A", "1 HB a2/A 1", "2 HB a1/A 1", "3 HB a2/A 1", "4 HB a1/A 2"]
    (row,) = found("two_instances_of_one_client", "log", met)
    assert (row.severity, row.topic, row.count) == ("error", "events", 2)


def test_create_time_says_nothing_about_a_senders_clock() -> None:
    lines = [line + " late=-30 stamp=create" for line in OWNS]
    assert found("sender_clock_off", "log", lines) == []


@pytest.mark.parametrize(("late", "word"), [(-5, "ahead"), (5, "behind")])
def test_a_clock_is_off_in_both_directions(late: int, word: str) -> None:
    (row,) = found("sender_clock_off", "log", [f"{line} late={late}" for line in OWNS])
    assert word in row.sentence
    assert "5.0 s" in row.sentence


def test_a_clock_is_judged_over_all_partitions_of_a_log() -> None:
    first = replayed(records(["0 CP a1/A late=-5", "1 HB a1/A 1 late=-5"]))[SENDERS]
    other = [attrs.evolve(row, coordinating_partition=3) for row in first]
    assert list(clock_findings(merged(first), INTERVAL_MS)) == []
    (row,) = clock_findings(merged([*first, *other]), INTERVAL_MS)
    assert row.count == 4


def test_the_fenced_rules_never_let_a_position_fall() -> None:
    for _, lines, other in STORIES.values():
        for story in (lines, other):
            assert found("position_moved_back", "fenced", story) == []


def test_one_rule_set_alone_tells_what_it_tells_beside_the_other() -> None:
    for _, lines, _ in STORIES.values():
        both = replayed(records(lines))
        for rule_set in BOTH:
            alone = replayed(records(lines), rule_sets=(rule_set,))
            for table in set(PUBLISHED) - {DIVERGENCES}:
                of_both = [row for row in both[table] if row.rules in (None, rule_set.value)]
                assert alone[table] == of_both


def test_judging_keeps_the_fenced_rules_first() -> None:
    assert [rules.rule_set for rules in JudgingOptions(BOTH[::-1], 4000).rules()] == list(BOTH)
