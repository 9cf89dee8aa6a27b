"""Marshal promises that who knows ranges reads them, and that nobody else notices.

Today's readers are the codec's `decode` and whatever calls it: to them a ClaimingRange stays
malformed, as it is to the original and to older versions.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_marshal import Claim, Headers, MalformedRecord, UnsendableMessage, codec, range_codec
from kafka_marshal.capture import RawRecord
from kafka_marshal.core import wire
from kafka_marshal.core.messages import NO_HEADERS, NOT_DECIMAL, ClaimingRange, Heartbeat, Message
from kafka_marshal.core.ranges.claiming_range import range_guard
from kafka_marshal.core.ranges.messages import NO_RANGE_HEADERS, RangeHeaders
from kafka_marshal.core.ranges.reader import FoldedState
from kafka_marshal.core.ranges.state import (
    LIMITS,
    OFFSET_MAX,
    Interval,
    OpenRange,
    Ranges,
    SignOfLife,
)
from kafka_marshal.core.ranges.verdicts import RangeRefused
from kafka_marshal.range_codec import (
    decode_checkpoint,
    decode_claiming_range_headers,
    decode_range,
    decode_range_headers,
    encode_checkpoint,
    encode_range,
    encode_range_headers,
)
from tests.core.claims.test_properties import messages

IDS = st.text(st.characters(exclude_characters="/", codec="utf-8"), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
OFFSETS = st.integers(0, OFFSET_MAX)
ASKS = b"ClaimingRange/1/1700000000/i1/c1/g/events/3/500"

claiming_ranges: st.SearchStrategy[ClaimingRange] = st.builds(
    ClaimingRange,
    version=NUMBERS,
    unix_s=NUMBERS,
    instance_id=IDS,
    client_id=IDS,
    group_id=IDS,
    topic=IDS,
    partition=st.integers(0, codec.PARTITION_MAX),
    count=NUMBERS,
)


def asks() -> ClaimingRange:
    message = decode_range(ASKS)
    assert isinstance(message, ClaimingRange)
    return message


def test_a_reader_of_today_finds_it_malformed() -> None:
    for read in (codec.decode, lambda value: RawRecord(0, 0, 0, value).decoded()):
        with pytest.raises(MalformedRecord) as refused:
            read(ASKS)
        assert refused.value.field == "type"


def test_a_reader_of_today_cannot_send_it() -> None:
    with pytest.raises(KeyError, match="ClaimingRange"):
        codec.encode(decode_range(ASKS))  # type: ignore[arg-type]


@given(claiming_ranges)
def test_it_survives_its_encoding(message: ClaimingRange) -> None:
    value = encode_range(message)
    assert value.startswith(b"ClaimingRange/")
    assert decode_range(value) == message


@given(messages())
def test_the_old_messages_are_read_as_they_were(message: Message) -> None:
    value = codec.encode(message)
    assert encode_range(message) == value
    assert decode_range(value) == codec.decode(value) == message


@settings(max_examples=500)
@given(st.binary(max_size=60) | st.binary(max_size=40).map(lambda tail: ASKS[:-3] + tail))
def test_whatever_the_bytes_it_is_a_message_or_malformed(value: bytes) -> None:
    """And what both readers read is the same."""
    try:
        message = decode_range(value)
    except MalformedRecord:
        with pytest.raises(MalformedRecord):
            codec.decode(value)
        return
    assert decode_range(encode_range(message)) == message
    if not isinstance(message, ClaimingRange):
        assert codec.decode(value) == message


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (b"ClaimingRange/1/1/i/c/g/t/0", "length"),
        (b"ClaimingRange/1/1/i/c/g/t/0/1/2", "length"),
        (b"ClaimingRange/1/1/i/c/g/t/0/x", "n"),
        (b"ClaimingRange/1/1/i/c/g/t/0/9223372036854775808", "n"),
        (b"ClaimingRange/1/1/i/c/g/t/-1/1", "partition"),
        (b"claimingrange/1/1/i/c/g/t/0/1", "type"),
    ],
)
def test_a_malformed_one_names_its_field(value: bytes, field: str) -> None:
    with pytest.raises(MalformedRecord) as refused:
        decode_range(value)
    assert refused.value.field == field


def test_what_would_decode_to_something_else_is_not_sent() -> None:
    right = decode_range(ASKS)
    wrong: dict[str, Any] = {"instance_id": "a/b", "count": 2**63, "partition": -1}
    for field, value in wrong.items():
        with pytest.raises(UnsendableMessage) as refused:
            encode_range(attrs.evolve(right, **{field: value}))
        assert refused.value.field == field


# --- headers --------------------------------------------------------------------------------------

HEADER_SETS = st.builds(
    Headers,
    st.just(True),
    *[st.none() | OFFSETS] * 5,
    st.none() | st.integers(1, 10**6),
    st.none() | OFFSETS,
)
RANGE_HEADER_SETS = st.builds(RangeHeaders, *[st.none() | OFFSETS] * 3)


@given(HEADER_SETS, RANGE_HEADER_SETS)
def test_headers_survive_their_encoding(headers: Headers, more: RangeHeaders) -> None:
    pairs = encode_range_headers(headers, more)
    assert decode_range_headers(pairs) == more
    assert codec.decode_headers(pairs) == attrs.evolve(headers, done=more.done)


@given(HEADER_SETS)
def test_who_says_nothing_of_ranges_writes_what_it_always_wrote(headers: Headers) -> None:
    assert encode_range_headers(headers, NO_RANGE_HEADERS) == codec.encode_headers(headers)


@pytest.mark.parametrize("name", [header.name for header in wire.RANGE_HEADERS])
@pytest.mark.parametrize(
    "text", [b"", b"-1", b"+1", b"0x1", b"1.0", None, "٣", b"9223372036854775808"]
)
def test_a_header_of_ranges_that_is_no_offset_is_not_decimal(
    name: str, text: bytes | str | None
) -> None:
    assert NOT_DECIMAL in attrs.astuple(decode_range_headers([(name, text)]))


@pytest.mark.parametrize("name", ["marshal-ranges", "marshal-keep", "marshal-ranges-at"])
@pytest.mark.parametrize("text", [b"7", b"x", None])
def test_to_a_reader_of_today_a_header_of_ranges_says_nothing(
    name: str, text: bytes | None
) -> None:
    """But that there is one: every version asks whether a record has headers."""
    assert codec.decode_headers([(name, text)]) == Headers(present=True)


@pytest.mark.parametrize("name", [header.name for header in wire.HEADERS])
@pytest.mark.parametrize("text", [b"x", b"", None, b"-1", b"9223372036854775808"])
def test_on_a_claiming_range_every_header_is_checked(name: str, text: bytes | None) -> None:
    """No older version reads it, so nobody else has to come to the same verdict."""
    record = RawRecord(0, 9, 0, ASKS, ((name, text),)).decoded_with_ranges()
    assert range_guard(Ranges(), Claim(), record, asks()) is RangeRefused.HEADER_NOT_DECIMAL
    old = RawRecord(0, 9, 0, b"ClaimingPartition/1/1/i/c/g/t/0", ((name, text),))
    assert old.decoded_with_ranges().headers == old.decoded().headers


def test_what_a_claiming_range_says_is_read_as_of_any_record() -> None:
    said = (("marshal-interval", b"0"), ("marshal-seen", b"4"), ("marshal-seen", b"07"))
    record = RawRecord(0, 9, 0, ASKS, (*said, ("marshal-done", b"3"), ("x", b"x")))
    read = record.decoded_with_ranges()
    assert read.headers == Headers(True, seen=7, done=3)
    assert read.range_headers == RangeHeaders(done=3)
    assert RawRecord(0, 9, 0, ASKS).decoded_with_ranges().headers == NO_HEADERS


TEXTS = st.sampled_from([b"7", b"0", b"007", b"", b"x", b"-1", None, b"9" * 19, b"9" * 18, b"\xb2"])
NAMES = st.sampled_from([*codec.HEADER_FIELDS, *range_codec.RANGE_HEADER_FIELDS, "marshal-x", "x"])


@given(st.lists(st.tuples(NAMES, TEXTS), max_size=6))
def test_both_parts_of_its_headers_are_read_as_each_by_itself(
    pairs: list[tuple[str, bytes | None]],
) -> None:
    headers, range_headers = decode_claiming_range_headers(pairs)
    assert range_headers == decode_range_headers(pairs)
    older = codec.decode_headers(pairs)
    for field in attrs.asdict(headers):
        here, there = getattr(headers, field), getattr(older, field)
        assert here == there or (here == NOT_DECIMAL and (there is None or there > 2**63 - 1))


def test_of_a_header_given_twice_the_last_counts() -> None:
    pairs = [("marshal-keep", b"x"), ("marshal-keep", b"007"), ("marshal-ranges", b"0")]
    assert decode_range_headers(pairs) == RangeHeaders(window=0, keep=7)
    assert decode_range_headers([("marshal-epoch", b"1")]) is NO_RANGE_HEADERS


@pytest.mark.parametrize(
    ("headers", "more", "field"),
    [
        (NO_HEADERS, RangeHeaders(keep=1), "present"),
        (Headers(True, done=2), RangeHeaders(done=1), "marshal-done"),
        (Headers(True), RangeHeaders(keep=-1), "marshal-keep"),
        (Headers(True), RangeHeaders(window=NOT_DECIMAL), "marshal-ranges"),
        (Headers(True), RangeHeaders(done=2**63), "marshal-done"),
    ],
)
def test_headers_that_would_say_something_else_are_not_sent(
    headers: Headers, more: RangeHeaders, field: str
) -> None:
    with pytest.raises(UnsendableMessage) as refused:
        encode_range_headers(headers, more)
    assert refused.value.field == field


# --- the checkpoint -------------------------------------------------------------------------------


@st.composite
def checkpoints(draw: st.DrawFn) -> FoldedState:
    names = sorted(draw(st.sets(IDS, max_size=4)))
    alive = tuple(SignOfLife(name, draw(st.integers(-1, 10**15))) for name in names)
    edges = sorted(draw(st.sets(st.integers(0, 10**12), max_size=8)))
    pieces = [Interval(one, other) for one, other in zip(edges[::2], edges[1::2], strict=False)]
    ids = sorted(draw(st.sets(st.integers(0, 10**9), min_size=len(pieces), max_size=len(pieces))))
    holders = [draw(st.sampled_from([None, *names])) for _ in pieces]
    open_ = tuple(
        OpenRange(id_, piece.from_, piece.to, holder)
        for id_, piece, holder in zip(ids, pieces, holders, strict=True)
        if holder is not None
    )
    free = zip(pieces, holders, strict=True)
    pool = tuple(piece for piece, holder in free if holder is None)
    number, id_or_none = st.integers(0, OFFSET_MAX), st.none() | IDS
    claim = Claim(
        draw(id_or_none),
        draw(id_or_none),
        draw(st.none() | number),
        draw(number),
        draw(st.none() | number),
        draw(st.integers(-1, OFFSET_MAX)),
        draw(st.booleans()),
        draw(id_or_none),
        draw(st.none() | number),
        None,
        draw(st.booleans()),
    )
    window, clock_ms = draw(st.none() | number), draw(st.integers(-1, OFFSET_MAX))
    return FoldedState(claim, Ranges(window, draw(number), open_, pool, alive, clock_ms))


@given(checkpoints())
def test_a_checkpoint_survives_its_encoding(checkpoint: FoldedState) -> None:
    assert decode_checkpoint(encode_checkpoint(checkpoint)) == checkpoint


@settings(max_examples=300)
@given(checkpoints(), st.integers(0, 400), st.binary(max_size=3))
def test_a_checkpoint_has_one_spelling(checkpoint: FoldedState, at: int, instead: bytes) -> None:
    """What was changed on the way is malformed, or says something else as it is written."""
    value = encode_checkpoint(checkpoint)
    changed = value[:at] + instead + value[at + len(instead) + 1 :]
    try:
        read = decode_checkpoint(changed)
    except MalformedRecord as refused:
        assert refused.field == "marshal-ranges-at"
        return
    assert encode_checkpoint(read) == changed


SMALL = FoldedState(
    Claim("i", "ranges", 3, 5, 7, 7, True, None, None, None, True),
    Ranges(9, 14, (OpenRange(4, 5, 8, "b"),), (Interval(8, 14),), (SignOfLife("b", 6),), 8),
)
WRITTEN = b"1/=i/=ranges/3/5/7/7/1///1/9/14/8/1/b/6/1/4/5/3/0/1/8/6"


def test_a_checkpoint_says_everything_in_a_line() -> None:
    assert encode_checkpoint(SMALL) == WRITTEN
    assert decode_checkpoint(WRITTEN) == SMALL


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (b"1/=i", b"2/=i"),
        (b"1/=i", b"1/i"),
        (b"/1/b/6", b"/2/b/6/a/6"),
        (b"/1/b/6", b"/9000000000000000000/b/6"),
        (b"/1/b/6", b"/-1/b/6"),
        (b"/4/5/3/0", b"/4/5/0/0"),
        (b"/4/5/3/0", b"/4/5/3/1"),
        (b"/4/5/3/0", b"/4/9223372036854775807/1/0"),
        (b"/4/5/3/0", b"/04/5/3/0"),
        (b"1/4/5/3/0", b"2/4/5/1/0/4/6/1/0"),
        (b"1/8/6", b"2/8/6/9/1"),
        (b"1/8/6", b"1/8/6/"),
        (b"/8/6", b"/8"),
        (b"/1///1/", b"/2///1/"),
        (b"/14/8/1/b", b"/14/-2/1/b"),
    ],
)
def test_a_checkpoint_that_is_spelled_otherwise_is_malformed(was: bytes, now: bytes) -> None:
    assert WRITTEN.count(was) == 1
    with pytest.raises(MalformedRecord):
        decode_checkpoint(WRITTEN.replace(was, now))


def test_nothing_is_no_checkpoint() -> None:
    for nothing in (None, b"", "1"):
        with pytest.raises(MalformedRecord):
            decode_checkpoint(nothing)


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"alive": ()}, "open"),
        ({"frontier": 2**63}, "marshal-ranges-at"),
        ({"alive": (SignOfLife("b", 6), SignOfLife("a", 6))}, "marshal-ranges-at"),
        ({"alive": (SignOfLife("b/1", 6), SignOfLife("b", 6))}, "marshal-ranges-at"),
        ({"alive": (SignOfLife("b", 6), SignOfLife("\ud800", 6))}, "checkpoint"),
    ],
)
def test_a_state_that_no_fold_gives_is_not_sent(changed: dict[str, Any], field: str) -> None:
    ranges = attrs.evolve(SMALL.ranges, **changed)
    with pytest.raises(UnsendableMessage) as refused:
        encode_checkpoint(attrs.evolve(SMALL, ranges=ranges))
    assert refused.value.field == field


def test_a_claim_by_the_originals_rules_has_no_checkpoint() -> None:
    with pytest.raises(UnsendableMessage, match="another one"):
        encode_checkpoint(attrs.evolve(SMALL, claim=attrs.evolve(SMALL.claim, last_release_ms=1)))


def test_the_largest_checkpoint_fits_a_header() -> None:
    """64 instances with ids of 36 characters, and as many intervals as a claim may have."""
    names = [f"{number:036}" for number in range(64)]
    base = 10**12
    open_ = tuple(
        OpenRange(base + n, base + n * 1000, base + n * 1000 + 999, names[n % 64])
        for n in range(LIMITS.intervals_max)
    )
    alive = tuple(SignOfLife(name, 1_700_000_000_000) for name in names)
    ranges = Ranges(10**6, base + LIMITS.intervals_max * 1000, open_, (), alive, base)
    claim = Claim("x" * 36, "ranges", base, base, base, base, True, "y" * 36, base, None, True)
    assert len(encode_checkpoint(FoldedState(claim, ranges))) < 32 * 1024


def test_a_heartbeat_is_no_request_for_a_range() -> None:
    assert isinstance(decode_range(b"Heartbeat/1/1/i/c/g/t/0/1"), Heartbeat)
