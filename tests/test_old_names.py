"""The names of modules that 0.1.0 gave to users go on for a release, and warn."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

import pytest

from kafka_marshal.runtime import MOVED, RENAMED


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_is_the_module_under_its_new_one(
    old: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, f"kafka_marshal.{old}", raising=False)
    with pytest.warns(
        DeprecationWarning, match=f"kafka_marshal.{old} is kafka_marshal.{MOVED[old]}"
    ):
        found = import_module(f"kafka_marshal.{old}")
    new = import_module(f"kafka_marshal.{MOVED[old]}")
    renamed = RENAMED.get(old, {})
    assert found is new or renamed
    assert {getattr(found, name) is getattr(new, name) for name in dir(new) if name[0] != "_"} == {
        True
    }
    for before, after in renamed.items():
        assert getattr(found, before) is getattr(new, after)


def test_the_warning_names_the_line_that_imports() -> None:
    sys.modules.pop("kafka_marshal.runtime.consumer", None)
    with pytest.warns(DeprecationWarning, match="goes with the next release") as warned:
        exec(compile("from kafka_marshal.runtime.consumer import Consumer", __file__, "exec"), {})
    assert {each.filename for each in warned} == {__file__}


def test_what_never_was_is_not_found() -> None:
    assert find_spec("kafka_marshal.runtime.nothing") is None
    assert find_spec("kafka_marshal.client.nothing") is None
