"""The holder of a range gets exactly the messages at its offsets, in order, each once.

The holder is the instance that the log granted it to. Nothing begins under a range that is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged

from kafka_marshal.core.ranges.verdicts import RangeAccepted


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    granted: dict[tuple[Topic, int], tuple[str, int, int]] = {}
    for each in judged.shared.changes:
        if each.verdict is RangeAccepted.RANGE_GRANTED:
            new = each.after.ranges.open[-1]
            granted[each.where, new.id] = new.instance, new.from_, new.to
    latest: dict[tuple[str, Topic, int], int] = {}
    for given in history.given_of_ranges:
        assert given.range is not None
        what = f"{given.process}: {given.where} {given.offset} of range {given.epoch}"
        said = given.instance, given.range.start, given.range.end
        if granted.get((given.where, given.epoch)) != said:
            log = granted.get((given.where, given.epoch))
            yield f"{what} was given to {said}, and the log granted it to {log}"
        if not given.range.start <= given.offset < given.range.end:
            yield f"{what} is outside of {given.range}"
        if given.withheld:
            yield f"{what} began, and was {given.withheld}"
        if given.beside:
            yield f"{what} began, and another of its lane was in hand"
        again = (given.process, given.where, given.offset) in history.raised
        if given.unordered:
            continue
        tenure = given.process, given.where, given.epoch
        before = latest.get(tenure, given.range.start - 1)
        # What was being delivered when a call was interrupted is lost at most once.
        lost = not judged.setting.at_least_once and given.process in history.survived
        follows = given.offset > before if lost else given.offset == before + 1
        if not follows and not (again and given.offset == before):
            yield f"{what} came after {before}"
        latest[tenure] = given.offset
    processed = Counter(
        (given.process, given.where, given.epoch, given.offset)
        for given in history.processed_of_ranges
        if not given.unordered  # what comes after a message that failed is done once more
    )
    for (process, where, id_, offset), times in processed.items():
        if times > 1:
            yield f"{process}: {where} {offset} of range {id_} was processed {times} times"
