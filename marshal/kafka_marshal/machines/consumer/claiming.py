"""How eagerly an instance claims: its options, and when a claim is falling behind.

Each option names the original's option, and its default there. The options affect speed and
balance, but never safety: the log decides who owns what.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from attrs import define, field, frozen, validators

from kafka_marshal.core.validators import positive
from kafka_marshal.deprecated import old_field

_at_least_one = validators.optional(positive)


@old_field("not_again_ms", "reclaim_delay_ms")
@frozen
class Claiming:
    """Which claims an instance asks for, among the topics that it was given."""

    fast_reclaim: bool = True
    """After a restart, ask at once for what the same client id owned (the original's
    `FastReclaim`, on by default). Otherwise such claims wait until they are stale."""
    whole_topics: bool = False
    """Compete for partition 0 of each topic only; its owner claims the topic's other partitions,
    and gives them back with it (`ClaimEntireTopic`, off by default)."""
    fair_share: bool = True
    """Ask for no more than a share of the group's claims, and give some back to members that have
    fewer. The original has no such option: the first to come keeps everything."""
    greedy: bool = False
    """Ask at once for everything that is free (`GreedyClaims`, off by default), and give nothing
    back to balance shares."""
    claims_max: int | None = field(default=None, validator=_at_least_one)
    """The most claims to own at a time (`MaximumClaims`, unlimited by default); with `whole_topics`
    the most topics. Static partitions do not count."""
    release_when_behind: bool = False
    """Give back a claim that falls behind its topic for three heartbeats in a row, so that a faster
    member can take it. `ReleaseClaimsIfBehind` is on by default in the original. Here it is off,
    since it moves claims around when every member is slow."""
    reclaim_delay_ms: int = field(default=120_000, validator=positive)
    """How long not to ask again for a claim that was given back, for any reason. The original waits
    for one heartbeat interval."""
    transactions_per_s: float = field(default=20.0, validator=positive)
    """At most once: the maximum number of requests for messages per second, over all claims. A
    batch holds what arrived in the meantime, so it grows with the load."""


BEATS: Final = 10
"""The number of heartbeats over which velocities are measured, as in the original."""
BEHIND_MAX: Final = 3
"""The number of heartbeats in a row after which a claim that is behind is given back."""


@define
class Velocity:
    """The velocities of a consumer and of its partition's end, over the last heartbeats.

    >>> velocity = Velocity()
    >>> [velocity.beat(position, end) for position, end in [(0, 0), (1, 9), (2, 18), (3, 27)]]
    [False, False, False, True]
    """

    _beats: deque[tuple[int, int]] = field(factory=lambda: deque(maxlen=BEATS), init=False)
    _behind: int = field(default=0, init=False)

    def beat(self, position: int, end: int) -> bool:
        """Add a heartbeat: the consumer's position, and its partition's end.

        Returns whether the consumer has fallen behind for too long: the end moved further than the
        position, for `BEHIND_MAX` heartbeats in a row. A consumer at the end is not behind.
        """
        self._beats.append((position, end))
        first_position, first_end = self._beats[0]
        slower = position - first_position < end - first_end
        self._behind = self._behind + 1 if slower and position < end else 0
        return self._behind >= BEHIND_MAX
