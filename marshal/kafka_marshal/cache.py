"""The folder for files that are downloaded or derived once and reused by every later run.

It knows where the folder is and how a file gets into it whole. It does not know what is in it:
jars, compiled classes and trust stores belong to the rooms that made them. Deleting the folder
costs time and nothing else.
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
    """Yield a path beside `target` to write a file or folder to, then move it in place.

    A reader of `target` sees all of it or nothing, whatever stops the writer. Of two files written
    at the same time the second one stays. Of two folders the first one stays, since a folder cannot
    be replaced in one step and both hold the same.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with Scratch("cache", beside=target) as desk:
        made = desk / target.name
        yield made
        if made.is_dir() and target.is_dir():
            return
        made.replace(target)
