"""A consumer needs a bounded number of threads, and what it logs is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.judged import Judged

THREADS_MAX: Final = 16
LINES_EACH: Final = 4
"""Lines of one wording for each incident and partition."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    if history.threads_max > THREADS_MAX:
        yield f"a process had {history.threads_max} threads"
    incidents = len(history.faults) + sum(history.ways.values())
    most = LINES_EACH * incidents * len(history.ends)
    for line, count in history.lines.items():
        if count > most and "an observer of the consumer failed" not in line:  # each time it does
            yield f"{count} lines, and {incidents} incidents: {line}"
