"""A claim of ours from the time it was won, and what the application has of it in hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from attrs import define, field

from kafka_marshal.client.symptoms import Standing
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.runtime.hand import Hand
from kafka_marshal.runtime.message import Claim


@define(eq=False)
class Tenure:
    """What is known of it beside the machine."""

    claim: Claim
    hands: deque[Hand] = field(factory=deque)
    next: int = 0
    """Everything below is done."""
    allowed_end: int = 0
    heard_s: float = 0.0
    """When a heartbeat of it was last read back, or it was won, by the steady clock."""
    paused: bool = False
    """The application wants nothing of it for now."""
    withdrawn: bool = False
    """What was fetched of it and not begun was given back."""
    told: bool = False
    """The engine was told that the application got further, and has not looked yet."""

    def reached(self) -> int:
        """Up to where the application is done now. Forgets the hands that are finished."""
        hands, offset = self.hands, self.next
        while hands and hands[0].finished and not hands[0].abandoned:
            offset = max(offset, hands.popleft().end)
        return max(offset, hands[0].next) if hands else offset

    @property
    def in_hand(self) -> bool:
        """Whether the application is not done with something of it."""
        return any(not hand.finished for hand in self.hands)

    def cut(self) -> list[int]:
        """Give out no more of what is in hand. Returns where each hand ends now."""
        return [hand.cut() for hand in list(self.hands)]

    def standing(
        self, ends: Mapping[ClaimKey, int], buffered: Mapping[ClaimKey, tuple[int, int]]
    ) -> Standing:
        """How far it is, given where partitions end and what waits in buffers."""
        key = self.claim.key
        return Standing(
            self.next,
            max(ends.get(key, 0), self.allowed_end),
            sum(max(0, hand.end - hand.next) for hand in self.hands if not hand.finished),
            *buffered.get(key, (0, 0)),
            paused=self.paused or self.claim.silent,
        )
