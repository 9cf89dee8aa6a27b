"""Checks periodically, in its own thread, whether topics have new partitions or are gone.

A topic that was deleted and created again has the same name and another id. The callbacks decide
what follows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from kafka_marshal.client.connect.admin_client import TopicDescription
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.metadata import ClusterMetadata, NoSuchTopic
from kafka_marshal.client.connect.threads import Thread
from kafka_marshal.errors import BrokerFailed

AGAIN_S: Final = 1.0
"""How soon it checks again for a missing topic, in seconds."""


class PartitionWatcher:
    """Watches the numbers of topics' partitions."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        every_s: float,
        known: Callable[[], Mapping[str, int]],
        grown: Callable[[str, int], None],
        gone: Callable[[str], None],
        remade: Callable[[str, int], None],
        look_for_topics: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Take callbacks.

        `known` returns the previous numbers. `grown` is called for each topic whose number has
        changed. `gone` is called, repeatedly, for each topic that was missing twice in a row.
        `remade` is called once, with the number, for a topic that was deleted and created again.
        `look_for_topics` is called after each check of the known topics. `failed` is called with
        the error that ended the thread.
        """
        self._cluster, self._every_s = cluster, every_s
        self._known, self._grown, self._gone, self._remade = known, grown, gone, remade
        self._ids: dict[str, str | None] = {}
        """The last id that brokers reported of each topic; None if they reported none."""
        self._look_for_topics, self._failed = look_for_topics, failed
        self._begun: deque[TopicDescription] = deque()
        """What other threads have seen of topics, for our own thread."""
        self._closed = cluster.settings.environment.threads.event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        environment = self._cluster.settings.environment
        self._thread = environment.start("marshal-metadata", self._run, self._failed)

    def close(self, deadline: Deadline) -> None:
        """End the thread, without waiting for a pending request."""
        self._closed.set()
        deadline.join(self._thread)

    def begin_with(self, topic: TopicDescription) -> None:
        """Compare a topic from now on with what was seen of it. Any thread may call it."""
        self._begun.append(topic)

    def _run(self) -> None:
        missed: set[str] = set()
        while not self._closed.wait(min(AGAIN_S, self._every_s) if missed else self._every_s):
            with suppress(BrokerFailed):  # it may be away for a while
                for topic, before in self._known().items():
                    while self._begun:
                        self._saw(self._begun.popleft())
                    try:
                        seen = self._cluster.described(topic)
                    except NoSuchTopic:
                        # A broker that has only just started may not know of it yet.
                        if topic in missed:
                            self._gone(topic)
                        missed.add(topic)
                        continue
                    missed.discard(topic)
                    partitions = len(seen.partitions)
                    # What another thread has seen meanwhile may be newer.
                    if all(begun.name != topic for begun in tuple(self._begun)):
                        is_remade = seen.is_not(self._ids.get(topic))
                        self._saw(seen)
                        if is_remade:
                            self._remade(topic, partitions)
                    if partitions != before:
                        self._grown(topic, partitions)
                self._look_for_topics()

    def _saw(self, topic: TopicDescription) -> None:
        self._ids[topic.name] = topic.topic_id or self._ids.get(topic.name)
