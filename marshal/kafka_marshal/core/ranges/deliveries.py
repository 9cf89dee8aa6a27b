"""Counts how often the messages of a range were given to a holder that then fell silent.

No record states this number; it follows from the log. If a range is taken from its holder because
the holder was silent, the holder may have begun any message of it, so each of them counts once
more. Offsets that were given back were not begun, and finished ones are not granted again, so
neither count. Nothing here affects who is granted what.

Ranges and intervals of the pool are cut but never merged, so all offsets of one have the same
count. One number for each is enough, and none for those that were never taken. Spec: module
Deliveries.

>>> from kafka_marshal.core.messages import ClaimingRange
>>> from kafka_marshal.core.ranges.state import OpenRange
>>> asks = ClaimingRange(1, 1700000000, "i2", "c2", "g", "events", 0, 10)
>>> before = Ranges(100, 10, open=(OpenRange(8, 0, 10, "i1"),))
>>> after = Ranges(100, 10, open=(OpenRange(9, 0, 10, "i2"),))
>>> taken = after_taken(NOTHING_TAKEN, asks, before, after)
>>> taken, deliveries_of(taken, 4), deliveries_of(taken, 10)
((Taken(from_=0, to=10, times=1),), 2, 1)
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kafka_marshal.core.messages import ClaimingRange
from kafka_marshal.core.ranges.messages import RangesMessage
from kafka_marshal.core.ranges.state import Interval, OpenRange, Ranges
from kafka_marshal.core.values import value


@value
class Taken:
    """The offsets from `from_` up to `to`: open, or in the pool, and taken from silent holders."""

    from_: int
    to: int
    times: int
    """The number of silent holders, at least 1."""


AllTaken: TypeAlias = tuple[Taken, ...]
"""By offset; offsets that are missing were never taken."""

NOTHING_TAKEN: Final[AllTaken] = ()
"""Before the first record, and for a reader that begins in the middle. Spec: NothingTaken."""


def times_taken(taken: AllTaken, offset: int) -> int:
    """The number of silent holders from which an offset was taken. Spec: TimesTaken."""
    return next((each.times for each in taken if each.from_ <= offset < each.to), 0)


def deliveries_of(taken: AllTaken, offset: int) -> int:
    """An upper bound on how often an offset was delivered, with the current or next delivery.

    Spec: DeliveriesOf. Keeps: BegunIsCounted. It counts since the reader began.
    """
    return times_taken(taken, offset) + 1


def taken_by(message: RangesMessage, before: Ranges, after: Ranges) -> list[OpenRange]:
    """The ranges that a record took from silent holders.

    Spec: TakenBy. A ClaimingRange ends ranges of others only because they are silent.
    """
    if not isinstance(message, ClaimingRange) or before.open is after.open:
        return []
    left = {each.id for each in after.open}
    return [
        each for each in before.open if each.instance != message.instance_id and each.id not in left
    ]


def after_taken(taken: AllTaken, message: RangesMessage, before: Ranges, after: Ranges) -> AllTaken:
    """The counts after one more record, which led from some ranges to others.

    Spec: AfterTaken. Keeps: CountsTheSilent, CountsAreBounded, CountsNeverFall.
    """
    gone = taken_by(message, before, after)
    if not gone and not taken:
        return taken  # most records
    found = []
    intervals: list[OpenRange | Interval] = [*after.open, *after.pool]
    for each in sorted(intervals, key=lambda each: each.from_):
        now = len([r for r in gone if r.from_ <= each.from_ < r.to])
        times = times_taken(taken, each.from_) + now
        if times:
            found.append(Taken(each.from_, each.to, times))
    return tuple(found)
