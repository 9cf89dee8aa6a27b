"""Marshal promises the same of groups whose every step a seed has chosen, and the seed repeats.

Controllers and members that ship run against a Kafka and a network in memory: see
`tools.simulate.groups`. Each checker is seen to find a mistake.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import attrs
import pytest
from tools.simulate.faults.fault import Happening
from tools.simulate.groups.checkers import CHECKERS
from tools.simulate.groups.faults import FAULTS, GroupsFault
from tools.simulate.groups.limits import GroupsLimits
from tools.simulate.groups.processes import GroupsProcess
from tools.simulate.groups.runs import GroupsReport, run_of, shrunk, simulate
from tools.simulate.groups.setting import GroupsSetting
from tools.simulate.groups.world import PARTITION, GroupsWorld

from kafka_marshal import GroupConsumer
from kafka_marshal.client.groups import port
from kafka_marshal.client.groups.assigned_fetch import AssignedFetch
from kafka_marshal.client.groups.connection import ServerConnection
from kafka_marshal.client.groups.port import PortLimits
from kafka_marshal.core.groups import reducer
from kafka_marshal.core.groups.events import EventRecord
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import NO_POSITION, Controllership
from kafka_marshal.core.values import evolved
from kafka_marshal.machines.groups.control.answering import Answering
from kafka_marshal.machines.groups.control.controlled_log import ControlledLog
from kafka_marshal.machines.groups.control.housekeeping import Housekeeping
from kafka_marshal.machines.groups.controller import has_landed
from kafka_marshal.machines.groups.membership import Membership
from kafka_marshal.machines.groups.server import GroupServer

SHORT = GroupsSetting(members=3, simulated_s=20.0, fault_every_s=1.0)
SEEDS = (8, 1)
"""Of the second the limits are near: every second world is so."""


@pytest.fixture(scope="module")
def reports() -> list[GroupsReport]:
    return [run_of(seed, SHORT) for seed in SEEDS]


def test_every_promise_holds_under_faults(reports: list[GroupsReport]) -> None:
    assert [(each.seed, each.violations) for each in reports if each.violations] == []
    assert all(each.handed_out for each in reports)


@pytest.mark.night  # By day the same scheduler repeats runs of consumers.
def test_a_seed_repeats_a_run_whatever_the_process_hashes_with(reports: list[GroupsReport]) -> None:
    lines = (
        "from tests.client.groups.test_groups_by_seed import *",
        "print(run_of(SEEDS[1], SHORT).digest)",
    )
    again = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert again.stdout.strip() == reports[1].digest != reports[0].digest


@pytest.mark.night
def test_runs_meet_every_fault_and_break_nothing() -> None:
    found = [run_of(seed, attrs.evolve(SHORT, simulated_s=60.0)) for seed in range(24)]
    met: Counter[str] = sum((each.faults for each in found), Counter())
    assert [(each.seed, each.violations) for each in found if each.violations] == []
    assert met.keys() == FAULTS.keys()
    limits: Counter[str] = sum((each.met for each in found), Counter())
    told = {"told: GROUP_MAX_SIZE_REACHED", "told: THROTTLING_QUOTA_EXCEEDED"}
    assert limits.keys() >= {*told, "hung up: too_many", "hung up: idle", "an event is too large"}


@pytest.mark.night
def test_nothing_is_handed_out_before_the_application_knows_that_it_is_assigned() -> None:
    """An answer that came between the callbacks and the next request began a partition."""
    assert simulate(17).violations == ()


# --- each checker finds a mistake -----------------------------------------------------------------

Patch = pytest.MonkeyPatch


def hands_out_without_a_lease(patch: Patch) -> None:
    patch.setattr(Membership, "may_hand_out", lambda member, _: not member.member.fresh)


def takes_positions_back(patch: Patch) -> None:
    step = reducer.step

    def backwards(view: Controllership, record: EventRecord) -> GroupOutcome:
        outcome = step(view, record)
        if record.offset % 7:
            return outcome
        groups = {
            name: evolved(
                group,
                partitions={
                    tp: evolved(each, position=min(each.position, 0))
                    for tp, each in group.partitions.items()
                },
            )
            for name, group in outcome.controllership.groups.items()
        }
        return evolved(outcome, controllership=evolved(outcome.controllership, groups=groups))

    for module in ("machines.groups.control.controlled_log", "core.groups.reducer"):
        patch.setattr(f"kafka_marshal.{module}.step", backwards)
    patch.setattr("tools.simulate.groups.checkers.step", backwards)
    patch.setattr("tools.simulate.groups.world.step", backwards)


def fetches_from_the_next_offset(patch: Patch) -> None:
    assign = AssignedFetch._assign
    patch.setattr(
        AssignedFetch,
        "_assign",
        lambda fetch, topic, number, offset: assign(
            fetch, topic, number, 1 if offset == NO_POSITION else offset + 1
        ),
    )


def commits_one_more(patch: Patch) -> None:
    done = GroupConsumer._in_hand_is_done

    def more(consumer: GroupConsumer) -> None:
        before = dict(consumer._uncommitted)
        done(consumer)
        for key, offset in consumer._uncommitted.items():
            if before.get(key) != offset:
                consumer._uncommitted[key] = offset + 1

    patch.setattr(GroupConsumer, "_in_hand_is_done", more)


def answers_before_it_is_in_the_log(patch: Patch) -> None:
    patch.setattr(Answering, "is_ready", lambda *_: True)


def assigns_twice(patch: Patch) -> None:
    told = GroupsProcess._told

    def twice(process: GroupsProcess, kind: str, claims: Any) -> None:
        told(process, kind, claims)
        told(process, kind, claims)

    patch.setattr(GroupsProcess, "_told", twice)


def folds_something_else(patch: Patch) -> None:
    read = GroupServer.read

    def forgets(server: GroupServer, record: EventRecord, now_ms: int) -> Any:
        effects = read(server, record, now_ms)
        log = server._partitions[record.partition].log
        log.view = evolved(log.view, host="elsewhere")
        return effects

    patch.setattr(GroupServer, "read", forgets)


def never_looks_at_groups(patch: Patch) -> None:
    patch.setattr(Housekeeping, "_look_at_groups", lambda _: None)


def never_mutes(patch: Patch) -> None:
    patch.setattr(Answering, "is_muted", lambda *_: False)


def trips_over_a_request(patch: Patch) -> None:
    def trips(*_: object) -> None:
        raise KeyError("a wire is loose")

    patch.setattr(GroupServer, "disconnected", trips)


def forgets_who_was_a_member(patch: Patch) -> None:
    """As it was: who was a member before a failover does not register, and holds its place."""
    patch.setitem(port._OF_MEMBERS, "Heartbeat", set())


def tells_nobody(patch: Patch) -> None:
    patch.setattr(GroupConsumer, "_see_whether_served", lambda _: None)


def stays_connected(patch: Patch) -> None:
    patch.setattr(ServerConnection, "close", lambda _: None)


MISTAKES: list[tuple[str, Callable[[Patch], None], float]] = [
    ("one_owner", hands_out_without_a_lease, 1.0),
    ("never_back", takes_positions_back, 0.0),
    ("properties", takes_positions_back, 0.0),
    ("begins_at_position", fetches_from_the_next_offset, 0.0),
    ("none_skipped", commits_one_more, 0.0),
    ("committed", answers_before_it_is_in_the_log, 1.0),
    ("callbacks", assigns_twice, 0.0),
    ("agree", folds_something_else, 0.0),
    ("progress", never_looks_at_groups, 0.0),
    ("rebalance_ends", never_mutes, 0.5),
    ("ended", trips_over_a_request, 0.0),
    ("fails_over", forgets_who_was_a_member, 0.0),
    ("limited", tells_nobody, 0.0),
    ("left", stays_connected, 0.0),
]
"""Which checker finds it, and how often there are faults."""
OF_LIMITS = {
    "fails_over": GroupsLimits(PortLimits(strangers_max=1), one_host=True),
    "limited": GroupsLimits(PortLimits(connections_max=2), leaves=True),
}
"""In a world with these limits."""
EACH_TIME = {"none_skipped", "fails_over"}
"""The others are tried in the night."""


@pytest.mark.parametrize(
    ("checker", "mistake", "fault_every_s"),
    [
        pytest.param(*each, id=each[0], marks=() if each[0] in EACH_TIME else pytest.mark.night)
        for each in MISTAKES
    ],
)
def test_each_checker_finds_a_mistake(
    checker: str, mistake: Callable[[Patch], None], fault_every_s: float, monkeypatch: Patch
) -> None:
    mistake(monkeypatch)
    setting = attrs.evolve(
        SHORT,
        fault_every_s=fault_every_s,
        simulated_s=12.0,
        ends_within_s=20.0,
        limits=OF_LIMITS.get(checker, GroupsLimits()),
    )
    found: set[str] = set()
    for seed in range(6):
        report = simulate(seed, setting)
        found |= {one.partition(":")[0] for one in report.violations}
        if checker in found:
            return
    raise AssertionError(f"found by {found}")


def test_there_is_a_mistake_for_each_checker() -> None:
    assert {name for name, _, _ in MISTAKES} == CHECKERS.keys()


def answers_unconfirmed(patch: Patch) -> None:
    patch.setattr(Answering, "is_ready", lambda it, wait: has_landed(it.log.view, wait.needs))


def confirms_without_folding(patch: Patch) -> None:
    confirm = ControlledLog._confirm

    def at_once(log: ControlledLog) -> None:
        position, log._position = log._position, 10**9
        confirm(log)
        log._position = position

    patch.setattr(ControlledLog, "_confirm", at_once)


def deposed_unheard(world: GroupsWorld, _: Random) -> str:
    """The controller's loop alone goes on, and what asks for ends; then there is a message."""
    [serves] = [
        one
        for one in world.processes.values()
        if one.service is not None and one.service._server.serves(PARTITION)
    ]
    for thread in world.scheduler.threads:
        if thread.process == serves.name and thread not in (serves.thread, None):
            thread.stands_after = int(thread.name != "marshal-ends")
    world.scheduler.sleep(2 * world.setting.session_timeout_s)
    for topic in world.setting.topics:
        for number in range(world.setting.partitions):
            world.kafka.append(topic, number, b"")
    world.scheduler.sleep(2.0)
    for thread in world.scheduler.threads:
        thread.stands_after, thread.stands = 0, False
    return serves.name


@pytest.mark.night
@pytest.mark.parametrize("mistake", [None, answers_unconfirmed, confirms_without_folding])
def test_a_controller_that_does_not_hear_that_it_was_deposed_prolongs_nothing(
    mistake: Callable[[Patch], None] | None, monkeypatch: Patch
) -> None:
    """G3: members stop before what they hold is another's. Without it they hand out messages."""
    monkeypatch.setitem(FAULTS, "deposed_unheard", GroupsFault(deposed_unheard))
    if mistake is not None:
        mistake(monkeypatch)
    quiet = attrs.evolve(SHORT, messages_per_s=1e-4, fault_every_s=0.0, simulated_s=45.0)
    report = simulate(1, quiet, (Happening(15.0, "deposed_unheard", 1),))
    found = {one.partition(":")[0] for one in report.violations}
    assert ("one_owner" in found) == (mistake is not None), report.violations


@pytest.mark.night
def test_a_run_is_shrunk_to_the_faults_that_it_takes(monkeypatch: Patch) -> None:
    hands_out_without_a_lease(monkeypatch)
    report = next(one for one in (simulate(seed, SHORT) for seed in range(9)) if one.violations)
    small = shrunk(report, 8)
    assert len(small.plan) < len(report.plan)
    assert small.violations
