"""What an observer of a log of groups receives: an event, its effect, and its group.

These are the values between the fold and its observers. This module judges nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import attrs
from attrs import define

from kafka_marshal.capture import RawRecord
from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    ControllerStarted,
    EventRecord,
    MemberExpired,
    MemberLeft,
    MemberRegistered,
    Reconciled,
)
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import (
    Controllership,
    Group,
    GroupPartition,
    TopicPartition,
)
from kafka_marshal.core.groups.verdicts import (
    GroupAccepted,
    GroupRefused,
    OfAPosition,
    OfARelease,
    Verdict,
)
from kafka_marshal.replay.model.published import ProofRow
from kafka_marshal.replay.model.rows import readable_bytes


@define
class SeenEvent:
    """One event and the result of `step`."""

    raw: RawRecord
    record: EventRecord
    clock_ms: int
    """The latest timestamp of the log's partition so far: time never goes back."""
    was: Controllership
    outcome: GroupOutcome

    @cached_property
    def kept(self) -> SeenEvent:
        """A reduced form of the event for long storage, with only the parts needed of an old event.

        A state references every partition of every group. Of an old event, only the members of its
        own group are needed, and the partitions that it named or that its member owned.
        """
        event, member = self.record.event, self.member
        named = event.positions if isinstance(event, Reconciled) else ()

        def reduced(state: Controllership) -> Controllership:
            group = state.groups.get(self.name)
            if group is None:
                return attrs.evolve(state, groups={})
            partitions = {
                tp: each
                for tp, each in group.partitions.items()
                if tp in named or (member is not None and each.owner == member)
            }
            return attrs.evolve(
                state, groups={self.name: attrs.evolve(group, partitions=partitions)}
            )

        was, now = self.was, self.outcome.controllership
        return attrs.evolve(
            self,
            was=reduced(was),
            outcome=attrs.evolve(self.outcome, controllership=reduced(now)),
        )

    @property
    def verdict(self) -> Verdict:
        """Its verdict: accepted, or the guard that refused it."""
        return self.outcome.verdict

    @property
    def accepted(self) -> GroupAccepted | None:
        """Its effect; None if it was refused."""
        verdict = self.outcome.verdict
        return verdict if isinstance(verdict, GroupAccepted) else None

    @property
    def refused(self) -> GroupRefused | None:
        """The guard that refused it; None if it was accepted."""
        verdict = self.outcome.verdict
        return verdict if isinstance(verdict, GroupRefused) else None

    @property
    def offset(self) -> int:
        """Its log offset."""
        return self.raw.offset

    @property
    def name(self) -> str:
        """The group that it is about; empty for an event of the controllership."""
        return self.record.group

    @property
    def before(self) -> Group | None:
        """Its group before it."""
        return self.was.groups.get(self.record.group)

    @property
    def after(self) -> Group | None:
        """Its group after it."""
        return self.outcome.controllership.groups.get(self.record.group)

    @property
    def only_commits(self) -> bool:
        """It moved positions and no owner: most events are such, and nothing else is looked at."""
        releases = self.outcome.releases.values()
        return self.accepted is GroupAccepted.RECONCILED and OfARelease.RELEASED not in releases

    @property
    def changed(
        self,
    ) -> Iterator[tuple[TopicPartition, GroupPartition | None, GroupPartition | None]]:
        """Yield changed partitions of the group: before, after; None: it did not exist."""
        before, after = self.before, self.after
        was = {} if before is None else before.partitions
        now = {} if after is None else after.partitions
        if was is now:
            return
        if self.only_commits:
            for tp, verdict in self.outcome.positions.items():
                if verdict is OfAPosition.COMMITTED:
                    yield tp, was[tp], now[tp]
            return
        for tp, each in was.items():
            left = now.get(tp)
            if left is not each and left != each:
                yield tp, each, left
        for tp, each in now.items():
            if tp not in was:
                yield tp, None, each

    @property
    def member(self) -> str | None:
        """The member that it speaks of."""
        event = self.record.event
        if isinstance(event, MemberRegistered | MemberLeft | MemberExpired | Reconciled):
            return event.member
        return None

    @property
    def client(self) -> str | None:
        """That member's client id, as far as it is known."""
        event = self.record.event
        if isinstance(event, MemberRegistered):
            return event.client_id
        return self.client_of(self.member)

    def client_of(self, member: str | None) -> str | None:
        """The client id of a member of the group, before or after the event."""
        for group in (self.before, self.after):
            known = None if group is None or member is None else group.members.get(member)
            if known is not None:
                return known.client_id
        return None

    def proof(self) -> ProofRow:
        """The record as a proof in the table `findings`."""
        event = self.record.event
        sender, client = self.member, self.client
        if isinstance(event, ControllerStarted | ControllershipSnapshot):
            sender, client = str(event.controller_id), f"controller {event.host}:{event.port}"
        return ProofRow(
            offset=self.raw.offset,
            timestamp_ms=self.raw.timestamp_ms,
            type=type(event).__name__,
            sender_instance=sender,
            sender_client=client,
            verdict=self.verdict.value,
            value=readable_bytes(self.raw.value),
        )
