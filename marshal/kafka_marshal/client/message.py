"""What an application sees: messages, the claim that they came under, and a record that it sent.

A message is a thin cover over the one that Kafka's client fetched. Nothing is copied until it is
asked for, and of several messages each is covered only when it is looked at.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from gc import get_referents
from itertools import repeat
from operator import methodcaller
from typing import Any, Final, Protocol, cast, overload

from attrs import define, field, frozen
from confluent_kafka import Message as Fetched

from kafka_marshal.capture import UNREADABLE_NAME
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import BrokerFailed
from kafka_marshal.machines.consumer.effects import Lost, ReleaseReason

HeaderPairs = list[tuple[str, bytes | None]]
_headers_of: Final = methodcaller("headers")
"""Python 3.11 may call a method without a look at its error, which then ends another call."""


class HasHeaders(Protocol):
    """What was fetched, as far as `headers_of` knows it."""

    def headers(self) -> Any:
        """Names with values, or nothing."""


def headers_of(fetched: HasHeaders) -> HeaderPairs:
    """The headers of a message of Kafka's client, in the order in which they were written.

    Anybody can append a header whose name is no UTF-8; brokers do not look. For it the client
    raises a SystemError and keeps a pair without a name, which must not be unpacked: Python reads
    where nothing is, and the process ends (confluent-kafka 2.16). Such a header keeps its place
    and its value, and is called `UNREADABLE_NAME`.
    """
    try:
        return _headers_of(fetched) or []
    except SystemError:
        pairs: HeaderPairs = _headers_of(fetched)
        for index, pair in enumerate(pairs):
            value, *name = get_referents(pair)  # the last first, and what is missing left out
            if not name:
                pairs[index] = UNREADABLE_NAME, value  # in the client's own list, for all who ask
        return pairs


@frozen
class Range:
    """Offsets of a shared partition that one consumer of the group holds, and nobody else."""

    id: int
    """The offset, in the log of claims, of the request that was granted. It grows with each range
    of the partition, so it works as a fencing token for what is written for each message."""
    start: int
    """The first offset."""
    end: int
    """The offset after the last one. There may be no message yet at any of them."""
    deliveries: int = field(default=1, repr=False)
    """How often its messages were given to a consumer, at most, with this time. It is one more than
    the number of consumers that fell silent with them, as far as the log was read."""


@define(eq=False)
class Claim:
    """One partition of a topic that is ours, from the time it was won until it is lost.

    Of a topic that was added with `share="ranges"` it is one range of a partition.
    """

    key: ClaimKey = field(repr=False)
    topic: str
    partition: int
    epoch: int
    """Grows with every new owner, so it works as a fencing token: a store of results can refuse a
    writer whose epoch is below one that it saw before. Of a range it is the id of the range."""
    position: int
    """Where this tenure began: the next message to consume, when the claim was won."""
    committed: int = field(init=False)
    """The position that the log has, as far as was read back: the next owner goes on from there."""
    lost: Lost | None = None
    """Why it is no longer ours; None while it is, as far as was read."""

    silent: bool = False
    """At least once: no heartbeat of it was read back for as long as an owner takes to become
    stale, so others may take it. No more of it is given out until one is read back."""
    released: ReleaseReason | None = None
    """Why it was released, where `lost` is RELEASED."""
    range: Range | None = None
    """The range that it is, as it was granted; None where it is a whole partition."""

    @committed.default
    def _at_the_win(self) -> int:
        return self.position

    @property
    def lane(self) -> Hashable:
        """What is handled one after the other: the partition's tenures, or each range by itself."""
        return self.key if self.range is None else self

    @property
    def owned(self) -> bool:
        """Whether it is still ours, as far as was read. The log may know better: see `epoch`."""
        return self.lost is None


@frozen
class SentRecord:
    """A record that a producer sent, and what became of it."""

    topic: str
    partition: int | None
    """None: it was not appended, or nobody knows, and no partition was asked for."""
    offset: int | None = None
    """Where it lies. None: it was not appended, or nobody knows."""
    timestamp_ms: int | None = None
    """Its time as the broker has it, Unix milliseconds; None where that is not known."""
    error: BrokerFailed | None = None
    """None: it was appended. `NotAppended`: it is nowhere. `OutcomeUnknown`: it may be anywhere of
    these."""
    seconds: float | None = field(default=None, repr=False)
    """How long it took until a broker confirmed it; None: none has."""


def token_in_words(claim: Claim) -> str:
    """The fencing token of a claim, as lines name it: `epoch 17`, or of a range `range 17`."""
    return f"epoch {claim.epoch}" if claim.range is None else f"range {claim.range.id}"


class Message:
    """One message of a topic, and the claim under which it was fetched."""

    __slots__ = ("claim", "fetched")

    def __init__(self, fetched: Fetched, claim: Claim) -> None:
        self.fetched: Final = fetched
        """As Kafka's client gave it."""
        self.claim: Final = claim

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.claim.topic

    @property
    def partition(self) -> int:
        """The topic's partition."""
        return self.claim.partition

    @property
    def epoch(self) -> int:
        """The epoch of the claim, or the id of the range: a fencing token."""
        return self.claim.epoch

    @property
    def tenure(self) -> int:
        """The same: in a group with a controller, the tenure under which the partition is owned."""
        return self.claim.epoch

    @property
    def range(self) -> Range | None:
        """The range that it came under; None where its partition is not shared."""
        return self.claim.range

    @property
    def deliveries(self) -> int | None:
        """How often it was given to a consumer, at most, with this time; 1 is the first time.

        It is one more than the number of consumers that fell silent with its range, whether they
        had begun it or not. What a consumer gives back does not count. None where its partition is
        not shared.
        """
        return None if self.claim.range is None else self.claim.range.deliveries

    @property
    def offset(self) -> int:
        """Where it lies in its partition."""
        return cast("int", self.fetched.offset())

    @property
    def key(self) -> bytes | None:
        """The key; None where there is none."""
        return self.fetched.key()

    @property
    def value(self) -> bytes | None:
        """The value; None where there is none."""
        return self.fetched.value()

    @property
    def headers(self) -> HeaderPairs:
        """The headers, in their order; a name may come twice. One that is no UTF-8 is `\ufffd`."""
        return headers_of(self.fetched)

    @property
    def timestamp_ms(self) -> int:
        """Unix milliseconds; -1 where there is none."""
        return self.fetched.timestamp()[1]

    def __repr__(self) -> str:
        token = token_in_words(self.claim)
        return f"Message({self.topic}/{self.partition} offset {self.offset}, {token})"


class Messages(Sequence[Message]):
    """Messages of one claim in their order, to be read as a list; may be empty."""

    __slots__ = ("_claim", "fetched")

    def __init__(self, fetched: Sequence[Fetched], claim: Claim | None) -> None:
        """Without a claim there are none."""
        self.fetched: Final = fetched
        """As Kafka's client gave them; to look at each of these costs the least."""
        self._claim = claim

    @property
    def claim(self) -> Claim:
        """What all of them came under; its epoch is a fencing token.

        Raises:
            LookupError: there are none.
        """
        if self._claim is None:
            raise LookupError("there are no messages, so they came under no claim")
        return self._claim

    def __len__(self) -> int:
        return len(self.fetched)

    def __iter__(self) -> Iterator[Message]:
        return iter(()) if not self._claim else map(Message, self.fetched, repeat(self._claim))

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Messages: ...

    def __getitem__(self, index: int | slice) -> Message | Messages:
        if isinstance(index, slice):
            return Messages(self.fetched[index], self._claim)
        return Message(self.fetched[index], self.claim)

    def __repr__(self) -> str:
        if not self:
            return "Messages()"
        claim, last = self.claim, self[-1].offset
        return f"Messages({claim.topic}/{claim.partition} offsets {self[0].offset} to {last})"


@frozen
class Batch:
    """Messages of one claim that are processed together."""

    claim: Claim
    messages: Messages
    start: int
    """The first offset that the batch covers; there may be no message at it."""
    end: int
    """The next offset after the batch."""
