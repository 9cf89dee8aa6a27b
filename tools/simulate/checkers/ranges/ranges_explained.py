"""At most once, an undelivered message was held by somebody who went silent or stopped with it.

Or it was reserved when ranges began anew: a claim that is won without ranges skips the reserve.
"""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.checkers.ranges.ranges_done import failing
from tools.simulate.history import Topic
from tools.simulate.judged.claims import Judged

from kafka_marshal.core.ranges.verdicts import RangeAccepted


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    history = judged.history
    if judged.setting.at_least_once or not judged.setting.shared:
        return
    given = {(one.where, one.offset) for one in history.given_of_ranges}
    failed = {one.instance for one in history.given_of_ranges if one.process in failing(judged)}
    lost: set[tuple[Topic, int]] = set()
    for each in judged.shared.changes:
        after = {one.id: one for one in each.after.ranges.open}
        sender = each.record.message.instance_id
        granted = each.verdict is RangeAccepted.RANGE_GRANTED
        new = each.after.ranges.open[-1:] if granted else ()
        for one in new:
            offsets = {(each.where, at) for at in range(one.from_, one.to)}
            lost = lost | offsets if one.instance in failed else lost - offsets
        before = each.before.ranges
        if before.has_begun and not each.after.ranges.has_begun:
            position = each.before.claim.position
            lost |= {(each.where, at) for at in range(before.frontier, position)}
        for one in before.open:
            if one.id not in after and one.instance != sender:
                lost |= {(each.where, at) for at in range(one.from_, one.to)}
    for where, end in history.ends.items():
        if where[0] not in judged.setting.shared:
            continue
        missed = [at for at in range(end) if (where, at) not in given and (where, at) not in lost]
        if missed:
            yield f"{where}: {missed[:5]} of {len(missed)} were given to nobody, for no reason"
