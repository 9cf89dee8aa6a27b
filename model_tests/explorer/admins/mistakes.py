"""Mistakes of an administrator, and of the reducer where administrators meet them.

Those of `AS_SPECIFIED` are the mistakes that configurations of `MCSetPosition.tla` make: the
explorer finds the same property broken after as many states as TLC. `SLIPS` break no property of
theirs; the graph is another.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kafka_marshal import (
    Claim,
    ClaimingPartition,
    ClaimKey,
    Record,
    Refused,
    ReleaseGroup,
    ReleasingPartition,
    Rules,
    Verdict,
)
from kafka_marshal.core.claims import fenced
from kafka_marshal.core.claims import pause_work as core_work
from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork
from kafka_marshal.core.claims.verdicts import FENCED_WINS
from kafka_marshal.machines.admin import admin
from kafka_marshal.machines.admin.operation import (
    AdminForbidden,
    Against,
    Operation,
    Phase,
    Reason,
    consumer_of,
)
from kafka_marshal.machines.consumer.consumer import (
    ConsumerState,
    Forbidden,
    InstanceConfig,
    acts,
    releasing_partition_sent,
)
from kafka_marshal.machines.consumer.effects import Send
from model_tests.mutants.hand_made import HandMade

# --- an administrator -----------------------------------------------------------------------------


def owns_one(me: InstanceConfig, operation: Operation) -> bool:
    """Spec: OwnsOne."""
    return any(acts(me, consumer_of(operation, key)) for key in operation.targets)


def nothing_lands_late(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """Spec: NothingLandsLate."""
    return False


def stays_confident(me: InstanceConfig, operation: Operation) -> bool:
    """Spec: StaysConfident."""
    return False


def never_mind(work: PauseWork) -> PauseWork:
    """Spec: NeverMind."""
    return NO_WORK


_may_go_on = admin.may_go_on
_after_ending = admin.after_ending
_after_reading = admin.after_reading


def _sent(operation: Operation) -> frozenset[ClaimKey]:
    """The targets of which a write was sent. Spec: SentIsSet."""
    return frozenset(
        key for key in operation.targets if consumer_of(operation, key).resigned is not None
    )


def goes_on_until_sent(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """MayGoOn, where SentIsSet."""
    against = _may_go_on(me, operation, key)
    if against is None and key in _sent(operation):
        return AdminForbidden.ALREADY_SET
    return against


def ends_with_what_was_sent(
    me: InstanceConfig, operation: Operation, work: PauseWork, reason: Reason | None
) -> Operation:
    """AfterEnding, where SentIsSet."""
    told = PauseWork(me.instance_id, work.claimed, _sent(operation))
    return _after_ending(me, operation, told, reason)


def reads_until_sent(me: InstanceConfig, operation: Operation, record: Record) -> Operation:
    """AfterReading, where SentIsSet."""
    if operation.phase is not Phase.SETTING or _sent(operation) != frozenset(operation.targets):
        return _after_reading(me, operation, record)
    read = _after_reading(me, attrs.evolve(operation, phase=Phase.IDLE), record)
    return admin.after_ending(me, attrs.evolve(read, phase=Phase.SETTING), read.work, None)


OWNS_ONE = HandMade("OwnsOne", "it writes when one claim is its own", admin, "all_owned", owns_one)
NOTHING_LANDS_LATE = HandMade(
    "NothingLandsLate",
    "what was not read back did not happen",
    admin,
    "write_may_land",
    nothing_lands_late,
)
STAYS_CONFIDENT = HandMade(
    "StaysConfident",
    "a later pause is none of its business",
    admin,
    "paused_by_another",
    stays_confident,
)
NEVER_MIND = HandMade(
    "NeverMind", "it does not ask what was left undone", admin, "warning", never_mind
)
SENT_IS_SET = tuple(
    HandMade("SentIsSet", "a position is set when the write was sent", admin, attribute, instead)
    for attribute, instead in (
        ("may_go_on", goes_on_until_sent),
        ("after_ending", ends_with_what_was_sent),
        ("after_reading", reads_until_sent),
    )
)


# --- the reducer ----------------------------------------------------------------------------------


_claiming_partition: Callable[..., tuple[Claim, Verdict]] = fenced.claiming_partition
_releasing_partition: Callable[..., tuple[Claim, Verdict]] = fenced.releasing_partition
_release_group: Callable[..., tuple[Claim, Verdict]] = fenced.release_group
_refuse_unless_owner = fenced.refuse_unless_owner


def wins_in_a_pause(
    claim: Claim, record: Record, message: ClaimingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """R8 left out. Spec: IsPaused <- Waived."""
    open_to_all = attrs.evolve(claim, paused_until_ms=None)
    after, verdict = _claiming_partition(open_to_all, record, message, rules)
    if verdict in FENCED_WINS and message.instance_id == claim.pauser:
        return after, verdict
    return attrs.evolve(after, paused_until_ms=claim.paused_until_ms), verdict


def _kept(before: Claim, after: Claim) -> Claim:
    """With the owner of before. Spec: KeepsOwner."""
    names = ("owner_instance", "owner_client", "last_heartbeat_ms", "won_with_headers")
    return attrs.evolve(after, **{name: getattr(before, name) for name in names})


def release_keeps_owner(
    claim: Claim, record: Record, message: ReleasingPartition, rules: Rules
) -> tuple[Claim, Verdict]:
    """Spec: Freed <- KeepsOwner."""
    after, verdict = _releasing_partition(claim, record, message, rules)
    return _kept(claim, after), verdict


def group_keeps_owners(
    claim: Claim, record: Record, message: ReleaseGroup, rules: Rules
) -> tuple[Claim, Verdict]:
    """Spec: Freed <- KeepsOwner."""
    after, verdict = _release_group(claim, record, message, rules)
    return _kept(claim, after), verdict


def anybody_may(claim: Claim, record: Record) -> Refused | None:
    """R2 without epoch and instance. Spec: Superseded, NobodyOwns, Forged <- Waived."""
    against = _refuse_unless_owner(claim, record)
    named = record.headers.epoch is not None
    if against in (Refused.SUPERSEDED, Refused.FORGED):
        return None
    if against is Refused.NOBODY_OWNS:
        return None if named else Refused.NOT_OWNER
    return against


IGNORES_PAUSE = HandMade(
    "Ignored", "R8: a claim wins in the pause", fenced, "claiming_partition", wins_in_a_pause
)
KEEPS_OWNER = tuple(
    HandMade("KeepsOwner", "R8: the owner stays", fenced, attribute, instead)
    for attribute, instead in (
        ("releasing_partition", release_keeps_owner),
        ("release_group", group_keeps_owners),
    )
)
ANYBODY_MAY = HandMade(
    "NoEpochNoInstance",
    "R2 without epoch and instance",
    fenced,
    "refuse_unless_owner",
    anybody_may,
)

ADMINISTRATORS: tuple[HandMade, ...] = (
    *(OWNS_ONE, NOTHING_LANDS_LATE, STAYS_CONFIDENT, NEVER_MIND, *SENT_IS_SET),
)
AS_SPECIFIED = (*ADMINISTRATORS, IGNORES_PAUSE, *KEEPS_OWNER, ANYBODY_MAY)
"""Mistakes that break a property, as the specification says."""


# --- slips ----------------------------------------------------------------------------------------


def claimed_is_set(me: InstanceConfig, work: PauseWork, key: ClaimKey) -> bool:
    """It takes a claim that it won for one that it set."""
    return work.by == me.instance_id and key in work.claimed


def everything_may_land(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """A write that was refused is in doubt for ever."""
    return consumer.resigned is not None


def takes_its_time(me: InstanceConfig, consumer: ConsumerState) -> bool:
    """It waits for a claim that somebody else took."""
    return False


def sets_wherever(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Send:
    """It releases where the claim stood."""
    return releasing_partition_sent(me, consumer_of(operation, key), key)


def forgets_what_it_waits_for(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Operation:
    """It does not wait for its write."""
    after = _after_setting_position(me, operation, key)
    return attrs.evolve(after, awaits=operation.awaits)


def every_release_sets(record: Record) -> bool:
    """It cannot tell a claim given back from one that was set."""
    return True


def asks_in_any_case(me: InstanceConfig, operation: Operation, key: ClaimKey) -> Against | None:
    """R6 and AwaitsReadBack left out."""
    against = _may_claim_target(me, operation, key)
    return None if against is Forbidden.AWAITS_READ_BACK else against


_after_setting_position = admin.after_setting_position
_may_claim_target = admin.may_claim_target

SLIPS: tuple[HandMade, ...] = (
    HandMade("ClaimedIsSet", "a claim that is won is set", admin, "is_set", claimed_is_set),
    HandMade(
        "EverythingMayLand",
        "a refused write is in doubt",
        admin,
        "write_may_land",
        everything_may_land,
    ),
    HandMade(
        "TakesItsTime", "it waits for a claim that was taken", admin, "is_taken", takes_its_time
    ),
    HandMade("SetsWherever", "it writes no target", admin, "target_set", sets_wherever),
    HandMade(
        "ForgetsWhatItWaitsFor",
        "it does not wait for its write",
        admin,
        "after_setting_position",
        forgets_what_it_waits_for,
    ),
    HandMade(
        "EveryReleaseSets",
        "a claim given back was set",
        core_work,
        "says_it_sets",
        every_release_sets,
    ),
    HandMade(
        "AsksInAnyCase", "R6: it asks while it waits", admin, "may_claim_target", asks_in_any_case
    ),
)
"""Mistakes that only somebody notices who knows what the machine must do."""
