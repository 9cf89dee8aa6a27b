"""Applies an ordinary request in one pass: nearly every record of a shared claim is one.

A replay folds millions of them. This module defines no rule: `claiming_range` defines the effect of
a request, and also handles the ones that are not ordinary. Tests compare the two on logs of
arbitrary records, and on every step of `MCRanges`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from kafka_marshal.core.claims.fenced import KNOWN_VERSIONS
from kafka_marshal.core.messages import NOT_DECIMAL, ClaimingRange
from kafka_marshal.core.ranges.claiming_range import (
    RangeOutcome,
    frontier_max,
)
from kafka_marshal.core.ranges.messages import RangesRecord
from kafka_marshal.core.ranges.state import Interval, Limits, OpenRange, Ranges, SignOfLife
from kafka_marshal.core.ranges.verdicts import RangeAccepted, Unmet
from kafka_marshal.core.state import Claim, Rules

_MS: Final[Callable[[SignOfLife], int]] = attrgetter("ms")
_INSTANCE: Final[Callable[[SignOfLife], str]] = attrgetter("instance")


def ordinary_request(
    ranges: Ranges,
    claim: Claim,
    record: RangesRecord,
    message: ClaimingRange,
    rules: Rules,
    limits: Limits,
) -> RangeOutcome | None:
    """The result of `step`; None if the request is not ordinary, and `step` must be used.

    Spec: ClaimingRange. An ordinary request is accepted, gives nothing back, and finds no silent
    instance. The clock of `ranges` may be behind the claim's. The ranges must come from a fold:
    every holder is in `alive`.
    """
    if not _is_plain(ranges, claim, record, message):
        return None
    me, alive = message.instance_id, ranges.alive
    clock_ms = max(ranges.clock_ms, claim.clock_ms, record.timestamp_ms)
    if alive and clock_ms - min(map(_MS, alive)) > rules.stale_after_ms:
        return None
    at = bisect_left(alive, me, key=_INSTANCE)
    behind = at + 1 if at < len(alive) and alive[at].instance == me else at
    alive = (*alive[:at], SignOfLife(me, clock_ms), *alive[behind:])

    open_ = list(ranges.open)
    own = [number for number, each in enumerate(open_) if each.instance == me]
    held = len(own)
    done, seen = record.range_headers.done, record.headers.seen
    if done is not None and seen is not None:
        for number in reversed(own):  # from behind, so that the numbers stay right
            each = open_[number]
            if each.id > seen or done <= each.from_:
                continue
            if done < each.to:
                open_[number] = OpenRange(each.id, done, each.to, me)
            else:
                del open_[number]
                held -= 1

    pool, frontier = ranges.pool, ranges.frontier
    guard, granted = None, None
    if message.count == 0:
        pass
    elif pool:
        granted, *others = pool
        pool = tuple(others)
    elif held >= limits.open_ranges_max:
        guard = Unmet.TOO_MANY_OPEN
    elif len(open_) >= limits.intervals_max or frontier >= (most := frontier_max(ranges, claim)):
        guard = Unmet.WINDOW_FULL
    else:
        wanted = frontier + min(message.count, limits.range_messages_max)
        granted = Interval(frontier, min(wanted, most))
        frontier = granted.to
    verdict = RangeAccepted.RANGE_REFRESHED
    if granted is not None:
        verdict = RangeAccepted.RANGE_GRANTED
        open_.append(OpenRange(record.offset, granted.from_, granted.to, me))
    after = Ranges(ranges.window, frontier, tuple(open_), pool, alive, clock_ms)
    return RangeOutcome(after, verdict, guard)


def _is_plain(ranges: Ranges, claim: Claim, record: RangesRecord, message: ClaimingRange) -> bool:
    """Whether `range_guard` accepts it and it gives nothing back: the same check, but faster."""
    headers, said, offset = record.headers, record.range_headers, record.offset
    seen, epoch = headers.seen, headers.epoch
    return (
        said.keep is None
        and ranges.window is not None
        and claim.last_heartbeat_ms is not None
        and message.count >= 0
        and message.version in KNOWN_VERSIONS
        and (said.done is None if seen is None else seen < offset)
        and (epoch is None or epoch < offset)
        and NOT_DECIMAL
        not in (
            *(seen, epoch, headers.clock, headers.supersedes, headers.set_position),
            *(headers.interval_ms, headers.start, said.window, said.done),
        )
    )
