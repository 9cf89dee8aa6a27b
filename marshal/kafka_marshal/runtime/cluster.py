"""What a consumer asks a cluster beside its messages: what a topic holds, where its group stood.

It asks through clients of its own: one that another thread polls answers nobody else, since a call
waits until no poll runs, and the next poll begins at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from confluent_kafka import Consumer, KafkaException, TopicPartition

from kafka_marshal.runtime.controls import ClusterClient
from kafka_marshal.runtime.errors import BrokerFailed
from kafka_marshal.runtime.reader import CONNECT_S, patiently


class Cluster(ClusterClient):
    """A cluster, as a consumer sees it."""

    def partitions_of(self, topic: str) -> int:
        """How many partitions a topic has.

        Raises:
            BrokerFailed: there is no such topic, or nobody answered.
        """
        seen = self.topic(topic)
        if seen is None:
            raise BrokerFailed(f"{self.settings.bootstrap}: there is no topic {topic}")
        return len(seen.partitions)

    def committed(
        self, group: str, places: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """The group's committed offsets; what has none is left out.

        A consumer asks, and not the admin client, whose librdkafka (2.16) takes the process with it
        (a null pointer in `rd_kafka_handle_OffsetFetch`) where the group's coordinator is only just
        being made.

        Raises:
            BrokerFailed: nobody answered.
        """
        wanted = [TopicPartition(*place) for place in places]
        decided = {"group_id": group, "enable_auto_commit": "false"}
        try:
            asking = Consumer(self._hearing.for_client(**decided), logger=self._hearing)
            with closing(asking):
                answered = patiently(lambda: asking.committed(wanted, timeout=2 * CONNECT_S))
        except KafkaException as error:
            raise self._failed(error, f"committed offsets of group {group}") from None
        return {(one.topic, one.partition): one.offset for one in answered if one.offset >= 0}
