"""The log of claims gets records that nobody expects, and loses some, or all of them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from tools.simulate.faults.fault import intervals

from kafka_marshal.errors import COORDINATION_TOPIC

if TYPE_CHECKING:
    from tools.simulate.world import World

# A stranger who claims in the group is a member, and what it says counts: see SECURITY.md.
NOTICED_S: Final = 10.0
"""How long it takes until everybody has read something of a log that was made anew."""
STRANGE: Final = (
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
    ours = world.setting.signing != "required"  # else see `forge`
    strange = [each for each in STRANGE if ours or b"/g/" not in each]
    value = chance.choice(strange)
    partition = chance.randrange(world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    world.kafka.append(COORDINATION_TOPIC, partition, value)
    return f"{value!r} to partition {partition}"


def lose_end(world: World, chance: Random) -> str:
    """An unclean election: a partition of the log of claims loses its last records."""
    partition = chance.randrange(world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    there = world.kafka.topics[COORDINATION_TOPIC][partition]
    end = max(there.low, there.high - chance.choice((1, 3, 10, 40)))
    world.kafka.truncate(COORDINATION_TOPIC, partition, end)
    return f"partition {partition} ends at {end}"


def trim_log(world: World, chance: Random) -> str:
    """Retention removes what is older than some intervals of a partition of the log of claims."""
    return _without_old(world, chance, world.kafka.delete_records, "begins at")


def compact_log(world: World, chance: Random) -> str:
    """Compaction removes what is older than some intervals; the low watermark stays as it was."""
    return _without_old(world, chance, world.kafka.compact, "is compacted below")


def _without_old(
    world: World, chance: Random, remove: Callable[[str, int, int], None], what: str
) -> str:
    partition = chance.randrange(world.setting.log_partitions)
    if partition >= world.partitions(COORDINATION_TOPIC):
        return "nothing"
    there = world.kafka.topics[COORDINATION_TOPIC][partition]
    since_ms = world.kafka.broker_ms() - int(1000 * intervals(world, chance, 2.0, 4.0, 8.0))
    before = there.first_at(since_ms)
    if before < 0:
        return "nothing"
    remove(COORDINATION_TOPIC, partition, before)
    return f"partition {partition} {what} {before}"


def vanish_log(world: World, chance: Random) -> str:
    """The topic with the log of claims is deleted, and made again after a while.

    Not while somebody does not read it. Once the new log is longer than the old one, that reader
    does not notice, and nothing helps (docs/safety.md).
    """
    stands = any(thread.stands for thread in world.scheduler.threads)
    unread = stands or world.kafka.linked or not world.kafka.log_flows
    if unread or not world.partitions(COORDINATION_TOPIC):
        return "nothing"
    settings = world.kafka.topic_settings[COORDINATION_TOPIC]
    world.kafka.delete(COORDINATION_TOPIC)
    for_s = intervals(world, chance, 0.01, 0.3, 2.0)
    world.read_until_s = world.scheduler.clock.monotonic() + for_s + NOTICED_S
    world.scheduler.sleep(for_s)
    world.kafka.create(COORDINATION_TOPIC, world.setting.log_partitions, settings=settings)
    return f"for {for_s:g} s"
