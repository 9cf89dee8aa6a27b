"""Measures brokers' clocks: one append to each, to a temporary topic."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from attrs import frozen
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from kafka_marshal.client.connect.admin_client import ClusterClient
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.errors import BrokerFailed

_WAIT_S: Final = 15.0
_ROUNDS: Final = 3
"""A client's first append looks up the leader; the fastest append counts."""


@frozen
class BrokerClock:
    """One broker's clock."""

    broker: int
    ahead_ms: int | None
    """Of this machine's; None if the broker stamped nothing."""
    doubt_ms: int
    """Half of the append's duration: `ahead_ms` differs from the true value by at most this."""
    reason: str = ""
    """Why it stamped nothing, if known."""


@frozen
class ClockComparison:
    """The result of a comparison."""

    clocks: list[BrokerClock]
    left: tuple[str, str] | None
    """The topic that was made for it, and why it could not be deleted again."""


def probed(settings: Settings, cluster: ClusterClient, brokers: Sequence[int]) -> ClockComparison:
    """Append to every broker and compare its stamp with this machine's clock.

    Raises:
        BrokerFailed: the topic cannot be created.
    """
    topic = f"marshal-doctor-{settings.environment.new_id()[:8]}"
    made = {"message.timestamp.type": "LogAppendTime", "min.insync.replicas": "1"}
    cluster.create_topic(topic, len(brokers), 1, made, brokers)
    try:
        found = _all_asked(settings, topic, brokers)
    except BaseException:
        with suppress(BrokerFailed):
            cluster.delete_topic(topic)
        raise
    try:
        cluster.delete_topic(topic)
    except BrokerFailed as error:
        return ClockComparison(found, (topic, str(error)))
    return ClockComparison(found, None)


def _all_asked(settings: Settings, topic: str, brokers: Sequence[int]) -> list[BrokerClock]:
    decided = {"acks": "all", "linger_ms": "0", "message_timeout_ms": str(int(_WAIT_S * 1000))}
    try:
        producer = Producer(settings.for_client(**decided), logger=MutedLogger())
    except KafkaException as error:
        raise BrokerFailed(settings.without_secrets(str(error.args[0]))) from None
    return [_asked(producer, topic, number, broker) for number, broker in enumerate(brokers)]


def _asked(producer: Producer, topic: str, partition: int, broker: int) -> BrokerClock:
    best: BrokerClock | None = None
    reason = ""
    for _ in range(_ROUNDS):
        stamps: list[int] = []
        reasons: list[str] = []

        def stamped(
            error: KafkaError | None,
            message: Message,
            to: list[int] = stamps,
            why: list[str] = reasons,
        ) -> None:
            kind, timestamp_ms = message.timestamp()
            if error is not None:
                why.append(error.str())
            elif kind == TIMESTAMP_LOG_APPEND_TIME:
                to.append(timestamp_ms)

        sent = time.time()
        with suppress(KafkaException):
            producer.produce(topic, b"clock", partition=partition, on_delivery=stamped)
            producer.flush(_WAIT_S)
        took_ms = (time.time() - sent) * 1000
        reason = reasons[0] if reasons else reason
        if stamps and (best is None or took_ms / 2 < best.doubt_ms):
            ahead_ms = round(stamps[0] - (sent * 1000 + took_ms / 2))
            best = BrokerClock(broker, ahead_ms, round(took_ms / 2))
    return best or BrokerClock(broker, None, 0, reason)
