"""One claim at a time: what the kernel makes of a record or an event, against the machines."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import attrs
import numpy as np

from kafka_marshal.core import wire
from kafka_marshal.core.messages import (
    NO_HEADERS,
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    KeyedMessage,
    Message,
    Offset,
    Partition,
    Record,
    ReleaseGroup,
    ReleasingPartition,
)
from kafka_marshal.core.state import FENCED, ClaimKey
from kafka_marshal.kernel.columns import Ints, NameCodes, header_row
from kafka_marshal.kernel.judge import consumers, events
from kafka_marshal.machines.consumer import consumer as machine
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, Mode
from kafka_marshal.machines.consumer.effects import Send
from kafka_marshal.validate.compiled.words import Words
from kafka_marshal.validate.instances import Instance
from kafka_marshal.validate.run import RecordedInstance

RULES = attrs.evolve(
    FENCED, heartbeat_interval_ms=10_000, pause_max_ms=60_000, clock_rewind_max_ms=5_000
)
KEY = ClaimKey("g", "t", 0)
INSTANCES = ("i0", "i1", "i2", "i3")


def _about(instance: str, version: int = 1) -> tuple[int, int, str, str, str, str, Partition]:
    client = f"c{INSTANCES.index(instance) // 2}"
    return version, 5, instance, client, KEY.group, KEY.topic, Partition(KEY.topic_partition)


def any_record(chance: Random, offset: int, clock_ms: int, known: ConsumerState) -> Record:
    """Mostly of who owns by this reader, so that claims live for a while."""
    claim = known.known
    instance = chance.choice((INSTANCES[0], INSTANCES[0], *INSTANCES))
    if claim.owner_instance is not None and chance.random() < 0.7:
        instance = claim.owner_instance
    said = max(0, claim.position + chance.randint(-2, 4))
    about = _about(instance, chance.choice((0, 1, 1, 1, 1, 1, 2)))
    epoch = claim.epoch if chance.random() < 0.8 else chance.randrange(offset + 2)
    saw = chance.random() < 0.6
    headers = Headers(
        True,
        epoch=epoch,
        seen=chance.randrange(max(0, offset - 4), offset + 1) if saw else None,
        clock=max(0, clock_ms + 1000 * chance.randint(-9, 1)) if saw else None,
        set_position=chance.choice((None, None, None, said)),
        start=chance.choice((None, 0, 3)),
    )
    message: Message
    match chance.randrange(12):
        case 0 | 1:
            message = ClaimingPartition(*about)
            supersedes = chance.choice((None, claim.epoch))
            headers = Headers(True, supersedes=supersedes, interval_ms=10_000)
        case 2:
            message = ReleasingPartition(*about, Offset(said))
        case 3 | 4:
            message = ClaimingMessages(*about, Offset(said))
        case 5:
            if chance.random() < 0.7:
                return any_record(chance, offset, clock_ms, known)
            version, stamp, sender, client, group, *_ = about
            until_s = clock_ms // 1000 + chance.randint(-20, 90)
            message = ReleaseGroup(version, stamp, sender, client, group, "", Partition(0), until_s)
        case _:
            message = Heartbeat(*about, Offset(said))
    if chance.random() < 0.1:
        headers = NO_HEADERS
    return Record(0, offset, clock_ms, message, headers)


def any_send(
    chance: Random, me: InstanceConfig, consumer: ConsumerState
) -> tuple[KeyedMessage, Headers]:
    """What it would send, and half of the time something about it is another."""
    asked = consumer.known.position + chance.randint(0, 4)
    made = chance.choice(
        (
            machine.heartbeat_sent(me, consumer, KEY),
            machine.claiming_partition_sent(me, consumer, KEY),
            machine.claiming_messages_sent(me, consumer, KEY, asked),
            machine.releasing_partition_sent(me, consumer, KEY, done=chance.choice((None, 3))),
            machine.position_sent(me, consumer, KEY, asked),
        )
    )
    message, headers = made.message, made.headers
    assert not isinstance(message, ReleaseGroup)
    if chance.random() < 0.5:
        name = chance.choice([field.name for field in attrs.fields(Headers)][1:])
        number = getattr(headers, name)
        other = chance.choice((None, 0, 3, 10_000, (number or 0) + 1))
        if name == "interval_ms" and other == 0:
            other = 1  # no interval is shorter
        headers = attrs.evolve(headers, **{name: other})  # type: ignore[arg-type]
    if chance.random() < 0.1 and not isinstance(message, ClaimingPartition):
        message = attrs.evolve(message, offset=Offset(message.offset + 1))
    if chance.random() < 0.05:
        message = attrs.evolve(message, version=0)
    return message, headers if chance.random() < 0.95 else NO_HEADERS


class _Kernel:
    """One row of consumers."""

    def __init__(self, me: InstanceConfig, first: int) -> None:
        self.names = NameCodes()
        for instance in INSTANCES:
            self.names.address(Heartbeat(*_about(instance), Offset(0)))
        self.row = np.zeros((1, consumers.CONSUMER_FIELDS), np.int64)
        events.begin_row(self.row, 0, first)
        codes = self.names.instances.code(me.instance_id), self.names.clients.code(me.client_id), 1
        self.me = np.array(
            [*codes, me.mode is Mode.AT_MOST_ONCE, me.window, me.batch, me.start, me.admin,
             me.certifies, int(me.rules.heartbeat_interval_ms), 1, 1]
        )  # fmt: skip

    def said(self, message: Message, headers: Headers) -> tuple[int, int, int, bool, Ints]:
        layout = wire.BY_CLASS[type(message)]
        number = 0 if layout.number is None else getattr(message, layout.number)
        row = np.array([header_row(headers)], np.int64)
        return wire.number_of(type(message)), message.version, number, headers.present, row

    def read(self, record: Record) -> bool:
        message = record.message
        instance = self.names.instances.code(message.instance_id)
        kind, version, number, present, headers = self.said(message, record.headers)
        if not consumers.has_room(self.me, self.row[0], kind, instance):
            return False
        consumers.reads(
            self.me, self.row, 0, kind, version, number, present, headers, 0, record.offset,
            record.timestamp_ms, instance, self.names.clients.code(message.client_id),
            int(RULES.stale_after_ms), RULES.pause_max_ms, RULES.clock_rewind_max_ms,
        )  # fmt: skip
        return True

    @property
    def consumer(self) -> ConsumerState:
        return Words(self.names).consumer(self.row[0])


def members(seed: int) -> Iterator[tuple[InstanceConfig, int]]:
    """Who it is, and where it begins to read."""
    for mode in Mode:
        for admin in (False, True):
            me = InstanceConfig(
                "i0", "c0", mode, 4, 3, start=seed % 2 * 3, admin=admin, certifies=seed % 4 != 3,
                rules=RULES,
            )  # fmt: skip
            yield me, seed % 3


def compare_steps(seed: int, records: int) -> dict[str, int]:
    """How often what was explained, and what was not.

    Raises:
        AssertionError: the kernel differs from the machine.
    """
    counted = {"sent": 0, "not sent": 0, "processed": 0, "not processed": 0}
    for me, first in members(seed):
        chance = Random(f"{seed}{me}")
        ours, kernel = ConsumerState.beginning_at(first), _Kernel(me, first)
        offset, clock_ms = first, 40_000
        for _ in range(records):
            offset += chance.choice((1, 1, 1, 2))
            clock_ms = max(0, clock_ms + 1000 * chance.choice((-4, 0, 1, 3, 8, 30, 90)))
            record = any_record(chance, offset, clock_ms, ours)
            if not kernel.read(record):
                break
            ours = machine.after_read(me, ours, record)
            assert kernel.consumer == ours, record
            for _ in range(2):
                message, headers = any_send(chance, me, ours)
                says = attrs.evolve(me, says_interval=headers.interval_ms is not None)
                guard, would, after = machine.would_send(says, ours, message, headers.done)
                fine = Instance._judged(guard, would, Send(message, headers)) is None
                before = kernel.row.copy()
                kind, version, number, present, row = kernel.said(message, headers)
                found = consumers.sends(
                    kernel.me, kernel.row[0], kind, version, number, present, row[0]
                )
                assert found == fine, (message, headers, guard, would)
                counted["sent" if fine else "not sent"] += 1
                assert kernel.consumer == (after if fine else ours)
                if chance.random() < 0.7:
                    kernel.row = before
                else:
                    ours = after if fine else ours
            ours = _process(chance, me, ours, kernel, counted)
    return counted


def _process(
    chance: Random,
    me: InstanceConfig,
    ours: ConsumerState,
    kernel: _Kernel,
    counted: dict[str, int],
) -> ConsumerState:
    starts = [ours.next, *(each.start for each in ours.granted)]
    start = chance.choice(starts) + chance.choice((0, 0, 0, 1))
    stop = start + chance.randint(1, 3)
    instance = Instance(RecordedInstance(me, KEY.group), lambda topic: 0)
    if me.mode is Mode.AT_MOST_ONCE:
        against, after = instance._process_grant(ours, range(start, stop))
    else:
        against, after = instance._process(me, ours, start, stop)
    fine = against is None
    room = int(kernel.row[0, consumers.GRANTS]) < consumers.GRANTS_MAX
    found = consumers.processes(kernel.me, kernel.row[0], start, stop)
    assert found == fine or (fine and not room)
    counted["processed" if fine else "not processed"] += 1
    assert kernel.consumer == (after if found else ours)
    return after if found else ours
