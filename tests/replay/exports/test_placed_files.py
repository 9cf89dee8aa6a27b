"""Marshal promises that a replay that fails leaves no export: the rerun would be refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafka_marshal.replay import Exports, InvalidOption, ReplayError, run
from kafka_marshal.replay.exports.files import PlacedFiles
from kafka_marshal.replay.state.checkpoint import Checkpoint
from kafka_marshal.scratch import Scratch
from tests.replay.live.feeding import CAPTURES

THEFT = next(path for path in CAPTURES if path.stem.startswith("d3_"))
NAMES = ("f.json", "f.sarif", "f.xml")


def replay(folder: Path, **options: Any) -> None:
    exports = folder / "exports"
    run(
        [str(THEFT)],
        out=folder / "out",
        heartbeat_interval_s=4,
        engine="local",
        checkpoint=folder / "kept",
        exports=Exports(exports / "f.sarif", exports / "f.xml", exports / "f.json"),
        **options,
    )


def exports_of(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "exports").iterdir())


def full(*_: object) -> None:
    raise OSError(28, "No space left on device", "the disk")


@pytest.mark.parametrize("step", [(Checkpoint, "commit"), (Scratch, "move_to")])
def test_a_run_that_fails_after_its_exports_leaves_none_and_runs_again(
    step: tuple[type, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(*step, full)
        with pytest.raises(ReplayError, match="the disk: cannot be written: No space left"):
            replay(tmp_path)
    assert exports_of(tmp_path) == []
    assert not (tmp_path / "out").exists()
    replay(tmp_path)
    assert exports_of(tmp_path) == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_appears_meanwhile_is_kept_and_no_other_export_is_left(
    name: str, tmp_path: Path
) -> None:
    def appears(step: str) -> None:
        if step == "writing tables":
            (tmp_path / "exports").mkdir()
            (tmp_path / "exports" / name).write_text("precious")

    with pytest.raises(ReplayError, match=f"{name}: exists already"):
        replay(tmp_path, on_progress=appears)
    assert exports_of(tmp_path) == [name]
    assert (tmp_path / "exports" / name).read_text() == "precious"


def test_an_export_that_cannot_be_moved_takes_back_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def second_fails(path: Path, target: Path) -> Path:
        if target.name == NAMES[1]:
            raise PermissionError(13, "Permission denied", str(path), None, str(target))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(ReplayError, match=r"exports/f\.sarif: cannot be written: Permission"):
        replay(tmp_path)
    assert exports_of(tmp_path) == []


@pytest.mark.parametrize("name", ["checkpoint.json", "run-00001-f.sarif"])
def test_an_export_in_the_checkpoint_is_refused(name: str, tmp_path: Path) -> None:
    """Its name may be that of a file of the checkpoint."""
    path, kept = tmp_path / "kept" / name, tmp_path / "kept"
    with pytest.raises(InvalidOption, match=f"--sarif {path} lies within --checkpoint {kept}"):
        run([str(THEFT)], out=tmp_path / "out", checkpoint=kept, exports=Exports(sarif=path))
    assert list(tmp_path.iterdir()) == []


def test_files_in_their_place_stay_if_nothing_fails(tmp_path: Path) -> None:
    beside, place = tmp_path / ".f", tmp_path / "f"
    beside.write_text("findings")
    with PlacedFiles() as placed:
        placed.move(beside, place)
    assert place.read_text() == "findings"
