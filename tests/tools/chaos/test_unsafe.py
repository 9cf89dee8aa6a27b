"""Marshal promises to report an unsafe setting that does no harm, or that nobody names."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from tools.chaos.unsafe import STORIES, Told

from kafka_marshal.client.connect.coordination_topic import BECAUSE
from kafka_marshal.replay.findings.catalogue import CATALOGUE

[ACKS] = [story for story in STORIES if story.setting == "acks=1"]
TOLD = Told(ACKS, 0, 20, {"acks"}, {"failover_times"})


def test_a_setting_that_loses_and_is_named_and_found_is_a_row_of_the_table() -> None:
    assert TOLD.wrong() == []
    assert TOLD.row() == (
        "| `acks=1` | 20 messages that come again after their consumer ended in order (safe: 0) "
        "| `acks` | `failover_times` |"
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"safe": 1}, f"acks=1: 1 {ACKS.lost} with the safe setting"),
        ({"unsafe": 0}, f"acks=1: no {ACKS.lost} with the unsafe setting"),
        ({"named": set()}, "acks=1: marshal doctor does not name it"),
        ({"found": {"lost_races"}}, "acks=1: nothing finds it: failover_times"),
    ],
)
def test_a_row_that_does_not_hold_is_wrong(changed: dict[str, Any], sentence: str) -> None:
    assert attrs.evolve(TOLD, **changed).wrong() == [sentence]


def test_stories_wait_for_findings_that_the_replay_has() -> None:
    for story in STORIES:
        assert story.finding in CATALOGUE or ": " in story.finding
        assert story.check in BECAUSE or story.check in ("acks", "enable.idempotence")
