from __future__ import annotations

import gc
import json
import weakref
from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from pathlib import Path

import attrs
import pytest

from kafka_marshal import FENCED, ORIGINAL, OutOfOrder, Rules, RuleSet
from kafka_marshal.capture import RawRecord, read_capture
from kafka_marshal.core import wire
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.world import RangesWorld
from kafka_marshal.range_codec import encode_range
from kafka_marshal.replay.findings.observer import FindingObserver
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.fold.ruleset_fold import RulesetFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import TenureRow
from kafka_marshal.replay.model.rows import arrow_rows
from kafka_marshal.replay.model.tables import (
    CLAIMS,
    DIVERGENCES,
    FINDINGS,
    MALFORMED,
    OF_CLAIMS,
    REFUSALS,
    TENURES,
    Rows,
)
from kafka_marshal.trace import trace
from tests.core.ranges.walking import walk
from tests.kernel import hostile
from tests.replay.findings.test_findings import STORIES
from tests.replay.told import BOTH, OWNER_COLUMNS, beats, records, replayed

CAPTURES = Path(__file__).parent.parent.parent / "data" / "captures" / "original"
NAMES = sorted(p.stem for p in CAPTURES.glob("*.jsonl") if ".trace" not in p.name)

FOUND = json.loads((CAPTURES.parents[1] / "findings.json").read_text(encoding="utf-8"))
"""How often each finding occurs, by capture, rule set and code."""


def interval_ms(name: str) -> float:
    return 60_000 if name.startswith("b60_") else 4_000


def capture(name: str) -> list[RawRecord]:
    return list(read_capture(CAPTURES / f"{name}.jsonl"))


@cache
def of_capture(name: str) -> Rows:
    return replayed(capture(name), interval_ms=interval_ms(name))


@pytest.mark.parametrize("name", NAMES)
def test_every_capture_tells_what_happened_and_no_more(name: str) -> None:
    rows = of_capture(name)
    told: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for row in rows[FINDINGS]:
        told[str(row.rules)][row.code] += 1
    assert told == FOUND[name]


def test_both_thefts_of_the_late_heartbeat_are_found_at_their_offsets() -> None:
    rows = of_capture("d3_late_heartbeat_theft")[FINDINGS]
    stolen = [row for row in rows if row.code == "late_heartbeat_stole"]
    assert [(row.offset, row.rules) for row in stolen] == [
        (82, "original"),
        (176, "original"),
    ]
    refused = [row for row in rows if row.code == "late_heartbeat_refused"]
    assert [(row.offset, row.rules) for row in refused] == [(82, "fenced"), (176, "fenced")]


def test_an_interval_that_does_not_fit_is_said_once_instead_of_a_thousand_silences() -> None:
    rows = replayed(capture("b60_sigkill_takeover_hb60"), interval_ms=4_000)[FINDINGS]
    told = {row.code for row in rows if row.rules == "original"}
    assert told == {"interval_mismatch", "failover_times"}


def rules_of(name: str, rules: Rules) -> Rules:
    return attrs.evolve(rules, heartbeat_interval_ms=interval_ms(name))


@pytest.mark.parametrize("rules", [FENCED, ORIGINAL], ids=["fenced", "original"])
@pytest.mark.parametrize("name", NAMES)
def test_refusals_are_those_of_the_trace(name: str, rules: Rules) -> None:
    traced = trace(capture(name), rules_of(name, rules))
    wanted = [(r["offset"], r["guard"]) for r in traced if r["verdict"] == "refused"]
    rows = of_capture(name)[REFUSALS]
    judged = rules.rule_set.value
    assert [(r.offset, r.guard) for r in rows if r.rules == judged] == wanted


@pytest.mark.parametrize("name", NAMES)
def test_final_claims_are_those_of_the_trace(name: str) -> None:
    rows = of_capture(name)[CLAIMS]
    last: dict[tuple[object, ...], dict[str, object]] = {}
    for line in trace(capture(name), rules_of(name, FENCED)):
        if line["state"] is not None:
            last[line["group"], line["topic"], line["topic_partition"]] = line["state"]  # type: ignore[assignment]
    fenced = [row for row in rows if row.rules == "fenced"]
    assert len(fenced) == len(last)
    for row in fenced:
        state = last[row.group, row.topic, row.topic_partition]
        # A ReleaseGroup after the claim's last record would show in the table and not in the trace.
        assert state.pop("ranges") is None, "no consumer of the original shares a claim"
        assert {name: getattr(row, name) for name in state} == state

    last.clear()
    for line in trace(capture(name), rules_of(name, ORIGINAL)):
        if line["state"] is not None:
            last[line["group"], line["topic"], line["topic_partition"]] = line["state"]  # type: ignore[assignment]
    for row in rows:
        if row.rules == "original":
            state = last[row.group, row.topic, row.topic_partition]
            owner = (row.owner_instance, row.owner_client)
            claimed = (state["instance_id"], state["client_id"])
            assert owner == (claimed if state["claimed"] else (None, None))
            assert row.position == state["current_offset"]


@pytest.mark.parametrize("name", NAMES)
def test_tenures_of_a_claim_follow_each_other_without_overlap(name: str) -> None:
    lanes: dict[tuple[object, ...], list[TenureRow]] = defaultdict(list)
    for row in of_capture(name)[TENURES]:
        lanes[row.rules, row.group, row.topic, row.topic_partition].append(row)
    for rows in lanes.values():
        for before, after in pairwise(rows):
            assert before.to_offset is not None
            assert before.to_offset <= after.from_offset
            assert before.ended != "open"


def tenures(*lines: str, rules: str = "fenced") -> list[tuple[object, ...]]:
    rows = replayed(records(lines))[TENURES]
    return [tuple(getattr(row, c) for c in OWNER_COLUMNS) for row in rows if row.rules == rules]


def test_a_tenure_lasts_from_its_win_to_its_release() -> None:
    assert tenures("0 CP a1/A", "1 HB a1/A 5", "2 RP a1/A 7") == [
        ("a1", "claimed", 0, "released", 2, 0, 7)
    ]


def test_a_takeover_ends_one_tenure_and_begins_the_next() -> None:
    assert tenures("0 CP a1/A", "1 HB a1/A 5", "10 CP b1/B") == [
        ("a1", "claimed", 0, "took_over", 2, 0, 5),
        ("b1", "took_over", 2, "open", None, 5, 5),
    ]


def test_an_owner_that_is_stale_at_the_end_is_silent() -> None:
    lasting = tenures("0 CP a1/A", "1 CP b1/B p=1", *beats("b1/B", 2, 20, tail="1 p=1"))
    assert [row[3] for row in lasting] == ["silent", "open"]


def test_restarts_reclaims_and_group_releases_have_their_own_words() -> None:
    lines = ["0 CP a1/A", "1 CP a1/A", "2 CP a2/A", "3 HB a3/A 1", "4 RG x1/X 60"]
    assert [(row[1], row[3]) for row in tenures(*lines)] == [
        ("claimed", "reclaimed"),
        ("reclaimed", "restarted"),
        ("restarted", "fast_reclaimed"),
        ("fast_reclaimed", "group_released"),
    ]


def test_the_originals_tenures_go_by_heartbeats() -> None:
    lines = ["0 CP a1/A", "1 HB b1/B 5", "2 RG x1/X 60", "3 RP b1/B 6", "4 HB b1/B 6"]
    assert [row[:5] for row in tenures(*lines, rules="original")] == [
        ("a1", "claimed", 0, "overwritten", 1),
        ("b1", "overwritten", 1, "released", 3),
        ("b1", "refreshed", 4, "open", None),
    ]


def divergences(*lines: str) -> list[tuple[object, ...]]:
    rows = replayed(records(lines))[DIVERGENCES]
    return [(r.offset, r.until_offset, r.first, r.differ_in) for r in rows]


def test_two_rule_sets_that_agree_have_no_divergence() -> None:
    assert divergences("0 CP a1/A", "1 HB a1/A 5", "2 RP a1/A 5") == []


def test_a_divergence_lasts_until_both_agree_again() -> None:
    lines = ["0 CP a1/A", "1 HB b1/B 5", "2 HB b1/B 5", "3 HB b1/B 6", "4 HB a1/A 7", "5 HB a1/A 7"]
    assert divergences(*lines) == [
        (1, 3, True, "owner and position"),
        (3, 4, False, "owner and position"),
    ]


def test_a_divergence_that_lasts_has_no_end() -> None:
    assert divergences("0 CP a1/A", "1 HB a1/A 5", "2 HB a1/A 3") == [(2, None, True, "position")]


def test_a_capture_under_both_rules_diverges_at_its_thefts() -> None:
    rows = of_capture("d3_late_heartbeat_theft")[DIVERGENCES]
    assert [row.offset for row in rows if row.first] == [82]
    assert 176 in [row.offset for row in rows]


def test_a_malformed_record_is_kept_with_its_bytes_readable() -> None:
    raw = RawRecord(2, 0, 1, b"Heartbeat/1/x/\xff/c/g/t/0/1")
    (row,) = replayed([raw, RawRecord(2, 1, 1, None)])[MALFORMED][:1]
    assert (row.field, row.value) == ("unix_s", "Heartbeat/1/x/\\xff/c/g/t/0/1")


def test_a_record_below_the_last_offset_is_an_error_of_ours() -> None:
    partition_fold = PartitionFold(LogPartition("log", 2), JudgingOptions(BOTH, 4000))
    first, second = records(["0 CP a1/A at=5", "1 HB a1/A 1 at=4"])
    partition_fold.feed(first)
    with pytest.raises(OutOfOrder):
        partition_fold.feed(second)


def test_any_record_can_be_stored() -> None:
    values = (
        b"Heartbeat/1/9223372036854775807/\xff\xfe/c/g/t/0/-9223372036854775808",
        b"ReleaseGroup/0/1/\x00/c/g//0/9223372036854775807",
        b"ClaimingPartition/1/-9223372036854775808/i/c/\xed\xa0\x80/t/0",
        b"\x00\xff",
        None,
        b"",
    )
    given = [
        RawRecord(2, offset, stamp, value)
        for offset, (value, stamp) in enumerate(
            (v, s) for v in values for s in (-(2**63), 2**63 - 1)
        )
    ]
    for table, rows in replayed(given).tables(OF_CLAIMS):
        assert len(arrow_rows(table, rows)) == len(rows)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_says_where_it_was_folded(name: str) -> None:
    for table, rows in of_capture(name).tables(OF_CLAIMS):
        assert {(row.log, row.coordinating_partition) for row in rows} == {("log", 2)}
        if "rules" in {column.name for column in table.columns}:
            assert "" not in {row.rules for row in rows}


@cache
def captures_and_stories() -> list[tuple[list[RawRecord], Rows]]:
    """Each log, and what a replay comes to."""
    logs = [capture(name) for name in NAMES]
    logs += [records(lines) for story in STORIES.values() for lines in story[1:]]
    return [(given, replayed(given)) for given in logs]


def test_the_shortcut_for_ordinary_heartbeats_comes_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = captures_and_stories()
    monkeypatch.setattr(RulesetFold, "shortcut", False)
    for given, short in logs:
        assert replayed(given) == short


def test_the_shortcut_for_ordinary_requests_comes_to_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = [
        [raw_of(record) for record in log_of(seed, window, honest=honest)]
        for seed in range(2)
        for window in (0, 12)
        for honest in (True, False)
    ]
    short = [replayed(given, interval_ms=1_000) for given in logs]
    assert {row.code for rows in short for row in rows[FINDINGS]} >= {"range_lost", "stuck_holder"}
    monkeypatch.setattr(RangesWorld, "shortcut", False)
    assert [replayed(given, interval_ms=1_000) for given in logs] == short


def log_of(seed: int, window: int, *, honest: bool) -> list[RangesRecord]:
    walked = walk(seed, window, honest=honest)
    assert len(list(walked.steps(300))) == len(walked.log)
    return walked.log


def raw_of(record: RangesRecord) -> RawRecord:
    """The record as bytes, also with what our clients would not send."""
    said = {**attrs.asdict(record.headers), **attrs.asdict(record.range_headers)}
    names = {header.field: header.name for header in (*wire.HEADERS, *wire.RANGE_HEADERS)}
    stated = {names[field]: n for field, n in said.items() if field in names and n is not None}
    pairs = [(name, str(n).encode()) for name, n in stated.items()]
    more = [("marshal-version", b"1")] if record.headers.present else []
    value = encode_range(record.message)
    return RawRecord(0, record.offset, record.timestamp_ms, value, (*more, *pairs))


def test_observers_miss_nothing_in_the_records_that_they_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hostile_logs = [list(hostile.log(seed, 400)) for seed in range(3)]
    logs = captures_and_stories() + [(given, replayed(given)) for given in hostile_logs]
    for observer in FindingObserver.__subclasses__():
        monkeypatch.setattr(observer, "only_changes", False)
        monkeypatch.setattr(observer, "passes_over_releases", False)
    for given, shown in logs:
        assert replayed(given) == shown


def test_one_rule_set_needs_no_comparison() -> None:
    rows = replayed(records(["0 CP a1/A", "1 HB b1/B 5"]), rule_sets=(RuleSet.ORIGINAL,))
    assert rows[DIVERGENCES] == []


def test_a_closed_fold_is_gone_without_a_garbage_collector() -> None:
    judging = JudgingOptions((FENCED.rule_set, ORIGINAL.rule_set), 60_000)
    fold = PartitionFold(LogPartition("log", 0), judging)
    for raw in records(["0 CP a1/A", *beats("a1/A", 2, 20)]):
        fold.feed(raw)
    there = weakref.ref(fold)
    gc.disable()
    try:
        fold.close()
        assert fold.drain()[TENURES]
        del fold
        assert there() is None
    finally:
        gc.enable()
