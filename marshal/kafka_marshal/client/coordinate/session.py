"""One instance id: its state machine, and the thread that reads the coordination topic for it.

It reads from the beginning of the log, from a limited distance to its end, or from a snapshot, and
passes on the records of the instance's group. A session ends when the log loses records; the next
one is another instance. This module does not know the effect of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final

from confluent_kafka import Message

from kafka_marshal.client.connect.admin_client import TopicDescription
from kafka_marshal.client.connect.authentic_log import AuthenticLog
from kafka_marshal.client.connect.environment import Deadline
from kafka_marshal.client.connect.log_filter import LogFilter
from kafka_marshal.client.connect.metadata import ClusterMetadata
from kafka_marshal.client.connect.reader import CoordinationReader, OffsetsGone, ReadResult
from kafka_marshal.client.connect.threads import Thread
from kafka_marshal.client.coordinate.configuration import Configuration
from kafka_marshal.client.coordinate.recorded_ranges import RecordedParticipant
from kafka_marshal.client.coordinate.recording import RecordedMember
from kafka_marshal.client.coordinate.snapshot import PartitionSnapshot, Snapshot, SnapshotOrigin
from kafka_marshal.client.observe.logger import logger
from kafka_marshal.client.ranges.shared_claims import SharedClaims
from kafka_marshal.errors import InvalidOption
from kafka_marshal.machines.consumer.consumer import InstanceConfig
from kafka_marshal.machines.consumer.member import Member
from kafka_marshal.machines.ranges.driver import RangesTiming

READ_AHEAD: Final = 32
"""The most batches to read before they are folded."""
JOIN_S: Final = 10.0


def open_session(config: Configuration, me: InstanceConfig, cluster: ClusterMetadata) -> Session:
    """Connect, and look up which topic the log is, and where it begins.

    At most `coordination_read_max` records of a partition are read. If a folder is given, the run
    is recorded there. If a snapshot file is given and still valid, its knowledge is used.

    Raises:
        BrokerFailed: the cluster cannot be reached, or has no such topic.
        InvalidOption: the recording or the snapshot cannot be written there.
    """
    tail = CoordinationReader(config.settings, config.coordination_topic)
    authentic = _authentic_log(config)
    try:
        # Before anything is read: a topic made anew later has another id.
        topic = cluster.described(tail.topic)
        extents = tail.extents()
        firsts = {
            number: max(extent.low, extent.high - config.coordination_read_max)
            for number, extent in extents.items()
        }
        of = (me, config.group_id, len(tail.partitions), config.claiming, config.timing)
        timing = RangesTiming(
            heartbeat_every_ms=config.timing.heartbeat_every_ms,
            ask_again_after_ms=config.timing.ask_again_after_ms,
        )
        share = partial(SharedClaims, me, config.group_id, len(tail.partitions), timing, firsts)
        if config.record_to is not None:
            if config.snapshot is not None:
                raise InvalidOption("what is recorded begins with the log, and not with a snapshot")
            record = RecordedMember(
                *of,
                firsts=firsts,
                folder=config.record_to,
                lock=config.settings.environment.threads.lock(),
                open_file=config.settings.environment.open_file,
            )
            shared = share(partial(RecordedParticipant, record))
            return Session(record, shared, tail, topic, firsts, authentic=authentic)
        aside = None if config.snapshot is None else _snapshot(config.snapshot, config, tail, topic)
        kept = {} if aside is None else aside.begin(tail, extents, firsts)
        memory = {number: each.memory for number, each in kept.items()}
        member = Member(*of, firsts=firsts, memory=memory)
    except BaseException:
        tail.close()
        raise
    return Session(member, share(), tail, topic, firsts, kept, aside, authentic)


def _authentic_log(config: Configuration) -> AuthenticLog | None:
    keyring = config.settings.keyring
    if keyring is None or not config.require_authentic:
        return None
    group = config.group_id.encode("utf-8", "surrogateescape")
    return AuthenticLog(keyring, config.coordination_topic, group)


def _snapshot(
    path: Path, config: Configuration, tail: CoordinationReader, topic: TopicDescription
) -> Snapshot | None:
    """None if it could not be checked later whether the log is the same."""
    group = config.group_id
    if topic.topic_id is None:
        why = "the brokers give topics no id"
        logger.warning(
            "snapshot %s: not used, %s", path, why, extra={"event": "snapshot", "group": group}
        )
        return None
    partitions = len(tail.partitions)
    origin = SnapshotOrigin(
        tail.cluster,
        tail.topic,
        topic.topic_id,
        partitions,
        group,
        config.me.rules,
        _required(config),
    )
    return Snapshot(path, origin, config.settings.environment)


def _required(config: Configuration) -> str:
    """The authenticity for which a snapshot's records were checked; another needs a new read."""
    keyring = config.settings.keyring
    if keyring is None or not config.require_authentic:
        return ""
    return f"since {keyring.signed_since_ms}, keys {', '.join(keyring.key_ids)}"


class Session:
    """A state machine, and the thread that reads the log for it."""

    def __init__(
        self,
        member: Member,
        shared: SharedClaims,
        tail: CoordinationReader,
        topic: TopicDescription,
        firsts: Mapping[int, int],
        kept: Mapping[int, PartitionSnapshot] = MappingProxyType({}),
        aside: Snapshot | None = None,
        authentic: AuthenticLog | None = None,
    ) -> None:
        self.member = member
        self.shared = shared
        """The participants in shared partitions."""
        self.topic = topic
        """The coordination topic, as it was before anything of it was read."""
        self._authentic = authentic
        self._tail, self._aside = tail, aside
        self._firsts = {**firsts, **{number: each.first for number, each in kept.items()}}
        self._starts = {**firsts, **{number: each.last.offset + 1 for number, each in kept.items()}}
        self._wanted: dict[int, int] = {}
        threads = tail.settings.environment.threads
        self._room = threads.semaphore(READ_AHEAD)
        self._rest_s = 0.0
        self._new_event = threads.event
        self._roused = threads.event()
        """Set when the reader must not rest any longer."""
        self.has_sent = False
        """It has sent a record, so it may own something."""
        self._stopped = False
        self._open = threads.lock()
        """Taken once, by the caller that disconnects."""
        self._thread: Thread | None = None

    def want(self, partitions: Iterable[int]) -> None:
        """Read these coordinating partitions."""
        self._wanted = {partition: self._starts.get(partition, 0) for partition in partitions}

    def begin(
        self,
        heard: Callable[[ReadResult], None],
        truncated: Callable[[str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """Read, and pass on the records of the group; each call of `taken` lets it read on.

        `truncated` is called with the reason if the log lost records. `failed` is called with the
        error that ended reading: NotAuthentic before any record that is not authentic is folded.
        """
        whole = frozenset(number for number, first in self._firsts.items() if first == 0)
        group, member = self.member.group.encode("utf-8", "surrogateescape"), self.member
        recorded = member if isinstance(member, RecordedMember) else None

        def fetched(messages: Collection[Message]) -> None:
            if self._authentic is not None:
                self._authentic.check(messages)
            if recorded is not None:
                recorded.fetched(messages)

        log_filter = LogFilter[Message](group, whole, fetched)

        def run() -> None:
            try:
                read()
            finally:
                if self._stopped:
                    self._let_go()

        def read() -> None:
            try:
                for each in self._tail.follow(
                    lambda: self._wanted, lambda: self._stopped, log_filter, lambda: self.has_sent
                ):
                    if each is not None:
                        self._room.acquire()
                        heard(each)
                        if self._rest_s:
                            self._roused.wait(self._rest_s)
            except OffsetsGone as error:
                truncated(str(error))

        def ended(error: BaseException) -> None:
            if not self._stopped:
                failed(error)

        self._thread = self._tail.settings.environment.start("marshal-reader", run, ended)

    def taken(self) -> None:
        """The records passed on were handled; more may be read."""
        self._room.release()

    def rest(self, rest_s: float) -> None:
        """From now on, read at most once in this many seconds; 0: as soon as records arrive."""
        before, self._rest_s = self._rest_s, rest_s
        if not rest_s:
            if before:
                self._roused.set()
        elif self._roused.is_set() and not self._stopped:
            self._roused = self._new_event()

    def abandon(self) -> None:
        """Only some of the records passed on were folded. The snapshot stays as it is."""
        self._aside = None

    def folded(self, heard: ReadResult) -> None:
        """All records passed on were folded; call it before `put_aside`."""
        if self._aside is not None:
            self._aside.read(heard.lasts)

    def pass_gap(self, partition: int, first: int) -> None:
        """From now on, snapshots know the log from this offset on."""
        if self._aside is not None:
            self._aside.pass_gap(partition, first)

    def put_aside(self, *, at_once: bool = False) -> None:
        """Write the snapshot, if there is one and it is due."""
        if self._aside is not None:
            self._aside.keep(self.member.memory, at_once=at_once)

    def forget(self) -> None:
        """The snapshot is no longer valid."""
        if self._aside is not None:
            self._aside.drop()
            self._aside = None

    def end(self, deadline: Deadline | None = None) -> None:
        """Stop reading, and disconnect; a blocked reader disconnects later."""
        self._stopped = True
        self._roused.set()
        self._room.release()
        if (deadline or self._tail.settings.environment.deadline(JOIN_S)).join(self._thread):
            self._let_go()
        if isinstance(self.member, RecordedMember):
            self.member.end()

    def _let_go(self) -> None:
        if self._open.acquire(blocking=False):
            self._tail.close()
