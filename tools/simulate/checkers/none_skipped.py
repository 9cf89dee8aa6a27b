"""NoneSkipped: at least once, the log's position passes over no message that nobody processed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged import Judged


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if not judged.setting.at_least_once:
        return
    history = judged.history
    done: dict[Topic, set[int]] = defaultdict(set)
    below: dict[Topic, int] = defaultdict(int)
    """Every message of a partition below this is processed."""
    seen = 0
    for appended, _, changes in judged.changes:
        while seen < appended.processed:
            given = history.processed[seen]
            done[given.where].add(given.offset)
            seen += 1
        for change in changes:
            where = change.key.topic, change.key.topic_partition
            position = change.after.claim.position
            while below[where] < position and below[where] in done[where]:
                done[where].discard(below[where])
                below[where] += 1
            if position > below[where]:
                yield (
                    f"{where}: record {appended.partition}/{appended.offset} moved the position "
                    f"to {position}, and {below[where]} was not processed then"
                )
                below[where] = position
