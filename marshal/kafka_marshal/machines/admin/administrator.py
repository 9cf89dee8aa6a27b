"""The timing of an administrator that sets positions: when it acts, and when it gives up.

`admin` defines what is allowed; this module only decides when. So a mistake here can cost time, but
never leave positions half set without a report. Every event comes in as a call with `now_ms`, the
administrator's own clock, which is only a hint and may start anywhere. Actions go out as effects.
There are no threads here, no Kafka and no clock.

The runtime passes every record of the coordinating partition. For everything that it was given to
send, it calls `appended` or, if it will never know, `outcome_unknown`. An administrator serves one
operation: its records may land after the operation has ended, and belong to that operation's
instance id.

>>> from kafka_marshal.machines.consumer.consumer import Mode
>>> me = InstanceConfig("x1", "x", Mode.AT_MOST_ONCE, admin=True)
>>> administrator = Administrator(me, "g")
>>> [pause] = administrator.begin({ClaimKey("g", "events", 0): 500}, now_ms=0)
>>> [claim] = administrator.record(Record(7, 0, 5, pause.message, pause.headers), now_ms=5)
>>> [write] = administrator.record(Record(7, 1, 6, claim.message, claim.headers), now_ms=6)
>>> administrator.record(Record(7, 2, 7, write.message, write.headers), now_ms=7)
[WorkDone(result=AllSet(set=frozenset({ClaimKey(group='g', topic='events', topic_partition=0)})))]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from attrs import field, frozen

from kafka_marshal.core.claims.pause_work import NO_WORK, PauseWork
from kafka_marshal.core.messages import ClaimingPartition, Message, Record, ReleaseGroup
from kafka_marshal.core.state import ClaimKey
from kafka_marshal.core.validators import positive
from kafka_marshal.machines.admin import admin as moves
from kafka_marshal.machines.admin.operation import (
    Against,
    Operation,
    Phase,
    Reason,
    Result,
    after_gap,
    consumer_of,
    under_way,
)
from kafka_marshal.machines.consumer.consumer import InstanceConfig
from kafka_marshal.machines.consumer.effects import Send


@frozen
class WorkDone:
    """The operation is over: report its result to the operator."""

    result: Result


@frozen
class UnfinishedWork:
    """An earlier administrator left its work half done: warn the operator."""

    work: PauseWork


AdminEffect: TypeAlias = Send | WorkDone | UnfinishedWork


class OperationForbidden(ValueError):
    """The request is not allowed in this state: `against` is the reason."""

    def __init__(self, against: Against) -> None:
        super().__init__(against.value.replace("_", " "))
        self.against = against


@frozen
class AdministratorTiming:
    """How long an administrator tries, in milliseconds of its own clock."""

    pause_ms: int = field(default=600_000, validator=positive)
    """The length of the group's pause; after it, no first write is sent."""
    heartbeat_every_ms: int = field(default=60_000, validator=positive)
    """The time between two heartbeats of a claim while the others are not won yet."""
    ask_again_after_ms: int = field(default=5_000, validator=positive)
    """The delay after a request that was refused."""


class Administrator:
    """One operation on several claims of a group. Every method returns effects, in order."""

    def __init__(
        self,
        me: InstanceConfig,
        group: str,
        patience: AdministratorTiming | None = None,
        *,
        first: int = 0,
    ) -> None:
        """Read the coordinating partition of the group's topics from `first`."""
        self.me = me
        interval_ms = max(1, int(me.rules.heartbeat_interval_ms))
        self.patience = patience or AdministratorTiming(heartbeat_every_ms=interval_ms)
        self.operation = Operation.beginning_at(group, first)
        self._deadline_ms: int | None = None
        self._ask_at_ms: dict[ClaimKey, int] = {}
        self._heartbeat_at_ms: dict[ClaimKey, int] = {}

    @property
    def left_undone(self) -> PauseWork:
        """Unfinished work of an administrator, by what was read so far; NO_WORK if none.

        Before `begin` it means that another administrator may be at work; after it, it is our own
        work.
        """
        return moves.warning(self.operation.work)

    @property
    def next_timer_ms(self) -> int | None:
        """When to call `timer` next, by the administrator's own clock; None when it has ended."""
        ends_at_ms = self._ends_at_ms
        if ends_at_ms is None:
            return None
        asks = [at for key, at in self._ask_at_ms.items() if self._missing(key)]
        return min([ends_at_ms, *self._heartbeat_at_ms.values(), *asks])

    # --- what happens -----------------------------------------------------------------------------

    def begin(
        self, targets: Mapping[ClaimKey, int], now_ms: int, log_ms: int | None = None
    ) -> list[AdminEffect]:
        """Set these positions: all of them, or none.

        `log_ms` is the log's clock, which decides when the pause is over; None if `now_ms` equals
        it.

        Raises:
            NotAllowed: `may_begin` forbids it.
        """
        against = moves.may_begin(self.me, self.operation, targets)
        if against is not None:
            raise OperationForbidden(against)
        log_ms = now_ms if log_ms is None else log_ms
        expires_unix_s = -(-(log_ms + self.patience.pause_ms) // 1000)
        self._deadline_ms = now_ms + expires_unix_s * 1000 - log_ms
        self.operation = moves.after_beginning(self.me, self.operation, targets)
        return [moves.pause_sent(self.me, self.operation, expires_unix_s)]

    def record(self, record: Record, now_ms: int) -> list[AdminEffect]:
        """Read the next record of the coordinating partition, about any claim and group."""
        before = self.operation
        self.operation = moves.after_reading(self.me, before, record)
        effects: list[AdminEffect] = []
        if self.operation.warned is not before.warned and self.operation.warned != NO_WORK:
            effects.append(UnfinishedWork(self.operation.warned))
        own = record.message.instance_id == self.me.instance_id
        if own and isinstance(record.message, ClaimingPartition):
            key = moves.key_of(record)
            assert key is not None
            self._ask_at_ms[key] = now_ms + self.patience.ask_again_after_ms
        return effects + self._told_since(before) + self._go_on(now_ms)

    def pass_gap(self, first: int) -> None:
        """Records before `first` are gone that it has not read.

        Call off the operation: some of its own records may be among them.
        """
        self.operation = after_gap(self.me, self.operation, first)

    def appended(self, message: Message, now_ms: int) -> list[AdminEffect]:
        """The record was appended. This has no effect: only what is read back counts."""
        return self._go_on(now_ms)

    def outcome_unknown(self, message: Message, now_ms: int) -> list[AdminEffect]:
        """It is unknown whether the record was or will be appended: send it again, in a safe way.

        A claim is won again, so an earlier write is void if it lands later. A pause is not sent
        twice: the second one would end what was won under the first.
        """
        if not isinstance(message, ReleaseGroup):
            key = message.key
            if moves.may_stop_waiting(self.me, self.operation, key) is None:
                self.operation = moves.after_stopping_to_wait(self.me, self.operation, key)
                self._ask_at_ms.pop(key, None)
        return self._go_on(now_ms)

    def timer(self, now_ms: int) -> list[AdminEffect]:
        """Time has passed."""
        return self._go_on(now_ms)

    def call_off(self, now_ms: int, reason: Reason = Reason.CALLED_OFF) -> list[AdminEffect]:
        """The operator does not want to wait. No effect unless the operation is under way."""
        if moves.may_call_off(self.me, self.operation) is not None:
            return []
        before = self.operation
        self.operation = moves.after_calling_off(self.me, before, reason)
        return self._told_since(before) + self._go_on(now_ms)

    # --- what follows -----------------------------------------------------------------------------

    def _told_since(self, before: Operation) -> list[AdminEffect]:
        result = self.operation.result
        return [] if result is None or result is before.result else [WorkDone(result)]

    def _missing(self, key: ClaimKey) -> bool:
        return moves.may_claim_target(self.me, self.operation, key) is None

    def _go_on(self, now_ms: int) -> list[AdminEffect]:
        """Do everything that is allowed and due now."""
        if self._is_too_late(now_ms):
            return self.call_off(now_ms, Reason.PAUSE_EXPIRED)
        effects: list[AdminEffect] = []
        for key in sorted(self.operation.targets):
            due = now_ms >= self._ask_at_ms.get(key, now_ms)
            if due and self._missing(key):
                effects.append(self._send(moves.target_claimed, moves.after_claiming_target, key))
        for key in sorted(self.operation.targets):
            if moves.may_set_position(self.me, self.operation, key) is None:
                effects.append(self._send(moves.target_set, moves.after_setting_position, key))
        for key in sorted(self.operation.targets):
            if moves.may_let_go(self.me, self.operation, key) is None:
                effects.append(self._send(moves.target_let_go, moves.after_letting_go, key))
        return effects + self._heartbeats(now_ms)

    def _send(
        self,
        sent: Callable[[InstanceConfig, Operation, ClaimKey], Send],
        after: Callable[[InstanceConfig, Operation, ClaimKey], Operation],
        key: ClaimKey,
    ) -> Send:
        effect = sent(self.me, self.operation, key)
        self.operation = after(self.me, self.operation, key)
        return effect

    def _heartbeats(self, now_ms: int) -> list[AdminEffect]:
        """Keep the claims that are won until all are: the pause no longer protects them."""
        effects: list[AdminEffect] = []
        for key in sorted(self.operation.targets):
            if moves.may_heartbeat_target(self.me, self.operation, key) is not None:
                self._heartbeat_at_ms.pop(key, None)
                continue
            due_ms = self._heartbeat_at_ms.setdefault(
                key, now_ms + self.patience.heartbeat_every_ms
            )
            if now_ms >= due_ms:
                effects.append(moves.target_heartbeat(self.me, self.operation, key))
                self._heartbeat_at_ms[key] = now_ms + self.patience.heartbeat_every_ms
        return effects

    @property
    def _ends_at_ms(self) -> int | None:
        """When it gives up, by its own clock; None if it is not under way.

        After the first write, giving up would leave positions half set. So it then continues for as
        long as it may still own its claims.
        """
        if self._deadline_ms is None or not under_way(self.operation):
            return None
        writes = self.operation.phase is Phase.SETTING
        return self._deadline_ms + (int(self.me.rules.stale_after_ms) if writes else 0)

    def _is_too_late(self, now_ms: int) -> bool:
        """Whether the pause is over, by its own clock or by the log's."""
        ends_at_ms = self._ends_at_ms
        if ends_at_ms is None:
            return False
        return now_ms >= ends_at_ms or any(map(self._log_says_over, self.operation.targets))

    def _log_says_over(self, key: ClaimKey) -> bool:
        """Whether the pause of a claim is over by the log's clock.

        For claims that it has not won: its own win ends the pause of a claim.
        """
        consumer = consumer_of(self.operation, key)
        until_ms = consumer.known.paused_until_ms
        return (
            self.operation.phase is Phase.CLAIMING
            and until_ms is not None
            and consumer.known.clock_ms >= until_ms
        )
