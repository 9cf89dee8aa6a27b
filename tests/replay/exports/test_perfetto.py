"""Marshal promises that Perfetto can show who owned what: trace events in Chrome's JSON format."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_marshal.core.groups.events import MemberLeft
from kafka_marshal.replay.errors import InvalidOption, OutputExists
from kafka_marshal.replay.exports.files import Exports
from kafka_marshal.replay.exports.perfetto import SpanRow
from kafka_marshal.replay.groups.catalogue import GROUP_CATALOGUE
from kafka_marshal.replay.model.groups.tables import (
    CONTROLLERSHIPS,
    PARTITION_TENURES,
    REBALANCES,
)
from kafka_marshal.replay.model.published import FindingRow, TenureRow
from kafka_marshal.replay.model.tables import FINDINGS, PARTITIONS, TENURES, Rows
from kafka_marshal.replay.protocols.groups import GroupsProtocol
from tests.replay.findings.test_findings import TAKEN, told_of
from tests.replay.groups.logs import folded, raw_of
from tests.replay.groups.stories import GroupLog, shared
from tests.replay.groups.storm import storm
from tests.replay.told import records, replayed

LINES = [*TAKEN, "12 HB a1/A 10 late=9"]


def tenures(lines: list[str] = LINES, **changed: Any) -> list[TenureRow]:
    return [attrs.evolve(row, **changed) for row in replayed(records(lines))[TENURES]]


def findings() -> list[FindingRow]:
    return list(told_of(LINES))


def traced(
    path: Path, rows: Sequence[SpanRow], told: list[FindingRow], **given: Any
) -> list[dict[str, Any]]:
    rules = given.pop("rules", ["fenced", "original"])
    with Exports(perfetto=path).written(told, ["log"], rules, "1", rows, **given):
        assert not path.exists()
    raw = path.read_bytes()
    value = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    assert set(value) == {"displayTimeUnit", "traceEvents"}
    events: list[dict[str, Any]] = value["traceEvents"]
    for event in events:
        assert isinstance(event["pid"], int)
        assert event["ph"] == "M" or isinstance(event["ts"], int)
    return events


def test_every_tenure_is_a_complete_event_of_its_claims_thread(tmp_path: Path) -> None:
    rows = tenures()
    events = traced(tmp_path / "t.json", rows, [])
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(rows) > 2
    for row, span in zip(rows, spans, strict=True):
        assert span["ts"] == 1000 * row.from_ms
        last = row.last_ms if row.to_ms is None else row.to_ms
        assert span["ts"] + span["dur"] == 1000 * last
        assert span["args"]["epoch"] == row.epoch
        assert span["args"]["owner_instance"] == row.owner_instance
        assert span["args"]["position_to"] == row.position_to
    named = {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event["ph"] == "M"
    }
    assert {named[span["pid"], None] for span in spans} == {"g (log, fenced)", "g (log, original)"}
    assert {named[span["pid"], span["tid"]] for span in spans} == {"events/0"}


def test_groups_are_processes_and_claims_are_threads(tmp_path: Path) -> None:
    rows = [*tenures(), *tenures(topic_partition=1), *tenures(group="h")]
    fenced = [row for row in rows if row.rules == "fenced"]
    spans = [event for event in traced(tmp_path / "t", fenced, []) if event["ph"] == "X"]
    assert len({span["pid"] for span in spans}) == 2
    assert len({(span["pid"], span["tid"]) for span in spans}) == 3


def test_findings_with_a_time_are_instants_where_they_belong(tmp_path: Path) -> None:
    told = findings()
    timed = [row for row in told if row.timestamp_ms is not None]
    of_log = FindingRow(log="log", code="c", severity="info", sentence="s", timestamp_ms=1)
    events = traced(tmp_path / "t.json", tenures(), [*told, of_log])
    instants = [event for event in events if event["ph"] == "i"]
    assert [event["name"] for event in instants] == [*(row.code for row in timed), "c"]
    threads = {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"}
    stolen = next(e for e in instants if e["name"] == "late_heartbeat_stole")
    assert stolen["s"] == "t"
    assert (stolen["pid"], stolen["tid"]) in threads
    assert instants[-1]["s"] == "p"


def test_any_name_is_packed_whole_and_equal_rows_make_equal_files(tmp_path: Path) -> None:
    rows = tenures(owner_client="\ud800</script>\x00", group="\udcff")
    for name in ("a.json.gz", "b.json.gz"):
        spans = [e for e in traced(tmp_path / name, rows, findings()) if e["ph"] == "X"]
        assert spans[0]["name"] == "\ud800</script>\x00"
    packed = (tmp_path / "a.json.gz").read_bytes()
    assert packed == (tmp_path / "b.json.gz").read_bytes()
    assert packed[3:8] == bytes(5)  # neither a name nor the time of writing


def test_an_existing_trace_is_refused_and_half_of_one_is_not_left(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("precious")
    with pytest.raises(OutputExists, match="give another --perfetto"):
        Exports(perfetto=there).check(tmp_path / "out")
    with pytest.raises(InvalidOption, match="--junit and --perfetto are the same file"):
        Exports(junit=tmp_path / "f", perfetto=tmp_path / "f").check(tmp_path / "out")
    unwritable = tenures(from_ms="now")
    for name in ("t.json", "t.json.gz"):
        with (
            pytest.raises(TypeError),
            Exports(perfetto=tmp_path / name).written([], [], ["fenced"], "1", unwritable),
        ):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


# --- groups with a controller ---------------------------------------------------------------------


def of_groups(path: Path, rows: Rows) -> tuple[list[dict[str, Any]], dict[tuple[int, int], str]]:
    """The events of a log of groups, and what each thread is called."""
    spans = [row for table in GroupsProtocol.spans for row in rows[table]]
    ends = {("log", 0): rows[PARTITIONS][0].to_ms}
    told = rows[FINDINGS]
    events = traced(path, spans, told, rules=[], catalogue=GROUP_CATALOGUE, ends_ms=ends)
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    return [event for event in events if event["ph"] != "M"], threads


def test_a_groups_partitions_rebalances_and_controllers_are_tracks(tmp_path: Path) -> None:
    rows = folded(storm())
    events, threads = of_groups(tmp_path / "t.json", rows)
    spans: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            spans[threads[event["pid"], event["tid"]]].append(event)
    assert set(spans) == {
        *(f"t/{number}" for number in range(12)),
        *("rebalances", "rebalance due", "controller"),
    }
    assert len(spans["rebalances"]) == len(rows[REBALANCES])
    assert len(spans["controller"]) == len(rows[CONTROLLERSHIPS])
    assert sum(len(spans[f"t/{n}"]) for n in range(12)) == len(rows[PARTITION_TENURES])
    assert {span["name"] for span in spans["t/3"]} <= {f"client-m{n}" for n in range(5)}
    assert spans["rebalance due"][0]["name"] == "client-m3 joined"
    ends = rows[PARTITIONS][0].to_ms * 1000
    for track in spans.values():
        track.sort(key=lambda span: (span["ts"], span["ts"] + span["dur"]))
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(track))
    assert max(s["ts"] + s["dur"] for s in spans["controller"]) == ends


def test_findings_of_groups_lie_on_their_group_partition_or_controllers(tmp_path: Path) -> None:
    log: GroupLog = shared().rewinds(0, 5).commits("m1", 0, 12, tenure=1)
    log.writes(MemberLeft("m1", ""), epoch=-2).at(5).starts(2)
    log.writes(MemberLeft("m1", ""), epoch=0)
    events, threads = of_groups(tmp_path / "t.json", folded(map(raw_of, log.records)))
    at = {
        event["name"]: threads.get((event["pid"], event["tid"]), event["s"])
        for event in events
        if event["ph"] == "i"
    }
    assert at["zombie_commit"] == at["rewound"] == "orders/0"
    assert at["event_without_fence"] == at["deposed_controller"] == "p"
