"""Stops a consumer that requires authentic records at a record that is not authentic.

It looks at every record of one group, before anything is left out or folded. What is no message
changes nothing, and records of other groups change nothing of this one, so neither is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kafka_marshal.authentication import Keyring
from kafka_marshal.capture import RawRecord, TimestampType
from kafka_marshal.client.connect.log_filter import FetchedMessage
from kafka_marshal.client.message import headers_of
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core import wire
from kafka_marshal.errors import NotAuthentic

_GROUP: Final = 1 + (*wire.TIME, *wire.ADDRESS).index("group_id")
"""Which field of a value names the group."""


def of_group(messages: Iterable[FetchedMessage], group: bytes) -> Iterator[RawRecord]:
    """What was fetched and is of one group, as far as it names one."""
    for message in messages:
        value = message.value()
        if value is None:
            continue
        fields = value.split(b"/", _GROUP + 1)
        if len(fields) > _GROUP and fields[_GROUP] == group:
            yield _raw(message, value)


def _raw(message: FetchedMessage, value: bytes) -> RawRecord:
    partition, offset = message.partition(), message.offset()
    kind, timestamp_ms = message.timestamp()
    return RawRecord(
        -1 if partition is None else partition,
        -1 if offset is None else offset,
        timestamp_ms,
        value,
        tuple(headers_of(message)),
        TimestampType.of_kafka_client(kind),
    )


class AuthenticLog:
    """The records of one group in one coordination topic, each of which must be authentic."""

    def __init__(self, keyring: Keyring, topic: str, group: bytes) -> None:
        self._keyring, self._topic, self._group = keyring, topic, group

    def check(self, messages: Iterable[FetchedMessage]) -> None:
        """Look at records that were fetched; each partition in offset order, no errors.

        Raises:
            NotAuthentic: the first one that is not.
        """
        for raw in of_group(messages, self._group):
            found = self._keyring.complaint(raw)
            if found is None:
                continue
            try:
                client = raw.decoded().message.client_id
            except MalformedRecord:
                continue
            why = found.authenticity.value
            raise NotAuthentic(self._topic, raw.partition, raw.offset, client, found.key_id, why)
