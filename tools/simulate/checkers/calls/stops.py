"""A consumer that is asked to stop ends in time, when there are no faults.

That is within two heartbeat intervals, and when appends that were under way have an outcome.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for process in judged.history.unended:
        yield f"{process} did not end in time"
