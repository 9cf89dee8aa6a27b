"""Everything that happens to a consumer, as values: the inputs of a `ConsumerLoop`.

Threads create them: the log's reader and writer, the fetcher, the topic watcher, the application.
An input that belongs to a session or a tenure names it, since another may have replaced it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from kafka_marshal.client.connect.log_writer import RecordMetadata
from kafka_marshal.client.connect.reader import ReadResult, Watermarks
from kafka_marshal.client.coordinate.owned_partition import OwnedPartition, SentRelease
from kafka_marshal.client.coordinate.session import Session
from kafka_marshal.client.message import Claim
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.machines.ranges.effects import SendRecord


@frozen
class RecordsRead:
    """Records of the coordination topic were read."""

    session: Session
    result: ReadResult


@frozen
class LogTruncated:
    """The coordination topic lost records that were read, or were about to be read."""

    session: Session
    reason: str


@frozen
class AppendFinished:
    """The outcome of an append to the coordination topic is known."""

    session: Session
    key: ClaimKey
    send: Send | SendRecord
    release: SentRelease | None
    """Whether it was a release."""
    outcome: RecordMetadata | BaseException


@frozen
class MessagesFetched:
    """A claim's messages below `end` were fetched, or can be."""

    claim: Claim
    end: int


@frozen
class MessagesGone:
    """A claim's messages from `first` on are gone from the topic, which holds `extent`."""

    claim: Claim
    first: int
    extent: Watermarks


@frozen
class EndsSeen:
    """The end offsets of our claims' partitions at the last fetch; some may be missing."""

    ends: Mapping[Claim, int]
    report: bool
    """Whether to report the state of claims to observers. If not, claims that lag may be released.
    """


@frozen
class SharedEndSeen:
    """The end offset of a partition that we share."""

    topic: str
    partition: int
    end: int


@frozen
class Progressed:
    """The application made progress with its messages."""

    owned: OwnedPartition


@frozen
class PartitionsCounted:
    """The number of partitions of a topic has changed."""

    topic: str
    partitions: int


@frozen
class SessionOpened:
    """Another instance can begin."""

    session: Session
    committed: Mapping[tuple[str, int], int]
    """The group's committed offsets, by topic and partition, where there are any."""


@frozen
class CallRequested:
    """The application wants this to run in the thread that owns the claims."""

    do: Callable[[], object]


@frozen
class StopRequested:
    """Release everything, and end when that is done."""


@frozen
class LeaveRequested:
    """End at once; owned claims become stale by themselves."""


Input = (
    RecordsRead
    | LogTruncated
    | AppendFinished
    | MessagesFetched
    | MessagesGone
    | EndsSeen
    | SharedEndSeen
    | Progressed
    | PartitionsCounted
    | SessionOpened
    | CallRequested
    | StopRequested
    | LeaveRequested
)
"""Everything that can happen, except that time passes."""
