"""What docs/watch.md says is reported while a log goes on, and what is not."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import attrs
import pytest

from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.fold.partition_fold import JudgingOptions, PartitionFold
from kafka_marshal.replay.live.live_findings import BEGUN, OVER, WHOLE, LiveEvent, LiveFold
from kafka_marshal.replay.model.events import LogPartition
from kafka_marshal.replay.model.published import FindingRow, ProofRow
from kafka_marshal.replay.model.tables import FINDINGS
from tests.replay.state.test_checkpoint import NIGHTS
from tests.replay.told import INTERVAL_MS, records

MISSED = "missed_heartbeat"
DOCS = (Path(__file__).parents[3] / "docs" / "watch.md").read_text(encoding="utf-8")


def documented() -> dict[str, set[str]]:
    return lists_in("## What is not reported while a log goes on")


def lists_in(title: str) -> dict[str, set[str]]:
    """Of a section of docs/watch.md which codes its four bullets name."""
    section = DOCS.split(title)[1].split("\n## ")[0]
    bullets = re.findall(r"^- (.*?)(?=^- |^A |\Z)", section, re.DOTALL | re.MULTILINE)
    begun_and_over, begun, whole, never = (set(re.findall(r"`([a-z_]+)`", b)) for b in bullets)
    return {"both": begun_and_over, "begun": begun, "whole": whole, "never": never - {"malformed"}}


def told(name: str, interval_s: float) -> tuple[list[LiveEvent], list[FindingRow]]:
    """What is reported of a night as it goes on, and all findings of the same night in the end."""
    judging = JudgingOptions(tuple(RuleSet), interval_s * 1000, coordination_partitions=17)
    live, whole = (
        LiveFold(LogPartition("log", 2), judging),
        PartitionFold(LogPartition("log", 2), judging),
    )
    told = []
    for raw in NIGHTS[name]:
        told += live.fold(raw)
        whole.feed(raw)
    whole.close()
    return [one for one in told if one.event == "finding"], whole.drain()[FINDINGS]


def finding(told: LiveEvent) -> FindingRow:
    assert isinstance(told.row, FindingRow)
    return told.row


def test_every_code_of_the_catalogue_is_in_one_of_the_lists() -> None:
    lists = documented()
    named = Counter(code for codes in lists.values() for code in codes)
    assert named == Counter(list(CATALOGUE))


@pytest.mark.parametrize(
    "interval_s",
    [
        pytest.param(1.0, marks=pytest.mark.night),
        4.0,
        pytest.param(60.0, marks=pytest.mark.night),
    ],
)
def test_what_is_told_early_is_what_a_replay_finds_in_the_end(interval_s: float) -> None:
    lists = documented()
    names = ("code", "rules", "group", "topic_partition", "offset", "instance")
    for night in NIGHTS:
        live, in_the_end = told(night, interval_s)
        found = {tuple(getattr(row, name) for name in names) for row in in_the_end}
        for one in live:
            row = finding(one)
            expected = {BEGUN: ("both", "begun"), OVER: ("both",), WHOLE: ("whole",)}[one.state]
            assert any(row.code in lists[name] for name in expected), row
            # A fact stays one, unless the interval given turns out not to be the consumers'.
            if row.code not in ("missed_heartbeat", "unowned_too_long"):
                assert tuple(getattr(row, name) for name in names) in found
        begun = {tuple(getattr(o.row, n) for n in names) for o in live if o.state == BEGUN}
        for row in in_the_end:
            if row.code in lists["both"] | {"two_instances_of_one_client"}:
                assert tuple(getattr(row, name) for name in names) in begun


@pytest.mark.parametrize("night", NIGHTS)
def test_to_ask_what_began_changes_nothing(night: str) -> None:
    asked, never = (
        PartitionFold(
            LogPartition("log", 2),
            JudgingOptions(tuple(RuleSet), 4_000, coordination_partitions=17),
        )
        for _ in range(2)
    )
    begun = 0
    for raw in NIGHTS[night]:
        never.feed(raw)
        asked.feed(raw)
        begun += len(list(asked.begun()))
        assert list(asked.begun()) == []
    for partition_fold in (asked, never):
        partition_fold.close()
    assert begun
    assert asked.drain() == never.drain()


def test_two_intervals_in_one_group_are_told_when_the_second_one_is_said() -> None:
    lines = (
        "0 CP a1/A interval=4000",
        "1 HB a1/A 5 epoch=0 interval=4000",
        "2 CP b1/B p=1 interval=1000",
        "2.1 HB b1/B 5 epoch=2 p=1 interval=1000",
        "5 HB a1/A 9 epoch=0 interval=4000",
    )
    live = LiveFold(LogPartition("log", 2), JudgingOptions((RuleSet.FENCED,), INTERVAL_MS))
    told = [[one for one in live.fold(raw) if one.event == "finding"] for raw in records(lines)]
    assert [len(each) for each in told] == [0, 0, 1, 0, 0]
    [begun] = told[2]
    assert (begun.state, begun.severity) == (BEGUN, "error")
    assert finding(begun).code == "interval_mismatch"
    assert "client A says 4.0 s, client B says 1.0 s" in finding(begun).sentence


def test_a_silence_is_told_once_the_interval_fits_again() -> None:
    """After an outage at the log's beginning, most heartbeats seem to come too seldom."""
    claims = [f"p={number}" for number in range(12)]
    lines = [f"{second} {verb} {claim}" for second, verb in (
        (0, "CP a1/A"), (10, "HB a1/A 5"), *((second, "HB a1/A 5") for second in range(11, 14)),
        (14, "RP a1/A 5"),
    ) for claim in claims]  # fmt: skip
    judging = JudgingOptions((RuleSet.FENCED,), INTERVAL_MS)
    place = LogPartition("log", 2)
    live, whole = LiveFold(place, judging), PartitionFold(place, judging)
    told: list[FindingRow] = []
    for raw in records(lines):
        told += [finding(one) for one in live.fold(raw) if one.event == "finding"]
        whole.feed(raw)
    whole.close()
    silent = [row.topic_partition for row in whole.drain()[FINDINGS] if row.code == MISSED]
    assert len(silent) == len(claims)
    assert [row.topic_partition for row in told if row.code == MISSED] == silent


def test_a_line_has_the_columns_of_its_table_and_no_bytes_that_break_it() -> None:
    proof = ProofRow(offset=1, timestamp_ms=2, value="\n")
    row = FindingRow(code="forged", severity="error", sentence="caf\udce9", records=(proof,))
    line = LiveEvent(BEGUN, row).json()
    assert "\n" not in line
    read = json.loads(line)
    assert (read["event"], read["state"], read["sentence"]) == ("finding", "begun", "caf\\xe9")
    assert read["topic"] is None
    assert {"type", "sender_client"}.isdisjoint(read["records"][0])


@pytest.mark.parametrize("name", sorted(NIGHTS))
def test_a_line_says_each_column_of_its_row_and_of_the_rows_in_it(name: str) -> None:
    live = LiveFold(LogPartition("log", 2), JudgingOptions(tuple(RuleSet), INTERVAL_MS))
    of_messages = {"type", "sender_instance", "sender_client", "verdict"}
    for event in [each for raw in NIGHTS[name] for each in live.fold(raw)]:
        columns = attrs.asdict(
            event.row,
            filter=lambda column, value: value is not None or column.name not in of_messages,
        )
        said = json.loads(event.json())
        del said["event"], said["state"]
        assert said == json.loads(json.dumps(columns))
