"""What the brokers hold, and what a test makes them answer. Clients of Kafka are made elsewhere.

Every hook is called without a lock, in the thread that asks.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final

from attrs import frozen
from confluent_kafka import KafkaError, Message

from kafka_marshal.codec import decode
from kafka_marshal.core.messages import Message as Said
from kafka_marshal.errors import COORDINATION_TOPIC
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
"""It is appended, and its sender does not hear at which offset."""
LOST: Final = Append(lands=False, error=KafkaError(KafkaError._MSG_TIMED_OUT))
"""It is not appended, and its sender cannot know."""
LANDS_UNKNOWN: Final = Append(error=KafkaError(KafkaError._MSG_TIMED_OUT))
"""It is appended, and its sender cannot know."""


class Brokers:
    """The cluster. Every method may be called by any thread."""

    def __init__(self, log_partitions: int = 1) -> None:
        """With the coordination topic, of `log_partitions` partitions, and no other topic."""
        self.changed: Any = threading.RLock()
        """Held to look at what lies in a partition, and to change it."""
        self.topics: dict[str, list[Partition]] = {}
        """The partitions of each topic."""
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        """Kafka's committed offsets, by group, topic and partition."""
        self.commits: list[tuple[str, int, int]] = []
        """Topic, partition and offset of each commit to Kafka, in their order."""
        self.clock = Clock()
        """The clocks of the machine that consumers run on."""
        self.broker_clock = Clock()
        """The clock of the brokers."""
        self.broker_ms: Callable[[], int] = self.broker_clock.unix_ms
        """The clock that stamps records, in unix milliseconds."""
        self.appends: Callable[[Said], Append] = lambda _: LANDS
        """Decides what becomes of each message of the protocol that a consumer sends."""
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
        self.waiting_s = time.monotonic
        """The clock by which a poll waits for what may come, in seconds."""
        self.delivers_purged = True
        """Whether a sender is notified of an append that it gives up."""
        self.log_flows = True
        """Whether anybody can read the coordination topic."""
        self.told_aside: list[Callable[[KafkaError], None]] = []
        """Callbacks of clients for errors."""
        self.readings: list[Any] = []
        """Every client that fetches or reads."""
        self._waiting: list[Any] = []
        """Clients that wait for a change of what they read, or for an answer."""
        self.unheard: list[Callable[[], None]] = []
        """Confirmations that nobody has heard."""
        self.create(COORDINATION_TOPIC, log_partitions)

    def condition(self) -> Any:
        """What a client waits on for a change of what it reads, or an answer."""
        return threading.Condition(self.changed)

    def wait(self, client: Any, seconds: float) -> bool:
        """Let a client wait until it is to look; False if that takes longer. `changed` is held."""
        self._waiting.append(client)
        try:
            return bool(client.changed.wait(seconds))
        finally:
            self._waiting.remove(client)

    def wake(self, topic: str | None = None, partition: int = 0) -> None:
        """Let the clients look that read a partition, or all clients. `changed` is held."""
        for client in self._waiting:
            if topic is None or client.reads(topic, partition):
                client.changed.notify_all()

    def create(self, topic: str, partitions: int = 1, messages: int = 0) -> None:
        """Create a topic; `messages` numbered messages lie in each of its partitions."""
        with self.changed:
            self.topics[topic] = [Partition() for _ in range(partitions)]
            self.topic_ids[topic] = uuid.uuid4()
        for partition in range(partitions):
            self.produce(topic, messages, partition)

    def grow(self, topic: str) -> None:
        """Add a partition to a topic."""
        with self.changed:
            self.topics[topic].append(Partition())

    def produce(self, topic: str, messages: int | Sequence[bytes], partition: int = 0) -> None:
        """Append messages with these values; a number appends that many, numbered by offset."""
        with self.changed:
            records = self.topics[topic][partition].records
            now, begin = self.broker_ms(), len(records)
            values = (
                [b"%d" % number for number in range(begin, begin + messages)]
                if isinstance(messages, int)
                else messages
            )
            records += [Stored(value, (), now) for value in values]
            self.wake(topic, partition)

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        key: bytes | None = None,
    ) -> int:
        """Append one record, and return its offset."""
        with self.changed:
            records = self.topics[topic][partition].records
            records.append(Stored(value, headers, self.broker_ms(), key))
            self.wake(topic, partition)
            return len(records) - 1

    def records(self, partition: int = 0, topic: str = COORDINATION_TOPIC) -> list[Stored]:
        """What lies in a partition."""
        with self.changed:
            return [one for one in self.topics[topic][partition].records if one is not None]

    def said(self, kind: type[Said], partition: int = 0) -> list[Any]:
        """All messages of one kind that lie in the coordination topic."""
        found = [decode(one.value) for one in self.records(partition)]
        return [each for each in found if isinstance(each, kind)]

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

    def metadata(self) -> Any:
        """A broker's description of all topics."""
        topics: Mapping[str, Any] = {
            name: SimpleNamespace(
                partitions=dict(enumerate(partitions)),
                error=next(iter(self.topic_errors.get(name, [])), None),
            )
            for name, partitions in self.topics.items()
        }
        for each in self.topic_errors.values():
            del each[:1]
        return SimpleNamespace(cluster_id="in-memory", topics=topics, brokers={1: None})
