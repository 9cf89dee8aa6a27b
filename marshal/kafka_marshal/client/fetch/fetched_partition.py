"""The fetcher's state of one claimed partition: how far it is fetched, and how far delivered.

One object belongs to one tenure. When the tenure is over, a thread that still has the object
receives nothing more through it. This module knows neither Kafka's client nor the protocol.
"""

from __future__ import annotations

from attrs import define, field

from kafka_marshal.client.message import Claim


@define(eq=False)
class FetchedPartition:
    """The result of `FetchClient.open`. The fetcher holds a lock to use its fields."""

    claim: Claim
    allowed: list[range] = field(factory=list)
    """Offsets that may be delivered and were not, at the last check."""
    position: int = 0
    """The offset up to which it was delivered."""
    moved: bool = False
    """Its position was set since the last chunk was taken, so that chunk is not delivered."""
    fetched: int = 0
    """The offset up to which it was fetched."""
    notified: int = 0
    """The offset up to which the machine was notified of messages."""
    dropped: bool = False
    """Nothing more of it is fetched or delivered."""
    assigned: bool = False
    paused: bool = False
    """The application has paused it, or may have nothing of it."""
    held: bool = False
    """It is paused in Kafka's client, since its buffer is full."""
    full_since_s: float | None = None
    """Since when its buffer is full, by the monotonic clock; None if it is not."""
    until: int | None = None
    """Only offsets below this are fetched: what was granted, if the claim is lost or being given
    up; the whole of a range."""
    ranged: bool = False
    """It is a range of a shared claim."""
    lost: bool = False
    """The claim is lost, so nothing from `until` on will be granted."""
    retry_at: float | None = None

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.claim.topic, self.claim.partition

    @property
    def wanted(self) -> bool:
        """Whether more of it must be fetched."""
        return not self.paused and (self.until is None or self.fetched < self.until)

    @property
    def may_begin(self) -> bool:
        """Whether the application may begin a message of it now. Any thread may ask.

        Loops, polls, workers and tasks depend on this. It is false if the claim is lost, given up,
        paused, or silent for too long. Messages that were granted at most once may be begun even if
        the claim is lost: no one else gets them.
        """
        return not (self.dropped or self.paused)

    def ends_at(self, offset: int) -> bool:
        """Whether nothing from this offset on may be delivered now. Any thread may ask."""
        return all(each.stop <= offset for each in tuple(self.allowed))
