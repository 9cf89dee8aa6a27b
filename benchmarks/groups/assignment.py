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
from typing import Final, TypeAlias

import attrs
from benchmarks.suite.figures import Better, Report

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


SETTINGS: Final = {
    "one": Setting(10_000, 1, 100_000),
    "many": Setting(10_000, 100, 1_000),
    "few_wishes": Setting(1_000, 100, 40, 10),
    "many_wishes": Setting(10_000, 100, 1_000, 10),
}


def measured(
    strategy: Strategy,
    members: Members,
    counts: dict[str, int],
    owners: dict[TopicPartition, str],
    times: int,
) -> tuple[Target, float]:
    """The target, and the median of CPU milliseconds."""
    took, target = [], {}
    for _ in range(times):
        before = time.process_time()
        target = strategy(members, counts, owners)
        took.append((time.process_time() - before) * 1000)
    return target, median(took)


Times: TypeAlias = dict[tuple[str, str], float]
"""Median CPU milliseconds, by strategy and situation."""


def ours(setting: Setting, times: int) -> tuple[Times, dict[str, int]]:
    """What each strategy takes, and how many partitions the sticky one moves by situation."""
    members, counts = setting.group(), setting.counts
    middle = sorted(members)[setting.members // 2]
    fewer = {member: wishes for member, wishes in members.items() if member != middle}
    more = {**members, "one-more": members[middle]}
    found: Times = {}
    for name, strategy in (("range", range_assignor), ("round_robin", round_robin_assignor)):
        _, found[name, "nothing"] = measured(strategy, members, counts, {}, times)
    owners: Target = {}
    moved = {}
    for situation, group in (
        ("nothing", members),
        ("the same", members),
        ("one leaves", fewer),
        ("one joins", more),
    ):
        target, found["sticky", situation] = measured(sticky_assignor, group, counts, owners, times)
        moved[situation] = sum(
            owner in group and target[place] != owner for place, owner in owners.items()
        )
        owners = owners or target
    return found, moved


def kafkas(setting: Setting, times: int) -> Times:
    """The same of Kafka's own, in Java, after the first time; `uniform` is the brokers'."""
    # They need Java and Kafka's jars, which nothing else here does.
    from kafka_marshal.java.compiler import compiled
    from kafka_marshal.java.finder import find_java
    from kafka_marshal.testing.kafka import fetched_jars

    jars = fetched_jars()
    classes = compiled(Path(__file__).with_name("Assignors.java"), jars)
    sizes = map(str, (setting.members, setting.topics, setting.partitions, times))
    class_path = ":".join(map(str, (classes, *jars)))
    command = [str(find_java().executable), "-Xmx2g", "-cp", class_path, "Assignors", *sizes]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = (line.split("\t") for line in ran.stdout.splitlines())
    return {(strategy, situation): float(median) for strategy, situation, _, median, _ in rows}


def report_all(
    report: Report, times: int, scale: float, *, kafka: bool, compared_only: bool = False
) -> None:
    """Report a figure for each strategy and case; `compared_only` leaves out what has no peer."""
    for kind, each in SETTINGS.items():
        if each.wanted is not None and compared_only:
            continue
        setting = each.scaled(scale)
        # What each wants by itself takes ten times as long, and Kafka's are not compared.
        turns = times if each.wanted is None else min(3, times)
        found, moved = ours(setting, turns)
        theirs = kafkas(setting, turns) if kafka and each.wanted is None else {}
        for (strategy, situation), took_ms in found.items():
            same = {"Kafka's": theirs.get((strategy, situation))}
            if strategy == "sticky":
                same["Kafka's uniform"] = theirs.get(("uniform", situation))
            report.add(
                f"groups.assignment.{kind}.{strategy}.{situation.replace(' ', '_')}",
                "ms",
                Better.LOWER,
                took_ms,
                f"{setting}; CPU time, median of {turns}",
                same,
                note=f"{moved[situation]} partitions move" if strategy == "sticky" else "",
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=9)
    parser.add_argument("--scale", type=float, default=1.0, help="of members and partitions")
    parser.add_argument("--kafka", action="store_true", help="measure Kafka's assignors, too")
    Report.add_option(parser)
    asked = parser.parse_args(argv)
    report_all(Report(asked.figures), asked.times, asked.scale, kafka=asked.kafka)
    return 0


if __name__ == "__main__":
    sys.exit(main())
