"""Marshal promises that any bytes are a message or refused by name, and that nothing is lost."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal.core.groups.state import PARTITIONS_MAX
from kafka_marshal.machines.groups.control.bodies import NAME_BYTES_MAX, WISHES_MAX
from kafka_marshal.machines.groups.control.partition import MEMBERS_MAX
from kafka_marshal.rpc.apis import APIS, BY_NAME, Api, fields_of
from kafka_marshal.rpc.codec import (
    ANSWER_BYTES_MAX,
    REQUEST_BYTES_MAX,
    Frames,
    Malformed,
    RefusedRequest,
    RpcAnswer,
    RpcRequest,
    Unencodable,
    correlation_id_of,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    refusal,
)
from kafka_marshal.rpc.error_codes import MEANINGS, ErrorCode
from kafka_marshal.rpc.fields import Array, Body, Number, RpcField, Struct, Text, Type, Value
from kafka_marshal.rpc.fields import struct as struct_of
from kafka_marshal.rpc.walker import MessageReader, written

# --- messages at random, by the table -------------------------------------------------------------


def values(type_: Type) -> st.SearchStrategy:
    match type_:
        case Number.ERROR_CODE:
            return st.sampled_from(ErrorCode)
        case Number():
            return st.integers(type_.least, type_.greatest)
        case Text():
            return st.text(max_size=9)
        case Array():
            return st.lists(values(type_.of), max_size=3)
        case Struct():
            return bodies(type_.fields)


def bodies(fields: Sequence[RpcField]) -> st.SearchStrategy:
    return st.fixed_dictionaries({each.name: values(each.type) for each in fields})


VERSIONS = [(api, version) for api in APIS for version in api.versions]
INT64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def requests(draw: st.DrawFn) -> RpcRequest:
    api, version = draw(st.sampled_from(VERSIONS))
    body = draw(bodies(fields_of(api.request, version)))
    return RpcRequest(api, version, draw(INT64), draw(st.text(max_size=9)), body)


@st.composite
def answers(draw: st.DrawFn) -> RpcAnswer:
    api, version = draw(st.sampled_from(VERSIONS))
    return RpcAnswer(api, version, draw(INT64), draw(bodies(fields_of(api.answer, version))))


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A request in which some bytes were replaced, left out or put in."""
    message = bytearray(encode_request(draw(requests()))[4:])
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(message)))
        width = draw(st.integers(0, 4))
        message[at : at + width] = draw(
            st.binary(max_size=4)
            | st.sampled_from([b"\x7f\xff", b"\x80\x00", b"\xff\xff\xff\xff", b"\x00\x00"])
        )
    return bytes(message)


# --- nothing is lost ------------------------------------------------------------------------------


@given(requests())
def test_a_request_survives_its_own_bytes(request: RpcRequest) -> None:
    assert decode_request(encode_request(request)[4:]) == request


@given(answers())
def test_an_answer_survives_its_own_bytes(answer: RpcAnswer) -> None:
    message = encode_answer(answer)[4:]
    assert decode_answer(answer.api, message) == answer
    assert correlation_id_of(message) == answer.correlation_id


@given(requests().filter(lambda request: request.version == 1 and 0 in request.api.versions))
def test_version_1_keeps_every_byte_of_version_0(request: RpcRequest) -> None:
    old = {each.name: request.body[each.name] for each in fields_of(request.api.request, 0)}
    before = RpcRequest(request.api, 0, request.correlation_id, request.client_id, old)
    ours, theirs = encode_request(request)[4:], encode_request(before)[4:]
    assert ours[:2] + theirs[2:4] + ours[4 : len(theirs)] == theirs


def test_the_shortest_elements_of_an_array_are_read() -> None:
    pair = struct_of(RpcField("Names", Array(Text.STRING)), RpcField("Count", Number.INT32))
    shortest: list[tuple[Type, Value]] = [(Text.STRING, ""), (pair, {"Names": [], "Count": 0})]
    for element, value in shortest:
        fields, body = (RpcField("All", Array(element)),), {"All": [value, value]}
        assert MessageReader(written(fields, body)).body(fields) == body


def test_fields_of_a_later_version_stand_behind_those_of_an_earlier_one() -> None:
    for api in APIS:
        for fields in (api.request, api.answer):
            assert [each.since for each in fields] == sorted(each.since for each in fields)
    assert [api.key for api in APIS] == list(range(8))


# --- any bytes are a message, or refused by name --------------------------------------------------


@settings(max_examples=200)
@given(damaged() | st.binary(max_size=60))
def test_any_bytes_are_a_request_or_refused(message: bytes) -> None:
    try:
        request = decode_request(message)
    except RefusedRequest as refused:
        assert refused.answer.code == refused.code != ErrorCode.NONE
        assert decode_answer(refused.answer.api, encode_answer(refused.answer)[4:]).body
        assert str(refused).isprintable()
        assert len(str(refused)) < 200
    except Malformed as malformed:
        assert malformed.field in {"ApiKey", "Version", "CorrelationId"}
    else:
        # There is one way to write each message.
        assert encode_request(request)[4:] == message


@given(st.sampled_from(APIS), st.binary(max_size=60), st.integers(0, 1))
def test_any_bytes_are_an_answer_or_malformed(api: Api, message: bytes, version: int) -> None:
    for data in (message, struct.pack(">hq", version, 1) + message):
        try:
            answer = decode_answer(api, data)
        except Malformed as malformed:
            assert malformed.code is ErrorCode.INVALID_REQUEST
        else:
            assert encode_answer(answer)[4:] == data


@settings(max_examples=40)
@given(requests())
def test_a_message_that_is_cut_or_longer_is_refused(request: RpcRequest) -> None:
    message = encode_request(request)[4:]
    for cut in range(12, len(message)):
        with pytest.raises(RefusedRequest):
            decode_request(message[:cut])
    with pytest.raises(RefusedRequest, match="1 bytes are left over"):
        decode_request(message + b"\0")


HEARTBEAT = encode_request(RpcRequest(BY_NAME["Heartbeat"], 0, 7, "c", {"SessionTimeout": 30_000}))[
    4:
]
CREATE = BY_NAME["CreateGroup"].request
NO_UTF8 = "it is not UTF-8: invalid start byte"
TOO_FEW = "3 bytes are left, 2 elements need at least 4"
LIST = encode_request(RpcRequest(BY_NAME["ListGroups"], 0, 7, "c", {"ConsumerGroups": ["g"]}))[4:]


@pytest.mark.parametrize(
    ("message", "code", "text"),
    [
        (HEARTBEAT[:-1], 42, "SessionTimeout: 7 bytes are left, 8 are needed"),
        (HEARTBEAT + b"!", 42, "message: 1 bytes are left over"),
        (HEARTBEAT[:2] + b"\0\2" + HEARTBEAT[4:], 35, "Version: Heartbeat has no version 2"),
        (HEARTBEAT[:2] + b"\xff\xff" + HEARTBEAT[4:], 35, "Version: Heartbeat has no version -1"),
        (b"\0\7" + HEARTBEAT[2:], 35, "Version: DeregisterConsumer has no version 0"),
        (HEARTBEAT[:13], 42, "ClientId: 1 bytes are left, 2 are needed"),
        (HEARTBEAT[:12] + b"\xff\xff" + HEARTBEAT[15:], 42, "ClientId: its length is -1"),
        (HEARTBEAT[:14] + b"\xff" + HEARTBEAT[15:], 42, f"ClientId: {NO_UTF8}"),
        (LIST[:-1] + b"\xff", 42, f"ConsumerGroups[0]: {NO_UTF8}"),
        (LIST[:-4], 42, "ConsumerGroups: 3 bytes are left, 4 are needed"),
        (LIST[:-7] + b"\xff\xff\xff\xff" + LIST[-3:], 42, "ConsumerGroups: its count is -1"),
        (LIST[:-7] + b"\0\0\0\2" + LIST[-3:], 42, f"ConsumerGroups: {TOO_FEW}"),
        (LIST[:-3] + b"\0\2g", 42, "ConsumerGroups[0]: 1 bytes are left, its length is 2"),
    ],
)
def test_a_request_that_cannot_be_read_is_answered(message: bytes, code: int, text: str) -> None:
    with pytest.raises(RefusedRequest) as refused:
        decode_request(message)
    assert str(refused.value) == f"malformed {text}"
    answer = refused.value.answer
    assert (refused.value.code, answer.code, answer.correlation_id) == (code, code, 7)
    assert answer.version == (answer.api.newest if code == 35 else 0)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "ApiKey: 0 bytes are left, 2 are needed"),
        (HEARTBEAT[:3], "Version: 1 bytes are left, 2 are needed"),
        (HEARTBEAT[:11], "CorrelationId: 7 bytes are left, 8 are needed"),
        (b"\0\x08" + HEARTBEAT[2:], "ApiKey: 8 is unknown"),
    ],
)
def test_without_a_header_or_a_known_key_there_is_no_answer(message: bytes, text: str) -> None:
    with pytest.raises(Malformed) as malformed:
        decode_request(message)
    assert str(malformed.value) == f"malformed {text}"
    assert not isinstance(malformed.value, RefusedRequest)
    assert malformed.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("api", "version"), VERSIONS)
def test_an_answer_that_holds_nothing_but_a_code_is_an_answer(api: Api, version: int) -> None:
    answer = refusal(api, version, 5, ErrorCode.NOT_COORDINATOR)
    assert decode_answer(api, encode_answer(answer)[4:]) == answer
    assert answer.code is ErrorCode.NOT_COORDINATOR


def test_what_a_refusal_does_not_know_is_0_empty_or_minus_1() -> None:
    refused = refusal(BY_NAME["RegisterConsumer"], 1, 5, ErrorCode.NOT_COORDINATOR)
    assert refused.body == {
        **{"ClientId": "", "ConsumerGroup": "", "PartitionsToOwn": [], "ErrorCode": 16},
        **{"Generation": -1, "SessionTimeout": 0, "PartitionsToOwnV1": []},
    }
    created = refusal(BY_NAME["CreateGroup"], 1, 5, ErrorCode.NOT_COORDINATOR)
    assert created.body["ControllerBroker"] == {"BrokerId": -1, "Host": "", "Port": 0}


def test_an_answer_that_is_longer_or_shorter_is_malformed_and_says_where() -> None:
    api = BY_NAME["CreateGroup"]
    message = encode_answer(refusal(api, 1, 5, ErrorCode.NOT_COORDINATOR))[4:]
    for wrong, text in (
        (message + b"!", "message: 1 bytes are left over"),
        (message[:-1], "ControllerBroker.Port: 3 bytes are left, 4 are needed"),
        (message[:3], "CorrelationId: 1 bytes are left, 8 are needed"),
    ):
        with pytest.raises(Malformed) as malformed:
            decode_answer(api, wrong)
        assert str(malformed.value) == f"malformed {text}"


def test_a_boolean_is_0_or_1() -> None:
    body = {each.name: 0 if isinstance(each.type, Number) else "" for each in CREATE}
    whole = encode_request(RpcRequest(BY_NAME["CreateGroup"], 1, 7, "", {**body, "Topics": []}))
    assert whole[-5:] == b"\0" + bytes(4)
    with pytest.raises(RefusedRequest, match=r"malformed Ephemeral: 2 is not in 0\.\.1"):
        decode_request(whole[4:-5] + b"\2" + whole[-4:])


def test_a_count_takes_no_memory_before_its_elements_have_come() -> None:
    message = LIST[:-7] + struct.pack(">i", 2**31 - 1) + LIST[-3:]
    tracemalloc.start()
    try:
        with pytest.raises(RefusedRequest):
            decode_request(message)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


# --- frames ---------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(requests(), max_size=3), st.data())
def test_frames_come_out_whole_however_they_come(
    sent: list[RpcRequest], data: st.DataObject
) -> None:
    stream, frames, got = b"".join(map(encode_request, sent)), Frames(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        got += [decode_request(message) for message in frames.fed(stream[:size])]
        stream = stream[size:]
    assert got == sent
    assert not frames.waits


@pytest.mark.parametrize("size", [-1, REQUEST_BYTES_MAX + 1])
def test_a_frame_that_is_too_large_is_refused_before_it_has_come(size: int) -> None:
    frames = Frames()
    assert list(frames.fed(struct.pack(">i", size)[:3])) == []
    assert frames.waits
    with pytest.raises(Malformed, match=rf"size: {size} is not in 0\.\.1048576"):
        list(frames.fed(struct.pack(">i", size)[3:]))


@pytest.mark.parametrize("size", [0, REQUEST_BYTES_MAX])
def test_the_smallest_and_the_largest_frame_come_through(size: int) -> None:
    [message] = Frames().fed(struct.pack(">i", size) + bytes(size))
    assert message == bytes(size)


def test_a_message_of_the_largest_size_is_written_and_no_larger_one() -> None:
    names = ["x" * 32_000] * 32 + ["x"]
    body: Body = {"ConsumerGroups": list[Value](names)}
    most = (
        REQUEST_BYTES_MAX
        + 4
        - len(encode_request(RpcRequest(BY_NAME["ListGroups"], 0, 1, "", body)))
    )
    frame = encode_request(RpcRequest(BY_NAME["ListGroups"], 0, 1, "x" * most, body))
    assert len(frame) == 4 + REQUEST_BYTES_MAX
    with pytest.raises(Unencodable) as too_large:
        encode_request(RpcRequest(BY_NAME["ListGroups"], 0, 1, "x" * (most + 1), body))
    text = "cannot encode message: 1048577 bytes, at most 1048576 fit a frame"
    assert str(too_large.value) == text


# --- what cannot be written -----------------------------------------------------------------------

IN_INT64 = "-9223372036854775808..9223372036854775807"


@pytest.mark.parametrize(
    ("name", "body", "text"),
    [
        ("Heartbeat", {}, "SessionTimeout: it is missing"),
        ("Heartbeat", {"SessionTimeout": 1, "X": 1}, "X: this version has no such field"),
        ("Heartbeat", {"SessionTimeout": 2**63}, f"SessionTimeout: {2**63} is not in {IN_INT64}"),
        ("Heartbeat", {"SessionTimeout": "1"}, "SessionTimeout: a str is of another type"),
        (
            "ListGroups",
            {"ConsumerGroups": ["x" * 2**15]},
            "ConsumerGroups[0]: 32768 bytes, at most 32767 fit",
        ),
        (
            "ListGroups",
            {"ConsumerGroups": ["\ud800"]},
            "ConsumerGroups[0]: it is not text: surrogates not allowed",
        ),
        (
            "RewindConsumer",
            {
                "ConsumerGroup": "g",
                "NewOffsets": [{"Topic": "t", "Partition": 2**15, "Offset": 0}],
            },
            "NewOffsets[0].Partition: 32768 is not in -32768..32767",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named(name: str, body: dict[str, object], text: str) -> None:
    with pytest.raises(Unencodable) as refused:
        encode_request(RpcRequest(BY_NAME[name], 0, 1, "c", body))  # type: ignore[arg-type]
    assert str(refused.value) == f"cannot encode {text}"


def test_a_header_that_does_not_fit_is_named() -> None:
    api = BY_NAME["ListGroups"]
    with pytest.raises(Unencodable, match=r"^cannot encode CorrelationId: "):
        encode_request(RpcRequest(api, 0, 2**63, "c", {"ConsumerGroups": []}))
    with pytest.raises(Unencodable, match=r"^cannot encode ClientId: "):
        encode_request(RpcRequest(api, 0, 1, "\ud800", {"ConsumerGroups": []}))
    longest = RpcRequest(api, 0, 1, "x" * 32_767, {"ConsumerGroups": []})
    assert decode_request(encode_request(longest)[4:]) == longest


def test_an_unknown_version_or_code_is_not_written() -> None:
    api = BY_NAME["Heartbeat"]
    with pytest.raises(Unencodable, match="Version: Heartbeat has no version 2"):
        encode_request(RpcRequest(api, 2, 1, "c", {"SessionTimeout": 1}))
    body: Body = {"ControllerGeneration": 0, "ErrorCode": 0}
    with pytest.raises(Unencodable, match="Version: Heartbeat has no version 2"):
        encode_answer(RpcAnswer(api, 2, 1, body))
    with pytest.raises(Unencodable, match="ErrorCode: 999 is no error code of ours"):
        encode_answer(RpcAnswer(api, 0, 1, {**body, "ErrorCode": 999}))
    unknown = struct.pack(">hqqh", 0, 1, 0, 999)
    with pytest.raises(Malformed, match="ErrorCode: 999 is no error code of ours"):
        decode_answer(api, unknown)
    with pytest.raises(Malformed, match="Version: Heartbeat has no version 2"):
        decode_answer(api, struct.pack(">hqqh", 2, 1, 0, 0))


# --- error codes ----------------------------------------------------------------------------------

IN_LIBRDKAFKA = {
    "NONE": "NO_ERROR",
    "UNKNOWN_SERVER_ERROR": "UNKNOWN",
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
}


@pytest.mark.parametrize("code", ErrorCode)
def test_error_codes_are_kafkas_numbers(code: ErrorCode) -> None:
    assert getattr(KafkaError, IN_LIBRDKAFKA.get(code.name, code.name)) == code
    assert MEANINGS[code]


def test_the_description_of_the_largest_group_fits_a_frame() -> None:
    topic, member = "t" * NAME_BYTES_MAX, "m" * NAME_BYTES_MAX
    owners: list[Value] = [
        {"Topic": topic, "Partition": each, "ConsumerId": member, "Tenure": 1, "Offset": 2}
        for each in range(PARTITIONS_MAX)
    ]
    broker: Body = {"BrokerId": 1, "Host": "h" * NAME_BYTES_MAX, "Port": 1}
    info: Body = {
        "GroupName": topic,
        "GroupMembers": list[Value]([member] * MEMBERS_MAX),
        "Topics": list[Value]([topic] * WISHES_MAX),
        "ControllerBroker": broker,
        "SessionTimeout": 1,
    }
    info_v1: Body = {
        "Generation": 1,
        "State": "Stable",
        "ErrorCode": 0,
        "Owners": owners,
        "Port": 1,
    }
    body: Body = {"ClientId": "c", "GroupsInfo": [info], "ErrorCode": 0, "GroupsInfoV1": [info_v1]}
    frame = encode_answer(RpcAnswer(BY_NAME["ListGroups"], 1, 7, body))
    [message] = Frames(ANSWER_BYTES_MAX).fed(frame)
    assert decode_answer(BY_NAME["ListGroups"], message).body == body
