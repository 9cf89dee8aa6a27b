"""The chunk in an application's hand, and how it gets the next one.

The consumer takes from here in the application's thread, the one for asyncio in a thread of its
own; only one takes at a time. What a chunk is, and when it is done, `hand` knows.
"""

from __future__ import annotations

from typing import Final

from kafka_marshal.runtime.data import Data
from kafka_marshal.runtime.engine import Engine
from kafka_marshal.runtime.errors import ConsumerClosed
from kafka_marshal.runtime.hand import Hand

CHUNK: Final = 1_000
"""The most messages of one claim that are given out before it is another one's turn; `TURN_MS` in
`holding` ends a turn by time."""
CUT_S: Final = 0.1
"""How long `stop` waits for somebody who looks at what is in hand, in seconds."""
_LOOK_S: Final = 1.0


class Taking:
    """What one consumer's application has in hand."""

    def __init__(self, engine: Engine, data: Data) -> None:
        self._engine, self._data = engine, data
        environment = engine.cluster.settings.environment
        self._monotonic, self._steady_ms = environment.monotonic, environment.steady_ms
        self.hand: Hand | None = None
        """What is being given out."""
        self.closed = False
        """Nothing more is given out, since the consumer is closed."""
        self.stopped = False
        """At least once: nothing more is given out, since the application said stop."""

    @property
    def over(self) -> bool:
        """Whether it is closed, or about to end."""
        return self.ended or self.stopped or self._engine.stopping

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.closed or self._engine.ended.is_set()

    def take(
        self, timeout_s: float | None, by_commit: bool = False, maximum: int = CHUNK
    ) -> Hand | None:
        """What is in hand, or the next chunk; None when it is over, or nothing came in time."""
        return self.hand or self._next(timeout_s, by_commit, maximum)

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

    def finish(self) -> None:
        """The application is done with what it has in hand."""
        hand = self.pop()
        if hand is not None:
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

    def _next(self, timeout_s: float | None, by_commit: bool, maximum: int) -> Hand | None:
        deadline = None if timeout_s is None else self._monotonic() + timeout_s
        while True:
            self.raise_failure()
            if self.closed:
                return None
            left = _LOOK_S if deadline is None else min(_LOOK_S, deadline - self._monotonic())
            if self.stopped:
                taken = None
                self._engine.ended.wait(max(0.0, left))
            else:
                taken = self._data.take(maximum, max(0.0, left))
            if taken is not None:
                hand = Hand(taken, by_commit=by_commit, since_ms=self._steady_ms())
                if not self._engine.held.in_hand(hand):
                    continue
                self.hand = hand
                if self.stopped or self.closed:
                    hand.cut()
                if not hand.finished:
                    return hand
                self.hand = None
                self._engine.held.progressed(hand)
                continue
            if self._engine.ended.is_set():
                self.raise_failure()
                return None
            if deadline is not None and self._monotonic() >= deadline:
                return None
