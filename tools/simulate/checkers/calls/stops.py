"""Without faults, a consumer that is asked to stop ends in time, and claims nothing more.

That is within two heartbeat intervals, and when appends that were under way have an outcome.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.judged.claims import Judged
from tools.simulate.process import LATE

IN_VAIN: Final = "the log of claims does not say that what this consumer had is given up"
"""What a consumer logs that waited for its releases for 30 s. While there are faults, the run
closes it before."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for process in judged.history.unended:
        yield f"{process} did not end in time"
    for line in judged.history.lines:
        if IN_VAIN in line:
            yield f"a consumer waited for its releases in vain: {line}"
    for where, epoch, who, _ in judged.wins():
        if where[0] == LATE:
            yield f"{who} claimed {where}, epoch {epoch}, which was added after `stop`"
