"""ReleaseRepeatsNothing: without faults, an orderly stop leaves nothing to redo.

It holds no range any more, and the log has as done what it processed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.checkers.ranges.ranges_done import failing, is_done
from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged

from kafka_marshal.core.ranges.state import Ranges


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    failed = failing(judged)
    for index, process, instance in judged.history.ended_well:
        if process in failed:
            continue
        last: dict[Topic, Ranges] = {}
        for change in judged.shared.changes:
            if change.appended.index < index:
                last[change.where] = change.after.ranges
        for where, ranges in last.items():
            for held in ranges.open_of(instance):
                yield f"{process} ended in order, and holds {where} {held.from_} to {held.to}"
        for given in judged.history.processed_of_ranges:
            if given.process == process and not is_done(last.get(given.where), given.offset):
                yield f"{process} processed {given.where} {given.offset}, and the log has it not"
