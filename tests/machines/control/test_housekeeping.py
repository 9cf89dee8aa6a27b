"""Marshal promises what a controller does that nobody asks for, and when."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from kafka_marshal.core.groups.events import (
    ControllershipSnapshot,
    GroupDeleted,
    GroupSnapshot,
    MemberExpired,
)
from kafka_marshal.core.groups.reducer import GroupOutcome
from kafka_marshal.core.groups.state import GroupMember, GroupPartition, Topic, TopicPartition
from kafka_marshal.core.groups.verdicts import GroupAccepted
from kafka_marshal.machines.groups.control.housekeeping import members_of, target_of, was_emptied
from kafka_marshal.machines.groups.controller import MemberKey
from kafka_marshal.machines.groups.effects import CountPartitions
from tests.machines.groups.desk import GROUP, SESSION_MS, Desk, at

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MEMBERS = dict.fromkeys(("m1", "m2"), GroupMember("c", frozenset({"t"}), {}, 3))


@pytest.mark.parametrize(
    ("strategy", "target"),
    [
        ("sticky", {T0: "m2", T1: "m1"}),
        ("range", {T0: "m1", T1: "m2"}),
        ("of a later version", {T0: "m2", T1: "m1"}),
    ],
)
def test_the_strategy_of_a_group_makes_its_target_of_what_is_owned(
    strategy: str, target: dict[TopicPartition, str]
) -> None:
    made = Desk().serve().create().group
    owned = {T0: GroupPartition("m2", 4, "m2"), T1: GroupPartition(None, 3)}
    group = attrs.evolve(made, members=MEMBERS, strategy=strategy, partitions=owned)
    assert target_of(group).target == target


def test_an_ephemeral_group_was_emptied_when_a_target_was_made_and_nobody_is_left() -> None:
    made = Desk().serve().create().group
    emptied = attrs.evolve(made, ephemeral=True, rebalanced_at=4, generation=5)
    assert was_emptied(emptied)
    assert not was_emptied(attrs.evolve(emptied, ephemeral=False))
    assert not was_emptied(attrs.evolve(emptied, members=MEMBERS))
    assert not was_emptied(attrs.evolve(emptied, rebalanced_at=0))


def test_snapshots_are_written_after_some_events() -> None:
    desk = Desk(snapshot_events=4).serve().create()
    connection, _ = desk.join("m1")
    desk.pass_ms(200)  # a rebalance is the third
    assert desk.positions == []
    tenure = desk.group.generation
    desk.told("CommitOffsets", connection, PositionsV1=at(t0=(tenure, 5)))
    for _ in range(2):
        desk.pass_ms(500)
        [offset] = desk.positions
        kinds = [type(record.event) for record in desk.log[offset:]]
        assert kinds == [ControllershipSnapshot, GroupSnapshot]


def test_snapshots_are_written_after_an_interval() -> None:
    desk = Desk(snapshot_interval_ms=10_000).serve()
    found = []
    for for_ms in (9_700, 100, 9_900, 100):
        desk.pass_ms(for_ms)
        found.append(len(desk.positions))
    assert found == [0, 1, 1, 2]


def test_the_first_snapshots_come_after_a_minute() -> None:
    desk = Desk().serve()
    desk.pass_ms(59_700)
    assert desk.positions == []
    desk.pass_ms(100)
    assert len(desk.positions) == 1


def test_topics_are_counted_once_in_an_interval() -> None:
    desk = Desk(count_interval_ms=1_000).serve().create()
    desk.topics["t"] = Topic(3, "first")
    desk.pass_ms(800)
    assert desk.group.topics["t"].count == 2
    desk.pass_ms(200)
    assert desk.group.topics["t"].count == 3


def test_only_what_is_new_is_counted_besides() -> None:
    desk = Desk().serve().create()
    desk.topics["u"] = Topic(1, "other")

    def asks_for(member: str, topics: list[str]) -> Sequence[object]:
        connection = desk.connect()
        desk.ask("RegisterConsumer", connection, ConsumerId=member, Generation=-1, Topics=topics)
        asked: list[object] = [effect for _, effect in desk.looks]
        desk.settled()
        return asked

    assert asks_for("m1", ["t"]) == []
    assert asks_for("m2", ["t", "u"]) == [CountPartitions(0, frozenset({"u"}))]
    assert asks_for("m3", ["u"]) == []


def test_nothing_is_counted_where_nobody_wants_anything() -> None:
    desk = Desk().serve()
    desk.now_ms += 61_000
    desk.tick()
    assert desk.looks == []


def test_a_member_that_is_silent_is_given_up_after_its_session() -> None:
    desk = Desk().serve().create()
    desk.join("m1")
    desk.pass_ms(SESSION_MS - 100)
    assert "m1" in desk.group.members
    desk.pass_ms(100)
    expired = [each.event for each in desk.log if isinstance(each.event, MemberExpired)]
    assert expired == [MemberExpired("m1", "silent", SESSION_MS)]
    assert desk.servers[0]._partitions[0].sessions._heard == {}
    desk.join("m1")
    desk.pass_ms(SESSION_MS - 100)
    assert "m1" in desk.group.members


def test_an_ephemeral_group_stays_while_somebody_is_in_it() -> None:
    desk = Desk().serve().create(Ephemeral=1)
    first, _ = desk.join("m1")
    second, _ = desk.join("m2")
    desk.pass_ms(100)
    desk.told("DeregisterConsumer", first)
    desk.pass_ms(100)
    assert GROUP in desk.state.groups
    desk.told("DeregisterConsumer", second, ConsumerId="m2")
    assert desk.state.groups == {}


def test_the_next_controller_deletes_an_ephemeral_group_that_the_last_one_left_empty() -> None:
    desk = Desk(2).serve().create(Ephemeral=1)
    member, _ = desk.join("m1")
    desk.pass_ms(100)
    desk.ask("DeregisterConsumer", member)
    left, deleted = desk.sent[0]
    assert isinstance(deleted.event, GroupDeleted)
    desk.sent[0].clear()
    desk.append(left)
    assert GROUP in desk.state.groups
    desk.serve(1)
    assert desk.state.groups == {}


def test_no_reader_begins_at_snapshots_of_which_one_differs() -> None:
    desk = Desk(snapshot_interval_ms=1_000).serve().create()
    while len(desk.sent[0]) < 2:
        desk.now_ms += 100
        desk.tick()
    housekeeping = desk.servers[0]._partitions[0].housekeeping
    verdicts = (GroupAccepted.SNAPSHOT_AGREES, GroupAccepted.SNAPSHOT_DIFFERS)
    for record, verdict in zip(desk.sent[0], verdicts, strict=True):
        housekeeping.read(record, GroupOutcome(desk.servers[0].view(0), verdict))
    assert housekeeping.log.out == []


def test_everybody_has_a_session_whatever_the_group() -> None:
    made = Desk().serve().create().group
    groups = {"g": attrs.evolve(made, members=MEMBERS), "h": made}
    assert [*members_of(groups)] == [MemberKey("g", "m1"), MemberKey("g", "m2")]
