"""A controller's queries to the cluster, in threads, since each blocks: end offsets and counts.

End offsets that are needed at the same time are queried together. This module does not know why.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.threads import Queue
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.errors import BrokerFailed

WORKERS: Final = 4
END_S: Final = 1.0
"""The timeout of a query for an end offset, in seconds. After that it is repeated."""
_WAIT_S: Final = 0.2
LATEST: Final = -1


class Questions:
    """Threads that send queries; close it. Answers are passed on in these threads."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        topic: str,
        failed: Callable[[BaseException], None],
    ) -> None:
        """`topic` is the queried log; `failed` is called with the error that ended a thread."""
        self._cluster, self._topic = cluster, topic
        environment = cluster.settings.environment
        self._ends: Queue[tuple[int, Callable[[int], None]]] = environment.threads.queue()
        self._others: Queue[Callable[[], None]] = environment.threads.queue()
        self._closed = False
        environment.start("marshal-ends", self._ask_ends, failed)
        for number in range(WORKERS):
            environment.start(f"marshal-questions-{number}", self._work, failed)

    def end(self, partition: int, answer: Callable[[int], None]) -> None:
        """Query the end offset of a log's partition. There is no answer after an error."""
        self._ends.put((partition, answer))

    def count(self, topic: str, answer: Callable[[str, int], None]) -> None:
        """Query the id and the number of partitions of a topic; 0 if there is no such topic."""

        def ask() -> None:
            found = self._cluster.topic(topic)
            if found is None:
                answer("", 0)
            else:
                answer(found.topic_id or "", len(found.partitions))

        self._others.put(ask)

    def offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        answer: Callable[[Mapping[TopicPartition, int]], None],
    ) -> None:
        """The latest (-1) or earliest offset of partitions; those without one are left out."""

        def ask() -> None:
            found = self._cluster.extents(list(wanted))
            answer(
                {
                    tp: found[tp].high if which == LATEST else found[tp].low
                    for tp, which in wanted.items()
                    if tp in found
                }
            )

        self._others.put(ask)

    def do(self, ask: Callable[[], None]) -> None:
        """Anything else that blocks."""
        self._others.put(ask)

    def close(self) -> None:
        """Send no more queries; a pending one is not waited for."""
        self._closed = True

    def _work(self) -> None:
        while not self._closed:
            with suppress(queue.Empty, BrokerFailed):
                self._others.get(timeout=_WAIT_S)()

    def _ask_ends(self) -> None:
        while not self._closed:
            with suppress(queue.Empty, BrokerFailed):
                asked = [self._ends.get(timeout=_WAIT_S)]
                with suppress(queue.Empty):
                    while True:
                        asked.append(self._ends.get_nowait())
                places = [(self._topic, partition) for partition in {one for one, _ in asked}]
                found = self._cluster.ends(places, END_S)
                for partition, answer in asked:
                    if (self._topic, partition) in found:
                        answer(found[self._topic, partition])
