"""The names of modules that 0.1.0 gave to users go on for a release, and warn."""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from importlib import import_module
from importlib.util import find_spec

import pytest

from kafka_marshal.runtime import MOVED, RENAMED
from tests.upgrade.versions import WHEEL


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


@pytest.mark.parametrize("old", sorted(MOVED))
def test_what_0_1_0_exported_is_found_under_its_old_name(old: str) -> None:
    with zipfile.ZipFile(WHEEL) as wheel:
        path = f"kafka_marshal/{old.replace('.', '/')}.py"
        source = wheel.read(path).decode() if path in wheel.namelist() else ""
    defined = [
        node.name
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_")
    ]
    exported = re.search(r"__all__ = (\[.*?\])", source, re.DOTALL)
    names = [*defined, *(ast.literal_eval(exported[1]) if exported else [])]
    module = import_module(f"kafka_marshal.{old}")
    assert [name for name in names if not hasattr(module, name)] == []


def test_the_warning_names_the_line_that_imports() -> None:
    sys.modules.pop("kafka_marshal.runtime.consumer", None)
    with pytest.warns(DeprecationWarning, match="goes with the next release") as warned:
        exec(compile("from kafka_marshal.runtime.consumer import Consumer", __file__, "exec"), {})
    assert {each.filename for each in warned} == {__file__}


def test_what_never_was_is_not_found() -> None:
    assert find_spec("kafka_marshal.runtime.nothing") is None
    assert find_spec("kafka_marshal.client.nothing") is None
