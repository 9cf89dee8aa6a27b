"""Marshal promises that each request of a group gets the answer that the reference says."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_marshal.core.groups.events import (
    GroupCreated,
    GroupSnapshot,
    MemberRegistered,
    PartitionsCounted,
)
from kafka_marshal.core.groups.state import Topic
from kafka_marshal.machines.groups.control import partition
from kafka_marshal.machines.groups.control.sizes import event_bytes
from kafka_marshal.machines.groups.effects import FORWARDED
from kafka_marshal.rpc.error_codes import ErrorCode as Code
from tests.machines.groups.desk import GROUP, SESSION_MS, Desk, at, held, place


def a_group() -> tuple[Desk, int]:
    """A server with a group, and a connection to it."""
    desk = Desk().serve().create()
    return desk, desk.connect()


REFUSED: list[tuple[str, dict[str, Any], Code]] = [
    ("CreateGroup", {"SessionTimeout": 999}, Code.INVALID_SESSION_TIMEOUT),
    ("CreateGroup", {"SessionTimeout": 1_800_001}, Code.INVALID_SESSION_TIMEOUT),
    ("CreateGroup", {"SessionTimeout": 5_000}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ("CreateGroup", {"Ephemeral": 1}, Code.INCONSISTENT_GROUP_PROTOCOL),
    ("CreateGroup", {"Strategy": "best"}, Code.INVALID_REQUEST),
    ("CreateGroup", {"Rebalance": "soon"}, Code.INVALID_REQUEST),
    ("CreateGroup", {"ConsumerGroup": ""}, Code.INVALID_GROUP_ID),
    ("CreateGroup", {"ConsumerGroup": "x" * 250}, Code.INVALID_GROUP_ID),
    ("CreateGroup", {"ConsumerGroup": "h", "Topics": ["u"]}, Code.UNKNOWN_TOPIC_OR_PARTITION),
    ("CreateGroup", {"ConsumerGroup": "h", "Topics": ["big"]}, Code.GROUP_MAX_SIZE_REACHED),
    ("CreateGroup", {"ConsumerGroup": "h", "Topics": [""]}, Code.INVALID_REQUEST),
    ("RegisterConsumer", {"ConsumerGroup": "h", "Generation": -1}, Code.GROUP_ID_NOT_FOUND),
    ("RegisterConsumer", {"Generation": 3}, Code.UNKNOWN_MEMBER_ID),
    ("RegisterConsumer", {"Generation": -2}, Code.INVALID_REQUEST),
    ("RegisterConsumer", {"Generation": -1, "Held": held(0)}, Code.INVALID_REQUEST),
    ("RegisterConsumer", {"Generation": -1, "Static": held(0, 0)}, Code.INVALID_REQUEST),
    ("RegisterConsumer", {"Generation": -1, "Static": held(-1)}, Code.INVALID_REQUEST),
    ("RegisterConsumer", {"Generation": -1, "ConsumerId": ""}, Code.INVALID_REQUEST),
    (
        "RegisterConsumer",
        {"Generation": -1, "Topics": [f"t{n}" for n in range(1_001)]},
        Code.GROUP_MAX_SIZE_REACHED,
    ),
    ("RegisterConsumer", {"Generation": 3, "Positions": at(t0=(-1, 0))}, Code.INVALID_REQUEST),
    ("Heartbeat", {}, Code.UNKNOWN_MEMBER_ID),
    ("Heartbeat", {"ConsumerGroup": "h"}, Code.GROUP_ID_NOT_FOUND),
    ("CommitOffsets", {}, Code.UNKNOWN_MEMBER_ID),
    ("DeregisterConsumer", {}, Code.UNKNOWN_MEMBER_ID),
    ("RewindConsumer", {"ConsumerGroup": "h"}, Code.GROUP_ID_NOT_FOUND),
    (
        "RewindConsumer",
        {"NewOffsetsV1": [{"Topic": "t", "Partition": 7, "Offset": 0}]},
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    (
        "RewindConsumer",
        {"NewOffsetsV1": [{"Topic": "t", "Partition": 0, "Offset": -3}]},
        Code.OFFSET_OUT_OF_RANGE,
    ),
]


@pytest.mark.parametrize(("name", "body", "code"), REFUSED)
def test_a_request_that_cannot_be_carried_out_gets_its_code(
    name: str, body: dict[str, Any], code: Code
) -> None:
    desk, connection = a_group()
    desk.topics["big"] = Topic(4_001, "big")
    events = len(desk.log)
    asked = desk.ask(name, connection, **body)
    desk.settled()
    assert desk.code(asked) is code
    assert len(desk.log) == events


def test_the_same_settings_once_again_change_nothing() -> None:
    desk, connection = a_group()
    told = desk.told("CreateGroup", connection)
    assert told["ErrorCode"] is Code.NONE
    assert told["ControllerBroker"] == {"BrokerId": 0, "Host": "host0", "Port": 9}
    assert desk.told("CreateGroup", connection, version=0)["ErrorCode"] is Code.NONE


def test_a_group_is_deleted_when_it_is_empty() -> None:
    desk, connection = a_group()
    member, _ = desk.join("m1")
    told = desk.told("DeleteGroup", connection, ConsumerGroup=[GROUP, "h"])
    assert told["DeletedConsumerGroups"] == []
    assert told["ErrorCode"] is Code.NON_EMPTY_GROUP
    assert [each["ErrorCode"] for each in told["Errors"]] == [
        Code.NON_EMPTY_GROUP,
        Code.GROUP_ID_NOT_FOUND,
    ]
    assert desk.told("DeregisterConsumer", member)["ErrorCode"] is Code.NONE
    told = desk.told("DeleteGroup", connection, ConsumerGroup=[GROUP])
    assert told["DeletedConsumerGroups"] == [GROUP]
    assert desk.state.groups == {}
    assert desk.servers[0]._partitions[0].answering.holdings == {}
    assert desk.told("DeleteGroup", connection, ConsumerGroup=[])["ErrorCode"] is Code.NONE


def test_a_connection_that_ends_is_owed_no_answer() -> None:
    desk, connection = a_group()
    asked = desk.ask("DeleteGroup", connection, ConsumerGroup=[GROUP, "h"])
    other = desk.connect()
    created = desk.ask("CreateGroup", other, ConsumerGroup="h")
    for each in (connection, other):
        desk.do(0, desk.servers[0].disconnected(each, desk.now_ms))
    desk.settled()
    assert (desk.code(asked), desk.code(created)) == (None, None)
    assert [*desk.state.groups] == ["h"]


def test_an_ephemeral_group_goes_with_its_last_member() -> None:
    desk = Desk().serve().create(Ephemeral=1)
    desk.pass_ms(1_000)
    assert GROUP in desk.state.groups
    desk.join("m1")
    desk.pass_ms(SESSION_MS + 300)
    assert desk.state.groups == {}


def test_who_asked_in_a_group_that_went_hears_that_there_is_none() -> None:
    desk = Desk().serve().create(Ephemeral=1)
    member, _ = desk.join("m1")
    desk.pass_ms(100)
    beat = desk.ask("Heartbeat", member)
    left = desk.ask("DeregisterConsumer", member)
    desk.land()
    desk.read()
    assert (desk.code(beat), desk.code(left)) == (None, Code.NONE)
    desk.confirm()
    assert desk.code(beat) is Code.GROUP_ID_NOT_FOUND


def test_a_member_that_leaves_commits_first() -> None:
    desk, _ = a_group()
    member, _ = desk.join("m1")
    desk.pass_ms(100)
    tenure = desk.group.generation
    desk.told("DeregisterConsumer", member, Positions=at(t0=(tenure, 9)))
    assert [each.position for each in desk.group.partitions.values()] == [9, -1]
    again = desk.ask("RegisterConsumer", member, Generation=-1)
    desk.settled()
    assert desk.code(again) is Code.UNKNOWN_MEMBER_ID
    assert member in desk.closed
    desk.join("m1")


def test_a_rewind_looks_up_the_latest_and_sticks() -> None:
    desk, connection = a_group()
    member, _ = desk.join("m1")
    desk.pass_ms(100)
    tenure = desk.group.generation
    to = [{"Topic": "t", "Partition": number, "Offset": -1 - number} for number in (0, 1)]
    told = desk.told("RewindConsumer", connection, NewOffsetsV1=to)
    assert [row["Offset"] for row in told["ActualOffsetsV1"]] == [100, 7]
    beat = desk.ask("Heartbeat", member, Generation=tenure)
    late = desk.told("CommitOffsets", member, PositionsV1=at(t0=(tenure, 200)))
    assert late["PositionsV1"][0]["ErrorCode"] is Code.ILLEGAL_GENERATION
    assert desk.code(beat) is Code.REBALANCE_IN_PROGRESS


def test_a_group_has_so_many_members_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "MEMBERS_MAX", 1)
    desk, connection = a_group()
    desk.join("m1")
    told = desk.told("RegisterConsumer", connection, ConsumerId="m2", Generation=-1)
    assert told["ErrorCode"] is Code.GROUP_MAX_SIZE_REACHED
    desk.join("m1")


def test_what_is_remembered_of_connections_does_not_grow_while_one_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MEMBERS_MAX", 2)
    desk, stays = a_group()
    newcomer = desk.connect()
    first, _ = desk.join("first")
    desk.join("first")
    for number in range(6):
        member, _ = desk.join(f"m{number}")
        desk.told("DeregisterConsumer", member, ConsumerId=f"m{number}")
        desk.pass_ms(100)
    for connection, name in ((stays, "m0"), (newcomer, "m5"), (first, "first")):
        told = desk.told("RegisterConsumer", connection, ConsumerId=name, Generation=-1)
        assert told["ErrorCode"] is Code.COORDINATOR_LOAD_IN_PROGRESS
        assert connection in desk.closed
    desk.join("m0")


def test_a_connection_carries_no_more_members_than_there_are() -> None:
    """Over one that stays open, new ids come and go; and some move to connections of their own."""
    desk, stays = a_group()
    server = desk.servers[0]
    for number in range(6):
        told = desk.told("RegisterConsumer", stays, ConsumerId=f"m{number}", Generation=-1)
        assert told["ErrorCode"] is Code.NONE
        desk.pass_ms(100)
    carried = server._connections.get(stays)
    assert carried is not None
    assert len(carried.members) == 6
    desk.told("DeregisterConsumer", stays, ConsumerId="m0")
    other = desk.connect()
    generation = desk.group.generation
    desk.told("RegisterConsumer", other, ConsumerId="m1", Generation=generation)
    assert {key.member for key in carried.members} == {"m2", "m3", "m4", "m5"}
    desk.pass_ms(SESSION_MS + 300)
    assert desk.group.members == {}
    assert carried.members == set()
    desk.told("RegisterConsumer", stays, ConsumerId="m6", Generation=-1)
    assert {key.member for key in carried.members} == {"m6"}
    desk.do(0, server.unclaimed(0, desk.now_ms))
    assert carried.members == set()


def test_an_event_that_is_too_large_for_the_log_is_refused_and_the_epoch_goes_on() -> None:
    desk = Desk(event_bytes_max=2_000).serve().create()
    member, _ = desk.join("m1")
    desk.pass_ms(100)
    epoch, generation = desk.state.epoch, desk.group.generation
    topics = ["t", *(f"topic-{number}" for number in range(200))]
    told = desk.told("RegisterConsumer", member, Generation=generation, Topics=topics)
    assert told["ErrorCode"] is Code.MESSAGE_TOO_LARGE
    [(kind, size_bytes)] = desk.too_large
    assert kind is MemberRegistered
    assert size_bytes > 2_000
    told = desk.told("CommitOffsets", member, PositionsV1=at(t0=(generation, 5)))
    assert told["ErrorCode"] is Code.NONE
    assert desk.state.epoch == epoch
    assert desk.servers[0].serves(0)


def test_no_reader_begins_at_snapshots_of_which_one_is_too_large() -> None:
    """The log takes less than when the group was made. Its members come and go all the same."""
    desk = Desk().serve().create()
    for number in range(3):
        desk.join(f"m{number}")
    desk.do(0, desk.servers[0].unclaimed(0, desk.now_ms))
    other = desk.start(event_bytes_max=600, snapshot_interval_ms=1_000)
    desk.settled().serve(other).pass_ms(1_500, other)
    assert {kind for kind, _ in desk.too_large} == {GroupSnapshot}
    assert desk.positions == []
    desk.join("m0", other)
    assert desk.servers[other].serves(0)


def test_a_group_is_made_only_if_all_its_records_will_fit() -> None:
    needed = event_bytes(Desk().serve().create().group)
    Desk(event_bytes_max=needed).serve().create()
    desk = Desk(event_bytes_max=needed - 1).serve()
    told = desk.told("CreateGroup", desk.connect())
    assert told["ErrorCode"] is Code.GROUP_MAX_SIZE_REACHED
    assert desk.too_large == [(GroupCreated, needed)]


def test_nobody_joins_a_group_whose_snapshot_might_not_fit_until_another_leaves() -> None:
    both = Desk().serve().create()
    for member in ("m1", "m2"):
        both.join(member)
    desk = Desk(event_bytes_max=event_bytes(both.pass_ms(100).group)).serve().create()
    first, _ = desk.join("m1")
    desk.join("m2")
    desk.pass_ms(100)
    third = desk.connect()
    told = desk.told("RegisterConsumer", third, ConsumerId="m3", Generation=-1)
    assert told["ErrorCode"] is Code.GROUP_MAX_SIZE_REACHED
    assert [kind for kind, _ in desk.too_large] == [MemberRegistered]
    desk.told("DeregisterConsumer", first, ConsumerId="m1")
    desk.pass_ms(100)
    desk.join("m3")


def test_partitions_are_not_counted_where_their_group_might_not_fit() -> None:
    desk = Desk(event_bytes_max=3_000).serve().create()
    desk.topics["t"] = Topic(100, "first")
    desk.pass_ms(61_000)
    assert desk.group.topics["t"].count == 2
    assert {kind for kind, _ in desk.too_large} == {PartitionsCounted}


def test_any_server_lists_groups_and_names_their_controller() -> None:
    desk = Desk(2).serve().create()
    desk.join("m1")
    desk.pass_ms(100)
    told = desk.told("ListGroups", desk.connect(1), 1, Describe=1)
    [group] = told["GroupsInfo"]
    assert group["ControllerBroker"] == {"BrokerId": 0, "Host": "host0", "Port": 9}
    assert group["GroupMembers"] == ["m1"]
    [detail] = told["GroupsInfoV1"]
    assert (detail["State"], detail["ErrorCode"]) == ("Stable", Code.NONE)
    assert [row["ConsumerId"] for row in detail["Owners"]] == ["m1", "m1"]
    brief = desk.told("ListGroups", desk.connect(1), 1)
    assert brief["GroupsInfo"] == [{**group, "GroupMembers": []}]
    assert brief["GroupsInfoV1"] == [{**detail, "State": "", "Owners": []}]
    named = desk.told("ListGroups", desk.connect(1), 1, ConsumerGroups=["h"])
    assert (named["GroupsInfo"], named["ErrorCode"]) == ([], Code.GROUP_ID_NOT_FOUND)
    new = desk.start()
    loading = desk.ask("ListGroups", desk.connect(new), new)
    assert desk.code(loading) is Code.COORDINATOR_LOAD_IN_PROGRESS


def test_a_group_is_created_at_its_controller_from_any_server_once() -> None:
    desk = Desk(2).serve()
    connection = desk.connect(1)
    asked = desk.ask("CreateGroup", connection, 1)
    [forwarded] = desk.forwarded
    assert (forwarded.host, forwarded.port, forwarded.connection) == ("host0", 9, connection)
    assert (forwarded.request.client_id, forwarded.request.correlation_id) == (FORWARDED, asked)
    desk.do(1, desk.servers[1].requested(connection, forwarded.request, desk.now_ms))
    assert desk.code(asked) is Code.NOT_COORDINATOR


def test_other_servers_say_so() -> None:
    desk = Desk(2)
    early = desk.ask("Heartbeat", desk.connect())
    assert desk.code(early) is Code.COORDINATOR_LOAD_IN_PROGRESS
    desk.settled()
    unclaimed = desk.ask("Heartbeat", desk.connect())
    assert desk.code(unclaimed) is Code.COORDINATOR_NOT_AVAILABLE
    desk.serve(0)
    elsewhere = desk.ask("Heartbeat", desk.connect(1), 1)
    assert desk.code(elsewhere) is Code.NOT_COORDINATOR


def test_static_partitions_go_to_who_asked_first() -> None:
    desk, _ = a_group()
    desk.join("m1")
    connection = desk.connect()
    told = desk.told(
        "RegisterConsumer", connection, ConsumerId="m2", Generation=-1, Topics=[], Static=held(1)
    )
    desk.pass_ms(100)
    assert desk.owned() == {"m1": [0], "m2": [1]}
    desk.told(
        "RegisterConsumer", connection, ConsumerId="m2", Generation=told["Generation"], Topics=[]
    )
    assert desk.group.members["m2"].static == {}


def test_a_member_that_wants_something_else_keeps_what_it_owns() -> None:
    desk, _ = a_group()
    member, _ = desk.join("m1")
    desk.pass_ms(100)
    before = desk.group
    known = before.generation
    desk.told("RegisterConsumer", member, Generation=known, Static=held(1), Held=held(0, 1))
    assert desk.group.members["m1"].static.keys() == {place(1)}
    assert desk.group.partitions == before.partitions


def test_a_topic_that_a_member_wants_is_counted_at_once() -> None:
    desk, connection = a_group()
    desk.topics["u"] = Topic(1, "other")
    desk.told("RegisterConsumer", connection, Generation=-1, Topics=["u"])
    desk.pass_ms(200)
    assert [tp.topic for tp, each in desk.group.partitions.items() if each.owner] == ["u"]


# --- version 0 ------------------------------------------------------------------------------------


def old_member(desk: Desk, name: str = "m1") -> tuple[int, list[int]]:
    """A member of version 0: its connection, and what it is to own."""
    connection = desk.connect()
    return connection, registered(desk, connection, name)


def registered(desk: Desk, connection: int, name: str = "m1") -> list[int]:
    """Register a member of version 0; what it is to own."""
    told = desk.told("RegisterConsumer", connection, version=0, ConsumerId=name)
    assert told["ErrorCode"] is Code.NONE
    return [row["Partition"] for row in told["PartitionsToOwn"]]


def test_a_member_of_version_0_hangs_on_its_connection() -> None:
    desk, _ = a_group()
    connection, own = old_member(desk)
    assert own == []
    desk.pass_ms(100)
    beat = desk.told("Heartbeat", connection, version=0)
    assert beat["ErrorCode"] is Code.REBALANCE_IN_PROGRESS
    before = len(desk.log)
    assert registered(desk, connection) == [0, 1]
    assert len(desk.log) == before  # it freed nothing, so its tenures stay
    assert desk.told("Heartbeat", connection, version=0)["ErrorCode"] is Code.NONE
    offsets = [{"Topic": "t", "Partition": 1, "Offset": 4}]
    done = desk.told("CommitOffsets", connection, version=0, Positions=offsets)
    assert done["Positions"][0]["ErrorCode"] is Code.NONE
    assert [each.position for each in desk.group.partitions.values()] == [-1, 4]


def test_two_members_of_version_0_come_to_rest() -> None:
    desk, _ = a_group()
    first, _ = old_member(desk)
    desk.pass_ms(100)
    registered(desk, first)
    second, _ = old_member(desk, "m2")
    for _ in range(6):
        desk.pass_ms(100)
        for connection, name in ((first, "m1"), (second, "m2")):
            beat = desk.told("Heartbeat", connection, version=0)
            if beat["ErrorCode"] is Code.REBALANCE_IN_PROGRESS:
                registered(desk, connection, name)
    assert desk.owned() == {"m1": [0], "m2": [1]}
    generation = desk.group.generation
    assert registered(desk, first) == [0]
    assert desk.group.generation == generation


def test_a_member_of_version_0_waits_for_its_answers() -> None:
    desk, _ = a_group()
    connection, _ = old_member(desk)
    first = desk.ask("Heartbeat", connection, version=0)
    second = desk.ask("RegisterConsumer", connection, version=0)
    assert desk.code(second) is Code.INVALID_REQUEST
    assert connection in desk.closed
    desk.settled()
    assert desk.code(first) is None  # it is closed


def test_what_was_answered_over_a_connection_of_both_versions_is_waited_for_no_more() -> None:
    desk, connection = a_group()
    for name in ("h", "i"):
        desk.ask("CreateGroup", connection, ConsumerGroup=name)
    desk.settled()
    assert registered(desk, connection) == []


def test_before_it_registers_a_connection_of_version_0_names_nobody() -> None:
    desk, connection = a_group()
    assert desk.told("Heartbeat", connection, version=0)["ErrorCode"] is Code.UNKNOWN_MEMBER_ID
    told = desk.told("CommitOffsets", connection, version=0)
    assert told["ErrorCode"] is Code.UNKNOWN_MEMBER_ID
