"""The messages of a chaos run: numbered, produced in turn to each partition of a topic."""

from __future__ import annotations

import threading
import time
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from tests.client.appender import IN_ORDER
from tests.client.crew import Stage

from kafka_marshal.client.connect.metadata import ClusterMetadata

SET: Final = 0
"""The partition whose position is set, so how often its messages come is not judged."""
A_SECOND: Final = 200
"""Messages that are produced to a topic, at most."""
KEYS: Final = 16
KEPT_S: Final = 30.0
"""How long brokers may take to show all that they have acknowledged."""


class Load(threading.Thread):
    """Produces to one topic until it is ended."""

    def __init__(self, stage: Stage, partitions: int) -> None:
        super().__init__(daemon=True)
        self.topic, self.partitions = stage.topic(partitions, 0), partitions
        self.produced = 0
        self._metadata = ClusterMetadata(stage.cluster.settings)
        self._ends: dict[int, int] | None = None
        self._ended = threading.Event()
        self._refused: list[str] = []
        # With more in flight a broker's death could lose messages that it had acknowledged, and a
        # new topic its first ones (`IN_ORDER`).
        settings = {"bootstrap.servers": stage.bootstrap, **IN_ORDER, "log_level": 0}
        self._producer = Producer({**settings, "message.timeout.ms": 300_000})

    def run(self) -> None:
        """Produce."""
        while not self._ended.wait(10 / A_SECOND):
            for _ in range(10):
                number, self.produced = self.produced, self.produced + 1
                self._producer.produce(
                    *(self.topic, b"%d" % number, b"%d" % (number % KEYS)),
                    partition=number % self.partitions,
                    on_delivery=self._delivered,
                )
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused.append(f"message {message.value()!r}: {error}")

    def end(self) -> None:
        """Wait until the brokers have everything."""
        self._ended.set()
        self.join()
        if self._producer.flush(120) or self._refused:
            what = "; ".join(self._refused[:3]) or "not within 120 s"
            raise SystemExit(f"chaos: the brokers did not take what was produced: {what}")
        self._ends = self._kept()

    def _kept(self) -> dict[int, int]:
        """Where each partition ends. A new leader learns a little later how far all brokers are."""
        places = [(self.topic, partition) for partition in range(self.partitions)]
        until_s = time.monotonic() + KEPT_S
        while True:
            found = {number: end for (_, number), end in self._metadata.all_ends(places).items()}
            lost = [number for number, count in self._counted().items() if found[number] < count]
            if not lost:
                return found
            if time.monotonic() > until_s:
                raise SystemExit(f"chaos: the brokers lost messages of {self.topic}: {lost}")
            time.sleep(0.5)

    @property
    def appended_twice(self) -> int:
        """How many messages the brokers have beyond what was produced, once it has ended.

        An idempotent producer sends anew what it does not know of, when its epoch is over.
        """
        return sum(self.ends().values()) - self.produced

    def ends(self) -> dict[int, int]:
        """How many messages each partition has."""
        return self._counted() if self._ends is None else self._ends

    def _counted(self) -> dict[int, int]:
        return {
            partition: len(range(partition, self.produced, self.partitions))
            for partition in range(self.partitions)
        }

    def judged(self) -> dict[int, int]:
        """The same of the partitions whose positions nobody sets."""
        return {partition: end for partition, end in self.ends().items() if partition != SET}
