"""The effects that a server of groups returns, for the program that runs it to carry out.

An effect is a value. The program must carry out the effects of one call in their order. This module
does not know how a record gets to the log, nor how bytes get to a connection.
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
"""The ClientId of a request that a server forwards: it must not be forwarded again."""


@frozen
class AppendEvent:
    """Append this event to its partition of `__marshal_groups`.

    `group_codec.encode_record` writes it; offset and timestamp are NOT_APPENDED. Events of one
    partition are produced in the order of these effects, by one idempotent producer with acks=all.
    A successful append has no meaning yet: the machine acts on what it reads back. If a record was
    refused, or its outcome is unknown, call `GroupServer.append_failed`.
    """

    record: EventRecord


@frozen
class ReportTooLarge:
    """This event, or one that may follow it, is too large for the log: it is not appended.

    Its request is answered with MESSAGE_TOO_LARGE or GROUP_MAX_SIZE_REACHED, which contain no size:
    so report it.
    """

    record: EventRecord
    size_bytes: int
    """The size of the event, or an upper bound for events and requests of the resulting group."""


@frozen
class SendAnswer:
    """Send this answer on the connection. It is dropped if the connection is closed."""

    connection: int
    answer: RpcAnswer


@frozen
class CloseConnection:
    """Close the connection after the answers before this effect were sent.

    Further requests on it are not read. `GroupServer.disconnected` need not be called.
    """

    connection: int
    why: str
    """The reason, for the log."""


@frozen
class AskEnd:
    """Ask the leader of a partition for its end offset (ListOffsets, latest), from now on.

    Pass the answer to `GroupServer.end_is`. A failed request is not reported: the machine asks
    again, with another token.
    """

    partition: int
    token: int


@frozen
class CountPartitions:
    """Look up the number of partitions of these topics, and their ids.

    Call `GroupServer.counted` for each. Omit a topic that could not be looked up.
    """

    partition: int
    """The partition of `__marshal_groups` that asks."""
    topics: frozenset[str]


@frozen
class ResolveOffsets:
    """Look up the latest (-1) or earliest (-2) offset of partitions of topics.

    Pass those that have one to `GroupServer.resolved`.
    """

    partition: int
    """The partition of `__marshal_groups` that asks."""
    token: int
    offsets: Mapping[TopicPartition, int]


@frozen
class ForwardRequest:
    """Send this request to another server, and its answer unchanged on the connection.

    If the other server cannot be reached, the answer is `refusal(...,
    ErrorCode.COORDINATOR_NOT_AVAILABLE)`.
    """

    connection: int
    request: RpcRequest
    """Its ClientId is FORWARDED."""
    host: str
    port: int


@frozen
class MovePosition:
    """A reader of the partition may begin at this offset: commit it as the claim's position.

    At the offset is a ControllershipSnapshot, followed by a snapshot of every group, and all of
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
