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
    GroupSnapshot,
    MemberLeft,
    UnknownEvent,
)
from kafka_marshal.core.groups.reducer import step
from kafka_marshal.core.messages import NOT_DECIMAL
from kafka_marshal.group_codec.events import FORMS, decode_event, encode_event
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


def test_an_event_is_an_object_that_others_read() -> None:
    given = json.loads(encode_event(MemberLeft("m1", "née")))
    assert given == {"event": "MemberLeft", "version": 1, "member": "m1", "reason": "née"}


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


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (None, "value"),
        (b"", "value"),
        (b"\xff", "value"),
        (b"\xef\xbb\xbf{}", "value"),
        (b"{", "value"),
        (b"[]", "value"),
        (b'{"event": "MemberLeft", "version": NaN}', "value"),
        (b"[" * 100_000, "value"),
        (b'{"version": ' + b"9" * 5000 + b"}", "value"),
        ('{"event": "GroupDeleted", "version": 1}'.encode("utf-16"), "value"),
        ({}, "event"),
        ({"event": "MemberLeft"}, "version"),
        ({"event": "MemberLeft", "version": True}, "version"),
        ({"event": "MemberLeft", "version": 1.0}, "version"),
        ({"event": "MemberLeft", "version": -1}, "version"),
        ({"event": "MemberLeft", "version": 2**63}, "version"),
        ({"event": ["MemberLeft"], "version": 1}, "event"),
        ({**LEFT, "member": None}, "member"),
        ({**LEFT, "member": ""}, "member"),
        ({**LEFT, "member": "\ud800"}, "member"),
        ({**LEFT, "reason": {}}, "reason"),
        ({**RECONCILED, "as_of": -2}, "as_of"),
        ({**RECONCILED, "as_of": "1"}, "as_of"),
        ({**RECONCILED, "held": {}}, "held"),
        ({**RECONCILED, "held": [AT, AT]}, "held[1]"),
        ({**RECONCILED, "positions": None}, "positions"),
        ({**RECONCILED, "positions": [AT, {**AT, "tenure": 2}]}, "positions[1]"),
        ({**RECONCILED, "positions": [{**AT, "partition": -1}]}, "positions[0].partition"),
        ({**RECONCILED, "positions": [{**AT, "partition": 2**31}]}, "positions[0].partition"),
        ({**RECONCILED, "positions": [{**AT, "topic": ""}]}, "positions[0].topic"),
        ({**RECONCILED, "positions": [{**AT, "offset": -1}]}, "positions[0].offset"),
        ({**RECONCILED, "positions": ["t"]}, "positions[0]"),
        ({**CREATED, "ephemeral": 0}, "ephemeral"),
        ({**CREATED, "rebalance": "lazy"}, "rebalance"),
        ({**CREATED, "session_timeout_ms": 0}, "session_timeout_ms"),
        ({**CREATED, "topics": {"t": 3}}, "topics.t"),
        ({**CREATED, "topics": {"t": {**COUNT, "count": 0}}}, "topics.t.count"),
        ({**CREATED, "topics": {"": COUNT}}, "topics"),
        ({**CREATED, "topics": {"t": COUNT, "u": COUNT}}, "topics"),
    ],
)
def test_what_is_no_event_is_malformed_and_says_where(given: object, field: str) -> None:
    value = json.dumps(given).encode() if isinstance(given, dict) else given
    with pytest.raises(MalformedRecord) as caught:
        decode_event(value)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_name_or_a_version_that_is_not_known_is_a_later_versions() -> None:
    later = {"event": "MemberLeft", "version": 2}
    assert decode_event(json.dumps(later).encode()) == UnknownEvent("MemberLeft", 2)
    other = {"event": "MemberMoved", "version": 1, "member": 3}
    assert decode_event(json.dumps(other).encode()) == UnknownEvent("MemberMoved", 1)


@pytest.mark.parametrize(
    ("key", "event"),
    [(b"g", ControllerStarted(-1, 1, "h", 1)), (None, LEFT), (b"", LEFT), (b"\xff", LEFT)],
)
def test_a_key_that_is_not_the_events_is_malformed(key: bytes | None, event: object) -> None:
    value = (
        encode_event(event) if isinstance(event, ControllerStarted) else json.dumps(event).encode()
    )
    with pytest.raises(MalformedRecord) as caught:
        decode_record(0, 0, 0, key, value, [])
    assert caught.value.field == "key"


@pytest.mark.parametrize(
    "text", [b"", b"07", b"+7", b"-7", b" 7", b"7.0", "٧".encode(), b"9" * 19, b"9" * 30, None]
)
def test_a_header_that_is_not_as_we_write_it_never_matches(text: bytes | None) -> None:
    headers = [("marshal-epoch", text), ("marshal-number", b"0")]
    assert decode_headers(headers) == (NOT_DECIMAL, 0)


def test_of_a_header_that_is_there_twice_the_last_counts() -> None:
    twice = [("marshal-epoch", b"1"), ("marshal-number", b"2"), ("marshal-epoch", b"3")]
    assert decode_headers(twice) == (3, 2)
    assert decode_headers([]) == (NOT_DECIMAL, NOT_DECIMAL)


def test_what_would_not_survive_is_not_sent() -> None:
    with pytest.raises(UnsendableMessage):
        encode_event(MemberLeft("", "no name"))
    with pytest.raises(UnsendableMessage):
        encode_event(MemberLeft("\ud800", "no text"))
    left = EventRecord(0, 0, 0, MemberLeft("m", ""), "g", 1, 1)
    for wrong in ({"group": ""}, {"group": "\ud800"}, {"epoch": -1}, {"number": 2**63}):
        with pytest.raises(UnsendableMessage):
            encode_record(attrs.evolve(left, **wrong))
    with pytest.raises(UnsendableMessage):
        encode_record(attrs.evolve(left, event=UnknownEvent("MemberMoved", 1)))


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
NEAR = [str(THEN.epoch).encode(), b"1", str(NEXT).encode(), b"x"]
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
