"""A claim is not called wedged that waits for its turn while the application is at another one."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    yield from judged.history.wedged
