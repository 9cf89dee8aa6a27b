"""The five messages of the protocol, the headers that travel beside them, and the record.

This module defines the content of messages. It does not know their bytes (see
`kafka_marshal.codec`) nor their effect on a claim (see `reducer`).

The classes are frozen and have no slots. Construction is most of what a fold costs, and slots make
a frozen class take 1.6 times as long to construct (measured on CPython 3.11).
"""

from typing import Final, NewType, TypeAlias

from attrs import frozen

from kafka_marshal.core.state import ClaimKey

Offset = NewType("Offset", int)
"""A Kafka offset, in messages. In a message it is the *next* offset to consume."""

Epoch = NewType("Epoch", int)
"""The log offset of the record that won a claim: it only grows, so it works as a fencing token."""

Partition = NewType("Partition", int)
"""A Kafka partition, 0..2^31-1."""

NOT_DECIMAL: Final = -2
"""The value of a header that is not decimal: it never matches anything (Spec: NOT_DECIMAL)."""


@frozen(slots=False)
class _Addressed:
    """The fields of every message: its sender, and the claim that it is about."""

    version: int
    """Version of the message format. The original sends 1, and 0 in ReleaseGroup."""
    unix_s: int
    """The sender's clock in unix seconds. The fenced rules never look at it."""
    instance_id: str
    """Identifies one run of one process; new at every start."""
    client_id: str
    """Identifies a consumer across restarts; unique within its group."""
    group_id: str
    topic: str
    """The data topic; empty in ReleaseGroup."""
    partition: Partition
    """The data topic's partition; 0 in ReleaseGroup."""


@frozen(slots=False)
class _Keyed(_Addressed):
    """A message about one claim. A ReleaseGroup is about a whole group, so it has no key."""

    @property
    def key(self) -> ClaimKey:
        """The claim that the message is about."""
        # What `ClaimKey(...)` does, in less than half the time: every record of a log comes here.
        return tuple.__new__(ClaimKey, (self.group_id, self.topic, self.partition))


@frozen(slots=False)
class _FromOwner(_Keyed):
    """A message of an owner, or of a pauser that releases: it has an offset."""

    offset: Offset


@frozen(slots=False)
class Heartbeat(_FromOwner):
    """The owner is alive, and has consumed everything before `offset`. Spec: Heartbeat."""


@frozen(slots=False)
class ClaimingPartition(_Keyed):
    """The sender wants the claim. Spec: ClaimingPartition."""


@frozen(slots=False)
class ReleasingPartition(_FromOwner):
    """The owner releases the claim at `offset`. Spec: ReleasingPartition."""


@frozen(slots=False)
class ClaimingMessages(_FromOwner):
    """The owner requests everything below `offset`, to process it at most once.

    Spec: ClaimingMessages. Source: protocol document, "At Most Once (AMO)".
    """


@frozen(slots=False)
class ReleaseGroup(_Addressed):
    """An administrator ends every claim of the group and pauses it until `expires_unix_s`.

    Spec: ReleaseGroup. Source: protocol document 2, "Protocol Messages".
    """

    expires_unix_s: int


@frozen(slots=False)
class ClaimingRange(_Keyed):
    """A participant of a shared claim requests `count` offsets, or with 0 reports that it is alive.

    Spec: ClaimingRange. It is not part of `Message`, on purpose. Readers that do not know ranges
    skip it, older versions and the original alike, so decisions about a `Message` must not depend
    on it. A reader of ranges decodes it with `range_codec`.
    """

    count: int


OwnersMessage: TypeAlias = Heartbeat | ReleasingPartition | ClaimingMessages
"""Messages of an owner, or of a pauser that releases: those that have an `offset`."""

KeyedMessage: TypeAlias = Heartbeat | ClaimingPartition | ReleasingPartition | ClaimingMessages
"""The messages about one claim: those that have a `key`."""

Message: TypeAlias = KeyedMessage | ReleaseGroup
"""Nearly all records are of the first type: see `wire.MESSAGES`."""


@frozen(slots=False)
class Headers:
    """The `marshal-*` headers of a record, which the original neither writes nor reads.

    Every field is a non-negative integer, `None` if the header is absent, or `NOT_DECIMAL`. The
    fields of `AMENDMENTS` are `NOT_DECIMAL` on a ClaimingRange alone. On messages that older
    versions also read, an unreadable amendment counts as absent.
    """

    present: bool = False
    """Whether the record carried any header whose name begins with `marshal-`."""
    epoch: int | None = None
    """The epoch under which the sender acts."""
    seen: int | None = None
    """The last log offset that the sender had folded."""
    clock: int | None = None
    """The claim's clock at `seen`, unix milliseconds. Readers that began later learn it from here.
    """
    supersedes: int | None = None
    """The epoch of the sender's predecessor that this ClaimingPartition takes over (R1b)."""
    set_position: int | None = None
    """On ReleasingPartition: the administrator sets the position, so it may decrease (R8)."""
    interval_ms: int | None = None
    """On ClaimingPartition and Heartbeat: the sender's heartbeat interval, in milliseconds, > 0."""
    start: int | None = None
    """On Heartbeat and ReleasingPartition: the start that the sender resolved, an offset."""
    done: int | None = None
    """On ReleasingPartition, at most once: the first offset of a grant that was not processed."""


AMENDMENTS: Final = ("interval_ms", "start", "done")
"""The fields of `Headers` that were added after the first version that wrote headers.

Older versions stay in the fleet for a while, so no verdict depends on these fields, nor does any
field of a claim that an older version computes."""

UNSPECIFIED: Final = ("interval_ms", "done")
"""Those amendments that do not affect a claim, so that `Claim.tla` does not contain them."""

NO_HEADERS: Final = Headers()
"""The headers of the original's records."""


@frozen(slots=False)
class Record:
    """One record of the coordination topic, with its value decoded."""

    partition: int
    """The coordinating partition."""
    offset: int
    """The log offset in the coordinating partition."""
    timestamp_ms: int
    """The record's timestamp in unix milliseconds: the broker's if the topic has LogAppendTime."""
    message: Message
    headers: Headers = NO_HEADERS
