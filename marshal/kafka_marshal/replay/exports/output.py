"""The output folder: written next to its place, and moved into place when it is complete.

A run that fails leaves no folder, and never changes an earlier run's folder. A store has no move:
there the folder is written in place, `summary.json` last.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_marshal.errors import naming
from kafka_marshal.replay.errors import OutputExists, ReplayError
from kafka_marshal.replay.places import UriPath, reason_of, remove_tree
from kafka_marshal.scratch import Scratch


@contextmanager
def placed(out: Path, *, there: bool = False) -> Iterator[Path]:
    """A folder to fill; it becomes `out` at the end of the block, and is removed after an error.

    `there`: it is `out` from the beginning, for content with absolute paths.

    Raises:
        OutputExists: `out` exists, before or after.
        ReplayError: it cannot be created.
    """
    refuse_existing(out)
    if there or isinstance(out, UriPath):
        with _written_there(out):
            out.mkdir(parents=True)
            yield out
        return
    parent = out.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        desk = Scratch("replay", beside=out)
    except OSError as error:
        raise ReplayError(f"{out}: cannot write there: {error.strerror or error}") from None
    beside = desk.path
    try:
        with naming(out, beside):
            yield beside
            for stray in beside.rglob(".*.crc"):
                stray.unlink()
            beside.chmod(0o777 & ~umask())  # mkdtemp made it for us alone
            refuse_existing(out)
            desk.move_to(out)
    except OSError as error:  # a full disk, for example
        raise ReplayError(f"{error.filename}: cannot be written: {error.strerror}") from None
    finally:
        desk.close()


@contextmanager
def _written_there(out: Path) -> Iterator[None]:
    """Remove written files if the block fails."""
    try:
        yield
    except OSError as error:
        remove_tree(out)
        place = error.filename or out
        raise ReplayError(f"{place}: cannot be written: {reason_of(error)}") from None
    except BaseException:
        remove_tree(out)
        raise


def refuse_existing(out: Path, option: str = "--out") -> None:
    """Refuse to overwrite an earlier output.

    Raises:
        OutputExists: the output exists.
        ReplayError: its store cannot be accessed, or the bucket does not exist.
    """
    try:
        if isinstance(out, UriPath):
            out.check_root()
        exists = out.exists() or out.is_symlink()
    except OSError as error:
        raise ReplayError(f"{option} {out}: {reason_of(error)}") from None
    if exists:
        raise OutputExists(f"{out}: exists already; give another {option}, or remove it first")


def umask() -> int:
    """The user's permission mask for new files."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
