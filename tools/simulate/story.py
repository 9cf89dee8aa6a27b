"""A run as a story: what happened to one partition, in order, until a promise was broken.

It tells the faults, the records of the partition in the log and what they did, callbacks, which
messages were given to whom, and processes that ended. It judges nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tools.simulate.history import Given, Topic
from tools.simulate.judged.claims import Judged
from tools.simulate.judged.ranges import SharedChange

WHERE: Final = re.compile(r"\('([^']+)', (\d+)\)")
"""How checkers name a partition."""
RECORD: Final = re.compile(r"record (\d+)/(\d+)")
"""How checkers name a record, by coordinating partition and offset."""
TOGETHER_S: Final = 0.5
"""Messages that are given within this time are one line."""
LINES_MAX: Final = 80
"""The last lines of a story; what lies before is counted."""


def story(judged: Judged, began_s: float, violations: list[str]) -> tuple[str, ...]:
    """All faults; if something is wrong, all that concerns the partition that it names first."""
    history = judged.history
    told = [(began_s + at_s, "FAULT", f"{name}: {what}") for at_s, name, what in history.faults]
    if violations:
        told += [(at_s, who, f"ended: {error or 'well'}") for at_s, who, error in history.ended]
        named = WHERE.search(violations[0])
        if named is not None:
            told += _of((named[1], int(named[2])), judged)
        broken = RECORD.search(violations[0])
        for appended in history.log if broken is not None else ():
            if broken is not None and broken.groups() == (
                f"{appended.partition}",
                f"{appended.offset}",
            ):
                told = [each for each in told if each[0] <= appended.at_s]
    told.sort(key=lambda each: each[0])
    lines = [f"{at_s - began_s:9.3f} s  {who:14} {what}" for at_s, who, what in told]
    left = len(lines) - LINES_MAX
    return (f"({left} lines before)", *lines[left:]) if violations and left > 0 else tuple(lines)


def _of(where: Topic, judged: Judged) -> Iterator[tuple[float, str, str]]:
    history = judged.history
    names = {one.instance: one.process for one in history.given}
    names.update((one.instance, one.process) for one in history.called)
    for appended, record, changes in judged.changes:
        message = record.message
        for change in changes:
            if (change.key.topic, change.key.topic_partition) == where:
                who = names.get(message.instance_id, message.client_id)
                at = getattr(message, "offset", None)
                said = type(message).__name__ + ("" if at is None else f" at {at}")
                did = "nothing" if change.verdict is None else change.verdict.value
                position = change.after.claim.position
                what = f"record {appended.offset}, {said}: {did}; position {position}"
                yield appended.at_s, who, what
    names.update((one.instance, one.process) for one in history.given_of_ranges)
    for shared in judged.shared.changes:
        if shared.where == where:
            yield shared.appended.at_s, *_told(shared, names)
    for called in history.called:
        if (called.topic, called.partition) == where:
            why = f" ({called.reason})" if called.reason else ""
            yield called.at_s, called.process, f"is told: {called.kind}{why}, epoch {called.epoch}"
    together: list[Given] = []
    for given in (*history.given, *history.given_of_ranges):
        if given.where == where:
            if together and not _goes_on(together, given):
                yield _given(together)
                together = []
            together.append(given)
    if together:
        yield _given(together)


def _told(shared: SharedChange, names: dict[str, str]) -> tuple[str, str]:
    message, more, after = shared.record.message, shared.record.range_headers, shared.after
    at = getattr(message, "offset", getattr(message, "count", None))
    said = "".join(
        f", {name} {value}" for name in ("window", "done", "keep") if (value := getattr(more, name))
    )
    held = ", ".join(
        f"{each.id}: {each.from_}-{each.to} {names.get(each.instance, each.instance[:6])}"
        for each in after.ranges.open
    )
    free = ", ".join(f"{each.from_}-{each.to}" for each in after.ranges.pool)
    return names.get(message.instance_id, message.instance_id[:6]), (
        f"record {shared.appended.offset}, {type(message).__name__} {at}{said}: "
        f"{shared.verdict.value}; position {after.claim.position}, frontier "
        f"{after.ranges.frontier}, open [{held}], pool [{free}]"
    )


def _goes_on(together: list[Given], given: Given) -> bool:
    first, last = together[0], together[-1]
    return (given.process, given.epoch, given.offset) == (
        last.process,
        last.epoch,
        last.offset + 1,
    ) and given.at_s - first.at_s < TOGETHER_S


def _given(together: list[Given]) -> tuple[float, str, str]:
    first, last = together[0], together[-1]
    which = f"{first.offset}" if first is last else f"{first.offset} to {last.offset}"
    return first.at_s, first.process, f"is given {which}, epoch {first.epoch}"
