"""`Marshal.tla`, action by action, over the machines: what can happen next, as often as TLC says.

An action yields a state for every way to take it, as TLC counts them. Each binding of `\\E` is a
way of its own, also where two lead to the same state. What follows for one instance depends on
little of the state, and is remembered with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_marshal import ClaimingPartition, ReleaseGroup
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState
from kafka_marshal.machines.consumer.effects import Send
from model_tests.explorer.claims.instance import (
    Sending,
    anything_sent,
    looks_claimable,
)
from model_tests.explorer.claims.parts import Local, Log, Parts, Rest, State
from model_tests.explorer.claims.world import Bounds

START_MS = 1000
"""Spec: Start."""

UNBORN, UP, STALLED, CRASHED = "unborn", "up", "stalled", "crashed"


def may_send(bounds: Bounds, local: Local, log: Log, kind: str) -> bool:
    """Bounds, not rules: how many of a kind it has sent. Spec: MaySend, but for LogMax."""
    name = bounds.world.instances[local.instance]
    return sent_by(local, log, name, kind) < bounds.world.sends_max[name][kind]


def sent_by(local: Local, log: Log, name: str, kind: str) -> int:
    """Spec: SentBy."""
    in_log = dict(log.sent.get(name, ())).get(kind, 0)
    return in_log + sum(type(sent.message).__name__ == kind for sent in local.outbox)


class Environment:
    """The actions of one world."""

    def __init__(self, bounds: Bounds) -> None:
        world = self.world = bounds.world
        assert world.rules == "fenced", "the machine knows the fenced rules only"
        assert not world.readers_own_clock, "the machine asks no clock"
        self.bounds = bounds
        self.parts = Parts(bounds.fold)
        self.names = world.instances
        self.instances = tuple(bounds.instance(name) for name in self.names)
        self.clients = tuple(world.client_of[name] for name in self.names)
        self.order = range(len(self.names))
        self._fresh = ConsumerState.beginning_at(0)
        rules = bounds.fold.rules
        longest_ms = max(int(rules.stale_after_ms), world.pause_s * 1000)
        self._time_matters_ms = longest_ms + 1000

    def initial(self) -> State:
        """Spec: Init."""
        world = self.world
        now = 0 if world.time_is_free else START_MS
        mishaps = [(name, 0) for name in ("copies", "cuts", "losses", "rewinds", "stalls")]
        rest = self.parts.rest(now, (0,) * world.message_count, frozenset(), tuple(mishaps))
        locals_ = (
            self.parts.local(i, UP if name in world.starts_up else UNBORN, self._fresh, ())
            for i, name in enumerate(self.names)
        )
        return (self.parts.empty_log, rest, *locals_)

    def successors(self, state: State) -> list[State]:
        """Every state that can follow, once for each way. Spec: Next."""
        log, rest = state[0], state[1]
        world = self.world
        found: list[State] = []
        add = found.append
        room = log.length + sum([len(local.outbox) for local in state[2:]]) < world.log_max
        for i in self.order:
            local = state[2 + i]
            head, tail = state[: 2 + i], state[3 + i :]
            if local.status == UP:
                if room:
                    for after in self.sends(local, log, rest.now):
                        add((*head, after, *tail))
                for after in self.give_up(local):
                    add((*head, after, *tail))
                if i not in rest.unaware:
                    for after in (*self.read(local, log), *self.pass_gap(local, log)):
                        add((*head, after, *tail))
                for processed, after in self.process(local, rest):
                    add((log, processed, *head[2:], after, *tail))
            if local.outbox:
                for appended, after in self.append(local, log, rest.now):
                    add((appended, rest, *head[2:], after, *tail))
                self._mishaps_on_the_way(state, i, room, found)
            self._rises_and_falls(state, i, found)
        self._of_the_log_and_time(state, found)
        return found

    # --- one instance sends -----------------------------------------------------------------------

    def sends(self, local: Local, log: Log, now: int) -> tuple[Local, ...]:
        """Spec: SendClaimingPartition to SendAnything. The log has room for one more."""
        name = self.names[local.instance]
        caught_up = local.consumer.view == log.length
        key = ("sends", log.sent.get(name, ()), now, caught_up)
        found: tuple[Local, ...] | None = local.memo.get(key)
        if found is None:
            outboxes = [
                self.parts.local(local.instance, local.status, after, (*local.outbox, sent))
                for sent, after in self._sendings(local, log, now)
            ]
            found = local.memo[key] = tuple(outboxes)
        return found

    def _sendings(self, local: Local, log: Log, now: int) -> Iterator[Sending]:
        who, world, consumer = self.instances[local.instance], self.world, local.consumer
        expires_unix_s = now // 1000 + world.pause_s
        name = self.names[local.instance]

        def may(kind: str) -> bool:
            return may_send(self.bounds, local, log, kind)

        asks = world.time_is_free or looks_claimable(
            who.me, consumer, now + world.skew_s[name] * 1000
        )
        if may("ClaimingPartition") and asks:
            yield from who.claiming_partition(consumer)
        if may("Heartbeat"):
            yield from who.heartbeat(consumer)
        if may("ReleasingPartition"):
            yield from who.releasing_partition(consumer, sorted(world.set_targets))
        if may("ClaimingMessages"):
            yield from who.claiming_messages(consumer, range(1, world.message_count + 1))
        if may("ReleaseGroup"):
            yield from who.release_group(consumer, expires_unix_s)
        if name in world.strangers:
            for sent in anything_sent(who.me, range(world.message_count + 1), expires_unix_s):
                if may(type(sent.message).__name__):
                    yield Sending(sent, consumer)

    def give_up(self, local: Local) -> tuple[Local, ...]:
        """Spec: GiveUp."""
        if not self.world.gives_up:
            return ()
        found: tuple[Local, ...] | None = local.memo.get("give_up")
        if found is None:
            who = self.instances[local.instance]
            found = tuple(self._becomes(local, after) for after in who.give_up(local.consumer))
            local.memo["give_up"] = found
        return found

    # --- the broker -------------------------------------------------------------------------------

    def append(self, local: Local, log: Log, now: int) -> list[tuple[Log, Local]]:
        """Spec: Append."""
        key = (log, now)
        found: list[tuple[Log, Local]] | None = local.memo.get(key)
        if found is None:
            found = local.memo[key] = [
                (appended, self._without(local, k))
                for k in self.may_arrive(local)
                for appended in self.append_sent(log, local.outbox[k], now)
            ]
        return found

    def may_arrive(self, local: Local) -> range:
        """With an idempotent producer the oldest; else any. Spec: MayArrive."""
        return range(len(local.outbox) if self.world.reorders else min(1, len(local.outbox)))

    def append_sent(self, log: Log, sent: Send, now: int) -> list[Log]:
        """Spec: AppendSent."""
        return [
            self.parts.appended(log, sent, now, stale, over)
            for stale in self.stale_choices(log, sent)
            for over in self.pause_over_choices(log, sent)
        ]

    def stale_choices(self, log: Log, sent: Send) -> tuple[bool, ...]:
        """Spec: StaleChoices."""
        asks = self.world.time_is_free and isinstance(sent.message, ClaimingPartition)
        owner = log.claim.owner_instance
        if asks and owner not in (None, sent.message.instance_id):
            return (False, True)
        return (False,)

    def pause_over_choices(self, log: Log, sent: Send) -> tuple[bool, ...]:
        """Spec: PauseOverChoices."""
        paused = self.world.time_is_free and log.claim.paused_until_ms is not None
        if not paused or isinstance(sent.message, ReleaseGroup):
            return (False,)
        return (True,) if log.pause_was_over else (False, True)

    def _mishaps_on_the_way(self, state: State, i: int, room: bool, found: list[State]) -> None:
        """Spec: AppendCopy, Lose."""
        log, rest, local = state[0], state[1], state[2 + i]
        if rest.mishaps["copies"] < self.world.copies_max and room:
            after = self._mishap(rest, "copies")
            for k in self.may_arrive(local):
                for appended in self.append_sent(log, local.outbox[k], rest.now):
                    found.append((appended, after, *state[2:]))
        if rest.mishaps["losses"] < self.world.losses_max:
            after = self._mishap(rest, "losses")
            for k in self.may_arrive(local):
                without = self._without(local, k)
                found.append((log, after, *state[2 : 2 + i], without, *state[3 + i :]))

    # --- one instance reads and processes ---------------------------------------------------------

    def read(self, local: Local, log: Log) -> tuple[Local, ...]:
        """Spec: Read."""
        view = local.consumer.view
        if view >= log.length:
            return ()
        stored = log.path[view + 1].stored
        assert stored is not None
        key = ("read", id(stored))
        found: tuple[Local, ...] | None = local.memo.get(key)
        if found is None:
            who = self.instances[local.instance]
            found = (self._becomes(local, who.read(local.consumer, stored)),)
            local.memo[key] = found
        return found

    def pass_gap(self, local: Local, log: Log) -> tuple[Local, ...]:
        """Spec: PassGap."""
        if self.names[local.instance] not in self.world.misses:
            return ()
        who, consumer = self.instances[local.instance], local.consumer
        firsts = range(consumer.view + 1, log.length + 1)
        return tuple(self._becomes(local, who.gap(consumer, first)) for first in firsts)

    def process(self, local: Local, rest: Rest) -> list[tuple[Rest, Local]]:
        """Spec: Process, ProcessGrant."""
        found: list[tuple[frozenset[int], Local]] | None = local.memo.get("process")
        if found is None:
            who, consumer = self.instances[local.instance], local.consumer
            found = [
                (frozenset({message}), self._becomes(local, after))
                for message, after in who.process(consumer)
                if message < self.world.message_count
            ]
            found += [
                (frozenset(m for each in granted for m in each), self._becomes(local, after))
                for granted, after in who.process_grant(consumer)
            ]
            local.memo["process"] = found
        return [(self._processed(rest, messages), after) for messages, after in found]

    # --- what goes wrong --------------------------------------------------------------------------

    def _rises_and_falls(self, state: State, i: int, found: list[State]) -> None:
        """Spec: Crash, Restart, Join, Stall, Resume, Refold."""
        local, rest, world = state[2 + i], state[1], self.world
        status = local.status
        if status == UNBORN:
            same = [j for j in self.order if self.clients[j] == self.clients[i]]
            late = self.names[i] in world.joins_late
            # Once for each predecessor that crashed, as TLC counts them.
            ways = sum(state[2 + j].status == CRASHED for j in same)
            ways += late and all(state[2 + j].status == UNBORN for j in same)
            beginnings = range(state[0].length + 1) if late else (0,)
            for _ in range(ways):
                for first in beginnings:
                    begun = self._local(local, UP, ConsumerState.beginning_at(first))
                    found.append((*state[: 2 + i], begun, *state[3 + i :]))
            return
        if status == CRASHED:
            return
        if sum(other.status == CRASHED for other in state[2:]) < world.crashes_max:
            aware = self._aware(rest, i)
            gone = self._local(local, CRASHED, self._fresh)
            found.append((state[0], aware, *state[2 : 2 + i], gone, *state[3 + i :]))
        if status == STALLED:
            resumed = self._local(local, UP, local.consumer)
            found.append((*state[: 2 + i], resumed, *state[3 + i :]))
            return
        if rest.mishaps["stalls"] < world.stalls_max:
            stalled = self._local(local, STALLED, local.consumer)
            after = self._mishap(rest, "stalls")
            found.append((state[0], after, *state[2 : 2 + i], stalled, *state[3 + i :]))
        if i in rest.unaware:
            for j in self.order:
                if state[2 + j].status == UNBORN and self.clients[j] == self.clients[i]:
                    anew = list(state)
                    anew[1] = self._aware(rest, i)
                    anew[2 + i] = self._local(local, CRASHED, self._fresh)
                    anew[2 + j] = self._local(state[2 + j], UP, self._fresh)
                    found.append(tuple(anew))

    def _of_the_log_and_time(self, state: State, found: list[State]) -> None:
        """Spec: Truncate, Tick, StepBack."""
        log, rest, world = state[0], state[1], self.world
        if rest.mishaps["cuts"] < world.cuts_max:
            for length in range(log.length):
                passed = {i for i in self.order if state[2 + i].consumer.view > length}
                cut = self._mishap(rest, "cuts", unaware=rest.unaware | passed)
                found.append((log.path[length], cut, *state[2:]))
        if world.time_is_free:
            return
        last_ms = START_MS if log.stored is None else log.stored.record.timestamp_ms
        if rest.now < last_ms + self._time_matters_ms:
            found.append((log, self._at(rest, rest.now + world.tick_s * 1000), *state[2:]))
        if rest.mishaps["rewinds"] < world.rewinds_max and rest.now > START_MS:
            back = self._at(self._mishap(rest, "rewinds"), rest.now - world.tick_s * 1000)
            found.append((log, back, *state[2:]))

    # --- parts that become others -----------------------------------------------------------------

    def _becomes(self, local: Local, consumer: ConsumerState) -> Local:
        return self.parts.local(local.instance, local.status, consumer, local.outbox)

    def _local(self, local: Local, status: str, consumer: ConsumerState) -> Local:
        key = (status, consumer.view, consumer is local.consumer)
        found: Local | None = local.memo.get(key)
        if found is None:
            found = self.parts.local(local.instance, status, consumer, local.outbox)
            local.memo[key] = found
        return found

    def _without(self, local: Local, k: int) -> Local:
        outbox = local.outbox[:k] + local.outbox[k + 1 :]
        return self.parts.local(local.instance, local.status, local.consumer, outbox)

    def _processed(self, rest: Rest, messages: frozenset[int]) -> Rest:
        processed = tuple([n + (m in messages) for m, n in enumerate(rest.processed)])
        return self._rest(rest, processed=processed)

    def _mishap(self, rest: Rest, name: str, unaware: frozenset[int] | None = None) -> Rest:
        mishaps = {**rest.mishaps, name: rest.mishaps[name] + 1}
        return self._rest(rest, mishaps=mishaps, unaware=unaware)

    def _aware(self, rest: Rest, i: int) -> Rest:
        return self._rest(rest, unaware=rest.unaware - {i}) if i in rest.unaware else rest

    def _at(self, rest: Rest, now: int) -> Rest:
        return self._rest(rest, now=now)

    def _rest(
        self,
        rest: Rest,
        now: int | None = None,
        processed: tuple[int, ...] | None = None,
        unaware: frozenset[int] | None = None,
        mishaps: dict[str, int] | None = None,
    ) -> Rest:
        return self.parts.rest(
            rest.now if now is None else now,
            rest.processed if processed is None else processed,
            rest.unaware if unaware is None else unaware,
            tuple(sorted((rest.mishaps if mishaps is None else mishaps).items())),
        )


def acts(environment: Environment, local: Local) -> bool:
    """It is up and acts as the owner. Spec: ActsNow."""
    found: bool | None = local.memo.get("acts")
    if found is None:
        me = environment.instances[local.instance].me
        found = local.status == UP and machine.acts(me, local.consumer)
        local.memo["acts"] = found
    return found
