"""Appends dead letters again to their original topics.

`run` dead-letters messages that failed permanently, with headers for their topic, partition and
offset. This module removes these headers: a redriven letter has its key, value and own headers, and
a counter of its redrives. It is appended to the end of its original partition. The progress is
stored as committed offsets of a separate group, after the letters were appended. So after a run
that was killed, the next one appends some of them twice, and omits none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final

from attrs import define, field, frozen
from confluent_kafka import KafkaError, Message, TopicPartition

from kafka_marshal.admin.position_targets import is_offset
from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.client_errors import with_right
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.message import headers_of
from kafka_marshal.client.process.handling import DEAD_HEADERS, append_now, appending
from kafka_marshal.errors import BrokerFailed

REDRIVES: Final = "marshal-redrives"
"""The header that counts how often a message was redriven."""
ANSWER_S: Final = 30.0
"""How long to wait for a broker, in seconds."""
AT_A_TIME: Final = 1_000
"""How many letters are appended before it is kept how far it got."""

Header = tuple[str, bytes | None]


@frozen
class Letter:
    """A dead letter, and its destination."""

    partition: int
    """Of the dead-letter topic."""
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    """Its own, and how often it was redriven."""
    to_topic: str | None
    """None if its headers do not name its original topic."""
    to_partition: int
    from_offset: int
    """Its offset in that partition."""
    error: str
    """The error because of which it failed."""
    redrives: int
    """How often it was redriven, this time included."""


@define
class Redriven:
    """The outcomes of letters."""

    appended: int = 0
    passed_over: list[tuple[Letter, str]] = field(factory=list)
    """Letters that cannot be redriven, with the reason."""


def letter_of(message: Message) -> Letter:
    """Parse a message of a dead-letter topic."""
    headers = headers_of(message)
    # A letter that failed twice was redriven in between, which removed the older headers.
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
    return int(text) if text is not None and is_offset(text) else None


class DeadLetterTopic:
    """A dead-letter topic, as one group that redrives it sees it."""

    def __init__(self, settings: Settings, topic: str, group: str) -> None:
        """Look up the current begin and end.

        Raises:
            BrokerFailed: there is no such topic, or no broker answered for a partition.
        """
        self.topic, self.group = topic, group
        self._settings = settings
        self._cluster = ClusterClient(settings)
        metadata = ClusterMetadata(settings)
        self._partitions = {topic: metadata.partitions_of(topic)}
        all_ = [(topic, number) for number in range(self._partitions[topic])]
        extents = self._cluster.all_extents(all_)
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
        """Yield letters that were not redriven, partition by partition; at most `most`.

        Raises:
            BrokerFailed: the topic cannot be read.
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
                    raise BrokerFailed(self._plainly(with_right(error, "READ on it")))
                offset = message.offset()
                assert offset is not None
                if offset >= self.ends[number]:
                    return
                yield message
                deadline = self._settings.environment.deadline(ANSWER_S)
        raise BrokerFailed(self._plainly(f"partition {number}: no answer"))

    def why_not(self, letter: Letter) -> str | None:
        """Why a letter cannot be redriven; None: it can be.

        Raises:
            NotAuthorized: the user may not describe its topic, so the topic may exist.
            BrokerFailed: no broker answered.
        """
        if letter.to_topic is None:
            return "its headers do not say where it came from"
        if letter.to_topic not in self._partitions:
            seen = self._cluster.topic(letter.to_topic)
            self._partitions[letter.to_topic] = 0 if seen is None else len(seen.partitions)
        if letter.to_partition >= self._partitions[letter.to_topic]:
            return f"there is no {letter.to_topic}:{letter.to_partition}"
        return None

    def redrive(self, most: int | None = None) -> Redriven:
        """Append each letter to its original partition, and store the progress.

        Each append is confirmed before the next one is sent. So letters after one that cannot be
        appended are never appended, however often this is tried.

        Raises:
            BrokerFailed: a letter could not be appended, and the message names it; the progress
                before it is stored.
        """
        found, reached = Redriven(), dict[tuple[str, int], int]()
        producer, environment = appending(self._settings, self.topic), self._settings.environment
        try:
            for letter in self.letters(most):
                why = self.why_not(letter)
                if why is None:
                    assert letter.to_topic is not None
                    refused = append_now(
                        producer,
                        environment,
                        letter.to_topic,
                        letter.value,
                        letter.key,
                        letter.headers,
                        letter.to_partition,
                    )
                    if refused is not None:
                        where = f"letter {letter.partition}:{letter.offset}"
                        to = f"{letter.to_topic}:{letter.to_partition}"
                        raise BrokerFailed(self._plainly(f"{where} to {to}: {refused}"))
                    found.appended += 1
                else:
                    found.passed_over.append((letter, why))
                reached[self.topic, letter.partition] = letter.offset + 1
                if (found.appended + len(found.passed_over)) % AT_A_TIME == 0:
                    self._keep(reached)
        except BaseException:  # Ctrl-C, too
            with suppress(BrokerFailed):
                self._keep(reached)
            raise
        self._keep(reached)
        return found

    def _keep(self, reached: dict[tuple[str, int], int]) -> None:
        if reached:
            self._cluster.commit(self.group, reached)
            self.next.update({number: offset for (_, number), offset in reached.items()})
            reached.clear()

    def _plainly(self, text: str) -> str:
        return self._settings.without_secrets(f"{self.topic}: {text}")
