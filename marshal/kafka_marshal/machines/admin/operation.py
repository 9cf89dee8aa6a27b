"""An administrator's operation as a value: its phase, its targets, what it remembers.

Spec: NewAdministrator. This module holds the names (phases, reasons, results) and the value.
`admin` defines what is allowed and what follows.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import attrs
from attrs import field, frozen

from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork
from kafka_marshal.core.partition_states import PartitionStates
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.machines.consumer.consumer import ConsumerState, Forbidden, InstanceConfig
from kafka_marshal.machines.consumer.consumer import after_gap as after_gap_of_claim


class Phase(enum.Enum):
    """The progress of an operation. Spec: Phases."""

    IDLE = "idle"
    """It has not begun."""
    PAUSING = "pausing"
    """It sent its ReleaseGroup and has not read it back."""
    CLAIMING = "claiming"
    """It claims all targets, and has written nothing."""
    SETTING = "setting"
    """It owned all of them and has begun to write."""
    DONE = "done"
    """Every position was read back as set."""
    PARTLY_SET = "partly_set"
    """Ended: some positions are or may be set, and some are not."""
    NONE_SET = "none_set"
    """Ended: no position was set, and none will be."""


class AdminForbidden(enum.Enum):
    """Why an administrator may not do something, besides `Forbidden`. Spec: AdminForbidden."""

    ALREADY_BEGUN = "already_begun"
    """An instance id serves one operation: records in flight belong to that one."""
    NOTHING_TO_SET = "nothing_to_set"
    """There are no targets."""
    NEGATIVE_TARGET = "negative_target"
    """The reducer refuses a negative position."""
    NOT_UNDER_WAY = "not_under_way"
    """It has not read its pause yet, or it has ended."""
    STILL_UNDER_WAY = "still_under_way"
    """A claim is released without a position only after the operation has ended."""
    NOT_A_TARGET = "not_a_target"
    """The operation is not about that claim."""
    ALREADY_SET = "already_set"
    """Its position was read back as set; the claim's next owner may have moved it since."""
    NOT_ALL_OWNED = "not_all_owned"
    """All or none: the first position is written when it owns all claims."""


class Reason(enum.Enum):
    """Why an operation ended without setting all positions. Spec: Reasons."""

    PAUSED_BY_ANOTHER = "paused_by_another"
    """Another instance has paused the group since; the later pause wins."""
    CLAIM_TAKEN = "claim_taken"
    """Before the first write, another instance owned a claim, or may have."""
    PAUSE_EXPIRED = "pause_expired"
    """Its pause expired."""
    CALLED_OFF = "called_off"
    """The operator did not want to wait."""


@frozen
class AllSet:
    """Every position was read back as set."""

    set: frozenset[ClaimKey]


@frozen
class NoneSet:
    """No position was set, and none will be."""

    not_set: frozenset[ClaimKey]
    reason: Reason


@frozen
class PartlySet:
    """The positions are half set, or that cannot be ruled out."""

    set: frozenset[ClaimKey]
    """Claims whose position was read back as set."""
    not_set: frozenset[ClaimKey]
    """Claims that are not set, and that no sent record can set."""
    in_doubt: frozenset[ClaimKey]
    """Claims whose write was sent and may still land; the log decides."""
    reason: Reason


Result: TypeAlias = AllSet | NoneSet | PartlySet
"""The final result for the operator. Spec: ResultOf."""

Against: TypeAlias = Forbidden | AdminForbidden

_NO_TARGETS: Final[Mapping[ClaimKey, int]] = MappingProxyType({})


@frozen
class Operation:
    """What an administrator knows and remembers. Spec: NewAdministrator.

    `targets` and `consumers` are never modified: a new value has new ones.
    """

    group: str
    phase: Phase = Phase.IDLE
    targets: Mapping[ClaimKey, int] = _NO_TARGETS
    """The wanted position of each claim."""
    consumers: PartitionStates[ClaimKey, ConsumerState] = field(
        factory=lambda: PartitionStates(ConsumerState())
    )
    """All claims of the group; use `consumer_of`."""
    view: int = 0
    """The next offset to read. Records of other claims advance it, too."""
    awaits: frozenset[ClaimKey] = frozenset()
    """Claims with a write that was sent and not read back."""
    work: PauseWork = NO_WORK
    """The work of the current pause, according to the log."""
    warned: PauseWork = NO_WORK
    """Another administrator's unfinished work, of which the operator was warned."""
    result: Result | None = None
    """None until the operation has ended."""

    @classmethod
    def beginning_at(cls, group: str, first: int) -> Operation:
        """An administrator that begins to read at this offset."""
        return cls(group, consumers=PartitionStates(ConsumerState.beginning_at(first)), view=first)


def consumer_of(operation: Operation, key: ClaimKey) -> ConsumerState:
    """What it knows and remembers about one claim. Spec: PassedOver.

    Records of other claims only show that there was no record of this one.
    """
    consumer = operation.consumers[key]
    if consumer.view == operation.view:
        return consumer
    return attrs.evolve(consumer, view=operation.view)


def remembering(operation: Operation, key: ClaimKey, consumer: ConsumerState) -> Operation:
    """The operation with a new memory of one claim."""
    consumers = operation.consumers.copy()
    consumers.put(key, consumer)
    return attrs.evolve(operation, consumers=consumers)


def after_gap(me: InstanceConfig, operation: Operation, first: int) -> Operation:
    """The records from its view up to `first` are gone: all claims start over there."""
    consumers = operation.consumers.begun_anew(
        ConsumerState.beginning_at(first), lambda known: after_gap_of_claim(me, known, first)
    )
    return attrs.evolve(operation, consumers=consumers, view=first, work=NO_WORK)


def under_way(operation: Operation) -> bool:
    """Whether it has begun and not ended. Spec: UnderWay."""
    return operation.phase in (Phase.PAUSING, Phase.CLAIMING, Phase.SETTING)


def ended(operation: Operation) -> bool:
    """Whether it has a result. Spec: Ended."""
    return operation.phase in (Phase.DONE, Phase.PARTLY_SET, Phase.NONE_SET)
