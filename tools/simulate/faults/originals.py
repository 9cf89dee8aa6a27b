"""An original joins the group for a while. What its fleet keeps, and what not, is in interop.md."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
from attrs import define, field
from tests.machines.interop.originals import Original
from tools.simulate.faults.fault import intervals
from tools.simulate.history import NO_EPOCH, Given

from kafka_marshal.codec import MalformedRecord, coordinating_partition, decode, encode
from kafka_marshal.core.claims.world import World as ClaimsWorld
from kafka_marshal.core.messages import Message, Record
from kafka_marshal.core.state import ORIGINAL
from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.machines.consumer.effects import Send

if TYPE_CHECKING:
    from tools.simulate.world import World

TURN_S: Final = 1.0
"""How often it looks at the log, and works."""
CHANGES: Final = 0.1
"""How often its connection becomes slow, or fast again."""


@define
class Surroundings:
    """What an original knows of a simulated world: a topic, and where it is coordinated."""

    world: World
    topic: str
    records: list[Record] = field(factory=list)
    """What it has read of the log, from its beginning."""
    read: int = 0

    @property
    def now_ms(self) -> int:
        """The true time, unix milliseconds."""
        return self.world.scheduler.clock.unix_ms()

    @property
    def place(self) -> int:
        """The coordinating partition."""
        return coordinating_partition(self.topic, self.world.setting.log_partitions)

    @property
    def logs(self) -> dict[int, list[Record]]:
        """Everything there, decoded, but for what is no record of the protocol."""
        partition = self.world.kafka.topics[COORDINATION_TOPIC][self.place]
        for offset in range(self.read, partition.high):
            stored = partition.records[offset]
            if stored is None:
                continue
            try:
                message = decode(stored.value)
            except MalformedRecord:
                continue
            self.records.append(Record(self.place, offset, stored.timestamp_ms, message))
        self.read = partition.high
        return {self.place: self.records}

    def end_of(self, partition: int) -> int:
        """The end of a partition of the topic; 0 where there is none."""
        if partition >= self.world.partitions(self.topic):
            return 0
        return self.world.kafka.topics[self.topic][partition].high

    def send(self, message: Message) -> None:
        """Append it as an original does: without a key and without headers."""
        self.world.kafka.append(COORDINATION_TOPIC, self.place, encode(message))

    def append(self, send: Send) -> None:
        """Append what has been on the wire."""
        self.send(send.message)


class Noted(list[tuple[int, int]]):
    """What it processes goes into the history at once, before its heartbeat says so."""

    def __init__(self, around: Surroundings, instance: str) -> None:
        super().__init__()
        self._around, self._instance = around, instance

    def __iadd__(self, processed: Iterable[tuple[int, int]]) -> Noted:  # type: ignore[override,misc]
        around, name = self._around, self._instance
        at_s = around.world.scheduler.clock.monotonic()
        around.world.history.processed += [
            Given(at_s, name, name, around.topic, partition, NO_EPOCH, offset)
            for partition, offset in processed
        ]
        return self


def original(world: World, chance: Random) -> str:
    """An original claims the free partitions of a topic, works for some intervals, and stops.

    It may start again under its client id, and then takes what its predecessor owned.
    """
    topic, client = chance.choice(world.setting.topics), chance.choice(("o", "p", "c0"))
    did = [_works(world, chance, topic, client, restarts=chance.random() < 0.3)]
    while did[-1] == "dies" and chance.random() < 0.5 and not world.calm:
        did.append(_works(world, chance, topic, client, restarts=True))
    return f"under {client} at {topic}: {', starts again, '.join(did)}"


def _works(world: World, chance: Random, topic: str, client: str, *, restarts: bool) -> str:
    """One instance, from its start to its end."""
    world.originals += 1
    name, around = f"o{world.originals}", Surroundings(world, topic)
    interval_ms = int(1000 * world.setting.heartbeat_interval_s)
    rules = attrs.evolve(ORIGINAL, heartbeat_interval_ms=interval_ms)
    partitions = world.partitions(topic)
    one = Original(around, name, client, partitions, ClaimsWorld(rules), interval_ms)
    one.processed, one.knows_groups = Noted(around, name), chance.random() < 0.5
    clock = world.scheduler.clock
    until_s = clock.monotonic() + intervals(world, chance, 1.0, 4.0, 12.0)
    if restarts:
        one.fast_reclaim()
    while clock.monotonic() < until_s and not world.calm:
        one.turn()
        if chance.random() < CHANGES:
            if one.wire is None:
                one.wire = []  # from now on its records take their time
            else:
                one.land()
        world.scheduler.sleep(TURN_S)
    one.land()
    if chance.random() < 0.5:
        return "dies"
    one.look()
    one.release()
    return "releases"
