"""Every record that lands in `MCDeliveries.tla` is counted by the Python as TLC counts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.core.ranges.deliveries import AllTaken, Taken, after_taken, times_taken
from kafka_marshal.modelcheck import models
from model_tests import from_tla, tlc_export
from model_tests.edges import consumer_edges
from model_tests.explorer import configuration
from model_tests.ranges import from_tla as ranges_from_tla

MODULE = Path(__file__).parent / "DeliveriesEdges.tla"
MODEL = "MCDeliveries_AloTwo"
BY_DAY = {"Window": 3, "OpenRangesMax": 1}
"""Bounds of 5,000 states in place of 30,000; what is counted wrongly shows in them, too."""


def taken(value: Any) -> AllTaken:
    """Spec: the variable `taken` of MCDeliveries."""
    rows = [from_tla.fields(each) for each in value]
    found = (Taken(row["from"], row["to"], row["times"]) for row in rows)
    return tuple(sorted(found, key=lambda each: each.from_))


@pytest.mark.tlc
def test_what_was_taken_is_counted_as_the_specification_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config
) -> None:
    model = consumer_edges.find(MODEL)
    text = configuration.without_promises(model.cfg)
    for name, bound in () if pytestconfig.getoption("all") else BY_DAY.items():
        text = re.sub(rf"{name} = \d+", f"{name} = {bound}", text)
    cfg = tmp_path / f"{MODEL}.cfg"
    cfg.write_text(f"{text}ACTION_CONSTRAINT ExportDeliveries\n", encoding="utf-8")
    export = tlc_export.export(
        MODULE,
        cfg,
        tmp_path / "rows.tsv",
        workers=2,
        check_deadlock=model.deadlock_check,
        short=True,
        libraries=models.libraries(),
    )
    rows, most = 0, 0
    exported: Iterator[Any] = export.read()
    for before, ranges_before, record, ranges_after, after in exported:
        landed = ranges_from_tla.landed(record)
        ours = after_taken(
            taken(before),
            landed.record.message,
            ranges_from_tla.ranges(ranges_before),
            ranges_from_tla.ranges(ranges_after),
        )
        assert ours == taken(after)
        rows += 1
        most = max([most, *(times_taken(ours, each.from_) for each in ours)])
    with capsys.disabled():
        print(f"\n  {MODEL}: {rows:,} rows, all as in Python; taken {most} times at most")
    assert rows > 10
    assert most == 2
