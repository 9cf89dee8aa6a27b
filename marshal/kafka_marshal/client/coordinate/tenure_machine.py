"""The interface that the machines of a tenure share: exclusive claims and shared claims.

A tenure is a claim of a whole partition, or a range of a shared one. `ownership` handles both from
the win until the application has no more messages of it, and does not know which of the two it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from attrs import frozen

from kafka_marshal.client.ranges.shared_claims import SharedClaimEffect
from kafka_marshal.core.state import Claim, ClaimKey
from kafka_marshal.machines.consumer.driver import Driver
from kafka_marshal.machines.consumer.effects import ReleaseReason
from kafka_marshal.machines.consumer.member import ClaimEffect, Member

AnyEffect: TypeAlias = ClaimEffect | SharedClaimEffect
"""An effect of either kind of claim."""


class TenureMachine(Protocol):
    """What `ownership` needs of a machine. Methods return effects to carry out."""

    @property
    def wants(self) -> bool:
        """Whether the tenure is kept; False once it is being given up."""

    def of(self, member: Member) -> bool:
        """Whether it belongs to the session of this member."""

    @property
    def released(self) -> ReleaseReason | None:
        """Why it was released."""

    @property
    def known(self) -> Claim:
        """The claim as it was read; a guess if its owner is uncertain."""

    @property
    def certain(self) -> bool:
        """Whether `known` is certain."""

    def available(self, end: int, now_ms: int) -> Sequence[AnyEffect]:
        """Messages below `end` exist."""

    def extent(self, low: int, high: int, now_ms: int) -> Sequence[AnyEffect]:
        """The partition holds messages from `low` to below `high`."""

    def done(self, offset: int, now_ms: int) -> Sequence[AnyEffect]:
        """Everything below this offset is processed."""

    def hand_back(self, done: int, begun: int, now_ms: int) -> Sequence[AnyEffect]:
        """It is given up: nothing from `done` on counts, and nothing from `begun` on was begun."""

    def commit(self, now_ms: int) -> Sequence[AnyEffect]:
        """Send the progress to the log at once."""


@frozen(eq=False)
class ClaimMachine:
    """A member's machine of one claim, for a whole partition."""

    member: Member
    key: ClaimKey
    driver: Driver

    @property
    def wants(self) -> bool:
        """Whether the member asks for the claim, or keeps it."""
        return self.driver.wants

    def of(self, member: Member) -> bool:
        """Whether it belongs to this member."""
        return self.member is member

    @property
    def released(self) -> ReleaseReason | None:
        """Why the claim was released."""
        return self.driver.released

    @property
    def known(self) -> Claim:
        """The claim as it was read."""
        return self.driver.consumer.known

    @property
    def certain(self) -> bool:
        """Whether the reader knows the claim."""
        return self.driver.consumer.reader.known

    def available(self, end: int, now_ms: int) -> Sequence[AnyEffect]:
        """The window depends on it."""
        return self.member.messages_available(self.key, end, now_ms)

    def extent(self, low: int, high: int, now_ms: int) -> Sequence[AnyEffect]:
        """Messages below `low` are gone."""
        return self.member.extent(self.key, low, high, now_ms)

    def done(self, offset: int, now_ms: int) -> Sequence[AnyEffect]:
        """Everything below is processed."""
        return self.member.done(self.key, offset, now_ms)

    def hand_back(self, done: int, begun: int, now_ms: int) -> Sequence[AnyEffect]:
        """The release names `done`."""
        return self.member.hand_back(self.key, done, now_ms)

    def commit(self, now_ms: int) -> Sequence[AnyEffect]:
        """Spec: SendHeartbeat."""
        return self.member.commit(self.key, now_ms)
