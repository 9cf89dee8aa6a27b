"""The messages of a chaos run: numbered, produced in turn to each partition of a topic."""

from __future__ import annotations

import threading
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from tests.client.crew import Stage

SET: Final = 0
"""The partition whose position is set, so how often its messages come is not judged."""
A_SECOND: Final = 200
"""Messages that are produced to a topic, at most."""
KEYS: Final = 16


class Load(threading.Thread):
    """Produces to one topic until it is ended."""

    def __init__(self, stage: Stage, partitions: int) -> None:
        super().__init__(daemon=True)
        self.topic, self.partitions = stage.topic(partitions, 0), partitions
        self.produced = 0
        self._ended = threading.Event()
        self._refused: list[str] = []
        # With more in flight a broker's death could lose messages that it had acknowledged.
        settings = {
            "bootstrap.servers": stage.bootstrap,
            "enable.idempotence": True,
            "log_level": 0,
        }
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

    def ends(self) -> dict[int, int]:
        """How many messages each partition has."""
        return {
            partition: len(range(partition, self.produced, self.partitions))
            for partition in range(self.partitions)
        }

    def judged(self) -> dict[int, int]:
        """The same of the partitions whose positions nobody sets."""
        return {partition: end for partition, end in self.ends().items() if partition != SET}
