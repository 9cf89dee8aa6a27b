"""The chunk in an application's hand, and how it gets the next one.

The consumer takes from here in the application's thread, the one for asyncio in a thread of its
own; only one takes at a time. What a chunk is, and when it is done, `in_flight` knows.
"""

from __future__ import annotations

import enum
from typing import Final

from confluent_kafka import Message as Fetched

from kafka_marshal.client.coordinate.coordinator import Engine
from kafka_marshal.client.fetch.buffers import Chunk
from kafka_marshal.client.fetch.fetcher import Data
from kafka_marshal.client.fetch.in_flight import Hand
from kafka_marshal.client.message import Claim
from kafka_marshal.errors import ConsumerClosed

CHUNK: Final = 1_000
"""The most messages of one claim that are given out before it is another one's turn; `TURN_MS` in
`ownership` ends a turn by time."""
CUT_S: Final = 0.1
"""How long `stop` waits for somebody who looks at what is in hand, in seconds."""
_LOOK_S: Final = 1.0


class Way(enum.Enum):
    """What says that messages are done. A chunk is given out in one way."""

    LOOP = enum.auto()
    """Asking for more, in whichever way."""
    LIST = enum.auto()
    """Asking for the next list, or for the next message of a loop; a poll does not. Or a commit."""
    POLL = enum.auto()
    """A commit."""


class Taking:
    """What one consumer's application has in hand."""

    def __init__(self, engine: Engine, data: Data) -> None:
        self._engine, self._data = engine, data
        self._held_may_begin = engine.held.may_begin
        environment = engine.cluster.settings.environment
        self.monotonic, self.deadline = environment.monotonic, environment.deadline
        self._steady_ms = environment.steady_ms
        self.hand: Hand | None = None
        """What is being given out."""
        self._way = Way.LOOP
        """How it is given out."""
        self._listed: Hand | None = None
        """What was given as lists before somebody polled: done when more is asked for otherwise."""
        self.closed = False
        """Nothing more is given out, since the consumer is closed."""
        self.stopped = False
        """At least once: nothing more is given out, since the application called `stop`."""

    @property
    def over(self) -> bool:
        """Whether it is closed, or about to end."""
        return self.ended or self.stopped or self._engine.stopping

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.closed or self._engine.ended.is_set()

    def may_begin(self, claim: Claim) -> bool:
        """Whether a message of it may be begun now, by whichever thread or task."""
        return not (self.stopped or self.closed) and self._held_may_begin(claim)

    def take(
        self, timeout_s: float | None, way: Way = Way.LOOP, maximum: int = CHUNK
    ) -> Hand | None:
        """What is in hand, or the next chunk; None when it is over, or nothing came in time.

        What is left of a chunk that was given out in another way is a chunk of its own.
        """
        if way is not Way.POLL and self._listed is not None:
            self.finish(self._listed)
            self._listed = None
        if self.hand is not None and self._way is not way:
            self._split(self.hand, way)
        return self.hand or self._next(timeout_s, way, maximum)

    def stop(self) -> None:
        """Give out nothing more, also not of what is in hand. A signal handler may call it."""
        self.stopped = True
        hand = self.hand
        if hand is not None:
            # A handler may have interrupted the very thread that holds it; the engine cuts it then.
            hand.cut(within_s=CUT_S)

    def share_of(self, messages: int) -> int:
        """How many of these messages are one claim's, if every claim is to have some of them."""
        return min(CHUNK, max(1, messages // max(1, self._engine.held.count)))

    def pop(self) -> Hand | None:
        """What was in hand; somebody else looks after it."""
        hand, self.hand = self.hand, None
        return hand

    def finish(self, hand: Hand) -> None:
        """The application is done with this."""
        if self.hand is hand:
            self.hand = None
        hand.finish()
        self._engine.held.progressed(hand)

    def raise_failure(self) -> None:
        """Raise what ended the consumer, if something did."""
        self._engine.raise_failure()

    def raise_if_closed(self) -> None:
        """Raise what ended the consumer, or that it was closed."""
        self.raise_failure()
        if self.closed:
            raise ConsumerClosed("the consumer is closed; make another one to go on")

    def _split(self, before: Hand, way: Way) -> None:
        """The rest of what is in hand is given out in another way."""
        self.hand, rest = None, before.give_back()
        if self._way is Way.LIST and way is Way.POLL:
            self._listed = before
        elif self._way is not Way.POLL:
            self.finish(before)
        if rest is not None:
            self._give_out(rest, way, before.since_ms)

    def _give_out(self, chunk: Chunk[Claim, Fetched], way: Way, since_ms: int) -> Hand | None:
        """Have it in hand, unless that was decided otherwise meanwhile."""
        hand = Hand(chunk, by_commit=way is not Way.LOOP, since_ms=since_ms)
        if not self._engine.held.in_hand(hand):
            return None
        self.hand, self._way = hand, way
        if self.stopped or self.closed:
            hand.cut()
        if not hand.finished:
            return hand
        self.hand = None
        self._engine.held.progressed(hand)
        return None

    def _next(self, timeout_s: float | None, way: Way, maximum: int) -> Hand | None:
        deadline = None if timeout_s is None else self.monotonic() + timeout_s
        while True:
            self.raise_failure()
            if self.closed:
                return None
            left = _LOOK_S if deadline is None else min(_LOOK_S, deadline - self.monotonic())
            if self.stopped:
                taken = None
                self._engine.ended.wait(max(0.0, left))
            else:
                taken = self._data.take(maximum, max(0.0, left))
            if taken is not None:
                if (hand := self._give_out(taken, way, self._steady_ms())) is not None:
                    return hand
                continue
            if self._engine.ended.is_set():
                self.raise_failure()
                return None
            if deadline is not None and self.monotonic() >= deadline:
                return None
