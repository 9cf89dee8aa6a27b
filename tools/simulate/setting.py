"""What kind of world a simulated run is. Everything else the seed decides."""

from __future__ import annotations

from random import Random
from typing import Final

import attrs
from attrs import field, frozen

from kafka_marshal.client.coordinate.configuration import Semantics
from kafka_marshal.client.fetch.buffers import BufferLimits
from kafka_marshal.core.state import FENCED, Rules

WAITS: Final = (0.0, 0.0, 0.5, 0.98)
"""How many of the records that are sent wait for others, so that they are one batch."""


@frozen
class Setting:
    """The reference world by default: what figures of speed are stated for."""

    semantics: Semantics = "at_least_once"
    heartbeat_interval_s: float = 10.0
    clients: int = 4
    topics: tuple[str, ...] = ("orders", "invoices", "parcels", "refunds")
    shared: tuple[str, ...] = ()
    """Topics whose partitions several processes share by ranges, beside `topics`."""
    partitions: int = 4
    """Of each topic."""
    log_partitions: int = 4
    brokers: int = 3
    messages_per_s: float = 20.0
    """In all, on average, in bursts of up to `burst_max` to one partition."""
    burst_max: int = 19
    fault_every_s: float = 60.0
    """On average."""
    reclaim_delay_s: float = 120.0
    """After how long a consumer asks again for what it gave up."""
    window: int = 100_000
    batch: int = 10_000
    bounds: BufferLimits = field(factory=BufferLimits)
    """How much is fetched ahead."""
    claims_max: int | None = None
    """How many claims a process owns at most; None: as many as it gets."""
    transactions_per_s: float = 20.0
    """At most once: how many requests for messages a process makes in a second."""
    simulated_s: float = 600.0
    """How long there are faults and new messages; then a while follows without either."""
    faults: tuple[str, ...] = ()
    """Which faults there are; without any, all."""
    ways: tuple[str, ...] = ()
    """Which ways of consuming there are; without any, all of these semantics."""
    recorded: bool = False
    """Whether consumers record what they do, so that the specification is asked about it."""

    replayed: bool = False
    """Whether the log is replayed, so that its findings are compared with what happened."""
    signing: str = ""
    """`some`: some processes sign. `required`: all do, and require it of each other."""

    mixed: bool = False
    """Whether originals come and go."""

    @property
    def every_topic(self) -> tuple[str, ...]:
        """All of them, however they are consumed."""
        return self.topics + self.shared

    @property
    def rules(self) -> Rules:
        """By which the log is judged."""
        interval_ms = int(1000 * self.heartbeat_interval_s)
        return attrs.evolve(FENCED, heartbeat_interval_ms=interval_ms)

    @property
    def at_least_once(self) -> bool:
        """Whether messages may be processed again rather than lost."""
        return self.semantics == "at_least_once"


def limited(seed: int, base: Setting) -> Setting:
    """The world of a seed, with limits that are met often, and room for all claims all the same.

    Topics may grow to twice as many partitions. Requests for messages keep up with what comes.
    """
    chance = Random(f"limits {seed}")
    claims = 2 * len(base.every_topic) * base.partitions
    batch = chance.choice((1, 5, base.batch))
    return attrs.evolve(
        base,
        bounds=BufferLimits(
            chance.choice((1, 7, 100)), chance.choice((1, 2**20)), chance.choice((1, 20, 2**20))
        ),
        window=chance.choice((1, 5, base.window)),
        batch=batch,
        claims_max=chance.choice((None, -(-claims // base.clients), claims)),
        transactions_per_s=max(chance.choice((5.0, 20.0)), 4 * base.messages_per_s / batch),
    )


SMALL: Final = Setting(
    heartbeat_interval_s=5.0,
    clients=3,
    topics=("orders", "invoices"),
    partitions=2,
    log_partitions=2,
    messages_per_s=60.0,
    window=50,
    batch=20,
    simulated_s=60.0,
    fault_every_s=2.0,
)
"""A world that is soon over, and has many faults: for tests, and to look for mistakes in."""
SHARED: Final = attrs.evolve(
    SMALL,
    topics=(),
    shared=("orders",),
    window=200,
    faults=("kill", "close", "stall", "slow", "append", "slow_append", "slow_fetch", "interrupt"),
)
"""Processes that share each partition by ranges."""
