"""ReprocessingBound: at least once, nobody processes more than a window beyond the position."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import NO_EPOCH, Topic
from tools.simulate.judged.claims import Judged, place


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if not judged.setting.at_least_once:
        return
    history, window = judged.history, judged.setting.window
    highest: dict[Topic, int] = defaultdict(int)
    for where in history.ends:
        # What is gone from a topic is no part of a window.
        highest[where] = max(history.gone_below(where), default=0)
    seen = 0
    for appended, _, changes in judged.changes:
        for given in history.processed[seen : appended.processed]:
            sought = history.sought_by((given.where, given.epoch))
            end = max([highest[given.where], *sought]) + window
            ours = given.epoch != NO_EPOCH
            if ours and given.offset >= end and given.where not in judged.forgotten:
                yield f"{given.process}: {given.where} {given.offset} is not below {end}"
        seen = appended.processed
        for change in changes:
            where = place(change)
            highest[where] = max(highest[where], change.after.claim.position)
