"""Checks periodically, in its own thread, whether topics have new partitions.

The callbacks decide what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

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
        look_for_topics: Callable[[], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Take callbacks.

        `known` returns the previous numbers. `grown` is called for each topic whose number has
        changed. `gone` is called, repeatedly, for each topic that was missing twice in a row.
        `look_for_topics` is called after each check of the known topics. `failed` is called with
        the error that ended the thread.
        """
        self._cluster, self._every_s = cluster, every_s
        self._known, self._grown, self._gone = known, grown, gone
        self._look_for_topics, self._failed = look_for_topics, failed
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

    def _run(self) -> None:
        missed: set[str] = set()
        while not self._closed.wait(min(AGAIN_S, self._every_s) if missed else self._every_s):
            with suppress(BrokerFailed):  # it may be away for a while
                for topic, before in self._known().items():
                    try:
                        partitions = self._cluster.partitions_of(topic)
                    except NoSuchTopic:
                        # A broker that has only just started may not know of it yet.
                        if topic in missed:
                            self._gone(topic)
                        missed.add(topic)
                        continue
                    missed.discard(topic)
                    if partitions != before:
                        self._grown(topic, partitions)
                self._look_for_topics()
