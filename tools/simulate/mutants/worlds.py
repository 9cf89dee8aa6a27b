"""The worlds that mutants of the client are looked for in: small, and full of faults."""

from __future__ import annotations

from typing import Final

import attrs
from tools.simulate.runs import settings
from tools.simulate.setting import SMALL, Setting

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
    ways=("iterator", "poll", "loop"),
    faults=("calls", "slow", "stall_thread", "kill", "slow_append", "set_position"),
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
WORLDS: Final = (SMALL, CALLS, ALONE, ONE_BY_ONE)


def setting(seed: int) -> Setting:
    """The world of a seed; half of all are at most once."""
    return settings(seed, WORLDS[seed // 2 % len(WORLDS)])
