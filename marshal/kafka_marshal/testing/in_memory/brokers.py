"""The state of the brokers in memory, and the errors that a test makes them return.

Every hook is called without a lock, in the thread that asks.
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
    """What becomes of a record that is sent."""

    lands: bool = True
    error: KafkaError | None = None
    """What its sender hears; None is that it was appended."""
    offset_known: bool = True
    """Whether the confirmation says where it lies."""
    heard: bool = True
    """Whether its sender hears anything, before `InMemoryKafka.deliver`."""
    after_s: float = 0.0
    """How long after it was sent its sender hears, in seconds."""


LANDS: Final = Append()
"""It is appended, and its sender hears so."""
LANDS_UNHEARD: Final = Append(heard=False)
"""It is appended, and its sender hears so when `InMemoryKafka.deliver` is called."""
LANDS_SOMEWHERE: Final = Append(offset_known=False)
"""It is appended, and its sender hears of no offset, so it cannot know that."""
LOST: Final = Append(lands=False, error=KafkaError(KafkaError._MSG_TIMED_OUT))
"""It is not appended, and its sender cannot know."""
LANDS_UNKNOWN: Final = Append(error=KafkaError(KafkaError._MSG_TIMED_OUT))
"""It is appended, and its sender cannot know."""


@frozen
class Link:
    """The way from a client to a broker and back."""

    arrives: bool = True
    """Whether requests arrive."""
    answered: bool = True
    """Whether replies come back."""
    refused: bool = False
    """Whether connecting fails at once, since nobody listens."""
    holds: bool = False
    """Whether a request that does not arrive will, when the way works again."""
    latency_s: float = 0.0
    """How long a request and its reply take together, in seconds."""

    @property
    def works(self) -> bool:
        """Whether requests are answered."""
        return self.arrives and self.answered


UP: Final = Link()
"""Requests are answered at once."""
DOWN: Final = Link(arrives=False, answered=False, refused=True)
"""The broker has ended: nobody listens."""
CUT: Final = Link(arrives=False, answered=False)
"""Nothing arrives, as where a switch drops everything."""
PAUSED: Final = Link(arrives=False, answered=False, holds=True)
"""The broker stands still: what is sent to it meanwhile arrives when it goes on."""
REPLIES_CUT: Final = Link(answered=False)
"""Requests arrive, and replies do not."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@define(eq=False)
class Transaction:
    """Records that a transactional producer has appended, and not yet committed or aborted."""

    begins: dict[tuple[str, int], int] = field(factory=dict)
    """The offset of its first record in each partition."""
    offsets: list[tuple[str, int, int]] = field(factory=list)
    """Topic, partition and offset of each record."""


class Brokers:
    """The cluster. Every method may be called by any thread."""

    def __init__(self, log_partitions: int = 1, brokers: int = 1) -> None:
        """With the coordination topic, of `log_partitions` partitions, and no other topic."""
        self.numbers: Final = range(1, brokers + 1)
        """The brokers."""
        self.changed: Any = threading.RLock()
        """Held to look at what lies in a partition, and to change it."""
        self.topics: dict[str, list[Partition]] = {}
        """The partitions of each topic."""
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.new_topic_id: Callable[[], uuid.UUID] = uuid.uuid4
        self.topic_settings: dict[str, Mapping[str, str]] = {}
        """Settings of each topic, where they differ from the brokers'."""
        self._held: list[tuple[str, Partition, Callable[[], object]]] = []
        """What is on its way to brokers that stand still: by whom, to what, and what arrives."""
        self._links: dict[tuple[str | None, int | None], Link] = {}
        """Ways that do not work as they should, by the client's process and the broker."""
        self.committed: dict[tuple[str, str, int], int] = {}
        """Kafka's committed offsets, by group, topic and partition."""
        self.commits: list[tuple[str, int, int]] = []
        """Topic, partition and offset of each commit to Kafka, in their order."""
        self.clock = Clock()
        """The clocks of the machine that consumers run on."""
        self.broker_clock = Clock()
        """The clock of the brokers. Its date can be set (`wall_s`), and drift."""
        self.broker_ms: Callable[[], int] = self.broker_clock.unix_ms
        """The clock that stamps records, in unix milliseconds."""
        self.appends: Callable[[Any], Append] = lambda _: LANDS
        """Decides what becomes of each message of the protocol that a consumer sends."""
        self.other_appends: Callable[[str], Append] = lambda _: LANDS
        """Decides what becomes of a record for another topic than that, by the topic's name."""
        self.fetching: Callable[[list[Message]], None] = lambda _: None
        """Called with what a fetch of messages brings, before the consumer has it."""
        self.reading_log: Callable[[], object] = lambda: None
        """Called whenever somebody reads the coordination topic."""
        self.answers: Callable[[str], None] = lambda _: None
        """Called with the name of each question to the cluster; may raise its answer."""
        self.asked: Callable[[str], None] = lambda _: None
        """Called before a question to the admin client is taken; may refuse it."""
        self.missing: Callable[[str], object] = lambda _: False
        """Whether the next description of a topic reports that it does not exist."""
        self.speaks: Callable[[], None] = lambda: None
        """Called whenever a client polls, sends or asks; may raise what ends its thread."""
        self.topic_errors: dict[str, list[KafkaError]] = {}
        """The errors of the next descriptions of a topic, in order."""
        self.offset_errors: list[KafkaError] = []
        """The errors of the next look-ups of offsets, committed or by time, the last one first."""
        self.waiting_s: Callable[[], float] = time.monotonic
        """The clock by which a poll waits for what may come, in seconds."""
        self.sleep: Callable[[float], object] = time.sleep
        """Lets seconds pass on that clock."""
        self.process: Callable[[], str] = lambda: ""
        """The process of the calling thread: a client belongs to the one that makes it."""
        self.any_of: Callable[[int], int] = lambda count: 0
        """Chooses one of this many partitions for a record without a key."""
        self.waits_for_more: Callable[[], bool] = lambda: False
        """Whether a record that is sent waits for others, and is then one batch with them."""
        self.delivers_purged = True
        """Whether a sender is notified of an append that it gives up."""
        self.log_flows = True
        """Whether anybody can read the coordination topic."""
        self.told_aside: list[Callable[[KafkaError], None]] = []
        """Callbacks of clients for errors."""
        self.readings: list[Any] = []
        """Every client that fetches or reads."""
        self.changes = 0
        """How often something changed that a client may read, or its way to the brokers."""
        self._waiting: list[Any] = []
        """Clients that wait for a change of what they read, or for an answer."""
        self.unheard: list[Callable[[], None]] = []
        """Confirmations that nobody has heard."""
        spec = TopicSpec(COORDINATION_TOPIC)
        self.create(COORDINATION_TOPIC, log_partitions, settings=settings_for(spec, brokers))

    # --- who waits for what ---------------------------------------------------------------------

    def condition(self) -> Any:
        """What a client waits on for a change of what it reads, or an answer."""
        return threading.Condition(self.changed)

    def wait(self, client: Any, seconds: float | None) -> bool:
        """Let a client wait until it is to look; False if that takes longer. `changed` is held."""
        self._waiting.append(client)
        try:
            return bool(client.changed.wait(seconds))
        finally:
            self._waiting.remove(client)

    def wake(self, topic: str | None = None, partition: int = 0) -> None:
        """Let the clients look that read a partition, or all clients. `changed` is held."""
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
        """Create a topic; `messages` numbered messages lie in each of its partitions."""
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
        """Delete a topic, and what groups have committed for it; `create` brings it back, empty."""
        with self.changed:
            del self.topics[topic], self.topic_ids[topic], self.topic_settings[topic]
            for one in [one for one in self.committed if one[1] == topic]:
                del self.committed[one]
            self.wake()

    def partition(self, topic: str, partition: int) -> Partition | None:
        """What lies in a partition; None if it does not exist."""
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

        `timestamp_ms` is the sender's time, which counts where the topic keeps it.
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
        """Commit what it appended, or abort it; a control record follows in each partition."""
        with self.changed:
            for (topic, number), begin in transaction.begins.items():
                there = self.topics[topic][number]
                there.open_transactions.remove(begin)
                there.records.append(None)
            for topic, number, offset in () if commit else transaction.offsets:
                self.topics[topic][number].aborted.add(offset)
            self.wake()

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Retention: what lies before this offset is gone, and the log begins there."""
        with self.changed:
            there = self.topics[topic][partition]
            there.low = max(there.low, before)
            self.wake(topic, partition)

    def compact(self, topic: str, partition: int, before: int) -> None:
        """Of the records below this offset only the last of each key stay, as after compaction."""
        with self.changed:
            there = self.topics[topic][partition]
            cleaned = there.records[:before]
            latest = {one.key: offset for offset, one in enumerate(cleaned) if one is not None}
            for offset, one in enumerate(cleaned):
                if one is not None and latest[one.key] != offset:
                    there.records[offset] = None
            self.wake(topic, partition)

    def truncate(self, topic: str, partition: int, end: int) -> None:
        """Unclean election: what lies from this offset on is lost; its offsets are used anew."""
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
        """What lies in a partition."""
        with self.changed:
            return [one for one in self.topics[topic][partition].records if one is not None]

    def said(self, kind: type[Said], partition: int = 0) -> list[Any]:
        """All messages of one kind that lie in the coordination topic."""
        found = [decode_range(one.value) for one in self.records(partition)]
        return [each for each in found if isinstance(each, kind)]

    # --- what goes wrong ----------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """Move all clocks on, those of consumers and of the brokers."""
        self.clock.advance(seconds)
        self.broker_clock.advance(seconds)

    def hold_log(self) -> None:
        """Nobody can read the coordination topic, until `flow`."""
        with self.changed:
            self.log_flows = False

    def flow(self) -> None:
        """The coordination topic can be read again."""
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
        """Set the way to a broker, or to all, for the clients of a process, or for all."""
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
        """Something of a process is on its way, and arrives when the broker goes on."""
        with self.changed:
            self._held.append((process, partition, arrives))

    def move_leader(self, topic: str, partition: int, broker: int) -> None:
        """Let another broker lead a partition; clients find it by themselves."""
        with self.changed:
            self.topics[topic][partition].leader = broker
            self.wake(topic, partition)

    @property
    def linked(self) -> bool:
        """Whether a way does not work as it should."""
        return bool(self._links)

    def link_to(self, process: str, partition: Partition | None) -> Link:
        """The way of a process to the broker that leads a partition."""
        if not self._links or partition is None:
            return UP
        return self._link(process, partition.leader)

    def _link(self, process: str, broker: int) -> Link:
        for one in ((process, broker), (process, None), (None, broker), (None, None)):
            if one in self._links:
                return self._links[one]
        return UP

    def reach(self, process: str, timeout_s: float, partition: Partition | None = None) -> Link:
        """Take as long as an answer of its leader takes, or of any broker; return the way there.

        Where it does not work, the whole time-out has passed.
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
        """Ask any broker; raise if none answers, with another code where they have ended."""
        link = self.reach(process, timeout_s)
        if not link.works:
            raise KafkaException(KafkaError(refused if link.refused else KafkaError._TIMED_OUT))

    def metadata(self, topic: str = "") -> Any:
        """A broker's description of a topic, or of all."""
        wanted = [topic] if topic else self.topics
        topics = {name: self._listed(name) for name in wanted}
        for each in self.topic_errors.values():
            del each[:1]
        brokers = {number: SimpleNamespace(id=number) for number in self.numbers}
        return SimpleNamespace(cluster_id="in-memory", topics=topics, brokers=brokers)

    def _listed(self, topic: str) -> Any:
        error = next(iter(self.topic_errors.get(topic, [])), None)
        if topic not in self.topics:
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        numbers = list(self.numbers)
        partitions = {
            number: SimpleNamespace(
                id=number, leader=one.leader, replicas=numbers, isrs=numbers, error=None
            )
            for number, one in enumerate(self.topics.get(topic, ()))
        }
        return SimpleNamespace(topic=topic, partitions=partitions, error=error)
