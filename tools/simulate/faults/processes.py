"""Processes are killed, end, stand still, fail, and call what they like."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
from tools.simulate.applications import INTERRUPTED
from tools.simulate.faults.fault import intervals, one_of
from tools.simulate.history import Sought

from kafka_marshal import Consumer
from kafka_marshal.errors import BrokerFailed, InvalidOption, MarshalError

if TYPE_CHECKING:
    from tools.simulate.process import Process
    from tools.simulate.world import World

STEPS: Final = 40
"""How many points further a thread stands still, at most."""
PLACES: Final = 100
"""How many places further a call is interrupted, at most."""
COMES_S: Final = 5.0
"""How long it takes to come there, at most, in seconds."""


def kill(world: World, chance: Random) -> str:
    """A process is killed. It starts again under the same id or another one, now or later."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    del world.processes[process.client_id]
    world.scheduler.kill(process.name)
    world.scheduler.sleep(intervals(world, chance, 0.0, 0.0, 0.3, 1.0, 3.0))
    other = process.client_id.rstrip("'") if "'" in process.client_id else process.client_id + "'"
    client_id = chance.choice((process.client_id, other))
    if client_id not in world.processes:
        world.start(client_id)
    return f"{process.name}, then {client_id}"


def close(world: World, chance: Random) -> str:
    """A process is asked to stop, and another one starts under its id."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    world.end(process.client_id)
    world.start(process.client_id)
    return process.name


def stall(world: World, chance: Random) -> str:
    """A process stops running for less than an interval or for many, then goes on."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    for_s = intervals(world, chance, 0.2, 1.0, 2.1, 5.0)
    process.standing += 1
    world.scheduler.stop(process.name)
    world.scheduler.sleep(for_s)
    world.scheduler.stop(process.name, stands=False)
    process.goes_on()
    return f"{process.name} for {for_s:g} s"


def stall_thread(world: World, chance: Random) -> str:
    """One thread of a process stops running, as if it waited for a memory page or a lock.

    That is where it is, or some points further: between any two steps that it takes.
    """
    process = one_of(world, chance)
    threads = [one for one in world.scheduler.threads if process and one.process == process.name]
    if not threads:
        return "nobody"
    thread = chance.choice(threads)
    for_s = intervals(world, chance, 0.05, 0.5, 2.1)
    assert process is not None
    process.standing += 1
    if chance.random() < 0.5:
        thread.stands = True
    else:
        thread.stands_after = chance.randint(1, STEPS)
        until_s = world.scheduler.clock.monotonic() + COMES_S
        while thread.stands_after and world.scheduler.clock.monotonic() < until_s:
            world.scheduler.sleep(0.05)
        thread.stands_after = 0
    world.scheduler.sleep(for_s)
    thread.stands = False
    process.goes_on()
    return f"{thread.name} of {process.name} for {for_s:g} s"


def stall_taking(world: World, chance: Random) -> str:
    """The thread that takes a chunk of messages stops before the chunk counts as in hand."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    process.takes_s = intervals(world, chance, 0.05, 0.5, 1.0)
    return f"{process.name} for {process.takes_s:g} s"


def slow(world: World, chance: Random) -> str:
    """A process takes long for each message, until the next such fault."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    process.slow_s = intervals(world, chance, 0.0, 0.01, 0.1, 2.1)
    return f"{process.name}: {process.slow_s:g} s each"


def raises(world: World, chance: Random) -> str:
    """The handler of a process raises at its next message."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    process.raises = True
    return process.name


def interrupt(world: World, chance: Random) -> str:
    """A signal's handler raises in a call that takes messages; the application catches that."""
    found = sorted(each for each, one in world.processes.items() if one.way in INTERRUPTED)
    if not found:
        return "nobody"
    process = world.processes[chance.choice(found)]
    process.signals.left = chance.randint(1, PLACES)
    return f"{process.name}: {process.signals.left} places further"


def calls(world: World, chance: Random) -> str:
    """An application pauses, seeks, gives up a claim, or later consumes again."""
    process = one_of(world, chance)
    consumer = None if process is None else process.consumer
    if process is None or consumer is None:
        return "nobody"
    topic = chance.choice(world.setting.topics)
    for_s = intervals(world, chance, 0.01, 0.3, 2.5, 5.0)
    some = ("pause", "release", "subscribe")
    call = chance.choice((*some, "seek") if world.setting.at_least_once else some)

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
                case "seek":
                    _seeks(world, process, consumer, topic, chance)
                case "release":
                    consumer.release(topic, chance.randrange(world.partitions(topic) or 1))
                case _:
                    consumer.unsubscribe()
                    world.scheduler.sleep(for_s)
                    consumer.subscribe(world.setting.topics)

    world.scheduler.start(run, call, process.name)
    return f"{process.name}: {call} {topic}, {for_s:g} s"


def _seeks(world: World, process: Process, consumer: Consumer, topic: str, chance: Random) -> None:
    """Pass over some messages of a partition, or give again what is in hand."""
    count = world.partitions(topic)  # 0 while it does not exist
    owned = [tenure for tenure in sorted(process.tenures(topic)) if tenure[1] < count]
    if not owned:
        return
    _, partition, epoch = chance.choice(owned)
    # The specification does not explain what lies beyond the window.
    most = 50 if world.setting.recorded else world.setting.window + 50
    offset = consumer.committed(topic, partition) + chance.choice((0, 0, 1, 5, 50, most))
    offset = min(offset, world.kafka.topics[topic][partition].high)
    history, sought = world.history, Sought(len(world.history.log), topic, partition, epoch, offset)
    history.sought.append(sought)
    try:
        consumer.seek(topic, partition, offset)
    except (InvalidOption, BrokerFailed):
        history.sought.remove(sought)
        raise
    for tenure in process.tenures(topic):
        if tenure[1] == partition:
            if tenure[2] != epoch:  # it was won anew meanwhile, and that is what the seek met
                history.sought.append(attrs.evolve(sought, epoch=tenure[2]))
            process.sought[tenure] = max(process.sought.get(tenure, 0), offset)


def clock(world: World, chance: Random) -> str:
    """A machine's date is changed or drifts; its monotonic clock runs too slowly or too fast."""
    process = one_of(world, chance)
    if process is None:
        return "nobody"
    what = chance.choice(("date", "date runs", "clock runs"))
    if what == "date":
        by_s = chance.choice((-1, 1)) * intervals(world, chance, 0.1, 3.0, 1000.0)
        process.date.wall_s += by_s
        return f"{process.name}: its date by {by_s:+g} s"
    rate, for_s = chance.choice((-0.1, 0.1, 0.3)), intervals(world, chance, 1.0, 5.0)
    beside = process.date if what == "date runs" else process.uptime
    beside.drift(rate)
    world.scheduler.sleep(for_s)
    beside.drift(0.0)
    return f"{process.name}: its {what} wrong by {rate:+g} s each second, for {for_s:g} s"


def disk(world: World, chance: Random) -> str:
    """The disk is full, so recordings and snapshots are not written; or a snapshot is damaged."""
    if chance.random() < 0.5:
        for_s = intervals(world, chance, 0.3, 1.0, 7.0)
        world.disk_full = True
        world.scheduler.sleep(for_s)
        world.disk_full = False
        return f"full for {for_s:g} s"
    snapshots = sorted(world.folder.glob("*.snapshot")) if world.folder else []
    if not snapshots:
        return "nothing"
    path = chance.choice(snapshots)
    text = path.read_bytes()
    how = chance.choice(("cut", "changed", "another's"))
    at = chance.randrange(len(text))
    if how == "cut":
        path.write_bytes(text[:at])
    elif how == "changed":
        path.write_bytes(text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :])
    else:
        path.write_bytes(chance.choice(snapshots).read_bytes())
    return f"{path.name}: {how}"
