"""The lock on a checkpoint: only one process at a time may resume from it.

On a file system, a lock ends with its owner. A store has no locks. There the lock is an object with
a random word of the owner, and it remains if the owner is killed. If two processes take it at the
same moment, both may believe that they have it. Then the later word is valid, and `check` refuses
the other's commit.
"""

from __future__ import annotations

import contextlib
import fcntl
import uuid
from pathlib import Path
from typing import IO, Protocol

from kafka_marshal.replay.errors import CheckpointRefused
from kafka_marshal.replay.places import UriPath

LOCK = "lock"
"""The file in the folder."""


class CheckpointLock(Protocol):
    """Held from its making to its close."""

    def check(self) -> None:
        """Raise CheckpointRefused if another process has taken it since."""

    def close(self) -> None:
        """Release it."""


def locked(folder: Path) -> CheckpointLock:
    """Lock an existing folder.

    Raises:
        CheckpointRefused: another process holds it.
        OSError: the folder cannot be written to.
    """
    if isinstance(folder, UriPath):
        return _LockObject(folder)
    return _LockFile(folder)


class _LockFile:
    def __init__(self, folder: Path) -> None:
        self._file: IO[str] = (folder / LOCK).open("w")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise CheckpointRefused(f"{folder}: another process goes on with it") from None

    def check(self) -> None:
        """The system sees to it."""

    def close(self) -> None:
        self._file.close()


class _LockObject:
    def __init__(self, folder: UriPath) -> None:
        self._place, self._word = folder / LOCK, uuid.uuid4().hex
        folder.check_root()
        if self._place.exists():
            raise CheckpointRefused(
                f"{folder}: another process goes on with it; if it was killed, remove {self._place}"
            )
        self._place.write_text(self._word)
        self.check()

    def check(self) -> None:
        if self._told() != self._word:
            raise CheckpointRefused(f"{self._place.parent}: another process goes on with it")

    def close(self) -> None:
        with contextlib.suppress(OSError):  # it stays, and the next one says so
            if self._told() == self._word:
                self._place.unlink()

    def _told(self) -> str:
        try:
            return self._place.read_text()
        except FileNotFoundError:
            return ""
