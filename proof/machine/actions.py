"""What the shipped machine can do, action by action, as Consumer.tla and Marshal.tla name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from attrs import frozen

from kafka_marshal.core.messages import (
    ClaimingMessages,
    ClaimingPartition,
    Heartbeat,
    Partition,
    ReleasingPartition,
)
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig
from kafka_marshal.machines.consumer.effects import Send

KEY: Final = ClaimKey("g", "t", 0)


@frozen
class Took:
    """What one action came to."""

    against: Forbidden | None
    """Why it did not happen; then nothing did."""
    consumer: ConsumerState
    sent: Send | None = None
    processed: bool = False
    """At least once: the message that it was to process."""


Action: TypeAlias = Callable[[InstanceConfig, ConsumerState, Any], Took]
"""Of an instance, its state, and the offset that it asks for, sets or processes."""


def _sends(kind: type) -> Action:
    def send(me: InstanceConfig, consumer: ConsumerState, target: Any) -> Took:
        address = (1, 0, me.instance_id, me.client_id, "g", "t", Partition(0))
        message = kind(*address, *([] if kind is ClaimingPartition else [target]))
        against, sent, after = machine.would_send(me, consumer, message)
        return Took(against, consumer) if against is not None else Took(None, after, sent)

    return send


def _lets_go(me: InstanceConfig, consumer: ConsumerState, target: Any) -> Took:
    """An administrator that gives up, or a consumer: at the position that it found or reached."""
    against = machine.may_release(me, consumer)
    if against is not None:
        return Took(against, consumer)
    sent = machine.releasing_partition_sent(me, consumer, KEY)
    return Took(None, machine.after_release(me, consumer), sent)


def _pauses(me: InstanceConfig, consumer: ConsumerState, target: Any) -> Took:
    against = machine.may_release_group(me, consumer)
    if against is not None:
        return Took(against, consumer)
    return Took(None, consumer, machine.release_group_sent(me, "g", target))


def _processes(me: InstanceConfig, consumer: ConsumerState, target: Any) -> Took:
    against = machine.may_process(me, consumer, target)
    if against is not None:
        return Took(against, consumer)
    return Took(None, machine.after_process(me, consumer), processed=True)


def _processes_grant(me: InstanceConfig, consumer: ConsumerState, target: Any) -> Took:
    against = machine.may_process_grant(me, consumer)
    if against is not None:
        return Took(against, consumer)
    return Took(None, machine.after_process_grant(me, consumer))


def _gives_up(me: InstanceConfig, consumer: ConsumerState, target: Any) -> Took:
    against = machine.may_give_up(me, consumer)
    if against is not None:
        return Took(against, consumer)
    return Took(None, machine.after_giving_up(me, consumer))


ACTIONS: Final[Mapping[str, Action]] = {
    "SendClaimingPartition": _sends(ClaimingPartition),
    "SendHeartbeat": _sends(Heartbeat),
    "SendReleasingPartition": _sends(ReleasingPartition),
    "LetGo": _lets_go,
    "SendClaimingMessages": _sends(ClaimingMessages),
    "SendReleaseGroup": _pauses,
    "Process": _processes,
    "ProcessGrant": _processes_grant,
    "GiveUp": _gives_up,
}
"""All but reading. An administrator's release sets a position; `LetGo` is its other one."""
READ: Final = "Read"
APPEND: Final = "Append"
START: Final = "Restart"
