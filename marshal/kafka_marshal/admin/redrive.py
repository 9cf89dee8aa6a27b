"""Appends dead letters once more to the topics that they came from.

`run` puts aside what failed for good, with headers that name its topic, partition and offset. This
room takes them off again: a letter gets its key, value and own headers, and one that counts how
often it was redriven. It goes to the end of the partition that it came from. How far it got is kept
as committed offsets of a group of its own, after the letters were appended. So after a run that was
interrupted the next one appends some of them twice, and leaves none out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, cast

from attrs import define, field, frozen
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.client_errors import not_taken
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import APPENDS_ONCE, ONE_AT_A_TIME, Settings
from kafka_marshal.client.process.handling import DEAD_HEADERS
from kafka_marshal.errors import BrokerFailed

REDRIVES: Final = "marshal-redrives"
"""The header that counts how often a message was redriven."""
ANSWER_S: Final = 30.0
"""How long to wait for a broker, in seconds."""
AT_A_TIME: Final = 1_000
"""How many letters are appended before it is kept how far it got."""
BYTES_AT_A_TIME: Final = 16 * 2**20
"""Or this many bytes of them."""

Header = tuple[str, bytes | None]


@frozen
class Letter:
    """A dead letter, and where it goes."""

    partition: int
    """Of the dead-letter topic."""
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    """Its own, and how often it was redriven."""
    to_topic: str | None
    """None where its headers do not say where it came from."""
    to_partition: int
    from_offset: int
    """Where it lay in that partition."""
    error: str
    """What it failed of."""
    redrives: int
    """How often it was redriven, this time included."""


@define
class Redriven:
    """What became of letters."""

    appended: int = 0
    passed_over: list[tuple[Letter, str]] = field(factory=list)
    """Those that nobody can redrive, and why."""


def letter_of(message: Message) -> Letter:
    """What a message of a dead-letter topic says of itself."""
    headers = cast("list[Header]", message.headers() or [])
    # A letter that died twice was redriven between, which took the older ones off.
    said = {name: (value or b"").decode(errors="replace") for name, value in headers}
    own = [each for each in headers if each[0] not in DEAD_HEADERS and each[0] != REDRIVES]
    redrives = _number(said.get(REDRIVES, "")) or 0
    topic, partition = said.get("marshal-dead-topic"), _number(said.get("marshal-dead-partition"))
    from_offset = _number(said.get("marshal-dead-offset"))
    number, offset = message.partition(), message.offset()
    assert number is not None
    assert offset is not None
    return Letter(
        number,
        offset,
        message.key(),
        message.value(),
        [*own, (REDRIVES, b"%d" % (redrives + 1))],
        topic if topic and partition is not None else None,
        partition or 0,
        -1 if from_offset is None else from_offset,
        said.get("marshal-dead-error", ""),
        redrives + 1,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None


class DeadLetterTopic:
    """A dead-letter topic, as one group that redrives it sees it."""

    def __init__(self, settings: Settings, topic: str, group: str) -> None:
        """Find out where to begin and where it ends now.

        Raises:
            BrokerFailed: there is no such topic, or nobody answered.
        """
        self.topic, self.group = topic, group
        self._settings = settings
        self._cluster = ClusterClient(settings)
        metadata = ClusterMetadata(settings)
        self._partitions = {topic: metadata.partitions_of(topic)}
        all_ = [(topic, number) for number in range(self._partitions[topic])]
        extents = self._cluster.extents(all_)
        committed = metadata.committed(group, all_)
        self.next = {
            number: min(
                max(extents[topic, number].low, committed.get((topic, number), 0)),
                extents[topic, number].high,
            )
            for _, number in all_
        }
        """By partition, the first letter that was not redriven."""
        self.ends = {number: extents[topic, number].high for _, number in all_}
        self._low = {number: extents[topic, number].low for _, number in all_}

    def from_the_beginning(self) -> None:
        """Forget how far it got."""
        self.next = dict(self._low)

    def letters(self, most: int | None = None) -> Iterator[Letter]:
        """What is there and was not redriven, partition by partition; `most` letters at most.

        Raises:
            BrokerFailed: it cannot be read.
        """
        given = 0
        for number, start in sorted(self.next.items()):
            if start >= self.ends[number]:
                continue
            for message in self._read(number, start):
                if most is not None and given >= most:
                    return
                given += 1
                yield letter_of(message)

    def _read(self, number: int, start: int) -> Iterator[Message]:
        decided = {
            "group_id": self.group,
            "enable_auto_commit": "false",
            "enable_partition_eof": "true",
            "isolation_level": "read_committed",
            "auto_offset_reset": "error",
        }
        reader = self._settings.environment.log_reader(
            self._settings.for_client(**decided), logger=MutedLogger()
        )
        with closing(reader):
            reader.incremental_assign([TopicPartition(self.topic, number, start)])
            deadline = self._settings.environment.deadline(ANSWER_S)
            while deadline.left_s:
                message = reader.poll(min(1.0, deadline.left_s))
                if message is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise BrokerFailed(self._plainly(error.str()))
                offset = message.offset()
                assert offset is not None
                if offset >= self.ends[number]:
                    return
                yield message
                deadline = self._settings.environment.deadline(ANSWER_S)
        raise BrokerFailed(self._plainly(f"partition {number}: no answer"))

    def why_not(self, letter: Letter) -> str | None:
        """Why a letter cannot be redriven; None: it can.

        Raises:
            BrokerFailed: nobody answered.
        """
        if letter.to_topic is None:
            return "its headers do not say where it came from"
        if letter.to_topic not in self._partitions:
            known = self._cluster.topics()
            self._partitions[letter.to_topic] = known.get(letter.to_topic, 0)
        if letter.to_partition >= self._partitions[letter.to_topic]:
            return f"there is no {letter.to_topic}:{letter.to_partition}"
        return None

    def redrive(self, most: int | None = None) -> Redriven:
        """Append each letter to where it came from, and keep how far that got.

        Raises:
            BrokerFailed: something could not be appended; what was before it is kept.
        """
        found, waiting = Redriven(), list[Letter]()
        try:
            made_of = self._settings.for_client(
                **APPENDS_ONCE, **ONE_AT_A_TIME, **self._settings.batches()
            )
            producer = self._settings.environment.appender(made_of, logger=MutedLogger())
        except KafkaException as error:
            raise BrokerFailed(self._plainly(str(error.args[0]))) from None
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failures.append(error)

        def settle() -> None:
            deadline = self._settings.environment.deadline(ANSWER_S)
            while len(producer) and deadline.left_s and not failures:
                producer.poll(0.05)
            if failures or len(producer):
                reason = not_taken(failures[0]) if failures else "no answer"
                producer.purge()
                raise BrokerFailed(self._plainly(f"{reason}; some may be appended twice"))
            if waiting:
                for letter in waiting:
                    self.next[letter.partition] = letter.offset + 1
                reached = {
                    (self.topic, each.partition): self.next[each.partition] for each in waiting
                }
                self._cluster.commit(self.group, reached)
                waiting.clear()

        size = 0
        for letter in self.letters(most):
            why = self.why_not(letter)
            if why is None:
                assert letter.to_topic is not None
                try:
                    producer.produce(
                        letter.to_topic,
                        letter.value,
                        letter.key,
                        partition=letter.to_partition,
                        headers=list(letter.headers),
                        on_delivery=delivered,
                    )
                except KafkaException as error:
                    where = f"letter {letter.partition}:{letter.offset}"
                    raise BrokerFailed(
                        self._plainly(f"{where}: {not_taken(error.args[0])}")
                    ) from None
                found.appended += 1
            else:
                found.passed_over.append((letter, why))
            waiting.append(letter)
            size += len(letter.value or b"")
            if len(waiting) >= AT_A_TIME or size >= BYTES_AT_A_TIME:
                settle()
                size = 0
        settle()
        return found

    def _plainly(self, text: str) -> str:
        return self._settings.without_secrets(f"{self.topic}: {text}")
