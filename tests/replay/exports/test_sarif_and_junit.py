"""Marshal promises that other tools can read its findings: SARIF 2.1.0 and JUnit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import attrs
import pyarrow.parquet as pq
import pytest

from kafka_marshal.authentication import Keyring
from kafka_marshal.capture import capture_line
from kafka_marshal.replay import run, run_groups
from kafka_marshal.replay.errors import InvalidOption, OutputExists
from kafka_marshal.replay.exports.files import Exports
from kafka_marshal.replay.exports.junit import SENTENCES_MAX, junit
from kafka_marshal.replay.exports.sarif import sarif
from kafka_marshal.replay.findings.catalogue import CATALOGUE, OF_RANGES
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE, OF_THE_INPUT
from kafka_marshal.replay.model.published import FindingRow
from tests.replay.findings.test_findings import STORIES, TAKEN, told_of
from tests.replay.told import records

LEVELS = {"none", "note", "warning", "error"}


def all_findings() -> list[FindingRow]:
    """At least one of every code."""
    return [
        attrs.evolve(row, log="log") for _, lines, _ in STORIES.values() for row in told_of(lines)
    ]


def written(findings: Iterable[FindingRow]) -> dict[str, Any]:
    text = "".join(sarif(findings, "1.2.3"))
    value: dict[str, Any] = json.loads(text)
    return value


def check_sarif(value: object) -> None:
    """What the schema of SARIF 2.1.0 asks of the parts that we write.

    The official schema is in no package that we use; this is written from it: required members,
    no others than the schema names, types, enumerations, and indices that fit.
    """
    run = _members(value, {"version": "2.1.0", "$schema": str, "runs": list})["runs"]
    (run,) = run
    _members(run, {"tool": dict, "columnKind": "unicodeCodePoints", "results": list})
    driver = _members(run["tool"], {"driver": dict})["driver"]
    rules = _members(driver, {"name": str, "version": str, "rules": list})["rules"]
    ids = [_rule(rule) for rule in rules]
    assert len(set(ids)) == len(ids)
    for result in run["results"]:
        _result(result, ids)


def _members(value: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(value, dict)
    assert set(value) == set(wanted)
    for name, kind in wanted.items():
        if isinstance(kind, type):
            assert isinstance(value[name], kind), name
        else:
            assert value[name] == kind, name
    return value


def _rule(rule: Any) -> str:
    texts = ("shortDescription", "fullDescription", "help")
    members = dict.fromkeys(texts, dict) | {"id": str, "name": str}
    _members(rule, members | {"defaultConfiguration": dict, "properties": dict})
    for name in texts:
        assert set(rule[name]) <= {"text", "markdown"}
        assert rule[name]["text"]
    assert _members(rule["defaultConfiguration"], {"level": str})["level"] in LEVELS
    tags = rule["properties"]["tags"]
    assert len(set(tags)) == len(tags)
    return str(rule["id"])


def _result(result: Any, ids: list[str]) -> None:
    members = {"ruleId": str, "ruleIndex": int, "level": str, "message": dict}
    _members(result, members | {"locations": list, "properties": dict})
    assert ids[result["ruleIndex"]] == result["ruleId"]
    assert result["level"] in LEVELS
    assert _members(result["message"], {"text": str})["text"]
    for location in result["locations"]:
        for logical in _members(location, {"logicalLocations": list})["logicalLocations"]:
            _members(logical, {"name": str, "fullyQualifiedName": str, "kind": str})


def test_sarif_is_what_its_schema_asks_for() -> None:
    value = written(all_findings())
    check_sarif(value)
    results = value["runs"][0]["results"]
    assert {result["ruleId"] for result in results} == set(CATALOGUE)


@pytest.mark.parametrize(
    "broken",
    [
        lambda run: run["results"][0].pop("message"),
        lambda run: run["results"][0].update(level="info"),
        lambda run: run["results"][0].update(ruleIndex=0 if run["results"][0]["ruleIndex"] else 1),
        lambda run: run["results"][0].update(severity="error"),
        lambda run: run["tool"]["driver"].pop("name"),
        lambda run: run["tool"]["driver"]["rules"].append(run["tool"]["driver"]["rules"][0]),
    ],
)
def test_the_check_of_sarif_notices(broken: Any) -> None:
    value = written(all_findings())
    broken(value["runs"][0])
    with pytest.raises((AssertionError, KeyError)):
        check_sarif(value)


def test_every_rule_says_what_it_means_and_what_to_do() -> None:
    for rule in written([])["runs"][0]["tool"]["driver"]["rules"]:
        kind = CATALOGUE[rule["id"]]
        assert kind.what_to_do in rule["help"]["text"]
        assert kind.meaning in rule["fullDescription"]["text"]


def test_a_result_says_where_and_which_offsets() -> None:
    (row,) = [
        row
        for row in told_of([*TAKEN, "12 HB a1/A 10 late=9"])
        if row.code == "late_heartbeat_stole"
    ]
    row = attrs.evolve(row, log="last/night", coordinating_partition=2)
    (result,) = written([row])["runs"][0]["results"]
    (location,) = result["locations"][0]["logicalLocations"]
    assert location == {
        "name": "0",
        "fullyQualifiedName": "last%2Fnight/2/g/events/0",
        "kind": "partition",
    }
    assert (result["level"], result["properties"]["offset"]) == ("error", 4)
    assert result["properties"]["last_offset"] == 4
    assert result["message"]["text"] == row.sentence


def cases(findings: Iterable[FindingRow], *rules: str) -> dict[str, Xml.Element]:
    suites = Xml.fromstring(junit(findings, ["log", "other"], rules))
    assert [suite.get("name") for suite in suites] == ["log", "other"]
    for suite in suites:
        assert int(suite.get("tests", "")) == len(suite) == len(CATALOGUE)
        assert int(suite.get("failures", "")) == len(suite.findall("testcase/failure"))
    assert int(suites.get("tests", "")) == 2 * len(CATALOGUE)
    assert suites[1].findall("testcase/failure") == []
    return {str(case.get("name")): case for case in suites[0]}


def test_every_code_is_a_case_that_fails_if_it_is_bad() -> None:
    told = cases(all_findings(), "fenced", "original")
    assert list(told) == list(CATALOGUE)
    bad = {row.code for row in all_findings() if row.severity in ("error", "warning")}
    assert {code for code, case in told.items() if case.find("failure") is not None} == bad
    failure = told["late_heartbeat_stole"].find("failure")
    assert failure is not None
    assert failure.get("type") == "error"
    assert CATALOGUE["late_heartbeat_stole"].what_to_do in str(failure.text)
    note = told["failover_times"].find("system-out")
    assert note is not None
    assert "in the median" in str(note.text)


def test_a_code_that_the_rules_never_tell_is_skipped() -> None:
    told = cases([], "fenced")
    left_out = {code for code, case in told.items() if case.find("skipped") is not None}
    assert left_out == {code for code, kind in CATALOGUE.items() if kind.rules == "original"}


THEFT = Path(__file__).parents[2] / "data/captures/original/d3_late_heartbeat_theft.jsonl"
GROUPS = Path(__file__).parents[2] / "data/captures/groups/rebalance_storm.jsonl"
NEEDS_OPTIONS = {
    "wrong_coordinating_partition": "not looked at: needs --coordination-partitions",
    "record_not_signed": "not looked at: needs --keys",
    "record_not_authentic": "not looked at: needs --keys",
}
KEYS = Keyring({"k": bytes(32)}, sign_with="k")


def skipped(
    folder: Path, lines: list[str], replay: Callable[..., object] = run, **options: Any
) -> tuple[dict[str, str], int]:
    """The cases that were skipped in the replay of one log, and how many the file counts."""
    source, file = folder / "log.jsonl", folder / "f.xml"
    source.write_text("".join(lines), encoding="utf-8")
    replay([str(source)], out=folder / "out", exports=Exports(junit=file), **options)
    suites = Xml.parse(file).getroot()
    cases = {str(case.get("name")): case.find("skipped") for case in suites.iter("testcase")}
    told = {code: str(why.get("message")) for code, why in cases.items() if why is not None}
    return told, int(suites.get("skipped", ""))


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ({}, NEEDS_OPTIONS.keys()),
        ({"keyring": KEYS, "coordination_partitions": 4}, set()),
    ],
)
def test_a_check_that_was_not_made_is_skipped_and_says_what_it_needs(
    tmp_path: Path, options: dict[str, Any], codes: set[str]
) -> None:
    lines = THEFT.read_text(encoding="utf-8").splitlines(keepends=True)
    told, count = skipped(tmp_path, lines, rules="both", **options)
    assert told == {code: NEEDS_OPTIONS[code] for code in codes}
    assert count == len(codes)


@pytest.mark.parametrize("first", [99, None])
def test_where_no_claim_could_be_judged_no_promise_passes(
    tmp_path: Path, first: int | None
) -> None:
    lines = THEFT.read_text(encoding="utf-8").splitlines(keepends=True)
    if first is None:
        lines = [json.dumps(json.loads(lines[0]) | {"value": "nonsense"})]
    told, _ = skipped(tmp_path, lines if first is None else lines[first:])
    judging = {code for code, kind in CATALOGUE.items() if kind.rules != "log"}
    clocks = set() if first else {"sender_clock_off"}
    assert told.keys() == judging | clocks | NEEDS_OPTIONS.keys()
    nothing = "no claim was ever certain, see head_missing" if first else "no record of the log"
    assert told["forged"].startswith(f"not looked at: {nothing}")


SHARED = (
    "0 CP anchor/ranges ranges=0", "0 CM anchor/ranges 10 epoch=0", "1 CR p1/P 4",
    "1 HB anchor/ranges 10 epoch=0 seen=2 clock=1700000001000",
    "5 HB anchor/ranges 10 epoch=0 seen=3 clock=1700000001000",
    "9.5 HB anchor/ranges 10 epoch=0 seen=4 clock=1700000005000", "9.6 CR q1/Q 4",
)  # fmt: skip
"""At most once, what `p1` held is lost, if it has not processed it."""


def test_where_no_range_could_be_judged_none_passes_as_not_lost(tmp_path: Path) -> None:
    """Their claim was judged, so `range_lost` passed for a log that had lost its head."""
    lines = [capture_line(raw) + "\n" for raw in records(SHARED)]
    options: dict[str, Any] = {"heartbeat_interval_s": 4}
    (tmp_path / "whole").mkdir()
    told, _ = skipped(tmp_path / "whole", lines, **options)
    assert not {*OF_RANGES} & told.keys()
    (tmp_path / "cut").mkdir()
    told, _ = skipped(tmp_path / "cut", lines[2:], **options)
    assert {*OF_RANGES} < told.keys()
    assert "forged" not in told
    [missing] = read_findings(tmp_path / "cut" / "out", "head_missing")
    assert "1 claim is shared: who held which messages, and which of them were lost" in missing


def read_findings(out: Path, code: str) -> list[str]:
    rows = pq.read_table(out / "findings").to_pylist()
    return [row["sentence"] for row in rows if row["code"] == code]


def test_what_is_not_compared_under_a_forced_interval_does_not_pass(tmp_path: Path) -> None:
    lines = THEFT.read_text(encoding="utf-8").splitlines(keepends=True)
    told, _ = skipped(tmp_path, lines, heartbeat_interval_s=4, force_interval=True)
    assert "--force-interval" in told["checkpoint_differs"]


def test_under_the_original_rules_a_log_without_its_head_is_judged(tmp_path: Path) -> None:
    lines = THEFT.read_text(encoding="utf-8").splitlines(keepends=True)
    told, _ = skipped(tmp_path, lines[99:], rules="both")
    assert "forged" in told
    assert "position_moved_back" not in told


def test_where_the_state_of_no_group_is_known_no_case_passes(tmp_path: Path) -> None:
    lines = GROUPS.read_text(encoding="utf-8").splitlines(keepends=True)
    why = "not looked at: the state of no group is known"
    of_partitions = {"wrong_coordinating_partition": NEEDS_OPTIONS["wrong_coordinating_partition"]}
    told, _ = skipped(tmp_path, lines[5:50], run_groups)
    judging = GROUP_CATALOGUE.keys() - {*OF_THE_INPUT, "state_not_known"}
    assert told == dict.fromkeys(judging, why) | of_partitions


def test_of_a_thousand_findings_a_case_tells_some_and_counts_all() -> None:
    (row,) = [row for row in all_findings() if row.code == "create_time"]
    failure = cases([row] * 1000, "fenced")["create_time"].find("failure")
    assert failure is not None
    assert str(failure.text).count(row.sentence) == SENTENCES_MAX
    assert f"... and {1000 - SENTENCES_MAX} more" in str(failure.text)
    assert str(failure.get("message")).startswith("1,000 findings: ")


def test_any_name_can_be_written() -> None:
    (row,) = [row for row in all_findings() if row.code == "create_time"]
    odd = attrs.evolve(row, sentence="a\x00b\x1b\udcff<&>\ufffe'\"", group="\udcffg")
    assert written([odd])["runs"][0]["results"][0]["message"]["text"]
    failure = cases([odd], "fenced")["create_time"].find("failure")
    assert failure is not None
    assert "a\\x00b\\x1b\\xff<&>" in str(failure.text)


def test_an_existing_file_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("precious")
    for exports in (Exports(sarif=there), Exports(junit=there)):
        with pytest.raises(OutputExists, match=r"give another --(sarif|junit)"):
            exports.check(tmp_path / "out")
    with pytest.raises(InvalidOption, match="within --out"):
        Exports(sarif=tmp_path / "out" / "f").check(tmp_path / "out")
    with pytest.raises(InvalidOption, match="same file"):
        Exports(sarif=tmp_path / "f", junit=tmp_path / "f").check(tmp_path / "out")
    assert there.read_text() == "precious"


def test_files_are_written_whole_or_not_at_all(tmp_path: Path) -> None:
    exports = Exports(tmp_path / "deep" / "f.sarif", tmp_path / "f.xml")
    with exports.written(iter(all_findings()), ["log"], ["fenced"], "1"):
        assert not exports.sarif or not exports.sarif.exists()
    assert exports.sarif
    assert exports.junit
    check_sarif(json.loads(exports.sarif.read_text()))
    assert Xml.parse(exports.junit).getroot().tag == "testsuites"

    def broken() -> None:
        with Exports(tmp_path / "g.sarif", tmp_path / "g.xml").written([], [], [], "1"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "f.xml"]
