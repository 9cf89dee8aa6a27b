"""The effects that a server of groups returns, for the program that runs it to carry out.

An effect is a value. The program carries out the effects of one call in their order. This room does
not know how a record gets into the log, nor how bytes get to a connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import frozen

from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.rpc.codec import RpcAnswer, RpcRequest

NOT_APPENDED: Final = -1
"""The offset and timestamp of a record that was not appended yet. Spec: NONE."""
FORWARDED: Final = "marshal-forwarded"
"""The ClientId of a request that a server forwards: it is not forwarded again."""


@frozen
class AppendEvent:
    """Append this event to its partition of `__marshal_groups`.

    `group_codec.encode_record` writes it; offset and timestamp are NOT_APPENDED. Events of one
    partition are produced in the order in which they are asked for, by one idempotent producer with
    acks=all. That one was appended means nothing yet: the machine acts on what it reads back. Of
    one that was refused, or of which it is not known, `GroupServer.append_failed` is called.
    """

    record: EventRecord


@frozen
class ReportTooLarge:
    """This event, or what might follow it, is larger than the log takes: it is not appended.

    A request that it came of is answered MESSAGE_TOO_LARGE or GROUP_MAX_SIZE_REACHED, which name no
    size: so report it.
    """

    record: EventRecord
    size_bytes: int
    """Of the event, or at most of an event or a request of the group that it would make."""


@frozen
class SendAnswer:
    """Send this answer over the connection. One that is closed needs none."""

    connection: int
    answer: RpcAnswer


@frozen
class CloseConnection:
    """Close the connection once the answers before this effect are sent.

    What else came over it is not read. `GroupServer.disconnected` need not be called.
    """

    connection: int
    why: str
    """For a log."""


@frozen
class AskEnd:
    """Ask the leader of a partition for its end (ListOffsets, latest), from now on.

    The answer is `GroupServer.end_is`. A request that fails is not answered: the machine asks
    again, under another token.
    """

    partition: int
    token: int


@frozen
class CountPartitions:
    """Ask how many partitions these topics have, and their ids.

    `GroupServer.counted` is called for each. A topic that could not be looked up is left out.
    """

    partition: int
    """That of `__marshal_groups` which asks."""
    topics: frozenset[str]


@frozen
class ResolveOffsets:
    """Ask for the latest (-1) or earliest (-2) offset of partitions of topics.

    The answer is `GroupServer.resolved`, with those that have one.
    """

    partition: int
    """That of `__marshal_groups` which asks."""
    token: int
    offsets: Mapping[TopicPartition, int]


@frozen
class ForwardRequest:
    """Send this request to another server, and its answer over the connection, as it comes.

    Where the other one cannot be reached, the answer is
    `refusal(..., ErrorCode.COORDINATOR_NOT_AVAILABLE)`.
    """

    connection: int
    request: RpcRequest
    """Its ClientId is FORWARDED."""
    host: str
    port: int


@frozen
class MovePosition:
    """A reader of the partition may begin at this offset: commit it as the claim's position.

    At the offset lies a ControllershipSnapshot, followed by a snapshot of every group, and all of
    them were read back as accepted.
    """

    partition: int
    offset: int


Effect: TypeAlias = (
    AppendEvent
    | ReportTooLarge
    | SendAnswer
    | CloseConnection
    | AskEnd
    | CountPartitions
    | ResolveOffsets
    | ForwardRequest
    | MovePosition
)
