"""Marshal promises that a folder can be taken in at one look: at most twelve modules lie in it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("marshal", "model_tests", "tests", "tools", "benchmarks", "examples")
MODULES_MAX = 12


def crowded(root: Path) -> dict[str, int]:
    """Folders with more modules directly in them than that, and how many each has."""
    lie_in = Counter(
        path.parent.relative_to(root).as_posix()
        for folder in FOLDERS
        for path in (root / folder).rglob("*.py")
        if path.name != "__init__.py"
    )
    return {folder: modules for folder, modules in lie_in.items() if modules > MODULES_MAX}


def test_no_folder_has_more_than_twelve_modules() -> None:
    assert crowded(ROOT) == {}


def test_a_thirteenth_module_is_noticed(tmp_path: Path) -> None:
    room = tmp_path / "tests" / "room"
    (room / "inner").mkdir(parents=True)
    for name in ("__init__", "inner/other", *(f"module_{each}" for each in range(12))):
        (room / f"{name}.py").touch()
    assert crowded(tmp_path) == {}
    (room / "one_more.py").touch()
    assert crowded(tmp_path) == {"tests/room": 13}
