"""Marshal promises that version 0 is the document to the byte.

The bytes are written here by hand, field by field, from the document's tables ("Client Rewrite
Design", the part on consumer group membership). The encoder is a few lines and knows no table.
"""

from __future__ import annotations

import pytest

from kafka_marshal.rpc.apis import APIS, BY_NAME
from kafka_marshal.rpc.codec import (
    RpcAnswer,
    RpcRequest,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from kafka_marshal.rpc.fields import Body


def i16(number: int) -> bytes:
    return number.to_bytes(2, "big", signed=True)


def i32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def i64(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def string(text: str) -> bytes:
    return i16(len(text.encode())) + text.encode()


def array(*elements: bytes) -> bytes:
    return i32(len(elements)) + b"".join(elements)


def frame(*parts: bytes) -> bytes:
    return i32(sum(map(len, parts))) + b"".join(parts)


ORDERS_3: Body = {"Topic": "orders", "Partition": 3, "Offset": 1_000}
ORDERS_3_BYTES = string("orders") + i16(3) + i64(1_000)

REQUESTS: dict[str, tuple[int, Body, bytes]] = {
    "ListGroups": (0, {"ConsumerGroups": ["a", "é"]}, array(string("a"), string("é"))),
    "CreateGroup": (
        1,
        {"ConsumerGroup": "g", "SessionTimeout": 30_000, "Topics": ["orders"]},
        string("g") + i64(30_000) + array(string("orders")),
    ),
    "DeleteGroup": (2, {"ConsumerGroup": ["g", "h"]}, array(string("g"), string("h"))),
    "RegisterConsumer": (
        3,
        {"ConsumerGroup": "g", "ConsumerId": "host-1"},
        string("g") + string("host-1"),
    ),
    "Heartbeat": (4, {"SessionTimeout": 30_000}, i64(30_000)),
    "RewindConsumer": (
        5,
        {"ConsumerGroup": "g", "NewOffsets": [ORDERS_3]},
        string("g") + array(ORDERS_3_BYTES),
    ),
    # Ours, in the same style.
    "CommitOffsets": (
        6,
        {"ConsumerGroup": "g", "Positions": [ORDERS_3]},
        string("g") + array(ORDERS_3_BYTES),
    ),
}
"""ApiKey, the fields, and their bytes."""

ANSWERS: dict[str, tuple[Body, bytes]] = {
    "ListGroups": (
        {
            "ClientId": "c",
            "GroupsInfo": [
                {
                    "GroupName": "g",
                    "GroupMembers": ["m1", "m2"],
                    "Topics": ["orders"],
                    # Above 32,767: the document's int16 holds its bits.
                    "ControllerBroker": {"BrokerId": 7, "Host": "kafka1", "Port": 49_152},
                    "SessionTimeout": 30_000,
                }
            ],
            "ErrorCode": 69,
        },
        string("c")
        + array(
            string("g")
            + array(string("m1"), string("m2"))
            + array(string("orders"))
            + (i32(7) + string("kafka1") + i16(49_152 - 65_536))
            + i64(30_000)
        )
        + i16(69),
    ),
    "CreateGroup": ({"ConsumerGroup": "g", "ErrorCode": 23}, string("g") + i16(23)),
    "DeleteGroup": (
        {"DeletedConsumerGroups": ["g"], "ErrorCode": 68},
        array(string("g")) + i16(68),
    ),
    "RegisterConsumer": (
        {
            "ClientId": "c",
            "ConsumerGroup": "g",
            "PartitionsToOwn": [ORDERS_3, {"Topic": "x", "Partition": 0, "Offset": -1}],
            "ErrorCode": 0,
        },
        string("c") + string("g") + array(ORDERS_3_BYTES, string("x") + i16(0) + i64(-1)) + i16(0),
    ),
    "Heartbeat": ({"ControllerGeneration": 29, "ErrorCode": 27}, i64(29) + i16(27)),
    "RewindConsumer": (
        {"ConsumerGroup": "g", "ActualOffsets": [ORDERS_3], "ErrorCode": -1},
        string("g") + array(ORDERS_3_BYTES) + i16(-1),
    ),
    # Ours.
    "CommitOffsets": (
        {"Positions": [{**ORDERS_3, "ErrorCode": 22}], "ErrorCode": 22},
        array(ORDERS_3_BYTES + i16(22)) + i16(22),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_of_version_0_is_the_documents_to_the_byte(name: str) -> None:
    key, body, by_hand = REQUESTS[name]
    request = RpcRequest(BY_NAME[name], 0, 2**40 + 5, "c", body)
    # ApiKey; Version, CorrelationId, ClientId; the rest.
    whole = frame(i16(key), i16(0), i64(2**40 + 5), string("c"), by_hand)
    assert encode_request(request) == whole
    assert decode_request(whole[4:]) == request


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_of_version_0_is_the_documents_to_the_byte(name: str) -> None:
    body, by_hand = ANSWERS[name]
    answer = RpcAnswer(BY_NAME[name], 0, -3, body)
    whole = frame(i16(0), i64(-3), by_hand)
    assert encode_answer(answer) == whole
    assert decode_answer(BY_NAME[name], whole[4:]) == answer
    assert answer.code == body["ErrorCode"]


def test_nothing_of_version_0_is_left_out_here() -> None:
    in_version_0 = {api.name for api in APIS if 0 in api.versions}
    assert REQUESTS.keys() == ANSWERS.keys() == in_version_0


# --- version 1 ------------------------------------------------------------------------------------


def test_version_1_adds_its_fields_behind_those_of_version_0() -> None:
    wide: Body = {"Topic": "orders", "Partition": 40_000, "Offset": 5, "Tenure": 12}
    request = RpcRequest(
        BY_NAME["CommitOffsets"],
        1,
        1,
        "c",
        {"ConsumerGroup": "g", "Positions": [], "ConsumerId": "m1", "PositionsV1": [wide]},
    )
    assert encode_request(request) == frame(
        i16(6),
        i16(1),
        i64(1),
        string("c"),
        string("g") + array(),
        string("m1") + array(string("orders") + i32(40_000) + i64(5) + i64(12)),
    )


def test_a_group_may_be_ephemeral_from_version_1_on() -> None:
    body: Body = {"ConsumerGroup": "g", "SessionTimeout": 1_000, "Topics": []}
    more: Body = {"Ephemeral": 1, "Rebalance": "eager", "Strategy": "range"}
    request = RpcRequest(BY_NAME["CreateGroup"], 1, 1, "c", {**body, **more})
    assert encode_request(request) == frame(
        i16(1),
        i16(1),
        i64(1),
        string("c"),
        string("g") + i64(1_000) + array(),
        b"\x01" + string("eager") + string("range"),
    )
