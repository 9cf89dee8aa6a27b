"""The real side: confluent-kafka through the seam's own openers, on a real broker."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    AdminClient,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from kafka_marshal.client.connect.environment import REAL
from kafka_marshal.client.connect.reader import MutedLogger
from kafka_marshal.testing import Broker
from tests.client.conformance.side import READ_S, REST_S, Found, Reached, Side, reached

COMPACTS_S: Final = 90.0
"""How long a broker may take for a compaction: by default it looks every 15 s."""


class RealSide(Side):
    """A real cluster."""

    environment = REAL

    def __init__(
        self, bootstrap: str, owner: AdminClient, number: int, wanted: Sequence[Reached] = ()
    ) -> None:
        """`owner` is shared by all scripts; `wanted` is what each reading of the rest brings.

        A client needs up to a second to fetch, so what it is to bring is waited for.
        """
        super().__init__(number)
        self._wanted, self._deadline = deque(wanted), REAL.deadline(0)
        self._enough = self._begun = False
        self._bootstrap, self._owner = bootstrap, owner
        self._transactions = 0

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    def is_read(self, found: Found) -> bool:
        if not self._begun:
            self._begun, self._deadline = True, REAL.deadline(REST_S)
        wanted = self._wanted[0] if self._wanted else {}
        here = reached(found)
        enough, self._enough = (
            self._enough,
            all(_covers(here.get(one, (0, -1)), each) for one, each in wanted.items()),
        )
        # One more poll after enough has come: more than that is a difference.
        if enough or not self._deadline.left_s:
            if self._wanted:
                self._wanted.popleft()
            self._begun = self._enough = False
            return True
        return False

    def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        new = NewTopic(topic, partitions, 1, config=dict(settings))
        self._owner.create_topics([new])[topic].result(READ_S)
        self._seen(topic, lambda found: found is not None and len(found) == partitions)

    def delete(self, topic: str) -> None:
        self._owner.delete_topics([topic])[topic].result(READ_S)
        self._seen(topic, lambda found: found is None)

    def grow(self, topic: str, partitions: int) -> None:
        self._owner.create_partitions([NewPartitions(topic, partitions)])[topic].result(READ_S)
        self._seen(topic, lambda found: found is not None and len(found) == partitions)

    def _seen(self, topic: str, true: Callable[[Any], bool]) -> None:
        deadline = REAL.deadline(READ_S)
        while deadline.left_s:
            found = self._owner.list_topics(timeout=READ_S).topics.get(topic)
            led = found is not None and all(one.leader >= 0 for one in found.partitions.values())
            if true(found.partitions if found is not None and led else None):
                return
            REAL.threads.sleep(0.01)
        raise AssertionError(f"{topic} does not become so")

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        wanted = TopicPartition(topic, partition, before)
        for promised in self._owner.delete_records([wanted]).values():
            promised.result(READ_S)

    def begin_transaction(
        self, topic: str, values: Sequence[bytes], partition: int = 0
    ) -> Callable[..., None]:
        self._transactions += 1
        name = self.name(f"writer-{self._transactions}")
        made_of = {"bootstrap.servers": self.bootstrap, "transactional.id": name}
        producer = Producer(made_of, logger=MutedLogger())
        producer.init_transactions(READ_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert not producer.flush(READ_S)

        def end(*, commit: bool) -> None:
            (producer.commit_transaction if commit else producer.abort_transaction)(READ_S)
            self._wait_for_marker(TopicPartition(topic, partition))

        return end

    def _wait_for_marker(self, partition: TopicPartition) -> None:
        """A transaction has ended a little before its marker lies there."""
        deadline = REAL.deadline(READ_S)
        while deadline.left_s:
            stable, end = (
                self._end(partition, isolation)
                for isolation in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
            )
            if stable == end:
                return
            REAL.threads.sleep(0.01)

    def _end(self, partition: TopicPartition, isolation: IsolationLevel) -> int:
        latest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = self._owner.list_offsets({partition: latest}, isolation_level=isolation)
        return int(next(iter(asked.values())).result(READ_S).offset)

    def compact(self, topic: str, before: int) -> None:
        made_of = {"bootstrap.servers": self.bootstrap, "group.id": self.name("compacts")}
        deadline = REAL.deadline(COMPACTS_S)
        while deadline.left_s:
            with closing(Consumer(made_of, logger=MutedLogger())) as reader:
                reader.assign([TopicPartition(topic, 0, 0)])
                first = reader.poll(READ_S)
            if first is not None and first.offset():
                return
            REAL.threads.sleep(0.5)
        raise AssertionError(f"{topic} was not compacted")

    broker: Broker | None = None
    """The broker that a script may break."""

    def break_broker(self) -> None:
        assert self.broker is not None
        (self.broker.kill if self.how == "killed" else self.broker.pause)()

    def mend_broker(self) -> None:
        assert self.broker is not None
        (self.broker.start if self.how == "killed" else self.broker.resume)()

    def produce(self, topic: str, records: Sequence[Mapping[str, Any]]) -> None:
        made_of = {"bootstrap.servers": self.bootstrap, "linger.ms": 5000}  # one batch
        producer = Producer(made_of, logger=MutedLogger())
        for record in records:
            producer.produce(topic, on_delivery=_delivered, **{"partition": 0, **record})
        assert not producer.flush(READ_S)


def _delivered(error: Any, _: Any) -> None:
    if error is not None:
        raise KafkaException(error)


def _covers(here: tuple[int, int], wanted: tuple[int, int]) -> bool:
    return here[0] >= wanted[0] and here[1] >= wanted[1]
