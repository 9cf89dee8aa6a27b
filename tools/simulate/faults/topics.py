"""Topics grow, and the log gets records that nobody expects."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

from kafka_marshal.errors import COORDINATION_TOPIC

if TYPE_CHECKING:
    from tools.simulate.world import World


# A stranger who claims in the group is a member, and what it says counts: see SECURITY.md.
HOSTILE: Final = (
    b"",
    b"\xff\xfe",
    b"Heartbeat/1",
    b"Heartbeat/1/0/i/c/g/orders/99999999999999999999/1",
    b"ClaimingPartition/1/0/nobody/nobody/others/orders/0",
    b"ReleasingPartition/1/0/nobody/nobody/g/orders/0/0",
    b"Heartbeat/9/0/i/c/g/orders/0/1",
)


def hostile(world: World, chance: Random) -> str:
    """Somebody appends what is no record of the protocol, or one of a stranger."""
    value = chance.choice(HOSTILE)
    partition = chance.randrange(world.setting.log_partitions)
    world.kafka.append(COORDINATION_TOPIC, partition, value)
    return f"{value!r} to partition {partition}"


def grow(world: World, chance: Random) -> str:
    """A topic gets one partition more, until it has twice as many."""
    topic = chance.choice(world.setting.topics)
    if len(world.kafka.topics[topic]) >= 2 * world.setting.partitions:
        return "nothing"
    world.kafka.grow(topic)
    return topic
