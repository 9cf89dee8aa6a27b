"""Marshal promises that what members own is worked out for all of them at once, and is the same."""

from __future__ import annotations

import attrs

from kafka_marshal.core.groups.state import GroupPartition, TopicPartition
from kafka_marshal.machines.groups.control.holdings import Holdings, holdings_of
from tests.machines.groups.desk import Desk

T0, T1, T2, T3, T4 = (TopicPartition("t", number) for number in range(5))


def test_holdings_are_those_of_each_member() -> None:
    partitions = {
        T0: GroupPartition("m1", 4, "m1"),
        T1: GroupPartition("m1", 5, "m2", revoking=9),
        T2: GroupPartition("m2", 7, "m2"),
        T3: GroupPartition(None, 8),
        T4: GroupPartition("m1", 3, "m1"),
    }
    made = Desk().serve().create().group
    group = attrs.evolve(made, partitions=partitions, generation=10, rebalanced_at=6)
    found = holdings_of(group)
    assert found == Holdings(
        generation=10,
        rebalanced_at=6,
        to_own={"m1": [T0, T4], "m2": [T2]},
        owed={"m1": frozenset({T1})},
        concerned_at={"m1": 9, "m2": 7},
    )
    latest = {"m1": 9, "m2": 7, "m3": 6}
    for member, number in latest.items():
        assert found.must_register(member, number - 1)
        assert not found.must_register(member, number)
