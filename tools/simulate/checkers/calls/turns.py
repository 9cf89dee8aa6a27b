"""While another claim waits, a claim's messages are delivered for about a second only.

It is judged where an application takes one message at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tools.simulate.judged.claims import Judged

TURN_S: Final = 2.5
"""After this many seconds no message of the same turn begins."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for given in judged.history.given:
        if given.turn_s > TURN_S:
            yield (
                f"{given.process}: {given.where} {given.offset} began {given.turn_s:.1f} s after "
                f"its turn, and another claim waited"
            )
