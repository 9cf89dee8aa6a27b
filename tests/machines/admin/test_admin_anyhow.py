"""Marshal promises that positions are never half set silently, whatever the network does.

The model checks the machine; here it is the policy, under schedules that nobody wrote.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeAlias

import pytest

from kafka_marshal import Accepted, ClaimKey, Record, World
from kafka_marshal.core.claims.pause_work import (
    NO_WORK,
    PauseWork,
    left_undone,
    work_after,
    work_paused,
)
from kafka_marshal.core.messages import ReleaseGroup, ReleasingPartition
from kafka_marshal.machines.admin import admin
from kafka_marshal.machines.admin.operation import (
    AllSet,
    NoneSet,
    Operation,
    PartlySet,
    consumer_of,
)
from kafka_marshal.machines.consumer.consumer import ConsumerState, InstanceConfig, acts
from tests.machines.admin.desk import BOTH, ONE, RULES, TWO, Desk

Event: TypeAlias = tuple[str, str, ClaimKey, int]

SEEDS = range(400)
_WEIGHTED = ["append"] * 6 + ["read"] * 6 + ["unknown", "late", "late", "take", "wait", "crash"]


def schedule(seed: int) -> list[Event]:
    """Sixty things that happen, mostly that records arrive and are read."""
    chance = random.Random(seed)
    return [
        (
            chance.choice(_WEIGHTED),
            chance.choice(["x1", "x1", "y1"]),
            chance.choice([ONE, TWO]),
            chance.randrange(2500),
        )
        for _ in range(60)
    ]


def run(events: list[Event]) -> tuple[Desk, set[str]]:
    desk, crashed = Desk(now_ms=1000), set[str]()
    lost: dict[str, list[Record]] = {"x1": [], "y1": []}
    desk.sit("x1")
    desk.begin("x1")
    for what, name, key, wait_ms in events:
        if what == "wait":
            desk.wait(desk.now_ms + wait_ms)
        elif what == "take":
            desk.say(f"ClaimingPartition/1/0/c1/c/g/{key.topic}/{key.topic_partition}", seen=0)
        elif name not in desk.outbox:
            if what == "append":
                desk.sit("y1")
                desk.begin("y1", {ONE: 9, TWO: 9})
        elif what == "append" and desk.outbox[name]:
            desk.append(name)
        elif what == "late" and lost[name]:
            record = lost[name].pop(0)
            desk._append(record.message, record.headers)
        elif name in crashed:
            continue
        elif what == "read":
            desk.read(name)
        elif what == "unknown" and desk.outbox[name]:
            sent = desk.lose(name)
            lost[name].append(Record(0, 0, 0, sent.message, sent.headers))
            desk.do(name, desk.administrators[name].outcome_unknown(sent.message, desk.now_ms))
        elif what == "crash" and name not in desk.told:
            crashed.add(name)
            del desk.administrators[name]
    return desk, crashed


def set_by(desk: Desk, name: str) -> frozenset[ClaimKey]:
    """The claims whose position this administrator set, by the log."""
    world, found = World(RULES), set[ClaimKey]()
    for record in desk.log:
        outcome = world.apply(record)
        message = record.message
        says = isinstance(message, ReleasingPartition) and record.headers.set_position is not None
        if says and message.instance_id == name and outcome.verdict is Accepted.POSITION_SET:
            found.add(outcome.transitions[0].key)
    return frozenset(found)


def works(desk: Desk) -> Mapping[str, PauseWork]:
    """What the log says of the pause of each."""
    world, work, found = World(RULES), NO_WORK, dict[str, PauseWork]()
    for record in desk.log:
        outcome = world.apply(record)
        if isinstance(record.message, ReleaseGroup):
            work = work_paused(work, record.message.instance_id)
        else:
            key = admin.key_of(record)
            assert key is not None
            [one] = outcome.transitions
            work = work_after(work, key, one.before, record, one.after)
        if work.by is not None:
            found[work.by] = work
    return found


def lies(seed: int) -> list[str]:
    """The results and warnings, given or missing, that are not so."""
    desk, crashed = run(schedule(seed))
    found = []
    for name in desk.outbox:
        done, everything = set_by(desk, name), frozenset(BOTH)
        match desk.told.get(name):
            case AllSet():
                so = done == everything
            case NoneSet():
                so = not done
            case PartlySet(was_set, not_set, in_doubt, _):
                so = was_set <= done <= was_set | in_doubt
                so = so and was_set | not_set | in_doubt == everything
            case None:
                silent = name in crashed and done not in (frozenset(), everything)
                so = not silent or left_undone(works(desk)[name]) == everything - done
            case other:
                raise ValueError(other)
        if not so:
            found.append(f"seed {seed}: {name} set {sorted(done)}\n{desk.story()}")
    return found


def test_what_the_operator_was_told_is_so() -> None:
    assert [lie for seed in SEEDS for lie in lies(seed)] == []


def test_the_schedules_end_in_every_way() -> None:
    ends = Counter[str]()
    for seed in SEEDS:
        desk, crashed = run(schedule(seed))
        for name in desk.outbox:
            half = 0 < len(set_by(desk, name)) < len(BOTH)
            told = type(desk.told.get(name)).__name__
            ends[f"{told}{' half' if half else ''}{' crashed' if name in crashed else ''}"] += 1
    assert {"AllSet", "NoneSet", "PartlySet half", "NoneType half crashed"} <= set(ends)


def test_in_the_end_every_operator_is_told() -> None:
    for seed in SEEDS:
        desk, crashed = run(schedule(seed))
        for _ in range(3):
            desk.wait(desk.now_ms + 20_000)
            for name in set(desk.administrators) - crashed:
                desk.go(name)
        assert set(desk.told) >= set(desk.administrators), f"seed {seed}\n{desk.story()}"
        for name in set(desk.administrators) - crashed:
            assert desk.timer_of(name) is None


def one_is_enough(me: InstanceConfig, operation: Operation) -> bool:
    owned = [acts(me, consumer_of(operation, key)) for key in operation.targets]
    return any(owned)


def nothing_lands_late(me: InstanceConfig, consumer: ConsumerState) -> bool:
    return False


def stays_confident(me: InstanceConfig, operation: Operation) -> bool:
    return False


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("all_owned", one_is_enough),
        ("write_may_land", nothing_lands_late),
        ("paused_by_another", stays_confident),
    ],
)
def test_an_administrator_that_lies_is_caught(
    monkeypatch: pytest.MonkeyPatch, name: str, mutant: Callable[..., bool]
) -> None:
    monkeypatch.setattr(admin, name, mutant)
    assert any(lies(seed) for seed in range(10 * len(SEEDS)))
