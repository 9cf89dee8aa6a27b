"""The worlds that mutants of the client are looked for in: small, and full of faults."""

from __future__ import annotations

from typing import Final

import attrs
from tools.simulate.groups.limits import drawn
from tools.simulate.groups.setting import GroupsSetting
from tools.simulate.runs import settings
from tools.simulate.setting import SMALL, Setting

from kafka_marshal.client.fetch.buffers import BufferLimits

CALLS: Final = attrs.evolve(
    SMALL,
    clients=2,
    window=1000,
    batch=200,
    messages_per_s=120.0,
    burst_max=99,
    faults=("calls", "close", "slow", "slow_fetch", "stall", "append", "pause", "link"),
)
"""Applications that call while much is in hand; few processes, so that claims come back to them."""
ONE_BY_ONE: Final = attrs.evolve(
    SMALL,
    clients=2,
    topics=("orders",),
    partitions=4,
    fault_every_s=3.0,
    ways=("iterator", "poll", "loop", "mixed"),
    faults=(
        "calls",
        "slow",
        "stall_thread",
        "stall_taking",
        "kill",
        "slow_append",
        "set_position",
        "interrupt",
    ),
)
"""Applications that take messages one by one, some of them slowly, so that claims take turns."""
ALONE: Final = attrs.evolve(
    SMALL,
    clients=1,
    topics=("orders",),
    reclaim_delay_s=0.5,
    window=1000,
    batch=200,
    faults=("calls", "slow_fetch", "slow", "slow_append", "append", "set_position", "stall_thread"),
)
"""One process: what it gives up comes back to it while much of the tenure before is in hand."""
IN_THREADS: Final = attrs.evolve(
    ALONE,
    ways=("run_partition", "run_key", "run_none", "run_again", "run_loop", "batches"),
    faults=(
        "calls",
        "slow_fetch",
        "slow",
        "append",
        "set_position",
        "pause",
        "stall_thread",
        "stall_taking",
    ),
)
"""The same, with many threads or tasks."""
TOPICS: Final = attrs.evolve(
    SMALL,
    clients=1,
    topics=("orders",),
    reclaim_delay_s=0.5,
    bounds=BufferLimits(messages=20),
    messages_per_s=150.0,
    burst_max=99,
    window=1000,
    batch=200,
    faults=("vanish", "grow", "trim", "set_position", "slow", "calls", "cut"),
)
"""A topic that is made anew, grows and loses messages under a process that stays, and whose buffers
are small."""
PAUSED: Final = attrs.evolve(
    ALONE,
    heartbeat_interval_s=2.0,
    ways=("iterator", "poll", "loop", "run_partition", "run_key", "run_none", "run_loop"),
    faults=("calls", "cut", "append", "slow", "stall_taking"),
)
"""A claim that is paused, or moved, while its heartbeats are not read back, or a chunk is taken."""
SIGNED: Final = attrs.evolve(
    SMALL, clients=2, signing="required", faults=("forge", "rotate_key", "kill", "stall")
)
"""Processes that require signatures, and somebody who forges records."""
MANY: Final = attrs.evolve(
    SMALL,
    clients=1,
    topics=("orders",),
    partitions=80,
    log_partitions=1,
    simulated_s=20.0,
    faults=("append", "stall", "slow_append"),
)
"""One process with many claims, whose heartbeats are sent together."""
WORLDS: Final[dict[str, Setting]] = {
    "small": SMALL,
    "calls": CALLS,
    "alone": ALONE,
    "one_by_one": ONE_BY_ONE,
    "in_threads": IN_THREADS,
    "topics": TOPICS,
    "paused": PAUSED,
    "signed": SIGNED,
    "many": MANY,
}
GROUPS: Final = "groups"
"""Those of groups, which are none of these: other processes, other faults, other checkers."""
QUIET: Final = GroupsSetting(
    messages_per_s=0.5,
    faults=("stall_but_loop", "reset"),
    fault_every_s=10.0,
    simulated_s=120.0,
)
"""Nearly no messages, so there is nothing to commit, and heartbeats alone keep what is owned."""
LATE: Final = GroupsSetting(
    faults=("lossy", "append", "stall_but_loop", "close", "kill", "reset"),
    fault_every_s=1.0,
)
"""Members that connect again while their earlier requests are still under way."""
LIMITED: Final = "limited"
"""A world whose limits are drawn, near to what its members need."""
GROUPS_WORLDS: Final[dict[str, GroupsSetting]] = {
    "everything": GroupsSetting(),
    "quiet": QUIET,
    "late": LATE,
    LIMITED: GroupsSetting(),
}


def groups_setting(seed: int, world: str = GROUPS) -> GroupsSetting:
    """The world of groups of a seed, each in turn where none is named."""
    names = [*GROUPS_WORLDS]
    name = world if world in names else names[seed % len(names)]
    return drawn(seed, GROUPS_WORLDS[name]) if name == LIMITED else GROUPS_WORLDS[name]


def setting(seed: int, world: str = "") -> Setting:
    """The world of a seed, each in turn where none is named; half of all are at most once."""
    named = WORLDS.get(world)
    return settings(seed, named or [*WORLDS.values()][seed // 2 % len(WORLDS)])
