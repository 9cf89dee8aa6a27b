"""Health conditions of an instance: a claim that makes no progress, or a late heartbeat.

They have no effect on the protocol: others take the claims of a late owner, and a wedged owner
keeps its claims for ever. So they are reported to someone who can act. Time is an argument, by the
instance's own clock.

>>> checks = HealthChecks(heartbeat_every_ms=500, interval_ms=1_000, wedged_after=2)
>>> heartbeats = checks.won(now_ms=0)
>>> stuck = ClaimProgress(position=7, end=9, in_hand=1)
>>> [heartbeats.beat(stuck, at_ms) is not None for at_ms in (0, 500, 1_000)]
[False, False, True]
>>> heartbeats.look(now_ms=1_500), heartbeats.look(now_ms=2_600)
(None, LateHeartbeat(cause=<LateCause.NOT_SENT: 'not_sent'>, silent_ms=2600, late_ms=1100))
"""

from __future__ import annotations

import enum

from attrs import define, field, frozen

from kafka_marshal.core.validators import positive


@frozen
class ClaimProgress:
    """The progress of a claim, and where its messages are."""

    position: int
    """Everything below is done."""
    end: int
    """Its partition's end offset, as far as it is known."""
    in_hand: int = 0
    """A lower bound of the offsets that the application has and has not finished."""
    buffered: int = 0
    """Messages that were fetched and not delivered."""
    buffered_bytes: int = 0
    paused: bool = False
    """The application has paused it."""
    awaits_turn: bool = False
    """The application has begun nothing of it, but something of another claim of ours."""

    @property
    def lag(self) -> int:
        """The number of unfinished offsets."""
        return max(0, self.end - self.position)


class WedgedCause(enum.Enum):
    """Where a claim without progress is stuck."""

    IN_HAND = "in_hand"
    """The application has messages, but does not finish the first of them."""
    NOT_TAKEN = "not_taken"
    """Messages were fetched, but the application does not ask for them."""
    NOT_FETCHED = "not_fetched"
    """There are messages, but none arrive, or none may be delivered."""


@frozen
class Wedged:
    """Heartbeats continue and messages are waiting, but the position does not move."""

    cause: WedgedCause
    beats: int
    """The number of heartbeats in a row with the same position."""
    first: int
    """The number of such heartbeats after which the claim counts as wedged."""
    standing: ClaimProgress


class LateCause(enum.Enum):
    """What was late."""

    NOT_SENT = "not_sent"
    """The heartbeat: this process stood still, or was too busy."""
    NOT_READ_BACK = "not_read_back"
    """The reading back: heartbeats were sent, but writing to the log or reading from it is slow."""


@frozen
class LateHeartbeat:
    """A heartbeat was not in the log one interval after it was due."""

    cause: LateCause
    silent_ms: int
    """The time since the last heartbeat that was read back."""
    late_ms: int
    """The time since it was overdue by an interval. Others take over soon, or already have."""


@frozen
class HealthChecks:
    """The thresholds of one instance."""

    heartbeat_every_ms: int = field(validator=positive)
    interval_ms: float = field(validator=positive)
    wedged_after: int = field(validator=positive)
    """The number of heartbeats in a row with the same position after which a claim counts as
    wedged."""

    def won(self, now_ms: int) -> Heartbeats:
        """Begin to check the heartbeats of a claim that was won."""
        return Heartbeats(self, now_ms, now_ms)


@define(eq=False)
class Heartbeats:
    """The heartbeats of one claim, from the win until it is lost."""

    health_checks: HealthChecks
    heard_ms: int
    """When one was last read back; at first, when the claim was won."""
    _sent_ms: int
    _position: int | None = field(default=None, init=False)
    _same: int = field(default=0, init=False)
    _late: bool = field(default=False, init=False)
    """A late heartbeat was reported, and none was read back since."""

    def silent_ms(self, now_ms: int) -> int:
        """The time since one was read back, in milliseconds."""
        return now_ms - self.heard_ms

    @property
    def late_ms(self) -> int:
        """When the next one becomes late, unless one is read back before."""
        checks = self.health_checks
        return self.heard_ms + int(checks.heartbeat_every_ms + checks.interval_ms) + 1

    def beat(self, standing: ClaimProgress, now_ms: int) -> Wedged | None:
        """A heartbeat is sent. Returns, each time, whether the claim is wedged."""
        self._sent_ms = now_ms
        idle = standing.paused or (standing.awaits_turn and (standing.buffered or standing.in_hand))
        stuck = standing.position == self._position and standing.lag and not idle
        self._position = standing.position
        self._same = self._same + 1 if stuck else 0
        too_many = self.health_checks.wedged_after
        if self._same < too_many:
            return None
        if standing.in_hand:
            cause = WedgedCause.IN_HAND
        else:
            cause = WedgedCause.NOT_TAKEN if standing.buffered else WedgedCause.NOT_FETCHED
        return Wedged(cause, self._same, too_many, standing)

    def sent(self, now_ms: int) -> None:
        """A sign of life without a position is sent: that of a holder of ranges."""
        self._sent_ms = now_ms

    def heard(self, now_ms: int) -> LateHeartbeat | None:
        """A heartbeat was read back. Returns that it was late, if not reported yet."""
        late = self.look(now_ms)
        self.heard_ms, self._late = now_ms, False
        return late

    def look(self, now_ms: int) -> LateHeartbeat | None:
        """Time has passed. Returns that a heartbeat is late, once until one is read back."""
        allowed_ms = int(self.health_checks.heartbeat_every_ms + self.health_checks.interval_ms)
        silent_ms = self.silent_ms(now_ms)
        if self._late or silent_ms <= allowed_ms:
            return None
        self._late = True
        sent = now_ms - self._sent_ms <= allowed_ms
        cause = LateCause.NOT_READ_BACK if sent else LateCause.NOT_SENT
        return LateHeartbeat(cause, silent_ms, silent_ms - allowed_ms)
