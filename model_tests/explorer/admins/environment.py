"""`SetPosition.tla`, action by action, over the reducer and the administrator's machine.

As in `claims.environment`, an action yields a state for every way to take it. A state is a
GroupLog, the Mishaps, and an Administrator for each instance. The consumer of the specification has
no memory, so it is here: it sends whatever a delayed one could send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from kafka_marshal import ClaimingPartition, ClaimKey, Headers, Heartbeat, ReleaseGroup
from kafka_marshal.core.messages import Message, Offset, Partition, ReleasingPartition
from kafka_marshal.machines.admin import admin
from kafka_marshal.machines.admin.operation import Operation, Phase, Reason, under_way
from kafka_marshal.machines.consumer.consumer import InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.modelcheck.models import Model
from model_tests.edges import admin_edges
from model_tests.explorer import configuration
from model_tests.explorer.admins.parts import (
    Administrator,
    GroupLog,
    Mishaps,
    PartsOfAdmins,
)
from model_tests.explorer.claims import world
from model_tests.explorer.claims.environment import CRASHED, UP
from model_tests.explorer.claims.parts import State
from model_tests.explorer.free_time import Fold

GROUP = "g"
PAUSE_S = 2
"""Spec: PauseS."""

TYPES = {
    "ClaimTarget": "ClaimingPartition",
    "HeartbeatTarget": "Heartbeat",
    "SetTarget": "ReleasingPartition",
    "LetGo": "ReleasingPartition",
}
"""What an action sends, of one claim."""

IN_TURN = ("ClaimTarget", "SetTarget")
"""Actions that ask InTurn."""


@frozen
class WorldOfAdmins:
    """Who takes part and how much of it there is. Spec: World; fields are the specification's."""

    keys: tuple[ClaimKey, ...]
    client_of: Mapping[str, str]
    targets: Mapping[str, Mapping[ClaimKey, int]]
    joins_late: frozenset[str]
    consumer: Mapping[str, str]
    offset_max: int
    consumer_sends_max: Mapping[str, int]
    admin_sends_max: Mapping[str, int]
    in_order: bool
    one_by_one: bool
    gives_up_max: int
    calls_off: bool
    crashes_max: int
    losses_max: int


def world_of(given: Mapping[str, Any]) -> WorldOfAdmins:
    """The record of TLC; fails if a field is missing or new."""
    named = admin_edges.KEYS
    keys = tuple(named[name] for name in sorted(given["keys"]))
    targets = {
        str(i): {named[str(key)]: position for key, position in each.items()}
        for i, each in given["targets"].items()
        if i in given["client_of"]
    }
    return WorldOfAdmins(**{**given, "keys": keys, "targets": targets})


@frozen
class BoundsOfAdmins:
    """Everything that makes the graph of one model of `SetPosition.tla`."""

    world: WorldOfAdmins
    fold: Fold


def bounds(model: Model) -> BoundsOfAdmins:
    """The bounds of a model; TLC runs once for the module."""
    cfg = configuration.read(model.cfg)
    assert cfg.substituted["IsStale"] == "RecordSaysStale"
    rules = world.rules_at(cfg, "fenced", 0)
    given = world.values(model.module)[cfg.substituted["World"]]
    return BoundsOfAdmins(world_of(given), Fold(rules, time_is_free=True))


class EnvironmentOfAdmins:
    """The actions of one world."""

    def __init__(self, bounds: BoundsOfAdmins) -> None:
        self.world = bounds.world
        self.parts = PartsOfAdmins(bounds.fold, bounds.world.keys)
        self.names = tuple(sorted(bounds.world.client_of))
        self.instances = tuple(
            InstanceConfig(
                *(name, bounds.world.client_of[name], Mode.AT_MOST_ONCE),
                admin=True,
                rules=bounds.fold.rules,
            )
            for name in self.names
        )

    def initial(self) -> State:
        """Spec: Init."""
        new = [
            self.parts.administrator(i, UP, Operation.beginning_at(GROUP, 0), ())
            for i in range(len(self.names))
        ]
        return (self.parts.empty_log, Mishaps(), *new)

    def successors(self, state: State) -> list[State]:
        """Every state that can follow, once for each way. Spec: Next."""
        log, mishaps = state[0], state[1]
        found: list[State] = []
        for i, local in enumerate(state[2:]):
            head, tail = state[2 : 2 + i], state[3 + i :]
            if local.status == UP:
                for after in self.does(local, log, self._waits_for_others(state, i)):
                    found.append((log, mishaps, *head, after, *tail))
                if mishaps.given_up < self.world.gives_up_max:
                    more = mishaps._replace(given_up=mishaps.given_up + 1)
                    for after in self.stop_waiting(local):
                        found.append((log, more, *head, after, *tail))
                for after in (*self.read(local, log), *self.crash(state, local)):
                    found.append((log, mishaps, *head, after, *tail))
            for after in self.join_late(local, log):
                found.append((log, mishaps, *head, after, *tail))
            if local.outbox:
                rest = self._without_first(local)
                for appended in self.append_sent(log, local.outbox[0]):
                    found.append((appended, mishaps, *head, rest, *tail))
                if mishaps.losses < self.world.losses_max:
                    lost = mishaps._replace(losses=mishaps.losses + 1)
                    found.append((log, lost, *head, rest, *tail))
        found += [(appended, *state[1:]) for appended in self.consumer_sends(log)]
        return found

    # --- what an administrator does ---------------------------------------------------------------

    def does(self, local: Administrator, log: GroupLog, waits: bool) -> tuple[Administrator, ...]:
        """Spec: Begin, ClaimTarget, HeartbeatTarget, SetTarget, LetGo, CallOff."""
        in_log = log.sent_by(self.names[local.instance])
        key = ("does", tuple(in_log.items()), waits)
        found: tuple[Administrator, ...] | None = local.memo.get(key)
        if found is None:
            found = local.memo[key] = tuple(self._does(local, log, waits))
        return found

    def _does(self, local: Administrator, log: GroupLog, waits: bool) -> Iterator[Administrator]:
        me, now = self.instances[local.instance], local.operation
        targets = self.world.targets[me.instance_id]
        in_turn = not waits and self.may_send(local, log, None, "ReleaseGroup")
        if in_turn and admin.may_begin(me, now, targets) is None:
            pause = admin.pause_sent(me, now, PAUSE_S)
            yield self._sends(local, pause, admin.after_beginning(me, now, targets))
        for action, guards in admin_edges.SENDING.items():
            may, sent, remembers = guards()
            for key in self.world.keys:
                if not self.may_send(local, log, key, TYPES[action]):
                    continue
                if action in IN_TURN and not self.in_turn(local, log, key, TYPES[action]):
                    continue
                if may(me, now, key) is None:
                    yield self._sends(local, sent(me, now, key), remembers(me, now, key))
        if self.world.calls_off and admin.may_call_off(me, now) is None:
            yield self._becomes(local, admin.after_calling_off(me, now, Reason.PAUSE_EXPIRED))

    def sent_by(self, local: Administrator, log: GroupLog, key: ClaimKey | None, kind: str) -> int:
        """Spec: SentBy."""
        in_log = log.sent_by(self.names[local.instance])[kind, key]
        return in_log + sum(
            type(sent.message).__name__ == kind and _key_of(sent) == key for sent in local.outbox
        )

    def may_send(
        self, local: Administrator, log: GroupLog, key: ClaimKey | None, kind: str
    ) -> bool:
        """Bounds, not rules. Spec: MaySend, of one that is up."""
        return self.sent_by(local, log, key, kind) < self.world.admin_sends_max[kind]

    def in_turn(self, local: Administrator, log: GroupLog, key: ClaimKey, kind: str) -> bool:
        """Bounds, not rules. Spec: InTurn."""
        first = self.world.keys[0]
        return not self.world.in_order or key == first or self.sent_by(local, log, first, kind) > 0

    def _waits_for_others(self, state: State, i: int) -> bool:
        """Spec: OneByOne."""
        return self.world.one_by_one and any(
            other.status == UP and under_way(other.operation)
            for other in state[2:]
            if other.instance != i
        )

    def stop_waiting(self, local: Administrator) -> list[Administrator]:
        """Spec: StopWaiting."""
        me, now = self.instances[local.instance], local.operation
        return [
            self._becomes(local, admin.after_stopping_to_wait(me, now, key))
            for key in self.world.keys
            if admin.may_stop_waiting(me, now, key) is None
        ]

    def read(self, local: Administrator, log: GroupLog) -> tuple[Administrator, ...]:
        """Spec: Read."""
        view = local.operation.view
        if view >= log.length:
            return ()
        stored = log.path[view + 1].stored
        assert stored is not None
        found: tuple[Administrator, ...] | None = local.memo.get(id(stored))
        if found is None:
            me = self.instances[local.instance]
            after = admin_edges.read_in_free_time(me, local.operation, stored)
            found = local.memo[id(stored)] = (self._becomes(local, after),)
        return found

    def join_late(self, local: Administrator, log: GroupLog) -> list[Administrator]:
        """Spec: JoinLate, NeverBegun."""
        now = local.operation
        begun = now.phase is not Phase.IDLE or now.view > 0
        if begun or self.names[local.instance] not in self.world.joins_late:
            return []
        return [
            self._becomes(local, Operation.beginning_at(GROUP, first))
            for first in range(1, log.length + 1)
        ]

    def crash(self, state: State, local: Administrator) -> list[Administrator]:
        """Spec: Crash, of one that is up."""
        crashed = sum(other.status == CRASHED for other in state[2:])
        if not under_way(local.operation) or crashed >= self.world.crashes_max:
            return []
        new = Operation.beginning_at(GROUP, 0)
        return [self.parts.administrator(local.instance, CRASHED, new, local.outbox)]

    # --- the broker -------------------------------------------------------------------------------

    def append_sent(self, log: GroupLog, sent: Send) -> list[GroupLog]:
        """Spec: AppendSent."""
        return [
            self.parts.appended(log, sent, stale, over)
            for stale in self.stale_choices(log, sent)
            for over in self.pause_over_choices(log, sent)
        ]

    def stale_choices(self, log: GroupLog, sent: Send) -> tuple[bool, ...]:
        """Spec: StaleChoices."""
        key = _key_of(sent)
        if key is None or not isinstance(sent.message, ClaimingPartition):
            return (False,)
        owned = log.claims[key].owner_instance not in (None, sent.message.instance_id)
        return (False, True) if owned else (False,)

    def pause_over_choices(self, log: GroupLog, sent: Send) -> tuple[bool, ...]:
        """Spec: PauseOverChoices."""
        key = _key_of(sent)
        if key is None or not isinstance(sent.message, ClaimingPartition):
            return (False,)
        claim = log.claims[key]
        if claim.paused_until_ms is None or claim.pauser == sent.message.instance_id:
            return (False,)
        return (True,) if key in log.over else (False, True)

    # --- the group's consumer ---------------------------------------------------------------------

    def consumer_sends(self, log: GroupLog) -> list[GroupLog]:
        """Spec: ConsumerClaims, ConsumerSpeaks."""
        found: list[GroupLog] | None = log.memo.get("consumer")
        if found is None:
            found = log.memo["consumer"] = [
                appended
                for key in self.world.keys
                for sent in self._consumer_sendings(log, key)
                for appended in self.append_sent(log, sent)
            ]
        return found

    def _consumer_sendings(self, log: GroupLog, key: ClaimKey) -> Iterator[Send]:
        who = self.world.consumer
        ids = (1, 0, who["instance_id"], who["client_id"], key.group, key.topic)
        about = (*ids, Partition(key.topic_partition))
        offset = Offset(self.world.offset_max)
        if self._consumer_may_send(log, ClaimingPartition):
            yield Send(ClaimingPartition(*about), Headers(present=True))
        epochs = [n - 1 for n, by, won in log.wins if (by, won) == (who["instance_id"], key)]
        for kind in (Heartbeat, ReleasingPartition):
            for epoch in epochs:
                if self._consumer_may_send(log, kind):
                    yield Send(kind(*about, offset), Headers(present=True, epoch=epoch))

    def _consumer_may_send(self, log: GroupLog, kind: type[Message]) -> bool:
        """Spec: ConsumerMaySend."""
        counts = log.sent_by(self.world.consumer["instance_id"])
        sent = sum(n for (name, _), n in counts.items() if name == kind.__name__)
        return sent < self.world.consumer_sends_max[kind.__name__]

    # --- parts that become others -----------------------------------------------------------------

    def _becomes(self, local: Administrator, operation: Operation) -> Administrator:
        return self.parts.administrator(local.instance, local.status, operation, local.outbox)

    def _sends(self, local: Administrator, sent: Send, after: Operation) -> Administrator:
        outbox = (*local.outbox, sent)
        return self.parts.administrator(local.instance, local.status, after, outbox)

    def _without_first(self, local: Administrator) -> Administrator:
        found: Administrator | None = local.memo.get("without_first")
        if found is None:
            found = local.memo["without_first"] = self.parts.administrator(
                local.instance, local.status, local.operation, local.outbox[1:]
            )
        return found


def _key_of(sent: Send) -> ClaimKey | None:
    """Which claim it is about, None for the whole group. Spec: Addressed."""
    message = sent.message
    if isinstance(message, ReleaseGroup):
        return None
    return message.key
