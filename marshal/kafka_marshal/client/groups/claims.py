"""A controller's claims: which partitions of `__marshal_groups` it may serve.

Controllers are an ordinary group of consumers, with an interval of 1 s. A claim's position is the
first offset that a reader needs of the partition. The consumer here fetches no messages, since the
log of events has a reader of its own. This module does not know what a claim is used for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Literal

import attrs
from confluent_kafka import OFFSET_INVALID, Message, TopicPartition

from kafka_marshal.client.api.consumer import Consumer
from kafka_marshal.client.connect.environment import FetchClient
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.connect.threads import Threads
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.errors import MarshalError
from kafka_marshal.machines.consumer.claiming import Claiming
from kafka_marshal.machines.consumer.effects import Lost

CONTROLLERS: Final = "__marshal_controllers"
"""The group of all controllers of a cluster."""
INTERVAL_S: Final = 1.0
"""So a claim is free 2 s after its controller died. Each claim costs two records a second."""
_RECLAIM_MS: Final = 5_000
_LOOK_S: Final = 0.05
_NEVER: Final = 10**9


class Claims:
    """The claims of one controller; close it."""

    def __init__(
        self,
        settings: Settings,
        client_id: str,
        topic: str,
        coordination_topic: str,
        claimed: Callable[[int], None],
        unclaimed: Callable[[int], None],
        observers: Sequence[Observer] = (),
    ) -> None:
        """Claim partitions of `topic`. `claimed` and `unclaimed` are called in another thread.

        Raises:
            BrokerFailed: the cluster cannot be reached.
        """
        environment = settings.environment

        def fetches_nothing(*_: Any, **__: Any) -> FetchClient:
            return _FetchesNothing(environment.threads)

        def lost(claim: Claim, _: Lost) -> None:
            unclaimed(claim.partition)

        self._environment = environment
        self._topic = topic
        self._consumer = Consumer(
            settings=attrs.evolve(
                settings, environment=attrs.evolve(environment, fetcher=fetches_nothing)
            ),
            group_id=CONTROLLERS,
            client_id=client_id,
            heartbeat_interval_s=INTERVAL_S,
            claiming=Claiming(reclaim_delay_ms=_RECLAIM_MS),
            coordination_topic=coordination_topic,
            create_coordination_topic=True,
            commit_to_kafka=False,
            on_claimed=lambda claim: claimed(claim.partition),
            on_lost=lost,
            observers=observers,
            wedged_after_beats=_NEVER,  # the application takes no messages
        )
        self._consumer.add_topic(topic)

    def positions(self, stopped: Callable[[], bool]) -> dict[int, int]:
        """The first offset that a reader needs of each partition; waits until the claims are read.

        Empty once `stopped`.

        Raises:
            MarshalError: the error that ended the claims.
        """
        while not stopped():
            found = self._consumer.positions_of(self._topic)
            if found is not None:
                return found
            self._environment.threads.sleep(_LOOK_S)
        return {}

    def move(self, partition: int, offset: int) -> None:
        """Set the first offset that a reader needs; the next heartbeat carries it.

        If the claim was lost meanwhile, nothing happens: its next owner moves it.
        """
        with suppress(MarshalError):
            self._consumer.move(self._topic, partition, offset)

    def raise_failure(self) -> None:
        """Raise the error that ended the claims, if there is one."""
        self._consumer.delivery.raise_failure()

    def close(self, timeout_s: float) -> None:
        """Release them, so that other controllers take them at once."""
        self._consumer.close(timeout_s=timeout_s)


class _FetchesNothing:
    """Kafka's consumer, as far as a `Fetcher` calls it, in a topic that has no messages."""

    def __init__(self, threads: Threads) -> None:
        self._sleep = threads.sleep

    def incremental_assign(self, _: list[TopicPartition], /) -> None:
        """Nothing is fetched."""

    incremental_unassign = pause = resume = incremental_assign

    def unassign(self) -> None:
        """Nothing was fetched."""

    def poll(self, timeout: float = 0.0, /) -> Message | None:
        """Returns None: it receives nothing."""
        self._sleep(max(0.0, timeout))
        return None

    def consume(self, num_messages: int = 1, timeout: float = 0.0) -> list[Message]:
        """Returns nothing."""
        self._sleep(max(0.0, timeout))
        return []

    def commit(self, *, offsets: list[TopicPartition], asynchronous: Literal[True]) -> None:
        """Nothing is committed."""

    def committed(
        self, partitions: list[TopicPartition], timeout: float = 0.0
    ) -> list[TopicPartition]:
        """Nothing ever was."""
        return [TopicPartition(one.topic, one.partition, OFFSET_INVALID) for one in partitions]

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = 0.0, cached: bool = False
    ) -> tuple[int, int]:
        """As of a partition that was not fetched yet."""
        return OFFSET_INVALID, OFFSET_INVALID

    def close(self) -> None:
        """Does nothing: there is no connection."""
