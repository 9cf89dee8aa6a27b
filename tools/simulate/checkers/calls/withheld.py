"""No message begins of a lost or silent claim, of a paused topic, or after `stop`.

Nor what a `seek` has passed over. Nobody can know that before he looks, so each thread may still
begin one message. Lists are given out whole. At most once, what was granted may begin though the
claim is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tools.simulate.history import Given
from tools.simulate.judged.claims import Judged

TASKS: Final = 5
"""How many of an event loop's tasks may begin one each."""


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    begun = Counter(
        (given.process, given.worker, given.withheld, given.where, given.epoch, _in_tasks(given))
        for given in judged.history.given
        if given.withheld
    )
    for (process, _, why, where, epoch, in_tasks), count in begun.items():
        if count > (TASKS if in_tasks else 1):
            yield f"{process}: {count} messages of {where} epoch {epoch} began, though it is {why}"


def _in_tasks(given: Given) -> bool:
    return given.unordered and not given.worker.startswith("marshal-worker")
