"""What an application sees: messages, the claims they belong to, and sent records.

A message is a thin wrapper around the one that Kafka's client fetched. Nothing is copied until it
is accessed, and the messages of a list are wrapped one by one, on access.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from gc import get_referents
from itertools import islice, repeat
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
        return _repaired(fetched)


def headers_of_all(fetched: Sequence[HasHeaders]) -> list[HeaderPairs]:
    """`headers_of` for each message of a batch, for less processor time."""
    found: list[HeaderPairs | None] = []
    while len(found) < len(fetched):
        try:
            found.extend(map(_headers_of, islice(fetched, len(found), None)))
        except SystemError:  # the messages before this one are in `found`
            found.append(_repaired(fetched[len(found)]))
    return [pairs or [] for pairs in found]


def _repaired(fetched: HasHeaders) -> HeaderPairs:
    """The headers of a message for which the client has raised a SystemError."""
    pairs: HeaderPairs = _headers_of(fetched)
    for index, pair in enumerate(pairs):
        value, *name = get_referents(pair)  # the last first, and a missing one left out
        if not name:
            pairs[index] = UNREADABLE_NAME, value  # in the client's own list, for later callers
    return pairs


@frozen
class Range:
    """Offsets of a shared partition that only one consumer of the group holds."""

    id: int
    """The offset, in the log of claims, of the request that was granted. It grows with each range
    of the partition, so it works as a fencing token for what is written for each message."""
    start: int
    """The first offset."""
    end: int
    """The offset after the last one. There may be no message yet at any of these offsets."""
    deliveries: int = field(default=1, repr=False)
    """An upper bound on how often its messages were delivered to a consumer, including this time.
    It is one more than the number of consumers that fell silent with them, as far as the log was
    read."""


@define(eq=False)
class Claim:
    """One partition of a topic that we own, from the time it was won until it is lost.

    For a topic that was added with `share="ranges"` it is one range of a partition.
    """

    key: ClaimKey = field(repr=False)
    topic: str
    partition: int
    epoch: int
    """Grows with every new owner, so it works as a fencing token: a database can reject a writer
    whose epoch is below one that it saw before. For a range it is the id of the range."""
    position: int
    """The start of this tenure: the next message to consume when the claim was won."""
    committed: int = field(init=False)
    """The position that the log has, as far as was read back: the next owner goes on from there."""
    lost: Lost | None = None
    """Why we no longer own it; None while we do, as far as the log was read."""

    silent: bool = False
    """At least once: no heartbeat of it was read back for as long as an owner takes to become
    stale, so others may take it. No more of it is delivered until one is read back."""
    released: ReleaseReason | None = None
    """Why it was released, if `lost` is RELEASED."""
    range: Range | None = None
    """The range, as it was granted; None for a whole partition."""

    @committed.default
    def _at_the_win(self) -> int:
        return self.position

    @property
    def lane(self) -> Hashable:
        """What is processed sequentially: the tenures of a partition, or each range by itself."""
        return self.key if self.range is None else self

    @property
    def owned(self) -> bool:
        """Whether we still own it, as far as the log was read. The log may know better."""
        return self.lost is None


@frozen
class SentRecord:
    """A record that a producer sent, and its outcome."""

    topic: str
    partition: int | None
    """None if the record was not appended, or its outcome is unknown, and no partition was given.
    """
    offset: int | None = None
    """Its offset. None if it was not appended, or its outcome is unknown."""
    timestamp_ms: int | None = None
    """Its timestamp in the log, Unix milliseconds; None if that is unknown."""
    error: BrokerFailed | None = None
    """None: it was appended. `NotAppended`: it was not. `OutcomeUnknown`: it may have been
    appended."""
    seconds: float | None = field(default=None, repr=False)
    """The time until a broker confirmed it; None if none has."""


def token_in_words(claim: Claim) -> str:
    """The fencing token of a claim in log lines: `epoch 17`, or for a range `range 17`."""
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
        """The same value; with a controller, the tenure under which the partition is owned."""
        return self.claim.epoch

    @property
    def range(self) -> Range | None:
        """The range that it belongs to; None if its partition is not shared."""
        return self.claim.range

    @property
    def deliveries(self) -> int | None:
        """An upper bound on how often it was delivered, including this time; 1 is the first time.

        It is one more than the number of consumers that fell silent with its range, whether they
        had begun the message or not. A range that a consumer gives back does not count. None if the
        partition is not shared.
        """
        return None if self.claim.range is None else self.claim.range.deliveries

    @property
    def offset(self) -> int:
        """Its offset in the partition."""
        return cast("int", self.fetched.offset())

    @property
    def key(self) -> bytes | None:
        """The key, or None."""
        return self.fetched.key()

    @property
    def value(self) -> bytes | None:
        """The value, or None."""
        return self.fetched.value()

    @property
    def headers(self) -> HeaderPairs:
        """The headers, in order; a name may occur twice. A name that is no UTF-8 is `\ufffd`."""
        return headers_of(self.fetched)

    @property
    def timestamp_ms(self) -> int:
        """Unix milliseconds; -1 if there is none."""
        return self.fetched.timestamp()[1]

    def __repr__(self) -> str:
        token = token_in_words(self.claim)
        return f"Message({self.topic}/{self.partition} offset {self.offset}, {token})"


class Messages(Sequence[Message]):
    """Messages of one claim in order, as a read-only sequence; may be empty."""

    __slots__ = ("_claim", "fetched")

    def __init__(self, fetched: Sequence[Fetched], claim: Claim | None) -> None:
        """Wrap fetched messages of one claim; without a claim there must be none."""
        self.fetched: Final = fetched
        """As Kafka's client gave them; to look at each of these costs the least."""
        self._claim = claim

    @property
    def claim(self) -> Claim:
        """The claim that all of them belong to; its epoch is a fencing token.

        Raises:
            LookupError: the list is empty.
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
