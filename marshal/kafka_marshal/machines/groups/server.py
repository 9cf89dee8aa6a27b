"""A server of groups without IO: all partitions of `__marshal_groups`, and all connections.

Each input returns effects (`effects`), to be carried out in their order. Inputs come one at a time,
from one thread. Each has `now_ms`, a monotonic clock of the process in milliseconds.

A server folds all partitions, including those that others control: it answers ListGroups from them,
and a takeover needs no new read. This module does not know sockets, threads, Kafka clients or
clocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import evolve, frozen

from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import Controllership, Topic, TopicPartition
from kafka_marshal.machines.groups.control.answering import Answering
from kafka_marshal.machines.groups.control.bodies import delete_answer, list_answer, text, texts
from kafka_marshal.machines.groups.control.controlled_log import (
    EVENT_BYTES_MAX,
    ControlledLog,
    ControllerConfig,
    LogKnowledge,
)
from kafka_marshal.machines.groups.control.housekeeping import Housekeeping, HousekeepingIntervals
from kafka_marshal.machines.groups.control.partition import PartitionController
from kafka_marshal.machines.groups.control.sessions import LATE_MS, ListeningClock, Sessions
from kafka_marshal.machines.groups.control.waiting import Connection, Connections, Deletion, refused
from kafka_marshal.machines.groups.controller import MemberKey
from kafka_marshal.machines.groups.effects import FORWARDED, Effect, ForwardRequest
from kafka_marshal.rpc.codec import RpcRequest
from kafka_marshal.rpc.error_codes import ErrorCode


@frozen
class ServerSettings:
    """The identity of a server, and the intervals of its periodic work."""

    controller_id: int
    """0 to 2**31 - 1. No two processes may have the same, and a restarted one needs another."""
    host: str
    """The host by which members reach it."""
    port: int
    partitions: int = 16
    """The number of partitions of `__marshal_groups`."""
    snapshot_interval_ms: int = 7 * 24 * 3_600_000 // 4
    """The time between snapshots: at most a quarter of the topic's retention."""
    snapshot_events: int = 10_000
    """The number of events after which snapshots are written, whatever the time."""
    count_interval_ms: int = 60_000
    """How often it checks whether topics have grown."""
    event_bytes_max: int = EVENT_BYTES_MAX
    """The largest event that the log accepts, without key and headers."""
    forget: bool = False
    """Whether a partition whose head was deleted, without a snapshot there, starts over as if it
    had been empty. Otherwise it is not served."""


class GroupServer:
    """Routes records to the controllers of partitions, and requests by their group."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self._out: list[Effect] = []
        self._clock = ListeningClock()
        self._connections = Connections(self._out)
        self._partitions = [self._partition(number) for number in range(settings.partitions)]
        self._late_after_ms = math.inf
        """A tick after this time is late."""

    def _partition(self, number: int) -> PartitionController:
        mine = self.settings
        config = ControllerConfig(
            mine.controller_id, mine.host, mine.port, mine.forget, mine.event_bytes_max
        )
        intervals = HousekeepingIntervals(
            mine.snapshot_interval_ms, mine.snapshot_events, mine.count_interval_ms
        )
        log, sessions = ControlledLog(config, number, self._out), Sessions(self._clock)
        housekeeping = Housekeeping(log, sessions, intervals)
        answering = Answering(log, self._connections, sessions)
        return PartitionController(log, self._connections, sessions, housekeeping, answering)

    def _done(self, *partitions: PartitionController) -> list[Effect]:
        """The effects of this input."""
        for each in partitions:
            each.flush(self._clock.now_ms)
        effects = list(self._out)
        self._out.clear()
        return effects

    def _input(self, partition: int, now_ms: int) -> PartitionController:
        self._clock.passed(now_ms)
        return self._partitions[partition]

    # --- state ------------------------------------------------------------------------------------

    def view(self, partition: int) -> Controllership:
        """The folded state of a partition, for metrics and for people."""
        return self._partitions[partition].log.view

    def serves(self, partition: int) -> bool:
        """Whether this process is the controller of the partition, as far as it has read."""
        return self._partitions[partition].log.serves

    def knowledge(self, partition: int) -> LogKnowledge:
        """How much this process knows of a partition; if LOST it can neither answer nor compete."""
        return self._partitions[partition].log.knowledge

    def partition_of(self, group: str) -> int:
        """The partition that holds the events of a group."""
        return coordinating_partition(group, self.settings.partitions)

    # --- the log ----------------------------------------------------------------------------------

    def begins(
        self, partition: int, offset: int, now_ms: int, *, at_position: bool
    ) -> list[Effect]:
        """A reader of the partition begins at this offset, or starts over there.

        This is the first input of a partition. The offset is 0 if the log is complete. If retention
        has deleted its head, it is the claim's position in `__marshal` (`at_position`), where a
        ControllershipSnapshot lies. If that was deleted, too, it is the log's start, and no
        snapshot there counts, because a deposed controller may have written it.
        """
        each = self._input(partition, now_ms)
        each.begins(offset, at_position=at_position)
        return self._done(each)

    def read(self, record: EventRecord, now_ms: int) -> list[Effect]:
        """A record was read, from any partition. Records come in the order of their offsets."""
        each = self._input(record.partition, now_ms)
        each.read(record, now_ms)
        return self._done(each)

    def reached(self, partition: int, offset: int, now_ms: int) -> list[Effect]:
        """Everything before this offset was read, or will never be.

        Call it after a record that the codec refuses (MalformedRecord). Also call it when the
        reader's position is past the last record: after a gap, or at the end of the partition.
        """
        each = self._input(partition, now_ms)
        each.log.reached(offset)
        return self._done(each)

    def end_is(self, partition: int, token: int, offset: int, now_ms: int) -> list[Effect]:
        """The broker's answer to `AskEnd`: the offset of the next record."""
        each = self._input(partition, now_ms)
        each.log.end_is(token, offset)
        return self._done(each)

    def append_failed(self, record: EventRecord, now_ms: int) -> list[Effect]:
        """The record of an `AppendEvent` was refused, or its outcome is unknown.

        The controller sends nothing more in that epoch, and starts over. Call it once for each such
        record; only the first has an effect.
        """
        each = self._input(record.partition, now_ms)
        each.append_failed(record, now_ms)
        return self._done(each)

    # --- claims -----------------------------------------------------------------------------------

    def claimed(self, partition: int, now_ms: int) -> list[Effect]:
        """This process may compete for the partition: its claim was won.

        This is only a permission. The log decides who is the controller.
        """
        each = self._input(partition, now_ms)
        each.log.claimed(now_ms)
        return self._done(each)

    def unclaimed(self, partition: int, now_ms: int) -> list[Effect]:
        """This process may not compete any more, and stops serving. No effect if it did not.

        Unanswered requests are now answered with an error code.
        """
        each = self._input(partition, now_ms)
        each.unclaimed()
        return self._done(each)

    # --- connections ------------------------------------------------------------------------------

    def connected(self, connection: int, now_ms: int) -> list[Effect]:
        """A connection was accepted. Its number must be above those of all earlier connections."""
        self._clock.passed(now_ms)
        self._connections.opened(connection)
        return self._done()

    def disconnected(self, connection: int, now_ms: int) -> list[Effect]:
        """A connection was closed. No more answers are sent on it."""
        self._clock.passed(now_ms)
        over = self._connections.gone(connection)
        if over is not None:
            for each in self._partitions:
                each.answering.disconnected(over)
        return self._done()

    def requested(self, connection: int, request: RpcRequest, now_ms: int) -> list[Effect]:
        """A request arrived that this connection may send; check permissions before.

        Each is answered once, now or later, unless the connection ends. Requests that the codec
        refuses (RefusedRequest) have their answer already, and must not come here.
        """
        self._clock.passed(now_ms)
        over = self._connections.get(connection)
        if over is None:  # it was closed, and this came before the program knew
            return self._done()
        if request.version == 0 and over.unanswered:
            self._connections.send(over, refused(request, ErrorCode.INVALID_REQUEST), closes=True)
            return self._done()
        match request.api.name:
            case "ListGroups":
                self._list(over, request)
            case "DeleteGroup":
                self._delete(over, request)
            case "CreateGroup":
                self._create(over, request)
            case "Heartbeat" if request.version == 0:
                self._of_member(over, request, over.key)
            case "CommitOffsets" if request.version == 0:
                is_own = over.key is not None and over.key.group == request.body["ConsumerGroup"]
                self._of_member(over, request, over.key if is_own else None)
            case "RewindConsumer":
                self._of_member(over, request, _of_group(text(request, "ConsumerGroup")))
            case _:
                key = MemberKey(text(request, "ConsumerGroup"), text(request, "ConsumerId"))
                self._of_member(over, request, key)
        return self._done(*self._partitions)

    # --- questions --------------------------------------------------------------------------------

    def counted(
        self, partition: int, topic: str, topic_id: str, count: int, now_ms: int
    ) -> list[Effect]:
        """Part of the answer to `CountPartitions`. A count of 0: there is no such topic.

        Pass 0 only if the cluster reports that: it deletes the group's positions of the topic.
        """
        each = self._input(partition, now_ms)
        each.counted(topic, Topic(count, topic_id), now_ms)
        return self._done(each)

    def resolved(
        self, partition: int, token: int, offsets: Mapping[TopicPartition, int], now_ms: int
    ) -> list[Effect]:
        """The answer to `ResolveOffsets`. A partition that is missing has no such offset."""
        each = self._input(partition, now_ms)
        each.resolved(token, offsets)
        return self._done(each)

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        """Time has passed. Call it 10 times a second, after the sockets were read.

        If it is late by more than a tick, the process itself was paused, and that time does not
        count as silence of members (G4).
        """
        self._clock.passed(now_ms)
        is_late = now_ms > self._late_after_ms
        # Not twice: otherwise no member would ever expire in a loop that is always late.
        self._late_after_ms = math.inf if is_late else now_ms + LATE_MS
        for each in self._partitions:
            each.tick(now_ms, gives_up=not is_late)
        return self._done(*self._partitions)

    # --- requests ---------------------------------------------------------------------------------

    def _of(self, group: str) -> PartitionController:
        return self._partitions[self.partition_of(group)]

    def _of_member(self, over: Connection, request: RpcRequest, key: MemberKey | None) -> None:
        """A request about one group. A connection without a registered member has none."""
        if key is None:
            self._connections.send(over, refused(request, ErrorCode.UNKNOWN_MEMBER_ID))
        else:
            self._of(key.group).requested(over, request, key)

    def _create(self, over: Connection, request: RpcRequest) -> None:
        """Create a group here, or forward this once to the server that the log names."""
        key = _of_group(text(request, "ConsumerGroup"))
        each = self._of(key.group)
        view = each.log.view
        is_elsewhere = each.absence is ErrorCode.NOT_COORDINATOR
        if is_elsewhere and request.client_id != FORWARDED and view.host is not None:
            forwarded = evolve(request, client_id=FORWARDED)
            self._out.append(ForwardRequest(over.number, forwarded, view.host, view.port))
        else:
            each.requested(over, request, key)

    def _delete(self, over: Connection, request: RpcRequest) -> None:
        """Delete groups one by one, and answer for all of them together."""
        names = dict.fromkeys(texts(request, "ConsumerGroup"))
        if not names:
            self._connections.send(over, delete_answer(request, {}))
        deletion = Deletion(len(names))
        for name in names:
            self._of(name).requested(over, request, _of_group(name), deletion)

    def _list(self, over: Connection, request: RpcRequest) -> None:
        """Describe groups from the folded state, without groups that do not exist."""
        names = texts(request, "ConsumerGroups")
        code = ErrorCode.NONE
        found = []
        asked = names or [name for each in self._partitions for name in each.log.view.groups]
        for name in sorted(set(asked)):
            each = self._of(name)
            group = each.log.view.groups.get(name)
            if each.is_loading:
                code = code or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            elif group is None:
                code = code or ErrorCode.GROUP_ID_NOT_FOUND
            else:
                found.append((name, group, each.log.view, each.listed_as))
        if not names and any(each.is_loading for each in self._partitions):
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        self._connections.send(over, list_answer(request, found, code))


def _of_group(name: str) -> MemberKey:
    """The group of a request that does not come from a member."""
    return MemberKey(name, "")
