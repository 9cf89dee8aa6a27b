"""Reads a coordination topic, each partition in offset order.

It knows Kafka's client: metadata, watermarks, messages. It does not know the content of a record.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import Final, TypeAlias, TypeVar

from attrs import field, frozen
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.client.connect.client_errors import ClientErrors, code_of, with_right
from kafka_marshal.client.connect.environment import REAL, Environment
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.message import headers_of
from kafka_marshal.errors import BrokerFailed, InvalidOption, NoCoordinationTopic

T = TypeVar("T")
LogMessage: TypeAlias = Message
"""A record as the client returns it, for modules that do not know Kafka's client."""

CONNECT_S: Final = 15.0
"""A cluster that does not answer within this time cannot be reached."""
SPREADS_S: Final = 2.0
"""The time after which the slowest broker knows about a new topic."""
BATCH_MAX: Final = 4000
"""The most messages to take at once for callers with a fixed cost per batch, such as the kernel of
a watch."""
FOLLOW_MAX: Final = 250
"""The most messages to take at once. With more, Python would search them for cycles, again and
again."""
FAR: Final = 500
"""A reader with more records than this before the end cannot do anything yet. The more of them are
collected, the more can be skipped."""
HELD_MAX: Final = 20_000
"""A partition with more held records than this passes them on, however far its end is."""
HELD_S: Final = 1.0
"""After this many seconds, a reader that has sent anything gets all held records, too, because an
owner has to know the state of its claims. On a busy machine, a reader that only begins would do
little else."""
FRESH_S: Final = 1.0
"""How long a looked-up end offset stays valid, in seconds."""
QUIET_S: Final = 0.2
"""How long a read waits for the first record, in seconds."""
_PASSING: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        # The client looks for its group's coordinator, and nobody here needs one.
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)
_FINAL: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.SECURITY_DISABLED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_GROUP_ID,
        KafkaError.INVALID_REQUEST,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._UNKNOWN_GROUP,
        KafkaError._INVALID_ARG,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError._NOT_IMPLEMENTED,
        KafkaError._CONFLICT,
        KafkaError._STATE,
        KafkaError._FATAL,
        KafkaError._FAIL,
    }
)
"""Errors that a retry does not change. All others are temporary: brokers restart, leaders and
coordinators move, connections break. If a partition's brokers are down, librdkafka reports it as
unknown (`_UNKNOWN_PARTITION`)."""
_AGAIN_S: Final = 0.1
UNKNOWN_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_GONE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)


class OffsetsGone(BrokerFailed):
    """The next record is gone: the log lost its end, or retention overtook the reader."""


def patiently(
    ask: Callable[[], T],
    environment: Environment,
    spreads_s: float = SPREADS_S,
    patience_s: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> T:
    """The result of a call; it is repeated after a temporary error, for `patience_s` (`CONNECT_S`).

    Once `stopped`, the next error ends it. A missing topic is a permanent error after `spreads_s`:
    another broker may know it already.

    Raises:
        KafkaException: the error is permanent, or there was no result in time.
    """
    began = environment.monotonic()
    while True:
        try:
            return ask()
        except KafkaException as exception:
            code = code_of(exception)
            within_s = CONNECT_S if patience_s is None else patience_s
            if code in UNKNOWN_TOPIC:
                within_s = spreads_s
            if code in _FINAL or stopped() or environment.monotonic() > began + within_s:
                raise
            environment.threads.sleep(_AGAIN_S)


@frozen
class ReadResult:
    """The result of one read."""

    records: list[RawRecord]
    ended: frozenset[int]
    """Partitions that were read to their end."""
    lasts: Mapping[int, RawRecord] = field(factory=dict)
    """The last record that was read of each partition without held records."""
    gaps: Mapping[int, list[int]] = field(factory=dict)
    """Partitions with missing offsets, and where each gap ends: records below it come before the
    gap. Earlier knowledge is then no longer certain."""


@frozen
class Watermarks:
    """The offsets that a topic's partition holds: `[low, high)`."""

    low: int
    high: int


def of_all(answered: list[TopicPartition]) -> list[TopicPartition]:
    """The answer for all partitions, if it is not an error: an error says nothing about the offset.

    Raises:
        KafkaException: the answer for one of them is an error.
    """
    for one in answered:
        if one.error is not None:
            raise KafkaException(one.error)
    return answered


class CoordinationReader:
    """A coordination topic, opened for reading; close it."""

    def __init__(self, settings: Settings, topic: str) -> None:
        """Connect.

        Raises:
            BrokerFailed: the cluster cannot be reached.
            NoCoordinationTopic: there is no such topic.
        """
        self.settings = settings
        self.topic = topic
        decided = {
            # The reader of a long log empties the client's queue in a moment, but the client would
            # look whether it has room again only once a second.
            "fetch_queue_backoff_ms": "5",
            "group_id": settings.values.get("group.id", "kafka-marshal-replay"),
            "enable_auto_commit": "false",
            "enable_auto_offset_store": "false",
            # Offsets that are gone are an error, and never passed over.
            "auto_offset_reset": "error",
            "enable_partition_eof": "true",
            # All that lies in the log, as every reader of the original sees it.
            "isolation_level": "read_uncommitted",
        }
        self._client_errors = ClientErrors(settings)
        with self._plainly():
            made_of = self._client_errors.for_client(**decided)
            self._consumer = settings.environment.log_reader(made_of, logger=self._client_errors)
        self._monotonic = settings.environment.monotonic
        self._looked_up: dict[int, Watermarks] = {}
        self._looked_up_at = 0.0
        self._paused: set[int] = set()
        """Partitions that were read to an end, and would stay paused if they are assigned again."""
        try:
            self.cluster, self.partitions = self._described()
        except BaseException:
            self._consumer.close()
            raise

    def close(self) -> None:
        """Disconnect from the cluster."""
        self._consumer.close()

    def _described(self) -> tuple[str, tuple[int, ...]]:
        def ask() -> tuple[str, tuple[int, ...]]:
            metadata = self._client_errors.ask(
                lambda within_s: self._consumer.list_topics(self.topic, timeout=within_s),
                lambda: self._consumer.poll(0),
                CONNECT_S,
            )
            found = metadata.topics.get(self.topic)
            if found is None or not (found.error or found.partitions):
                raise KafkaException(KafkaError(KafkaError._UNKNOWN_TOPIC))
            if found.error is not None:
                raise KafkaException(found.error)
            return str(metadata.cluster_id), tuple(sorted(found.partitions))

        try:
            return patiently(ask, self.settings.environment)
        except KafkaException as error:
            if code_of(error) in UNKNOWN_TOPIC:
                raise NoCoordinationTopic(self.settings.bootstrap, self.topic) from None
            raise self._failed(error, f"topic {self.topic}", "READ on it") from None

    def partition_count_now(self) -> int:
        """The current number of the topic's partitions."""
        return len(self._described()[1])

    def extents(self) -> dict[int, Watermarks]:
        """The offsets that each partition holds now."""
        found = {partition: self._extent(partition) for partition in self.partitions}
        self._looked_up, self._looked_up_at = found, self._monotonic()
        return found

    def _extent(self, partition: int) -> Watermarks:
        one = TopicPartition(self.topic, partition)
        with self._plainly():
            return Watermarks(
                *patiently(
                    partial(self._consumer.get_watermark_offsets, one, timeout=CONNECT_S),
                    self.settings.environment,
                )
            )

    def offsets_at(
        self, bound: str, option: str, extents: Mapping[int, Watermarks]
    ) -> dict[int, int]:
        """The offset per partition of `--from` or `--to`: an offset, or the first one at a time.

        A time is ISO 8601; without a zone it is UTC.

        Raises:
            InvalidOption: it is neither an offset nor a time.
            BrokerFailed: the cluster did not answer.
        """
        if bound.isdecimal():
            wanted = dict.fromkeys(self.partitions, int(bound))
        else:
            try:
                at = dt.datetime.fromisoformat(bound)
            except ValueError:
                raise InvalidOption(
                    f"{option} must be an offset or a time like 2026-01-31T22:00, not {bound!r}"
                ) from None
            at_ms = int((at if at.tzinfo else at.replace(tzinfo=dt.UTC)).timestamp() * 1000)
            asked = [TopicPartition(self.topic, number, at_ms) for number in self.partitions]
            with self._plainly():
                answered = patiently(
                    lambda: of_all(self._consumer.offsets_for_times(asked, timeout=CONNECT_S)),
                    self.settings.environment,
                )
            wanted = {
                one.partition: one.offset if one.offset >= 0 else extents[one.partition].high
                for one in answered
            }
        return {
            number: min(max(offset, extents[number].low), extents[number].high)
            for number, offset in wanted.items()
        }

    def records(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int] | None = None,
        stopped: Callable[[], bool] = lambda: False,
        log_filter: LogFilter[Message] | None = None,
    ) -> Iterator[list[RawRecord]]:
        """Yield batches of records from `starts` on; empty ones while none arrive.

        Ends when every partition reached its end, or never without `ends`; or once `stopped`.
        Records that `log_filter` skips are left out; the others may come late, but all before it
        ends.

        Raises:
            BrokerFailed: a permanent error: no permission, offsets that are gone.
        """
        read_to: dict[int, int] = {}
        if log_filter is not None:
            for n in starts:
                if ends is None or starts[n] < ends[n]:
                    log_filter.begin(n, starts[n])
        for batch in self.batches(starts, ends, stopped, read_to):
            if log_filter is not None:
                log_filter.add(batch)
                while read_to:
                    log_filter.end(*read_to.popitem())
                batch = log_filter.given([n for n in starts if log_filter.held(n) > HELD_MAX])
            yield [*map(raw_record, batch)]
        if log_filter is not None:
            yield [*map(raw_record, log_filter.given(starts))]

    def batches(
        self,
        starts: Mapping[int, int],
        ends: Mapping[int, int] | None = None,
        stopped: Callable[[], bool] = lambda: False,
        read_to: dict[int, int] | None = None,
    ) -> Iterator[list[LogMessage]]:
        """Like `records`, with the client's messages. `read_to` is filled with partitions' ends."""
        left = {n for n in starts if ends is None or starts[n] < ends[n]}
        reached: dict[int, int] = {} if read_to is None else read_to
        assignment = [TopicPartition(self.topic, n, starts[n]) for n in sorted(left)]
        self._resume()
        with self._plainly():
            self._consumer.assign(assignment)
        while left and not stopped():
            messages = self._messages()
            if ends is None and all(message.error() is None for message in messages):
                yield messages
                continue
            batch: list[Message] = []
            for message in messages:
                number, offset = _position(message)
                if self._at_end(message):
                    if number in left:
                        reached[number] = offset
                    if ends is not None and number in left and offset >= ends[number]:
                        left.discard(number)
                    continue
                if number not in left:
                    continue
                if ends is not None and offset >= ends[number] - 1:
                    self._finish(number, left)
                    reached[number] = ends[number]
                    if offset >= ends[number]:
                        continue
                batch.append(message)
            yield batch

    def messages(
        self, starts: Mapping[int, int], stopped: Callable[[], bool]
    ) -> Iterator[tuple[list[Message], dict[int, int]]]:
        """Yield messages from `starts` on, unfiltered, and partitions that were read to their end.

        Both are empty from time to time. For a busy partition the end may never be reported.

        Raises:
            OffsetsGone: records to read are gone.
            BrokerFailed: a permanent error.
        """
        self._resume()
        with self._plainly():
            self._consumer.assign([TopicPartition(self.topic, *one) for one in starts.items()])
        while not stopped():
            messages = self._messages(FOLLOW_MAX)
            data = [one for one in messages if not self._at_end(one)]
            yield data, dict(_position(one) for one in messages if _is_end(one))

    def follow(
        self,
        wanted: Callable[[], Mapping[int, int]],
        stopped: Callable[[], bool],
        log_filter: LogFilter[Message],
        has_sent: Callable[[], bool] = lambda: True,
    ) -> Iterator[ReadResult | None]:
        """Yield records of the partitions that are `wanted`, each from its first offset on.

        None if no records arrived, or none that are passed on yet. More partitions may be wanted
        later. Reports each time that a partition was read to its end. Records that `log_filter`
        skips are left out. Far from a partition's end, records are held until there are many, or no
        more arrive. Once the reader `has_sent` any, they are also held for a limited time only.

        Raises:
            OffsetsGone: records to read are gone.
            BrokerFailed: a permanent error.
        """
        following: set[int] = set()
        latest: dict[int, Message] = {}
        gave_at = self._monotonic()
        self._resume()
        with self._plainly():
            self._consumer.unassign()
        while not stopped():
            more = {n: first for n, first in wanted().items() if n not in following}
            if more:
                assignment = [TopicPartition(self.topic, n, first) for n, first in more.items()]
                with self._plainly():
                    self._consumer.incremental_assign(assignment)
                following.update(more)
                for n, first in more.items():
                    log_filter.begin(n, first)
                empty = frozenset(n for n, first in more.items() if self._was_empty(n, first))
                if empty:
                    yield ReadResult([], empty)
            messages = self._messages(FOLLOW_MAX)
            if not messages and not log_filter.holds:
                gave_at = self._monotonic()
                yield None
                continue
            data = [message for message in messages if message.error() is None]
            ends = [*filter(self._at_end, messages)] if len(data) < len(messages) else []
            newest = log_filter.add(data)
            latest.update(newest)
            reached = dict(map(_next, newest.values()))
            read_to = _ended(ends, reached)
            ended = set(read_to)
            # The client reports an end only half a second later, when a fetch has waited for
            # nothing, and in a busy log never. But its last fetch brought the end offset.
            left = {n: self._end_as_fetched(n) - offset for n, offset in reached.items()}
            ended.update(n for n in left if left[n] <= 0)
            at = {**reached, **read_to}
            ended -= {n for n in ended if self._ends_early(n, at[n])}
            for n, end in read_to.items():
                log_filter.end(n, end)
            near = {n for n in left if left[n] <= FAR or log_filter.held(n) > HELD_MAX} | ended
            near.update(log_filter.gapped)
            if not messages or (has_sent() and self._monotonic() > gave_at + HELD_S):
                near, gave_at = following, self._monotonic()
            given = log_filter.given(near)
            gaps = log_filter.gaps()
            if given or ended or gaps:
                records = [*map(raw_record, given)]
                made = dict(zip(map(id, given), records, strict=True))
                last = {n: latest[n] for n in near if n in latest}
                lasts = {n: made.get(id(it)) or raw_record(it) for n, it in last.items()}
                yield ReadResult(records, frozenset(ended), lasts, gaps)
            else:
                yield None

    def _was_empty(self, number: int, first: int) -> bool:
        """Whether the partition held no record from `first` on, a moment ago.

        The client reports this only half a second later, and does not answer before that either.
        """
        extent, age_s = self._looked_up.get(number), self._monotonic() - self._looked_up_at
        return extent is not None and extent.high <= first and age_s < FRESH_S

    def _ends_early(self, number: int, end: int) -> bool:
        """Whether more must follow, because `extents` found a later end.

        A new leader knows the end a moment later. But if the log is shorter now, it lost records
        before any of them were read, and no offset that is gone would show that.

        Raises:
            OffsetsGone: the partition is shorter than `extents` found it.
            BrokerFailed: no broker answered.
        """
        known = self._looked_up.get(number)
        if known is None or end >= known.high:
            return False
        high = self._extent(number).high
        if high < known.high:
            raise OffsetsGone(
                f"{self.settings.bootstrap}: reading {self.topic}, partition {number}: it ends at "
                f"{high}, and ended at {known.high} when this consumer began"
            )
        return True

    def _end_as_fetched(self, number: int) -> int:
        try:
            one = TopicPartition(self.topic, number)
            return self._consumer.get_watermark_offsets(one, cached=True)[1]
        except KafkaException as error:
            raise self._failed(error) from None

    def _finish(self, number: int, left: set[int]) -> None:
        left.discard(number)
        self._paused.add(number)
        self._consumer.pause([TopicPartition(self.topic, number)])

    def _resume(self) -> None:
        """Resume each paused partition before it is assigned again, and never at the same time.

        librdkafka numbers the operations on a partition, and drops one that reaches its own thread
        after a higher number. An assignment and a resume get their numbers in two threads. On a
        busy machine either could be dropped, and the partition was not fetched until the next
        assignment.
        """
        if self._paused:
            with self._plainly():
                self._consumer.resume([TopicPartition(self.topic, n) for n in self._paused])
            self._paused.clear()

    def _messages(self, maximum: int = BATCH_MAX) -> list[Message]:
        """The available messages; it waits only for the first one, and never for a full batch."""
        try:
            first = self._consumer.poll(QUIET_S)
            if first is None:
                return []
            return [first, *self._consumer.consume(maximum, 0)]
        except KafkaException as error:
            raise self._failed(error) from None

    def _at_end(self, message: Message) -> bool:
        """Whether it is the client's report that a partition ends here; raises other errors."""
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            return True
        if error.retriable() or error.code() in _PASSING:
            return True
        number, _ = _position(message)
        which = f"partition {number}" if number >= 0 else "all of it"
        raise (OffsetsGone if error.code() in _GONE else BrokerFailed)(
            self.settings.without_secrets(
                f"{self.settings.bootstrap}: reading {self.topic}, {which}: "
                f"{with_right(error, 'READ on it')}"
            )
        )

    @contextmanager
    def _plainly(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            raise self._failed(error) from None

    def _failed(self, exception: KafkaException, about: str = "", right: str = "") -> BrokerFailed:
        with suppress(AttributeError, KafkaException):
            self._consumer.poll(0)  # lets the client say what it has on its mind
        right = right or f"READ on topic {self.topic}"
        return self._client_errors.failed(exception, about, right)


def _position(message: Message) -> tuple[int, int]:
    """Partition and offset; -1 where an error has none."""
    number, offset = message.partition(), message.offset()
    return (-1 if number is None else number), (-1 if offset is None else offset)


def _next(message: Message) -> tuple[int, int]:
    """Partition, and the offset after it."""
    number, offset = _position(message)
    return number, offset + 1


def _is_end(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def _ended(ends: list[Message], reached: Mapping[int, int]) -> dict[int, int]:
    """Partitions that the client reports at their end, without a message since.

    Also the end: offsets before it without a message are gone.
    """
    found = [_position(one) for one in ends if _is_end(one)]
    return {number: offset for number, offset in found if offset >= reached.get(number, offset)}


class MutedLogger:
    """Drops the client's own log, which repeats what is reported as errors."""

    def log(self, *_: object) -> None:
        """Drop the line."""


def raw_record(message: Message) -> RawRecord:
    """A message in the form of every other source."""
    kind, timestamp_ms = message.timestamp()
    return RawRecord(
        *_position(message),
        timestamp_ms,
        message.value(),
        tuple(headers_of(message)),
        TimestampType.of_kafka_client(kind),
        message.key(),
    )


def now_ms() -> int:
    """This machine's clock, Unix milliseconds."""
    return REAL.unix_ms()
