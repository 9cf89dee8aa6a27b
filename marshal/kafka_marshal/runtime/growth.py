"""Looks now and then, in a thread of its own, whether topics have got more partitions.

What is done about it is the business of others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from kafka_marshal.runtime.cluster import Cluster
from kafka_marshal.runtime.environment import Thread
from kafka_marshal.runtime.errors import BrokerFailed

JOIN_S: Final = 10.0


class Growth:
    """Watches how many partitions topics have."""

    def __init__(
        self,
        cluster: Cluster,
        every_s: float,
        known: Callable[[], Mapping[str, int]],
        grown: Callable[[str, int], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`known` says how many there were; `grown` hears of each topic that has another number.

        `failed` takes what ended the thread.
        """
        self._cluster, self._every_s = cluster, every_s
        self._known, self._grown, self._failed = known, grown, failed
        self._closed = threading.Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin."""
        environment = self._cluster.settings.environment
        self._thread = environment.start("marshal-metadata", self._run, self._failed)

    def close(self) -> None:
        """End."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            with suppress(BrokerFailed):  # it may be away for a while
                for topic, before in self._known().items():
                    partitions = self._cluster.partitions_of(topic)
                    if partitions != before:
                        self._grown(topic, partitions)
