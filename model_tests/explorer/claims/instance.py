"""One process of `Marshal.tla`, over the machine of `kafka_marshal.machines.consumer.consumer`.

An instance of ours is the machine and nothing else. One of the original's is the same machine with
what makes it the original's. It writes no headers, restarts by a bare heartbeat, and does not stop
when its client id is used twice. This room does not know how records travel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import attrs
from attrs import frozen

from kafka_marshal import (
    NO_HEADERS,
    Claim,
    ClaimingMessages,
    ClaimingPartition,
    ClaimKey,
    Heartbeat,
    ReleasingPartition,
)
from kafka_marshal.core.messages import Offset, Partition
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig
from kafka_marshal.machines.consumer.effects import Send
from model_tests.explorer.free_time import Fold, Stored

KEY = ClaimKey("g", "t", 0)
"""The one claim that the models have."""


class Sending(NamedTuple):
    """One way to send something, and what its sender then remembers."""

    sent: Send
    after: ConsumerState


@frozen
class Instance:
    """Who it is, and the two things that the machine does not know about it."""

    me: InstanceConfig
    fold: Fold
    headerless: bool = False
    """It is one of the original's."""

    def claiming_partition(self, consumer: ConsumerState) -> Iterator[Sending]:
        """Spec: SendClaimingPartition, what is asked of the instance."""
        if machine.may_claim(self.me, consumer) is None:
            sent = machine.claiming_partition_sent(self.me, consumer, KEY)
            yield self._sends(sent, machine.after_claiming_partition(self.me, consumer))

    def heartbeat(self, consumer: ConsumerState) -> Iterator[Sending]:
        """Spec: SendHeartbeat, with the original's fast reclaim."""
        if machine.may_heartbeat(self.me, consumer) is None:
            yield self._sends(machine.heartbeat_sent(self.me, consumer, KEY), consumer)
        if self._fast_reclaims(consumer.known):
            yield Sending(self._fast_reclaim_sent(consumer.known), consumer)

    def releasing_partition(
        self, consumer: ConsumerState, targets: Iterable[int]
    ) -> Iterator[Sending]:
        """Spec: SendReleasingPartition."""
        if machine.may_release(self.me, consumer) is not None:
            return
        after = machine.after_release(self.me, consumer)
        if self.me.admin:
            for target in targets:
                yield self._sends(machine.position_sent(self.me, consumer, KEY, target), after)
        else:
            yield self._sends(machine.releasing_partition_sent(self.me, consumer, KEY), after)

    def claiming_messages(
        self, consumer: ConsumerState, offsets: Iterable[int]
    ) -> Iterator[Sending]:
        """Spec: SendClaimingMessages."""
        for offset in offsets:
            if machine.may_claim_messages(self.me, consumer, offset) is None:
                sent = machine.claiming_messages_sent(self.me, consumer, KEY, offset)
                yield self._sends(sent, machine.after_claiming_messages(self.me, consumer, offset))

    def release_group(self, consumer: ConsumerState, expires_unix_s: int) -> Iterator[Sending]:
        """Spec: SendReleaseGroup."""
        if machine.may_release_group(self.me, consumer) is None:
            yield self._sends(
                machine.release_group_sent(self.me, KEY.group, expires_unix_s), consumer
            )

    def give_up(self, consumer: ConsumerState) -> Iterator[ConsumerState]:
        """Spec: GiveUp."""
        if machine.may_give_up(self.me, consumer) is None:
            yield machine.after_giving_up(self.me, consumer)

    def process(self, consumer: ConsumerState) -> Iterator[tuple[int, ConsumerState]]:
        """The message that it processes, and what it then remembers. Spec: Process."""
        message = consumer.next
        if machine.may_process(self.me, consumer, message) is None:
            yield message, machine.after_process(self.me, consumer)

    def process_grant(
        self, consumer: ConsumerState
    ) -> Iterator[tuple[tuple[range, ...], ConsumerState]]:
        """The messages that it processes, and what it then remembers. Spec: ProcessGrant."""
        if machine.may_process_grant(self.me, consumer) is None:
            yield consumer.granted, machine.after_process_grant(self.me, consumer)

    def read(self, consumer: ConsumerState, stored: Stored) -> ConsumerState:
        """Spec: AfterRead."""
        after = self.fold.after_read(self.me, consumer, stored)
        if self.headerless:
            # It knows nothing of R7's neighbour, the rule for a client id that is used twice.
            after = attrs.evolve(after, stopped=consumer.stopped)
        return after

    def gap(self, consumer: ConsumerState, first: int) -> ConsumerState:
        """Spec: AfterGap."""
        return machine.after_gap(self.me, consumer, first)

    def _sends(self, sent: Send, after: ConsumerState) -> Sending:
        return Sending(Send(sent.message, NO_HEADERS) if self.headerless else sent, after)

    def _fast_reclaims(self, known: Claim) -> bool:
        """R9: it finds a claim of its client id, which is not its own. Spec: FastReclaims."""
        return (
            self.headerless
            and known.owned
            and known.owner_client == self.me.client_id
            and known.owner_instance != self.me.instance_id
        )

    def _fast_reclaim_sent(self, known: Claim) -> Send:
        """Spec: FastReclaimSent."""
        me = self.me
        topic, partition = KEY.topic, Partition(KEY.topic_partition)
        return Send(
            Heartbeat(
                *(1, 0, me.instance_id, me.client_id, KEY.group, topic, partition),
                Offset(known.position),
            ),
            NO_HEADERS,
        )


def looks_claimable(me: InstanceConfig, consumer: ConsumerState, now_ms: int) -> bool:
    """Only a hint: an owner that seems to be stale is worth asking. Spec: LooksClaimable."""
    known = consumer.known
    return (
        known.last_heartbeat_ms is None
        or known.owner_client == me.client_id
        or now_ms - known.last_heartbeat_ms > me.rules.stale_after_ms
    )


def anything_sent(
    me: InstanceConfig, offsets: Iterable[int], expires_unix_s: int
) -> Iterator[Send]:
    """Any message under its name, without headers. Spec: SendAnything, for a stranger."""
    key = (me.instance_id, me.client_id, KEY.group, KEY.topic, Partition(KEY.topic_partition))
    yield Send(ClaimingPartition(1, 0, *key), NO_HEADERS)
    yield machine.release_group_sent(me, KEY.group, expires_unix_s)
    for offset in offsets:
        for kind in (Heartbeat, ReleasingPartition, ClaimingMessages):
            yield Send(kind(1, 0, *key, Offset(offset)), NO_HEADERS)
