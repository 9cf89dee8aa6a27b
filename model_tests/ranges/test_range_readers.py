"""What every reader that begins in the middle knows of ranges, in each log of `MCRangesSuffix.tla`.

The logs are a record shorter than the models' and tell time by the clock, as the Python does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from kafka_marshal.core.ranges import reader
from kafka_marshal.core.ranges.reader import FoldedState, LogEntry, RangesReader
from kafka_marshal.core.ranges.state import Limits
from kafka_marshal.core.state import Rules
from kafka_marshal.modelcheck import models
from kafka_marshal.modelcheck.tlc.values import Value
from kafka_marshal.scratch import Scratch
from model_tests import from_tla, tlc_export
from model_tests.edges import consumer_edges
from model_tests.explorer import configuration
from model_tests.ranges import from_tla as ranges_from_tla

MODULE = Path(__file__).parent / "RangesSuffixEdges.tla"
BY_THE_CLOCK = {
    "RecordSaysStale": "ClockSaysStale",
    "RecordSaysPaused": "ClockSaysPaused",
    "RecordSaysSilent": "ClockSaysSilent",
    "NoSteps": "ClockSteps",
    "AnySilent": "NoChoice",
}


@attrs.frozen
class Row:
    """A log, and by the offset where reading begins, the states that TLC says."""

    rules: Rules
    limits: Limits
    log: tuple[LogEntry, ...]
    candidates: tuple[frozenset[FoldedState], ...]


def state(value: Value) -> FoldedState:
    given = from_tla.fields(value)
    return FoldedState(from_tla.claim(given["claim"]), ranges_from_tla.ranges(given["ranges"]))


def entry(value: Value) -> LogEntry:
    given = from_tla.fields(value)
    held = [state(each) for each in given["checkpoint"]]
    return LogEntry(ranges_from_tla.landed(given["record"]).record, held[0] if held else None)


def rows(name: str, log_max: int) -> Iterator[Row]:
    model = consumer_edges.find(name)
    text = configuration.without_promises(model.cfg)
    for free, clock in BY_THE_CLOCK.items():
        text = text.replace(f"<- {free}", f"<- {clock}")
    text = re.sub(r"LogMax = \d+", f"LogMax = {log_max}", text)
    with Scratch("range-readers") as folder:
        cfg = folder / f"{name}.cfg"
        cfg.write_text(f"{text}ACTION_CONSTRAINT ExportReaders\n", encoding="utf-8")
        target = folder / f"{name}.tsv"
        exported = tlc_export.export(
            MODULE,
            cfg,
            target,
            workers=2,
            check_deadlock=False,
            short=True,
            libraries=models.libraries(),
        )
        values: Iterator[Any] = exported.read()
        for bounds, entries, found in values:
            interval_ms, pause_max_ms, *limits = bounds
            yield Row(
                from_tla.rules("fenced", interval_ms, pause_max_ms),
                Limits(*limits),
                tuple(map(entry, entries)),
                tuple(frozenset(map(state, each)) for each in found),
            )


@pytest.mark.tlc
@pytest.mark.parametrize(
    "name", ["MCRangesSuffix_Alo", pytest.param("MCRangesSuffix_Amo", marks=pytest.mark.night)]
)
def test_a_late_reader_knows_of_ranges_what_the_specification_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    readers = known = 0
    for row in rows(name, 3):
        for first, expected in enumerate(row.candidates, start=1):
            suffix = [each for each in row.log if each.record.offset >= first]
            found = reader.candidates(suffix, first, row.rules, row.limits)
            late = RangesReader(first, row.rules, row.limits)
            for each in suffix:
                late.read(each)
            assert found == late.candidates == expected, (row, first)
            assert reader.ranges_known(suffix, first, row.rules, row.limits) == (len(found) == 1)
            readers, known = readers + 1, known + (late.known is not None)
    assert known
    with capsys.disabled():
        print(f"\n  {name}: {readers:,} readers as in TLC, {known:,} of them know")
