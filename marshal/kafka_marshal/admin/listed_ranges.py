"""The ranges of a shared claim, as `marshal ls` lists them: their holders, and which are silent.

Values alone: `shared_claims` folds them, and `cli.cluster.shared_claims` draws them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from attrs import frozen

from kafka_marshal.admin.shared_claims import FoldedSharedClaim
from kafka_marshal.core.ranges.state import OpenRange, Ranges
from kafka_marshal.core.state import Claim, Rules

AT_LEAST_ONCE: Final = "at_least_once"
AT_MOST_ONCE: Final = "at_most_once"


@frozen
class ListedRange:
    """Offsets that one instance holds."""

    id: int
    """Log offset of the request that was granted them."""
    start: int
    end: int
    """The next offset after it."""
    instance: str


@frozen
class ListedInterval:
    """Offsets that were given back, or taken from a silent holder; the next request gets them."""

    start: int
    end: int


@frozen
class ListedHolder:
    """An instance that sent a record since its claim is shared, and was not forgotten."""

    instance: str
    client: str | None
    """None if no request of it was read: a checkpoint names instances only."""
    ranges: int
    messages: int
    """Offsets that it holds, whether or not messages exist there yet."""
    heard_ms: int
    """The time of its last record, by the brokers' clock, unix ms."""
    silent: bool
    """It was silent for more than two heartbeat intervals, by this machine's clock."""
    to_pool: int
    """Offsets that others get if it stays silent: those at or above the position."""
    to_forget: int
    """Offsets that are never granted again if it stays silent: those below the position, at most
    once."""


@frozen
class ListedRanges:
    """The ranges of one claim. If they are unknown, every other field is None or empty."""

    knowledge: str
    """known or unknown: without the log's head only a checkpoint makes ranges known."""
    delivery: str | None = None
    """at_least_once or at_most_once."""
    window: int | None = None
    """How far the frontier may be ahead of the position, in offsets; 0 is at most once."""
    asleep: bool | None = None
    """Whether the claim has no owner, so that nothing is granted until an anchor wins it."""
    anchor_client: str | None = None
    """The client id of the anchor; None if there is no owner."""
    anchor_instance: str | None = None
    frontier: int | None = None
    """Every offset below it was granted."""
    open: tuple[ListedRange, ...] = ()
    """By id."""
    pool: tuple[ListedInterval, ...] = ()
    """By offset."""
    holders: tuple[ListedHolder, ...] = ()
    """By instance id."""
    undone: int | None = None
    """Messages that exist and are not done, granted or not; None if the end is unknown."""
    ahead: int | None = None
    """Offsets that were granted before messages exist there; None like `undone`."""
    reserved: int | None = None
    """At most once, offsets that the anchor has reserved and that were not granted yet."""


UNKNOWN: Final = ListedRanges("unknown")


def listed_ranges(
    shared: FoldedSharedClaim, end: int | None, now_ms: int, rules: Rules
) -> ListedRanges:
    """The ranges at `now_ms` of this machine; `end` is the end offset of the data partition."""
    claim, ranges = shared.claim, shared.ranges
    if ranges is None:
        return UNKNOWN
    at_most_once = ranges.window == 0
    granted = [(one.from_, one.to) for one in ranges.open]
    granted += [(one.from_, one.to) for one in ranges.pool]
    undone = ahead = None
    if end is not None:
        undone = sum(_below(end, *each) for each in granted) + max(0, end - ranges.frontier)
        ahead = sum(to - from_ - _below(end, from_, to) for from_, to in granted)
    return ListedRanges(
        knowledge="known",
        delivery=AT_MOST_ONCE if at_most_once else AT_LEAST_ONCE,
        window=ranges.window,
        asleep=not claim.owned,
        anchor_client=claim.owner_client,
        anchor_instance=claim.owner_instance,
        frontier=ranges.frontier,
        open=tuple(ListedRange(one.id, one.from_, one.to, one.instance) for one in ranges.open),
        pool=tuple(ListedInterval(one.from_, one.to) for one in ranges.pool),
        holders=tuple(_holders(claim, ranges, shared, now_ms, rules)),
        undone=undone,
        ahead=ahead,
        reserved=max(0, claim.position - ranges.frontier) if at_most_once else None,
    )


def _holders(
    claim: Claim, ranges: Ranges, shared: FoldedSharedClaim, now_ms: int, rules: Rules
) -> Iterable[ListedHolder]:
    for sign in ranges.alive:
        open_ = ranges.open_of(sign.instance)
        messages = _count(open_)
        to_forget = sum(_below(claim.position, one.from_, one.to) for one in open_)
        yield ListedHolder(
            instance=sign.instance,
            client=shared.clients.get(sign.instance),
            ranges=len(open_),
            messages=messages,
            heard_ms=sign.ms,
            silent=now_ms - sign.ms > rules.stale_after_ms,
            to_pool=messages - to_forget,
            to_forget=to_forget,
        )


def _count(ranges: Iterable[OpenRange]) -> int:
    return sum(each.to - each.from_ for each in ranges)


def _below(end: int, from_: int, to: int) -> int:
    """The number of offsets of an interval that are below `end`."""
    return max(0, min(to, end) - from_)
