"""RangesDisjoint and more, of the log alone: no offset is held twice, or done too early."""

from __future__ import annotations

from collections.abc import Iterator

from tools.simulate.judged.claims import Judged

from kafka_marshal.core.ranges.invariants import position_is_low


def check(judged: Judged) -> Iterator[str]:
    """What is wrong."""
    for each in judged.shared.changes:
        named = f"{each.where}: record {each.appended.partition}/{each.appended.offset}"
        for broken in each.broken:
            yield f"{named} breaks {broken}"
        if not position_is_low(each.after.claim, each.after.ranges):
            position, low = each.after.claim.position, each.after.ranges.low
            yield f"{named}: the position is {position}, and {low} is not done"
