"""NothingHidden: at most once, receipts list every message that was lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if judged.setting.at_least_once:
        return
    history = judged.history
    given: dict[Topic, set[int]] = defaultdict(set)
    for each in history.given:
        given[each.where].add(each.offset)
    for where, position in judged.positions().items():
        lost = set(range(position)) - given[where]
        for offset in sorted(lost - judged.listed.get(where, set())):
            yield f"{where} {offset} was granted, given to nobody, and no receipt lists it"
