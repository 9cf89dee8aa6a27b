"""Delivers messages: the chunk that the application is processing, and how it gets the next.

The consumer takes from here in the application's thread, the one for asyncio in a thread of its
own; only one takes at a time. What a chunk is, and when it is done, `in_flight` knows.
"""

from __future__ import annotations

import enum
from typing import Final

from confluent_kafka import Message as Fetched

from kafka_marshal.client.coordinate.coordinator import Coordinator
from kafka_marshal.client.fetch.buffers import MessageChunk
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.message import Claim
from kafka_marshal.errors import ConsumerClosed

CHUNK: Final = 1_000
"""The most messages of one claim that are given out before it is another one's turn; `TURN_MS` in
`ownership` ends a turn by time."""
CUT_S: Final = 0.1
"""How long `stop` waits for somebody who looks at what is in hand, in seconds."""
_LOOK_S: Final = 1.0


class DeliveryMode(enum.Enum):
    """What says that messages are done. A chunk is given out in one way."""

    LOOP = enum.auto()
    """Asking for more, in whichever way."""
    LIST = enum.auto()
    """Asking for the next list, or for the next message of a loop; a poll does not. Or a commit."""
    POLL = enum.auto()
    """A commit."""


class Delivery:
    """What one consumer's application has in hand."""

    def __init__(self, coordinator: Coordinator, fetcher: Fetcher) -> None:
        self._coordinator, self._fetcher = coordinator, fetcher
        self._held_may_begin = coordinator.held.may_begin
        environment = coordinator.cluster.settings.environment
        self.monotonic, self.deadline = environment.monotonic, environment.deadline
        self._steady_ms, self._new_lock = environment.steady_ms, environment.threads.lock
        self.in_flight: InFlight | None = None
        """What is being given out."""
        self._way = DeliveryMode.LOOP
        """How it is given out."""
        self._listed: InFlight | None = None
        """What was given as lists before somebody polled: done when more is asked for otherwise."""
        self.closed = False
        """Nothing more is given out, since the consumer is closed."""
        self.stopped = False
        """At least once: nothing more is given out, since the application called `stop`."""

    @property
    def over(self) -> bool:
        """Whether it is closed, or about to end."""
        return self.ended or self.stopped or self._coordinator.stopping

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.closed or self._coordinator.ended.is_set()

    def may_begin(self, claim: Claim) -> bool:
        """Whether a message of it may be begun now, by whichever thread or task."""
        return not (self.stopped or self.closed) and self._held_may_begin(claim)

    def take(
        self, timeout_s: float | None, way: DeliveryMode = DeliveryMode.LOOP, maximum: int = CHUNK
    ) -> InFlight | None:
        """What is in hand, or the next chunk; None when it is over, or nothing came in time.

        What is left of a chunk that was given out in another way is a chunk of its own.
        """
        if way is not DeliveryMode.POLL and self._listed is not None:
            self.finish(self._listed)
            self._listed = None
        if self.in_flight is not None and self._way is not way:
            self._split(self.in_flight, way)
        return self.in_flight or self._next(timeout_s, way, maximum)

    def stop(self) -> None:
        """Give out nothing more, also not of what is in hand. A signal handler may call it."""
        self.stopped = True
        in_flight = self.in_flight
        if in_flight is not None:
            # A handler may have interrupted the very thread that holds it: the coordinator cuts it.
            in_flight.cut(within_s=CUT_S)

    def share_of(self, messages: int) -> int:
        """How many of these messages are one claim's, if every claim is to have some of them."""
        return min(CHUNK, max(1, messages // max(1, self._coordinator.held.count)))

    def pop(self) -> InFlight | None:
        """What was in hand; somebody else looks after it."""
        in_flight, self.in_flight = self.in_flight, None
        return in_flight

    def finish(self, in_flight: InFlight) -> None:
        """The application is done with this."""
        if self.in_flight is in_flight:
            self.in_flight = None
        in_flight.finish()
        self._coordinator.held.progressed(in_flight)

    def gave_out(self, in_flight: InFlight) -> None:
        """The application has more of it, and is not done with that: ranges go on behind it."""
        if in_flight.claim.range is not None:
            self._coordinator.held.progressed(in_flight)

    def raise_failure(self) -> None:
        """Raise what ended the consumer, if something did."""
        self._coordinator.raise_failure()

    def raise_if_closed(self) -> None:
        """Raise what ended the consumer, or that it was closed."""
        self.raise_failure()
        if self.closed:
            raise ConsumerClosed("the consumer is closed; make another one to go on")

    def _split(self, before: InFlight, way: DeliveryMode) -> None:
        """The rest of what is in hand is given out in another way."""
        self.in_flight, rest = None, before.give_back()
        if self._way is DeliveryMode.LIST and way is DeliveryMode.POLL:
            self._listed = before
        elif self._way is not DeliveryMode.POLL:
            self.finish(before)
        if rest is not None:
            self._give_out(rest, way, before.since_ms)

    def _give_out(
        self, chunk: MessageChunk[Claim, Fetched], way: DeliveryMode, since_ms: int
    ) -> InFlight | None:
        """Have it in hand, unless that was decided otherwise meanwhile."""
        in_flight = InFlight(
            chunk, self._new_lock(), by_commit=way is not DeliveryMode.LOOP, since_ms=since_ms
        )
        if not self._coordinator.held.in_hand(in_flight):
            return None
        self.in_flight, self._way = in_flight, way
        if self.stopped or self.closed:
            in_flight.cut()
        if not in_flight.finished:
            return in_flight
        self.in_flight = None
        self._coordinator.held.progressed(in_flight)
        return None

    def _next(self, timeout_s: float | None, way: DeliveryMode, maximum: int) -> InFlight | None:
        deadline = None if timeout_s is None else self.monotonic() + timeout_s
        while True:
            self.raise_failure()
            if self.closed:
                return None
            left = _LOOK_S if deadline is None else min(_LOOK_S, deadline - self.monotonic())
            if self.stopped:
                taken = None
                self._coordinator.ended.wait(max(0.0, left))
            else:
                taken = self._fetcher.take(maximum, max(0.0, left))
            if taken is not None:
                if (in_flight := self._give_out(taken, way, self._steady_ms())) is not None:
                    return in_flight
                continue
            if self._coordinator.ended.is_set():
                self.raise_failure()
                return None
            if deadline is not None and self.monotonic() >= deadline:
                return None
