"""What must be so of every input, whatever it holds.

An input is read, or refused by a documented error. An error's text names the file, field or option,
is one printable line, and does not grow with the input. Anything else is a finding: another
exception, a crash, an input that takes too long, memory out of proportion, two readers that differ.
This room knows no target.
"""

from __future__ import annotations

import resource
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

LONGEST_TEXT: Final = 1000
"""Characters of an error's text, beside the names in it."""
MEMORY_BYTES: Final = 192 << 20
"""How much one input may take beyond the process's highest mark; see `MEMORY_FACTOR`."""
MEMORY_FACTOR: Final = 256
"""And how much more for each of its bytes."""
LONGEST_S: Final = 60.0
"""An input that takes longer hangs. A watchdog's limit, not a promise of speed."""


class Finding(Exception):
    """Something that must not be: `kind` is what of, `text` how it shows."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind, self.text = kind, text


def differs(what: str, ours: object, theirs: object) -> Finding:
    """Two readers of one input disagree."""
    return Finding("differs", f"{what}: {ours!r:.300} and {theirs!r:.300}")


@contextmanager
def refused_by(*documented: type[Exception], naming: str = "") -> Iterator[None]:
    """An input may be refused by these errors, if their text is as it must be."""
    try:
        yield
    except documented as error:
        check_text(str(error), naming)


def check_text(text: str, naming: str = "") -> None:
    """An error's text is one printable line, short, and names what it is about."""
    if naming not in text:
        raise Finding("text", f"does not name {naming}: {text!r:.300}")
    rest = text.replace(naming, "") if naming else text
    if not rest.strip(" :"):
        raise Finding("text", f"gives no reason: {text!r:.300}")
    if not rest.isprintable():
        raise Finding("text", f"not printable: {rest!r:.300}")
    if len(rest) > LONGEST_TEXT:
        raise Finding("text", f"{len(rest)} characters: {rest!r:.300}")


def finding_of(error: BaseException) -> Finding:
    """What an exception is that nothing has caught: the place in it is the last one of ours."""
    if isinstance(error, Finding):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "kafka_marshal" in frame.filename] or list(frames)
    at = f"{ours[-1].filename.rpartition('kafka_marshal/')[2]}:{ours[-1].lineno}"
    return Finding("traceback", f"{type(error).__name__} at {at}: {error!s:.200}")


def peak_bytes() -> int:
    """The most memory that this process ever held.

    Linux counts in `ru_maxrss` also what the process held that started this one.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * int(status.read_text(encoding="ascii").split("VmHWM:")[1].split()[0])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def check_memory(before: int, after: int, size: int) -> None:
    """One input did not take memory out of proportion."""
    limit = MEMORY_BYTES + MEMORY_FACTOR * size
    if after - before > limit:
        raise Finding("memory", f"{(after - before) >> 20} MiB for an input of {size} bytes")
