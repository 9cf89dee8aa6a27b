"""The state of the brokers in memory, and the errors that a test makes them return.

Every hook is called without a lock, in the calling thread.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

from attrs import define, field, frozen
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from kafka_marshal.client.connect.coordination_topic import TopicSpec, settings_for
from kafka_marshal.core.ranges.messages import RangesMessage as Said
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.range_codec import decode_range
from kafka_marshal.testing.in_memory.clock import Clock
from kafka_marshal.testing.in_memory.partition import Partition, Stored


@frozen
class Append:
    """The outcome of sending a record."""

    lands: bool = True
    error: KafkaError | None = None
    """The error for its sender; None: it was appended."""
    offset_known: bool = True
    """Whether the confirmation contains the offset."""
    heard: bool = True
    """Whether its sender receives the outcome before `InMemoryKafka.deliver`."""
    after_s: float = 0.0
    """The time from sending to the outcome, in seconds."""


LANDS: Final = Append()
"""It is appended, and its sender receives the confirmation."""
LANDS_UNHEARD: Final = Append(heard=False)
"""It is appended, and its sender receives the confirmation from `InMemoryKafka.deliver`."""
LANDS_SOMEWHERE: Final = Append(offset_known=False)
"""It is appended, but the confirmation has no offset, so its sender cannot be sure."""
LOST: Final = Append(lands=False, error=KafkaError(KafkaError._MSG_TIMED_OUT))
"""It is not appended, and its sender cannot know."""
LANDS_UNKNOWN: Final = Append(error=KafkaError(KafkaError._MSG_TIMED_OUT))
"""It is appended, and its sender cannot know."""


@frozen
class Link:
    """The connection of a client to a broker, both ways."""

    arrives: bool = True
    """Whether requests arrive."""
    answered: bool = True
    """Whether replies arrive."""
    refused: bool = False
    """Whether connecting fails at once, since nothing listens."""
    holds: bool = False
    """Whether a request that does not arrive is kept until the connection works again."""
    latency_s: float = 0.0
    """The latency of a request and its reply together, in seconds."""

    @property
    def works(self) -> bool:
        """Whether requests are answered."""
        return self.arrives and self.answered


UP: Final = Link()
"""Requests are answered at once."""
DOWN: Final = Link(arrives=False, answered=False, refused=True)
"""The broker has ended, and nothing listens."""
CUT: Final = Link(arrives=False, answered=False)
"""Nothing arrives, as if a switch dropped all packets."""
PAUSED: Final = Link(arrives=False, answered=False, holds=True)
"""The broker is stopped: requests arrive when it continues."""
REPLIES_CUT: Final = Link(answered=False)
"""Requests arrive, but replies do not."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@define(eq=False)
class Transaction:
    """The records of an open transaction."""

    begins: dict[tuple[str, int], int] = field(factory=dict)
    """The offset of its first record in each partition."""
    offsets: list[tuple[str, int, int]] = field(factory=list)
    """Topic, partition and offset of each record."""


class Brokers:
    """The cluster. All methods are thread-safe."""

    def __init__(self, log_partitions: int = 1, brokers: int = 1) -> None:
        """Create the coordination topic with `log_partitions` partitions, and no other topic."""
        self.numbers: Final = range(1, brokers + 1)
        """The broker ids."""
        self.changed: Any = threading.RLock()
        """Must be held for reading and changing partitions."""
        self.topics: dict[str, list[Partition]] = {}
        """The partitions of each topic."""
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.new_topic_id: Callable[[], uuid.UUID] = uuid.uuid4
        self.topic_settings: dict[str, Mapping[str, str]] = {}
        """The settings of each topic that differ from the brokers'."""
        self._held: list[tuple[str, Partition, Callable[[], object]]] = []
        """Requests to stopped brokers: the process, the partition, and the effect on arrival."""
        self._links: dict[tuple[str | None, int | None], Link] = {}
        """Connections that do not work normally, by the client's process and the broker."""
        self.committed: dict[tuple[str, str, int], int] = {}
        """Kafka's committed offsets, by group, topic and partition."""
        self.commits: list[tuple[str, int, int]] = []
        """Topic, partition and offset of each commit to Kafka, in order."""
        self.clock = Clock()
        """The clock of the consumers' machine."""
        self.broker_clock = Clock()
        """The clock of the brokers. Its date can be set (`wall_s`), and drift."""
        self.broker_ms: Callable[[], int] = self.broker_clock.unix_ms
        """Returns the time for timestamps of records, in unix milliseconds."""
        self.appends: Callable[[Any], Append] = lambda _: LANDS
        """Decides the outcome of each message of the protocol that a consumer sends."""
        self.other_appends: Callable[[str], Append] = lambda _: LANDS
        """Decides the outcome of a record for any other topic, by the topic's name."""
        self.fetching: Callable[[list[Message]], None] = lambda _: None
        """Called with the messages of a fetch, before the consumer receives them."""
        self.reading_log: Callable[[], object] = lambda: None
        """Called whenever a client reads the coordination topic."""
        self.answers: Callable[[str], None] = lambda _: None
        """Called with the name of each request to the cluster; may raise its answer."""
        self.asked: Callable[[str], None] = lambda _: None
        """Called before the admin client accepts a request; may refuse it."""
        self.missing: Callable[[str], object] = lambda _: False
        """Whether the next description of a topic reports that it does not exist."""
        self.hidden: set[str] = set()
        """Topics that the clients' user may not describe: they are in no list of topics."""
        self.speaks: Callable[[], None] = lambda: None
        """Called whenever a client polls or sends; may raise an error that ends its thread."""
        self.topic_errors: dict[str, list[KafkaError]] = {}
        """The errors of the next descriptions of a topic, in order."""
        self.offset_errors: list[KafkaError] = []
        """The errors of the next look-ups of offsets, committed or by time, the last one first."""
        self.waiting_s: Callable[[], float] = time.monotonic
        """The clock for waiting polls, in seconds."""
        self.sleep: Callable[[float], object] = time.sleep
        """Sleeps by that clock."""
        self.process: Callable[[], str] = lambda: ""
        """Returns the process of the calling thread, to which a new client belongs."""
        self.any_of: Callable[[int], int] = lambda count: 0
        """Chooses one of this many partitions for a record without a key."""
        self.waits_for_more: Callable[[], bool] = lambda: False
        """Whether a sent record waits for others, to form one batch with them."""
        self.delivers_purged = True
        """Whether a sender receives the outcome of an append that it purges."""
        self.log_flows = True
        """Whether the coordination topic can be read."""
        self.told_aside: list[Callable[[KafkaError], None]] = []
        """The error callbacks of clients."""
        self.readings: list[Any] = []
        """All clients that fetch or read."""
        self.changes = 0
        """The number of changes of data that a client may read, or of its connections."""
        self._waiting: list[Any] = []
        """Clients that wait for new records or an answer."""
        self.unheard: list[Callable[[], None]] = []
        """Confirmations that were not delivered yet."""
        spec = TopicSpec(COORDINATION_TOPIC)
        self.create(COORDINATION_TOPIC, log_partitions, settings=settings_for(spec, brokers))

    # --- who waits for what ---------------------------------------------------------------------

    def condition(self) -> Any:
        """A condition on which a client waits for new records or an answer."""
        return threading.Condition(self.changed)

    def wait(self, client: Any, seconds: float | None) -> bool:
        """Wait until the client shall check again; False after a time-out.

        `changed` must be held.
        """
        self._waiting.append(client)
        try:
            return bool(client.changed.wait(seconds))
        finally:
            self._waiting.remove(client)

    def wake(self, topic: str | None = None, partition: int = 0) -> None:
        """Wake the clients that read a partition, or all clients. `changed` must be held."""
        self.changes += 1
        for client in self._waiting:
            if topic is None or client.reads(topic, partition):
                client.changed.notify_all()

    # --- topics and records -------------------------------------------------------------------

    def create(
        self,
        topic: str,
        partitions: int = 1,
        messages: int = 0,
        settings: Mapping[str, str] = NO_SETTINGS,
    ) -> None:
        """Create a topic with `messages` numbered messages in each partition."""
        self.topic_ids[topic] = self.new_topic_id()  # from here on nobody else creates it
        with self.changed:
            self.topics.pop(topic, None)
            self.topic_settings[topic] = settings
        self.grow(topic, partitions)
        for partition in range(partitions):
            self.produce(topic, messages, partition)

    def grow(self, topic: str, by: int = 1) -> None:
        """Add partitions to a topic."""
        with self.changed:
            settings, there = self.topic_settings[topic], self.topics.setdefault(topic, [])
            for number in range(len(there), len(there) + by):
                leader = self.numbers[number % len(self.numbers)]
                there.append(Partition(settings=settings, leader=leader))
            self.wake()

    def delete(self, topic: str) -> None:
        """Delete a topic, with the groups' commits for it; `create` makes it again, empty."""
        with self.changed:
            del self.topics[topic], self.topic_ids[topic], self.topic_settings[topic]
            for one in [one for one in self.committed if one[1] == topic]:
                del self.committed[one]
            self.wake()

    def partition(self, topic: str, partition: int) -> Partition | None:
        """A partition; None if it does not exist."""
        partitions = self.topics.get(topic, ())
        return partitions[partition] if 0 <= partition < len(partitions) else None

    def produce(self, topic: str, messages: int | Sequence[bytes], partition: int = 0) -> None:
        """Append messages with these values; a number appends that many, numbered by offset."""
        with self.changed:
            there = self.topics[topic][partition]
            now, begin = self.broker_ms(), there.high
            values = (
                [b"%d" % number for number in range(begin, begin + messages)]
                if isinstance(messages, int)
                else messages
            )
            kind = there.time_kind
            there.records += [Stored(value, (), now, None, kind) for value in values]
            self.wake(topic, partition)

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        key: bytes | None = None,
        timestamp_ms: int | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        """Append one record, and return its offset.

        `timestamp_ms` is the sender's time, which is stored if the topic has CreateTime.
        """
        with self.changed:
            there = self.topics[topic][partition]
            offset, kind = there.high, there.time_kind
            at_ms = self.broker_ms()
            if timestamp_ms is not None and kind == TIMESTAMP_CREATE_TIME:
                at_ms = timestamp_ms
            if transaction is not None:
                if (topic, partition) not in transaction.begins:
                    transaction.begins[topic, partition] = offset
                    there.open_transactions.append(offset)
                transaction.offsets.append((topic, partition, offset))
            there.records.append(Stored(value, headers, at_ms, key, kind))
            self.wake(topic, partition)
            return offset

    def end_transaction(self, transaction: Transaction, *, commit: bool) -> None:
        """Commit or abort a transaction; a control record follows in each partition."""
        with self.changed:
            for (topic, number), begin in transaction.begins.items():
                there = self.topics[topic][number]
                there.open_transactions.remove(begin)
                there.records.append(None)
            for topic, number, offset in () if commit else transaction.offsets:
                self.topics[topic][number].aborted.add(offset)
            self.wake()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Retention: remove records below this offset, where the log begins then."""
        with self.changed:
            there = self.topics[topic][partition]
            there.low = max(there.low, before)
            self.wake(topic, partition)

    def compact(self, topic: str, partition: int, before: int) -> None:
        """Compaction: keep only the last record of each key below this offset."""
        with self.changed:
            there = self.topics[topic][partition]
            cleaned = there.records[:before]
            latest = {one.key: offset for offset, one in enumerate(cleaned) if one is not None}
            for offset, one in enumerate(cleaned):
                if one is not None and latest[one.key] != offset:
                    there.records[offset] = None
            self.wake(topic, partition)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Unclean leader election: records from this offset on are lost; offsets are used again."""
        with self.changed:
            there = self.topics[topic][partition]
            del there.records[end:]
            there.cuts.append(end)
            there.low = min(there.low, end)
            there.aborted = {offset for offset in there.aborted if offset < end}
            there.open_transactions = [one for one in there.open_transactions if one < end]
            self.wake(topic, partition)

    def commit(self, group: str, offsets: Iterable[TopicPartition]) -> set[tuple[str, int]]:
        """Commit a group's offsets; returns the partitions that do not exist."""
        failed = set()
        with self.changed:
            for one in offsets:
                if self.partition(one.topic, one.partition) is None:
                    failed.add((one.topic, one.partition))
                    continue
                self.committed[group, one.topic, one.partition] = one.offset
                self.commits.append((one.topic, one.partition, one.offset))
        return failed

    def records(self, partition: int = 0, topic: str = COORDINATION_TOPIC) -> list[Stored]:
        """The records of a partition."""
        with self.changed:
            return [one for one in self.topics[topic][partition].records if one is not None]

    def said(self, kind: type[Said], partition: int = 0) -> list[Any]:
        """All messages of one kind in the coordination topic."""
        found = [decode_range(one.value) for one in self.records(partition)]
        return [each for each in found if isinstance(each, kind)]

    # --- what goes wrong ----------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move all clocks forward, those of consumers and of the brokers."""
        self.clock.advance(seconds)
        self.broker_clock.advance(seconds)

    def hold_log(self) -> None:
        """Make the coordination topic unreadable until `flow`."""
        with self.changed:
            self.log_flows = False

    def flow(self) -> None:
        """Make the coordination topic readable again."""
        with self.changed:
            self.log_flows = True
            self.wake()

    def deliver(self) -> None:
        """Deliver the confirmations that were held back."""
        with self.changed:
            unheard, self.unheard = self.unheard, []
            for each in unheard:
                each()
            self.wake()

    def link(self, link: Link, *, broker: int | None = None, process: str | None = None) -> None:
        """Set the connection to a broker, or to all, for the clients of a process, or for all."""
        with self.changed:
            if link == UP:
                self._links.pop((process, broker), None)
            else:
                self._links[process, broker] = link
            held, self._held = self._held, []
            for client, partition, arrives in held:
                if self.link_to(client, partition).arrives:
                    arrives()
                else:
                    self._held.append((client, partition, arrives))
            self.wake()

    def hold(self, process: str, partition: Partition, arrives: Callable[[], object]) -> None:
        """Keep a process's request, which arrives when the broker continues."""
        with self.changed:
            self._held.append((process, partition, arrives))

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Move the leader of a partition; clients look it up by themselves."""
        with self.changed:
            self.topics[topic][partition].leader = broker
            self.wake(topic, partition)

    @property
    def linked(self) -> bool:
        """Whether any connection does not work normally."""
        return bool(self._links)

    def link_to(self, process: str, partition: Partition | None) -> Link:
        """The connection of a process to the broker that leads a partition."""
        if not self._links or partition is None:
            return UP
        return self._link(process, partition.leader)

    def _link(self, process: str, broker: int) -> Link:
        for one in ((process, broker), (process, None), (None, broker), (None, None)):
            if one in self._links:
                return self._links[one]
        return UP

    def reach(self, process: str, timeout_s: float, partition: Partition | None = None) -> Link:
        """Wait for the reply of a partition's leader, or of any broker; return the connection.

        If it does not work, wait for the whole time-out.
        """
        if not self._links:
            return UP
        if partition is not None:
            link = self._link(process, partition.leader)
        else:
            links = [self._link(process, number) for number in self.numbers]
            link = min(links, key=lambda one: (not one.works, one.latency_s))
        if link.works and link.latency_s > timeout_s:
            link = CUT
        self.sleep(link.latency_s if link.works else timeout_s)
        return link

    def ask(self, process: str, timeout_s: float, *, refused: int = KafkaError._TIMED_OUT) -> None:
        """Contact any broker; raise if none answers, with the code `refused` if they have ended."""
        link = self.reach(process, timeout_s)
        if not link.works:
            raise KafkaException(KafkaError(refused if link.refused else KafkaError._TIMED_OUT))

    def metadata(self, topic: str = "") -> Any:
        """A broker's metadata of a topic, or of all."""
        wanted = [topic] if topic else [name for name in self.topics if name not in self.hidden]
        topics = {name: self._listed(name) for name in wanted}
        for each in self.topic_errors.values():
            del each[:1]
        brokers = {number: SimpleNamespace(id=number) for number in self.numbers}
        return SimpleNamespace(cluster_id="in-memory", topics=topics, brokers=brokers)

    def _listed(self, topic: str) -> Any:
        error = next(iter(self.topic_errors.get(topic, [])), None)
        if topic in self.hidden:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
        elif topic not in self.topics:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        numbers = list(self.numbers)
        partitions = {
            number: SimpleNamespace(
                id=number, leader=one.leader, replicas=numbers, isrs=numbers, error=None
            )
            for number, one in enumerate(self.topics.get(topic, ()))
        }
        return SimpleNamespace(topic=topic, partitions=partitions, error=error)
