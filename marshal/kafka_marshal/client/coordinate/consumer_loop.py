"""One consumer's claims as an event loop: `handle` takes an input, `on_time` runs due work.

The loop feeds the state machine of an instance, the `Member`, and carries out its effects through
`ownership`. It makes no decision itself: the machine decides what is sent, won, delivered or lost.
The loop starts no thread, never blocks and reads no clock. One caller at a time passes inputs and
the time, and the same inputs at the same times lead to the same records. If the log loses records,
the loop asks for another session, and continues with it as a new instance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Final, assert_never

from attrs import define

from kafka_marshal.client.connect.log_writer import LogWriter
from kafka_marshal.client.connect.reader import ReadResult
from kafka_marshal.client.connect.threads import Lock
from kafka_marshal.client.coordinate.configuration import Configuration
from kafka_marshal.client.coordinate.inputs import (
    AppendFinished,
    CallRequested,
    EndsSeen,
    Input,
    LeaveRequested,
    LogTruncated,
    MessagesFetched,
    MessagesGone,
    PartitionsCounted,
    Progressed,
    RecordsRead,
    SessionOpened,
    SharedEndSeen,
    StopRequested,
)
from kafka_marshal.client.coordinate.ownership import Ownership
from kafka_marshal.client.coordinate.session import Session
from kafka_marshal.client.fetch.fetcher import Fetcher
from kafka_marshal.client.message import Claim
from kafka_marshal.client.observe.health_monitor import HealthMonitor
from kafka_marshal.codec import MalformedRecord
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.errors import BrokerFailed, IntervalMismatch, InvalidOption, MarshalError
from kafka_marshal.machines.consumer.consumer import Mode
from kafka_marshal.machines.consumer.intervals import OwnerReport
from kafka_marshal.range_codec import CLAIMING_RANGE

COMMIT_EVERY_MS: Final = 1_000
"""How often positions are committed to Kafka's group offsets, and the state of claims is reported.
"""
LOOK_UP_EVERY: Final = 500
"""After this many records of a long log, check whether the application stops."""
LOOK_EVERY_MS: Final = 250
"""How often to check the application's progress while it has messages."""
ANEW_AFTER_MS: Final = 1_000
"""How long to wait, after the log lost records, before asking for another session."""

STOP_MS: Final = 30_000
"""How long the end waits for the log when the application has no messages."""


class LogLost(MarshalError):
    """At most once: the log of claims lost records, maybe grants, so the consumer ends."""


@define
class _Topic:
    partitions: int
    only: set[int] | None
    starts: dict[int, int]
    shared: bool = False
    """Whether several consumers share each partition."""


class ConsumerLoop:
    """One consumer's claims. One thread at a time may call it, unless a docstring allows any."""

    def __init__(
        self,
        config: Configuration,
        session: Session,
        fetcher: Fetcher,
        log: LogWriter,
        health_monitor: HealthMonitor,
        post: Callable[[Input], None],
        open_session: Callable[[], None],
        new_lock: Callable[[], Lock],
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begin with this session.

        Args:
            config: the consumer's configuration.
            session: the first instance.
            fetcher: fetches the claimed partitions.
            log: appends the records that are sent.
            health_monitor: is notified of what happens.
            post: adds an input for `handle`; any thread may call it.
            open_session: ends the session and opens another one, which leads to a `SessionOpened`.
            new_lock: creates the lock that is held while the application takes messages of a
                tenure.
            stop_asked: whether a `StopRequested` was posted, or will be.
        """
        self._stop_asked = stop_asked
        self._config, self._group = config, config.group_id
        self._fetcher, self._log, self._health_monitor = fetcher, log, health_monitor
        self._post, self._open_session = post, open_session
        self._topics: dict[str, _Topic] = {}
        self._looked_ms: int | None = None
        self._commit_at_ms = 0
        self._anew_at_ms: int | None = None
        self._idle_since_ms: int | None = None
        """After `stop`: the time since which only the log is waited for."""
        self._noted_waiting = False
        self.session = session
        """The current session."""
        self.ownership = Ownership(
            config.me, self._group, session, fetcher, log, health_monitor, post, new_lock
        )
        """The claims that we own."""
        self.over = False
        """The loop has ended."""

    @property
    def topics(self) -> set[str]:
        """The topics that were added and not removed since. Any thread may ask."""
        return set(self._topics)

    @property
    def partitions(self) -> dict[str, int]:
        """The known number of partitions of each topic. Any thread may ask."""
        return {topic: each.partitions for topic, each in list(self._topics.items())}

    # --- what happens -----------------------------------------------------------------------------

    def handle(self, given: Input, now_ms: int) -> None:
        """Handle an input.

        Raises:
            MarshalError: the consumer cannot continue.
        """
        self.ownership.now_ms = now_ms
        match given:
            case RecordsRead(session, result):
                self._read(session, result)
            case LogTruncated(session, reason):
                self._truncated(session, reason)
            case AppendFinished():
                self.ownership.appended(given)
            case MessagesFetched(claim, end):
                self.ownership.fetched(claim, end)
            case MessagesGone(claim, first, extent):
                self.ownership.gone(claim, first, extent)
            case EndsSeen(ends, report):
                self._report_progress(ends) if report else self.ownership.ends(ends)
            case SharedEndSeen(topic, partition, end):
                self.ownership.shared_end(ClaimKey(self._group, topic, partition), end)
            case Progressed(owned):
                self.ownership.look_at(owned)
            case PartitionsCounted(topic, partitions):
                self._counted(topic, partitions)
            case SessionOpened(session, committed):
                self._begin_anew(session, committed)
            case CallRequested(do):
                do()
            case StopRequested():
                self.ownership.stop()
            case LeaveRequested():
                self.over = True
            case _:
                assert_never(given)

    @property
    def next_due_ms(self) -> int:
        """The latest time to call `on_time`, by the clock of `now_ms`."""
        due = [self._look_at_ms, self._commit_at_ms]
        if (timer_ms := self._timer_ms) is not None:
            due.append(timer_ms)
        return min(due)

    @property
    def _look_at_ms(self) -> int:
        """When to check our claims: soon or, at rest, when a heartbeat may be late."""
        if self._looked_ms is None:
            return 0
        soon_ms = self._looked_ms + LOOK_EVERY_MS
        until_ms = self.ownership.rests_until_ms
        if until_ms is None or self._config.claiming.release_when_behind:
            return soon_ms
        return max(soon_ms, until_ms)

    @property
    def _timer_ms(self) -> int | None:
        """When the machine is due; never after its log lost records, since it sends no more."""
        if self.ownership.log_lost:
            return None
        session = self.session
        due = (session.member.next_timer_ms, session.shared.next_timer_ms)
        return min((at_ms for at_ms in due if at_ms is not None), default=None)

    def on_time(self, now_ms: int) -> None:
        """Run due work. It may be called at any time, and is called after inputs.

        Raises:
            MarshalError: the consumer cannot continue.
        """
        self.ownership.now_ms = now_ms
        session = self.session
        if now_ms >= self._look_at_ms:
            self._looked_ms = now_ms
            self._health_monitor.look(now_ms)
            self.ownership.look()
            if self._config.claiming.release_when_behind:
                self._fetcher.ends(lambda ends: self._post(EndsSeen(ends, report=False)))
        due_ms = self._timer_ms
        if due_ms is not None and now_ms >= due_ms:
            self.ownership.carry_out(session.member.timer(now_ms))
            self.ownership.carry_out(session.shared.timer(now_ms))
        if now_ms >= self._commit_at_ms:
            self._commit_at_ms = now_ms + COMMIT_EVERY_MS
            self.commit_positions()
            session.put_aside()
            self._health_monitor.look_at_cluster()
            self._fetcher.ends(lambda ends: self._post(EndsSeen(ends, report=True)))
        if self._anew_at_ms is not None and now_ms >= self._anew_at_ms:
            self._anew_at_ms = None
            if not self.ownership.stopping:
                self._open_session()
        if self._log.failed is not None and self._anew_at_ms is None:
            raise BrokerFailed(self._log.failed)
        session.rest(self._log_may_wait_ms / 1000)
        if self.ownership.stopping and (self._drained or self._waited(now_ms)):
            self.over = True

    @property
    def _log_may_wait_ms(self) -> int:
        """How long records may stay unread: 0 unless all topics are shared."""
        if self.ownership.stopping or not all(each.shared for each in self._topics.values()):
            return 0
        return self.session.shared.log_may_wait_ms

    @property
    def _drained(self) -> bool:
        """After `stop`: nothing is left to be sent, read back or delivered."""
        # A machine whose log lost records sends nothing more, and reads no answer.
        session = self.session
        sent = self.ownership.log_lost or (session.member.drained and session.shared.drained)
        return sent and self.ownership.drained

    def _waited(self, now_ms: int) -> bool:
        """After `stop`: whether it has waited for the log alone for long enough."""
        if not self.ownership.idle:
            self._idle_since_ms = None
            return False
        if self._idle_since_ms is None:
            self._idle_since_ms = now_ms
        if now_ms - self._idle_since_ms < STOP_MS:
            return False
        self._health_monitor.note(
            f"group {self._group}: for {STOP_MS // 1000} s the log of claims does not say that "
            f"what this consumer had is given up; it ends, and those claims become stale"
        )
        return True

    # --- what the application wants ---------------------------------------------------------------

    def add_topic(
        self,
        topic: str,
        partitions: int,
        only: Collection[int] | None,
        starts: Mapping[int, int],
        *,
        shared: bool = False,
    ) -> None:
        """Consume a share of a topic, or claim these partitions of it, or share them.

        Raises:
            InvalidOption: it was added in another way before.
        """
        known = self._topics.get(topic)
        if known is None:
            chosen = None if only is None else set(only)
            known = self._topics[topic] = _Topic(partitions, chosen, dict(starts), shared)
        elif known.shared != shared:
            raise InvalidOption(
                f"topic {topic} was added {'as shared' if known.shared else 'without share'}; "
                f"remove it before it is added otherwise"
            )
        else:
            known.partitions = max(known.partitions, partitions)
            known.only = None if only is None or known.only is None else known.only | set(only)
            known.starts.update(starts)
        self._tell_topic(topic, known)

    def remove_topic(self, topic: str) -> None:
        """Stop consuming a topic.

        Raises:
            InvalidOption: it was not added.
        """
        if self._topics.pop(topic, None) is None:
            raise InvalidOption(f"topic {topic} was not added")
        self.ownership.remove_topic(topic)

    def commit_positions(self) -> None:
        """Commit the positions in the log to Kafka's group offsets."""
        if self.ownership.to_commit:
            offsets, self.ownership.to_commit = self.ownership.to_commit, {}
            if self._config.commit_to_kafka:
                self._fetcher.commit(offsets)

    # --- the coordination topic -------------------------------------------------------------------

    def _ends_early(self) -> bool:
        """Whether a stop can end without reading the log, because there is no claim to release."""
        if self._stop_asked():
            self.ownership.stop()
            self.over = self.over or self._drained
        return self.over

    def _read(self, session: Session, result: ReadResult) -> None:
        session.taken()
        if session is not self.session or self.ownership.log_lost or self._ends_early():
            return
        member, now_ms = session.member, self.ownership.now_ms
        gaps = {partition: deque(ends) for partition, ends in result.gaps.items()}
        for number, raw in enumerate(result.records, start=1):
            if number % LOOK_UP_EVERY == 0 and self._ends_early():
                session.abandon()
                return
            ends = gaps.get(raw.partition)
            while ends and raw.offset >= ends[0]:
                self._pass_gap(session, raw.partition, ends.popleft())
            self.ownership.carry_out(session.shared.record(raw, now_ms, member.folded))
            if raw.value is not None and raw.value.startswith(CLAIMING_RANGE):
                continue  # to a member it is malformed, and most records are such ones
            try:
                record = raw.decoded()
            except MalformedRecord:
                continue
            self.ownership.carry_out(member.record(record, now_ms))
            if member.differs is not None:
                raise self._mismatch(member.differs)
            if record.message.instance_id == member.me.instance_id:
                self.ownership.read_back(record)
        for partition, ends in gaps.items():
            for first in ends:
                self._pass_gap(session, partition, first)
        session.folded(result)
        for partition in result.ended:
            if partition in member.coordinating_partitions:
                self.ownership.carry_out(member.caught_up(partition, now_ms))
            self.ownership.carry_out(session.shared.caught_up(partition, now_ms))
        waits_for = member.waits_for(now_ms) if result.ended else None
        if waits_for is not None and not self._noted_waiting:
            self._noted_waiting = True
            self._health_monitor.note(
                f"{self._differ(waits_for)}; nothing is claimed before it is certain that "
                f"nobody lives under that one"
            )

    def _pass_gap(self, session: Session, partition: int, first: int) -> None:
        self._health_monitor.note(
            f"group {self._group}: coordinating partition {partition} lacks records right before "
            f"offset {first}, so what was known of its claims may be over; an owner's next record "
            f"makes it certain again",
            distinct=True,
        )
        session.pass_gap(partition, first)
        # The member first: a recording has the gap before what it means for participants.
        self.ownership.carry_out(session.member.pass_gap(partition, first, self.ownership.now_ms))
        self.ownership.carry_out(session.shared.pass_gap(partition, first))

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
        if session is not self.session or self.ownership.log_lost:
            return
        session.forget()
        if self._config.me.mode is Mode.AT_MOST_ONCE:
            # A new instance would be granted once more what this one has processed.
            raise self.log_lost(reason)
        self._health_monitor.note(f"{reason}; beginning anew as a new instance")
        self.ownership.truncated()
        self.commit_positions()
        self._anew_at_ms = self.ownership.now_ms + ANEW_AFTER_MS

    def log_lost(self, reason: str) -> LogLost:
        """The reason why an at-most-once consumer ends, for users."""
        return LogLost(
            f"{reason}; what was granted at most once may be gone with it, so nobody goes on "
            f"by itself: set the positions of group {self._group} (marshal set-position), and "
            f"start again"
        )

    def _begin_anew(self, session: Session, committed: Mapping[tuple[str, int], int]) -> None:
        if self.ownership.stopping:
            return  # there is nothing to begin; who opened it ends it
        self.session = session
        self.ownership.begin_anew(session)
        for topic, known in self._topics.items():
            # Where nobody set a position, Kafka's is the best we have.
            known.starts.update({n: at for (each, n), at in committed.items() if each == topic})
            self._tell_topic(topic, known)

    def _tell_topic(self, topic: str, known: _Topic) -> None:
        if self.ownership.log_lost:
            return  # the next instance hears of it
        session = self.session
        if known.shared:
            session.member.begin_to_read(session.shared.home(topic), self.ownership.now_ms)
            session.member.stand_by(topic)
            session.shared.add(
                topic,
                known.partitions,
                lambda partition: known.starts.get(partition, 0),
                session.member.folded,
                self.ownership.now_ms,
            )
            self._fetcher.share()
            for number in range(known.partitions):
                self._fetcher.watch_end(topic, number)
            self._want(session)
            return
        self.ownership.carry_out(
            session.member.add_topic(
                topic,
                known.partitions,
                self.ownership.now_ms,
                only=None if known.only is None else sorted(known.only),
                start=lambda partition: known.starts.get(partition, 0),
            )
        )
        self._want(session)

    def _want(self, session: Session) -> None:
        """Read the coordinating partitions that any machine needs."""
        shared = session.shared.coordinating_partitions
        session.want(session.member.coordinating_partitions | shared)

    def _counted(self, topic: str, partitions: int) -> None:
        known = self._topics.get(topic)
        if known is None or partitions <= known.partitions:
            return
        known.partitions = partitions
        if known.only is None:
            # What is in a new partition came after us, so it is consumed from its beginning.
            self._tell_topic(topic, known)

    # --- how it stands ----------------------------------------------------------------------------

    def _report_progress(self, ends: Mapping[Claim, int]) -> None:
        self.ownership.report_progress(ends)
        if self.ownership.stopping or self.ownership.log_lost:
            return  # the machine wants nothing more, and knows of no topic that came since
        member, now_ms = self.session.member, self.ownership.now_ms
        keys = [
            ClaimKey(self._group, topic, number)
            for topic, known in self._topics.items()
            if not known.shared
            for number in (known.only or range(known.partitions))
        ]
        drivers = [member.driver(key) for key in keys]
        self._health_monitor.crowded(drivers, now_ms)
        self._health_monitor.unknown(drivers, now_ms)
