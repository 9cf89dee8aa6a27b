"""Marshal promises to say how many moves another strategy would have saved."""

from __future__ import annotations

from random import Random

import pytest

from kafka_marshal.core.groups.assignment import STRATEGIES
from kafka_marshal.core.groups.events import Rebalanced
from kafka_marshal.core.groups.state import TopicPartition
from kafka_marshal.replay.errors import InvalidOption
from kafka_marshal.replay.groups.whatif import WhatIfStrategy, what_if
from kafka_marshal.replay.model.groups.tables import REBALANCES, TARGETS
from tests.replay.groups.stories import GroupLog


def written_by(strategy: str, seed: int, steps: int = 14) -> GroupLog:
    """A group whose members come and go, and whose targets this strategy makes."""
    random = Random(seed)
    log = GroupLog(partitions=9)
    members: set[str] = set()
    for step in range(steps):
        log.at(40 * step)
        if len(members) < 2 or (len(members) < 5 and random.random() < 0.6):
            member = f"m{random.randrange(6)}"
            if member in members:
                continue
            members.add(member)
            log.joins(member)
        else:
            member = random.choice(sorted(members))
            members.remove(member)
            log.leaves(member)
        group = log.group
        owners = {tp: each.owner for tp, each in group.partitions.items() if each.owner is not None}
        target = STRATEGIES[strategy](group.members, {"orders": 9}, owners)  # type: ignore[arg-type]
        log.writes(Rebalanced({TopicPartition(*tp): to for tp, to in target.items()}))
        for each in sorted(members):
            log.lets_go(each)
    return log


def answer(log: GroupLog, strategy: str) -> WhatIfStrategy:
    [found] = what_if(log.rows()[TARGETS], strategy)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(4))
def test_the_strategy_that_wrote_the_targets_saves_nothing(strategy: str, seed: int) -> None:
    found = answer(written_by(strategy, seed), strategy)
    assert found.saved == 0
    assert found.largest_share[0] == found.largest_share[1]


def test_sticky_saves_moves_that_round_robin_made() -> None:
    found = [answer(written_by("round_robin", seed), "sticky") for seed in range(4)]
    assert all(each.saved >= 0 for each in found)
    written, instead = found[0].moves
    assert written > instead
    assert f"moved {written:,} partitions" in found[0].sentence
    assert f"would have moved {instead:,}" in found[0].sentence
    assert found[0].json()["moves_saved"] == found[0].saved == written - instead


def test_moves_are_those_that_the_rebalances_made() -> None:
    log = written_by("round_robin", 1)
    moved = sum(row.moves for row in log.rows()[REBALANCES])
    assert answer(log, "sticky").moves[0] == moved


def test_the_largest_share_is_that_of_the_worst_target() -> None:
    log = GroupLog(4).joins("m1").target(*["m1"] * 4).joins("m2").target("m1", "m1", "m1", "m2")
    log.leaves("m2").joins("m3").target("m1", "m1", "m3", "m3")
    assert answer(log, "sticky").largest_share == (4, 4)
    later = GroupLog(4).joins("m1").joins("m2").target("m1", "m1", "m1", "m2")
    assert answer(later, "sticky").largest_share == (3, 2)


def test_a_member_that_left_and_came_again_before_a_target_has_what_it_had() -> None:
    log = GroupLog(2).joins("m1").joins("m2").target("m1", "m2")
    log.leaves("m2").joins("m2").joins("m3").target("m3", "m2").lets_go("m1")
    found = answer(log, "sticky")
    assert [each.written for each in found.rebalances] == [0, 1]
    assert [each.instead for each in found.rebalances] == [0, 0]


def test_a_strategy_that_there_is_not_is_named() -> None:
    with pytest.raises(InvalidOption, match="one of range, round_robin, sticky, not 'fair'"):
        what_if([], "fair")
