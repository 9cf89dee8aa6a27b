"""Events of groups survive their bytes, and bytes that are no event are malformed.

Values come from random walks (`tests.core.groups.walking`), so snapshots are of groups that a fold
has. Then they are spoiled, as JSON and as bytes.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal.codec import MalformedRecord, UnsendableMessage
from kafka_marshal.core.groups.events import (
    ControllerStarted,
    EventRecord,
    GroupCreated,
    GroupSnapshot,
    MemberLeft,
    MemberRegistered,
    UnknownEvent,
)
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.groups.state import PARTITIONS_MAX
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.group_codec.events import FORMS, decode_event, encode_event
from kafka_marshal.group_codec.forms import OnlyField, Whole
from kafka_marshal.group_codec.records import (
    decode_headers,
    decode_record,
    encode_headers,
    encode_record,
)
from tests.core.groups.walking import Walk, folded


def walked(seed: int, count: int, *, honest: bool = True) -> list[EventRecord]:
    walk = Walk(seed, honest=honest)
    for _ in walk.steps(count):
        pass
    return walk.records


HONEST = walked(1, 400)


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_a_record_survives_its_bytes(seed: int) -> None:
    for record in walked(seed, 60):
        key, value, headers = encode_record(record)
        place = record.partition, record.offset, record.timestamp_ms
        assert decode_record(*place, key, value, headers) == record


def test_every_event_was_among_them() -> None:
    assert {type(record.event) for record in HONEST} == FORMS.keys()


def test_a_field_that_nobody_knows_is_passed_over() -> None:
    known = json.loads(encode_event(MemberLeft("m1", "done")))
    more = json.dumps({**known, "since": [1, {}]}).encode()
    assert decode_event(more) == MemberLeft("m1", "done")


# --- what is malformed ----------------------------------------------------------------------------

LEFT: dict[str, Any] = {"event": "MemberLeft", "version": 1, "member": "m1", "reason": ""}
RECONCILED: dict[str, Any] = {
    **{"event": "Reconciled", "version": 1, "member": "m1", "as_of": 1, "held": None},
    "positions": [],
}
AT = {"topic": "t", "partition": 0, "tenure": 1, "offset": 2}
CREATED: dict[str, Any] = {
    **{"event": "GroupCreated", "version": 1, "session_timeout_ms": 1000, "topics": {}},
    **{"rebalance": "eager", "strategy": "range", "ephemeral": False},
}
COUNT = {"count": 3000, "topic_id": "T"}
REGISTERED: dict[str, Any] = {
    **{"event": "MemberRegistered", "version": 1, "member": "m1", "client_id": ""},
    **{"topics": [], "static": [], "fresh": True},
}
REBALANCED: dict[str, Any] = {"event": "Rebalanced", "version": 1, "target": []}
PART: dict[str, Any] = {
    **{"topic": "t", "partition": 0, "owner": None, "tenure": 0, "target": None},
    **{"revoking": 0, "position": -1},
}
STATE: dict[str, Any] = {
    **{"session_timeout_ms": 1000, "rebalance": "eager", "strategy": "range", "ephemeral": False},
    **{"topics": {"t": {"count": 1, "topic_id": ""}}, "members": {}, "generation": 2},
    **{"rebalanced_at": 0, "target_of": {"members": {}, "topics": {}}, "partitions": [PART]},
}
SNAPSHOT: dict[str, Any] = {"event": "GroupSnapshot", "version": 1, "state": STATE}
NO_JSON = "value: it is no JSON in UTF-8"
NO_INT64 = "it is not in 0..9223372036854775807"
NO_WORD = "is none of the words that can stand here"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "value: null"),
        (b"", "value: empty"),
        (b"\xff", NO_JSON),
        (b"\xef\xbb\xbf{}", NO_JSON),
        (b"{", NO_JSON),
        (b"[]", "value: it is no JSON object"),
        (b'{"event": "MemberLeft", "version": NaN}', NO_JSON),
        (b"[" * 100_000, NO_JSON),
        (b'{"version": ' + b"9" * 5000 + b"}", NO_JSON),
        ('{"event": "GroupDeleted", "version": 1}'.encode("utf-16"), NO_JSON),
        ({}, "event: it is absent"),
        ({"event": "MemberLeft"}, "version: it is absent"),
        ({"event": "MemberLeft", "version": True}, "version: a flag is no whole number"),
        ({"event": "MemberLeft", "version": 1.0}, "version: a fraction is no whole number"),
        ({"event": "MemberLeft", "version": -1}, f"version: {NO_INT64}"),
        ({"event": "MemberLeft", "version": 2**63}, f"version: {NO_INT64}"),
        ({"event": ["MemberLeft"], "version": 1}, "event: a list is no text"),
        ({**LEFT, "member": None}, "member: null is no text"),
        ({**LEFT, "member": ""}, "member: it is empty"),
        ({**LEFT, "member": "\ud800"}, "member: a lone surrogate is no text"),
        ({**LEFT, "reason": {}}, "reason: an object is no text"),
        ({**RECONCILED, "as_of": -2}, "as_of: it is not in -1..9223372036854775807"),
        ({**RECONCILED, "as_of": "1"}, "as_of: text is no whole number"),
        ({**RECONCILED, "held": {}}, "held: an object is no list"),
        ({**RECONCILED, "held": [AT, AT]}, "held[1]: the partition stands in it twice"),
        ({**RECONCILED, "positions": None}, "positions: null is no list"),
        (
            {**RECONCILED, "positions": [AT, {**AT, "tenure": 2}]},
            "positions[1]: the partition stands in it twice",
        ),
        (
            {**RECONCILED, "positions": [{**AT, "partition": -1}]},
            "positions[0].partition: it is not in 0..2147483647",
        ),
        (
            {**RECONCILED, "positions": [{**AT, "partition": 2**31}]},
            "positions[0].partition: it is not in 0..2147483647",
        ),
        ({**RECONCILED, "positions": [{**AT, "topic": ""}]}, "positions[0].topic: it is empty"),
        ({**RECONCILED, "positions": [{"topic": "t"}]}, "positions[0].partition: it is absent"),
        ({**RECONCILED, "positions": [{**AT, "offset": -1}]}, f"positions[0].offset: {NO_INT64}"),
        ({**RECONCILED, "positions": ["t"]}, "positions[0]: text is no object"),
        ({**REGISTERED, "topics": ["a", "b", "a"]}, "topics: something stands in it twice"),
        ({**REGISTERED, "topics": ["a", 3]}, "topics[1]: a number is no text"),
        ({**REGISTERED, "topics": "a"}, "topics: text is no list"),
        ({**CREATED, "ephemeral": 0}, "ephemeral: a number is no flag"),
        ({**CREATED, "rebalance": 0}, "rebalance: a number is no text"),
        ({**CREATED, "rebalance": "x" * 50}, f"rebalance: '{'x' * 40}' {NO_WORD}"),
        (
            {**CREATED, "session_timeout_ms": 0},
            "session_timeout_ms: it is not in 1..9223372036854775807",
        ),
        ({**CREATED, "topics": []}, "topics: a list is no object"),
        ({**CREATED, "topics": {"t": 3}}, "topics.t: a number is no object"),
        (
            {**CREATED, "topics": {"t": {**COUNT, "count": 0}}},
            "topics.t.count: it is not in 1..4000",
        ),
        ({**CREATED, "topics": {"": COUNT}}, "topics: it is empty"),
        ({**CREATED, "topics": {"t": COUNT, "u": COUNT}}, "topics: more than 4000 partitions"),
        (
            {**REBALANCED, "target": [{"topic": "t", "partition": 0, "member": ""}]},
            "target[0].member: it is empty",
        ),
        ({**SNAPSHOT, "state": 3}, "state: a number is no object"),
        (
            {**SNAPSHOT, "state": {**STATE, "partitions": [{**PART, "topic": "u"}]}},
            "state: no group is like that: PartitionsAreTheTopics",
        ),
    ],
)
def test_what_is_no_event_is_malformed_and_says_where(given: object, text: str) -> None:
    value = json.dumps(given).encode() if isinstance(given, dict) else given
    with pytest.raises(MalformedRecord) as caught:
        decode_event(value)  # type: ignore[arg-type]
    assert str(caught.value) == f"malformed {text}"


def test_an_object_of_one_field_is_an_object() -> None:
    with pytest.raises(MalformedRecord, match=r"^malformed here: a number is no object$"):
        OnlyField("offset", Whole()).read("here", 3)


def test_a_name_or_a_version_that_is_not_known_is_a_later_versions() -> None:
    later = {"event": "MemberLeft", "version": 2}
    assert decode_event(json.dumps(later).encode()) == UnknownEvent("MemberLeft", 2)
    other = {"event": "MemberMoved", "version": 1, "member": 3}
    assert decode_event(json.dumps(other).encode()) == UnknownEvent("MemberMoved", 1)
    last = {"event": "MemberLeft", "version": 2**63 - 1}
    assert decode_event(json.dumps(last).encode()) == UnknownEvent("MemberLeft", 2**63 - 1)


def test_a_group_may_have_as_many_partitions_as_there_may_be() -> None:
    most = {**CREATED, "topics": {"t": COUNT, "u": {**COUNT, "count": 1000}}}
    event = decode_event(json.dumps(most).encode())
    assert isinstance(event, GroupCreated)
    assert sum(topic.count for topic in event.topics.values()) == PARTITIONS_MAX


STARTED = encode_event(ControllerStarted(-1, 1, "h", 1))
LATER = b'{"event":"MemberMoved","version":1}'
NEEDS = "an event of a group needs its id"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (b"g", STARTED, "an event of the controllership has none"),
        (b"", STARTED, "an event of the controllership has none"),
        (None, json.dumps(LEFT).encode(), NEEDS),
        (b"", json.dumps(LEFT).encode(), NEEDS),
        (b"\xff", json.dumps(LEFT).encode(), "it is not UTF-8"),
    ],
)
def test_a_key_that_is_not_the_events_is_malformed(
    key: bytes | None, value: bytes, text: str
) -> None:
    with pytest.raises(MalformedRecord) as caught:
        decode_record(0, 0, 0, key, value, [])
    assert str(caught.value) == f"malformed key: {text}"


@pytest.mark.parametrize(
    ("key", "value", "group"),
    [
        (None, STARTED, ""),
        (None, LATER, ""),
        ("née".encode(), LATER, "née"),
        (b"a\xff", LATER, "a\ufffd"),
        ("née".encode(), json.dumps(LEFT).encode(), "née"),
    ],
)
def test_the_key_names_the_group(key: bytes | None, value: bytes, group: str) -> None:
    assert decode_record(0, 0, 0, key, value, []).group == group


@pytest.mark.parametrize("number", [1, 7, 8])
def test_a_snapshot_has_no_number_that_is_not_below_its_own(number: int) -> None:
    """An event without a number is refused in any case, so it is not malformed."""
    value = json.dumps({**SNAPSHOT, "state": {**STATE, "generation": 7}}).encode()
    headers = encode_headers(3, number)
    if number > 7:
        assert decode_record(0, 0, 0, b"g", value, headers).number == number
    else:
        with pytest.raises(MalformedRecord) as caught:
            decode_record(0, 0, 0, b"g", value, headers)
        assert str(caught.value) == "malformed state: it has a number that is not below its own"
    assert decode_record(0, 0, 0, b"g", value, []).number == NOT_DECIMAL


@pytest.mark.parametrize(
    "text", [b"", b"07", b"+7", b"-7", b" 7", b"7.0", "٧".encode(), b"9" * 19, b"9" * 30, None]
)
def test_a_header_that_is_not_as_we_write_it_never_matches(text: bytes | None) -> None:
    headers = [("marshal-epoch", text), ("marshal-number", b"0")]
    assert decode_headers(headers) == (NOT_DECIMAL, 0)


@pytest.mark.parametrize("text", [b"9223372036854775807", "9223372036854775807"])
def test_a_header_holds_a_number_of_64_bits(text: bytes | str) -> None:
    assert decode_headers([("marshal-number", text)]) == (NOT_DECIMAL, 2**63 - 1)


def test_of_a_header_that_is_there_twice_the_last_counts() -> None:
    twice = [("marshal-epoch", b"1"), ("marshal-number", b"2"), ("marshal-epoch", b"3")]
    assert decode_headers(twice) == (3, 2)
    assert decode_headers([]) == (NOT_DECIMAL, NOT_DECIMAL)


LEAVES = EventRecord(0, 0, 0, MemberLeft("m", ""), "g", 1, 1)
STARTS = EventRecord(0, 0, 0, ControllerStarted(-1, 1, "h", 1))
NO_LIST: Any = ["a"]
UNSENDABLE = [
    ({"event": MemberLeft("", "no name")}, "member: it is empty"),
    (
        {"event": MemberLeft("m", "\ud800")},
        "event: something in it is no text: surrogates not allowed",
    ),
    (
        {"event": MemberRegistered("m", "c", NO_LIST, frozenset(), True)},
        "event: it would decode to another one",
    ),
    ({"event": UnknownEvent("MemberMoved", 1)}, "event: MemberMoved of version 1 is not known"),
    ({"group": ""}, "key: an event of a group needs its id"),
    ({"group": "\ud800"}, "key: it is no text: surrogates not allowed"),
    ({"epoch": -1}, "headers: they would decode to others"),
    ({"number": 2**63}, "headers: they would decode to others"),
]


@pytest.mark.parametrize(("wrong", "text"), UNSENDABLE)
def test_what_would_not_survive_is_not_sent(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsendableMessage) as caught:
        encode_record(attrs.evolve(LEAVES, **wrong))
    assert str(caught.value) == f"cannot encode {text}"


def test_a_start_has_neither_key_nor_headers() -> None:
    assert encode_record(STARTS) == (None, STARTED, [])
    assert encode_record(LEAVES) == (
        b"g",
        encode_event(LEAVES.event),  # type: ignore[arg-type]
        [("marshal-epoch", b"1"), ("marshal-number", b"1")],
    )


# --- anything -------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 9)
    | st.sampled_from([2**63 - 1, 2**63, 1e300, 0.5, "m1", "t", "", "\ud800", "eager"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


def folds(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> None:
    """A record of anything is malformed, or the reducer has a verdict on it and goes on."""
    try:
        record = decode_record(0, 30, 0, key, value, headers)
    except MalformedRecord:
        return
    after = step(THEN, record).controllership
    for event in EVENTS:  # whatever it was, the fold goes on
        next_ = EventRecord(0, 31, 0, event, "g", after.epoch, after.number + 1)
        after = step(after, next_).controllership


EVENTS = [record.event for record in HONEST[30:60]]
THEN = folded(HONEST[:30])
NEXT = THEN.number + 1
FENCES = st.lists(
    st.tuples(
        st.sampled_from(["marshal-epoch", "marshal-number", "other"]),
        st.sampled_from([str(THEN.epoch).encode(), b"1", str(NEXT).encode(), b"x"])
        | st.binary(max_size=3),
    ),
    max_size=3,
)


@settings(max_examples=60)
@given(st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=60), FENCES)
def test_bytes_are_malformed_or_folded(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> None:
    folds(key, value, headers)


def places(given: object, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in some JSON."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(given, dict):
        inner = list(given.items())
    elif isinstance(given, list):
        inner = list(enumerate(given))
    return [here, *(place for at, each in inner for place in places(each, (*here, at)))]


def spoiled(given: Any, place: tuple[Any, ...], by: Any) -> Any:
    """The same JSON with something else in one place."""
    if not place:
        return by
    at, *rest = place
    copied = dict(given) if isinstance(given, dict) else list(given)
    copied[at] = spoiled(given[at], tuple(rest), by)
    return copied


VALUES = [json.loads(encode_event(r.event)) for r in HONEST]  # type: ignore[arg-type]
SNAPSHOTS = [each for each in VALUES if each["event"] == GroupSnapshot.__name__]


@settings(max_examples=200)
@given(st.integers(0, 2**32), JSON)
def test_an_event_with_anything_in_one_place_is_malformed_or_folded(seed: int, by: object) -> None:
    random = Random(seed)
    value = random.choice(random.choice([VALUES, SNAPSHOTS]))
    wrong = json.dumps(spoiled(value, random.choice(places(value)), by)).encode()
    folds(random.choice([None, b"g", b"h", b"new"]), wrong, encode_headers(THEN.epoch, NEXT))
