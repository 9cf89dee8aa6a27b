"""Marshal promises that a server of groups listens to all that comes, whatever it is about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafka_marshal.core.groups.events import MemberExpired
from kafka_marshal.machines.groups.control.sessions import LATE_MS
from kafka_marshal.machines.groups.effects import Effect
from kafka_marshal.machines.groups.server import GroupServer
from kafka_marshal.rpc.codec import BY_NAME, RpcRequest
from kafka_marshal.rpc.error_codes import ErrorCode as Code
from tests.machines.groups.desk import GROUP, SESSION_MS, Desk

NOBODY = 999
"""A connection that there is not."""
BEAT = RpcRequest(BY_NAME["Heartbeat"], 0, 7, "client", {"SessionTimeout": 1})
INPUTS: dict[str, Callable[[GroupServer, int], list[Effect]]] = {
    "reached": lambda server, now_ms: server.reached(0, 0, now_ms),
    "connected": lambda server, now_ms: server.connected(NOBODY, now_ms),
    "disconnected": lambda server, now_ms: server.disconnected(NOBODY, now_ms),
    "requested": lambda server, now_ms: server.requested(NOBODY + 1, BEAT, now_ms),
}


def given_up(desk: Desk) -> bool:
    """Whether the server asks for the end of a member."""
    return any(isinstance(record.event, MemberExpired) for record in desk.sent[0])


def a_silent_member() -> Desk:
    """A server, and a member of which nothing is heard from here on."""
    desk = Desk().serve().create()
    desk.join("m1")
    desk.tick()
    return desk


@pytest.mark.parametrize("name", INPUTS)
def test_silence_counts_while_anything_else_comes(name: str) -> None:
    desk = a_silent_member()
    for _ in range(SESSION_MS // 150):
        desk.now_ms += 150
        desk.do(0, INPUTS[name](desk.servers[0], desk.now_ms))
    desk.tick()
    desk.tick()
    assert given_up(desk)


def test_nobody_is_given_up_right_behind_a_pause_unless_there_is_always_one() -> None:
    for late_ms, found in ((LATE_MS, [True]), (LATE_MS + 1, [False, True])):
        desk = a_silent_member()
        while desk.now_ms < 1_000 + SESSION_MS:
            desk.now_ms += 100
            desk.tick()
        assert not given_up(desk)
        for each in found:
            desk.now_ms += late_ms
            desk.tick()
            assert given_up(desk) is each


def test_behind_what_nobody_can_read_it_waits_until_the_reader_is_past_it() -> None:
    desk = Desk()
    [token] = desk.questions[0]
    desk.do(0, desk.servers[0].end_is(0, token, 2, desk.now_ms))
    codes = []
    for offset in (1, 2):
        desk.do(0, desk.servers[0].reached(0, offset, desk.now_ms))
        codes.append(desk.code(desk.ask("ListGroups", desk.connect())))
    assert codes == [Code.COORDINATOR_LOAD_IN_PROGRESS, Code.NONE]


def test_a_list_of_named_groups_waits_for_no_other_partition() -> None:
    desk = Desk(partitions=2).serve()
    number_of = desk.servers[0].partition_of
    names = [f"group-{number}" for number in range(20)]
    [here, *_], [there, *_] = ([n for n in names if number_of(n) == p] for p in (0, 1))
    desk.create(ConsumerGroup=here)
    connection = desk.connect()

    def listed(*names: str) -> Any:
        body = desk.told("ListGroups", connection, ConsumerGroups=[*names])
        return body["ErrorCode"], [each["GroupName"] for each in body["GroupsInfo"]]

    assert listed(here) == (Code.NONE, [here])
    assert listed(there, here) == (Code.COORDINATOR_LOAD_IN_PROGRESS, [here])
    assert listed() == (Code.COORDINATOR_LOAD_IN_PROGRESS, [here])
    missing = next(f"a-{number}" for number in range(20) if not number_of(f"a-{number}"))
    assert listed(there, missing) == (Code.GROUP_ID_NOT_FOUND, [])


def test_groups_that_are_deleted_at_once_are_answered_at_once() -> None:
    desk = Desk().serve().create().create(ConsumerGroup="h")
    told = desk.told("DeleteGroup", desk.connect(), ConsumerGroup=["h", GROUP, "", "h"])
    assert told["DeletedConsumerGroups"] == ["h", GROUP]
    assert told["Errors"] == [{"ConsumerGroup": "", "ErrorCode": Code.INVALID_GROUP_ID}]


@pytest.mark.parametrize("is_counted", [False, True])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_deletion_is_one_of_the_requests_that_version_0_waits_for(
    is_counted: bool, is_deleted: bool
) -> None:
    desk = Desk().serve().create()
    connection = desk.connect()
    created = desk.ask("CreateGroup", connection, ConsumerGroup="h")
    if is_counted:
        desk.settled()
    deleted = desk.ask("DeleteGroup", connection, ConsumerGroup=[GROUP, ""])
    if is_deleted:
        desk.land()
        desk.read()
    beat = desk.ask("Heartbeat", connection, version=0)
    assert (desk.code(created) is Code.NONE, deleted in desk.answers) == (is_counted, is_deleted)
    waits = not (is_counted and is_deleted)
    assert desk.code(beat) is (Code.INVALID_REQUEST if waits else Code.UNKNOWN_MEMBER_ID)


def test_a_connection_of_version_0_commits_for_no_other_group() -> None:
    desk = Desk().serve().create().create(ConsumerGroup="h")
    connection = desk.connect()
    desk.told("RegisterConsumer", connection, version=0)
    told = desk.told("CommitOffsets", connection, version=0, ConsumerGroup="h")
    assert told["ErrorCode"] is Code.UNKNOWN_MEMBER_ID


def test_nobody_waits_over_a_connection_that_has_ended() -> None:
    desk = Desk().serve().create().create(ConsumerGroup="h")
    member, other = desk.join("m1")[0], desk.connect()
    desk.ask("Heartbeat", member)
    desk.ask("DeleteGroup", other, ConsumerGroup=["h"])
    answering = desk.servers[0]._partitions[0].answering
    for connection, left in ((NOBODY, 2), (other, 1), (member, 0)):
        desk.do(0, desk.servers[0].disconnected(connection, desk.now_ms))
        assert len(answering.all()) == left
