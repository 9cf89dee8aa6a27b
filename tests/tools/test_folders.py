"""Marshal promises that a folder can be taken in at one look: at most twelve modules lie in it.

A module of the specification counts as one of Python does, and has its name alone.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("spec", "marshal", "model_tests", "tests", "tools", "benchmarks", "examples")
MODULES_MAX = 12
SUFFIXES = {".py", ".tla"}


def crowded(root: Path) -> dict[str, int]:
    """Folders with more modules directly in them than that, and how many each has."""
    lie_in = Counter(
        path.parent.relative_to(root).as_posix()
        for folder in FOLDERS
        for path in (root / folder).rglob("*")
        if path.suffix in SUFFIXES and path.name != "__init__.py"
    )
    return {folder: modules for folder, modules in lie_in.items() if modules > MODULES_MAX}


def ambiguous(spec: Path) -> set[str]:
    """Names that two modules have: TLC would take whichever folder it looks in first."""
    names = Counter(path.name.lower() for path in spec.rglob("*.tla"))
    return {name for name, modules in names.items() if modules > 1}


def test_no_folder_has_more_than_twelve_modules() -> None:
    assert crowded(ROOT) == {}


@pytest.mark.parametrize(("room", "suffix"), [("tests/room", ".py"), ("spec/claims", ".tla")])
def test_a_thirteenth_module_is_noticed(tmp_path: Path, room: str, suffix: str) -> None:
    folder = tmp_path / room
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").touch()
    for name in ("inner/other", *(f"module_{each}" for each in range(12))):
        (folder / f"{name}{suffix}").touch()
    assert crowded(tmp_path) == {}
    (folder / f"one_more{suffix}").touch()
    assert crowded(tmp_path) == {room: 13}


def test_no_two_modules_of_the_specification_have_one_name() -> None:
    assert ambiguous(ROOT / "spec") == set()


def test_a_second_module_of_one_name_is_noticed(tmp_path: Path) -> None:
    for room in ("claims", "ranges"):
        (tmp_path / room).mkdir()
        (tmp_path / room / f"Of_{room}.tla").touch()
    (tmp_path / "claims" / "Lists.tla").touch()
    assert ambiguous(tmp_path) == set()
    (tmp_path / "ranges" / "Lists.tla").touch()
    assert ambiguous(tmp_path) == {"lists.tla"}
