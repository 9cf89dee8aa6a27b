"""NoneSkipped: an offset that the log calls done was processed before.

At most once it was given, at least. A commit that has returned is in the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged
from tools.simulate.judged.ranges import SharedChange

from kafka_marshal.core.ranges.state import Ranges


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    at_least_once = judged.setting.at_least_once
    failed = {one.instance for one in history.given_of_ranges if one.process in failing(judged)}
    processed: set[tuple[Topic, int]] = set()
    if not at_least_once:
        processed = {(one.where, one.offset) for one in history.given_of_ranges}
    seen = 0
    for each in judged.shared.changes:
        for given in history.processed_of_ranges[seen : each.appended.processed_of_ranges]:
            processed.add((given.where, given.offset))
        seen = each.appended.processed_of_ranges
        if not at_least_once and each.record.message.instance_id in failed:
            continue
        for offset in newly_done(each):
            if (each.where, offset) not in processed:
                yield (
                    f"{each.where}: record {each.appended.partition}/{each.appended.offset} says "
                    f"that {offset} is done, and nobody had processed it"
                )
    states = iter(judged.shared.changes)
    last: dict[Topic, Ranges] = {}
    change = next(states, None)
    for index, commit in history.committed_of_ranges if at_least_once else ():
        while change is not None and change.appended.index < index:
            last[change.where], change = change.after.ranges, next(states, None)
        if not is_done(last.get(commit.where), commit.offset):
            yield (
                f"{commit.process}: {commit.where} {commit.offset}, range {commit.epoch}: its "
                f"commit has returned, and the log did not have it"
            )


def failing(judged: Judged) -> set[str]:
    """Processes that gave up what they had in hand."""
    history = judged.history
    raised = {process for process, _, _ in history.raised}
    ended = {one for _, one, error in history.ended if error}
    # At most once, what nobody knows to be delivered counts as done.
    survived = set[str]() if judged.setting.at_least_once else history.survived
    return ended | raised | history.interrupted | survived


def newly_done(change: SharedChange) -> Iterator[int]:
    """What its holder says is done, by this record."""
    before, after = change.before.ranges, change.after.ranges
    if not before.has_begun or before.window != after.window:
        return
    sender = change.record.message.instance_id
    for each in before.open:
        if each.instance == sender:
            yield from (at for at in range(each.from_, each.to) if is_done(after, at))


def is_done(ranges: Ranges | None, offset: int) -> bool:
    """It is below the frontier, and nobody's."""
    if ranges is None or not ranges.has_begun:
        return False
    taken = [*((each.from_, each.to) for each in ranges.open)]
    taken += [(each.from_, each.to) for each in ranges.pool]
    return offset < ranges.frontier and not any(begin <= offset < end for begin, end in taken)
