"""Every distinct step that TLC takes in worlds of `MCGroupEvents.tla`, held against `step`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kafka_marshal.core.groups.invariants import STATE_CHECKS, STEP_CHECKS, broken
from kafka_marshal.core.groups.verdicts import GroupAccepted, GroupRefused, OfAPosition, OfARelease
from kafka_marshal.modelcheck import models
from model_tests.groups import edges, exports

ONE = "MCGroupEvents_Incremental"


def test_groups_take_the_steps_of_the_sample_as_the_specification_does() -> None:
    for row in edges.sample():
        assert row.taken() == row.said


def test_the_sample_shows_every_verdict_on_an_event() -> None:
    shown = {verdict for row in edges.sample() for verdict in edges.verdicts(row.said)}
    assert shown == {*GroupAccepted, *GroupRefused, *OfAPosition, *OfARelease}


def test_no_step_of_the_sample_breaks_a_property() -> None:
    assert STATE_CHECKS
    assert STEP_CHECKS
    for row in edges.sample():
        assert broken(row.step_taken()) == set()


@pytest.mark.tlc
def test_groups_take_every_step_of_a_model_as_the_specification_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = edges.held(models.find(ONE, models.read()))
    assert held.partings == 0, held.first
    with capsys.disabled():
        print(f"\n  {held.name}: {held.rows:,} rows from {held.edges:,} edges, all as in Python")


@pytest.mark.tlc
@pytest.mark.night
def test_groups_take_every_step_of_every_model_as_the_specification_does(tmp_path: Path) -> None:
    kinds: Counter[object] = Counter()
    lines = []
    for model in models.read():
        if edges.of_groups(model):
            for line, row in edges.rows_of(edges.exported(model, tmp_path).path):
                lines.append((line, row))
                kinds.update(edges.verdicts(row.said))
                assert row.taken() == row.said
    assert kinds.keys() == {*GroupAccepted, *GroupRefused, *OfAPosition, *OfARelease}
    fresh = set(edges.chosen(iter(lines)))
    assert fresh == {*exports.sample_lines(edges.SAMPLE)}, (
        "python -m model_tests.groups.edges writes it anew"
    )
