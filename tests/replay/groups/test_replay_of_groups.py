"""`marshal replay --protocol groups`: from a dump of `__marshal_groups` to tables and a page."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_marshal import replay
from kafka_marshal.capture import RawRecord, UnreadableSource, capture_line
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.model.groups.tables import OF_GROUPS
from tests.cli.run import CAPTURES, marshal
from tests.replay import dumps
from tests.replay.groups.logs import raw_of
from tests.replay.groups.stories import GroupLog, shared
from tests.replay.sizes import as_a_large_log
from tests.replay.sources import readers as sources
from tests.replay.sources import texts

THEFT = CAPTURES / "d3_late_heartbeat_theft.jsonl"


def story() -> GroupLog:
    """A member commits what is no longer its own, it is given up, and positions are set."""
    log = shared().at(4).commits("m1", 0, 5).commits("m1", 3, 9, tenure=4).at(20).expires("m1")
    return log.at(31).target(*["m2"] * 4).at(32).rewinds(0, 2)


def raws() -> list[RawRecord]:
    return [raw_of(record) for record in story().records]


def capture(path: Path, records: list[RawRecord]) -> str:
    path.write_text("".join(capture_line(raw) + "\n" for raw in records))
    return str(path)


def tables(out: Path) -> dict[str, list[dict[str, object]]]:
    return {each.name: pq.read_table(out / each.name).to_pylist() for each in OF_GROUPS.published}


def codes(out: Path) -> set[object]:
    return {row["code"] for row in tables(out)["findings"]}


def test_a_dump_becomes_tables_a_summary_and_a_page(tmp_path: Path) -> None:
    out, trace = tmp_path / "out", tmp_path / "f.sarif"
    files = ("--sarif", trace, "--junit", tmp_path / "f.xml", "--perfetto", tmp_path / "f.json")
    ran = marshal(
        *("replay", "--protocol", "groups", capture(tmp_path / "g.jsonl", raws()), "--out", out),
        *("--what-if", "strategy=range", "--coordination-partitions", "16", *files),
    )
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "1 group judged" in ran.stdout
    assert "under range they would have moved" in ran.stdout
    assert "warning zombie_commit: " in ran.stdout
    found = tables(out)
    assert codes(out) >= {"zombie_commit", "rewound", "wrong_coordinating_partition"}
    assert {row["log"] for rows in found.values() for row in rows} == {"g"}
    summary = json.loads((out / "summary.json").read_text())
    assert summary["protocol"] == "groups"
    assert summary["rows"] == {name: len(rows) for name, rows in found.items()}
    assert [group["group"] for group in summary["groups"]] == ["g"]
    assert [answer["instead"] for answer in summary["what_if"]] == ["range"]
    page = (out / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "client-m2" in page
    assert '"zombie_commit"' in trace.read_text()
    assert 'name="zombie_commit"' in (tmp_path / "f.xml").read_text()
    assert '"zombie_commit"' in (tmp_path / "f.json").read_text()


@pytest.mark.spark
def test_both_engines_write_the_same_tables(spark: SparkSession, tmp_path: Path) -> None:
    source = str(dumps.write(tmp_path / "g.parquet", dumps.table(raws())))
    here = replay.run_groups([source], out=tmp_path / "here", engine="local")
    with as_a_large_log():
        there = replay.run_groups([source], out=tmp_path / "there", engine="spark", spark=spark)
    assert tables(tmp_path / "here") == tables(tmp_path / "there")
    assert here.json() == there.json()
    pages = [(tmp_path / name / "report.html").read_text() for name in ("here", "there")]
    assert pages[0] == pages[1]


def test_run_by_run_a_checkpoint_comes_to_what_one_run_does(tmp_path: Path) -> None:
    whole = capture(tmp_path / "whole.jsonl", raws())
    replay.run_groups([whole], out=tmp_path / "once", one_log=True)
    checkpoints = []
    for number, (begin, end) in enumerate(((0, 4), (3, 7), (7, 99))):  # offset 3 comes twice
        part = capture(tmp_path / f"{number}.jsonl", raws()[begin:end])
        out, folder = tmp_path / f"out-{number}", tmp_path / "checkpoint"
        checkpoints.append(replay.run_groups([part], out=out, checkpoint=folder).checkpoint)
    assert [each and each["skipped"] for each in checkpoints] == [0, 1, 0]
    once, resumed = tables(tmp_path / "once"), tables(tmp_path / "out-2")
    assert resumed == once
    with pytest.raises(replay.CheckpointRefused, match='with protocol "groups"'):
        replay.run([str(THEFT)], out=tmp_path / "claims", checkpoint=tmp_path / "checkpoint")


def test_a_log_of_the_other_protocol_is_named(tmp_path: Path) -> None:
    of_groups = capture(tmp_path / "g.jsonl", raws())
    with pytest.raises(InvalidOption, match="are of groups: replay them with --protocol groups"):
        replay.run([of_groups], out=tmp_path / "out")
    with pytest.raises(InvalidOption, match="are of claims: replay them with --protocol claims"):
        replay.run_groups([str(THEFT)], out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
    garbage = capture(tmp_path / "x.jsonl", [RawRecord(0, 0, 1, b"neither")])
    assert replay.run([garbage], out=tmp_path / "x").rows["malformed"] == 1
    assert replay.run_groups([garbage], out=tmp_path / "y").rows["malformed"] == 1


def test_a_dump_without_times_is_refused_for_an_event_says_none(tmp_path: Path) -> None:
    bare = [attrs.evolve(raw, headers=()) for raw in raws()]
    with_times = sources.write(tmp_path / "with.txt", texts.console(bare))
    without = sources.write(tmp_path / "without.txt", texts.console(bare, "timestamp"))
    assert replay.run_groups([str(with_times)], out=tmp_path / "out").records == len(bare)
    with pytest.raises(UnreadableSource, match="print timestamps"):
        replay.run_groups([str(without)], out=tmp_path / "none")


def test_what_only_claims_have_is_refused_for_groups(tmp_path: Path) -> None:
    of_groups = capture(tmp_path / "g.jsonl", raws())
    with pytest.raises(InvalidOption, match="--what-if needs the whole log"):
        replay.run_groups(
            [of_groups], out=tmp_path / "out", strategy="range", checkpoint=tmp_path / "c"
        )
    asked = ("replay", "--protocol", "groups", of_groups, "--out", tmp_path / "out")
    for options, why in (
        (("--rules", "both"), "--rules is for claims"),
        (("--heartbeat-interval", "4"), "--heartbeat-interval is for claims"),
        (("--what-if", "rules=original"), "--what-if of groups is strategy=NAME, one of "),
    ):
        ran = marshal(*asked, *options)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert why in ran.stderr


def test_a_log_without_its_head_is_certain_from_the_controllers_claim_on(tmp_path: Path) -> None:
    log = shared()
    first = len(log.records)
    cut = log.snapshots().at(40).expires("m2").target(*["m1"] * 4).records[first:]
    source = capture(tmp_path / "cut.jsonl", [raw_of(record) for record in cut])
    for certain_from in ({}, {0: first}, {1: first}):
        out = tmp_path / f"certain-{certain_from}"
        replay.run_groups([source], out=out, certain_from=certain_from, engine="local")
        certain = {row["certain"] for row in tables(out)["partition_tenures"]}
        assert certain == {0 in certain_from}
