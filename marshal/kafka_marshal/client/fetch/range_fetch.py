"""Fetches the ranges of shared partitions: decides which, from where, and routes the messages.

Kafka's client fetches a partition from one position at a time. This module moves the position from
range to range, lowest first, and to the end of the partition if a range is about to begin there.
`shared_partition` decides that, and `fetcher` delivers the messages. Only the polling thread calls
this, except where a docstring states that a lock is held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Message as Fetched

from kafka_marshal.client.connect.environment import FetchClient
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.threads import Condition, Lock
from kafka_marshal.client.fetch.buffers import Buffers
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.shared_partition import SharedPartition
from kafka_marshal.client.fetch.split_fetch import offset_of
from kafka_marshal.client.message import Claim

LOOK_TIMEOUT_S: Final = 0.25
"""The timeout of a request for a partition's end, in seconds. Nothing is fetched meanwhile."""


class RangeFetch:
    """The ranges of one fetcher."""

    def __init__(
        self,
        consumer: FetchClient,
        cluster: ClusterMetadata,
        buffers: Buffers[FetchedPartition, Fetched],
        of_partition: Mapping[tuple[str, int], Sequence[FetchedPartition]],
        topics: set[str],
        lock: Lock,
        arrived: Condition,
        monotonic: Callable[[], float],
        settle: Callable[[tuple[str, int]], None],
        ahead: bool,
        on_fetched: Callable[[Claim, int], None],
        on_gone: Callable[[Claim, int, Watermarks], None],
        on_error: Callable[[str], None],
        on_end: Callable[[str, int, int], None] | None,
    ) -> None:
        """Take parts of the fetcher; `settle` is its method that assigns a partition again.

        Without `ahead`, at most once, a whole range is allowed before its messages exist. So only
        the beginning and the end of a range's fetch are reported: each report wakes a thread, and
        the application would wait for it.
        """
        self.consumer, self._cluster = consumer, cluster
        self._buffers, self._of_partition, self._topics = buffers, of_partition, topics
        self._lock, self._arrived, self._monotonic = lock, arrived, monotonic
        self._settle, self._ahead = settle, ahead
        self._on_fetched, self._on_gone = on_fetched, on_gone
        self._on_error, self._on_end = on_error, on_end
        self.shared: dict[tuple[str, int], SharedPartition] = {}
        """Partitions with a range that was opened, or with a watched end."""

    @property
    def fetches(self) -> bool:
        """Whether Kafka's client fetches anything for ranges."""
        return any(one.next is not None for one in list(self.shared.values()))

    def until_due(self, longest_s: float, now_s: float) -> float:
        """The longest poll, in seconds."""
        due_s = [one.due_s for one in list(self.shared.values()) if one.due_s is not None]
        return max(0.001, min([longest_s, *(each - now_s for each in due_s)]))

    def share(self, partition: tuple[str, int]) -> SharedPartition:
        """The partition is shared from now on. The lock is held."""
        return self.shared.setdefault(partition, SharedPartition(partition))

    def lacking(self, maximum: int) -> int:
        """How many messages to take at once: at most as many as ranges lack.

        While Kafka's client has messages that were not taken, it fetches no others.
        """
        if not self.shared:
            return maximum
        lacking = 0
        for shared in self.shared.values():
            if shared.next is not None:
                with self._lock:
                    ranges = [one for one in self._ranges_of(shared) if one.wanted]
                lowest = min(ranges, key=_fetched, default=None)
                if lowest is not None and lowest.until is not None:
                    lacking += lowest.until - shared.next
        return min(maximum, max(1, lacking))

    @staticmethod
    def go_first(shared: SharedPartition, opened: list[FetchedPartition]) -> bool:
        """Whether ranges were opened before other tenures, and have messages to fetch."""
        lowest = min((one.fetched for one in opened if one.ranged), default=None)
        if lowest is None or not opened[0].ranged:
            return False
        return shared.high is None or lowest < shared.high

    def settle(self, shared: SharedPartition) -> None:
        """Fetch the lowest range that lacks messages, or follow the end, or check again later."""
        begin = self._begin(shared)
        if begin is not None and begin == shared.next:
            return
        self.stop(shared)
        if begin is not None:
            self._topics.add(shared.topic_partition[0])
            self.consumer.incremental_assign([TopicPartition(*shared.topic_partition, begin)])
            shared.next = begin

    def _begin(self, shared: SharedPartition) -> int | None:
        with self._lock:
            wanted = [one.fetched for one in self._ranges_of(shared) if one.wanted]
        return shared.begin(min(wanted, default=None), self._monotonic())

    def _ranges_of(self, shared: SharedPartition) -> list[FetchedPartition]:
        opened = self._of_partition.get(shared.topic_partition, ())
        return [one for one in opened if one.ranged]

    def stop(self, shared: SharedPartition) -> None:
        """Stop fetching the partition for ranges."""
        if shared.next is not None:
            self.consumer.incremental_unassign([TopicPartition(*shared.topic_partition)])
            shared.next = None

    def unassigned(self) -> None:
        """Kafka's client has no partition any more."""
        for shared in self.shared.values():
            shared.next = None

    def passed(self, partition: tuple[str, int], end: int, run: Sequence[Fetched] = ()) -> None:
        """These are all messages between what was fetched of a shared partition and `end`."""
        shared = self.shared.get(partition)
        if shared is None or shared.next is None or end < shared.next:
            return
        begin, shared.next = shared.next, end
        fetched = []
        with self._lock:
            for one in self._ranges_of(shared):
                assert one.until is not None
                upto = min(end, one.until)
                if not one.wanted or not begin <= one.fetched < upto:
                    continue
                first = bisect_left(run, one.fetched, key=offset_of)
                self._buffers.add(one, run[first : bisect_left(run, upto, key=offset_of)])
                self._buffers.nothing_below(one, upto)
                one.fetched = upto
                if self._ahead or not one.notified or upto == one.until:
                    one.notified = upto
                    fetched.append((one.claim, upto))
            self._arrived.notify()
        for claim, upto in fetched:
            self._on_fetched(claim, upto)
        high = end
        with suppress(KafkaException):
            seen = self.consumer.get_watermark_offsets(TopicPartition(*partition), cached=True)
            high = max(high, seen[1])
        # A leader that is new may lag behind what was seen before.
        shared.saw(max(high, shared.high or 0), self._monotonic())

    def refused(self, shared: SharedPartition) -> None:
        """Its position is not in the partition, which has lost its beginning or its end."""
        self.stop(shared)
        # A refusal may come twice.
        shared.refused_below = max(shared.refused_below or 0, shared.high or 0)
        shared.high = None

    def _look(self, due: Sequence[SharedPartition]) -> None:
        """Look up the ends of partitions; after a refused fetch, also what is gone.

        The fetching client's own connection answers only after a fetch that waits at an end.
        """
        ends = self._cluster.ends([one.topic_partition for one in due], LOOK_TIMEOUT_S)
        for shared in due:
            high = ends.get(shared.topic_partition)
            if high is not None and shared.refused_below is not None:
                high = self._after_refusal(shared, shared.refused_below)
            if high is None:
                shared.failed(self._monotonic())
            else:
                shared.refused_below = None
                shared.saw(high, self._monotonic())
            self._settle(shared.topic_partition)

    def _after_refusal(self, shared: SharedPartition, ended: int) -> int | None:
        """Skip what is gone. Returns the end; None if no broker answers."""
        topic, number = partition = shared.topic_partition
        extent = self._cluster.extents([partition]).get(partition)
        if extent is None:
            return None
        low, high = extent.low, extent.high
        gone = []
        with self._lock:
            for one in self._ranges_of(shared):
                assert one.until is not None
                upto = min(low, one.until)
                if one.wanted and one.fetched < upto:
                    gone.append((one, one.fetched, upto))
                    self._buffers.nothing_below(one, upto)
                    one.fetched = upto
            self._arrived.notify()
        for one, first, upto in gone:
            self._on_gone(one.claim, first, Watermarks(upto, high))
            self._on_fetched(one.claim, upto)
        if high < ended:
            self._on_error(
                f"{topic}/{number}: the partition ends at {high}, and ended at {ended}: it lost "
                f"its end, or is another topic by the same name"
            )
        return high

    def tend(self) -> None:
        """Update the shared partitions. Not in the middle of a batch, which has one assignment."""
        partitions = list(self.shared.values())
        if not partitions:
            return
        for shared in partitions:
            with self._lock:
                shared.full = self._too_much(shared)
            self._settle(shared.topic_partition)
        now_s = self._monotonic()
        due = [one for one in partitions if one.due_s is not None and one.due_s <= now_s]
        if due:
            self._look(due)
        for shared in partitions:
            high = shared.report(self._monotonic())
            if high is not None and self._on_end is not None:
                self._on_end(*shared.topic_partition, high)

    def _too_much(self, shared: SharedPartition) -> bool:
        """Whether its ranges have buffered as much as one tenure may; then until half is free."""
        ranges, bounds = self._ranges_of(shared), self._buffers.bounds
        share = 2 if shared.full else 1
        full = self._buffers.full
        return (
            any(one in full for one in ranges)
            or share * sum(map(self._buffers.waiting, ranges)) >= bounds.messages
            or share * sum(map(self._buffers.waiting_bytes, ranges)) >= bounds.bytes
        )


def _fetched(one: FetchedPartition) -> int:
    return one.fetched
