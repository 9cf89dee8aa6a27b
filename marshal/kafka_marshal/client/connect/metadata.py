"""Metadata that a consumer requests: a topic's offsets and partitions, and its group's offsets.

It uses its own clients: if another thread polls a client, a call waits until no poll runs, and the
next poll begins at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, not listed in __all__
    OffsetSpec,
)

from kafka_marshal.client.connect.admin_client import ClusterClient, TopicDescription
from kafka_marshal.client.connect.client_errors import code_of, rights_of_consumer
from kafka_marshal.client.connect.environment import FetchClient
from kafka_marshal.client.connect.reader import CONNECT_S, of_all, patiently
from kafka_marshal.errors import BrokerFailed

_COORDINATOR_S: Final = 60.0
"""How long to wait for a group's coordinator, as Kafka's consumer does (default.api.timeout.ms):
after brokers died it first loads its part of __consumer_offsets."""
_SLICE_S: Final = 0.25
"""The timeout of the first request, in seconds; each further one has twice as long."""


class NoSuchTopic(BrokerFailed):
    """The cluster answered that there is no such topic."""


class ClusterMetadata(ClusterClient):
    """A cluster, as a consumer sees it."""

    def partitions_of(self, topic: str) -> int:
        """The number of partitions of a topic.

        Raises:
            NoSuchTopic: the topic does not exist.
            BrokerFailed: no broker answered.
        """
        return len(self.described(topic).partitions)

    def described(self, topic: str) -> TopicDescription:
        """A topic that exists.

        Raises:
            NoSuchTopic: the topic does not exist.
            BrokerFailed: no broker answered.
        """
        seen = self.topic(topic)
        if seen is None:
            raise NoSuchTopic(f"{self.settings.bootstrap}: there is no topic {topic}")
        return seen

    def all_ends(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The current end offsets of these partitions, all of them.

        Raises:
            BrokerFailed: one of them could not be looked up.
        """
        with self._plainly("where partitions end", "DESCRIBE on their topics"):
            latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
            return self._all_offsets(partitions, latest)

    def committed(
        self,
        group: str,
        partitions: Sequence[tuple[str, int]],
        stopped: Callable[[], bool] = lambda: False,
    ) -> dict[tuple[str, int], int]:
        """The group's committed offsets, without partitions that have none. Ends once `stopped`.

        It uses a consumer and not the admin client, because librdkafka's admin client (2.16)
        crashes the process (a null pointer in `rd_kafka_handle_OffsetFetch`) while the group's
        coordinator is being created.

        Raises:
            BrokerFailed: no broker answered.
        """
        wanted = [TopicPartition(*one) for one in partitions]
        decided = {"group_id": group, "enable_auto_commit": "false"}

        def ask() -> list[TopicPartition]:
            asking = self.settings.environment.fetcher(
                self._client_errors.for_client(**decided), logger=self._client_errors
            )
            with closing(asking):
                return _committed(asking, wanted, self._monotonic, stopped)

        environment = self.settings.environment
        try:
            answered = patiently(ask, environment, patience_s=_COORDINATOR_S, stopped=stopped)
        except KafkaException as error:
            about = f"committed offsets of group {group}"
            raise self._failed(error, about, rights_of_consumer(group)) from None
        return {(one.topic, one.partition): one.offset for one in answered if one.offset >= 0}


def _committed(
    asking: FetchClient,
    wanted: list[TopicPartition],
    monotonic: Callable[[], float],
    stopped: Callable[[], bool],
) -> list[TopicPartition]:
    """The answer; raises if we may not read the group's offsets, which only a poll reveals."""
    deadline = monotonic() + CONNECT_S
    slice_s = _SLICE_S
    while True:
        left_s = deadline - monotonic()
        try:
            return of_all(asking.committed(wanted, timeout=max(0.0, min(slice_s, left_s))))
        except KafkaException as exception:
            if code_of(exception) != KafkaError._TIMED_OUT or left_s <= slice_s or stopped():
                raise
        answer = asking.poll(0)
        error = None if answer is None else answer.error()
        if error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            raise KafkaException(error)
        slice_s *= 2
