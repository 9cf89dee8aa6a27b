"""How eagerly an instance claims: its options, and when a claim is falling behind.

Each option says what the original's is called and what it does by default there. The choice can
cost time or balance, but never safety: the log decides who owns what.
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
    """What an instance claims of the topics that it was given."""

    fast_reclaim: bool = True
    """After a restart, ask at once for what the same client id owned (the original's
    `FastReclaim`, on by default). Otherwise such claims wait until they are stale."""
    whole_topics: bool = False
    """Compete for partition 0 of each topic only; its owner claims the topic's other partitions,
    and gives them back with it (`ClaimEntireTopic`, off by default)."""
    fair_share: bool = True
    """Ask for no more than a share of the group's claims, and give some back to members that have
    less. The original has nothing like it: the first to come keeps everything."""
    greedy: bool = False
    """Ask for everything that is free, at once (`GreedyClaims`, off by default), and give nothing
    back for the sake of a share."""
    claims_max: int | None = field(default=None, validator=_at_least_one)
    """The most claims to own at a time (`MaximumClaims`, unlimited by default). With
    `whole_topics` the most topics. Partitions that were asked for by number do not count."""
    release_when_behind: bool = False
    """Give back a claim that falls behind its topic for three beats in a row, so that a faster
    member may take it. `ReleaseClaimsIfBehind` is on by default in the original. Here it is off,
    since it moves claims about where every member is slow."""
    reclaim_delay_ms: int = field(default=120_000, validator=positive)
    """How long a claim that was given back, for whatever reason, is not asked for again. The
    original waits for one heartbeat interval."""
    transactions_per_s: float = field(default=20.0, validator=positive)
    """At most once: how many requests for messages all claims together may make in a second. A
    batch is what came in the meantime, so it grows with the load."""


BEATS: Final = 10
"""Beats over which velocities are measured, as in the original."""
BEHIND_MAX: Final = 3
"""Beats in a row after which a claim that is behind is given back."""


@define
class Velocity:
    """How fast a consumer and its partition move, over the last beats.

    >>> velocity = Velocity()
    >>> [velocity.beat(position, end) for position, end in [(0, 0), (1, 9), (2, 18), (3, 27)]]
    [False, False, False, True]
    """

    _beats: deque[tuple[int, int]] = field(factory=lambda: deque(maxlen=BEATS), init=False)
    _behind: int = field(default=0, init=False)

    def beat(self, position: int, end: int) -> bool:
        """One more beat: where the consumer is, and its partition's end.

        Returns whether it has fallen behind for too long: the end has moved further than it did,
        for `BEHIND_MAX` beats in a row. A consumer at the end is not behind.
        """
        self._beats.append((position, end))
        first_position, first_end = self._beats[0]
        slower = position - first_position < end - first_end
        self._behind = self._behind + 1 if slower and position < end else 0
        return self._behind >= BEHIND_MAX
