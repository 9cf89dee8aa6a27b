"""An administrator's operation as a value: its phase, its targets, what it remembers.

Spec: NewAdministrator. This room holds the words (phases, reasons, results) and the value; what is
allowed and what follows is `admin`.
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
    """How far an operation has come. Spec: Phases."""

    IDLE = "idle"
    """Nothing was asked."""
    PAUSING = "pausing"
    """Its ReleaseGroup was sent and not read back."""
    CLAIMING = "claiming"
    """It asks for every claim. Nothing is written yet."""
    SETTING = "setting"
    """It owned all of them and began to write."""
    DONE = "done"
    """Every position was read back as set."""
    PARTLY_SET = "partly_set"
    """Over: some are set, or may be, and some are not."""
    NONE_SET = "none_set"
    """Over: none was set, and none will be."""


class AdminForbidden(enum.Enum):
    """Why an administrator may not do something, beside `Forbidden`. Spec: AdminForbidden."""

    ALREADY_BEGUN = "already_begun"
    """An instance id is of one operation: what is still in flight belongs to that one."""
    NOTHING_TO_SET = "nothing_to_set"
    """No targets."""
    NEGATIVE_TARGET = "negative_target"
    """The reducer refuses a negative position."""
    NOT_UNDER_WAY = "not_under_way"
    """It has not read its pause yet, or it has ended."""
    STILL_UNDER_WAY = "still_under_way"
    """A claim is given back unset only when the operation has ended."""
    NOT_A_TARGET = "not_a_target"
    """The operation is not about that claim."""
    ALREADY_SET = "already_set"
    """Its position was read back as set; the claim's next owner may have moved it since."""
    NOT_ALL_OWNED = "not_all_owned"
    """All or none: the first position is written when all claims are its own."""


class Reason(enum.Enum):
    """Why an operation ended otherwise than with all positions set. Spec: Reasons."""

    PAUSED_BY_ANOTHER = "paused_by_another"
    """Somebody else paused the group since; the later pause wins."""
    CLAIM_TAKEN = "claim_taken"
    """Before the first write somebody else owned a claim, or may have."""
    PAUSE_EXPIRED = "pause_expired"
    """Its pause ran out."""
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
    """The positions are half set, or it cannot be ruled out."""

    set: frozenset[ClaimKey]
    """Read back as set."""
    not_set: frozenset[ClaimKey]
    """Not set, and nothing that was sent can set them."""
    in_doubt: frozenset[ClaimKey]
    """The write was sent and may still land: the log will say."""
    reason: Reason


Result: TypeAlias = AllSet | NoneSet | PartlySet
"""The result that the operator gets in the end. Spec: ResultOf."""

Against: TypeAlias = Forbidden | AdminForbidden

_NO_TARGETS: Final[Mapping[ClaimKey, int]] = MappingProxyType({})


@frozen
class Operation:
    """What an administrator knows and remembers. Spec: NewAdministrator.

    `targets` and `consumers` are never written to: a new value has new ones.
    """

    group: str
    phase: Phase = Phase.IDLE
    targets: Mapping[ClaimKey, int] = _NO_TARGETS
    """The position that each claim is to have."""
    consumers: PartitionStates[ClaimKey, ConsumerState] = field(
        factory=lambda: PartitionStates(ConsumerState())
    )
    """Every claim of the group; ask `consumer_of`."""
    view: int = 0
    """The next offset to read. Records of other claims move it, too."""
    awaits: frozenset[ClaimKey] = frozenset()
    """Claims of which a write was sent and not read back."""
    work: PauseWork = NO_WORK
    """What the log says of the pause that holds now."""
    warned: PauseWork = NO_WORK
    """What somebody else had left undone; the operator was warned of it."""
    result: Result | None = None
    """The operation's result; None until it has ended."""

    @classmethod
    def beginning_at(cls, group: str, first: int) -> Operation:
        """An administrator that begins to read at this offset."""
        return cls(group, consumers=PartitionStates(ConsumerState.beginning_at(first)), view=first)


def consumer_of(operation: Operation, key: ClaimKey) -> ConsumerState:
    """What it knows and remembers about one claim. Spec: PassedOver.

    Records of other claims say nothing about this one, except that there was none of it.
    """
    consumer = operation.consumers[key]
    if consumer.view == operation.view:
        return consumer
    return attrs.evolve(consumer, view=operation.view)


def remembering(operation: Operation, key: ClaimKey, consumer: ConsumerState) -> Operation:
    """The operation with another memory of one claim."""
    consumers = operation.consumers.copy()
    consumers.put(key, consumer)
    return attrs.evolve(operation, consumers=consumers)


def after_gap(me: InstanceConfig, operation: Operation, first: int) -> Operation:
    """The records from its view up to `first` are gone: of every claim it begins anew there."""
    consumers = operation.consumers.begun_anew(
        ConsumerState.beginning_at(first), lambda known: after_gap_of_claim(me, known, first)
    )
    return attrs.evolve(operation, consumers=consumers, view=first, work=NO_WORK)


def under_way(operation: Operation) -> bool:
    """It has begun and not ended. Spec: UnderWay."""
    return operation.phase in (Phase.PAUSING, Phase.CLAIMING, Phase.SETTING)


def ended(operation: Operation) -> bool:
    """It has a result. Spec: Ended."""
    return operation.phase in (Phase.DONE, Phase.PARTLY_SET, Phase.NONE_SET)
