"""The cluster in memory of `kafka_marshal.testing`, and what the tests here do to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final

from confluent_kafka import KafkaError

from kafka_marshal import encode
from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.codec import encode_headers
from kafka_marshal.core.messages import NO_HEADERS, Headers
from kafka_marshal.core.messages import Message as Said
from kafka_marshal.errors import COORDINATION_TOPIC as LOG
from kafka_marshal.testing.in_memory import (
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNHEARD,
    LANDS_UNKNOWN,
    LOST,
    Append,
    InMemoryKafka,
    Partition,
    Stored,
)

__all__ = [
    "LANDS",
    "LANDS_SOMEWHERE",
    "LANDS_UNHEARD",
    "LANDS_UNKNOWN",
    "LOG",
    "LOST",
    "NUMBERS",
    "WITHIN_S",
    "Append",
    "Broken",
    "Kafka",
    "Partition",
    "Stored",
    "until",
]

WITHIN_S: Final = 60.0
"""No test waits longer for what is to happen."""


class Broken(Exception):
    """Nothing that a client of Kafka raises."""


class Kafka(InMemoryKafka):
    """A cluster whose consumers are of group g."""

    def __init__(self, log_partitions: int = 1) -> None:
        super().__init__(log_partitions)
        self.more_settings: dict[str, str] = {}
        """Settings of librdkafka that an application gives."""

    def settings(self, *_: object) -> Settings:
        return super().settings(self.more_settings)

    def says(self, message: Said, headers: Headers = NO_HEADERS, partition: int = 0) -> int:
        """Somebody else appends this to the log; returns its offset."""
        pairs = tuple((name, value) for name, value in encode_headers(headers))
        return self.append(LOG, partition, encode(message), pairs)

    def says_aside(self, error: KafkaError) -> None:
        """Every client tells this error in its callback."""
        for told in self.told_aside:
            told(error)

    def ends_thread(self, name: str) -> None:
        """The thread whose name begins so dies of a `Broken` as soon as it asks for something."""

        def breaks() -> None:
            if threading.current_thread().name.startswith(name):
                raise Broken("a wire is loose")

        self.speaks = breaks
        until(lambda: any(one.name.startswith(name) for one in self.threads))
        until(lambda: not any(t.is_alive() for t in self.threads if t.name.startswith(name)))
        self.speaks = lambda: None

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


def until(true: Callable[[], object], within_s: float | None = None) -> None:
    """Wait for it."""
    deadline = time.monotonic() + (WITHIN_S if within_s is None else within_s)
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)


NUMBERS: Final = count(1)
