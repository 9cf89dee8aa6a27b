"""Creates a topic for trials: numbered messages, spread over its partitions.

It appends to a data topic, and does not know claims.
"""

from __future__ import annotations

import re
import time
from typing import Final

from attrs import frozen
from confluent_kafka import KafkaError, Message

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.environment import Appender
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import APPENDS_ONCE, ONE_AT_A_TIME
from kafka_marshal.errors import BrokerFailed, InvalidOption

_NAMED: Final = re.compile(r"([\w.\-]{1,249})(?::([1-9]\d{0,4}))?")
_KEYS: Final = 100
_QUEUED_MAX: Final = 50_000
"""Of a producer: its queue holds 100,000."""
_DELIVER_S: Final = 60.0


@frozen
class Trial:
    """A topic that is wanted."""

    topic: str
    partitions: int

    @classmethod
    def parsed(cls, text: str) -> Trial:
        """From `TOPIC` or `TOPIC:PARTITIONS`.

        Raises:
            InvalidOption: it is neither.

        >>> Trial.parsed("orders:4")
        Trial(topic='orders', partitions=4)
        """
        found = _NAMED.fullmatch(text)
        if found is None:
            raise InvalidOption(f"--topic {text!r} must be written TOPIC or TOPIC:PARTITIONS")
        return cls(found[1], int(found[2] or 1))


def create(cluster: ClusterClient, wanted: Trial, messages: int) -> None:
    """Create the topic and fill it: message n has the value n, in partition n modulo count.

    There are 100 different keys. Keys and values are text.

    Raises:
        TopicExists: it exists already, and was not changed.
        BrokerFailed: the cluster did not answer, or refused.
    """
    cluster.create_topic(wanted.topic, wanted.partitions, 1, {})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    made_of = cluster.settings.for_client(**APPENDS_ONCE, **ONE_AT_A_TIME)
    producer = cluster.settings.environment.appender(made_of, logger=MutedLogger())
    for number in range(messages):
        key, value = b"key-%d" % (number % _KEYS), b"%d" % number
        producer.produce(
            wanted.topic, value, key, partition=number % wanted.partitions, on_delivery=delivered
        )
        if number % _QUEUED_MAX == _QUEUED_MAX - 1:
            _deliver(producer)
    left = _deliver(producer)
    if failed or left:
        reason = failed[0].str() if failed else f"{left} of {messages} messages were not written"
        raise BrokerFailed(f"{cluster.settings.bootstrap}: topic {wanted.topic}: {reason}")


def _deliver(producer: Appender) -> int:
    """Wait until everything is written; returns how many messages are not, after a minute."""
    deadline = time.monotonic() + _DELIVER_S
    while len(producer) and time.monotonic() < deadline:
        producer.poll(0.1)
    return len(producer)
