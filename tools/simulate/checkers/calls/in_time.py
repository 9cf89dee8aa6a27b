"""Without faults, a call that waits for messages returns within its timeout."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.judged.claims import Judged

SLACK_S: Final = 1.0
"""How much longer a call may take, in seconds: other threads go on meanwhile."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for call in judged.history.calls:
        if call.took_s > call.timeout_s + SLACK_S:
            yield (
                f"{call.process}: {call.what} took {call.took_s:.1f} s, and was to return within "
                f"{call.timeout_s:g} s"
            )
