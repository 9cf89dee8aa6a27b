"""The folder for files that are downloaded or derived once and reused by every later run.

This module knows where the folder is, and how a file is added as a whole. It does not know the
contents: jars, compiled classes and trust stores belong to the modules that made them. Deleting the
folder only costs time.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kafka_marshal.scratch import Scratch


def folder() -> Path:
    """Return `$KAFKA_MARSHAL_CACHE`, or `kafka-marshal` in the user's cache folder; create it."""
    named = os.environ.get("KAFKA_MARSHAL_CACHE")
    if named:
        path = Path(named)
    else:
        # The XDG specification: empty counts as unset, and a relative path is to be ignored.
        base = os.environ.get("XDG_CACHE_HOME", "")
        path = (Path(base) if base.startswith("/") else Path.home() / ".cache") / "kafka-marshal"
    path.mkdir(parents=True, exist_ok=True)
    return path.absolute()


@contextlib.contextmanager
def made_beside(target: Path) -> Iterator[Path]:
    """Yield a path next to `target` for a new file or folder, then move that into place.

    A reader of `target` sees all of it or nothing, whatever stops the writer. If two files are
    written at the same time, the second one is kept. Of two folders the first one is kept, since a
    folder cannot be replaced in one step and both have the same content.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with Scratch("cache", beside=target) as desk:
        made = desk / target.name
        yield made
        if made.is_dir() and target.is_dir():
            return
        made.replace(target)
