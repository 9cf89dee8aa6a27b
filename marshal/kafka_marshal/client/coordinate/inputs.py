"""Everything that happens to a consumer, as values: the inputs of a `ConsumerLoop`.

Threads make them: the log's reader and writer, the fetcher, the watcher of topics, the application.
What happened while a session or a tenure was at work names it, since another may have followed.
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
    """The coordination topic lost records that were read, or were to be read."""

    session: Session
    reason: str


@frozen
class AppendFinished:
    """An append to the coordination topic has an outcome."""

    session: Session
    key: ClaimKey
    send: Send | SendRecord
    release: SentRelease | None
    """It was a release."""
    outcome: RecordMetadata | BaseException


@frozen
class MessagesFetched:
    """A claim's messages below `end` were fetched, or could be."""

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
    """Where the partitions of our claims end, as of the last fetch; some may be left out."""

    ends: Mapping[Claim, int]
    report: bool
    """Observers are to hear how the claims stand; otherwise what lags behind may be given up."""


@frozen
class SharedEndSeen:
    """A partition that we share ends here."""

    topic: str
    partition: int
    end: int


@frozen
class Progressed:
    """The application got further with what it has in hand."""

    owned: OwnedPartition


@frozen
class PartitionsCounted:
    """A topic has another number of partitions."""

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
    """The application wants this done by the thread that owns the claims."""

    do: Callable[[], object]


@frozen
class StopRequested:
    """Give everything up, and end when that is done."""


@frozen
class LeaveRequested:
    """End at once; what is owned becomes stale by itself."""


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
"""Everything that can happen but that time passes."""
