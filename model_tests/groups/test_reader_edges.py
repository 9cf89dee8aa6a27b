"""Marshal promises that a late reader of groups knows what `GroupReader.tla` says it knows."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from kafka_marshal.core.groups import reducer
from kafka_marshal.core.groups.events import ControllershipSnapshot, EventRecord
from kafka_marshal.core.groups.state import Controllership
from kafka_marshal.machines.groups.control import controlled_log
from kafka_marshal.machines.groups.control.controlled_log import ControlledLog, LogKnowledge
from model_tests.groups import exports, readers

Patch = pytest.MonkeyPatch


def test_a_reader_knows_what_the_specifications_knows() -> None:
    for reading in readers.sample():
        assert reading.taken() == reading.said


def test_the_sample_shows_all_that_a_reader_can_know() -> None:
    shown = {(each.at_position, each.said[0]) for each in readers.sample()}
    assert shown == {
        (True, LogKnowledge.ALL),
        (False, LogKnowledge.ALL),
        (False, LogKnowledge.LOST),
    }
    firsts = {type(each.records[0].event) for each in readers.sample() if not each.at_position}
    assert ControllershipSnapshot in firsts


right = reducer.begun_at
begins = ControlledLog.begin


def unnumbered(record: EventRecord, event: ControllershipSnapshot) -> Controllership:
    return attrs.evolve(right(record, event), number=1)


def without_controller(record: EventRecord, event: ControllershipSnapshot) -> Controllership:
    return attrs.evolve(right(record, event), controller_id=None)


def trusts_any(log: ControlledLog, offset: int, *, at_position: bool) -> None:
    begins(log, offset, at_position=True)


WAYS = {
    "trusts any snapshot": (ControlledLog, "begin", trusts_any),
    "begins where the head is missing": (ControlledLog, "_head_is_missing", lambda log: False),
    "counts from the snapshot": (controlled_log, "begun_at", unnumbered),
    "forgets whose the snapshot is": (controlled_log, "begun_at", without_controller),
}


@pytest.mark.parametrize("way", [*WAYS])
def test_a_reader_that_does_otherwise_is_noticed(way: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(*WAYS[way])
    assert any(reading.taken() != reading.said for reading in readers.sample())


@pytest.mark.tlc
@pytest.mark.night
def test_a_reader_knows_what_the_specifications_knows_in_every_model(tmp_path: Path) -> None:
    found = readers.all_readings(tmp_path)
    for reading in found.values():
        assert reading.taken() == reading.said
    assert {*readers.chosen(found.items())} == {*exports.sample_lines(readers.SAMPLE)}, (
        "python -m model_tests.groups.readers writes it anew"
    )
