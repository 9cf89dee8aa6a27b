"""NoneSkipped: at least once, the log's position passes over no message that nobody processed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged import Judged

from kafka_marshal.core.claims.verdicts import Accepted


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if not judged.setting.at_least_once:
        return
    history = judged.history
    done: dict[tuple[Topic, int], set[int]] = defaultdict(set)
    """By partition, and how often its position was set before that tenure."""
    below: dict[Topic, int] = defaultdict(int)
    """Every message of a partition below this is processed."""
    seen = 0
    for appended, _, changes in judged.changes:
        while seen < appended.processed:
            given = history.processed[seen]
            done[given.where, judged.generation(given.where, given.epoch)].add(given.offset)
            seen += 1
        for change in changes:
            where = change.key.topic, change.key.topic_partition
            position = change.after.claim.position
            if change.verdict is Accepted.POSITION_SET:
                below[where] = position
                continue
            its = done[where, judged.generation(where, appended.offset)]
            while below[where] < position and below[where] in its:
                its.discard(below[where])
                below[where] += 1
            if position > below[where]:
                yield (
                    f"{where}: record {appended.partition}/{appended.offset} moved the position "
                    f"to {position}, and {below[where]} was not processed then"
                )
                below[where] = position
