"""The fetcher's state of one claimed partition: how far it is fetched, and how far delivered.

One object belongs to one tenure. When the tenure is over, a thread that still has the object gets
nothing more by it. It knows neither Kafka's client nor the protocol.
"""

from __future__ import annotations

from attrs import define, field

from kafka_marshal.client.message import Claim


@define(eq=False)
class FetchedPartition:
    """What `FetchClient.open` made. Its fields are the fetcher's, which holds a lock for them."""

    claim: Claim
    allowed: list[range] = field(factory=list)
    """What may be handed over, and was not yet when it was last looked at."""
    position: int = 0
    """Up to where it was handed over."""
    moved: bool = False
    """It was to go on elsewhere since the last chunk was taken, which is not given out then."""
    fetched: int = 0
    """Up to where it was fetched."""
    notified: int = 0
    """Up to where the machine was notified that there is something to consume."""
    dropped: bool = False
    """Nothing of it is fetched or handed over any more."""
    assigned: bool = False
    paused: bool = False
    """The application wants nothing of it for now, or may have nothing of it."""
    held: bool = False
    """It is paused at Kafka's client, since its buffer is full."""
    full_since_s: float | None = None
    """Since when its buffer is full, by the monotonic clock; None while it is not."""
    until: int | None = None
    """Only what lies below is fetched: what was granted, where the claim is lost or being given up;
    the whole of a range."""
    ranged: bool = False
    """It is a range, and its claim is shared with others."""
    lost: bool = False
    """The claim is lost, so nothing from `until` on will be granted."""
    retry_at: float | None = None

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Topic and partition."""
        return self.claim.topic, self.claim.partition

    @property
    def wanted(self) -> bool:
        """Whether more of it is to be fetched."""
        return not self.paused and (self.until is None or self.fetched < self.until)

    @property
    def may_begin(self) -> bool:
        """Whether the application may begin a message of it now. Any thread may ask.

        Loops, polls, workers and tasks go by this. Not where the claim was lost, given up, paused,
        or not heard of for too long. What was granted at most once may be begun though the claim is
        lost: nobody else gets it.
        """
        return not (self.dropped or self.paused)

    def ends_at(self, offset: int) -> bool:
        """Whether nothing at or above this offset may be handed over now. Any thread may ask."""
        return all(each.stop <= offset for each in tuple(self.allowed))
