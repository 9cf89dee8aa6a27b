"""The simulated side: a Kafka in memory, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_marshal.testing.in_memory import DOWN, PAUSED, UP, InMemoryKafka, Scheduler, Transaction
from tests.client.conformance.side import Found, Reached, Side, reached


class SimulatedSide(Side):
    """A Kafka in memory."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.kafka = InMemoryKafka(scheduler=Scheduler(number, switches=0.0))
        self.environment = self.kafka.environment
        self.reached: list[Reached] = []
        """What each reading of the rest brought."""
        self._read_before: Reached | None = None

    @property
    def bootstrap(self) -> str:
        return "in-memory:9092"

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        self.kafka.create(topic, partitions, settings=settings)

    def delete(self, topic: str) -> None:
        self.kafka.delete(topic)

    def grow(self, topic: str, partitions: int) -> None:
        self.kafka.grow(topic, partitions - len(self.kafka.topics[topic]))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        self.kafka.delete_records(topic, partition, before)

    def begin_transaction(
        self, topic: str, values: Sequence[bytes], partition: int = 0
    ) -> Callable[..., None]:
        transaction = Transaction()
        for value in values:
            self.kafka.append(topic, partition, value, transaction=transaction)

        def end(*, commit: bool) -> None:
            self.kafka.end_transaction(transaction, commit=commit)

        return end

    def compact(self, topic: str, before: int) -> None:
        self.kafka.compact(topic, 0, before)

    def break_broker(self) -> None:
        self.kafka.link(DOWN if self.how == "killed" else PAUSED)

    def mend_broker(self) -> None:
        self.kafka.link(UP)

    def produce(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            self.kafka.append(
                topic,
                record.get("partition", 0),
                record.get("value"),
                key=record.get("key"),
                timestamp_ms=record.get("timestamp"),
            )

    def is_read(self, found: Found) -> bool:
        here = reached(found)
        if here != self._read_before:
            self._read_before = here
            return False
        self.reached.append(here)
        self._read_before = None
        return True
