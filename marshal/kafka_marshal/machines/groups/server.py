"""A server of groups without IO: every partition of `__marshal_groups`, and every connection.

Each input returns effects (`effects`), to be carried out in their order. Inputs come one at a time,
from one thread. Each has `now_ms`, a monotonic clock of the process in milliseconds.

A server folds all partitions, also those of which it is no controller: it answers ListGroups from
them, and takes over warm. This room does not know sockets, threads, clients of Kafka or clocks.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.machines.groups.effects import Effect
from kafka_marshal.rpc.codec import RpcRequest


@frozen
class ServerSettings:
    """Who a server is, and how often it does what nobody asks for."""

    controller_id: int
    """0 to 2**31 - 1. No two processes have one, and one that restarts has another."""
    host: str
    """Where members reach it."""
    port: int
    partitions: int = 16
    """Those of `__marshal_groups`."""
    snapshot_interval_ms: int = 7 * 24 * 3_600_000 // 4
    """How often snapshots are written: at most a quarter of the topic's retention."""
    snapshot_events: int = 10_000
    """After how many events snapshots are written, whatever the time."""
    count_interval_ms: int = 60_000
    """How often it looks whether topics have grown."""
    forget: bool = False
    """Whether a partition whose head is cut, without a snapshot there, begins anew: as if nothing
    had been in it. Else it is not served."""


class GroupServer:
    """Routes records to the controllers of partitions, and requests by their group."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings

    # --- the log ----------------------------------------------------------------------------------

    def begins(self, partition: int, offset: int, now_ms: int) -> list[Effect]:
        """A reader of the partition begins at this offset, or begins anew there.

        The first input of a partition. The offset is 0 where the log is whole. Where retention has
        cut it, it is the claim's position in `__marshal`: a ControllershipSnapshot lies there. If
        that was cut, too, it is the log's start.
        """
        raise NotImplementedError

    def read(self, record: EventRecord, now_ms: int) -> list[Effect]:
        """A record was read, of whichever partition. Records come in the order of their offsets."""
        raise NotImplementedError

    def reached(self, partition: int, offset: int, now_ms: int) -> list[Effect]:
        """Whatever lies before this offset was read, or will never be.

        To be called behind a record that the codec refuses (MalformedRecord), and when the
        reader's position is past what it read: behind a gap, or at the end of the partition.
        """
        raise NotImplementedError

    def end_is(self, partition: int, token: int, offset: int, now_ms: int) -> list[Effect]:
        """The broker's answer to `AskEnd`: the offset that the next record will get."""
        raise NotImplementedError

    def append_failed(self, record: EventRecord, now_ms: int) -> list[Effect]:
        """The record of an `AppendEvent` was refused, or it is not known whether it landed.

        The controller sends nothing more in that epoch, and begins anew. To be called once for
        each such record; those behind the first change nothing more.
        """
        raise NotImplementedError

    # --- claims -----------------------------------------------------------------------------------

    def claimed(self, partition: int, now_ms: int) -> list[Effect]:
        """This process may compete for the partition: its claim was won.

        That is only a permission. Who is controller, the log decides.
        """
        raise NotImplementedError

    def unclaimed(self, partition: int, now_ms: int) -> list[Effect]:
        """This process may not compete any more, and stops to serve. Nothing happens if it did not.

        What was asked and not answered is answered now, by a code.
        """
        raise NotImplementedError

    # --- connections ------------------------------------------------------------------------------

    def connected(self, connection: int, now_ms: int) -> list[Effect]:
        """A connection was accepted. Its number is above those of all connections before."""
        raise NotImplementedError

    def disconnected(self, connection: int, now_ms: int) -> list[Effect]:
        """A connection was closed. Nothing is answered over it any more."""
        raise NotImplementedError

    def requested(self, connection: int, request: RpcRequest, now_ms: int) -> list[Effect]:
        """A request came, that this connection may make: who may use a group is asked before.

        Each is answered once, now or later, unless the connection ends. What the codec refuses
        (RefusedRequest) has its answer already, and does not come here.
        """
        raise NotImplementedError

    # --- questions --------------------------------------------------------------------------------

    def counted(
        self, partition: int, topic: str, topic_id: str, count: int, now_ms: int
    ) -> list[Effect]:
        """A part of the answer to `CountPartitions`. A count of 0: there is no such topic.

        Only if the cluster says that there is none: on 0 the group's positions of it are gone.
        """
        raise NotImplementedError

    def resolved(
        self, partition: int, token: int, offsets: Mapping[TopicPartition, int], now_ms: int
    ) -> list[Effect]:
        """The answer to `ResolveOffsets`. A partition that is not in it has no such offset."""
        raise NotImplementedError

    # --- time -------------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> list[Effect]:
        """Time passes. To be called 10 times a second, after the sockets were read.

        What is late by more than a tick is the process's own pause, and counts as nobody's silence
        (G4).
        """
        raise NotImplementedError
