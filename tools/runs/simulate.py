"""Runs that are made, not recorded: a fleet of the real machines in a world of chance.

Consumers claim, heartbeat, process, release, stall, crash and come back; now and then an
administrator pauses the group and sets a position. What they do, the machines decide
(`kafka_marshal.machines`); when, a generator of random numbers does, so that a seed is a run. It is
what the validator is measured with, and what stands in for a recording until there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

import attrs

from kafka_marshal.codec import coordinating_partition
from kafka_marshal.core.messages import Record, ReleaseGroup
from kafka_marshal.core.state import FENCED, ClaimKey, Rules
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.validate import run
from kafka_marshal.validate.run import Fields, RecordedInstance, Setting

GROUP = "g"
START_MS = 1_795_000_000_000
FULL_LOG_MAX = 400
"""An instance that starts reads all of a log that is this long, and the end of a longer one."""


@attrs.frozen
class Fleet:
    """How many of what."""

    mode: Mode = Mode.AT_LEAST_ONCE
    consumers: int = 3
    topics: int = 2
    partitions: int = 2
    """Of the coordination topic."""
    admins: int = 1
    window: int = 20
    batch: int = 20
    certifies: bool = True
    crash: float = 0.002
    """How likely in a round, of each process; so are the following."""
    stall: float = 0.01
    release: float = 0.01
    lose: float = 0.002
    """How likely a record of it never arrives."""
    pause: float = 0.001
    idempotent: bool = True
    rules: Rules = FENCED


class _Process:
    """One run of one process."""

    def __init__(
        self, me: InstanceConfig, first: dict[int, int], home: dict[ClaimKey, int]
    ) -> None:
        self.me = me
        self.consumers = {key: ConsumerState.beginning_at(first[home[key]]) for key in home}
        self.next_index = dict(first)
        self.outbox: dict[int, deque[Send]] = {place: deque() for place in first}
        self.stalled_until_ms = 0
        self.paused: set[ClaimKey] = set()


class Simulation:
    """A fleet, as far as it has got. Log offsets are dense, so an index is an offset."""

    def __init__(self, seed: int, fleet: Fleet) -> None:
        self.fleet = fleet
        self.now_ms = START_MS
        self.members: dict[str, RecordedInstance] = {}
        self._random = Random(seed)
        self._logs: dict[int, list[Record]] = {place: [] for place in range(fleet.partitions)}
        self._keys = [ClaimKey(GROUP, f"t{n}", 0) for n in range(fleet.topics)]
        self._home = {
            key: coordinating_partition(key.topic, fleet.partitions) for key in self._keys
        }
        self._processes: list[_Process] = []
        self._waiting = [(f"c{n}", False) for n in range(fleet.consumers)]
        self._waiting += [(f"a{n}", True) for n in range(fleet.admins)]

    @property
    def setting(self) -> Setting:
        """The first line of the run, once it is made."""
        fleet = self.fleet
        return Setting(fleet.rules, self.members, fleet.partitions, fleet.idempotent)

    def events(self) -> Iterator[Fields]:
        """What happens, for ever."""
        while True:
            self.now_ms += int(self.fleet.rules.heartbeat_interval_ms / 3)
            yield from self._starts()
            order = list(self._processes)
            self._random.shuffle(order)
            for process in order:
                yield from self._arrives(process)
                if process.stalled_until_ms > self.now_ms:
                    continue
                yield from self._reads(process)
                for key in self._keys:
                    yield from self._acts(process, key)
                yield from self._mishaps(process)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    # --- processes ----------------------------------------------------------------------------

    def _starts(self) -> Iterator[Fields]:
        for client, admin in self._waiting:
            fleet = self.fleet
            me = InstanceConfig(
                f"{client}-{len(self.members)}",
                client,
                fleet.mode,
                window=fleet.window,
                batch=fleet.batch,
                admin=admin,
                certifies=fleet.certifies,
                rules=fleet.rules,
            )
            first = {}
            for place, log in self._logs.items():
                first[place] = 0 if len(log) <= FULL_LOG_MAX else len(log) - FULL_LOG_MAX // 2
            self.members[me.instance_id] = RecordedInstance(me, GROUP)
            self._processes.append(_Process(me, first, self._home))
            yield run.started(me.instance_id, first)
        self._waiting = []

    def _mishaps(self, process: _Process) -> Iterator[Fields]:
        me = process.me
        if self._chance(self.fleet.stall):
            intervals = self._random.randint(1, 4)
            process.stalled_until_ms = self.now_ms + int(
                intervals * self.fleet.rules.heartbeat_interval_ms
            )
        if self._chance(self.fleet.crash):
            self._processes.remove(process)
            self._waiting.append((me.client_id, me.admin))
            yield run.crashed(me.instance_id)
            # What it has produced is under way all the same.
            yield from self._arrives(process)

    # --- the log ------------------------------------------------------------------------------

    def _arrives(self, process: _Process) -> Iterator[Fields]:
        for place, outbox in process.outbox.items():
            while outbox and not self._chance(0.1):
                index = 0 if self.fleet.idempotent else self._random.randrange(len(outbox))
                send = outbox[index]
                del outbox[index]
                if self._chance(self.fleet.lose):
                    continue
                copies = 1 if self.fleet.idempotent else self._random.choice((1, 1, 1, 2))
                for _ in range(copies):
                    log = self._logs[place]
                    record = Record(place, len(log), self.now_ms, send.message, send.headers)
                    log.append(record)
                    yield run.appended(record)

    def _reads(self, process: _Process) -> Iterator[Fields]:
        me = process.me
        for place, log in self._logs.items():
            end = len(log) if not self._chance(0.1) else process.next_index[place]
            for offset in range(process.next_index[place], end):
                self._read(process, place, log[offset])
                yield run.read(me.instance_id, place, offset)
            process.next_index[place] = end

    def _read(self, process: _Process, place: int, record: Record) -> None:
        message, consumers = record.message, process.consumers
        for key in self._keys_at(place) if isinstance(message, ReleaseGroup) else [message.key]:
            consumers[key] = machine.after_read(process.me, consumers[key], record)

    def _keys_at(self, place: int) -> list[ClaimKey]:
        return [key for key, home in self._home.items() if home == place]

    def _sends(self, process: _Process, place: int, send: Send) -> Fields:
        process.outbox[place].append(send)
        return run.sent(process.me.instance_id, place, send.message, send.headers)

    # --- what they do -------------------------------------------------------------------------

    def _acts(self, process: _Process, key: ClaimKey) -> Iterator[Fields]:
        me = process.me
        yield from self._processes_messages(process, key)
        consumer = process.consumers[key]
        if consumer.asked and self._chance(0.1):
            process.consumers[key] = machine.after_giving_up(me, consumer)
            yield run.gave_up(me.instance_id, key)
        elif me.admin:
            yield from self._administers(process, key)
        elif machine.may_heartbeat(me, consumer) is None:
            yield from self._as_owner(process, key)
        elif machine.may_claim(me, consumer) is None and self._looks_claimable(me, consumer):
            process.consumers[key] = machine.after_claiming_partition(me, consumer)
            send = machine.claiming_partition_sent(me, consumer, key, self._unix_s)
            yield self._sends(process, self._home[key], send)

    @property
    def _unix_s(self) -> int:
        return self.now_ms // 1000

    def _looks_claimable(self, me: InstanceConfig, consumer: ConsumerState) -> bool:
        known = consumer.known
        alive_ms = known.last_heartbeat_ms
        return (
            alive_ms is None
            or known.owner_client == me.client_id
            or self.now_ms - alive_ms > self.fleet.rules.stale_after_ms
        )

    def _as_owner(self, process: _Process, key: ClaimKey) -> Iterator[Fields]:
        me, place = process.me, self._home[key]
        consumer = process.consumers[key]
        if self._chance(self.fleet.release):
            process.consumers[key] = machine.after_release(me, consumer)
            send = machine.releasing_partition_sent(me, consumer, key, self._unix_s)
            yield self._sends(process, place, send)
            return
        offset = consumer.known.position + self._random.randint(1, self.fleet.batch)
        if machine.may_claim_messages(me, consumer, offset) is None and self._chance(0.5):
            process.consumers[key] = machine.after_claiming_messages(me, consumer, offset)
            send = machine.claiming_messages_sent(me, consumer, key, offset, self._unix_s)
            yield self._sends(process, place, send)
        yield self._sends(process, place, machine.heartbeat_sent(me, consumer, key, self._unix_s))

    def _processes_messages(self, process: _Process, key: ClaimKey) -> Iterator[Fields]:
        me, consumer = process.me, process.consumers[key]
        if machine.may_process_grant(me, consumer) is None:
            for granted in consumer.granted:
                yield run.processed(me.instance_id, key, granted.start, granted.stop)
            process.consumers[key] = machine.after_process_grant(me, consumer)
            return
        start = consumer.next
        for _ in range(self._random.randint(0, self.fleet.window)):
            if machine.may_process(me, consumer, consumer.next) is not None:
                break
            consumer = machine.after_process(me, consumer)
        if consumer.next > start:
            process.consumers[key] = consumer
            yield run.processed(me.instance_id, key, start, consumer.next)

    def _administers(self, process: _Process, key: ClaimKey) -> Iterator[Fields]:
        me, place = process.me, self._home[key]
        consumer = process.consumers[key]
        if key == self._keys[0] and self._chance(self.fleet.pause):
            process.paused = set(self._keys)
            until_s = self._unix_s + int(4 * self.fleet.rules.heartbeat_interval_ms / 1000)
            for each in self._logs:
                send = machine.release_group_sent(me, GROUP, until_s, self._unix_s)
                yield self._sends(process, each, send)
        elif key not in process.paused:
            return
        elif machine.may_heartbeat(me, consumer) is None:
            process.paused.discard(key)
            process.consumers[key] = machine.after_release(me, consumer)
            target = max(0, consumer.known.position + self._random.randint(-30, 30))
            send = machine.position_sent(me, consumer, key, target, self._unix_s)
            yield self._sends(process, place, send)
        elif machine.may_claim(me, consumer) is None:
            process.consumers[key] = machine.after_claiming_partition(me, consumer)
            send = machine.claiming_partition_sent(me, consumer, key, self._unix_s)
            yield self._sends(process, place, send)


def simulate(seed: int, events: int, fleet: Fleet | None = None) -> tuple[Setting, list[Fields]]:
    """A run of this number of events.

    >>> setting, events = simulate(1, 50)
    >>> len(events), sorted(setting.members)[:2]
    (50, ['a0-3', 'c0-0'])
    """
    simulation = Simulation(seed, fleet or Fleet())
    made = []
    for fields in simulation.events():
        made.append(fields)
        if len(made) >= events:
            break
    return simulation.setting, made
