"""Brokers answer late, or not, or nobody knows; leaders move, and their clock is wrong."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Final

import attrs
from tools.simulate.faults.fault import intervals, one_of

from kafka_marshal.errors import COORDINATION_TOPIC
from kafka_marshal.testing.in_memory import (
    CUT,
    DOWN,
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNKNOWN,
    LOST,
    PAUSED,
    REPLIES_CUT,
    UP,
    Link,
)

if TYPE_CHECKING:
    from tools.simulate.world import World


UNKNOWN_AFTER_S: Final = (0.0, 0.5, 2.0, 30.0)
LINKS: Final = {
    "cut": CUT,
    "down": DOWN,
    "paused": PAUSED,
    "replies cut": REPLIES_CUT,
    "slow": Link(latency_s=0.3),
    "very slow": Link(latency_s=2.0),
}


def append(world: World, chance: Random) -> str:
    """For a while, appends to the log land but are not confirmed, or are lost."""
    became = chance.choice((LANDS_SOMEWHERE, LANDS_UNKNOWN, LOST))
    if became.error is not None:
        became = attrs.evolve(became, after_s=chance.choice(UNKNOWN_AFTER_S))
    share = chance.choice((0.1, 0.5, 1.0))
    for_s = intervals(world, chance, 0.1, 1.0, 3.0)
    world.kafka.appends = lambda _: became if chance.random() < share else LANDS
    world.scheduler.sleep(for_s)
    world.kafka.appends = lambda _: LANDS
    lands = "lands" if became.lands else "lost"
    return f"{share:g} of all {lands}, {became.error}, after {became.after_s:g} s, for {for_s:g} s"


def slow_append(world: World, chance: Random) -> str:
    """Confirmations arrive late."""
    after_s, for_s = intervals(world, chance, 0.01, 0.2, 1.5), intervals(world, chance, 1.0, 3.0)
    world.kafka.appends = lambda _: attrs.evolve(LANDS, after_s=after_s)
    world.scheduler.sleep(for_s)
    world.kafka.appends = lambda _: LANDS
    return f"after {after_s:g} s, for {for_s:g} s"


def cut(world: World, chance: Random) -> str:
    """Nobody can read the log for a while."""
    for_s = intervals(world, chance, 0.1, 1.0, 2.5, 4.0)
    world.kafka.hold_log()
    world.scheduler.sleep(for_s)
    world.kafka.flow()
    return f"for {for_s:g} s"


def slow_fetch(world: World, chance: Random) -> str:
    """Fetched messages arrive late, perhaps after their claim was lost."""
    after_s, for_s = intervals(world, chance, 0.01, 0.3, 2.1), intervals(world, chance, 1.0, 3.0)
    world.kafka.fetching = lambda _: world.scheduler.sleep(after_s)
    world.scheduler.sleep(for_s)
    world.kafka.fetching = lambda _: None
    return f"{after_s:g} s, for {for_s:g} s"


def link(world: World, chance: Random) -> str:
    """For a while, one process or all of them cannot reach a broker or all, or get no replies."""
    process = one_of(world, chance) if chance.random() < 0.7 else None
    broker = chance.choice((None, *world.kafka.numbers))
    name = chance.choice(sorted(LINKS))
    for_s = intervals(world, chance, 0.1, 1.0, 2.5)
    where = {"broker": broker, "process": None if process is None else process.name}
    world.kafka.link(LINKS[name], **where)
    world.scheduler.sleep(for_s)
    world.kafka.link(UP, **where)
    return f"{name}: {where['process'] or 'all'} to {broker or 'all'} for {for_s:g} s"


def move_leader(world: World, chance: Random) -> str:
    """Another broker becomes the leader of a partition of the log or of a topic."""
    topic = chance.choice((COORDINATION_TOPIC, *world.setting.topics))
    partition = chance.randrange(world.partitions(topic) or 1)
    broker = chance.choice(world.kafka.numbers)
    if partition >= world.partitions(topic):
        return "nothing"
    world.kafka.move_leader(topic, partition, broker)
    return f"{topic}/{partition} to broker {broker}"


def broker_clock(world: World, chance: Random) -> str:
    """The brokers' clock is set ahead by up to three intervals, or runs fast for a while."""
    clock = world.kafka.broker_clock
    if chance.random() < 0.5:
        by_s = intervals(world, chance, 0.1, 0.9, 3.0)
        clock.wall_s += by_s
        return f"ahead by {by_s:g} s"
    rate, for_s = chance.choice((-0.1, 0.1, 0.5)), intervals(world, chance, 1.0, 5.0)
    clock.drift(rate)
    world.scheduler.sleep(for_s)
    clock.drift(0.0)
    return f"{rate:+g} s each second, for {for_s:g} s"
