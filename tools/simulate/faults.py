"""What happens to the processes of a simulated world, to their log, their brokers and their topics.

Each fault is one function of the world, that chooses by a chance of its own: so a run can be
repeated with some of its faults left out. It returns what it did in a few words, for the story.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
from attrs import frozen
from tools.simulate import operators

from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.errors import COORDINATION_TOPIC, MarshalError
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
    from tools.simulate.setting import Setting
    from tools.simulate.world import Process, World

BOTH: Final[tuple[Semantics, ...]] = ("at_least_once", "at_most_once")
AT_LEAST_ONCE: Final[tuple[Semantics, ...]] = ("at_least_once",)
UNKNOWN_AFTER_S: Final = (0.0, 0.5, 2.0, 30.0)
LINKS: Final = {
    "cut": CUT,
    "down": DOWN,
    "paused": PAUSED,
    "replies cut": REPLIES_CUT,
    "slow": Link(latency_s=0.3),
    "very slow": Link(latency_s=2.0),
}
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


@frozen
class Happening:
    """A fault that a run has planned."""

    at_s: float
    """Since the run began."""
    fault: str
    seed: int
    """What it chooses by."""


@frozen
class Fault:
    """What may happen, and how often beside the others."""

    happens: Callable[[World, Random], str]
    weight: float = 1.0
    semantics: tuple[Semantics, ...] = BOTH


def _one(world: World, chance: Random) -> Process | None:
    running = sorted(world.processes)
    return world.processes[chance.choice(running)] if running else None


def _interval(world: World, chance: Random, *parts: float) -> float:
    return world.setting.heartbeat_interval_s * chance.choice(parts)


def kill(world: World, chance: Random) -> str:
    """A process is killed, and started again under the same id or another one, now or later."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    del world.processes[process.client_id]
    world.scheduler.kill(process.name)
    world.scheduler.sleep(_interval(world, chance, 0.0, 0.0, 0.3, 1.0, 3.0))
    other = process.client_id.rstrip("'") if "'" in process.client_id else process.client_id + "'"
    client_id = chance.choice((process.client_id, other))
    if client_id not in world.processes:
        world.start(client_id)
    return f"{process.name}, then {client_id}"


def close(world: World, chance: Random) -> str:
    """A process is asked to end, and another one begins under its id."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    world.end(process.client_id)
    world.start(process.client_id)
    return process.name


def stall(world: World, chance: Random) -> str:
    """A process stands still, for less than an interval or for many, and goes on."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    for_s = _interval(world, chance, 0.2, 1.0, 2.1, 5.0)
    world.scheduler.stop(process.name)
    world.scheduler.sleep(for_s)
    world.scheduler.stop(process.name, stands=False)
    return f"{process.name} for {for_s:g} s"


def stall_thread(world: World, chance: Random) -> str:
    """One thread of a process stands still, as one that waits for a page of memory, or a lock."""
    process = _one(world, chance)
    threads = [one for one in world.scheduler.threads if process and one.process == process.name]
    if not threads:
        return "nobody"
    thread = chance.choice(threads)
    for_s = _interval(world, chance, 0.05, 0.5, 2.1)
    thread.stands = True
    world.scheduler.sleep(for_s)
    thread.stands = False
    assert process is not None
    return f"{thread.name} of {process.name} for {for_s:g} s"


def slow(world: World, chance: Random) -> str:
    """A process takes long for each message, and does so until the next such fault."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    process.slow_s = _interval(world, chance, 0.0, 0.01, 0.1, 2.1)
    return f"{process.name}: {process.slow_s:g} s each"


def raises(world: World, chance: Random) -> str:
    """A process fails at its next message."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    process.raises = True
    return process.name


def append(world: World, chance: Random) -> str:
    """What becomes of appends to the log: they land and nobody knows, or are lost, for a while."""
    became = chance.choice((LANDS_SOMEWHERE, LANDS_UNKNOWN, LOST))
    if became.error is not None:
        became = attrs.evolve(became, after_s=chance.choice(UNKNOWN_AFTER_S))
    share = chance.choice((0.1, 0.5, 1.0))
    for_s = _interval(world, chance, 0.1, 1.0, 3.0)
    world.kafka.appends = lambda _: became if chance.random() < share else LANDS
    world.scheduler.sleep(for_s)
    world.kafka.appends = lambda _: LANDS
    lands = "lands" if became.lands else "lost"
    return f"{share:g} of all {lands}, {became.error}, after {became.after_s:g} s, for {for_s:g} s"


def slow_append(world: World, chance: Random) -> str:
    """Confirmations come late."""
    after_s, for_s = _interval(world, chance, 0.01, 0.2, 1.5), _interval(world, chance, 1.0, 3.0)
    world.kafka.appends = lambda _: attrs.evolve(LANDS, after_s=after_s)
    world.scheduler.sleep(for_s)
    world.kafka.appends = lambda _: LANDS
    return f"after {after_s:g} s, for {for_s:g} s"


def cut(world: World, chance: Random) -> str:
    """Nobody can read the log, for a while."""
    for_s = _interval(world, chance, 0.1, 1.0, 2.5)
    world.kafka.hold_log()
    world.scheduler.sleep(for_s)
    world.kafka.flow()
    return f"for {for_s:g} s"


def slow_fetch(world: World, chance: Random) -> str:
    """What is fetched takes long to arrive, and may come after its claim was lost."""
    after_s, for_s = _interval(world, chance, 0.01, 0.3, 2.1), _interval(world, chance, 1.0, 3.0)
    world.kafka.fetching = lambda _: world.scheduler.sleep(after_s)
    world.scheduler.sleep(for_s)
    world.kafka.fetching = lambda _: None
    return f"{after_s:g} s, for {for_s:g} s"


def hostile(world: World, chance: Random) -> str:
    """Somebody appends what is no record of the protocol, or one of a stranger."""
    value = chance.choice(HOSTILE)
    partition = chance.randrange(world.setting.log_partitions)
    world.kafka.append(COORDINATION_TOPIC, partition, value)
    return f"{value!r} to partition {partition}"


def link(world: World, chance: Random) -> str:
    """A process, or everybody, does not reach a broker, or all, or gets no replies, for a while."""
    process = _one(world, chance) if chance.random() < 0.7 else None
    broker = chance.choice((None, *world.kafka.numbers))
    name = chance.choice(sorted(LINKS))
    for_s = _interval(world, chance, 0.1, 1.0, 2.5)
    where = {"broker": broker, "process": None if process is None else process.name}
    world.kafka.link(LINKS[name], **where)
    world.scheduler.sleep(for_s)
    world.kafka.link(UP, **where)
    return f"{name}: {where['process'] or 'all'} to {broker or 'all'} for {for_s:g} s"


def move_leader(world: World, chance: Random) -> str:
    """Another broker leads a partition, of the log or of a topic."""
    topic = chance.choice((COORDINATION_TOPIC, *world.setting.topics))
    partition = chance.randrange(len(world.kafka.topics[topic]))
    broker = chance.choice(world.kafka.numbers)
    world.kafka.move_leader(topic, partition, broker)
    return f"{topic}/{partition} to broker {broker}"


def broker_clock(world: World, chance: Random) -> str:
    """The brokers' clock is set ahead by up to three intervals, or runs fast for a while."""
    clock = world.kafka.broker_clock
    if chance.random() < 0.5:
        by_s = _interval(world, chance, 0.1, 0.9, 3.0)
        clock.wall_s += by_s
        return f"ahead by {by_s:g} s"
    rate, for_s = chance.choice((-0.1, 0.1, 0.5)), _interval(world, chance, 1.0, 5.0)
    clock.drift(rate)
    world.scheduler.sleep(for_s)
    clock.drift(0.0)
    return f"{rate:+g} s each second, for {for_s:g} s"


def calls(world: World, chance: Random) -> str:
    """An application pauses a topic for a while, gives a claim up, or begins to consume anew."""
    process = _one(world, chance)
    consumer = None if process is None else process.consumer
    if process is None or consumer is None:
        return "nobody"
    topic, for_s = chance.choice(world.setting.topics), _interval(world, chance, 0.01, 0.3, 2.5)
    call = chance.choice(("pause", "release", "subscribe"))

    def run() -> None:
        with suppress(MarshalError):  # it may be lost, closed, or have failed: `ended` judges that
            match call:
                case "pause":
                    alone, process.pauses = not process.pauses, True
                    before = process.tenures(topic)
                    try:
                        consumer.pause(topic)
                        process.paused = before if alone else set()
                        world.scheduler.sleep(for_s)
                    finally:
                        process.paused = set()
                    consumer.resume(topic)
                    process.pauses = not alone
                case "release":
                    consumer.release(topic, chance.randrange(len(world.kafka.topics[topic])))
                case _:
                    consumer.unsubscribe()
                    world.scheduler.sleep(for_s)
                    consumer.subscribe(world.setting.topics)

    world.scheduler.start(run, call, process.name)
    return f"{process.name}: {call} {topic}, {for_s:g} s"


def grow(world: World, chance: Random) -> str:
    """A topic gets one partition more, until it has twice as many."""
    topic = chance.choice(world.setting.topics)
    if len(world.kafka.topics[topic]) >= 2 * world.setting.partitions:
        return "nothing"
    world.kafka.grow(topic)
    return topic


FAULTS: Final = {
    "kill": Fault(kill, 3.0),
    "close": Fault(close, 2.0),
    "stall": Fault(stall, 2.0),
    "stall_thread": Fault(stall_thread, 2.0),
    "slow": Fault(slow),
    "raises": Fault(raises),
    "append": Fault(append, 2.0),
    "slow_append": Fault(slow_append),
    "cut": Fault(cut),
    "slow_fetch": Fault(slow_fetch),
    "hostile": Fault(hostile),
    "link": Fault(link, 2.0),
    "move_leader": Fault(move_leader),
    "broker_clock": Fault(broker_clock, 0.5),
    "calls": Fault(calls, 2.0),
    "grow": Fault(grow, 0.3),
    "set_position": Fault(operators.set_position),
    "pause": Fault(operators.pause),
}
"""All of them, by name."""


def planned(seed: int, setting: Setting) -> tuple[Happening, ...]:
    """The faults of a run, in their order."""
    chance = Random(seed)
    names = [
        name
        for name, fault in FAULTS.items()
        if setting.semantics in fault.semantics and (not setting.faults or name in setting.faults)
    ]
    weights = [FAULTS[name].weight for name in names]
    found, at_s = [], 0.0
    while (
        names
        and (at_s := at_s + chance.expovariate(1 / setting.fault_every_s)) < setting.simulated_s
    ):
        [name] = chance.choices(names, weights)
        found.append(Happening(at_s, name, chance.getrandbits(32)))
    return tuple(found)
