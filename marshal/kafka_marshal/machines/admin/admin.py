"""The rules by which an administrator sets several positions: all, none, or a reported part.

Spec: module Admin. It pauses the group, claims every partition, and writes no position before it
has read that it owns all of them. This module defines what each phase allows and what follows.
`administrator` decides when to act and when to give up. This module does not know how records
travel. For each claim it holds a `ConsumerState` with the role of administrator. Every guard
returns None, or the first reason that forbids the action.

>>> from kafka_marshal.machines.consumer.consumer import Mode
>>> me = InstanceConfig("x1", "x", Mode.AT_MOST_ONCE, admin=True)
>>> may_claim_target(me, Operation("g"), ClaimKey("g", "t", 0))
<AdminForbidden.NOT_UNDER_WAY: 'not_under_way'>
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kafka_marshal.core.claims.fenced import KNOWN_VERSIONS
from kafka_marshal.core.claims.pause_work import (
    NO_WORK,
    PauseWork,
    half_set_in_log,
    work_after,
    work_paused,
)
from kafka_marshal.core.claims.suffix_reader import Field
from kafka_marshal.core.messages import Record, ReleaseGroup, ReleasingPartition
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.admin.operation import (
    AdminForbidden,
    Against,
    AllSet,
    NoneSet,
    Operation,
    PartlySet,
    Phase,
    Reason,
    consumer_of,
    ended,
    remembering,
    under_way,
)
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    Forbidden,
    InstanceConfig,
    acts,
    after_claiming_partition,
    after_giving_up,
    after_read,
    after_release,
    claiming_partition_sent,
    heartbeat_sent,
    may_claim,
    may_give_up,
    may_heartbeat,
    may_release,
    position_sent,
    release_group_sent,
    releasing_partition_sent,
)
from kafka_marshal.machines.consumer.effects import Send


def all_owned(me: InstanceConfig, operation: Operation) -> bool:
    """Whether every win was read back, and none was lost again. Spec: AllOwned."""
    return all(acts(me, consumer_of(operation, key)) for key in operation.targets)


def is_set(me: InstanceConfig, work: PauseWork, key: ClaimKey) -> bool:
    """Whether its position was read back as set, not only sent. Spec: IsSet."""
    return work.by == me.instance_id and key in work.set


def write_may_land(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Whether a write was sent whose effect no record rules out yet. Spec: WriteMayLand."""
    if consumer.resigned is None:
        return False
    if not consumer.reader.known:
        return True
    claim = consumer.known
    believes = claim.owned and claim.owner_instance == me.instance_id
    return believes and claim.epoch == consumer.resigned


# --- the guards -----------------------------------------------------------------------------------


def may_begin(
    me: InstanceConfig, operation: Operation, targets: Mapping[ClaimKey, int]
) -> Against | None:
    """Whether it may pause the group to set these positions. Spec: MayBegin."""
    if not me.admin:
        return Forbidden.NOT_ADMIN
    if operation.phase is not Phase.IDLE:
        return AdminForbidden.ALREADY_BEGUN
    if not targets:
        return AdminForbidden.NOTHING_TO_SET
    if any(target < 0 for target in targets.values()):
        return AdminForbidden.NEGATIVE_TARGET
    return None


def may_go_on(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """Whether anything is left to do for this claim. Spec: MayGoOn."""
    if operation.phase not in (Phase.CLAIMING, Phase.SETTING):
        return AdminForbidden.NOT_UNDER_WAY
    if key not in operation.targets:
        return AdminForbidden.NOT_A_TARGET
    if is_set(me, operation.work, key):
        return AdminForbidden.ALREADY_SET
    return None


def may_claim_target(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """Spec: MayClaimTarget."""
    against = may_go_on(me, operation, key)
    if against is not None:
        return against
    if key in operation.awaits:
        return Forbidden.AWAITS_READ_BACK
    return may_claim(me, consumer_of(operation, key))


def may_heartbeat_target(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """Spec: MayHeartbeatTarget."""
    against = may_go_on(me, operation, key)
    return against if against is not None else may_heartbeat(me, consumer_of(operation, key))


def may_set_position(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """All or none: the first write is allowed when it owns all claims. Spec: MaySetPosition."""
    against = may_go_on(me, operation, key)
    if against is not None:
        return against
    if operation.phase is Phase.CLAIMING and not all_owned(me, operation):
        return AdminForbidden.NOT_ALL_OWNED
    return may_release(me, consumer_of(operation, key))


def may_let_go(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """Whether it may release, after its end, a claim that it still owns. Spec: MayLetGo.

    The pauser's release always sets the position, so it must know the position.
    """
    if not ended(operation):
        return AdminForbidden.STILL_UNDER_WAY
    if key not in operation.targets:
        return AdminForbidden.NOT_A_TARGET
    consumer = consumer_of(operation, key)
    against = may_release(me, consumer)
    if against is None and Field.POSITION not in consumer.reader.certain:
        return Forbidden.POSITION_UNKNOWN
    return against


def may_stop_waiting(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """Whether it may stop waiting for what it sent for this claim. Spec: MayStopWaiting."""
    if key not in operation.targets:
        return AdminForbidden.NOT_A_TARGET
    if key in operation.awaits:
        return None
    return may_give_up(me, consumer_of(operation, key))


def may_call_off(me: InstanceConfig, operation: Operation) -> Against | None:
    """Spec: MayCallOff."""
    return None if under_way(operation) else AdminForbidden.NOT_UNDER_WAY


# --- what it sends --------------------------------------------------------------------------------


def pause_sent(me: InstanceConfig, operation: Operation, expires_unix_s: int) -> Send:
    """Spec: PauseSent."""
    return release_group_sent(me, operation.group, expires_unix_s)


def target_claimed(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Send:
    """Spec: TargetClaimed."""
    return claiming_partition_sent(me, consumer_of(operation, key), key)


def target_heartbeat(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Send:
    """Spec: TargetHeartbeat."""
    return heartbeat_sent(me, consumer_of(operation, key), key)


def target_set(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Send:
    """Spec: TargetSet."""
    return position_sent(me, consumer_of(operation, key), key, operation.targets[key])


def target_let_go(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Send:
    """Release at the position that it found, without the header that sets a position.

    Spec: TargetLetGo.
    """
    return releasing_partition_sent(me, consumer_of(operation, key), key)


# --- what it remembers ----------------------------------------------------------------------------


def after_beginning(
    me: InstanceConfig, operation: Operation, targets: Mapping[ClaimKey, int]
) -> Operation:
    """Spec: AfterBeginning."""
    return attrs.evolve(operation, phase=Phase.PAUSING, targets=dict(targets))


def after_claiming_target(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Operation:
    """Spec: AfterClaimingTarget."""
    asked = after_claiming_partition(me, consumer_of(operation, key))
    return remembering(operation, key, asked)


def after_setting_position(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Operation:
    """Spec: AfterSettingPosition."""
    resigned = remembering(operation, key, after_release(me, consumer_of(operation, key)))
    return attrs.evolve(resigned, phase=Phase.SETTING, awaits=operation.awaits | {key})


def after_letting_go(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Operation:
    """Spec: AfterLettingGo."""
    return remembering(operation, key, after_release(me, consumer_of(operation, key)))


def after_stopping_to_wait(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Operation:
    """Its record may still land. Spec: AfterStoppingToWait."""
    waiting = remembering(operation, key, after_giving_up(me, consumer_of(operation, key)))
    return attrs.evolve(waiting, awaits=operation.awaits - {key})


# --- the end --------------------------------------------------------------------------------------


def after_ending(
    me: InstanceConfig, operation: Operation, work: PauseWork, reason: Reason | None
) -> Operation:
    """End the operation with the result for the operator. Spec: AfterEnding, ResultOf, PhaseToldBy.

    `work` is what the log recorded while this administrator's pause held. A reason is needed unless
    all positions are set.
    """
    targets = frozenset(operation.targets)
    done = frozenset(key for key in targets if is_set(me, work, key))
    if done == targets:
        return attrs.evolve(operation, phase=Phase.DONE, result=AllSet(done))
    assert reason is not None
    in_doubt = frozenset(
        key for key in targets - done if write_may_land(me, consumer_of(operation, key))
    )
    not_set = targets - done - in_doubt
    if not_set == targets:
        result = NoneSet(not_set, reason)
        return attrs.evolve(operation, phase=Phase.NONE_SET, result=result)
    partly = PartlySet(done, not_set, in_doubt, reason)
    return attrs.evolve(operation, phase=Phase.PARTLY_SET, result=partly)


def after_calling_off(me: InstanceConfig, operation: Operation, reason: Reason) -> Operation:
    """Spec: AfterCallingOff."""
    return after_ending(me, operation, operation.work, reason)


# --- reading --------------------------------------------------------------------------------------


def key_of(record: Record) -> ClaimKey | None:
    """The claim that a record is about; None for a ReleaseGroup, which is about a whole group."""
    message = record.message
    if isinstance(message, ReleaseGroup):
        return None
    return message.key


def is_pause(record: Record) -> bool:
    """Whether it is a ReleaseGroup that the reducer accepts. Spec: IsPause."""
    return isinstance(record.message, ReleaseGroup) and record.message.version in KNOWN_VERSIONS


def is_own_pause(me: InstanceConfig, record: Record) -> bool:
    """Spec: IsOwnPause."""
    return is_pause(record) and record.message.instance_id == me.instance_id


def paused_by_another(me: InstanceConfig, operation: Operation) -> bool:
    """Whether the latest pause that it has read is another instance's. Spec: PausedByAnother."""
    return operation.work.by != me.instance_id


def is_taken(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Whether another instance owns the claim, or may own it. Spec: IsTaken."""
    if not consumer.reader.known:
        return True
    return consumer.known.owned and consumer.known.owner_instance != me.instance_id


def warning(work: PauseWork) -> PauseWork:
    """The unfinished work of another administrator when the pause began. Spec: Warning."""
    return work if half_set_in_log(work) else NO_WORK


def _folded(me: InstanceConfig, operation: Operation, record: Record) -> Operation:
    """All claims, and the work, after a record. Spec: ConsumersAfter, WorkRead."""
    message, view = record.message, record.offset + 1
    if message.group_id != operation.group:
        return attrs.evolve(operation, view=view)

    def read(consumer: ConsumerState) -> tuple[ConsumerState, None]:
        return after_read(me, consumer, record), None

    consumers, work, awaits = operation.consumers.copy(), operation.work, operation.awaits
    if isinstance(message, ReleaseGroup):
        consumers.step_group(operation.group, read)
        if is_pause(record):
            work = work_paused(work, message.instance_id)
    else:
        before, after, _ = consumers.step(message.key, read)
        # Only where it is certain what the record did.
        if before.reader.known and after.reader.known:
            work = work_after(work, message.key, before.known, record, after.known)
        if isinstance(message, ReleasingPartition) and message.instance_id == me.instance_id:
            awaits -= {message.key}
    return attrs.evolve(operation, consumers=consumers, view=view, awaits=awaits, work=work)


def after_reading(me: InstanceConfig, operation: Operation, record: Record) -> Operation:
    """Fold one more record of the coordinating partition, about any claim. Spec: AfterReading.

    The last to pause has the group, so another instance's pause ends the operation at once. Before
    the first write, a claim with another owner ends it, too.
    """
    read = _folded(me, operation, record)
    own_pause = is_own_pause(me, record) and record.message.group_id == operation.group
    if own_pause and paused_by_another(me, operation):
        read = attrs.evolve(read, warned=warning(operation.work))
    if operation.phase is Phase.PAUSING and own_pause:
        return attrs.evolve(read, phase=Phase.CLAIMING)
    if operation.phase not in (Phase.CLAIMING, Phase.SETTING):
        return read
    if operation.phase is Phase.SETTING and all(
        is_set(me, read.work, key) for key in operation.targets
    ):
        return after_ending(me, read, read.work, None)
    if paused_by_another(me, read):
        return after_ending(me, read, operation.work, Reason.PAUSED_BY_ANOTHER)
    if operation.phase is Phase.CLAIMING and any(
        is_taken(me, consumer_of(read, key)) for key in operation.targets
    ):
        return after_ending(me, read, read.work, Reason.CLAIM_TAKEN)
    return read
