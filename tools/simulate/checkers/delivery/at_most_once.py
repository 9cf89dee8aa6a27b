"""AtMostOnce: no message is delivered twice, except after a set position or a lost grant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.simulate.judged.claims import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if judged.setting.at_least_once:
        return
    times = Counter(
        (given.where, judged.generation_of(given), given.offset) for given in judged.history.given
    )
    for (where, _, offset), count in times.items():
        if count > 1 and offset not in judged.lost_grants[where]:
            yield f"{where} offset {offset} was given {count} times"
