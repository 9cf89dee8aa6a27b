"""A rebalance storm as the shipped servers and members made one, whose log is kept as a capture.

`python -m tests.replay.groups.storm > storm.jsonl` makes one anew. Nothing in it is chance, but it
changes with the machines, and what tests say of the kept one does not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import attrs

from kafka_marshal.capture import RawRecord, capture_line, read_capture
from tests.machines.membership.group_town import GroupTown
from tests.replay.groups.logs import raw_of

BEGINS_MS = 1_795_219_134_000
"""The town's clock begins at one million."""


CAPTURE: Final = Path(__file__).parents[2] / "data/captures/groups/rebalance_storm.jsonl"


def storm() -> list[RawRecord]:
    """The log that is kept."""
    return [*read_capture(CAPTURE)]


def made_anew() -> list[RawRecord]:
    """Five members of one group, of which one sleeps longer than its session, again and again.

    Another one is slow to let go, and controllers depose each other in the middle.
    """
    town = GroupTown(5, members=5, partitions=12)
    town.run(12_000, trouble=False)
    asleep, slow = town.members[3], town.members[1]
    for turn in range(7):
        asleep.asleep_until_ms = town.now_ms + 4_300
        town.run(4_200, trouble=False)
        if turn in (2, 4):
            slow.asleep_until_ms = town.now_ms + 2_700
        if turn == 3:
            town._claim(town.servers[1])
        town.run(2_600, trouble=False)
    for member in town.members:
        for tp in sorted(member.machine.member.holds):
            at = member.machine.member.at[tp]
            member.machine.processed(tp, at.tenure, at.offset + 5)
    leaves = town.members[4].machine
    leaves.ask(
        "DeregisterConsumer",
        {"ConsumerGroup": "g", "ConsumerId": "m4", "Positions": leaves.positions()},
    )
    town.run(9_000, trouble=False)
    return [
        attrs.evolve(raw, timestamp_ms=raw.timestamp_ms - 1_000_000 + BEGINS_MS)
        for raw in map(raw_of, town.log)
    ]


if __name__ == "__main__":
    sys.stdout.writelines(capture_line(raw) + "\n" for raw in made_anew())
