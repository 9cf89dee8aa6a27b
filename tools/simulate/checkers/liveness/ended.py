"""Nobody ends by itself but for a reason that the run gave it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.judged import Judged

EXPECTED: Final = ("Broke", "HandlerFailed")
"""The application failed: see the fault `raises`."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for at_s, process, error in judged.history.ended:
        if error and not error.startswith(EXPECTED):
            yield f"{process} ended after {at_s:.1f} s: {error}"
