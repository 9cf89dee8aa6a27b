"""Converts rows of the compiled judge's numbers to objects."""

from __future__ import annotations

from kafka_marshal.core import wire
from kafka_marshal.core.claims.suffix_reader import Field, Reader
from kafka_marshal.core.messages import (
    NO_HEADERS,
    Headers,
    Message,
    Partition,
    Record,
    ReleaseGroup,
)
from kafka_marshal.core.state import Claim
from kafka_marshal.kernel import steps
from kafka_marshal.kernel.columns import Ints, NameCodes
from kafka_marshal.kernel.judge import consumers, events, readers
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.validate.log import Entry


def _or_none(number: int) -> int | None:
    return None if number == steps.NONE else int(number)


class Words:
    """Converts rows of numbers."""

    def __init__(self, names: NameCodes) -> None:
        self._instances, self._clients = names.instances.names(), names.clients.names()
        self._claims, self._groups = names.claim_keys(), names.groups.names()
        self._table = names.table

    def claim(self, row: Ints) -> Claim:
        """The claim in the first fields of a row."""
        instance, client, pauser = (
            row[field] for field in (steps.OWNER_INSTANCE, steps.OWNER_CLIENT, steps.PAUSER)
        )
        return Claim(
            None if instance == steps.NONE else self._instances[instance],
            None if client == steps.NONE else self._clients[client],
            _or_none(row[steps.EPOCH]),
            int(row[steps.POSITION]),
            _or_none(row[steps.LAST_HEARTBEAT]),
            int(row[steps.CLOCK]),
            bool(row[steps.WITH_HEADERS]),
            None if pauser == steps.NONE else self._instances[pauser],
            _or_none(row[steps.PAUSED_UNTIL]),
            None,
            bool(row[steps.SET]),
        )

    def reader(self, row: Ints) -> Reader:
        """The reader of a row."""
        return Reader(
            self.claim(row),
            Field(int(row[readers.CERTAIN])),
            _or_none(row[readers.UNDECIDED]),
            _or_none(row[readers.REACHED]),
            _or_none(row[readers.ALIVE]),
            _or_none(row[readers.HEAD]),
        )

    def consumer(self, row: Ints) -> ConsumerState:
        """The consumer of a row."""
        ranges = row[consumers.RANGES : consumers.RANGES + 2 * row[consumers.GRANTS]]
        return ConsumerState(
            self.reader(row),
            int(row[consumers.VIEW]),
            _or_none(row[consumers.RESIGNED]),
            bool(row[consumers.ASKED]),
            bool(row[consumers.STOPPED]),
            int(row[consumers.NEXT]),
            tuple(range(int(start), int(stop)) for start, stop in ranges.reshape(-1, 2)),
        )

    def _message(self, kind: int, version: int, unix_s: int, address: int, number: int) -> Message:
        instance, client, group, claim = self._table[address]
        layout = wire.MESSAGES[kind]
        topic, partition = ("", 0) if not layout.keyed else self._claims[claim][1:]
        numbers = () if layout.number is None else (int(number),)
        return layout.message(
            int(version), int(unix_s), self._instances[instance], self._clients[client],
            self._groups[group], topic, Partition(partition), *numbers,
        )  # fmt: skip

    @staticmethod
    def _headers(present: int, row: Ints) -> Headers:
        if not present:
            return NO_HEADERS
        return Headers(True, *(None if number < 0 else int(number) for number in row))

    def entry(self, row: Ints, headers: Ints) -> Entry:
        """A record of the log."""
        message = self._message(
            *row[[events.KIND, events.VERSION, events.UNIX_S, events.ADDRESS, events.NUMBER]]
        )
        offset = int(row[events.OFFSET])
        record = Record(
            int(row[events.PARTITION]),
            offset,
            int(row[events.TIMESTAMP]),
            message,
            self._headers(row[events.PRESENT], headers),
        )
        return Entry(offset, record, None if isinstance(message, ReleaseGroup) else message.key)

    def send(self, row: Ints, headers: Ints) -> Send:
        """A sent record in flight."""
        message = self._message(
            row[events.S_KIND], row[events.S_VERSION], 0, row[events.S_ADDRESS],
            row[events.S_NUMBER],
        )  # fmt: skip
        return Send(message, self._headers(row[events.S_PRESENT], headers))
