"""A replay on a cluster that we do not have, simulated from what a record costs on ours.

    python -m benchmarks.cluster.plan

Only what Spark schedules is simulated: two stages of tasks on cores that each take the next task as
soon as they are free. A task of the first reads and collapses a chunk. A task of the second folds
coordinating partitions, whole; those of one log are dealt out to tasks one after the other. It
joins their rows, a claim in a chunk each, and folds the runs that come of it. The time of the
network, of disks, of a store, of stragglers and of the driver is not in it.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from attrs import frozen

from kafka_marshal.replay.sources.parquet import ROWS_PER_CHUNK
from kafka_marshal.replay.spark.pipeline import TASKS_PER_CORE

PARTITIONS: Final = (16, 64, 256, 1024)
JOINED: Final = 4_000_000
"""Records of a coordinating partition whose runs are joined, about."""
HOT_CLAIMS: Final = 128
"""Claims of the coordinating partition that has most, where the log is skewed."""


@frozen
class Costs:
    """What one core needs, in seconds."""

    record: float
    """To read and collapse a record, and to shuffle what is left of it."""
    row: float
    """To join a row with the run before it: a claim in a chunk."""
    run: float
    """To fold a run: a claim in `JOINED` records of its coordinating partition."""


@frozen
class Plan:
    """How long the stages take, in seconds."""

    read: float
    fold: float
    largest: float
    """The longest task of the second stage."""

    @property
    def total(self) -> float:
        """Of both; the second begins when the first has ended."""
        return self.read + self.fold


def makespan(tasks: Iterable[float], cores: int) -> float:
    """When the last task ends, if each core takes the next one as soon as it is free."""
    free = [0.0] * cores
    for task in tasks:
        heapq.heapreplace(free, free[0] + task)
    return max(free)


def planned(
    records: int, claims_of: Sequence[int], cores: int, costs: Costs, chance: np.random.Generator
) -> Plan:
    """Simulate a log; `claims_of` counts the claims of each coordinating partition."""
    chunks = -(-records // ROWS_PER_CHUNK)
    read = makespan(np.full(chunks, records / chunks * costs.record).tolist(), cores)
    tasks = np.zeros(TASKS_PER_CORE * cores)
    places = (chance.integers(len(tasks)) + np.arange(len(claims_of))) % len(tasks)
    claims = np.asarray(claims_of)
    runs = np.ceil(records * claims / claims.sum() / JOINED)
    np.add.at(tasks, places, claims * (chunks * costs.row + runs * costs.run))
    return Plan(read, makespan(tasks.tolist(), cores), float(tasks.max()))


def evenly(claims: int, partitions: int, chance: np.random.Generator) -> npt.NDArray[np.int64]:
    """Claims of each partition, where a hash spreads them."""
    return chance.multinomial(claims, [1 / partitions] * partitions)


def with_a_hot_one(
    claims: int, partitions: int, chance: np.random.Generator
) -> npt.NDArray[np.int64]:
    """The same, but the first has `HOT_CLAIMS` of them."""
    others = evenly(claims - HOT_CLAIMS, partitions - 1, chance)
    return np.concatenate([[HOT_CLAIMS], others])


def main() -> int:
    """Print a table. Returns 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", type=int, default=10_000_000_000)
    parser.add_argument("--claims", type=int, default=2048)
    parser.add_argument("--cores", type=int, default=100)
    parser.add_argument("--record-us", type=float, default=1.42)
    parser.add_argument("--row-us", type=float, default=23.0)
    parser.add_argument("--run-us", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, default=100)
    asked = parser.parse_args()
    costs = Costs(*(us / 1e6 for us in (asked.record_us, asked.row_us, asked.run_us)))
    print(
        f"{asked.records:,} records of {asked.claims:,} claims on {asked.cores} cores, simulated, "
        f"{asked.seeds} seeds:\n"
    )
    print("| coordinating partitions | skew | reading s | folding s, median | worst | total s |")
    print("|---|---|---|---|---|---|")
    for skew, spread in (("none", evenly), (f"one has {HOT_CLAIMS}", with_a_hot_one)):
        for partitions in PARTITIONS:
            plans = []
            for seed in range(asked.seeds):
                chance = np.random.default_rng(seed)
                claims_of = spread(asked.claims, partitions, chance).tolist()
                plans.append(planned(asked.records, claims_of, asked.cores, costs, chance))
            plans.sort(key=lambda plan: plan.total)
            median, worst = plans[len(plans) // 2], plans[-1]
            print(
                f"| {partitions:,} | {skew} | {median.read:.0f} | {median.fold:.0f} "
                f"| {worst.fold:.0f} | {median.total:.0f} |"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
