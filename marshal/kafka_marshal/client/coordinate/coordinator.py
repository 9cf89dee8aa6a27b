"""The thread that feeds an instance's machine; `ownership` carries out what it asks for.

Every event goes into one queue: a record was read, an append has an outcome, messages were fetched,
the application is done with some, time has passed. One thread feeds them to the `Member` in that
order. It decides nothing: the machine decides what is sent, won, handed over or lost. When the log
lost records it begins anew, as a new instance.
"""

from __future__ import annotations

import queue
import threading
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import attrs
from attrs import define

from kafka_marshal.client.connect.environment import Deadline, Thread
from kafka_marshal.client.connect.log_writer import LogWriter, TopicMissing
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import ReadResult, Watermarks
from kafka_marshal.client.coordinate.configuration import Configuration
from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.client.coordinate.partition_watcher import PartitionWatcher
from kafka_marshal.client.coordinate.session import Session, open_session
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health_monitor import HealthMonitor
from kafka_marshal.client.observe.logging_observer import ConsumerIdentity
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import (
    BrokerFailed,
    ConsumerClosed,
    IntervalMismatch,
    InvalidOption,
    MarshalError,
    ThreadFailed,
)
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.intervals import OwnerReport

T = TypeVar("T")

COMMIT_EVERY_S: Final = 1.0
"""How often the positions in the log are committed to Kafka's group offsets, and the state of the
claims is reported, in seconds."""
LOOK_EVERY_S: Final = 0.25
"""How often to look how far the application got within what it has in hand, in seconds."""
ANEW_AFTER_S: Final = 1.0
CALL_S: Final = 0.2
"""How often a call to the coordinator's thread looks whether that thread has ended, in seconds."""


class LogLost(MarshalError):
    """At most once: grants may be gone with what the log of claims lost, so nobody goes on."""


@define
class _Topic:
    partitions: int
    only: set[int] | None
    starts: dict[int, int]


class Coordinator:
    """One consumer's claims, kept by a thread. Its methods may be called by any other."""

    def __init__(
        self,
        config: Configuration,
        observers: Sequence[Observer],
        look_for_topics: Callable[[], None],
    ) -> None:
        """Connect. `look_for_topics` is called after each look at the topics that are known.

        Raises:
            BrokerFailed: the cluster cannot be reached, or has no such coordination topic.
        """
        self._config, self._group = config, config.group_id
        self._settings, self._topic = config.settings, config.coordination_topic
        self._monotonic = config.settings.environment.monotonic
        self._steady_ms = config.settings.environment.steady_ms
        self._inbox: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self.failure: MarshalError | None = None
        """Why it stopped by itself; None while all is well."""
        self.ended = threading.Event()
        self._failing = threading.Lock()
        self._topics: dict[str, _Topic] = {}
        self._look_at = self._commit_at = 0.0
        self._anew_at: float | None = None
        self._told_waiting = False
        self._session = self._new_session()
        self._health_monitor = HealthMonitor(
            self._who,
            observers,
            config.health_checks,
            int(config.me.rules.stale_after_ms),
            self._monotonic,
        )
        self.observers = self._health_monitor.observers
        """They are notified of what happens."""
        self.cluster = ClusterMetadata(self._settings)
        self.fetcher = Fetcher(
            self.cluster,
            self._group,
            config.me.client_id,
            bounds=config.bounds,
            ahead=config.mode is Mode.AT_LEAST_ONCE,
            on_fetched=self.fetched,
            on_gone=self.gone,
            on_error=self.said,
            on_failure=self.failed,
            on_statistics=self.statistics_of("data"),
        )
        self.log = LogWriter(
            self._settings, self._topic, self.said, self.statistics_of("log"), self.failed
        )
        self.held = Ownership(
            config.me,
            self._group,
            self._session,
            self.fetcher,
            self.log,
            self._health_monitor,
            self.post,
        )
        """What is ours."""
        self._partition_watcher = PartitionWatcher(
            self.cluster,
            config.metadata_refresh_s,
            self._partitions,
            self._has_grown,
            self._is_gone,
            look_for_topics,
            self.failed,
        )
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._begin_reading(self._session)
        self.fetcher.start()
        environment = self._settings.environment
        self._thread = environment.start("marshal-engine", self._run, self._died)
        self._partition_watcher.start()

    # --- what the application's threads say -------------------------------------------------------

    @property
    def instance_id(self) -> str:
        """Names this run; made anew when the log lost records."""
        return self._session.member.me.instance_id

    @property
    def stopping(self) -> bool:
        """Everything is being given up."""
        return self.held.stopping

    def call(self, what: Callable[[], T]) -> T:
        """Do this in the coordinator's thread, and wait until it is done.

        Raises:
            ConsumerClosed: the coordinator has ended, by `stop` or `close`.
            MarshalError: what ended it.
        """
        self.raise_failure()
        future: Future[T] = Future()

        def called() -> None:
            try:
                future.set_result(what())
            except BaseException as error:
                future.set_exception(error)

        self.post(called)
        self.wait(future)
        return future.result()

    def wait(self, future: Future[T], deadline: Deadline | None = None) -> None:
        """Wait until the coordinator has answered, or until the deadline.

        Raises:
            ConsumerClosed: the coordinator has ended, by `stop` or `close`.
            MarshalError: what ended it.
        """
        while not wait([future], CALL_S).done:
            if self.ended.is_set():
                self.raise_failure()
                raise ConsumerClosed("the consumer has stopped")
            if deadline is not None and not deadline.left_s:
                return

    def raise_failure(self) -> None:
        """Raise what ended the consumer, if something did."""
        if self.failure is not None:
            raise self.failure

    def post(self, event: Callable[[], object]) -> None:
        """Something has happened."""
        self._inbox.put(event)

    def said(self, sentence: str) -> None:
        """Something about the cluster that passes, or that somebody else must mend."""
        self._health_monitor.said(sentence)

    def statistics_of(self, client: str) -> Callable[[str], None] | None:
        """Who takes what librdkafka says of this client; None where nobody wants to know."""
        if not self.observers.wants_statistics:
            return None
        return partial(self.observers.told, self._group, client)

    def _who(self) -> ConsumerIdentity:
        return ConsumerIdentity(self._group, self._config.me.client_id, self.instance_id)

    @property
    def topics(self) -> set[str]:
        """What was added and not removed since. Any thread may ask."""
        return set(self._topics)

    def add_topic(
        self, topic: str, partitions: int, only: Collection[int] | None, starts: Mapping[int, int]
    ) -> None:
        """Take part in consuming a topic, or claim these partitions of it."""
        known = self._topics.get(topic)
        if known is None:
            chosen = None if only is None else set(only)
            known = self._topics[topic] = _Topic(partitions, chosen, dict(starts))
        else:
            known.partitions = max(known.partitions, partitions)
            known.only = None if only is None or known.only is None else known.only | set(only)
            known.starts.update(starts)
        self._tell_topic(topic, known)

    def remove_topic(self, topic: str) -> None:
        """Take no part in consuming a topic any more.

        Raises:
            InvalidOption: it was not added.
        """
        if self._topics.pop(topic, None) is None:
            raise InvalidOption(f"topic {topic} was not added")
        self.held.remove_topic(topic)

    def fetched(self, claim: Claim, end: int) -> None:
        """A claim's messages below this were fetched."""
        self.post(partial(self.held.fetched, claim, end))

    def gone(self, claim: Claim, first: int, extent: Watermarks) -> None:
        """A claim's messages from `first` on are gone from the topic."""
        self.post(partial(self.held.gone, claim, first, extent))

    def stop(self) -> None:
        """Begin to give everything up; `ended` is set when that is done."""
        self.post(self.held.stop)

    def leave(self) -> None:
        """End at once; what is owned becomes stale by itself."""
        self.post(self.ended.set)

    def close(self, deadline: Deadline) -> None:
        """Let go of the cluster. `stop` or `leave` comes before."""
        self.ended.set()
        self.post(lambda: None)
        # The coordinator says last how far the group is, so the data consumer outlives it.
        self._partition_watcher.close(deadline)
        if self._thread is not threading.current_thread():
            deadline.join(self._thread)
        self._health_monitor.ended()
        self.fetcher.close(deadline)
        self._session.end(deadline)
        self.log.close(deadline.left_s)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.ended.is_set():
            self._wait()
            self._on_time()
        if self.failure is not None:
            self.held.drop()
        self._commit_positions()
        self._session.put_aside(at_once=True)
        self.fetcher.wake()

    def _wait(self) -> None:
        """Let happen what has happened, or else wait for it."""
        try:
            self._inbox.get(timeout=self._timeout_s())()
            # Handle what has come by now in one go; bounded, because timers are due meanwhile.
            for _ in range(100):
                self._inbox.get_nowait()()
        except queue.Empty:
            pass

    def _timeout_s(self) -> float:
        due_ms = self._session.member.next_timer_ms
        look_s = max(0.0, min(self._look_at, self._commit_at) - self._monotonic())
        if due_ms is None:
            return min(look_s, LOOK_EVERY_S)
        return max(0.0, min(look_s, LOOK_EVERY_S, (due_ms - self._steady_ms()) / 1000))

    def _on_time(self) -> None:
        session, now = self._session, self._monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._health_monitor.look(self._steady_ms())
            self.held.look()
            if self._config.claiming.release_when_behind:
                self.fetcher.ends(lambda ends: self.post(partial(self.held.ends, ends)))
        due_ms = session.member.next_timer_ms
        if due_ms is not None and self._steady_ms() >= due_ms:
            self.held.carry_out(session.member.timer(self._steady_ms()))
        if now >= self._commit_at:
            self._commit_at = now + COMMIT_EVERY_S
            self._commit_positions()
            session.put_aside()
            self.fetcher.ends(lambda ends: self.post(partial(self._stand, ends)))
        if self._anew_at is not None and now >= self._anew_at:
            self._begin_anew()
        if self.log.failed is not None and self._anew_at is None:
            raise BrokerFailed(self.log.failed)
        if self.stopping and session.member.drained and self.held.drained:
            self.ended.set()

    def failed(self, error: BaseException) -> None:
        """The calling thread ends by this, and so does the consumer. Any thread may say so."""
        with self._failing:
            if self.failure is not None:
                return
            self.failure = self._plainly(error)
        self.ended.set()
        self.fetcher.wake()
        self.post(lambda: None)  # the coordinator's thread looks up, and ends
        self._health_monitor.stopped(self.failure)

    def _plainly(self, error: BaseException) -> MarshalError:
        if isinstance(error, TopicMissing) and self._config.me.mode is Mode.AT_MOST_ONCE:
            return self._log_lost(str(error))
        if isinstance(error, MarshalError):
            return error
        failed = ThreadFailed(
            f"the consumer of group {self._group} ended, since its thread "
            f"{threading.current_thread().name} met {type(error).__name__}: {error}"
        )
        failed.__cause__ = error
        return failed

    def _died(self, error: BaseException) -> None:
        self.failed(error)
        self.held.drop()

    # --- the coordination topic -------------------------------------------------------------------

    def _new_session(self) -> Session:
        me = attrs.evolve(self._config.me, instance_id=uuid.uuid4().hex)
        return open_session(self._config, me)

    def _begin_reading(self, session: Session) -> None:
        session.begin(
            lambda heard: self.post(partial(self._heard, session, heard)),
            lambda reason: self.post(partial(self._truncated, session, reason)),
            self.failed,
        )

    def _heard(self, session: Session, heard: ReadResult) -> None:
        session.folded(heard)
        if session is not self._session:
            return
        member = session.member
        for raw in heard.records:
            try:
                record = raw.decoded()
            except MalformedRecord:
                continue
            self.held.carry_out(member.record(record, self._steady_ms()))
            if member.differs is not None:
                raise self._mismatch(member.differs)
            if record.message.instance_id == member.me.instance_id:
                self.held.read_back(record)
        for place in heard.ended:
            self.held.carry_out(member.caught_up(place, self._steady_ms()))
        waits_for = member.waits_for(self._steady_ms()) if heard.ended else None
        if waits_for is not None and not self._told_waiting:
            self._told_waiting = True
            self.said(
                f"{self._differ(waits_for)}; nothing is claimed before it is certain that "
                f"nobody lives under that one"
            )

    def _differ(self, alive: OwnerReport) -> str:
        own_s = self._config.me.rules.heartbeat_interval_ms / 1000
        return (
            f"group {self._group}: client {alive.client_id} has a heartbeat interval of "
            f"{alive.interval_ms / 1000:g} s, and this consumer one of {own_s:g} s"
        )

    def _mismatch(self, alive: OwnerReport) -> IntervalMismatch:
        return IntervalMismatch(
            f"{self._differ(alive)}: both would process every message; start this one with "
            f"heartbeat_interval_s={alive.interval_ms / 1000:g}, or change the interval of the "
            f"whole group as docs/client.md says"
        )

    def _truncated(self, session: Session, reason: str) -> None:
        if session is not self._session:
            return
        session.forget()
        if self._config.me.mode is Mode.AT_MOST_ONCE:
            # A new instance would be granted once more what this one has processed.
            raise self._log_lost(reason)
        self.said(f"{reason}; beginning anew as a new instance")
        self.held.truncated()
        self._commit_positions()
        self._anew_at = self._monotonic() + ANEW_AFTER_S

    def _log_lost(self, reason: str) -> LogLost:
        return LogLost(
            f"{reason}; what was granted at most once may be gone with it, so nobody goes on "
            f"by itself: set the positions of group {self._group} (marshal set-position), and "
            f"start again"
        )

    def _begin_anew(self) -> None:
        self._anew_at = None
        self._session.end()
        session = self._new_session()
        if self.ended.is_set():  # closed meanwhile, and nobody waits for us
            session.end()
            return
        self._session = session
        self.held.begin_anew(self._session)
        for topic, known in self._topics.items():
            with suppress(BrokerFailed):  # where nobody set a position, Kafka's is the best we have
                asked = [(topic, number) for number in range(known.partitions)]
                found = self.cluster.committed(self._group, asked)
                known.starts.update({number: offset for (_, number), offset in found.items()})
            self._tell_topic(topic, known)
        self._begin_reading(self._session)

    def _tell_topic(self, topic: str, known: _Topic) -> None:
        session = self._session
        self.held.carry_out(
            session.member.add_topic(
                topic,
                known.partitions,
                self._steady_ms(),
                only=None if known.only is None else sorted(known.only),
                start=lambda partition: known.starts.get(partition, 0),
            )
        )
        session.want(session.member.places)

    # --- how it stands ----------------------------------------------------------------------------

    def _stand(self, ends: Mapping[Claim, int]) -> None:
        self.held.stand(ends)
        member = self._session.member
        keys = [
            ClaimKey(self._group, topic, number)
            for topic, known in self._topics.items()
            for number in (known.only or range(known.partitions))
        ]
        drivers = [member.driver(key) for key in keys]
        self._health_monitor.crowded(drivers, self._steady_ms())
        self._health_monitor.unknown(drivers, self._steady_ms())

    # --- beside the machine -----------------------------------------------------------------------

    def _commit_positions(self) -> None:
        if self.held.to_commit:
            offsets, self.held.to_commit = self.held.to_commit, {}
            if self._config.commit_to_kafka:
                self.fetcher.commit(offsets)

    def _partitions(self) -> dict[str, int]:
        known = {topic: each.partitions for topic, each in list(self._topics.items())}
        return {self._topic: self._session.member.partitions, **known}

    def _has_grown(self, topic: str, partitions: int) -> None:
        if topic != self._topic:
            self.post(partial(self._grown, topic, partitions))
            return
        before = self._session.member.partitions
        if partitions != before:
            self.failed(
                BrokerFailed(
                    f"{self._settings.bootstrap}: topic {topic} had {before} partitions and has "
                    f"{partitions} now: claims lie elsewhere from now on, so consumers would not "
                    f"see each other's; stop all of them, and start them again"
                )
            )

    def _is_gone(self, topic: str) -> None:
        if topic == self._topic:
            self.failed(
                BrokerFailed(
                    f"{self._settings.bootstrap}: the coordination topic {topic} is gone, and "
                    f"without it nobody keeps a claim; make it again (marshal init), and start "
                    f"the consumers of group {self._group} again"
                )
            )

    def _grown(self, topic: str, partitions: int) -> None:
        known = self._topics.get(topic)
        if known is None or partitions <= known.partitions:
            return
        known.partitions = partitions
        if known.only is None:
            # What is in a new partition came after us, so it is consumed from its beginning.
            self._tell_topic(topic, known)
