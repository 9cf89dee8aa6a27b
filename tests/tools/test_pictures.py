"""The pictures of the documentation are those that `make docs` draws."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tools.pictures import FOLDER, LINES, claim_picture, edges, pictures

from kafka_marshal import Accepted
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
