"""Marshal promises to say what another setting would make of the same log."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from kafka_marshal.cli.logs.replay import show_difference
from kafka_marshal.core.state import RuleSet
from kafka_marshal.replay import Change, Exports, InvalidOption, WhatIf, run
from kafka_marshal.replay.engines.engine import run_fold
from kafka_marshal.replay.engines.local import LocalEngine
from kafka_marshal.replay.findings.catalogue import CATALOGUE
from kafka_marshal.replay.fold.partition_fold import JudgingOptions
from kafka_marshal.replay.report_data.whatif import compared
from kafka_marshal.replay.sources import find
from tests.replay.exports.test_sarif_and_junit import check_sarif
from tests.replay.told import BOTH

D3 = (
    Path(__file__).parent.parent.parent
    / "data"
    / "captures"
    / "original"
    / "d3_late_heartbeat_theft.jsonl"
)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("heartbeat_interval=30s", Change(heartbeat_interval_s=30)),
        ("heartbeat_interval=2.5", Change(heartbeat_interval_s=2.5)),
        ("rules=original,pause_max=1h", Change(rules=RuleSet.ORIGINAL, pause_max_s=3600)),
        ("pause_max = 5 min", Change(pause_max_s=300)),
    ],
)
def test_a_setting_is_what_it_says(text: str, change: Change) -> None:
    assert Change.parsed([text]) == change
    assert Change.parsed(text.split(",")) == change


@pytest.mark.parametrize(
    "text",
    ["", "interval=30s", "heartbeat_interval", "heartbeat_interval=0", "heartbeat_interval=-1s",
     "heartbeat_interval=soon", "rules=both", "pause_max=1h,pause_max=2h", "pause_max=1e999"],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_named(text: str) -> None:
    with pytest.raises(InvalidOption, match="--what-if"):
        Change.parsed([text])


def test_other_rules_are_compared_with_one_rule_set() -> None:
    change = Change(rules=RuleSet.ORIGINAL)
    assert change.of(JudgingOptions((RuleSet.FENCED,), 4000)).rule_sets == (RuleSet.ORIGINAL,)
    with pytest.raises(InvalidOption, match="leave out --rules both"):
        change.of(JudgingOptions(BOTH, 4000))


def test_under_a_longer_interval_nobody_takes_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = run(
        [str(D3)],
        out=tmp_path / "out",
        heartbeat_interval_s=4,
        what_if=Change.parsed(["heartbeat_interval=30s"]),
        engine="local",
    )
    told = summary.what_if
    assert told is not None
    assert (told.before["heartbeat_interval_s"], told.after["heartbeat_interval_s"]) == (4, 30)
    counts = {count.code: (count.before, count.after) for count in told.findings}
    assert counts["failover_times"] == (1, 0)
    assert counts["late_heartbeat_refused"] == (2, 0)
    first = told.divergences[0]
    assert (first.topic_partition, first.offset, first.rules) == (4, 77, "fenced")
    assert (first.before_owner_client, first.after_owner_client) == ("c2", "c1")
    assert told.claims_differ == len(told.divergences)
    assert (told.tenures_before - told.tenures_gone) == (told.tenures_after - told.tenures_new)
    stored = json.loads((tmp_path / "out" / "summary.json").read_text())["what_if"]
    assert stored == json.loads(json.dumps(told.json()))
    show_difference(told)
    printed = capsys.readouterr().out
    assert "What if heartbeat_interval_s 4 s -> 30 s:" in printed
    assert "events/4 of group g.d3 from offset 77 of partition 2: c2 (db67903e) -> c1" in printed


def difference(rules: tuple[RuleSet, ...], text: str) -> WhatIf:
    judging = JudgingOptions(rules, 4_000)
    otherwise = Change.parsed([text]).of(judging)
    chunks = find([str(D3)]).chunks
    with (
        run_fold(LocalEngine(), chunks, judging) as before,
        run_fold(LocalEngine(), chunks, otherwise) as after,
    ):
        return compared((before, judging, []), (after, otherwise, []))


def test_the_original_steals_what_the_fenced_rules_keep() -> None:
    told = difference((RuleSet.FENCED,), "rules=original")
    counts = {count.code: (count.before, count.after) for count in told.findings}
    assert counts["late_heartbeat_stole"] == (0, 2)
    assert (told.claims_differ, told.divergences[0].offset) == (1, 82)
    assert told.divergences[0].rules is None
    assert told.divergences[0].after_owner_client == "c1"


def test_the_same_setting_makes_no_difference() -> None:
    told = difference(BOTH, "heartbeat_interval=4s")
    assert told.findings
    assert all(count.before == count.after for count in told.findings)
    assert (told.claims_differ, told.owners_differ, told.divergences) == (0, 0, ())


def test_a_run_writes_its_findings_for_other_tools(tmp_path: Path) -> None:
    exports = Exports(tmp_path / "f.sarif", tmp_path / "f.xml")
    summary = run(
        [str(D3)],
        out=tmp_path / "out",
        heartbeat_interval_s=4,
        rules="both",
        exports=exports,
        engine="local",
    )
    value = json.loads((tmp_path / "f.sarif").read_text())
    check_sarif(value)
    assert len(value["runs"][0]["results"]) == summary.rows["findings"]
    suites = Xml.parse(tmp_path / "f.xml").getroot()
    bad = {c.code for c in summary.findings if c.severity != "info"}
    failed = {
        str(case.get("name"))
        for case in suites.iter("testcase")
        if case.find("failure") is not None
    }
    assert failed == bad
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.sarif", "f.xml", "out"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    for code in bad:
        assert CATALOGUE[code].what_to_do[:30] in page
