"""Checks periodically, in its own thread, whether topics have new partitions.

What is done about it is the business of others.
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
"""How soon it looks again for a topic that is missing, in seconds."""


class PartitionWatcher:
    """Watches how many partitions topics have."""

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
        """`known` says how many there were; `grown` hears of each topic that has another number.

        `gone` hears, again and again, of each that was missing twice in a row. `look_for_topics` is
        called after each look at those that are known.
        `failed` takes what ended the thread.
        """
        self._cluster, self._every_s = cluster, every_s
        self._known, self._grown, self._gone = known, grown, gone
        self._look_for_topics, self._failed = look_for_topics, failed
        self._closed = cluster.settings.environment.threads.event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin."""
        environment = self._cluster.settings.environment
        self._thread = environment.start("marshal-metadata", self._run, self._failed)

    def close(self, deadline: Deadline) -> None:
        """End; a question that is under way is not waited for any longer."""
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
