"""The part of a run that is shown is a run, small, and fails for the same reason."""

from __future__ import annotations

import json

import pytest

from kafka_marshal.counterexample import itf, story_text
from kafka_marshal.validate import run_of, slice_of, story_of
from kafka_marshal.validate.slices import Slice
from tests.validate.mutations import MUTATIONS, mutated
from tests.validate.samples import RUNS, judged, rows


def part_of(lines: list[dict[str, object]]) -> Slice:
    unexplained = judged(lines).unexplained
    assert unexplained is not None
    run = run_of(lines)
    return slice_of(run.setting, run.events, unexplained)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_slice_fails_as_the_run_does_and_is_no_longer(name: str) -> None:
    lines = rows(5, 400)
    for changed in mutated(lines, name):
        unexplained = judged(changed).unexplained
        if unexplained is None:
            continue
        part = part_of(changed)
        again = judged(part.rows()).unexplained
        assert again is not None
        assert unexplained.same_fault(again)
        assert again.number == len(part.events) <= unexplained.number
        story = story_of(part, "a test")
        assert part.unexplained.why in story_text(story)
        assert itf.loads(itf.dumps(story)) == story
        return
    pytest.fail("no place at which it is noticed")


def test_the_slice_of_a_long_run_is_short_and_shows_how_it_came_to_that() -> None:
    lines = [json.loads(line) for line in (RUNS / "grants_itself.jsonl").open()]
    part = part_of(lines)
    assert len(part.events) <= 12
    story = story_text(story_of(part, "a test"))
    assert "it was granted 0 to 3" in story
    assert "NotGranted forbids it (R4, AtMostOnce)" in story


def test_a_slice_names_only_who_takes_part() -> None:
    lines = [json.loads(line) for line in (RUNS / "grants_itself.jsonl").open()]
    assert len(part_of(lines).setting.members) == 1
