"""What happens to controllers, members, what connects them, their brokers and their topics.

Each fault is one function of the world, that chooses by a chance of its own, so a run can be
repeated with some of them left out. It returns what it did in a few words.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

import attrs
from attrs import frozen
from tools.simulate.faults.brokers import LINKS
from tools.simulate.faults.fault import Happening
from tools.simulate.groups.processes import GROUP, PORT, GroupsProcess

from kafka_marshal.client.groups.connection import Controllers, RequestRefused, ServerUnreachable
from kafka_marshal.client.groups.event_log import GROUPS_TOPIC
from kafka_marshal.rpc.error_codes import ErrorCode
from kafka_marshal.testing.in_memory import (
    LANDS,
    LANDS_SOMEWHERE,
    LANDS_UNKNOWN,
    LOST,
    UP,
    Append,
    Wire,
)

if TYPE_CHECKING:
    from tools.simulate.groups.setting import GroupsSetting
    from tools.simulate.groups.world import GroupsWorld

STEPS: Final = 60
"""How many points further a thread stands still, at most."""
CUT: Final = Wire(flows=False)
PARTITIONS_MAX: Final = 6
"""A topic does not grow beyond that."""


def _one(world: GroupsWorld, chance: Random, kind: str = "") -> GroupsProcess | None:
    running = [one for one in sorted(world.processes) if one.startswith(kind)]
    return world.processes[chance.choice(running)] if running else None


def _sessions(world: GroupsWorld, chance: Random, *parts: float) -> float:
    """One of these, times the session timeout, in seconds."""
    return world.setting.session_timeout_s * chance.choice(parts)


def kill(world: GroupsWorld, chance: Random) -> str:
    """A process is killed, sometimes with its machine, and starts again now or later."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    silently = chance.random() < 0.3
    world.kill(process, silently=silently)
    world.scheduler.sleep(_sessions(world, chance, 0.0, 0.1, 0.5, 1.5))
    world.start(process.machine)
    return f"{process.name}{', and its machine' if silently else ''}"


def close(world: GroupsWorld, chance: Random) -> str:
    """A process is asked to stop, and another one starts on its machine."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    world.end(process)
    world.start(process.machine)
    return process.name


def stall(world: GroupsWorld, chance: Random) -> str:
    """A process stops running, for a part of a session timeout or longer, then goes on."""
    process = _one(world, chance)
    if process is None:
        return "nobody"
    for_s = _sessions(world, chance, 0.05, 0.3, 0.8, 1.2, 2.5)
    world.scheduler.stop(process.name)
    world.scheduler.sleep(for_s)
    world.scheduler.stop(process.name, stands=False)
    return f"{process.name} for {for_s:g} s"


def stall_thread(world: GroupsWorld, chance: Random) -> str:
    """One thread of a controller stops running: claims, reader, questions or event loop.

    So a claim is lost while the loop answers, and the loop may answer late what it has read.
    """
    process = _one(world, chance, "c")
    threads = [one for one in world.scheduler.threads if process and one.process == process.name]
    if process is None or not threads:
        return "nobody"
    thread, for_s = chance.choice(threads), _sessions(world, chance, 0.05, 0.3, 0.8, 1.5)
    thread.stands_after = chance.randint(1, STEPS)
    world.scheduler.sleep(for_s)
    thread.stands_after, thread.stands = 0, False
    return f"{thread.name} of {process.name} for {for_s:g} s"


def stall_but_loop(world: GroupsWorld, chance: Random) -> str:
    """All threads of a controller stop but its event loop, and sometimes the one that asks brokers.

    So it is deposed, and neither reads nor hears of it, while it goes on to take requests.
    """
    process = _one(world, chance, "c")
    if process is None:
        return "nobody"
    asks, for_s = chance.random() < 0.5, _sessions(world, chance, 0.5, 1.5, 3.0)
    threads = [
        one
        for one in world.scheduler.threads
        if one.process == process.name
        and one is not process.thread
        and not (asks and one.name == "marshal-ends")
    ]
    for one in threads:
        one.stands_after = 1
    world.scheduler.sleep(for_s)
    for one in threads:
        one.stands_after, one.stands = 0, False
    return f"{process.name} for {for_s:g} s{', and asks' if asks else ''}"


def slow(world: GroupsWorld, chance: Random) -> str:
    """A member takes long for each message, and does so until the next such fault."""
    process = _one(world, chance, "m")
    if process is None:
        return "nobody"
    process.slow_s = _sessions(world, chance, 0.0, 0.002, 0.05, 0.4)
    return f"{process.name}: {process.slow_s:g} s each"


def hang(world: GroupsWorld, chance: Random) -> str:
    """An application stays at one message and reports that it is alive, so it releases nothing."""
    process = _one(world, chance, "m")
    if process is None:
        return "nobody"
    for_s = _sessions(world, chance, 1.0, 3.0, 6.0)
    process.hangs_until_s = process.now_s + for_s
    return f"{process.name} for {for_s:g} s"


def cut(world: GroupsWorld, chance: Random) -> str:
    """Bytes between two machines, or all of one, are held, one way or both, and come later."""
    a = chance.choice((*world.controllers, *world.members))
    b = chance.choice((None, *world.controllers))
    both: list[tuple[str | None, str | None]] = [(a, b), (b, a)]
    ways = chance.choice((both[:1], both[1:], both))
    for_s = _sessions(world, chance, 0.05, 0.4, 1.0, 2.0)
    for way in ways:
        world.wire(*way, CUT)
    world.scheduler.sleep(for_s)
    for way in ways:
        world.wire(*way, None)
    return f"{ways} for {for_s:g} s"


def slow_wire(world: GroupsWorld, chance: Random) -> str:
    """Bytes between machines are slow and come in pieces."""
    a = chance.choice((*world.controllers, *world.members))
    latency_s, for_s = chance.choice((0.05, 0.3, 1.5)), _sessions(world, chance, 0.5, 2.0)
    slow = Wire(latency_s=latency_s, jitter_s=latency_s)
    world.wire(a, None, slow)
    world.wire(None, a, slow)
    world.scheduler.sleep(for_s)
    world.wire(a, None, None)
    world.wire(None, a, None)
    return f"{a}: {latency_s:g} s for {for_s:g} s"


def lossy(world: GroupsWorld, chance: Random) -> str:
    """Some requests of a member arrive after it, or a successor, has connected again."""
    machine = chance.choice(world.members)
    process = world.processes.get(machine)
    is_new = process is not None and chance.random() < 0.7
    if process is not None and is_new:
        world.kill(process, silently=False)
    lost, again_s = chance.choice((0.2, 0.5)), _sessions(world, chance, 0.5, 1.5, 3.0)
    world.wire(machine, None, attrs.evolve(world.usual, lost=lost, again_s=again_s))
    world.start(machine)
    for_s = _sessions(world, chance, 0.5, 2.0)
    world.scheduler.sleep(for_s)
    world.wire(machine, None, None)
    return f"{machine}: {lost:g} arrives {again_s:g} s late, for {for_s:g} s"


def reset(world: GroupsWorld, chance: Random) -> str:
    """Connections are reset while requests are under way."""
    network, share = world.kafka.network, chance.choice((0.2, 1.0))
    ends = [one for one in network.ends if chance.random() < share]
    for one in ends:
        network.reset(one)
    return f"{len(ends)} ends"


def append(world: GroupsWorld, chance: Random) -> str:
    """Appends to one of the logs land but are not confirmed, or are lost."""
    became = chance.choice((LANDS_SOMEWHERE, LANDS_UNKNOWN, LOST))
    if became.error is not None:
        became = attrs.evolve(became, after_s=chance.choice((0.0, 0.5, 2.0, 10.0)))
    return _appends(world, chance, became)


def slow_append(world: GroupsWorld, chance: Random) -> str:
    """Confirmations arrive late."""
    return _appends(world, chance, attrs.evolve(LANDS, after_s=chance.choice((0.1, 1.0, 5.0))))


def _appends(world: GroupsWorld, chance: Random, became: Append) -> str:
    share, of_events = chance.choice((0.1, 0.5, 1.0)), chance.random() < 0.7
    for_s = _sessions(world, chance, 0.05, 0.3, 1.0)

    def decided(topic: str) -> Append:
        hit = topic == GROUPS_TOPIC and chance.random() < share
        return became if hit else LANDS

    kafka = world.kafka
    if of_events:
        kafka.other_appends = decided
    else:
        kafka.appends = lambda _: became if chance.random() < share else LANDS
    world.scheduler.sleep(for_s)
    if of_events:
        kafka.other_appends = lambda _: LANDS
    else:
        kafka.appends = lambda _: LANDS
    lands = "lands" if became.lands else "is lost"
    log = "of the events" if of_events else "of the claims"
    return f"{share:g} {log} {lands}, {became.error}, after {became.after_s:g} s, for {for_s:g} s"


def hold_logs(world: GroupsWorld, chance: Random) -> str:
    """Nobody can read the logs for a while."""
    for_s = _sessions(world, chance, 0.05, 0.3, 1.0)
    world.kafka.hold_log()
    world.scheduler.sleep(for_s)
    world.kafka.flow()
    return f"for {for_s:g} s"


def link(world: GroupsWorld, chance: Random) -> str:
    """For a while, one process or all of them cannot reach a broker or all, or get no replies."""
    process = _one(world, chance) if chance.random() < 0.8 else None
    broker = chance.choice((None, *world.kafka.numbers))
    name = chance.choice(sorted(LINKS))
    for_s = _sessions(world, chance, 0.05, 0.3, 1.0)
    where = {"broker": broker, "process": None if process is None else process.name}
    world.kafka.link(LINKS[name], **where)
    world.scheduler.sleep(for_s)
    world.kafka.link(UP, **where)
    return f"{name}: {where['process'] or 'all'} to {broker or 'all'} for {for_s:g} s"


def grow(world: GroupsWorld, chance: Random) -> str:
    """A topic gets one more partition."""
    topic = chance.choice(world.setting.topics)
    if len(world.kafka.topics[topic]) >= PARTITIONS_MAX:
        return "nothing"
    world.kafka.grow(topic)
    return topic


def rewind(world: GroupsWorld, chance: Random) -> str:
    """An operator sets positions back or forward, or to the start or the end."""
    topic = chance.choice(world.setting.topics)
    partitions = world.kafka.topics[topic]
    number = chance.randrange(len(partitions))
    offset = chance.choice((-1, -2, chance.randint(0, partitions[number].high)))
    environment = world.kafka.environment
    servers = [f"{one}:{PORT}" for one in world.controllers]
    body = {
        "ConsumerGroup": GROUP,
        "NewOffsets": [],
        "NewOffsetsV1": [{"Topic": topic, "Partition": number, "Offset": offset}],
    }
    try:
        with Controllers(servers, "operator", environment=environment) as controllers:
            deadline = environment.deadline(5.0)
            answer, _ = controllers.asked("RewindConsumer", GROUP, body, deadline)
    except (RequestRefused, ServerUnreachable) as error:
        return f"{topic}/{number} to {offset}: {type(error).__name__}"
    if answer.code is ErrorCode.NONE:
        rows: list[dict[str, object]] = answer.body["ActualOffsetsV1"]  # type: ignore[assignment]
        now_s = world.scheduler.clock.monotonic()
        world.history.rewound += [
            (now_s, (str(one["Topic"]), int(str(one["Partition"]))), int(str(one["Offset"])))
            for one in rows
        ]
    return f"{topic}/{number} to {offset}: {answer.code.name}"


def clock(world: GroupsWorld, chance: Random) -> str:
    """The brokers' clock, which decides about the controllers' claims, is set ahead."""
    by_s = chance.choice((0.5, 5.0, 60.0))
    world.kafka.broker_clock.wall_s += by_s
    return f"ahead by {by_s:g} s"


@frozen
class GroupsFault:
    """What may happen, and how often beside the others."""

    happens: Callable[[GroupsWorld, Random], str]
    weight: float = 1.0


FAULTS: Final = {
    "kill": GroupsFault(kill, 3.0),
    "close": GroupsFault(close, 2.0),
    "stall": GroupsFault(stall, 3.0),
    "stall_thread": GroupsFault(stall_thread, 2.0),
    "stall_but_loop": GroupsFault(stall_but_loop),
    "slow": GroupsFault(slow),
    "hang": GroupsFault(hang),
    "cut": GroupsFault(cut, 3.0),
    "slow_wire": GroupsFault(slow_wire),
    "lossy": GroupsFault(lossy, 1.5),
    "reset": GroupsFault(reset),
    "append": GroupsFault(append, 2.0),
    "slow_append": GroupsFault(slow_append),
    "hold_logs": GroupsFault(hold_logs),
    "link": GroupsFault(link, 2.0),
    "grow": GroupsFault(grow, 0.5),
    "rewind": GroupsFault(rewind, 1.5),
    "clock": GroupsFault(clock, 0.5),
}
"""All of them, by name."""


def planned(seed: int, setting: GroupsSetting) -> tuple[Happening, ...]:
    """The faults of a run, in their order."""
    if not setting.fault_every_s:
        return ()
    chance = Random(seed)
    names = [one for one in FAULTS if not setting.faults or one in setting.faults]
    weights = [FAULTS[name].weight for name in names]
    found, at_s = [], 0.0
    while (at_s := at_s + chance.expovariate(1 / setting.fault_every_s)) < setting.simulated_s:
        [name] = chance.choices(names, weights)
        found.append(Happening(at_s, name, chance.getrandbits(32)))
    return tuple(found)
