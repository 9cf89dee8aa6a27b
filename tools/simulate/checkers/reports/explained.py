"""The specification explains every event that consumers recorded (`marshal validate`)."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if judged.recorded is not None and judged.recorded.unexplained is not None:
        yield str(judged.recorded.unexplained)
