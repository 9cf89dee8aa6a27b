"""Detects health conditions of a consumer, and reports them to observers and the log.

The coordinator reports events. This module keeps what is needed to detect that a claim is wedged or
late, which instance fenced us off, and that there is nothing to own. It has no effect on the
consumer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from attrs import frozen

from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import ClaimProgress, HealthChecks, Heartbeats
from kafka_marshal.client.observe.logging_observer import ConsumerIdentity, LoggingObserver
from kafka_marshal.client.observe.observers import Idle, Observer, Observers, Takeover
from kafka_marshal.core.messages import Heartbeat
from kafka_marshal.core.state import Claim as Known
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.consumer.effects import Lost, Send

TAKEN = frozenset({Lost.TAKEN, Lost.ID_USED_TWICE})


@frozen(eq=False)
class WatchedClaim:
    """A claim that we own, and its heartbeats."""

    claim: Claim
    heartbeats: Heartbeats


class HealthMonitor:
    """The monitor of one consumer. Its coordinator calls it, except `observers` and `note`."""

    def __init__(
        self,
        who: Callable[[], ConsumerIdentity],
        observers: Sequence[Observer],
        health_checks: HealthChecks,
        stale_after_ms: int,
        monotonic: Callable[[], float],
    ) -> None:
        self.who = who
        self._logs = LoggingObserver(who, monotonic)
        self.observers = Observers([self._logs, *observers])
        self._health_checks, self._stale_after_ms = health_checks, stale_after_ms
        self._watched: dict[WatchedClaim, None] = {}
        """Our claims, in the order in which they were won."""
        self._idle_since_ms: int | None = None
        self._idle_said = False
        self._unknown_since_ms: int | None = None
        self._unknown_said = False

    def note(self, sentence: str, *, distinct: bool = False) -> None:
        """Report something about the cluster; see `LoggingObserver.note`."""
        self._logs.note(sentence, distinct=distinct)

    def stopped(self, error: BaseException) -> None:
        """The consumer stops because of an error."""
        self._logs.stopped(error)

    # --- claims -----------------------------------------------------------------------------------

    def watch(self, claim: Claim, now_ms: int) -> WatchedClaim:
        """A claim was won. Returns the argument of the other methods, until it is lost."""
        watched = WatchedClaim(claim, self._health_checks.won(now_ms))
        self._watched[watched] = None
        self._idle_since_ms, self._idle_said = None, False
        return watched

    def unwatched(self, claim: Claim, now_ms: int) -> WatchedClaim:
        """A range was granted: it is reported late when it is read back again, and never wedged."""
        return WatchedClaim(claim, self._health_checks.won(now_ms))

    def lost(
        self, watched: WatchedClaim, reason: Lost, position: int, known: Known, now_ms: int
    ) -> None:
        """It is no longer ours; with our position, and its new owner as far as the log was read."""
        self._look_at(watched, now_ms)
        self._watched.pop(watched, None)
        self.observers.lost(watched.claim, reason)
        if reason in TAKEN:
            by, epoch = known.owner_client, known.epoch
            silent_ms = watched.heartbeats.silent_ms(now_ms)
            seen = Takeover(by, epoch, position, silent_ms, self._stale_after_ms)
            self.observers.fenced(watched.claim, reason, seen)

    def ended(self) -> None:
        """The consumer has ended."""
        while self._watched:
            watched, _ = self._watched.popitem()
            self.observers.left(watched.claim)

    def silent(self, claims: Sequence[Claim], stale_s: float) -> None:
        """No heartbeat of these was read back for `stale_s` seconds, so others may take them."""
        if claims:
            self._logs.silent(claims, stale_s)

    def heard_again(self, claim: Claim) -> None:
        """Delivery continues."""
        self._logs.heard_again(claim)

    # --- heartbeats -------------------------------------------------------------------------------

    def sent(self, watched: WatchedClaim, send: Send, standing: ClaimProgress, now_ms: int) -> None:
        """A message of the protocol was sent."""
        if watched not in self._watched or not isinstance(send.message, Heartbeat):
            return
        wedged = watched.heartbeats.beat(standing, now_ms)
        if wedged is not None:
            self.observers.wedged(watched.claim, wedged)

    def spoke(self, watched: Iterable[WatchedClaim], now_ms: int) -> None:
        """A record that is a sign of life for all of these ranges was sent."""
        for each in watched:
            each.heartbeats.sent(now_ms)

    def heard(self, watched: Iterable[WatchedClaim], now_ms: int) -> None:
        """A heartbeat of a claim was read back, or a record that is a sign of life for ranges.

        If it was late, this is reported once for all of them.
        """
        lates = [(each.claim, each.heartbeats.heard(now_ms)) for each in watched]
        late = max(
            ((claim, late) for claim, late in lates if late is not None),
            key=lambda each: each[1].silent_ms,
            default=None,
        )
        if late is not None:
            self.observers.late(*late)

    def look_at_cluster(self) -> None:
        """Time has passed: conditions of the cluster may be over."""
        self._logs.look()

    def look(self, now_ms: int) -> None:
        """Time has passed: a heartbeat may be late."""
        for watched in self._watched.copy():  # an observer may close the consumer
            self._look_at(watched, now_ms)

    def _look_at(self, watched: WatchedClaim, now_ms: int) -> None:
        late = watched.heartbeats.look(now_ms) if watched in self._watched else None
        if late is not None:
            self.observers.late(watched.claim, late)

    # --- nothing to own ---------------------------------------------------------------------------

    def crowded(self, drivers: Iterable[Driver], now_ms: int) -> None:
        """Check whether others own every claim that this consumer may have.

        This is reported once it has lasted as long as an owner takes to become stale: until then
        others may give it a share.
        """
        if self._watched:
            return
        known = [driver.consumer.known for driver in drivers]
        mine = self.who().client_id
        owners = {each.owner_client for each in known}
        if not known or owners & {None, mine}:
            self._idle_since_ms = None
            return
        if self._idle_since_ms is None:
            self._idle_since_ms = now_ms
        if now_ms - self._idle_since_ms > self._stale_after_ms and not self._idle_said:
            self._idle_said = True
            self.observers.idle(self.who().group, Idle(len(known), len(owners)))

    def unknown(self, drivers: Iterable[Driver], now_ms: int) -> None:
        """Check whether there are claims whose owner is not in the log.

        An owner sends a heartbeat before it is stale. If none arrived, the head of the log is gone,
        and the consumer waits: at most once for ever, at least once until no earlier pause can be
        in force. Rules: DefiniteWin.
        """
        found = [driver for driver in drivers if not driver.consumer.reader.known]
        if not found:
            self._unknown_since_ms, self._unknown_said = None, False
            return
        if self._unknown_since_ms is None:
            self._unknown_since_ms = now_ms
        if now_ms - self._unknown_since_ms <= self._stale_after_ms or self._unknown_said:
            return
        waits = "they are never claimed"
        if found[0].me.mode is Mode.AT_LEAST_ONCE:
            left = {each: (each.claimable_at_ms or now_ms) - now_ms for each in found}
            found = [each for each, left_ms in left.items() if left_ms > 0]
            if not found:
                return  # it asks for them just now
            waits = f"they are claimed in some {max(left.values()) / 1000:,.0f} s"
        self._unknown_said = True
        named = ", ".join(f"{each.key.topic}/{each.key.topic_partition}" for each in found[:3])
        more = f" and {len(found) - 3:,} more" if len(found) > 3 else ""
        self.note(
            f"group {self.who().group}: the head of the log is gone, so nobody knows who owned "
            f"{named}{more}; {waits}, or as soon as their positions are set (marshal set-position)"
        )
