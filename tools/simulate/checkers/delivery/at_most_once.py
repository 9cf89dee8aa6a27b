"""AtMostOnce: no message is given to an application twice, but where its position was set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if judged.setting.at_least_once:
        return
    times = Counter(
        (given.where, judged.generation(given.where, given.epoch), given.offset)
        for given in judged.history.given
    )
    for (where, _, offset), count in times.items():
        if count > 1:
            yield f"{where} offset {offset} was given {count} times"
