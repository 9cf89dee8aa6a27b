"""A cluster of Kafka in memory, driven by hand, for the shipped `Consumer` in its real threads.

It stands behind `client.connect.environment`, so everything above Kafka's own client is what ships.
A test decides at each call what happens: which append lands and what its sender hears of it
(`appends`), what is done while a fetch is on its way (`fetching`), whether the log can be read
(`log_flows`), what an administrator's question is answered (`answers`), what the clocks show.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import SimpleNamespace
from typing import Any, Final

from attrs import define, field, frozen
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_marshal import encode
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.environment import Environment
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.codec import decode, encode_headers
from kafka_marshal.core.messages import NO_HEADERS, Headers
from kafka_marshal.core.messages import Message as Said

LOG: Final = "__marshal"
WITHIN_S: Final = 20.0
"""No test waits longer for what is to happen."""


@frozen
class Append:
    """What became of a record that was sent."""

    lands: bool = True
    error: KafkaError | None = None
    """What its sender hears; None is that it was appended."""
    offset_known: bool = True
    """Whether the confirmation says where it lies."""
    heard: bool = True
    """Whether its sender hears anything, before `Kafka.deliver`."""


LANDS: Final = Append()
LANDS_UNHEARD: Final = Append(heard=False)
LANDS_SOMEWHERE: Final = Append(offset_known=False)
LOST: Final = Append(lands=False, error=KafkaError(KafkaError._MSG_TIMED_OUT))
LANDS_UNKNOWN: Final = Append(error=KafkaError(KafkaError._MSG_TIMED_OUT))


class Broken(Exception):
    """Nothing that a client of Kafka raises."""


@frozen
class Stored:
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 0


@define(eq=False)
class Partition:
    records: list[Stored | None] = field(factory=list)
    """None where the log was compacted, or holds a control record."""
    low: int = 0

    @property
    def high(self) -> int:
        return len(self.records)

    def first_at(self, at_ms: int) -> int:
        """The first record that is not older; -1 if there is none."""
        for offset in range(self.low, self.high):
            stored = self.records[offset]
            if stored is not None and stored.timestamp_ms >= at_ms:
                return offset
        return -1


@define(eq=False)
class Clock:
    """Runs with the machine's, and can be moved."""

    ahead_s: float = 0.0
    """By how much both clocks were moved on."""
    wall_s: float = 0.0
    """By how much the machine's date was set."""
    _began_unix_ms: int = 1_700_000_000_000
    _began_s: float = field(factory=time.monotonic)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s

    def unix_ms(self) -> int:
        return int(self._began_unix_ms + 1000 * (self.monotonic() - self._began_s + self.wall_s))


class Kafka:
    """The cluster. Every method may be called by any thread."""

    def __init__(self, log_partitions: int = 1) -> None:
        self.changed = threading.Condition()
        self.topics: dict[str, list[Partition]] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.committed: dict[tuple[str, str, int], int] = {}
        self.commits: list[tuple[str, int, int]] = []
        """Topic, partition and offset of each commit, in their order."""
        self.clock = Clock()
        """The consumers' machine."""
        self.broker_ms: Callable[[], int] = Clock().unix_ms
        """The clock that stamps records."""
        self.appends: Callable[[Said], Append] = lambda _: LANDS
        """Says what becomes of each record that a consumer sends."""
        self.fetching: Callable[[list[Message]], None] = lambda _: None
        """Called with what a fetch brings, before the consumer has it; no lock is held."""
        self.reading_log: Callable[[], object] = lambda: None
        """Called whenever somebody reads the log; no lock is held."""
        self.delivers_purged = True
        """Whether an append that its sender gives up is heard of."""
        self.missing: Callable[[str], object] = lambda _: False
        """Whether the next description of a topic is that there is none."""
        self.told_aside: list[Callable[[KafkaError], None]] = []
        self.more_settings: dict[str, str] = {}
        """Settings of librdkafka that an application gives."""
        self.readings: list[Reading] = []
        """Every client that fetches or reads."""
        self.log_flows = True
        self.answers: Callable[[str], None] = lambda _: None
        """Called with the name of each question to the cluster; may raise its answer."""
        self.topic_errors: dict[str, list[KafkaError]] = {}
        """With what the next descriptions of a topic come."""
        self.offset_errors: list[KafkaError] = []
        """With what the next committed offsets, or offsets at a time, come."""
        self.asked: Callable[[str], None] = lambda _: None
        """Called before a question to the admin client is taken; may refuse it."""
        self.threads: list[threading.Thread] = []
        self.broken: str | None = None
        """The thread of this name fails at its next word to the cluster; see `ends_thread`."""
        self._unheard: list[Callable[[], None]] = []
        self.create(LOG, log_partitions)

    # --- what a test does ---------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1, messages: int = 0) -> None:
        """A topic; each of its partitions with so many messages, numbered."""
        with self.changed:
            self.topics[topic] = [Partition() for _ in range(partitions)]
            self.topic_ids[topic] = uuid.uuid4()
        for partition in range(partitions):
            self.produce(topic, messages, partition)

    def produce(self, topic: str, messages: int, partition: int = 0) -> None:
        """So many more messages."""
        with self.changed:
            records = self.topics[topic][partition].records
            now = self.broker_ms()
            records += [
                Stored(b"%d" % n, (), now) for n in range(len(records), len(records) + messages)
            ]
            self.changed.notify_all()

    def append(
        self,
        topic: str,
        partition: int,
        value: bytes | None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
    ) -> int:
        """One record; returns its offset."""
        with self.changed:
            records = self.topics[topic][partition].records
            records.append(Stored(value, headers, self.broker_ms()))
            self.changed.notify_all()
            return len(records) - 1

    def says(self, message: Said, headers: Headers = NO_HEADERS, partition: int = 0) -> int:
        """Somebody else appends this to the log; returns its offset."""
        pairs = tuple((name, value) for name, value in encode_headers(headers))
        return self.append(LOG, partition, encode(message), pairs)

    def said(self, kind: type[Said], partition: int = 0) -> list[Any]:
        """All messages of one kind that lie in the log."""
        with self.changed:
            values = [one.value for one in self.topics[LOG][partition].records if one is not None]
        return [each for each in map(decode, values) if isinstance(each, kind)]

    def records(self, partition: int = 0) -> list[Stored]:
        """What lies in the log."""
        with self.changed:
            return [one for one in self.topics[LOG][partition].records if one is not None]

    def hold_log(self) -> None:
        """Nobody can read the log, until `flow`."""
        with self.changed:
            self.log_flows = False

    def flow(self) -> None:
        """The log can be read again."""
        with self.changed:
            self.log_flows = True
            self.changed.notify_all()

    def deliver(self) -> None:
        """What was not heard is heard now."""
        with self.changed:
            unheard, self._unheard = self._unheard, []
            for each in unheard:
                each()
            self.changed.notify_all()

    def says_aside(self, error: KafkaError) -> None:
        """Every client tells this error in its callback."""
        for told in self.told_aside:
            told(error)

    def ends_thread(self, name: str) -> None:
        """The thread whose name begins so dies of a `Broken` as soon as it asks for something."""
        self.broken = name
        until(lambda: any(one.name.startswith(name) for one in self.threads))
        until(lambda: not any(t.is_alive() for t in self.threads if t.name.startswith(name)))
        self.broken = None

    def called(self) -> None:
        """Somebody speaks to the cluster."""
        name = threading.current_thread().name
        if self.broken is not None and name.startswith(self.broken):
            raise Broken("a wire is loose")

    def metadata(self) -> Any:
        """What a broker says of all topics."""
        topics = {
            name: SimpleNamespace(
                partitions=dict(enumerate(partitions)),
                error=next(iter(self.topic_errors.get(name, [])), None),
            )
            for name, partitions in self.topics.items()
        }
        for each in self.topic_errors.values():
            del each[:1]
        return SimpleNamespace(cluster_id="in-memory", topics=topics, brokers={1: None})

    @property
    def environment(self) -> Environment:
        """What a consumer of this cluster is made of."""
        return Environment(
            fetcher=partial(Reading, self, False),
            log_reader=partial(Reading, self, True),
            appender=partial(Producing, self),
            admin=partial(Asking, self),
            monotonic=self.clock.monotonic,
            unix_ms=self.clock.unix_ms,
            thread=self._start,
        )

    def _start(self, run: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=run, name=name, daemon=True)
        self.threads.append(thread)
        thread.start()
        return thread

    def settings(self) -> Settings:
        values = {"bootstrap.servers": "in-memory:9092", **self.more_settings}
        return Settings(values, environment=self.environment)

    def new_consumer(self, client_id: str = "c1", **options: Any) -> Consumer:
        """A consumer of group g; its test closes it."""
        given: dict[str, Any] = {"heartbeat_interval_s": 60.0, **options}
        return Consumer(settings=self.settings(), group_id="g", client_id=client_id, **given)

    @contextmanager
    def consumer(self, client_id: str = "c1", **options: Any) -> Iterator[Consumer]:
        """A consumer of group g."""
        consumer = self.new_consumer(client_id, **options)
        try:
            yield consumer
        finally:
            self.appends, self.fetching, self.answers = (
                (lambda _: LANDS),
                (lambda _: None),
                (lambda _: None),
            )
            self.flow()
            self.deliver()
            consumer.close(timeout_s=WITHIN_S)


class Reading:
    """Kafka's consumer, for messages or for the log."""

    def __init__(self, kafka: Kafka, of_log: bool, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka, self._of_log, self._made_of = kafka, of_log, made_of
        self._next: dict[tuple[str, int], int] = {}
        self._paused: set[tuple[str, int]] = set()
        self._told_end: dict[tuple[str, int], int] = {}
        self.closed = False
        kafka.readings.append(self)

    # --- what is read -------------------------------------------------------------------------

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.unassign()
        self.incremental_assign(partitions)

    def unassign(self) -> None:
        with self._kafka.changed:
            self._next.clear()

    def incremental_assign(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            for one in partitions:
                place = (one.topic, one.partition)
                if place in self._next:
                    reason = f"{place[0]} [{place[1]}] is already part of the current assignment"
                    raise KafkaException(KafkaError(KafkaError._CONFLICT, reason))
                self._next[place] = one.offset
                self._told_end.pop(place, None)
                self._paused.discard(place)

    def incremental_unassign(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            for one in partitions:
                if self._next.pop((one.topic, one.partition), None) is None:
                    reason = f"{one.topic} [{one.partition}] is not part of the current assignment"
                    raise KafkaException(KafkaError(KafkaError._INVALID_ARG, reason))

    def pause(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            self._paused.update((one.topic, one.partition) for one in partitions)

    def resume(self, partitions: list[TopicPartition]) -> None:
        with self._kafka.changed:
            self._paused.difference_update((one.topic, one.partition) for one in partitions)

    def poll(self, timeout: float = -1) -> Message | None:
        return next(iter(self.consume(1, timeout)), None)

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._kafka.called()
        assert not self.closed, "closed under a poll"
        if self._of_log:
            self._kafka.reading_log()
        deadline = time.monotonic() + timeout
        with self._kafka.changed:
            while not (found := self._there(num_messages)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._kafka.changed.wait(left):
                    break
        if not self._of_log and found:
            self._kafka.fetching(found)
        return found

    def _there(self, maximum: int) -> list[Message]:
        if self._of_log and not self._kafka.log_flows:
            return []
        found: list[Message] = []
        for place, begin in list(self._next.items()):
            if place in self._paused:
                continue
            partition = self._kafka.topics[place[0]][place[1]]
            if not partition.low <= begin <= partition.high:
                # Another thing than an end, and told also where the end was told.
                if self._told_end.get(place) != -1 - begin:
                    self._told_end[place] = -1 - begin
                    found.append(_error(place, begin, KafkaError._AUTO_OFFSET_RESET))
                continue
            offset = begin
            while offset < partition.high and len(found) < maximum:
                stored = partition.records[offset]
                if stored is not None:
                    found.append(_message(place, offset, stored))
                offset += 1
            self._next[place] = offset
            at_end = offset == partition.high and self._told_end.get(place) != offset
            if at_end and len(found) < maximum:
                self._told_end[place] = offset
                found.append(_error(place, offset, KafkaError._PARTITION_EOF))
        return found

    # --- what is asked ------------------------------------------------------------------------

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        self._kafka.answers("list_topics")
        return self._kafka.metadata()

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, cached: bool = False
    ) -> tuple[int, int]:
        if not cached:
            self._kafka.answers("get_watermark_offsets")
        with self._kafka.changed:
            one = self._kafka.topics[partition.topic][partition.partition]
            return one.low, one.high

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        self._kafka.answers("offsets_for_times")
        with self._kafka.changed:
            return self._unknown(partitions) or [
                TopicPartition(
                    one.topic,
                    one.partition,
                    self._kafka.topics[one.topic][one.partition].first_at(one.offset),
                )
                for one in partitions
            ]

    def committed(
        self, partitions: list[TopicPartition], timeout: float = -1
    ) -> list[TopicPartition]:
        self._kafka.answers("committed")
        group = self._made_of["group.id"]
        with self._kafka.changed:
            return self._unknown(partitions) or [
                TopicPartition(
                    one.topic,
                    one.partition,
                    self._kafka.committed.get((group, one.topic, one.partition), -1001),
                )
                for one in partitions
            ]

    def _unknown(self, partitions: list[TopicPartition]) -> list[Any]:
        """An error of each, if a test says so; else none."""
        error = self._kafka.offset_errors.pop() if self._kafka.offset_errors else None
        return [
            SimpleNamespace(topic=one.topic, partition=one.partition, offset=-1001, error=error)
            for one in partitions
            if error is not None
        ]

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> None:
        group = self._made_of["group.id"]
        with self._kafka.changed:
            for one in offsets:
                self._kafka.committed[group, one.topic, one.partition] = one.offset
                self._kafka.commits.append((one.topic, one.partition, one.offset))
            self._kafka.changed.notify_all()

    def close(self) -> None:
        self.closed = True
        self.unassign()


class Producing:
    """Kafka's producer."""

    def __init__(self, kafka: Kafka, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka = kafka
        kafka.told_aside += [made_of["error_cb"]] if "error_cb" in made_of else []
        self._heard: deque[Callable[[], None]] = deque()
        self._open = 0

    def produce(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        *,
        partition: int = 0,
        headers: Any = (),
        on_delivery: Callable[[KafkaError | None, Message], None] = lambda *_: None,
        **_: Any,
    ) -> None:
        self._kafka.called()
        became = self._kafka.appends(decode(value)) if topic == LOG else LANDS
        offset = (
            self._kafka.append(topic, partition, value, tuple(headers)) if became.lands else None
        )
        known = offset if became.offset_known else None
        where: dict[str, Any] = {} if known is None else {"offset": known}
        message = Message(topic=topic, partition=partition, value=value, **where)
        with self._kafka.changed:
            self._open += 1
            hear = partial(self._heard.append, partial(on_delivery, became.error, message))
            if became.heard:
                hear()
            else:
                self._kafka._unheard.append(hear)
            self._kafka.changed.notify_all()

    def poll(self, timeout: float = -1) -> int:
        self._kafka.called()
        with self._kafka.changed:
            if not self._heard:
                self._kafka.changed.wait(timeout)
            calls = list(self._heard)
            self._heard.clear()
        for call in calls:
            with self._kafka.changed:
                self._open -= 1
            call()
        return len(calls)

    def __len__(self) -> int:
        return self._open

    def purge(self) -> None:
        if self._kafka.delivers_purged:
            self._kafka.deliver()


class Asking:
    """Kafka's admin client."""

    def __init__(self, kafka: Kafka, made_of: dict[str, Any], **_: Any) -> None:
        self._kafka = kafka

    def poll(self, timeout: float = -1) -> int:
        return 0

    def list_topics(self, topic: str = "", timeout: float = -1) -> Any:
        self._kafka.called()
        self._kafka.asked("list_topics")
        self._kafka.answers("list_topics")
        return self._kafka.metadata()

    def describe_topics(self, topics: Any, **_: Any) -> dict[str, Future[Any]]:
        return {
            name: self._promised("describe_topics", partial(self._described, name))
            for name in topics.topic_names
        }

    def _described(self, name: str) -> Any:
        partitions = self._kafka.topics.get(name)
        if partitions is None or self._kafka.missing(name):
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
        node = SimpleNamespace(id=1)
        bits = self._kafka.topic_ids[name].int
        return SimpleNamespace(
            partitions=[
                SimpleNamespace(id=number, leader=node, replicas=[node], isr=[node])
                for number in range(len(partitions))
            ],
            authorized_operations=None,
            topic_id=SimpleNamespace(
                get_most_significant_bits=lambda: bits >> 64,
                get_least_significant_bits=lambda: bits & (2**64 - 1),
            ),
        )

    def list_offsets(self, wanted: dict[TopicPartition, Any], **_: Any) -> dict[Any, Future[Any]]:
        return {
            place: self._promised("list_offsets", partial(self._offset, place, spec))
            for place, spec in wanted.items()
        }

    def _offset(self, place: TopicPartition, spec: Any) -> Any:
        with self._kafka.changed:
            one = self._kafka.topics[place.topic][place.partition]
            found = {-2: one.low, -1: one.high}.get(spec._value)
            return SimpleNamespace(offset=one.first_at(spec._value) if found is None else found)

    def __getattr__(self, question: str) -> Callable[..., dict[Any, Future[Any]]]:
        """Any other question is refused, unless `answers` says otherwise."""

        def refused() -> Any:
            raise KafkaException(KafkaError(KafkaError.INVALID_REQUEST))

        return lambda *_, **__: defaultdict(lambda: self._promised(question, refused))

    def _promised(self, question: str, answer: Callable[[], Any]) -> Future[Any]:
        self._kafka.called()
        self._kafka.asked(question)
        future: Future[Any] = Future()
        try:
            self._kafka.answers(question)
            future.set_result(answer())
        except BaseException as error:
            future.set_exception(error)
        return future


def _message(place: tuple[str, int], offset: int, stored: Stored) -> Message:
    return Message(
        topic=place[0],
        partition=place[1],
        offset=offset,
        value=stored.value,
        headers=list(stored.headers) or None,
        timestamp=(2, stored.timestamp_ms),
    )


def _error(place: tuple[str, int], offset: int, code: int) -> Message:
    return Message(topic=place[0], partition=place[1], offset=offset, error=KafkaError(code))


def until(true: Callable[[], object], within_s: float | None = None) -> None:
    """Wait for it."""
    deadline = time.monotonic() + (WITHIN_S if within_s is None else within_s)
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)


NUMBERS: Final = count(1)
