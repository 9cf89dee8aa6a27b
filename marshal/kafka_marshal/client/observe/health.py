"""What an instance notices about itself: that a claim does not move, or that it is late.

Nothing follows from it for the protocol: others take the claims of a late owner, and a wedged one
keeps its claims for ever. So somebody who can act should hear of it. Time is an argument, by the
instance's own clock.

>>> key = ClaimKey("g", "events", 0)
>>> symptoms = Symptoms(heartbeat_every_ms=500, interval_ms=1_000, wedged_after=2)
>>> symptoms.won(key, now_ms=0)
>>> stuck = Standing(position=7, end=9, in_hand=1)
>>> [symptoms.beat(key, stuck, at_ms) is not None for at_ms in (0, 500, 1_000)]
[False, False, True]
>>> symptoms.look(now_ms=1_500), symptoms.look(now_ms=2_600)
([], [(ClaimKey(group='g', topic='events', topic_partition=0), Late(cause=<LateCause.NOT_SENT: \
'not_sent'>, silent_ms=2600, late_ms=1100))])
"""

from __future__ import annotations

import enum

from attrs import define, field, frozen

from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.validators import positive


@frozen
class Standing:
    """How far a claim is, and what of it lies where."""

    position: int
    """Everything below is done."""
    end: int
    """Where its partition ends, as far as is known."""
    in_hand: int = 0
    """Offsets of it that the application has and is not done with, at least."""
    buffered: int = 0
    """Messages that were fetched and not handed over."""
    buffered_bytes: int = 0
    paused: bool = False
    """The application wants nothing of it for now."""
    awaits_turn: bool = False
    """The application has begun nothing of it, and something of another claim of ours."""

    @property
    def lag(self) -> int:
        """How many offsets are not done."""
        return max(0, self.end - self.position)


class WedgedCause(enum.Enum):
    """Where a claim that does not move is stuck."""

    IN_HAND = "in_hand"
    """The application has messages, and does not finish the first of them."""
    NOT_TAKEN = "not_taken"
    """Messages were fetched, and the application does not ask for them."""
    NOT_FETCHED = "not_fetched"
    """There are messages, and nothing comes of them, or nothing may be handed over."""


@frozen
class Wedged:
    """Heartbeats go on, there are messages, and the position does not move."""

    cause: WedgedCause
    beats: int
    """Heartbeats in a row that stated the same position."""
    first: int
    """The number of such heartbeats from which on the claim counts as wedged."""
    standing: Standing


class LateCause(enum.Enum):
    """What was not there in time."""

    NOT_SENT = "not_sent"
    """The heartbeat: this process stood still, or was too busy."""
    NOT_READ_BACK = "not_read_back"
    """Heartbeats were sent, and the log did not give them back: the way there, or back, is slow."""


@frozen
class Late:
    """A heartbeat was not in the log one interval after it was due."""

    cause: LateCause
    silent_ms: int
    """Since the last heartbeat that was read back."""
    late_ms: int
    """Time since it was overdue by an interval. Others take over soon, or already have."""


@define
class _Held:
    heard_ms: int
    """When a heartbeat of this tenure was last read back; at first, when the claim was won."""
    sent_ms: int
    position: int | None = None
    same: int = 0
    late: bool = False
    """It was reported as late, and no heartbeat was read back since."""


@define
class Symptoms:
    """What one instance watches about its claims."""

    heartbeat_every_ms: int = field(validator=positive)
    interval_ms: float = field(validator=positive)
    wedged_after: int = field(validator=positive)
    """Heartbeats in a row with the same position after which a claim counts as wedged."""
    _held: dict[ClaimKey, _Held] = field(factory=dict, init=False)

    def won(self, key: ClaimKey, now_ms: int) -> None:
        """The claim is ours."""
        self._held[key] = _Held(now_ms, now_ms)

    def lost(self, key: ClaimKey) -> None:
        """The claim is not ours any more."""
        self._held.pop(key, None)

    def silent_ms(self, key: ClaimKey, now_ms: int) -> int | None:
        """Since when no heartbeat of a claim of ours was read back."""
        held = self._held.get(key)
        return None if held is None else now_ms - held.heard_ms

    def beat(self, key: ClaimKey, standing: Standing, now_ms: int) -> Wedged | None:
        """A heartbeat is sent. Returns, with each one that is so, that the claim is wedged."""
        held = self._held.get(key)
        if held is None:
            return None
        held.sent_ms = now_ms
        idle = standing.paused or (standing.awaits_turn and (standing.buffered or standing.in_hand))
        stuck = standing.position == held.position and standing.lag and not idle
        held.position = standing.position
        held.same = held.same + 1 if stuck else 0
        if held.same < self.wedged_after:
            return None
        if standing.in_hand:
            cause = WedgedCause.IN_HAND
        else:
            cause = WedgedCause.NOT_TAKEN if standing.buffered else WedgedCause.NOT_FETCHED
        return Wedged(cause, held.same, self.wedged_after, standing)

    def heard(self, key: ClaimKey, now_ms: int) -> Late | None:
        """A heartbeat of ours was read back. Returns that it was late, if not reported yet."""
        held = self._held.get(key)
        if held is None:
            return None
        late = self._look(held, now_ms)
        held.heard_ms, held.late = now_ms, False
        return late

    def look(self, now_ms: int) -> list[tuple[ClaimKey, Late]]:
        """Time has passed. Returns what is late; each once, until a heartbeat is read back."""
        found = ((key, self._look(held, now_ms)) for key, held in self._held.items())
        return [(key, late) for key, late in found if late is not None]

    def _look(self, held: _Held, now_ms: int) -> Late | None:
        allowed_ms = int(self.heartbeat_every_ms + self.interval_ms)
        silent_ms = now_ms - held.heard_ms
        if held.late or silent_ms <= allowed_ms:
            return None
        held.late = True
        sent = now_ms - held.sent_ms <= allowed_ms
        cause = LateCause.NOT_READ_BACK if sent else LateCause.NOT_SENT
        return Late(cause, silent_ms, silent_ms - allowed_ms)
