"""How long assignments take, beside Kafka's own: `python -m benchmarks.groups.assignment`.

Members that all want every topic, and members of which each wants some: from nothing, again
without a change, and after one member has left or joined. What is printed is CPU time, because
other processes of the machine would be in the time of a clock. `--kafka` runs Kafka's assignors on
the first kind, in Java: those of clients (range, round robin, cooperative sticky), and that of
brokers (uniform).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median

import attrs

from kafka_marshal.core.groups.assignment import (
    Members,
    Strategy,
    Target,
    TopicPartition,
    range_assignor,
    round_robin_assignor,
    sticky_assignor,
)


@attrs.frozen
class Member:
    """What one member wants."""

    topics: frozenset[str]
    static: dict[TopicPartition, int] = attrs.field(factory=dict)


@attrs.frozen
class Setting:
    """A group and its topics."""

    members: int
    topics: int
    partitions: int
    """Of each topic."""
    wanted: int | None = None
    """How many topics each member wants, at random; None for all."""

    def __str__(self) -> str:
        wanted = "all" if self.wanted is None else f"{self.wanted}"
        return (
            f"{self.members:,} members, {self.topics:,} topics of {self.partitions:,} partitions, "
            f"each wants {wanted}"
        )

    def scaled(self, by: float) -> Setting:
        """The same with another number of members, and of partitions of each topic."""
        members, partitions = int(self.members * by), int(self.partitions * by)
        return attrs.evolve(self, members=max(2, members), partitions=max(1, partitions))

    @property
    def counts(self) -> dict[str, int]:
        """Partitions of each topic."""
        return {f"topic-{number:05}": self.partitions for number in range(self.topics)}

    def group(self) -> dict[str, Member]:
        """The members; each has a set of topics of its own, as decoded requests have."""
        chance, names = Random(1), [*self.counts]
        return {
            f"member-{number:05}": Member(
                frozenset(names if self.wanted is None else chance.sample(names, self.wanted))
            )
            for number in range(self.members)
        }


def measured(
    strategy: Strategy,
    members: Members,
    counts: dict[str, int],
    owners: dict[TopicPartition, str],
    times: int,
) -> tuple[Target, float, float]:
    """The target, and CPU milliseconds: the median and the fastest."""
    took, target = [], {}
    for _ in range(times):
        before = time.process_time()
        target = strategy(members, counts, owners)
        took.append((time.process_time() - before) * 1000)
    return target, median(took), min(took)


def report(setting: Setting, times: int) -> None:
    """Print a line for each strategy and case."""
    members, counts = setting.group(), setting.counts
    middle = sorted(members)[setting.members // 2]
    fewer = {member: wishes for member, wishes in members.items() if member != middle}
    more = {**members, "one-more": members[middle]}
    print(f"{setting}; median and fastest of {times}, CPU ms")
    for name, strategy in (("range", range_assignor), ("round_robin", round_robin_assignor)):
        _, usual, fastest = measured(strategy, members, counts, {}, times)
        print(f"  {name:12} {'nothing':12} {usual:8.1f} {fastest:8.1f}")
    owners: Target = {}
    for situation, group in (
        ("nothing", members),
        ("the same", members),
        ("one leaves", fewer),
        ("one joins", more),
    ):
        target, usual, fastest = measured(sticky_assignor, group, counts, owners, times)
        moved = sum(owner in group and target[place] != owner for place, owner in owners.items())
        print(f"  {'sticky':12} {situation:12} {usual:8.1f} {fastest:8.1f}  {moved} moved")
        owners = owners or target


def report_kafka(setting: Setting, times: int) -> None:
    """Print the same lines for Kafka's own."""
    # They need Java and Kafka's jars, which nothing else here does.
    from kafka_marshal.java.compiler import compiled
    from kafka_marshal.java.finder import find_java
    from kafka_marshal.testing.kafka import fetched_jars, version

    jars = fetched_jars()
    classes = compiled(Path(__file__).with_name("Assignors.java"), jars)
    sizes = map(str, (setting.members, setting.topics, setting.partitions, times))
    class_path = ":".join(map(str, (classes, *jars)))
    command = [str(find_java().executable), "-Xmx2g", "-cp", class_path, "Assignors", *sizes]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    print(f"Kafka {version()}, the same setting; first, median and fastest of {times}, CPU ms")
    for line in ran.stdout.splitlines():
        strategy, situation, *numbers = line.split("\t")
        print(f"  {strategy:12} {situation:12}", *(f"{number:>8}" for number in numbers))


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0, help="of members and partitions")
    parser.add_argument("--kafka", action="store_true", help="measure Kafka's assignors, too")
    options = parser.parse_args(argv)
    for each in (Setting(10_000, 1, 100_000), Setting(10_000, 100, 1_000)):
        setting = each.scaled(options.scale)
        report(setting, options.times)
        if options.kafka:
            report_kafka(setting, options.times)
    for each in (Setting(1_000, 100, 40, 10), Setting(10_000, 100, 1_000, 10)):
        report(each.scaled(options.scale), min(3, options.times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
