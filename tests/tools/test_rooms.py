"""The tables of rooms are what the modules write about themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.rooms import PACKAGE, modules, packages, pages, renewed


def test_the_pages_list_what_the_modules_write() -> None:
    for path, text in pages().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: make docs"


def test_a_package_and_a_module_at_the_top_are_rooms_of_the_map() -> None:
    names = {room.name for room in packages(PACKAGE)}
    assert {"kafka_marshal.core", "kafka_marshal.codec", "kafka_marshal.replay.findings"} <= names
    assert "kafka_marshal.core.claims.world" not in names
    assert "kafka_marshal.core.claims.world" in {room.name for room in modules(PACKAGE)}


def test_a_module_without_a_docstring_is_an_error(tmp_path: Path) -> None:
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    with pytest.raises(ValueError, match="has no docstring"):
        list(modules(package))


def test_a_page_without_marks_is_an_error() -> None:
    with pytest.raises(ValueError, match="needs the marks"):
        renewed("# Architecture\n", "rooms of the package", "| a |")
