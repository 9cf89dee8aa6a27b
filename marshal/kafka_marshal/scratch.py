"""Temporary folders; the next start removes those whose owner was killed.

The owner of a folder holds a lock on the file `OWNER` in it. The system releases the lock when the
owner ends, even by kill -9; process ids could be reused. A start removes each folder next to its
own whose lock is free. A folder without that file is never removed, whatever its name is.

This module does not know the content of folders. Nothing else in the project makes temporary files.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, TextIO

NAME: Final = "kafka-marshal-"
"""A part of the name of each of these folders."""
OWNER: Final = ".kafka-marshal-owner"
"""The file that the owner locks."""


def temporary_folder() -> Path:
    """The system's folder for temporary files."""
    return Path(tempfile.gettempdir())


def use_temporary_folder(folder: Path) -> None:
    """Use `folder` for temporary files, in this process and its children."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


class Scratch:
    """A temporary folder of this process; a context manager that returns its path.

    Creating one first removes folders of dead owners in the same parent folder.
    """

    def __init__(self, purpose: str, beside: Path | None = None) -> None:
        """Create the folder.

        Args:
            purpose: a word for its name.
            beside: a file or folder; the new folder is created next to it, hidden. None: in the
                system's temporary folder.

        Raises:
            OSError: it cannot be created.
        """
        self._parent = temporary_folder() if beside is None else beside.absolute().parent
        self._prefix = f"{'' if beside is None else f'.{beside.name}.'}{NAME}{purpose}-"
        sweep(self._parent)
        self.path: Path
        self._lock: int | None = None
        while self._lock is None:
            self.path = self._parent / f"{self._prefix}{secrets.token_hex(4)}"
            try:
                self.path.mkdir(0o700)
                self._lock = _locked(self.path / OWNER)
            except FileExistsError:  # another one's
                continue
            except BaseException:  # no sweep removes a folder that has no owner yet
                shutil.rmtree(self.path, ignore_errors=True)
                raise

    def __enter__(self) -> Path:
        return self.path

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def move_to(self, target: Path) -> None:
        """Move it to `target`, where it is an ordinary folder that is never removed.

        Raises:
            OSError: it cannot be moved; then it is removed.
        """
        (self.path / OWNER).unlink()
        try:
            self.path.rename(target)
        except OSError:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        finally:
            self._unlock()

    def close(self) -> None:
        """Remove it with all that is in it, unless it was moved or removed already."""
        if self._lock is not None:
            _remove(self.path)
            self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A file to fill with text in UTF-8; it becomes `path` when the block ends without an error.

    After an error or a power cut, `path` is as it was before.

    Raises:
        OSError: it cannot be written; the error names `path`, also if the disk is full.
    """
    try:
        with Scratch("file", beside=path) as folder:
            beside = folder / path.name
            with beside.open("w", encoding="utf-8", newline="\n") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
    except OSError as error:
        if error.filename is None or NAME in str(error.filename):  # not what the block has opened
            error.filename, error.filename2 = str(path), None
        raise


def sweep(parent: Path) -> None:
    """Remove folders in `parent` whose owner has ended. Those that cannot be removed stay."""
    with contextlib.suppress(OSError):
        for found in [Path(entry.path) for entry in os.scandir(parent) if NAME in entry.name]:
            with contextlib.suppress(OSError):
                _sweep_one(found)


def _sweep_one(found: Path) -> None:
    lock = os.open(found / OWNER, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(found)
    finally:
        os.close(lock)


def _locked(owner: Path) -> int | None:
    """Create and lock the file; None if a sweep removed it in between."""
    try:
        lock = os.open(owner, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileNotFoundError:
        return None
    # Without locks, no other process can hold one either, and nothing is swept.
    with contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)
    if owner.exists():
        return lock
    os.close(lock)
    return None


def _remove(folder: Path) -> None:
    """The owner's file last: a removal that is cut short is finished by the next sweep."""
    for entry in folder.iterdir():
        if entry.name == OWNER:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                entry.unlink()
    (folder / OWNER).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()
