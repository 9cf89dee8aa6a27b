"""Marshal promises that of one partition at most one member hands out at a time."""

from __future__ import annotations

import pytest

from kafka_marshal.machines.groups import membership
from tests.machines.membership.group_town import PARTITIONS, SESSION_MS, GroupTown

SEEDS = range(4)
TROUBLE_MS = 40_000


@pytest.mark.parametrize("seed", SEEDS)
def test_one_member_hands_out_and_in_the_end_everything_is_owned(seed: int) -> None:
    town = GroupTown(seed)
    town.run(TROUBLE_MS)
    town.run(6 * SESSION_MS + TROUBLE_MS // 2, trouble=False)
    assert town.broken == []
    held = [len(each.machine.member.holds) for each in town.members]
    assert sum(held) == PARTITIONS
    assert max(held) - min(held) <= 1
    assert all(each.machine.may_hand_out(town.now_ms) for each in town.members)
    assert town.handed_out > 100


def found() -> bool:
    """Whether some schedule breaks a promise."""
    for seed in range(40):
        town = GroupTown(seed)
        town.run(TROUBLE_MS)
        if town.broken:
            return True
    return False


def test_a_member_that_stops_too_late_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "LEASE", 1.5)
    assert found()
