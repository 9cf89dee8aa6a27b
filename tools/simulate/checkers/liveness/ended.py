"""Nobody stops without a cause in the run, and no exception is swallowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.faults import FAULTS
from tools.simulate.judged.claims import Judged

EXPECTED: Final = ("Broke", "HandlerFailed")
"""The application failed: see the fault `raises`. What else a fault leads to, it says itself."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    expected = [*EXPECTED, *(end for name in judged.history.happened for end in FAULTS[name].ends)]
    yield from judged.history.unhandled
    for at_s, process, error in judged.history.ended:
        if error and not error.startswith(tuple(expected)):
            yield f"{process} ended after {at_s:.1f} s: {error}"
