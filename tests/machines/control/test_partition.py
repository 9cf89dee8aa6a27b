"""Marshal promises whose request counts, over which connection, and how long it may wait."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_marshal.core.groups.events import At, MemberLeft, Reconciled
from kafka_marshal.core.groups.state import Topic, TopicPartition
from kafka_marshal.machines.groups.control import partition
from kafka_marshal.machines.groups.control.partition import LOOK_UP_MS, PartitionController
from kafka_marshal.machines.groups.controller import MemberKey
from kafka_marshal.machines.groups.effects import ResolveOffsets
from kafka_marshal.rpc.error_codes import ErrorCode as Code
from tests.machines.groups.desk import GROUP, SESSION_MS, Desk, place


def a_group() -> Desk:
    """A server with a group."""
    return Desk().serve().create()


def controller(desk: Desk) -> PartitionController:
    """The partition's, in the server."""
    return desk.servers[0]._partitions[0]


def code(desk: Desk, name: str, connection: int, **body: Any) -> Code:
    """The code of an answer, once everything has come about."""
    answer: Code = desk.told(name, connection, **body)["ErrorCode"]
    return answer


# --- connections ----------------------------------------------------------------------------------

REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("Heartbeat", {}),
    ("CommitOffsets", {}),
    ("DeregisterConsumer", {}),
    ("RegisterConsumer", {"Generation": -1}),
    ("RegisterConsumer", {"Generation": 3}),
]


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize(("name", "body"), REQUESTS)
def test_over_an_older_connection_of_a_member_nothing_counts(
    name: str, body: dict[str, Any], others: int
) -> None:
    """It stays open while it carries another member."""
    desk = a_group()
    older, _ = desk.join("m1")
    if others:
        desk.told("RegisterConsumer", older, ConsumerId="m2", Generation=-1)
    newer, _ = desk.join("m1")
    desk.pass_ms(200)
    before = desk.state
    assert code(desk, name, older, **body) is Code.FENCED_INSTANCE_ID
    assert desk.state == before
    assert (older in desk.closed, newer in desk.closed) == (not others, False)


@pytest.mark.parametrize(("name", "body"), REQUESTS)
def test_a_connection_ends_only_for_a_member_that_went_while_it_was_there(
    name: str, body: dict[str, Any]
) -> None:
    desk = Desk().serve()
    first = desk.connect()
    desk.create()
    is_new = body.get("Generation") == -1
    if not is_new:
        assert code(desk, name, first, **body) is Code.UNKNOWN_MEMBER_ID
        assert first not in desk.closed
    member, _ = desk.join("m1")
    between = desk.connect()
    desk.told("DeregisterConsumer", member)
    later = desk.connect()
    for connection in (between, member):
        assert code(desk, name, connection, **body) is Code.UNKNOWN_MEMBER_ID
        assert connection in desk.closed
    assert code(desk, name, later, **body) is (Code.NONE if is_new else Code.UNKNOWN_MEMBER_ID)
    assert later not in desk.closed


def test_of_a_member_that_came_back_nothing_is_remembered() -> None:
    desk = a_group()
    member, _ = desk.join("m1")
    desk.told("DeregisterConsumer", member)
    assert controller(desk)._given_up.keys() == {MemberKey(GROUP, "m1")}
    desk.join("m1")
    assert controller(desk)._given_up == {}


def test_as_many_connections_are_remembered_as_there_may_be_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partition, "MEMBERS_MAX", 2)
    for size, left in ((2, [1, 2]), (3, [3])):
        desk = a_group()
        given_up = {MemberKey(GROUP, f"m{number}"): number for number in range(1, size + 1)}
        controller(desk)._given_up = dict(given_up)
        desk.pass_ms(100)
        assert [*controller(desk)._given_up.values()] == left
    for size in (4, 5):
        desk = a_group()
        before, newest = desk.connect(), 0
        for number in range(size):
            newest, _ = desk.join(f"m{number}")
            desk.told("DeregisterConsumer", newest, ConsumerId=f"m{number}")
            controller(desk)._given_up.clear()
        desk.pass_ms(100)
        kept = [*controller(desk).log.c.newest.values()]
        assert kept == [*range(newest - (3 if size == 4 else 1), newest + 1)]
        told = desk.told("RegisterConsumer", before, ConsumerId="other", Generation=-1)
        assert (told["ErrorCode"] is Code.NONE) == (size == 4)


@pytest.mark.parametrize("version", [0, 1])
def test_who_remembers_goes_on_over_a_connection_from_before_the_start(version: int) -> None:
    """Version 0 says nothing of what it remembers."""
    desk = a_group()
    connection = desk.connect()
    new: dict[str, Any] = {"Generation": -1} if version else {}
    desk.told("RegisterConsumer", connection, version=version, **new)
    desk.do(0, desk.servers[0].unclaimed(0, desk.now_ms))
    desk.do(0, desk.servers[0].claimed(0, desk.now_ms))
    desk.settled()
    known: dict[str, Any] = {"Generation": desk.group.generation} if version else {}
    answer = code(desk, "RegisterConsumer", connection, version=version, **known)
    assert answer is (Code.NONE if version else Code.COORDINATOR_LOAD_IN_PROGRESS)


def test_of_two_registers_at_once_the_second_ends_the_connection() -> None:
    desk = a_group()
    connection, generation = desk.join("m1")
    desk.ask("RegisterConsumer", connection, Generation=generation)
    assert code(desk, "RegisterConsumer", connection, Generation=generation) is Code.INVALID_REQUEST
    assert connection in desk.closed


def test_who_begins_anew_over_its_connection_goes_on_waiting() -> None:
    desk = a_group()
    connection, generation = desk.join("m1")
    beat = desk.ask("Heartbeat", connection, Generation=generation, MaxWaitMs=1_000)
    assert code(desk, "RegisterConsumer", connection, Generation=-1) is Code.NONE
    desk.pass_ms(1_200)
    assert desk.code(beat) is not Code.FENCED_INSTANCE_ID
    assert connection not in desk.closed


# --- members of version 0 -------------------------------------------------------------------------


def old_member(desk: Desk) -> int:
    """A member of version 0 that owns everything and knows it: its connection."""
    connection = desk.connect()
    for _ in range(2):
        desk.told("RegisterConsumer", connection, version=0)
        desk.pass_ms(100)
    return connection


def test_a_connection_of_version_0_is_of_one_member() -> None:
    desk = a_group()
    connection = old_member(desk)
    assert desk.group.members["m1"].client_id == "client"
    other = code(desk, "RegisterConsumer", connection, version=0, ConsumerId="m2")
    assert other is Code.INVALID_REQUEST


def test_a_member_of_version_0_wants_what_it_wanted_before() -> None:
    desk = a_group()
    desk.topics["u"] = Topic(1, "other")
    connection = old_member(desk)
    desk.told("RegisterConsumer", desk.connect(), ConsumerId="m2", Generation=-1, Topics=["u"])
    desk.pass_ms(200)
    assert desk.group.topics.keys() == {"t", "u"}
    desk.told("RegisterConsumer", connection, version=0)
    assert desk.group.members["m1"].topics == {"t"}


def test_a_member_of_version_0_that_connects_again_begins_anew() -> None:
    desk = a_group()
    older = old_member(desk)
    newer = desk.connect()
    desk.told("RegisterConsumer", newer, version=0)
    assert code(desk, "Heartbeat", older, version=0) is Code.FENCED_INSTANCE_ID


def test_a_member_of_version_0_holds_nothing_as_of_what_was_folded() -> None:
    desk = a_group()
    connection = old_member(desk)
    desk.told("RegisterConsumer", desk.connect(), ConsumerId="m2", Generation=-1)
    desk.now_ms += 100
    desk.tick()  # the rebalance is on its way
    desk.told("RegisterConsumer", connection, version=0)
    assert desk.owned() == {"m1": [0, 1]}
    desk.told("RegisterConsumer", connection, version=0)
    assert desk.owned() == {"m1": [0], "m2": [1]}


def test_a_member_of_version_0_is_known_before_its_group_was_read_back() -> None:
    desk = a_group()
    older = old_member(desk)
    desk.told("DeregisterConsumer", desk.connect())
    desk.told("DeleteGroup", desk.connect(), ConsumerGroup=[GROUP])
    desk.ask("CreateGroup", desk.connect())
    desk.look()
    desk.ask("RegisterConsumer", desk.connect(), version=0)
    asked = desk.ask("RegisterConsumer", older, version=0)
    desk.settled()
    assert desk.code(asked) is Code.FENCED_INSTANCE_ID


@pytest.mark.parametrize(("offset", "found"), [(-1, Code.INVALID_REQUEST), (0, Code.NONE)])
def test_a_member_of_version_0_commits_from_offset_0_on(offset: int, found: Code) -> None:
    desk = a_group()
    connection = old_member(desk)
    positions = [{"Topic": "t", "Partition": 0, "Offset": offset}]
    assert code(desk, "CommitOffsets", connection, version=0, Positions=positions) is found


def test_a_member_of_version_0_commits_nothing_that_it_was_not_told_of() -> None:
    desk = a_group()
    connection = old_member(desk)
    over = controller(desk).connections.get(connection)
    assert over is not None
    over.tenures = {place(0): over.tenures[place(0)]}
    positions = [{"Topic": "t", "Partition": number, "Offset": 5} for number in (0, 1)]
    told = desk.told("CommitOffsets", connection, version=0, Positions=positions)
    codes = [row["ErrorCode"] for row in told["Positions"]]
    assert codes == [Code.NONE, Code.ILLEGAL_GENERATION]
    said = desk.log[-1].event
    assert isinstance(said, Reconciled)
    assert said.positions[place(1)] == At(0, 5)


# --- sessions -------------------------------------------------------------------------------------


def test_a_commit_prolongs_the_session_once_it_is_confirmed() -> None:
    desk = a_group()
    member, _ = desk.join("m1")
    for _ in range(3):
        desk.pass_ms(SESSION_MS - 500)
        asked = desk.ask("CommitOffsets", member)
        assert desk.code(asked) is None
        desk.settled()
        assert desk.code(asked) is Code.NONE
    assert "m1" in desk.group.members


def test_a_member_leaves_of_itself() -> None:
    desk = a_group()
    member, _ = desk.join("m1")
    desk.told("DeregisterConsumer", member)
    assert desk.log[-1].event == MemberLeft("m1", "left")


# --- questions ------------------------------------------------------------------------------------


def to(*offsets: int) -> list[dict[str, Any]]:
    """Where to rewind partitions 0, 1 ..."""
    return [{"Topic": "t", "Partition": n, "Offset": each} for n, each in enumerate(offsets)]


@pytest.mark.parametrize("version", [0, 1])
def test_a_rewind_to_offsets_asks_nobody(version: int) -> None:
    desk = a_group()
    end = "V1" if version else ""
    where: dict[str, Any] = {f"NewOffsets{end}": to(0, 5)}
    asked = desk.ask("RewindConsumer", desk.connect(), version=version, **where)
    assert desk.looks == []
    desk.settled()
    body: Any = desk.answers[asked].body
    assert (body["ErrorCode"], body[f"ActualOffsets{end}"]) == (Code.NONE, to(0, 5))
    assert [each.position for each in desk.group.partitions.values()] == [0, 5]


def test_a_rewind_of_version_0_looks_nothing_up() -> None:
    desk = a_group()
    rewound = code(desk, "RewindConsumer", desk.connect(), version=0, NewOffsets=to(-1))
    assert rewound is Code.OFFSET_OUT_OF_RANGE


def test_each_rewind_hears_what_it_asked_for() -> None:
    desk = a_group()
    connection = desk.connect()
    asked = [
        desk.ask("RewindConsumer", connection, NewOffsetsV1=offsets)
        for offsets in (to(-1, 3), to(-2), to(0, -1))
    ]
    questions = [each for _, each in desk.looks if isinstance(each, ResolveOffsets)]
    assert [dict(each.offsets) for each in questions] == [
        {place(0): -1},
        {place(0): -2},
        {place(1): -1},
    ]
    found: list[dict[TopicPartition, int]] = [{place(0): 50}, {place(0): 0}, {}]
    for question, offsets in zip(reversed(questions), reversed(found), strict=True):
        resolved = desk.servers[0].resolved(0, question.token, offsets, desk.now_ms)
        desk.do(0, resolved)
        desk.do(0, desk.servers[0].resolved(0, question.token, offsets, desk.now_ms))
    desk.looks.clear()
    desk.settled()
    actual: list[Any] = [desk.answers[each].body for each in asked]
    assert [each["ErrorCode"] for each in actual] == [
        Code.NONE,
        Code.NONE,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert [each["ActualOffsetsV1"] for each in actual] == [to(50, 3), to(0), []]


def test_what_was_looked_up_for_a_group_that_is_gone_meanwhile_rewinds_nothing() -> None:
    desk = a_group()
    rewound = desk.ask("RewindConsumer", desk.connect(), NewOffsetsV1=to(-1))
    looks, desk.looks = desk.looks, []
    assert code(desk, "DeleteGroup", desk.connect(), ConsumerGroup=[GROUP]) is Code.NONE
    desk.looks = looks
    desk.settled()
    assert desk.code(rewound) is Code.GROUP_ID_NOT_FOUND


def test_a_question_that_nobody_answers_ends_and_others_go_on() -> None:
    desk = a_group()
    connection = desk.connect()
    early = [
        desk.ask("CreateGroup", connection, ConsumerGroup="h"),
        desk.ask("RewindConsumer", connection, NewOffsetsV1=to(-1)),
    ]
    began_ms = desk.now_ms
    desk.now_ms += 100
    desk.tick()
    late = [
        desk.ask("CreateGroup", connection, ConsumerGroup="i"),
        desk.ask("RewindConsumer", connection, NewOffsetsV1=to(-2)),
    ]
    looks = desk.looks[:]
    while desk.now_ms < began_ms + LOOK_UP_MS:
        assert {desk.code(each) for each in (*early, *late)} == {None}
        desk.now_ms += 100
        desk.tick()
    assert [desk.code(each) for each in early] == [Code.COORDINATOR_NOT_AVAILABLE] * 2
    assert [desk.code(each) for each in late] == [None] * 2
    desk.looks = looks
    desk.settled()
    assert [desk.code(each) for each in late] == [Code.NONE] * 2
    assert [*desk.state.groups] == [GROUP, "i"]


@pytest.mark.parametrize(
    ("body", "found"),
    [({}, Code.NONE), ({"Strategy": "range"}, Code.INCONSISTENT_GROUP_PROTOCOL)],
)
def test_a_group_that_two_create_at_once_is_the_firsts(body: dict[str, Any], found: Code) -> None:
    desk = Desk().serve()
    connection = desk.connect()
    asked = [desk.ask("CreateGroup", connection), desk.ask("CreateGroup", connection, **body)]
    desk.settled()
    assert [desk.code(each) for each in asked] == [Code.NONE, found]
    assert desk.group.strategy == "sticky"


def test_a_group_of_no_topics_waits_for_no_count() -> None:
    desk = Desk().serve()
    asked = desk.ask("CreateGroup", desk.connect(), Topics=[])
    desk.land()
    desk.read()
    assert desk.code(asked) is Code.NONE
    assert desk.group.topics == {}
