"""Marshal promises that a process which is killed leaves no folder for good."""

from __future__ import annotations

import fcntl
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafka_marshal import scratch
from kafka_marshal.scratch import OWNER, Scratch, whole_file

OWNING = """
import sys, time
from pathlib import Path
from kafka_marshal.scratch import Scratch
beside = Path(sys.argv[1]) if sys.argv[1:] else None
folder = Scratch("test", beside).path
(folder / "deep" / "deeper").mkdir(parents=True)
(folder / "deep" / "deeper" / "file").write_text("half")
print(folder, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary folder of these tests, in other processes too."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@contextmanager
def owner(*beside: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that owns a folder, and the folder."""
    command = [sys.executable, "-c", OWNING, *map(str, beside)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


def test_the_next_start_removes_what_a_killed_process_left(temporary: Path) -> None:
    with owner() as (process, left):
        process.kill()
        process.wait()
        assert (left / "deep" / "deeper" / "file").exists()
        with Scratch("other") as made:
            assert list(temporary.iterdir()) == [made]
    assert list(temporary.iterdir()) == []


def test_a_folder_whose_making_is_interrupted_is_gone(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(owner: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scratch, "_locked", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Scratch("test")
    assert not [*temporary.iterdir()]


def test_a_folder_whose_owner_lives_is_kept(temporary: Path) -> None:
    with owner() as (_, living):
        for _ in range(2):
            with Scratch("other") as made:
                assert set(temporary.iterdir()) == {living, made}
        assert (living / "deep" / "deeper" / "file").exists()


def test_what_is_being_written_beside_its_target_is_swept_there(tmp_path: Path) -> None:
    target = tmp_path / "outputs" / "out"
    target.parent.mkdir()
    with owner(target) as (process, left):
        process.kill()
        process.wait()
        assert left.parent == target.parent
        with Scratch("other", beside=target):
            assert not left.exists()


def test_a_folder_of_somebody_else_is_never_touched(temporary: Path) -> None:
    clone = temporary / "kafka-marshal-checkout"
    (clone / "spec").mkdir(parents=True)
    file = temporary / "kafka-marshal-notes.txt"
    file.write_text("mine")
    with Scratch("other"):
        pass
    assert set(temporary.iterdir()) == {clone, file}
    assert (clone / "spec").is_dir()


def test_a_folder_that_is_moved_is_a_folder_like_any_other(temporary: Path) -> None:
    target = temporary / "kafka-marshal-report"
    made = Scratch("out", beside=target)
    (made.path / "table").write_text("all of it")
    made.move_to(target)
    made.close()
    with Scratch("other"):
        pass
    assert list(temporary.iterdir()) == [target]
    assert [path.name for path in target.iterdir()] == ["table"]


def test_a_folder_that_cannot_be_moved_is_gone(temporary: Path) -> None:
    target = temporary / "taken"
    target.write_text("somebody was faster")
    made = Scratch("out", beside=target)
    with pytest.raises(OSError, match="taken"):
        made.move_to(target)
    assert list(temporary.iterdir()) == [target]


def test_a_sweep_between_making_and_locking_makes_it_anew(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept: list[Path] = []
    lock = fcntl.flock

    def late(file: int, how: int) -> None:
        if not swept:
            swept.extend(temporary.iterdir())
            scratch._remove(swept[0])
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with Scratch("slow") as made:
        assert made not in swept
        assert (made / OWNER).exists()
    assert list(temporary.iterdir()) == []


def test_a_removal_that_is_cut_short_is_finished_by_the_next_sweep(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with owner() as (process, left):
        process.kill()
        process.wait()
        (left / "unremovable").write_text("")
        unlink = Path.unlink

        def cut_short(path: Path, missing_ok: bool = False) -> None:
            if path.name == "unremovable":
                raise KeyboardInterrupt
            unlink(path, missing_ok)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", cut_short)
            with pytest.raises(KeyboardInterrupt):
                scratch.sweep(temporary)
        assert (left / OWNER).exists()
        scratch.sweep(temporary)
    assert list(temporary.iterdir()) == []


def test_a_file_for_which_there_is_no_room_is_named_and_left_as_it_was(tmp_path: Path) -> None:
    path, limits = tmp_path / "log", resource.getrlimit(resource.RLIMIT_FSIZE)
    path.write_text("before")
    resource.setrlimit(resource.RLIMIT_FSIZE, (3, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large") as raised, whole_file(path) as file:
            file.write("after")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert raised.value.filename == str(path)
    assert (path.read_text(), list(tmp_path.glob("*log*"))) == ("before", [path])
    with whole_file(path) as file:
        file.write("after")
    assert path.read_text() == "after"


def test_an_error_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="elsewhere"), whole_file(tmp_path / "log"):
        (tmp_path / "elsewhere").read_text()
