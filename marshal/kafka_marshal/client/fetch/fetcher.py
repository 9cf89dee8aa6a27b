"""The data consumer: fetches the owned partitions, from given positions, into buffers.

Kafka's client prefetches by itself, and one thread at a time polls it. The application's thread
polls when it has no messages, since a handover between threads costs more than a message. Our own
thread polls while the application is busy. The polling thread also runs all other calls to that
client, between two polls. So nothing that was fetched under an old assignment is taken for the new
one, and no thread waits for a lock that a poll holds.

Everything that is fetched, requested or answered carries the tenure that it is for, a
`FetchedPartition`: a partition may be lost and won again between any two lines. Kafka's client
fetches a partition from one position at a time. So while a finished tenure still has granted
messages to fetch, the next tenure of the partition waits. Among the ranges of a partition, the
lowest with messages to fetch is fetched first, and `shared_partition` knows when to follow the end.
This module does not know the protocol: `coordinator` decides which claims we own, from where on,
and what may be delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, cast

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as Fetched

from kafka_marshal.client.connect.client_errors import rights_of_consumer, with_right
from kafka_marshal.client.connect.environment import Deadline, FetchClient
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import MutedLogger, Watermarks
from kafka_marshal.client.connect.settings import Settings
from kafka_marshal.client.connect.threads import Thread
from kafka_marshal.client.fetch.buffers import BufferLimits, Buffers, MessageChunk, joined
from kafka_marshal.client.fetch.fetched_partition import FetchedPartition
from kafka_marshal.client.fetch.in_flight import InFlight
from kafka_marshal.client.fetch.range_fetch import RangeFetch
from kafka_marshal.client.fetch.split_fetch import offset_of, partition_of, runs_of
from kafka_marshal.client.message import Claim
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import BrokerFailed

FETCH_MAX: Final = 500
"""The most messages to take from Kafka's client at once. Python searches for cycles each time that
it has created some 700 objects more than it has freed, and then examines every message. With
this limit, an application that finishes each chunk before it takes the next one never waits for
that."""
BUSY_S: Final = 0.02
"""The time without a request after which the application counts as busy, in seconds. Our own thread
then polls for it."""
POLL_S: Final = 0.05
"""The longest poll, in seconds: changes of the assignment wait for its end."""
IDLE_POLL_S: Final = 0.2
"""The same if the assignment has not changed for `IDLE_S`."""
IDLE_S: Final = 1.0
FULL_S: Final = 0.2
"""The time with a full buffer after which a partition is paused, in seconds. A pause drops what
Kafka's client has prefetched, so it should not happen if the buffer is about to be emptied."""
ALONE_S: Final = 5.0
"""The same if nothing else is to be fetched. Messages of a resumed partition take up to a second to
arrive, and an application that has emptied half of its buffer by then would wait for them."""
RETRY_S: Final = 5.0
"""The delay before a partition whose position is beyond its end is tried again, in seconds."""
SHARED_POLL_S: Final = 0.02
"""The longest poll while ranges are open, in seconds: a newly opened range waits for its end."""
SHARED_IDLE_POLL_S: Final = 0.05
"""The same if the assignment has not changed for `IDLE_S`."""
SHARED_SETTINGS: Final = {
    "fetch.message.max.bytes": "65536",
    "queued.min.messages": "50",
    "fetch.wait.max.ms": "100",
}
"""The settings of Kafka's client for ranges. By default it prefetches far beyond a range's end, so
that each consumer fetches the messages of all others (`benchmarks.range_fetch`). A fetch of a
backlog brings more than 50 messages, so it is the last until they were taken. At the end of a
partition the next fetch does not wait for that: with 1 in place of 50, messages came later. A
fetch that waits at an end delays the next one to the same broker, so its maximum wait is
shorter."""

_error: Final = cast("Callable[[Fetched], KafkaError | None]", Fetched.error)


class Fetcher:
    """Fetches the messages of our claims. Any thread may call its public methods."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        group: str,
        client_id: str,
        *,
        bounds: BufferLimits | None = None,
        ahead: bool,
        on_fetched: Callable[[Claim, int], None],
        on_gone: Callable[[Claim, int, Watermarks], None],
        on_error: Callable[[str], None],
        on_failure: Callable[[BaseException], None],
        on_statistics: Callable[[str], None] | None = None,
        on_end: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Connect; nothing is fetched before `start`.

        Args:
            cluster: describes topics; its settings configure Kafka's client.
            group: the group whose committed offsets are written.
            client_id: the client id at the brokers, unless the settings have one.
            bounds: the limits of prefetching.
            ahead: whether `on_fetched` gets the offset up to which the claim could be fetched.
            on_fetched: called with a claim and the offset up to which it was fetched.
            on_gone: called with a claim, its offset that is gone, and what the partition holds.
            on_error: called with sentences about errors.
            on_failure: called with the reason why fetching ended.
            on_statistics: called with librdkafka's statistics.
            on_end: called with a topic, a partition and its end, for shared partitions only: when
                the end moves, at most every `REPORT_S`.

        Raises:
            BrokerFailed: the settings are refused.
        """
        self._cluster = cluster
        self._settings = settings = cluster.settings
        self._ahead = ahead
        self._on_fetched, self._on_gone = on_fetched, on_gone
        self._group = group
        self._on_error, self._on_failure = on_error, on_failure
        self._on_statistics = on_statistics
        self._decided = {
            "group_id": group,
            "client_id": settings.values.get("client.id", client_id),
            "enable_auto_commit": "false",
            "enable_auto_offset_store": "false",
            # A full queue of the client is emptied in a moment; it would look for room only once
            # a second.
            "fetch_queue_backoff_ms": "5",
            # A consumer that must pass over messages that are gone writes that to the log first.
            "auto_offset_reset": "error",
            # The end says that there is no more below it, whatever lies between two messages.
            "enable_partition_eof": "true",
        }
        self._consumer = self._connected({})
        environment = settings.environment
        self._monotonic, threads = environment.monotonic, environment.threads
        self._lock = threads.rlock()
        self._arrived = threads.condition(self._lock)
        self._emptied = threads.condition(self._lock)
        self._buffers: Buffers[FetchedPartition, Fetched] = Buffers(offset_of, _size_of, bounds)
        self._of_partition: dict[tuple[str, int], list[FetchedPartition]] = {}
        """The open tenures of each partition, in the order in which they were opened."""
        self._assigned: dict[tuple[str, int], FetchedPartition] = {}
        """The assignment of Kafka's client. Only the polling thread uses it."""
        self._topics: set[str] = set()
        """All topics that were ever fetched."""
        self._commands: deque[Callable[[], None]] = deque()
        self._changed_at = self._monotonic()
        """The time of the last request to change what is fetched."""
        self._full = False
        """Whether a buffer was full at the last check."""
        self._ranges = RangeFetch(
            self._consumer,
            cluster,
            self._buffers,
            self._of_partition,
            self._topics,
            self._lock,
            self._arrived,
            self._monotonic,
            self._settle,
            ahead,
            on_fetched,
            on_gone,
            on_error,
            on_end,
        )
        self._shares = False
        """Kafka's client must be configured for ranges before it fetches anything more."""
        self._ended = self._closed = False
        self._woken = False
        self._polling = threads.rlock()
        """Held by the polling thread. `recover` finds out whether that is the calling one."""
        self._is_fetching = False
        """Between the steps of a fetch. If it is set when a fetch begins, a signal's handler raised
        in the one before."""
        self._asked_at = 0.0
        """When the application last polled for itself."""
        self._thread: Thread | None = None

    def _connected(self, more: Mapping[str, str]) -> FetchClient:
        settings = self._settings
        try:
            return settings.environment.fetcher(
                {
                    **more,
                    **settings.for_client(**self._decided),
                    **settings.telling(self._on_statistics),
                    "error_cb": self._on_librdkafka_error,
                    "on_commit": self._committed,
                },
                logger=MutedLogger(),
            )
        except KafkaException as error:
            raise _failed(settings, error) from None

    def share(self) -> None:
        """Prepare for ranges: configure Kafka's client for them, if it has fetched nothing."""
        self._shares = True

    def _set_for_ranges(self) -> None:
        self._shares = False
        if not self._topics:
            before, self._consumer = self._consumer, self._connected(SHARED_SETTINGS)
            self._ranges.consumer = self._consumer
            before.close()

    def start(self) -> None:
        """Begin to fetch."""
        environment = self._settings.environment
        self._thread = environment.start("marshal-data", self._run, self._failed)

    # --- what others say --------------------------------------------------------------------------

    def open(self, claim: Claim, position: int, end: int | None = None) -> FetchedPartition:
        """Fetch a claim that was won, from there. Returns the argument of the other methods.

        With an `end` it is the range [position, end), which may lie beyond the end of the
        partition. Ranges of a partition are disjoint, and each has its own claim.
        """
        ranged = end is not None
        one = FetchedPartition(claim, position=position, fetched=position, until=end, ranged=ranged)
        with self._lock:
            self._open_buffer(one)
            self._of_partition.setdefault(one.topic_partition, []).append(one)
            if ranged:
                self._ranges.share(one.topic_partition)
        self._command(partial(self._settle, one.topic_partition))
        return one

    def drain(self, one: FetchedPartition, end: int) -> None:
        """The claim is being given up: fetch only its messages below `end`."""
        with self._lock:
            one.until = end
        self._command(partial(self._settle, one.topic_partition))

    def cut(self, one: FetchedPartition, end: int) -> int:
        """The range ends here now: nothing at or above is delivered from now on.

        Returns the offset up to which it was delivered. If that is above `end`, the range ends
        there, because the application has those messages, or is about to. The last chunk in flight
        ends there, unless another one is about to be delivered.
        """
        with self._lock:
            if one.until is None:
                return one.position
            one.until = end = max(one.position, min(end, one.until))
            one.allowed = [
                range(each.start, min(each.stop, end)) for each in one.allowed if each.start < end
            ]
            self._buffers.cut(one, end)
            reached = one.position
        self._command(partial(self._settle, one.topic_partition))
        return reached

    def watch_end(self, topic: str, partition: int, *, watched: bool = True) -> None:
        """Report the partition's end to `on_end` even if none of its messages are fetched."""
        with self._lock:
            self._ranges.share((topic, partition)).watched = watched
        self._command(partial(self._settle, (topic, partition)))

    def end_at(self, one: FetchedPartition, end: int) -> int:
        """The claim is no longer ours, but its messages below `end` are: drop all others.

        Returns the number of dropped messages.
        """
        with self._lock:
            one.until, one.lost = end, True
            dropped = self._buffers.end_at(one, end)
        self._command(partial(self._settle, one.topic_partition))
        return dropped

    def drop(self, one: FetchedPartition) -> int:
        """The claim is no longer ours: drop at once what was fetched, and fetch no more.

        Returns the number of dropped messages.
        """
        with self._lock:
            if one.dropped:
                return 0
            one.dropped = True
            self._of_partition[one.topic_partition].remove(one)
            dropped = self._buffers.drop(one)
        self._command(partial(self._settle, one.topic_partition))
        return dropped

    def allow(self, one: FetchedPartition, offsets: range) -> None:
        """Allow these offsets to be delivered."""
        with self._lock:
            if one.dropped:
                return
            begin = offsets.start
            if one.allowed and one.allowed[-1].stop == begin:
                begin = max(one.allowed.pop().start, min(one.position, begin))
            one.allowed.append(range(begin, offsets.stop))
            forgotten = one.lost and one.until is not None and offsets.stop > one.until
            if forgotten:
                one.until = offsets.stop
            elif not one.paused:
                self._buffers.allow(one, offsets)
                self._arrived.notify_all()
        if forgotten:
            self._anew(one)

    def recall(self, one: FetchedPartition, done: int | None = None) -> int:
        """Deliver nothing more of it, until it is allowed again.

        The exception is its next message, if it was delivered only up to `done`: then no message is
        in flight. Returns the offset up to which it was or may be delivered.
        """
        with self._lock:
            one.allowed.clear()
            self._buffers.recall(one)
            end = one.position
            first = self._buffers.first(one) if done is not None and end <= done else None
            if first is not None:
                end = first + 1
                one.allowed.append(range(one.position, end))
                self._buffers.allow(one, one.allowed[0])
                self._arrived.notify_all()
            return end

    def seek(self, one: FetchedPartition, position: int) -> None:
        """Continue from there; fetched messages are dropped."""
        self._anew(one, position=position)

    def pause(self, one: FetchedPartition) -> None:
        """Deliver nothing of it, and fetch no more; it continues where it is, or from a `seek`."""
        self._anew(one, paused=True)

    def resume(self, one: FetchedPartition) -> None:
        """Undo `pause`."""
        self._anew(one, paused=False)

    def _anew(
        self, one: FetchedPartition, position: int | None = None, *, paused: bool | None = None
    ) -> None:
        with self._lock:
            if one.dropped or one.paused == paused:
                return
            one.paused = one.paused if paused is None else paused
            if position is not None:
                if position < one.position:  # taken back, and allowed as it was before
                    one.allowed = joined(one.allowed, range(position, one.position))
                one.position, one.moved = position, True
            self._buffers.drop(one)

        def anew() -> None:
            with self._lock:
                if one.may_begin:
                    begin = one.fetched = one.position
                    self._open_buffer(one)
                    if one.lost and one.until is not None:
                        self._buffers.end_at(one, one.until)
                    one.allowed = [each for each in one.allowed if each.stop > begin]
                    for each in one.allowed:
                        self._buffers.allow(one, range(max(begin, each.start), each.stop))
            self._unassign(one)
            self._settle(one.topic_partition)

        self._command(anew)

    def _open_buffer(self, one: FetchedPartition) -> None:
        lane = one.topic_partition if one.ranged else None
        self._buffers.open(one, one.position, lane)

    def unlock(self) -> None:
        """The calling thread no longer polls: an exception may have come before it unlocked."""
        with suppress(RuntimeError):  # it does not hold the lock
            self._polling.release()

    def recover(self) -> None:
        """Begin anew: an exception may have come between two steps of a fetch in this thread.

        Everything that was fetched is dropped. `seek` opens each tenure again.
        """
        self.unlock()
        with self._polling:
            self._is_fetching = True
            with self._lock:
                self._buffers.clear()

    def _begin_anew(self) -> None:
        """Assign nothing: nobody knows which steps of the last fetch were carried out."""
        with self._lock:
            opened = [one for each in self._of_partition.values() for one in each]
        opened += self._assigned.values()
        held = [TopicPartition(*partition) for partition in self._assigned]
        with suppress(KafkaException):  # Kafka's client does not have one of them
            self._consumer.resume(held)
        self._consumer.unassign()
        for one in opened:
            one.assigned = one.held = False
            one.retry_at, one.notified = None, 0
        self._assigned.clear()
        self._ranges.unassigned()

    def commit(self, offsets: Mapping[ClaimKey, int]) -> None:
        """Commit the group's offsets to Kafka, without waiting for the outcome."""
        wanted = [TopicPartition(key.topic, key.topic_partition, at) for key, at in offsets.items()]

        def commit() -> None:
            try:
                self._consumer.commit(offsets=wanted, asynchronous=True)
            except KafkaException as error:
                self._not_committed(str(error))

        self._command(commit, soon=False)

    def take(self, maximum: int, timeout_s: float | None) -> MessageChunk[Claim, Fetched] | None:
        """The next messages that may be delivered; None on timeout, or after `wake`.

        A chunk may have no messages; it then reports that there are none below its end.
        """
        deadline = None if timeout_s is None else self._monotonic() + timeout_s
        while True:
            with self._lock:
                chunk = self._buffers.take(maximum)
                if chunk is not None:
                    chunk.key.position, chunk.key.moved = chunk.end, False
                    if self._full:
                        self._emptied.notify()
                    return MessageChunk(chunk.key.claim, chunk.messages, chunk.start, chunk.end)
                # Wait if buffered messages may not be delivered yet; poll if there are none.
                waits = self._buffers.waits
            left = self._poll_s
            if deadline is not None:
                left = min(left, deadline - self._monotonic())
            if self._ended or self._woken or (left <= 0 and deadline is not None):
                self._woken = False
                return None
            came = False
            # Our own thread leaves the polling to us when it has done with its own.
            self._asked_at = self._monotonic()
            if self._polling.acquire(timeout=0.0 if waits else max(0.0, left)):
                try:
                    if self._buffers.ready:
                        continue
                    if not self._ended:
                        came = self._fetch(0.0 if waits else max(0.0, left))
                    self._asked_at = self._monotonic()
                except KafkaException as error:
                    failed = _failed(self._settings, error)
                    self._on_failure(failed)
                    raise failed from None
                finally:
                    self._polling.release()
                if not waits:
                    continue
            if not came:
                # We cannot wait for both; our own thread waits for messages.
                self._asked_at = 0.0
                with self._lock:
                    self._emptied.notify_all()
                with self._lock:
                    if not self._buffers.ready:
                        self._arrived.wait(left)

    def keeps(self, one: FetchedPartition, in_flight: InFlight) -> bool:
        """Whether a chunk that was taken must still be delivered: its tenure has not changed since.

        If it was paused meanwhile, the chunk is delivered after that.
        """
        with self._lock:
            if one.dropped or one.moved:
                return False
            if one.paused:
                one.position = in_flight.start
                one.allowed = joined(one.allowed, range(in_flight.start, in_flight.end))
            return one.may_begin

    def give_back(self, one: FetchedPartition, in_flight: InFlight) -> None:
        """End its turn if another claim waits for one; the undelivered messages are taken later.

        The application cannot take anything in between, so messages stay in order.
        """
        with self._lock:
            if not one.may_begin or one.position != in_flight.end:
                return
            if not self._buffers.ready_beside(one):
                return
            rest = in_flight.give_back()
            if rest is None:
                return
            # Where its buffer is being opened anew, it is opened there.
            one.position = rest.start
            one.allowed = joined(one.allowed, range(rest.start, rest.end))
            self._buffers.put_back(MessageChunk(one, rest.messages, rest.start, rest.end))
            self._arrived.notify_all()

    def wake(self) -> None:
        """Wake all threads that wait in `take`."""
        with self._lock:
            self._woken = True
            self._arrived.notify_all()

    def ends(self, then: Callable[[dict[Claim, int]], None]) -> None:
        """Look up the ends of our partitions at the last fetch; some may be unknown."""

        def ask() -> None:
            found = {}
            for one in self._assigned.values():
                partition = TopicPartition(*one.topic_partition)
                with suppress(KafkaException):
                    _, high = self._consumer.get_watermark_offsets(partition, cached=True)
                    if high >= 0:
                        found[one.claim] = high
            then(found)

        self._command(ask, soon=False)

    @property
    def any_buffered(self) -> bool:
        """Whether any messages are waiting."""
        with self._lock:
            return self._buffers.waits

    def buffered(self, one: FetchedPartition) -> tuple[int, int]:
        """The number of its waiting messages, and their bytes."""
        with self._lock:
            return self._buffers.waiting(one), self._buffers.waiting_bytes(one)

    def close(self, deadline: Deadline) -> None:
        """Stop fetching and disconnect; a blocked thread disconnects later."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._arrived.notify_all()
            self._emptied.notify_all()
        if deadline.join(self._thread):
            self._let_go()

    def _let_go(self) -> None:
        with self._polling:  # closed under a poll it would take the process with it
            if not self._closed:
                self._closed = True
                self._consumer.close()

    def _on_librdkafka_error(self, error: KafkaError) -> None:
        self._on_error(self._settings.without_secrets(error.str()))

    def _committed(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        if error is not None and error.code() != KafkaError._NO_OFFSET:
            self._not_committed(error.str())

    def _not_committed(self, reason: str) -> None:
        reason = self._settings.without_secrets(reason)
        self._on_error(f"the offsets of group {self._group} were not committed to Kafka: {reason}")

    # --- the thread -------------------------------------------------------------------------------

    @property
    def _poll_s(self) -> float:
        now_s = self._monotonic()
        idle = now_s - self._changed_at > IDLE_S
        if not self._ranges.shared:
            return IDLE_POLL_S if idle else POLL_S
        return self._ranges.until_due(SHARED_IDLE_POLL_S if idle else SHARED_POLL_S, now_s)

    def _command(self, command: Callable[[], None], *, soon: bool = True) -> None:
        self._commands.append(command)
        if soon:
            self._changed_at = self._monotonic()
        with self._lock:
            self._emptied.notify()

    def _run(self) -> None:
        while not self._ended:
            if self._monotonic() - self._asked_at < BUSY_S:
                with self._lock:
                    self._emptied.wait(BUSY_S)
                continue
            with self._polling:
                self._fetch(self._poll_s if self._fetches else 0.0)
            self._rest()
        with self._polling:
            self._obey()  # what was committed last
        self._let_go()

    @property
    def _fetches(self) -> bool:
        """Whether Kafka's client fetches anything."""
        return bool(self._assigned) or self._ranges.fetches

    def _rest(self) -> None:
        """If nothing is fetched, wait for a command; a poll would only return errors."""
        if self._fetches:
            return
        until_s = self._ranges.until_due(IDLE_POLL_S, self._monotonic())
        with self._lock:
            if not self._commands and not self._ended:
                self._emptied.wait(until_s)

    def _failed(self, error: BaseException) -> None:
        if isinstance(error, KafkaException):
            error = _failed(self._settings, error)
        self._on_failure(error)

    def _fetch(self, timeout_s: float) -> bool:
        """Run pending commands, and add what was fetched; returns whether there was anything."""
        if self._is_fetching:
            self._begin_anew()
        self._is_fetching = True
        came = self._obey_and_fetch(timeout_s)
        self._is_fetching = False
        return came

    def _obey_and_fetch(self, timeout_s: float) -> bool:
        self._obey()
        if not self._has_room():
            return False
        self._ranges.tend()
        maximum = FETCH_MAX if self._assigned else self._ranges.lacking(FETCH_MAX)
        batch = self._consumer.consume(maximum, 0)
        if not batch and (first := self._consumer.poll(timeout_s)) is not None:
            batch = [first, *self._consumer.consume(maximum - 1, 0)]
        if batch:
            self._take_in(batch)
        self._retry()
        return bool(batch)

    def _obey(self) -> None:
        while self._commands:
            self._commands[0]()
            self._commands.popleft()  # only now: an exception may end this midway

    def _settle(self, partition: tuple[str, int]) -> None:
        """Fetch for this partition the tenure that was opened first and wants messages."""
        if self._shares:
            self._set_for_ranges()
        shared = self._ranges.shared.get(partition)
        with self._lock:
            opened = [one for one in self._of_partition.get(partition, ()) if one.wanted]
        wanted = next((one for one in opened if not one.ranged), None)
        if shared is not None and (wanted is None or self._ranges.go_first(shared, opened)):
            if (fetched := self._assigned.get(partition)) is not None:
                self._unassign(fetched)
            self._ranges.settle(shared)
            return
        if shared is not None:
            self._ranges.stop(shared)
        if wanted is not None and wanted.until is not None and wanted.retry_at is None:
            wanted.retry_at = self._monotonic() + RETRY_S  # in case that some of it is nowhere
        fetched = self._assigned.get(partition)
        if fetched is wanted:
            return
        if fetched is not None:
            self._unassign(fetched)
        if wanted is not None:
            self._topics.add(partition[0])
            self._consumer.incremental_assign([TopicPartition(*partition, wanted.fetched)])
            wanted.assigned = True
            self._assigned[partition] = wanted

    def _unassign(self, one: FetchedPartition) -> None:
        if not one.assigned:
            return
        partition = [TopicPartition(*one.topic_partition)]
        if one.held:
            # Kafka's client keeps it paused, also when it is assigned anew.
            self._consumer.resume(partition)
        self._consumer.incremental_unassign(partition)
        one.assigned = one.held = False
        one.retry_at = None
        del self._assigned[one.topic_partition]

    def _has_room(self) -> bool:
        """Whether to fetch now. Waits briefly while buffers are full and about to be emptied."""
        with self._lock:
            full = self._buffers.full
            if not full and not self._full:
                return True
            self._full, now = bool(full), self._monotonic()
            opened = [one for each in self._of_partition.values() for one in each]
            # A shared partition that is full is fetched no further, and not held (`_tend`).
            opened = [one for one in opened if not one.ranged or one not in full]
            for one in opened:
                since_s = now if one.full_since_s is None else one.full_since_s
                one.full_since_s = since_s if one in full else None
            others = any(one not in full and one.wanted for one in opened)
            patience_s = FULL_S if others else ALONE_S
            since = [one.full_since_s or now for one in opened if one in full]
            waits = any(now - since_s < patience_s for since_s in since)
            if waits and (self._buffers.ready or not others):
                self._emptied.wait(POLL_S)
                return False
            hold = [one for one in opened if one in full and one.assigned and not one.held]
            free = [one for one in opened if one not in full and one.held]
            for one in hold + free:
                one.held = not one.held
        for ones, call in ((hold, self._consumer.pause), (free, self._consumer.resume)):
            if ones:
                call([TopicPartition(*one.topic_partition) for one in ones])
        return True

    def _take_in(self, batch: list[Fetched]) -> None:
        if any(map(_error, batch)):
            batch = self._without_errors(batch)
        self._add_runs(batch)

    def _add_runs(self, batch: list[Fetched]) -> None:
        for run in runs_of(batch, of_one_topic=len(self._topics) == 1):
            self._add(run)

    def _add(self, run: list[Fetched]) -> None:
        one = self._assigned.get(partition_of(run[0]))
        if one is None:
            self._ranges.passed(partition_of(run[0]), offset_of(run[-1]) + 1, run)
            return
        with self._lock:
            end = self._buffers.add(one, run)
            if end is not None:
                one.fetched = end
                self._arrived.notify()
        if end is not None:
            self._notify_fetched(one, end)

    def _notify_fetched(self, one: FetchedPartition, end: int) -> None:
        if self._ahead and end > one.notified:
            partition = TopicPartition(*one.topic_partition)
            with suppress(KafkaException):
                end = max(end, self._consumer.get_watermark_offsets(partition, cached=True)[1])
        if end > one.notified:
            one.notified = end
            self._on_fetched(one.claim, end)
        if not one.wanted:
            # Not before the next poll: what this one brought is of this tenure.
            self._commands.append(partial(self._settle, one.topic_partition))

    def _without_errors(self, batch: list[Fetched]) -> list[Fetched]:
        """Add the messages before each error, then handle the error; return the rest."""
        begin = 0
        for index, message in enumerate(batch):
            error = message.error()
            if error is None:
                continue
            self._add_runs(batch[begin:index])
            begin = index + 1
            self._heed(message, error)
        return batch[begin:]

    def _heed(self, message: Fetched, error: KafkaError) -> None:
        one = self._assigned.get(partition_of(message))
        if error.code() == KafkaError._PARTITION_EOF:
            if one is not None:
                with self._lock:
                    end = self._buffers.nothing_below(one, cast("int", message.offset()))
                    one.fetched = one.fetched if end is None else end
                    self._arrived.notify()
                if end is not None:
                    self._notify_fetched(one, end)
            else:
                self._ranges.passed(partition_of(message), cast("int", message.offset()))
        elif error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            if one is not None:
                self._out_of_range(one)
            elif (shared := self._ranges.shared.get(partition_of(message))) is not None:
                self._ranges.refused(shared)
        elif error.retriable() or error.code() in _PASSING:
            self._on_librdkafka_error(error)
        elif error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            # As `ClusterMetadata.committed` says it: which of the two hears of it first is open.
            where = f"{self._settings.bootstrap}: offsets of group {self._group}"
            reason = with_right(error, rights_of_consumer(self._group))
            raise BrokerFailed(f"{where}: {reason}")
        else:
            reason = self._settings.without_secrets(with_right(error, "READ on it"))
            topic = message.topic()
            of_topic = "" if topic is None else f"topic {topic}: "
            raise BrokerFailed(f"{self._settings.bootstrap}: {of_topic}{reason}")

    def _out_of_range(self, one: FetchedPartition) -> None:
        key, partition = one.claim.key, one.topic_partition
        extent = self._cluster.extents([partition]).get(partition)
        if extent is None:
            one.retry_at = self._monotonic() + RETRY_S
            return
        low, high = extent.low, extent.high
        position = one.fetched
        if position > high and one.until is not None:
            # What was granted is nowhere, and the next tenure must not wait for it.
            low = one.until
        if position < low:
            self._pass_over(one, low, high)
        elif position <= high:
            self._again(one)
        else:
            self._on_error(
                f"{key.topic}/{key.topic_partition}: the position of group {key.group} is "
                f"{position}, but the partition ends at {high}: it lost its end, is another topic "
                f"by the same name, or was shared at most once, and reserved until there; set the "
                f"position, or wait until it gets there"
            )
            one.retry_at = self._monotonic() + RETRY_S

    def _pass_over(self, one: FetchedPartition, low: int, high: int) -> None:
        """There are no messages below `low`. Those fetched before are still delivered."""
        first = one.fetched
        with self._lock:
            self._buffers.nothing_below(one, low)
            one.fetched = low
            self._arrived.notify()
        self._on_gone(one.claim, first, Watermarks(low, high))
        self._notify_fetched(one, low)
        self._again(one)

    def _again(self, one: FetchedPartition) -> None:
        self._unassign(one)
        self._settle(one.topic_partition)

    def _retry(self) -> None:
        self._ranges.tend()
        now = self._monotonic()
        for one in list(self._assigned.values()):
            if one.retry_at is None or now < one.retry_at:
                continue
            until, found = one.until, None
            if until is not None and one.fetched < until:
                found = self._cluster.extents([one.topic_partition]).get(one.topic_partition)
            if until is not None and found is not None and found.high <= one.fetched:
                # The topic lost its end, or was made anew: what is left of the grant is nowhere.
                self._pass_over(one, until, found.high)
            else:
                self._again(one)


def _size_of(messages: Sequence[Fetched]) -> int:
    return sum(map(len, messages))


def _failed(settings: Settings, exception: KafkaException) -> BrokerFailed:
    error = exception.args[0]
    reason = error.str() if isinstance(error, KafkaError) else str(error)
    where = settings.values.get("bootstrap.servers", "the cluster")
    return BrokerFailed(settings.without_secrets(f"{where}: {reason}"))


_PASSING: Final = frozenset(
    {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE}
)
