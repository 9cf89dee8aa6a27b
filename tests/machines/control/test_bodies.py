"""Marshal promises which numbers and lists of a request count, and what an answer holds."""

from __future__ import annotations

from typing import Any

import pytest

from kafka_marshal.core.groups.events import At
from kafka_marshal.core.groups.state import Controllership, Rebalance, Topic, TopicPartition
from kafka_marshal.machines.groups.control import bodies
from kafka_marshal.machines.groups.control.bodies import BadRequest
from kafka_marshal.machines.groups.controller import Registration
from kafka_marshal.rpc.codec import BY_NAME, RpcRequest
from kafka_marshal.rpc.error_codes import ErrorCode as Code
from tests.machines.groups.desk import DEFAULTS, GROUP, SESSION_MS, Desk, at, held

LONGEST = "x" * 249
T0, FAR = TopicPartition("t", 0), TopicPartition("t", 2**15)


def asks(name: str, version: int = 1, **body: Any) -> RpcRequest:
    """A request with the fields of its version."""
    api = BY_NAME[name]
    whole = {each.name: DEFAULTS.get(each.name, 0) for each in api.request if each.since <= version}
    return RpcRequest(api, version, 1, "client", {**whole, **body})


def refusal(function: Any, *arguments: Any) -> Code | None:
    """The code by which it refuses; None: it does not."""
    try:
        function(*arguments)
    except BadRequest as error:
        assert str(error) == error.code.name
        return error.code
    return None


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"SessionTimeout": 999}, Code.INVALID_SESSION_TIMEOUT),
        ({"SessionTimeout": 1_000}, None),
        ({"SessionTimeout": 1_800_000}, None),
        ({"SessionTimeout": 1_800_001}, Code.INVALID_SESSION_TIMEOUT),
        ({"Topics": [LONGEST]}, None),
        ({"Topics": [LONGEST + "x"]}, Code.INVALID_REQUEST),
        ({"Topics": ["t", ""]}, Code.INVALID_REQUEST),
        ({"Topics": ["t"] * 1_000}, None),
        ({"Topics": ["t"] * 1_001}, Code.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_settings_have_limits(body: dict[str, Any], code: Code | None) -> None:
    assert refusal(bodies.expect_settings, asks("CreateGroup", **body)) is code


def test_version_0_names_no_strategy() -> None:
    assert refusal(bodies.expect_settings, asks("CreateGroup", version=0)) is None


def test_the_limits_of_a_name_are_bytes() -> None:
    assert bodies.is_name("x")
    assert bodies.is_name("é" * 124)
    assert not bodies.is_name("é" * 125)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"Generation": 0, "Held": held(0)}, None),
        ({"Generation": -1}, None),
        ({"Generation": -1, "Held": held(0)}, Code.INVALID_REQUEST),
        ({"Generation": -2}, Code.INVALID_REQUEST),
        ({"Held": held(0, 0)}, Code.INVALID_REQUEST),
        ({"Held": held(*range(4_000))}, None),
        ({"Held": held(*range(4_001))}, Code.INVALID_REQUEST),
        ({"Held": held(0, topic="")}, Code.INVALID_REQUEST),
        ({"Static": held(-1)}, Code.INVALID_REQUEST),
        ({"Static": held(*range(1_000))}, None),
        ({"Static": held(*range(1_001))}, Code.GROUP_MAX_SIZE_REACHED),
        ({"Topics": ["t"] * 1_001}, Code.GROUP_MAX_SIZE_REACHED),
        ({"Topics": [""]}, Code.INVALID_REQUEST),
        ({"Positions": at(t0=(0, 0))}, None),
        ({"Positions": at(t0=(-1, 0))}, Code.INVALID_REQUEST),
        ({"Positions": at(t0=(0, -1))}, Code.INVALID_REQUEST),
        ({"Positions": at(t0=(0, 0)) * 2}, Code.INVALID_REQUEST),
        ({"Positions": at(**{f"t{n}": (0, 0) for n in range(4_000)})}, None),
        ({"Positions": at(**{f"t{n}": (0, 0) for n in range(4_001)})}, Code.INVALID_REQUEST),
    ],
)
def test_what_a_member_says_has_limits(body: dict[str, Any], code: Code | None) -> None:
    request = asks("RegisterConsumer", **{"Generation": 3, **body})
    assert refusal(bodies.register_request, request, 7) is code


def test_what_a_member_says_is_taken_as_it_is() -> None:
    request = asks(
        "RegisterConsumer",
        Generation=0,
        Topics=["t", "u"],
        Static=held(1),
        Held=held(0),
        Positions=at(t0=(4, 9)),
    )
    assert bodies.register_request(request, 7) == Registration(
        "m1",
        7,
        0,
        frozenset({T0}),
        {T0: At(4, 9)},
        "client",
        frozenset({"t", "u"}),
        frozenset({TopicPartition("t", 1)}),
    )


@pytest.mark.parametrize(
    ("count", "code"),
    [(0, Code.UNKNOWN_TOPIC_OR_PARTITION), (4_000, None), (4_001, Code.GROUP_MAX_SIZE_REACHED)],
)
def test_a_group_has_as_many_partitions_as_fit_into_a_record(count: int, code: Code | None) -> None:
    topics = {"t": Topic(count, "T")}
    assert refusal(bodies.created, asks("CreateGroup"), topics) is code


def test_a_group_of_version_0_is_incremental_sticky_and_stays() -> None:
    topics = {"t": Topic(2, "T"), "u": Topic(1, "U")}
    made = bodies.created(asks("CreateGroup", version=0, Topics=["u", "t"]), topics)
    assert [*made.topics.items()] == [*topics.items()]
    assert (made.session_timeout_ms, made.rebalance) == (SESSION_MS, Rebalance.INCREMENTAL)
    assert (made.strategy, made.ephemeral) == ("sticky", False)
    asked = asks("CreateGroup", Rebalance="eager", Strategy="range", Ephemeral=1)
    made = bodies.created(asked, topics)
    assert (made.rebalance, made.strategy, made.ephemeral) == (Rebalance.EAGER, "range", True)


@pytest.mark.parametrize(
    "body",
    [
        {"SessionTimeout": 5_000},
        {"Topics": ["u"]},
        {"Rebalance": "eager"},
        {"Strategy": "range"},
        {"Ephemeral": 1},
    ],
)
def test_each_setting_counts_whether_a_group_is_the_same(body: dict[str, Any]) -> None:
    group = Desk().serve().create().group
    assert bodies.is_same(asks("CreateGroup"), group)
    assert bodies.is_same(asks("CreateGroup", version=0), group)
    assert not bodies.is_same(asks("CreateGroup", **body), group)


def test_a_long_client_id_is_cut() -> None:
    asked = asks("Heartbeat")
    long = RpcRequest(asked.api, 1, 1, LONGEST + "y", asked.body)
    assert bodies.client_id(long) == LONGEST


def test_version_0_hears_of_no_partition_that_it_cannot_name() -> None:
    rows = [
        {"Topic": "t", "Partition": 2**15 - 1, "Offset": 4, "Tenure": 3},
        {"Topic": "t", "Partition": 2**15, "Offset": 4, "Tenure": 3},
    ]
    assert bodies.narrow(rows) == [{"Topic": "t", "Partition": 2**15 - 1, "Offset": 4}]


def test_answers_hold_what_was_asked_for_in_both_widths() -> None:
    desk = Desk().serve().create()
    desk.join("m1")
    desk.pass_ms(100)
    group, tenure = desk.group, desk.group.generation
    own = {"Topic": "t", "Partition": 0, "Offset": -1}
    assert bodies.register_answer(asks("RegisterConsumer"), group, [T0]).body == {
        "ClientId": "client",
        "ConsumerGroup": GROUP,
        "PartitionsToOwn": [own],
        "ErrorCode": Code.NONE,
        "Generation": tenure,
        "SessionTimeout": SESSION_MS,
        "PartitionsToOwnV1": [{**own, "Tenure": tenure}],
    }
    codes = {T0: Code.NONE, FAR: Code.UNKNOWN_TOPIC_OR_PARTITION}
    done = {**own, "ErrorCode": Code.NONE}
    far = {"Topic": "t", "Partition": 2**15, "Offset": -1}
    assert bodies.commit_answer(asks("CommitOffsets"), group, codes).body == {
        "Positions": [done],
        "ErrorCode": Code.NONE,
        "PositionsV1": [done, {**far, "ErrorCode": Code.UNKNOWN_TOPIC_OR_PARTITION}],
    }
    assert bodies.rewind_answer(asks("RewindConsumer"), {T0: 5, FAR: 6}).body == {
        "ConsumerGroup": GROUP,
        "ActualOffsets": [{**own, "Offset": 5}],
        "ErrorCode": Code.NONE,
        "ActualOffsetsV1": [{**own, "Offset": 5}, {**far, "Offset": 6}],
    }
    assert bodies.heartbeat_answer(asks("Heartbeat"), group, Code.REBALANCE_IN_PROGRESS).body == {
        "ControllerGeneration": tenure,
        "ErrorCode": Code.REBALANCE_IN_PROGRESS,
    }


@pytest.mark.parametrize(
    "view", [Controllership(), Controllership(controller_id=1), Controllership(host="a")]
)
def test_before_the_first_start_nobody_controls_a_partition(view: Controllership) -> None:
    assert bodies.broker(view) == {"BrokerId": -1, "Host": "", "Port": 0}


def test_what_was_created_names_its_controller_and_what_was_deleted_is_named() -> None:
    view = Controllership(7, 2, 1, "a", 9)
    assert bodies.create_answer(asks("CreateGroup"), view).body == {
        "ConsumerGroup": GROUP,
        "ErrorCode": Code.NONE,
        "ControllerBroker": {"BrokerId": 1, "Host": "a", "Port": 9},
    }
    codes = {"g": Code.NONE, "h": Code.NON_EMPTY_GROUP, "i": Code.GROUP_ID_NOT_FOUND}
    assert bodies.delete_answer(asks("DeleteGroup"), codes).body == {
        "DeletedConsumerGroups": ["g"],
        "ErrorCode": Code.NON_EMPTY_GROUP,
        "Errors": [
            {"ConsumerGroup": "h", "ErrorCode": Code.NON_EMPTY_GROUP},
            {"ConsumerGroup": "i", "ErrorCode": Code.GROUP_ID_NOT_FOUND},
        ],
    }
    assert bodies.delete_answer(asks("DeleteGroup"), {}).code is Code.NONE


def test_a_group_is_described_whole() -> None:
    desk = Desk().serve().create(Topics=["t"])
    assert bodies.state_of(desk.group) == "Empty"
    before = desk.group
    connection, _ = desk.join("m1")
    desk.pass_ms(100)
    tenure = desk.group.generation
    told = bodies.list_answer(
        asks("ListGroups", Describe=1), [(GROUP, desk.group, desk.state, Code.NONE)], Code.NONE
    )
    owned = {"Topic": "t", "ConsumerId": "m1", "Tenure": tenure, "Offset": -1}
    assert told.body == {
        "ClientId": "client",
        "GroupsInfo": [
            {
                "GroupName": GROUP,
                "GroupMembers": ["m1"],
                "Topics": ["t"],
                "ControllerBroker": {"BrokerId": 0, "Host": "host0", "Port": 9},
                "SessionTimeout": SESSION_MS,
            }
        ],
        "ErrorCode": Code.NONE,
        "GroupsInfoV1": [
            {
                "Generation": tenure,
                "State": "Stable",
                "ErrorCode": Code.NONE,
                "Owners": [{**owned, "Partition": 0}, {**owned, "Partition": 1}],
                "Port": 9,
            }
        ],
    }
    desk.told("RegisterConsumer", connection, Generation=tenure, Topics=["u"])
    assert bodies.state_of(desk.group) == "Assigning"
    desk.topics["u"] = Topic(1, "U")
    desk.pass_ms(200)
    assert bodies.state_of(desk.group) == "Reconciling"
    described = [(GROUP, before, desk.state, Code.NONE)]
    free: Any = bodies.list_answer(asks("ListGroups", Describe=1), described, Code.NONE).body
    [detail] = free["GroupsInfoV1"]
    assert {row["ConsumerId"] for row in detail["Owners"]} == {""}
