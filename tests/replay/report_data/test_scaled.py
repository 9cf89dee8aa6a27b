"""Marshal promises that what a big replay's page counts is what the tables hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kafka_marshal.replay import Exports, run
from kafka_marshal.replay.model.folded_log import CLAIM
from kafka_marshal.replay.report import ReportData, render
from kafka_marshal.replay.report.base.scale import COLUMNS
from kafka_marshal.replay.report_data import large as scaled
from kafka_marshal.replay.report_data import small as present
from tests.replay import dumps
from tests.replay.fleets import fleet


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[ReportData]]:
    """A replay of a fleet whose page is made as if it were a big one.

    `tests/replay/engines/test_local.py` has one on Spark, which makes the same.
    """
    folder = tmp_path_factory.mktemp("fleet")
    dumps.write(folder / "log" / "part-0.parquet", dumps.table(fleet(3, 4_000)))
    pages: list[ReportData] = []

    def kept(data: ReportData) -> str:
        pages.append(data)
        return render(data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(present, "CLAIMS_MAX", 0)
        patch.setattr(scaled, "WHOLE_MAX", 5)
        patch.setattr(scaled, "BRIEF_MAX", 2)
        patch.setattr(import_module("kafka_marshal.replay.protocols.claims"), "render", kept)
        run(
            [str(folder / "log")],
            out=folder / "out",
            heartbeat_interval_s=4,
            rules="both",
            exports=Exports(perfetto=folder / "t.json.gz"),
            engine="local",
        )
    return folder / "out", pages


def _name(row: Mapping[Any, Any]) -> tuple[object, ...]:
    return tuple(row[column] for column in CLAIM)


def test_a_big_replays_page_counts_what_the_tables_hold(
    told: tuple[Path, list[ReportData]],
) -> None:
    out, (data,) = told
    scale = data.scale
    assert scale is not None
    findings = pd.read_parquet(out / "findings")
    tenures = pd.read_parquet(out / "tenures")
    assert sum(total.findings for total in scale.totals) == len(findings)
    (heat,) = scale.heats
    assert sum(row.total for row in heat.codes) == findings["timestamp_ms"].notna().sum()
    assert all(0 <= at < COLUMNS for row in heat.codes for at in row.counts)
    serious = findings[findings["severity"].isin(["error", "warning"])]
    assert sum(row.total for row in heat.groups) == serious["group"].notna().sum()
    errors = Counter(
        _name(row)
        for row in serious.dropna(subset=["topic"]).to_dict("records")
        if row["severity"] == "error"
    )
    assert len(scale.claims) == 12
    by_rules = {rules: of.to_dict("records") for rules, of in tenures.groupby("rules")}
    for counted in scale.claims:
        claim = counted.claim
        name = (
            claim.log, claim.coordinating_partition, claim.group, claim.topic,
            claim.topic_partition,
        )  # fmt: skip
        assert counted.errors == errors[name]
        mine = [[row for row in rows if _name(row) == name] for rows in by_rules.values()]
        assert counted.tenures == max(map(len, mine))
        assert counted.takeovers == max(
            sum(row["began"] == "took_over" for row in rows) for rows in mine
        )
        until = data.logs[0].to_ms
        assert until is not None
        assert counted.unowned_ms == max(_unowned(rows, until) for rows in mine)
    assert scale.claims[0].errors == max(errors.values())


def _unowned(rows: list[dict[Any, Any]], until: float) -> float:
    rows = sorted(rows, key=lambda row: int(str(row["from_offset"])))
    begins = [float(str(row["from_ms"])) for row in rows[1:]] + [until]
    return sum(
        max(0.0, begin - float(str(row["to_ms"])))
        for row, begin in zip(rows, begins, strict=True)
        if row["to_ms"] == row["to_ms"] and row["to_ms"] is not None
    )


def test_the_worst_come_with_everything_and_the_next_with_tenures(
    told: tuple[Path, list[ReportData]],
) -> None:
    out, (data,) = told
    assert data.scale is not None
    details = list(data.scale.details.values())
    assert [detail.tenures_only for detail in details] == [False] * 5 + [True] * 7
    for counted, detail in zip(data.scale.claims, details, strict=True):
        assert detail.timeline.claim == counted.claim
        lanes = detail.timeline.lanes
        most = max(len(lane.tenures) for lane in lanes)
        assert most == (min(2, counted.tenures) if detail.tenures_only else counted.tenures)
        assert any(lane.marks for lane in lanes) is not detail.tenures_only
        for lane in lanes:
            offsets = [tenure.from_offset for tenure in lane.tenures]
            assert offsets == sorted(offsets)
    assert (out.parent / "t.json.gz").stat().st_size > 1_000
