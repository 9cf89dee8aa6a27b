"""The pictures of the documentation are those that `make docs` draws."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tools.pictures import maps
from tools.pictures.__main__ import FOLDER, LINES, claim_picture, edges, pictures
from tools.pictures.group import joins_and_failover
from tools.pictures.maps import imports, layers, overview, packages
from tools.pictures.sequence import at_most_once

from kafka_marshal import Accepted
from kafka_marshal.counterexample import StepKind
from tests.triples import read


def test_the_pictures_are_drawn_from_what_was_explored() -> None:
    drawn = pictures()
    assert {path.name for path in FOLDER.iterdir()} == drawn.keys()
    for name, picture in drawn.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == picture, f"{name}: make docs"
        ElementTree.fromstring(picture)


def test_every_verdict_of_the_fenced_rules_is_in_the_picture_of_a_claim() -> None:
    original = {Accepted.OVERWRITTEN, Accepted.IGNORED}
    shown = {
        verdict
        for messages in edges(read()).values()
        for verdicts in messages.values()
        for verdict in verdicts
    }
    assert shown == {each.value for each in Accepted if each not in original}


def test_a_transition_without_a_line_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(LINES, ("free", "owned"))
    with pytest.raises(KeyError, match="owned"):
        claim_picture(read())


def test_the_map_of_packages_shows_imports_of_lower_layers_only() -> None:
    height = {room: number for number, layer in enumerate(layers()) for room in layer}
    shown = [(room, other) for room, (ours, _) in imports().items() for other in ours]
    assert ("client", "machines") in shown
    assert [(a, b) for a, b in shown if height[a] >= height[b]] == []


def test_no_words_beside_the_map_of_packages_reach_over_its_edge() -> None:
    """DejaVu Sans, which most Linux systems show, takes 7 pixels a letter in size 12."""
    drawn = ElementTree.fromstring(packages())
    edge = int(drawn.attrib["viewBox"].split()[2])
    beside = [each for each in drawn.iter() if each.get("class") == "note left"]
    assert beside
    for each in beside:
        assert float(each.attrib["x"]) + 7 * len(each.text or "") <= edge, each.text


def test_a_part_of_the_overview_that_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = maps.Part(0, 0, 100, "", ("marshal/kafka_marshal/gone",))
    monkeypatch.setattr(maps, "PARTS", {"reducer": gone})
    with pytest.raises(FileNotFoundError, match="gone, of reducer"):
        overview()


def test_at_most_once_no_message_is_handed_over_twice_in_its_picture() -> None:
    steps = at_most_once().steps
    assert [step.label for step in steps if step.kind is StepKind.PROCESSED] == [
        "hands over 0 to 99",
        "hands over 100 to 199",
    ]
    assert [step.verdict for step in steps if step.refused] == ["Superseded"]


def test_a_partition_moves_when_it_was_let_go_and_a_failover_moves_none_in_the_picture() -> None:
    steps = joins_and_failover().steps
    stops, granted, crashes = (
        next(step.number for step in steps if step.label.endswith(label))
        for label in ("stops partition 1 at offset 41", "owns 1", "crashes")
    )
    let_go = [step.number for step in steps if step.label == "Reconciled, m1"][-1]
    assert stops < let_go < granted < crashes
    asked = [step for step in steps[crashes:] if step.label.startswith("Heartbeat")]
    assert {(step.source, step.label) for step in asked} == {
        ("m1", "Heartbeat, generation 8"),
        ("m2", "Heartbeat, generation 8"),
    }
    answers = {step.target: step.label for step in steps[crashes:] if step.source == "c2"}
    assert answers == {"log": "ControllerStarted", "m1": "nothing changed", "m2": "nothing changed"}
    assert [step.verdict for step in steps[crashes:] if step.verdict] == ["Started"]
