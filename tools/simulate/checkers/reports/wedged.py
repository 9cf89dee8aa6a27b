"""A claim that waits while the application is at another one is not reported as wedged."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    yield from judged.history.wedged
