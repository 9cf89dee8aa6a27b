import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_marshal import (
    ClaimingMessages,
    ClaimingPartition,
    Headers,
    Heartbeat,
    MalformedRecord,
    Message,
    ReleaseGroup,
    ReleasingPartition,
    UnsendableMessage,
    coordinating_partition,
    decode,
    decode_headers,
    encode,
    encode_headers,
)
from kafka_marshal.codec import HEADER_FIELDS, PARTITION_MAX, malformed_amendments
from kafka_marshal.core.messages import AMENDMENTS, NOT_DECIMAL

VECTORS = Path(__file__).parent / "data" / "vectors"
GO_FIELDS = {
    "Version": "version",
    "Time": "unix_s",
    "InstanceID": "instance_id",
    "ClientID": "client_id",
    "GroupID": "group_id",
    "Topic": "topic",
    "PartID": "partition",
    "CurrentOffset": "offset",
    "ProposedCurrentOffset": "offset",
    "MsgExpireTime": "expires_unix_s",
}


def vectors(name: str) -> list[dict[str, object]]:
    lines = (VECTORS / name).read_text(encoding="utf-8").splitlines()
    assert lines, f"{name} holds no vector"
    return [json.loads(line) for line in lines]


def decoding_vectors() -> list[dict[str, object]]:
    """Both versions of the original; 80cc6d1 no longer knew ReleaseGroup, the protocol does."""
    older = [v for v in vectors("decode_80cc6d1.jsonl") if "ReleaseGroup" not in str(v)]
    return older + vectors("decode_e79661b_admin.jsonl")


@pytest.mark.parametrize("vector", decoding_vectors(), ids=lambda v: str(v["input_go_quoted"]))
def test_decoding_agrees_with_the_original(vector: dict[str, object]) -> None:
    value = base64.b64decode(str(vector["input_b64"]))
    decoded = vector.get("decoded")
    if not isinstance(decoded, dict) or not 0 <= decoded["PartID"] <= PARTITION_MAX:
        with pytest.raises(MalformedRecord):
            decode(value)
        return
    message = decode(value)
    assert f"*marshal.msg{type(message).__name__}" == vector["go_type"]
    for go_name, expected in decoded.items():
        assert getattr(message, GO_FIELDS[go_name]) == expected, go_name
    assert encode(message) == base64.b64decode(str(vector["reencoded_b64"]))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (None, "value"),
        (b"", "value"),
        (b"Heartbeat/1/1", "length"),
        (b"Heartbeat/1/1/i/c/g/t/0/1/2", "length"),
        (b"ClaimingPartition/1/1/i/c/g/t/0/1", "length"),
        (b"heartbeat/1/1/i/c/g/t/0/1", "type"),
        (b"Heartbeat/x/1/i/c/g/t/0/1", "version"),
        (b"Heartbeat/1/1_0/i/c/g/t/0/1", "unix_s"),
        (b"Heartbeat/1/1/i/c/g/t/-1/1", "partition"),
        (b"Heartbeat/1/1/i/c/g/t/2147483648/1", "partition"),
        ("Heartbeat/1/1/i/c/g/t/\u0663/1".encode(), "partition"),
        (b"Heartbeat/1/1/i/c/g/t/0/9223372036854775808", "offset"),
        (b"Heartbeat/1/1/i/c/g/t/0/" + b"9" * 5000, "offset"),
        (b"ReleaseGroup/0/1/i/c/g/t/0/5", "topic"),
        (b"ReleaseGroup/0/1/i/c/g//1/5", "partition"),
        (b"ReleaseGroup/0/1/i/c/g//0/soon", "expires_unix_s"),
    ],
)
def test_a_malformed_record_names_the_field(value: bytes | None, field: str) -> None:
    with pytest.raises(MalformedRecord) as raised:
        decode(value)
    assert raised.value.field == field
    assert raised.value.reason
    assert field in str(raised.value)


def test_leading_zeros_are_only_digits() -> None:
    zeros = b"0" * 5000
    assert decode(b"Heartbeat/1/1/i/c/g/t/" + zeros + b"7/1").partition == 7


def test_ids_that_are_not_utf8_survive_a_round_trip() -> None:
    value = b"Heartbeat/1/1/\xff\xfe/caf\xe9/\xc3\xa9/t/0/1"
    assert encode(decode(value)) == value


@pytest.mark.parametrize("field", ["instance_id", "client_id", "group_id", "topic"])
def test_a_slash_in_an_id_is_not_sent(field: str) -> None:
    ids = dict.fromkeys(("instance_id", "client_id", "group_id", "topic"), "x") | {field: "a/b"}
    with pytest.raises(UnsendableMessage, match=field):
        encode(ClaimingPartition(version=1, unix_s=1, partition=0, **ids))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        Heartbeat(1, 1, "i", "c", "g", "t", -1, 1),  # type: ignore[arg-type]
        Heartbeat(1, 1, "i", "c", "g", "t", 0, 2**63),  # type: ignore[arg-type]
        Heartbeat(1, 1, "\ud800", "c", "g", "t", 0, 1),  # type: ignore[arg-type]
        ReleaseGroup(0, 1, "i", "c", "g", "t", 0, 1),  # type: ignore[arg-type]
    ],
)
def test_what_would_not_come_back_is_not_sent(message: Message) -> None:
    with pytest.raises(UnsendableMessage):
        encode(message)


INT64 = st.integers(-(2**63), 2**63 - 1)
IDS = st.binary(max_size=12).map(lambda b: b.replace(b"/", b"").decode("utf-8", "surrogateescape"))
BASE = (INT64, INT64, IDS, IDS, IDS)
MESSAGES = st.one_of(
    st.builds(ClaimingPartition, *BASE, IDS, st.integers(0, PARTITION_MAX)),
    *(
        st.builds(kind, *BASE, IDS, st.integers(0, PARTITION_MAX), INT64)
        for kind in (Heartbeat, ReleasingPartition, ClaimingMessages)
    ),
    st.builds(ReleaseGroup, *BASE, st.just(""), st.just(0), INT64),
)


@given(MESSAGES)
def test_every_message_survives_a_round_trip(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize("vector", vectors("claim_partition.jsonl"), ids=lambda v: str(v)[:60])
def test_a_topic_is_coordinated_where_the_original_does(vector: dict[str, object]) -> None:
    topic, partitions = str(vector["topic"]), int(str(vector["partitions"]))
    assert coordinating_partition(topic, partitions) == vector["claim_partition"]


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_needs_a_coordinating_partition(partitions: int) -> None:
    with pytest.raises(ValueError, match="positive"):
        coordinating_partition("events", partitions)


def test_of_a_header_given_twice_the_last_counts() -> None:
    headers = decode_headers([("marshal-epoch", b"1"), ("other", b"x"), ("marshal-epoch", b"2")])
    assert headers == Headers(present=True, epoch=2)


@pytest.mark.parametrize("value", [None, b"", b"-1", b"+1", b"1.0", b" 1", b"\xb2", "x"])
def test_a_header_that_is_not_decimal_never_matches(value: bytes | str | None) -> None:
    assert decode_headers([("marshal-epoch", value)]).epoch == NOT_DECIMAL


def test_a_header_beyond_every_offset_is_still_decimal() -> None:
    for digits in ("9" * 19, "9" * 30, "9" * 5000, "0" * 5000 + "7"):
        [epoch] = [decode_headers([("marshal-epoch", digits)]).epoch]
        assert epoch is not None
        assert epoch == 7 or epoch >= 2**63


def test_headers_of_others_are_not_ours() -> None:
    assert not decode_headers([("traceparent", b"00-1")]).present
    assert decode_headers([("marshal-whatever", b"?")]) == Headers(present=True)


OFFSETS = st.none() | st.integers(0, 2**63 - 1)


@given(st.lists(OFFSETS, min_size=len(HEADER_FIELDS), max_size=len(HEADER_FIELDS)))
def test_headers_survive_a_round_trip(numbers: list[int | None]) -> None:
    given = dict(zip(HEADER_FIELDS.values(), numbers, strict=True))
    given["interval_ms"] = given["interval_ms"] or None  # an interval of nothing is none
    headers = Headers(any(number is not None for number in given.values()), **given)
    assert decode_headers(encode_headers(headers)) == headers


@pytest.mark.parametrize(
    ("value", "number"),
    [(b"1", 1), (b"007", 7), (b"4000", 4000), (str(2**63 - 1).encode(), 2**63 - 1)]
    + [(odd, None) for odd in (b"x", b"", None, b"-1", b"+1", b"1.5", "٣".encode(), b"9" * 19)],
)
def test_an_amendment_that_cannot_be_read_is_absent_and_named(
    value: bytes | None, number: int | None
) -> None:
    for name, field in HEADER_FIELDS.items():
        if field in AMENDMENTS:
            pairs = [("marshal-epoch", b"3"), (name, value)]
            read = Headers(True, epoch=3, **{field: number})
            assert decode_headers(pairs) == read
            assert malformed_amendments(pairs) == ((name,) if number is None else ())
            # Of a header given twice the last counts, also where it cannot be read.
            assert decode_headers([(name, b"5"), *pairs]) == read
            assert malformed_amendments([(name, b"x"), (name, b"5")]) == ()


def test_no_interval_is_no_interval() -> None:
    pairs = [("marshal-interval", b"0"), ("marshal-start", b"0"), ("marshal-done", b"0")]
    assert decode_headers(pairs) == Headers(True, start=0, done=0)
    assert malformed_amendments(pairs) == ("marshal-interval",)


def test_a_header_that_is_no_offset_is_not_sent() -> None:
    with pytest.raises(UnsendableMessage, match="marshal-epoch"):
        encode_headers(Headers(True, epoch=NOT_DECIMAL))
