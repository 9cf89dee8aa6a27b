"""NoneSkipped: at least once, the log's position never passes an unprocessed message."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator

from tools.simulate.history import History, Topic
from tools.simulate.judged.claims import Judged, has_set, place


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    if not judged.setting.at_least_once:
        return
    history = judged.history
    done: dict[tuple[Topic, int], set[int]] = defaultdict(set)
    """By partition, and how often its position was set before that tenure."""
    below: dict[Topic, int] = defaultdict(int)
    """Every message of a partition below this is processed."""
    gone_below: dict[Topic, int] = defaultdict(int)
    """Every message of a partition below this was removed by then."""
    seen = 0
    removed = {where: deque(found) for where, found in history.removed.items()}
    for index, (appended, record, changes) in enumerate(judged.changes):
        below.update(judged.set_back.get(index, {}))
        while seen < appended.processed:
            given = history.processed[seen]
            where = given.where
            # Where the log lost records, messages that were processed before count, too.
            generation = 0 if where in judged.cut_off else judged.generation_of(given)
            done[where, generation].add(given.offset)
            seen += 1
        for change in changes:
            where = place(change)
            position = change.after.claim.position
            if has_set(change, record):
                below[where] = position
                continue
            cut_off = where in judged.cut_off
            generation = 0 if cut_off else judged.generation(where, appended.index)
            its, gone = done[where, generation], removed.get(where)
            while gone and gone[0][0] <= appended.index:
                gone_below[where] = gone.popleft()[1]
            epoch = change.before.claim.epoch
            passed_over = _passed_over(history, where, epoch, appended.index)
            while below[where] < position and (
                below[where] in its or below[where] < max(gone_below[where], passed_over)
            ):
                below[where] += 1
            if position > below[where]:
                yield (
                    f"{where}: record {appended.partition}/{appended.offset} moved the position "
                    f"to {position}, and {below[where]} was not processed then"
                )
                below[where] = position


def _passed_over(history: History, where: Topic, epoch: int | None, index: int) -> int:
    """Everything below was passed over by a `seek` of that tenure, before this append."""
    sought = (one for one in history.sought if one.tenure == (where, epoch) and one.log <= index)
    return max((one.offset for one in sought), default=0)
