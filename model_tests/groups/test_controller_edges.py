"""Marshal promises that a controller does what `Controller.tla` does, in states of its models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.core.values import evolved
from kafka_marshal.machines.groups import controller
from kafka_marshal.machines.groups.control.holdings import Holdings, holdings_of
from kafka_marshal.modelcheck import models
from model_tests.groups import controllers, exports

Patch = pytest.MonkeyPatch


def test_a_controller_does_what_the_specification_does() -> None:
    for deed in controllers.sample():
        assert deed.taken() == deed.said


def test_the_sample_shows_every_kind_of_deed() -> None:
    kinds = Counter(
        (deed.kind, deed.said[0] if deed.kind != "Read" else None) for deed in controllers.sample()
    )
    assert kinds.keys() == {
        ("Receive", True),
        ("Receive", False),
        ("Answer", True),
        ("Answer", False),
        ("Read", None),
    }


def owns_what_is_revoked(group: Any) -> Holdings:
    made = holdings_of(group)
    own = {
        member: [*made.to_own.get(member, []), *made.owed.get(member, ())]
        for member in group.members
    }
    return evolved(made, to_own=own)


def goes_on(c: Any, record: Any, verdict: Any) -> Any:
    return evolved(c, pending=c.pending[1:])


WAYS: dict[str, tuple[str, Callable[..., Any]]] = {
    "never void": ("is_void", lambda c, key, connection: False),
    "landed at once": ("has_landed", lambda view, number: True),
    "waits for nothing of its own": ("needs", lambda c, view: view.number),
    "judges by the view": ("speculative", lambda c, view: view),
    "says all that it is asked": ("says_something", lambda group, event: True),
    "goes on after a refusal": ("after_own_event", goes_on),
    "knows no newest": ("taken", lambda c, key, connection: c),
}


@pytest.mark.parametrize("way", [*WAYS])
def test_a_controller_that_does_otherwise_is_noticed(way: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(controller, *WAYS[way])
    assert any(deed.taken() != deed.said for deed in controllers.sample())


def test_an_answer_of_what_must_be_let_go_is_noticed(monkeypatch: Patch) -> None:
    monkeypatch.setattr(controllers, "holdings_of", owns_what_is_revoked)
    assert any(deed.taken() != deed.said for deed in controllers.sample())


@pytest.mark.tlc
@pytest.mark.night
def test_a_controller_does_what_every_model_does(tmp_path: Path) -> None:
    lines = dict[str, controllers.Deed]()
    for model in models.read():
        if exports.of_timeless_worlds(model):
            lines.update(controllers.deeds(controllers.exported(model, tmp_path)))
    for deed in lines.values():
        assert deed.taken() == deed.said
    assert {*controllers.chosen(lines.items())} == {*exports.sample_lines(controllers.SAMPLE)}
