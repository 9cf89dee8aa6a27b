"""The threads around a `ConsumerLoop`: one of them feeds it inputs from a queue.

All other threads put inputs into that queue: a record was read, an append has an outcome, messages
were fetched, the application finished some. This module creates and closes what the loop uses, and
passes on the application's calls. The loop decides what follows from them.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import attrs

from kafka_marshal.client.connect.admin_client import TopicDescription
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.log_writer import LogWriter, TopicMissing
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.partition_watcher import PartitionWatcher
from kafka_marshal.client.connect.reader import Watermarks
from kafka_marshal.client.connect.threads import Answer, ForkGuard, Queue, Thread
from kafka_marshal.client.coordinate.configuration import Configuration
from kafka_marshal.client.coordinate.consumer_loop import ConsumerLoop
from kafka_marshal.client.coordinate.inputs import (
    CallRequested,
    Input,
    LeaveRequested,
    LogTruncated,
    MessagesFetched,
    MessagesGone,
    PartitionsCounted,
    RecordsRead,
    SessionOpened,
    SharedEndSeen,
    StopRequested,
)
from kafka_marshal.client.coordinate.session import Session, open_session
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health_monitor import HealthMonitor
from kafka_marshal.client.observe.logging_observer import ConsumerIdentity
from kafka_marshal.client.observe.observers import Observer
from kafka_marshal.errors import (
    BrokerFailed,
    ConsumerClosed,
    MarshalError,
    ThreadFailed,
    in_words,
)
from kafka_marshal.machines.consumer.consumer import Mode

T = TypeVar("T")

AT_ONCE: Final = 100
"""The most inputs to handle before due work is run."""
CALL_S: Final = 0.2
"""How often a call to the coordinator's thread checks whether that thread has ended, in seconds."""


class Coordinator:
    """One consumer's claims, kept by a thread. Any other thread may call its methods."""

    def __init__(
        self,
        config: Configuration,
        observers: Sequence[Observer],
        look_for_topics: Callable[[], None],
    ) -> None:
        """Connect. `look_for_topics` is called after each check of the known topics.

        Raises:
            BrokerFailed: the cluster cannot be reached, or has no such coordination topic.
        """
        self._config, self._group, self._fork = config, config.group_id, ForkGuard()
        self._settings, self._topic = config.settings, config.coordination_topic
        self._environment = config.settings.environment
        threads = self._threads = self._environment.threads
        self._inputs: Queue[Input | None] = threads.queue()
        """None wakes the thread."""
        self.failure: MarshalError | None = None
        """The error that ended it; None if there is none."""
        self.ended = threads.event()
        self._failing = threads.lock()
        self._sessions: list[Session] = []
        """All sessions that were opened and not ended, the newest last."""
        self.cluster = ClusterMetadata(self._settings)
        session = self._new_session()
        self._health_monitor = HealthMonitor(
            self._who,
            observers,
            config.health_checks,
            int(config.me.rules.stale_after_ms),
            self._environment.monotonic,
        )
        self.observers = self._health_monitor.observers
        """They are notified of what happens."""
        self.fetcher = Fetcher(
            self.cluster,
            self._group,
            config.me.client_id,
            bounds=config.bounds,
            ahead=config.mode is Mode.AT_LEAST_ONCE,
            on_fetched=self._fetched,
            on_gone=self._gone,
            on_error=self.note,
            on_failure=self.failed,
            on_statistics=self.statistics_of("data"),
            on_end=self._shared_end,
        )
        log = LogWriter(
            self._settings, self._topic, self.note, self.statistics_of("log"), self.failed
        )
        self._log = log
        self.loop = ConsumerLoop(
            config,
            session,
            self.fetcher,
            log,
            self._health_monitor,
            self.post,
            self._open_another,
            threads.lock,
            lambda: self.stop_asked,
        )
        self.ownership = self.loop.ownership
        """The claims that we own."""
        self._partition_watcher = PartitionWatcher(
            self.cluster,
            config.metadata_refresh_s,
            self._partitions,
            self._counted,
            self._missing,
            self._remade,
            look_for_topics,
            self.failed,
        )
        self._partition_watcher.begin_with(session.topic)
        self.stop_asked = False
        """Set by any thread; the effects come later."""
        self._thread: Thread | None = None
        self._opener: Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._begin_reading(self.loop.session)
        self.fetcher.start()
        self._thread = self._environment.start("marshal-coordinator", self._run, self._died)
        self._partition_watcher.start()

    # --- what the application's threads say -------------------------------------------------------

    @property
    def instance_id(self) -> str:
        """The id of the current instance; it changes when the log lost records."""
        return self._sessions[-1].member.me.instance_id

    def committed(self, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The group's committed offsets, without partitions that have none.

        Raises:
            BrokerFailed: no broker answered, or not before a stop.
        """
        return self.cluster.committed(self._group, partitions, lambda: self.stop_asked)

    @property
    def stopping(self) -> bool:
        """Whether all claims are being released."""
        return self.ownership.stopping

    def call(self, do: Callable[[], T]) -> T:
        """Run this in the coordinator's thread, and wait until it is done.

        Raises:
            ConsumerClosed: the coordinator has ended, by `stop` or `close`.
            MarshalError: the error that ended it; or an observer called this.
        """
        self.refuse_observers()
        self.raise_failure()
        answer = Answer[T]()

        def called() -> None:
            try:
                answer.set_result(do())
            except OSError:
                # The machine has moved, and what cannot be recorded is not sent: the consumer ends.
                raise
            except BaseException as error:
                answer.set_exception(error)

        self.post(CallRequested(called))
        self.wait(answer)
        return answer.result()

    def refuse_observers(self) -> None:
        """Refuse a call that waits for the coordinator's thread, if that is the calling one.

        Raises:
            MarshalError: an observer called it, which would wait for itself.
        """
        if self._threads.is_current(self._thread):
            raise MarshalError(
                "an observer called this in the thread that keeps the claims, which would wait for "
                "itself: call it in another thread, or in on_claimed, on_lost or on_drained"
            )

    def wait(self, answer: Answer[T], deadline: Deadline | None = None) -> None:
        """Wait until the coordinator has answered, or until the deadline.

        Raises:
            ConsumerClosed: the coordinator has ended, by `stop` or `close`.
            MarshalError: the error that ended it.
        """
        answered = self._threads.event()
        answer.tell(answered)
        while not answered.wait(CALL_S):
            if self.ended.is_set():
                self.raise_failure()
                raise ConsumerClosed("the consumer has stopped")
            if deadline is not None and not deadline.left_s:
                return

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one that connected: none of its threads is here."""
        return self._fork.forked

    def raise_failure(self) -> None:
        """Raise the error that ended the consumer, if there is one."""
        self._fork.refuse("consumer")
        if self.failure is not None:
            raise self.failure

    def post(self, given: Input) -> None:
        """Add an input."""
        self._inputs.put(given)

    def do(self, what: Callable[[], object]) -> None:
        """Run this in the coordinator's thread, without waiting."""
        self.post(CallRequested(what))

    def note(self, sentence: str, *, distinct: bool = False) -> None:
        """Report something about the cluster; see `LoggingObserver.note`."""
        self._health_monitor.note(sentence, distinct=distinct)

    def statistics_of(self, client: str) -> Callable[[str], None] | None:
        """The callback for this client's librdkafka statistics; None if no observer wants them."""
        if not self.observers.wants_statistics:
            return None
        return partial(self.observers.librdkafka_statistics, self._group, client)

    def _who(self) -> ConsumerIdentity:
        return ConsumerIdentity(self._group, self._config.me.client_id, self.instance_id)

    def _fetched(self, claim: Claim, end: int) -> None:
        self.post(MessagesFetched(claim, end))

    def _gone(self, claim: Claim, first: int, extent: Watermarks) -> None:
        self.post(MessagesGone(claim, first, extent))

    def _shared_end(self, topic: str, partition: int, end: int) -> None:
        self.post(SharedEndSeen(topic, partition, end))

    def stop(self) -> None:
        """Begin to release everything; `ended` is set when that is done."""
        self.stop_asked = True
        self.post(StopRequested())

    def leave(self) -> None:
        """End at once; owned claims become stale by themselves."""
        self.post(LeaveRequested())

    def close(self, deadline: Deadline) -> None:
        """Disconnect from the cluster, after `stop` or `leave`."""
        self.ended.set()
        self._inputs.put(None)
        # The coordinator says last how far the group is, so the data consumer outlives it.
        self._partition_watcher.close(deadline)
        if not self._threads.is_current(self._thread):
            deadline.join(self._thread)
        self._health_monitor.ended()
        self.fetcher.close(deadline)
        deadline.join(self._opener)
        for session in list(self._sessions):
            session.end(deadline)
        self._log.close(deadline.left_s)

    # --- the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self.ended.is_set():
            self._take_inputs()
            self.loop.on_time(self._environment.steady_ms())
            if self.loop.over:
                self.ended.set()
        if self.failure is not None:
            self.ownership.drop()
        self.ownership.ended()
        self.loop.commit_positions()
        self.loop.session.put_aside(at_once=True)
        self.fetcher.wake()

    def _take_inputs(self) -> None:
        """Handle the queued inputs, or wait for one until work is due."""
        left_ms = self.loop.next_due_ms - self._environment.steady_ms()
        try:
            self._handle(self._inputs.get(timeout=max(0.0, left_ms / 1000)))
            for _ in range(AT_ONCE):
                self._handle(self._inputs.get_nowait())
        except queue.Empty:
            pass

    def _handle(self, given: Input | None) -> None:
        if given is not None and not self.loop.over:
            self.loop.handle(given, self._environment.steady_ms())

    def failed(self, error: BaseException) -> None:
        """End the consumer because of this error. Any thread may call it."""
        with self._failing:
            if self.failure is not None:
                return
            self.failure = self._plainly(error)
        self.ended.set()
        self.fetcher.wake()
        self._inputs.put(None)
        self._health_monitor.stopped(self.failure)

    def _plainly(self, error: BaseException) -> MarshalError:
        if isinstance(error, TopicMissing) and self._config.me.mode is Mode.AT_MOST_ONCE:
            return self.loop.log_lost(str(error))
        if isinstance(error, MarshalError):
            return error
        failed = ThreadFailed(
            f"the consumer of group {self._group} ended, since its thread "
            f"{self._threads.current_name} met {in_words(error)}"
        )
        failed.__cause__ = error
        return failed

    def _died(self, error: BaseException) -> None:
        self.failed(error)
        self.ownership.drop()

    # --- sessions ---------------------------------------------------------------------------------

    def _new_session(self) -> Session:
        me = attrs.evolve(self._config.me, instance_id=self._environment.new_id())
        session = open_session(self._config, me, self.cluster)
        self._sessions.append(session)
        return session

    def _begin_reading(self, session: Session) -> None:
        session.begin(
            lambda read: self.post(RecordsRead(session, read)),
            lambda reason: self.post(LogTruncated(session, reason)),
            self.failed,
        )

    def _open_another(self) -> None:
        """Open a session in a separate thread, since connecting may take a long time."""

        def failed(error: BaseException) -> None:
            if not self.ended.is_set() and not self.stopping:
                self.failed(error)

        self._opener = self._environment.start("marshal-session", self._open, failed)

    def _open(self) -> None:
        old = self.loop.session
        old.end()
        session = self._new_session()
        self._partition_watcher.begin_with(session.topic)
        self._sessions.remove(old)
        committed: dict[tuple[str, int], int] = {}
        for topic, partitions in self.loop.partitions.items():
            with suppress(BrokerFailed):
                asked = [(topic, number) for number in range(partitions)]
                committed.update(self.committed(asked))
        if self.ended.is_set():  # closed meanwhile, and nobody waits for us
            session.end()
            return
        self.post(SessionOpened(session, committed))
        self._begin_reading(session)

    # --- topics -----------------------------------------------------------------------------------

    def _partitions(self) -> dict[str, int]:
        return {self._topic: self.loop.session.member.partitions, **self.loop.partitions}

    def _counted(self, topic: str, partitions: int) -> None:
        if topic != self._topic:
            self.post(PartitionsCounted(topic, partitions))
            return
        if self.ownership.log_lost:
            return  # it may have been made anew, and the next session knows how many that has
        before = self.loop.session.member.partitions
        if partitions != before:
            self.failed(
                BrokerFailed(
                    f"{self._settings.bootstrap}: topic {topic} had {before} partitions and has "
                    f"{partitions} now: claims lie elsewhere from now on, so consumers would not "
                    f"see each other's; stop all of them, and start them again"
                )
            )

    def described(self, topic: str) -> TopicDescription:
        """A topic to consume; from now on it is noticed if another one takes its name.

        Raises:
            NoSuchTopic: the topic does not exist.
            BrokerFailed: no broker answered.
        """
        seen = self.cluster.described(topic)
        self._partition_watcher.begin_with(seen)
        return seen

    def _remade(self, topic: str, partitions: int) -> None:
        made = f"topic {topic} was deleted and made anew, with {partitions} partitions"
        if topic == self._topic:
            # Its reader does not notice this where the new log is as long as the old one was.
            self.post(LogTruncated(self.loop.session, f"{self._settings.bootstrap}: {made}"))
            return
        self.note(
            f"{made}: group {self._group} goes on at the positions that it had in the former one, "
            f"so what lies before them in the new one is not consumed; to consume it, set the "
            f"positions (marshal set-position {self._group} {topic}=earliest)",
            distinct=True,
        )

    def _missing(self, topic: str) -> None:
        if topic != self._topic:
            self.note(
                f"{self._settings.bootstrap}: topic {topic} is gone, and group {self._group} "
                f"consumes nothing of it; its claims are kept until remove_topic",
                distinct=True,
            )
            return
        self.failed(
            BrokerFailed(
                f"{self._settings.bootstrap}: the coordination topic {topic} is gone, and "
                f"without it nobody keeps a claim; make it again (marshal init), and start "
                f"the consumers of group {self._group} again"
            )
        )
