"""A claim of ours from the time it was won, and what the application has of it in hand.

Two threads meet here: the application's takes chunks, the engine's looks how far it got.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping

from attrs import define, field

from kafka_marshal.client.fetch.in_flight import Hand
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health import Standing
from kafka_marshal.core.state import ClaimKey


@define(eq=False)
class Tenure:
    """What is known of it beside the machine."""

    claim: Claim
    next: int = 0
    """Everything below is done."""
    allowed_end: int = 0
    heard_ms: int = 0
    """When a heartbeat of it was last read back, or it was won, by the steady clock."""
    paused: bool = False
    """The application wants nothing of it for now."""
    withdrawn: bool = False
    """What was fetched of it and not begun was given back."""
    abandoned: bool = False
    """At most once: nothing more of it will be processed, whatever is granted."""
    told: bool = False
    """The engine was told that the application got further, and has not looked yet."""
    _given: int = field(default=0, init=False)
    """How many messages of hands that are gone `newly_given` has not counted."""
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    """Held while hands come and go."""
    _hands: deque[Hand] = field(factory=deque, init=False)

    @property
    def hands(self) -> list[Hand]:
        """What is in hand now, in the order in which it was taken."""
        with self._lock:
            return list(self._hands)

    def take(self, hand: Hand, kept: Callable[[Hand], bool]) -> bool:
        """The application has taken this; it is in hand if it is `kept`. Any thread may say so."""
        with self._lock:
            found = kept(hand)
            if found:
                self._hands.append(hand)
            return found

    def reached(self) -> int:
        """Up to where the application is done now. Forgets the hands that are finished."""
        with self._lock:
            offset = self.next
            while self._hands and self._hands[0].finished and not self._hands[0].abandoned:
                done = self._hands.popleft()
                self._given += done.newly_given()
                offset = max(offset, done.end)
            first = self._hands[0] if self._hands else None
        return offset if first is None else max(offset, first.next)

    def newly_given(self) -> int:
        """How many more messages the application was given since this was last asked."""
        with self._lock:
            before, self._given = self._given, 0
            return before + sum(hand.newly_given() for hand in self._hands)

    @property
    def given_end(self) -> int:
        """Below this everything was given out. Any thread may ask."""
        return max([self.next, *(hand.given_end for hand in self.hands)])

    @property
    def in_hand(self) -> bool:
        """Whether the application is not done with something of it."""
        return any(not hand.finished for hand in self.hands)

    @property
    def withheld(self) -> bool:
        """Nothing of it is given out for now, for whichever reason."""
        return self.paused or self.claim.silent

    @property
    def in_work(self) -> bool:
        """Whether the application, or a worker, has begun something of it and is not done."""
        return any(not hand.finished and not hand.idle for hand in self.hands)

    def cut(self) -> list[int]:
        """Give out no more of what is in hand. Returns where each hand ends now."""
        return [hand.cut() for hand in self.hands]

    def hands_from(self, first: Hand) -> list[Hand]:
        """This one and those that were taken after it; none if it is not in hand any more."""
        hands = self.hands
        return hands[hands.index(first) :] if first in hands else []

    def forget(self, hands: Collection[Hand]) -> None:
        """These are not in hand any more, and never will be done."""
        with self._lock:
            self._hands = deque(hand for hand in self._hands if hand not in hands)

    def standing(
        self,
        ends: Mapping[ClaimKey, int],
        buffered: Mapping[Claim, tuple[int, int]],
        busy: Collection[Claim] = (),
    ) -> Standing:
        """How far it is, given where partitions end, what waits in buffers, and what is in hand."""
        return Standing(
            self.next,
            max(ends.get(self.claim.key, 0), self.allowed_end),
            sum(max(0, hand.end - hand.next) for hand in self.hands if not hand.finished),
            *buffered.get(self.claim, (0, 0)),
            paused=self.withheld,
            awaits_turn=bool(busy) and self.claim not in busy,
        )
