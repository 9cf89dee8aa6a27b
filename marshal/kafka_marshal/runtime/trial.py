"""A topic to try with: numbered messages, spread over its partitions.

It knows a producer of Kafka, and nothing of claims.
"""

from __future__ import annotations

import re
from typing import Final

from attrs import frozen
from confluent_kafka import KafkaError, Message, Producer

from kafka_marshal.runtime.controls import ClusterClient
from kafka_marshal.runtime.errors import BrokerFailed, InvalidOption
from kafka_marshal.runtime.reader import Silent

_NAMED: Final = re.compile(r"([\w.\-]{1,249})(?::([1-9]\d{0,4}))?")
_KEYS: Final = 100
_FLUSH_EVERY: Final = 50_000
"""The queue of a producer holds 100,000."""
_FLUSH_S: Final = 60.0


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
    """Create the topic and fill it: message n has the value n and lies in partition n modulo count.

    There are 100 different keys. Keys and values are text.

    Raises:
        TopicExists: it is there already, and was left as it is.
        BrokerFailed: the cluster did not answer, or refused.
    """
    cluster.create_topic(wanted.topic, wanted.partitions, 1, {})
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    producer = Producer(cluster.settings.for_client(acks="all"), logger=Silent())
    for number in range(messages):
        place = number % wanted.partitions
        key, value = b"key-%d" % (number % _KEYS), b"%d" % number
        producer.produce(wanted.topic, value, key, place, delivered)
        if number % _FLUSH_EVERY == 0:
            producer.flush(_FLUSH_S)
    left = producer.flush(_FLUSH_S)
    if failed or left:
        reason = failed[0].str() if failed else f"{left} of {messages} messages were not written"
        raise BrokerFailed(f"{cluster.settings.bootstrap}: topic {wanted.topic}: {reason}")
