"""Topics grow, vanish and come back, and lose messages before anybody has consumed them."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tools.simulate.faults.fault import intervals

if TYPE_CHECKING:
    from tools.simulate.world import World


def grow(world: World, chance: Random) -> str:
    """A topic gets one more partition, until it has twice as many."""
    topic = chance.choice(world.setting.topics)
    if not 0 < world.partitions(topic) < 2 * world.setting.partitions:
        return "nothing"
    world.kafka.grow(topic)
    return topic


def trim(world: World, chance: Random) -> str:
    """Retention removes old messages of a partition, even if nobody has consumed them."""
    topic = chance.choice(world.setting.topics)
    if not world.partitions(topic):
        return "nothing"
    number = chance.randrange(world.partitions(topic))
    there = world.kafka.topics[topic][number]
    before = there.low + int((there.high - there.low) * chance.choice((0.5, 0.9, 1.0)))
    world.kafka.delete_records(topic, number, before)
    return f"{topic}/{number} begins at {before}"


def vanish(world: World, chance: Random) -> str:
    """A topic is deleted, and later created again, empty."""
    topic = chance.choice(world.setting.topics)
    count = world.partitions(topic)
    if not count:
        return "nothing"
    world.kafka.delete(topic)
    for_s = intervals(world, chance, 0.01, 0.3, 2.0)
    world.scheduler.sleep(for_s)
    world.kafka.create(topic, count)
    return f"{topic} for {for_s:g} s"
